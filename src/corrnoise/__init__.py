"""Correlated noise for differentially private optimisation: check the theory, design the noise, run it.

>>> import corrnoise as cn
>>> budget = cn.Budget(epsilon=2.0, delta=1e-6, clip_norm=1.0)
>>> design = cn.design(budget, cn.Participation.fixed_epochs(400, epochs=4), memory=4)
>>> print(f"{design.optimality_gap:.1%}")
3.8%

Names are loaded when they are first used.  ``__init__.pyi`` repeats them for type checkers; a test compares both lists.
"""

import logging

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    [
        "datasets",
        "families",
        "flower",
        "jax",
        "ledger",
        "losses",
        "mechanisms",
        "objectives",
        "opacus",
        "papers",
        "participation",
        "privacy",
        "torch",
    ],
    {
        "designs.design": ["Design"],
        "designs.make": ["design"],
        "designs.storage": ["load", "save"],
        "paper_checks": ["claims"],
        "simulations.audit": ["audit"],
        "simulations.auditing.scores": ["audit_scores"],
        "simulations.quadratic": ["simulate"],
        "simulations.run.account": ["Account"],
        "simulations.run.batches": ["batches"],
        "simulations.run.folder": ["Folder"],
        "simulations.run.private": ["PrivateRun"],
        "simulations.run.status": ["run_status"],
        "simulations.spectrum": ["hessian_spectrum"],
        "simulations.tuning": ["tune"],
        "solvers.default": ["default_noise"],
        "solvers.optimise": ["optimise"],
        "solvers.optimum": ["Optimum"],
        "support.version": ["__version__", "show_versions"],
        "theory.participation": ["Participation"],
        "theory.privacy": ["Budget"],
        "theory.problems.quadratic": ["LinearRegression", "MeanEstimation"],
        "theory.problems.strongly_convex": ["StronglyConvex"],
        "theory.objectives.workloads": ["SGD"],
    },
)
logging.getLogger(__name__).addHandler(logging.NullHandler())  # programs choose whether to show the log
