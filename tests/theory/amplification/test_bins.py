"""The accountants of balls in bins and of redrawn bins, their Gram matrix, and what must not be confused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.theory.amplification.bins import BinsCurve, bins_curve, redrawn_bins_curve
from corrnoise.theory.amplification.curve import epsilon_of, noise_multiplier_of
from corrnoise.theory.amplification.gram import LARGEST_MATRIX, gram
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import gaussian_delta
from tests.theory.amplification.bins_oracle import MANY, PAIR, PAIR_REFERENCES, REFERENCES, exact

DIRECTIONS = ("remove", "add")


def bins(steps, period):
    return Participation.balls_in_bins(steps, period=period)


def brute_force(matrix, number):
    moduli = np.abs(matrix)
    vectors = [moduli[:, i::number].sum(axis=1) for i in range(number)]
    return np.array([[float(x @ y) for y in vectors] for x in vectors])


# -- the Gram matrix ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 30), st.just(0.0) | st.floats(1e-300, 1), st.floats(0, 0.1))
def test_gram_of_toeplitz_noise(number, steps, nu, error):
    """Ends that are close to the sums over columns, where n need not be a multiple of b."""
    found = gram(NuFTRL(nu), steps, number, error)
    truth = brute_force(NuFTRL(nu).strategy(steps), number)
    assert (found.lower <= truth).all()
    assert (truth <= found.upper).all()
    assert (found.upper - found.lower <= 1e-9 + 40 * error * math.ceil(steps / number) * (1 + truth.max())).all()
    assert found.attained


@given(st.integers(2, 6), st.integers(2, 12), st.integers(0, 2**32))
def test_gram_covers_programs(number, steps, seed):
    """No strategy whose columns differ by at most the column error leaves the ends."""
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.normal(size=(steps, steps))) + 2 * np.eye(steps)
    matrix[1, 0] = -0.5
    error = 0.03
    found = gram(MatrixNoise(matrix), steps, number, error)
    shift = np.tril(rng.normal(size=(steps, steps)))
    shift *= error / np.linalg.norm(shift, axis=0)
    truth = brute_force(matrix + shift, number)
    assert (found.lower <= truth).all()
    assert (truth <= found.upper).all()
    exact_ends = gram(MatrixNoise(matrix), steps, number)
    assert not ((exact_ends.lower <= truth) & (truth <= exact_ends.upper)).all()  # without it they are left
    assert not found.attained


def test_gram_of_a_long_run_with_factors_of_the_steps():
    steps, number = LARGEST_MATRIX + 5, 3
    noise = NuFTRL(0.1)
    scaled = ScaledNoise.normalised(noise, Participation.single(steps))
    found = gram(scaled, steps, number)
    series = np.abs(noise.inverse_coefficients(steps))
    column = np.zeros(steps)
    for s in range(1, steps, number):
        column[s:] += series[: steps - s] / scaled.step_scales[s]
    truth = float(column @ column)
    assert found.lower[1, 1] <= truth <= found.upper[1, 1]
    assert found.upper[1, 1] - found.lower[1, 1] < 1e-6 * truth
    with pytest.raises(ValueError, match="Toeplitz noise above 4096 steps"):
        gram(DummyStrategy(), steps, number)


class DummyStrategy:
    """A strategy of which nothing is known."""


# -- balls in bins -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("v", "epsilon", "remove", "add"), REFERENCES)
def test_two_independent_bins(v, epsilon, remove, add):
    curve = bins_curve(DPSGD(), 2, 2)
    for direction, truth in (("remove", remove), ("add", add)):
        found = curve.delta(epsilon, 1 / math.sqrt(v), direction)
        assert found.lower <= truth <= found.upper < 1.005 * found.lower
        assert found.kind == "certified"


@pytest.mark.parametrize(("epsilon", "remove", "add"), PAIR_REFERENCES)
def test_two_correlated_bins(epsilon, remove, add):
    curve = BinsCurve(4 * PAIR, 4 * PAIR, True)
    for direction, truth in (("remove", remove), ("add", add)):
        found = curve.delta(epsilon, 2.0, direction)
        assert found.lower <= truth <= found.upper < 1.01 * found.lower


@pytest.mark.parametrize(("v", "b", "epsilon", "remove", "add"), MANY)
def test_many_independent_bins(v, b, epsilon, remove, add):
    curve = bins_curve(DPSGD(), b, b)
    for direction, truth in (("remove", remove), ("add", add)):
        found = curve.delta(epsilon, 1 / math.sqrt(v), direction)
        assert found.lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= found.upper < 1.01 * found.lower


@pytest.mark.slow
def test_epsilon_and_the_noise_multiplier_of_independent_bins():
    curve = bins_curve(DPSGD(), 64, 64)
    for direction, truth in (("remove", 0.833181), ("add", 0.530832)):
        found = epsilon_of(curve, 1e-5, 1.0, direction)
        assert found.lower - 1e-6 <= truth <= found.upper + 1e-6 < truth + 0.001
    sigma = noise_multiplier_of(curve, 0.833181, 1e-5)
    assert 1.0 <= sigma < 1.001
    assert max(curve.delta(0.833181, sigma, direction).upper for direction in DIRECTIONS) <= 1e-5


@pytest.mark.parametrize("signs", [1, -1])
def test_three_bins_and_the_trap_of_the_signs(signs):
    """C = (1, ∓½, .1): the pair is that of |C|, which gradients of changing sign reach; C itself has smaller δ."""
    strategy = np.eye(3) + signs * 0.5 * np.eye(3, k=-1) + 0.1 * np.eye(3, k=-2)
    curve = bins_curve(MatrixNoise(strategy), 3, 3)
    assert curve.attained == (signs == 1)
    for epsilon, direction, truth in (
        (2, "remove", 0.0080103032),
        (1, "remove", 0.0781923911),
        (1, "add", 0.0710517061),
    ):
        found = curve.delta(epsilon, 1.0, direction)
        assert found.lower <= truth * (1 + 1e-6)
        assert truth * (1 - 1e-6) <= found.upper
    without_moduli = np.array([[1.26, -0.55, 0.1], [-0.55, 1.25, -0.5], [0.1, -0.5, 1.0]])
    assert math.isclose(exact(without_moduli, 2.0, "remove"), 0.0034771168, rel_tol=1e-5)
    assert curve.delta(2.0, 1.0, "remove").lower > 0.0034771168


@pytest.mark.slow
@settings(max_examples=2)
@given(st.floats(0.5, 4), st.floats(0.1, 2), st.sampled_from(DIRECTIONS), st.integers(2, 3))
def test_brackets_contain_the_truth_and_fall_with_the_noise(sigma, epsilon, direction, number):
    curve = bins_curve(NuFTRL(0.2), 2 * number, number)
    truth = exact(curve.upper / sigma**2, epsilon, direction, 2001 if number == 2 else 401)
    found = curve.delta(epsilon, sigma, direction)
    assert found.lower <= truth * (1 + 1e-4) + 1e-12
    assert truth * (1 - 1e-4) - 1e-12 <= found.upper
    more = curve.delta(epsilon, 1.2 * sigma, direction)
    assert more.lower <= found.upper
    assert more.upper <= found.upper * 1.001 + 1e-12
    estimate = curve.estimate(epsilon, sigma, direction)
    assert estimate[1] >= truth * (1 - 1e-4) - 1e-12


@pytest.mark.slow
def test_larger_moduli_give_larger_curves():
    small, large = (bins_curve(BandedStrategyNoise([1.0, c]), 6, 3) for c in (0.3, 0.6))
    for direction in DIRECTIONS:
        assert small.delta(0.5, 1.0, direction).upper < large.delta(0.5, 1.0, direction).lower


def test_one_bin_is_a_gaussian_mechanism():
    curve = bins_curve(NuFTRL(0.5), 5, 1)
    truth = gaussian_delta(float(curve.upper[0, 0]) / 8, 1.0)
    for direction in DIRECTIONS:
        found = curve.delta(1.0, 2.0, direction)
        assert math.isclose(found.upper, truth, rel_tol=1e-6)
        assert found.lower <= truth * (1 + 1e-9)


@pytest.mark.slow
def test_correlated_noise_has_a_close_upper_end_by_the_ring():
    """The truth is about 1.19 for remove, by simulation."""
    curve = bins_curve(NuFTRL(1 / 16), 512, 128)
    found = epsilon_of(curve, 1e-5, 2.52, "remove")
    assert 1.19 < found.upper < 1.22
    assert "ring" in curve.delta(found.upper, 2.52, "remove").comparison
    estimate = curve.estimate(found.upper, 2.52, "remove")[1]
    assert 0.98 < estimate / 1e-5 < 1


# -- redrawn bins ------------------------------------------------------------------------------------------------------


def test_fixed_bins_are_no_redrawn_bins():
    """With the same steps an example that keeps its bin is seen better."""
    fixed = bins_curve(DPSGD(), 40, 10)
    redrawn = redrawn_bins_curve(DPSGD(), 40, 10)
    for direction in DIRECTIONS:
        assert fixed.delta(1.0, 1.5, direction).lower > 1.2 * redrawn.delta(1.0, 1.5, direction).upper


def test_redrawn_bins_of_one_epoch_are_bins():
    redrawn = redrawn_bins_curve(DPSGD(), 2, 2)
    assert redrawn.attained
    for v, epsilon, remove, add in REFERENCES:
        for direction, truth in (("remove", remove), ("add", add)):
            found = redrawn.delta(epsilon, 1 / math.sqrt(v), direction)
            assert found.lower <= truth <= found.upper < 1.005 * found.lower


def test_redrawn_bins_with_correlated_noise_are_refused():
    with pytest.raises(ValueError, match="no independent factors"):
        Participation.redrawn_bins(40, period=10).covering(NuFTRL(0.1))


def test_the_accountants_are_those_of_the_table():
    assert bins(4, 2).covering(DPSGD()) == bins_curve(DPSGD(), 4, 2)
    assert Participation.redrawn_bins(4, period=2).covering(DPSGD()).steps == 4


def test_few_bins_with_correlated_noise_have_a_bracket_without_a_ring():
    curve = bins_curve(NuFTRL(1 / 16), 24, 6)
    for direction in DIRECTIONS:
        found = curve.delta(1.0, 2.5, direction)
        worst = gaussian_delta(float(curve.upper.max()) / 12.5, 1.0)
        assert 0.5 * found.upper < found.lower < found.upper < 0.8 * worst
        assert "ring" not in found.comparison
