"""Objectives in searches, and objectives that users define."""

import numpy as np
import pytest
from scipy.linalg import toeplitz

import corrnoise as cn
from corrnoise.solvers.objectives import coarse
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.records import record
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.recursion import Recursion

EPOCHS = cn.Participation.fixed_epochs(24, epochs=3)


@record
class Forgetting(Objective):
    """Two sums of the noise that forget it at different rates, each counted in the second half of the run."""

    steps: int

    def recursion(self) -> Recursion:
        kept = np.array([0.9, 0.5])[np.newaxis, :, np.newaxis, np.newaxis]
        late = np.arange(self.steps) >= self.steps // 2
        return Recursion(kept, np.ones((1, 2, 1)), np.outer(late, [1.0, 3.0]))


@record
class LastSteps(Objective):
    """The noise of the last steps, more of it the later."""

    steps: int

    def weight_matrix(self) -> np.ndarray:
        return np.diag(np.arange(1.0, self.steps + 1)) + 0.5


def weights_by_hand(objective: Objective) -> np.ndarray:
    n = objective.steps
    if isinstance(objective, LastSteps):
        return np.diag(np.arange(1.0, n + 1)) + 0.5
    found = np.zeros((n, n))
    for kept, weight in ((0.9, 1.0), (0.5, 3.0)):
        rows = toeplitz(kept ** np.arange(n), np.zeros(n))[n // 2 :]
        found += weight * rows.T @ rows
    return found


@pytest.mark.parametrize("objective", [Forgetting(24), LastSteps(24)])
def test_an_objective_of_a_user_is_one_class(objective: Objective) -> None:
    weights, rng = weights_by_hand(objective), np.random.default_rng(2)
    noising, other = np.exp(-0.3 * np.arange(24)) * rng.normal(size=(2, 24))
    matrix, direction = (toeplitz(one, np.zeros(24)) for one in (noising, other))
    value, gradient = objective.power(noising)
    assert value == pytest.approx(float((weights * (matrix @ matrix.T)).sum()), rel=1e-12)
    assert gradient @ other == pytest.approx(2 * float((weights * (matrix @ direction.T)).sum()), rel=1e-10)
    gap = objective.matrix().T @ objective.matrix() / 24 - weights
    assert np.abs(gap).max() < 1e-9 * np.abs(weights).max()
    outputs, inputs = rng.uniform(0.05, 0.2, (2, 24, 2))
    varying = TimeVaryingBuffers([0.9, 0.99], outputs, inputs, rng.uniform(0.5, 2, 24))
    scaled = ScaledNoise.normalised(NuFTRL(0.02), EPOCHS)
    found: list[Mechanism] = [DPSGD(), NuFTRL(0.02), scaled, varying, BinaryTree(24)]
    best = cn.optimise(objective, EPOCHS, memory=1)
    design = cn.design(cn.Budget(rho=0.5), EPOCHS, objective, memory=1)
    assert best.family == design.family == ("time-varying buffers" if objective.groups else design.family)
    assert design.error == pytest.approx(best.error, rel=1e-9)
    for noise in [*found, best.mechanism]:
        dense = noise.noising_matrix(24)
        assert noise.squared_error(objective) == pytest.approx(float((weights * (dense @ dense.T)).sum()), rel=1e-11)
    for one in (best, *best.alternatives):
        dense = one.mechanism.noising_matrix(24)
        square = float((weights * (dense @ dense.T)).sum())
        assert one.error == pytest.approx(one.sensitivity.upper * square**0.5, rel=1e-9)
        assert one.lower_bound is not None
        assert one.lower_bound <= one.error * (1 + 1e-9)
    certified = cn.optimise(objective, EPOCHS, family="dense")
    assert certified.lower_bound is not None
    assert 0.999 < certified.lower_bound / certified.error <= 1


def test_an_objective_without_a_form_says_what_is_missing() -> None:
    @record
    class Nothing(Objective):
        steps: int

    with pytest.raises(TypeError, match=r"Nothing must define recursion\(\) or weight_matrix\(\)"):
        Nothing(4).power(np.ones(4))
    with pytest.raises(TypeError, match="objective must be"):
        cn.optimise(3, EPOCHS)  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [1, 10**6])
def test_what_a_search_finds_is_judged_by_all_modes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search may take fewer groups; errors are those of the objective of learning itself."""
    monkeypatch.setattr("corrnoise.solvers.objectives.LARGEST_WHOLE", most)
    what = LearningObjective(LinearRegression(0.8 ** np.arange(100.0), 0.1), 40, weights="second half")
    rng = np.random.default_rng(0)
    outputs, inputs = rng.uniform(0.05, 0.2, (2, 40, 2))
    varying = TimeVaryingBuffers([0.9, 0.99], outputs, inputs, np.ones(40))
    for noise in (DPSGD(), NuFTRL(0.01), varying):
        noising = noise.noising_matrix(40)
        exact = float((noising * (what.weight_matrix() @ noising)).sum())
        assert noise.squared_error(what) == pytest.approx(exact, rel=1e-9)
        quick = noise.squared_error(coarse(what))
        assert (abs(quick / exact - 1) > 1e-6) == (most == 1)
