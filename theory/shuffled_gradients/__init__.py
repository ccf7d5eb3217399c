"""Private shuffled gradient methods with public data (Jiang, Sharma, Wu and Joshi, arXiv 2502.03652).

What a run is made of (``schedules``, ``losses``), how private it is (``amplification``, ``accountants``, and the exact
``divergences`` that these bound), and how far it comes (``dissimilarity``, ``surrogates``, ``convergence``, ``rates``).
"""

from corrnoise.theory.shuffled_gradients.accountants import Accountant, Training, accountant
from corrnoise.theory.shuffled_gradients.convergence import ShuffledRun
from corrnoise.theory.shuffled_gradients.schedules import (
    Schedule,
    dp_shuffled,
    interleaved,
    private_then_public,
    public_then_private,
)

__all__ = [
    "Accountant",
    "Schedule",
    "ShuffledRun",
    "Training",
    "accountant",
    "dp_shuffled",
    "interleaved",
    "private_then_public",
    "public_then_private",
]
