"""The best share of its last noise for a machine to take back: one vector, as published, and one line that differs.

Noise with more buffers, and the least of all noises, come from ``optimise`` for the same workload.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.objectives.workloads import Workload
from corrnoise.theory.participation import Participation


def best_share(participation: Participation, workload: Workload | None = None) -> Mechanism:
    """The share of its last noise, taken back in each step, with the least mean error of a workload.

    The noise keeps one vector.  A search over the logarithm of the share ends at an error of 1e-6; independent noise,
    of the share 0, is returned where no share is better.

    Parameters
    ----------
    participation : Participation
        With a number of steps.
    workload : Workload, optional
        Of as many steps; None for prefix sums, ``regret_workload`` for the regret of linear losses.
    """

    def noise(log_share: float) -> PoleNoise:
        return PoleNoise([0.0], [float(np.exp(log_share))])

    lowest = -2 * np.log(participation.length + 1.0) - 3
    found = minimize_scalar(
        lambda x: noise(x).mean_error(participation, workload),
        bounds=(lowest, -1e-9),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return noise(found.x) if found.fun < DPSGD().mean_error(participation, workload) else DPSGD()
