"""Toeplitz noise with factors of steps and of draws: brackets, covered programs, unit columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.worst_case import worst_case
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from tests.strategies import noises, participations

N = 24
GROWING = np.arange(1, N + 1) ** 0.5


@given(noises(), st.integers(2, 14), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_fixed_epochs_are_those_of_the_dense_strategy(noise, n, period, seed):
    """The blocks of the Gram matrix in O(n k)."""
    run = ScaledNoise(noise, np.exp(np.random.default_rng(seed).normal(size=n)))
    who = Participation.fixed_epochs(n, period=period)
    quick, dense = run.bracket(who), Mechanism.bracket(run, who)
    assert quick.value == pytest.approx(dense.value, rel=1e-9)
    assert quick.lower <= dense.upper
    assert dense.lower <= quick.upper
    without = noise.bracket(who)
    same = ScaledNoise(noise, np.ones(n)).bracket(who)
    assert same.lower <= without.upper
    assert without.lower <= same.upper


@given(participations(), noises(), st.integers(0, 2**32 - 1))
def test_draws_that_are_scaled(who, noise, seed):
    """C = diag(1/g) T(c) diag(1/d); columns and entries have the stated errors."""
    n = who.length
    steps, draws = np.exp(np.random.default_rng(seed).normal(size=(2, n)))
    run = ScaledNoise(noise, steps, draws)
    strategy = noise.strategy(n) / np.outer(draws, steps)
    np.testing.assert_allclose(run.strategy(), strategy, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(run.column_norms(), np.linalg.norm(strategy, axis=0), rtol=1e-12)
    truth = worst_case(strategy, who)
    found = run.bracket(who)
    assert found.lower <= truth.upper * (1 + 1e-12)
    assert truth.value <= found.upper * (1 + 1e-12)


def test_a_machine_that_cancels_its_own_noise():
    """β = (1 − z)/(1 − (1 − a) z) and draws k^{g/2}: known sensitivities and mean variances, 100 participations."""
    known = {(1.0, 0): (10, 100), (1.0, 1): (2.27758150626, 261.962564641), (0.1, 0): (1.41067359797, 10.0271745156),
             (0.3, 1): (1.17339847306, 133.767591035)}  # fmt: skip
    single = Participation.single(100)
    for (a, growth), (gamma, variance) in known.items():
        noise = PoleNoise([0.0], [a])
        run = ScaledNoise(noise, None, np.arange(1, 101) ** (growth / 2))
        assert run.sensitivity(single) == pytest.approx(gamma, rel=1e-10)
        assert run.mean_error(single) ** 2 == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize("noise", [PoleNoise([0.05], [0.3]), FiniteNoise([1, -0.4, -0.2]),
                                   BandedStrategyNoise([1, 0.5, 0.25])], ids=repr)  # fmt: skip
@pytest.mark.parametrize("who", [Participation.single(N), Participation.min_sep(N, 6),
                                 Participation.reshuffled(N, period=6)], ids=Participation.summary)  # fmt: skip
def test_programs_cover_the_exact_sensitivity_and_cost_little(noise, who):
    for steps, draws in ((GROWING, None), (None, GROWING), (1 / GROWING, GROWING)):
        run = ScaledNoise(noise, steps, draws)
        program = run.program(who)
        assert run.sensitivity_upper_bound(who) < program.sensitivity
        assert program.sensitivity == pytest.approx(run.sensitivity_upper_bound(who), rel=1e-5)
        assert program.step_scales is not None or steps is None or program.form == "substitution"


def test_a_convolution_whose_draws_differ_too_much_is_refused():
    """T5 (ii) needs κ max g/min g < 1."""
    noise = FiniteNoise([1, -0.4, -0.2])
    steep = ScaledNoise(noise, None, np.geomspace(1e-12, 1, N))
    with pytest.raises(ValueError, match="must have a finite sensitivity"):
        steep.program(Participation.single(N))
    # An error of the strategy itself is added instead, whatever the draws.
    assert ScaledNoise(AntiPGD(0.4), None, np.geomspace(1e-12, 1, N)).program(Participation.single(N)).sensitivity > 0


def test_normalised_columns_and_shares_of_epochs():
    """Unit columns; with at most b bands, the squared norms of an example's columns add up to 1."""
    b, weights = 6, np.array([0.1, 0.2, 0.3, 0.4])
    once = Participation.single(N)
    inverse = BandedNoise(np.array([np.ones(N), [0.3] * (N - 1) + [0]]))
    unit = ScaledNoise.normalised(FiniteNoise([1.0, 0.4, 0.1]), once)
    np.testing.assert_allclose(np.linalg.norm(unit.strategy(), axis=0), 1, rtol=1e-14)
    for who in (Participation.min_sep(N, b), Participation.fixed_epochs(N, epochs=4)):
        weighted = ScaledNoise.normalised(PoleNoise([], [0.7]), who, weights)
        assert weighted.bands() == 2
        assert weighted.sensitivity(who) == pytest.approx(1, rel=1e-14)
        assert ScaledNoise.normalised(PoleNoise([], [0.7]), who).sensitivity(who) == pytest.approx(2, rel=1e-14)
        assert inverse.sensitivity(who) == pytest.approx(worst_case(inverse.strategy(), who).value, rel=1e-14)
        with pytest.raises(ValueError, match="weights must have the sum 1"):
            ScaledNoise.normalised(NuFTRL(0.1), who, weights * 1.1)
        with pytest.raises(ValueError, match=r"weights must have shape \(4,\)"):
            ScaledNoise.normalised(NuFTRL(0.1), who, weights[1:] / 0.9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ScaledNoise(DPSGD(), [1.0, 0.0]), "step_scales must lie in"),
        (lambda: ScaledNoise(DPSGD(), None, [1.0, -1.0]), "draw_scales must lie in"),
        (lambda: ScaledNoise(DPSGD()), "step_scales or draw_scales must be given"),
        (lambda: ScaledNoise(DPSGD(), [1.0], [1.0, 2.0]), "same length"),
        (lambda: ScaledNoise(NuFTRL(0.1), np.ones(4)).program(Participation.single(4)), "give rational"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
