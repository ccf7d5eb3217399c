"""Private shuffled gradient methods with public data (Jiang, Sharma, Wu and Joshi, arXiv 2502.03652).

Runs (``run``, ``schedules``), how private it is (``accountants``, ``amplification``, and ``exact_runs``, the
exact divergences that these bound), and how far it comes (``convergence``, ``dissimilarity``, ``task_constants``,
``table_rates``).
"""

from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients

__all__ = ["ShuffledGradients"]
