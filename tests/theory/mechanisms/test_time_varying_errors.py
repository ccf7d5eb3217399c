"""Gradients of errors, against differences along random directions."""

import numpy as np
import pytest

from corrnoise.theory.mechanisms import time_varying_errors
from corrnoise.theory.objectives.workloads import MomentumSGD, PrefixSums
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.theory.mechanisms.differences import STEPS, derivatives, start

SYSTEMS = {
    "prefix sums": PrefixSums(STEPS),
    "momentum": MomentumSGD(STEPS, momentum=0.9, weight_decay=0.01, learning_rates=np.linspace(1.0, 0.1, STEPS)),
    "learning": LearningObjective(LinearRegression([1.0, 0.5, 0.1], learning_rate=0.2), STEPS, weights="second half"),
}


@pytest.mark.parametrize("buffers", [1, 3])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_gradient_of_errors(name, buffers):
    system = SYSTEMS[name].recursion()
    slopes = np.linspace(0.5, 1.0, STEPS)

    def error(mine):
        errors = np.empty(STEPS)
        time_varying_errors.covariances(system, mine, errors, False)
        return float(slopes @ errors)

    at = start(buffers)
    kept = time_varying_errors.covariances(system, at, np.empty(STEPS), True)
    gradient = time_varying_errors.error_gradient(system, at, slopes, kept)
    assert max(map(abs, derivatives(error, gradient, at))) < 1e-6
    mutant = time_varying_errors.error_gradient(system, at, np.ones(STEPS), kept)  # forgets the slopes
    assert max(map(abs, derivatives(error, mutant, at))) > 0.1
