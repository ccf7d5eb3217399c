"""Which accountant covers which sampling, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.theory.amplification.accountant import CutCurve
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import (
    DIRECTIONS,
    Curve,
    DeltaBound,
    Direction,
    epsilon_of,
    noise_multiplier_of,
)
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import BallsInBins, Participation
from corrnoise.theory.privacy import Budget, gaussian_delta

BUDGET = Budget(epsilon=2.0, delta=1e-6)
POISSON = Participation.poisson(60, 0.1)
BANDS = BandedStrategyNoise(NuFTRL(0.0).inverse_coefficients(4))
CYCLIC = Participation.cyclic_poisson(60, period=4, rate=0.4)


def poisson_curve(curve: Curve) -> PoissonCurve:
    assert isinstance(curve, PoissonCurve)
    return curve


# -- pairs -------------------------------------------------------------------------------------------------------------


def test_independent_noise_is_a_product_of_equal_steps() -> None:
    curve = poisson_curve(POISSON.covering(DPSGD()))
    assert curve.above == curve.below == (Factor(0.1, 1.0, 60),)
    assert curve.attained
    scaled = ScaledNoise(DPSGD(), step_scales=np.repeat([1.0, 2.0], 30))
    assert poisson_curve(POISSON.covering(scaled)).above == (Factor(0.1, 1.0, 30), Factor(0.1, 0.5, 30))


def test_columns_of_a_group_are_steps_at_the_rate_of_the_group() -> None:
    """Every column has the norm of the whole strategy but the last of the groups that end within it."""
    curve = poisson_curve(CYCLIC.covering(BANDS))
    norm = float(np.linalg.norm(BANDS.values))
    assert [(one.rate, one.count) for one in curve.above] == [(0.4, 15)]
    assert curve.above[0].norm == pytest.approx(norm, rel=1e-14)
    longer = Participation.cyclic_poisson(61, period=4, rate=0.4)
    curve = poisson_curve(longer.covering(BANDS))
    assert [one.count for one in curve.above] == [15, 1]  # group 0 ends with a column of one entry
    assert curve.above[1].norm == pytest.approx(float(BANDS.values[0]), rel=1e-14)


def test_the_rate_is_that_of_the_group_and_not_of_the_batch() -> None:
    """Mutant: the batch rate, a quarter of it, would promise far too much."""
    truth = CYCLIC.covering(BANDS)
    misread = Participation.cyclic_poisson(60, period=4, rate=0.1).covering(BANDS)
    for direction in DIRECTIONS:
        assert misread.delta(1.0, 2.0, direction).upper < truth.delta(1.0, 2.0, direction).lower / 5


def test_the_law_of_an_example_of_a_group() -> None:
    """Monte Carlo of the whole run of two groups: a false alarm at 5 standard errors, 6e-7."""
    n, sigma, rate, epsilon = 4, 1.2, 0.5, 0.3
    strategy = np.eye(n) - 0.7 * np.eye(n, k=-1)
    who = Participation.cyclic_poisson(n, period=2, rate=rate)
    noise = MatrixNoise(strategy)
    rng = np.random.default_rng(5)
    z = rng.standard_normal((400_000, n))
    ratio = np.ones(len(z))
    for s in (0, 2):  # the first group
        shift = np.abs(strategy[:, s]) / sigma
        ratio *= 1 - rate + rate * np.exp(z @ shift - shift @ shift / 2)
    values = np.maximum(ratio - math.exp(epsilon), 0.0)
    found = who.covering(noise).delta(epsilon, sigma, "remove")
    assert abs(values.mean() - found.upper) < 5 * values.std() / math.sqrt(len(z))


def test_norms_are_widened_by_the_error_of_the_program() -> None:
    exact = poisson_curve(POISSON.covering(DPSGD()))
    widened = poisson_curve(POISSON.covering(DPSGD(), column_error=0.01))
    assert widened.above[0].norm == pytest.approx(1.01, rel=1e-14)
    assert widened.below[0].norm == pytest.approx(0.99, rel=1e-14)
    inner, outer = exact.delta(1.0, 1.0, "remove"), widened.delta(1.0, 1.0, "remove")
    assert outer.lower < inner.lower <= inner.upper < outer.upper
    swallowed = POISSON.covering(DPSGD(), column_error=2.0).delta(1.0, 1.0, "remove")
    assert swallowed.lower == 0.0 < swallowed.upper


def test_many_norms_become_few_on_the_safe_side() -> None:
    scales = np.linspace(1.0, 2.0, 60)
    noise = ScaledNoise(DPSGD(), step_scales=scales)
    curve = poisson_curve(POISSON.covering(noise))
    assert len(curve.above) == len(curve.below) == 8
    for factors, compare in ((curve.above, np.greater_equal), (curve.below, np.less_equal)):
        merged = np.repeat([one.norm for one in factors], [one.count for one in factors])
        assert compare(merged * (1 + (1e-12 if factors is curve.above else -1e-12)), np.sort(1 / scales)[::-1]).all()


def test_at_rate_1_the_run_is_one_gaussian_mechanism() -> None:
    found = Participation.poisson(4, 1.0).covering(DPSGD()).delta(1.0, 3.0, "add")
    exact = gaussian_delta(4 / 18, 1.0)
    assert found.lower <= exact <= math.nextafter(found.upper, 1)


# -- capacity ----------------------------------------------------------------------------------------------------------


def test_a_capacity_has_its_price() -> None:
    cut = Participation.poisson(60, 0.1, capacity=45, examples=200)
    curve = cut.covering(DPSGD())
    assert isinstance(curve, CutCurve)
    assert not curve.attained
    free = POISSON.covering(DPSGD())
    tau = cut.overflow
    assert 0 < tau < 0.1
    for direction in DIRECTIONS:
        priced, whole = curve.delta(1.0, 1.0, direction), free.delta(1.0, 1.0, direction)
        assert priced.upper >= tau + (1 - tau) * whole.upper * (1 - 1e-15)
        assert priced.upper == pytest.approx(tau + (1 - tau) * whole.upper, rel=1e-14)
    with pytest.raises(ValueError, match="budget must be reached by a noise multiplier up to 1e"):
        noise_multiplier_of(curve, 1.0, tau / 2)
    assert epsilon_of(curve, tau / 2, 1.0, "remove").upper == math.inf


# -- programs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "who"), [(DPSGD(), POISSON), (BANDS, CYCLIC)], ids=["DP-SGD", "bands"])
def test_a_program_is_private_at_its_multiplier(noise: Any, who: Participation) -> None:
    program = noise.program(who)
    multiplier = program.multiplier(BUDGET)
    worst = noise.program(who.worst).multiplier(BUDGET)
    assert multiplier < worst / 2
    found = cn.privacy.amplified(noise, who, noise_multiplier=multiplier, epsilon=2.0)
    assert found.upper <= 1e-6
    assert found.kind == "certified"
    again = cn.privacy.amplified(noise, who, noise_multiplier=multiplier, delta=1e-6)
    assert again.upper <= 2.0
    assert again.lower > 2.0 - 1e-4
    assert cn.privacy.amplified(noise, who, noise_multiplier=multiplier / 1.001, epsilon=2.0).lower > 1e-6


def test_the_worst_case_is_taken_where_it_is_smaller() -> None:
    """At rate 1 amplification is nothing, and the certificate of the worst case is exact."""
    who = Participation.poisson(8, 1.0)
    budget = Budget(epsilon=0.5, delta=1e-7)
    assert DPSGD().program(who).multiplier(budget) <= DPSGD().program(who.worst).multiplier(budget)


def test_rounding_stays_within_the_bands() -> None:
    program = BANDS.program(CYCLIC, form="transform")
    with pytest.raises(ValueError, match="form must be 'substitution' or 'strategy column'"):
        program.multiplier(BUDGET)
    column = BANDS.program(CYCLIC, form="strategy column", dtype="float32")
    assert column.multiplier(BUDGET) == pytest.approx(BANDS.program(CYCLIC).multiplier(BUDGET), rel=1e-4)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Participation.fixed_epochs(8, epochs=2, secret=True).covering(DPSGD()), "H2"),
        (lambda: Participation.reshuffled(8, epochs=2, secret=True).covering(DPSGD()), "equal size violate H2"),
        (lambda: Participation.min_sep(8, 2).covering(DPSGD()), r"balls_in_bins.*\[H2, H4\]"),
        (lambda: Participation.poisson(10, 1e-13), r"rate must lie in \[1e-12, 1\], got 1e-13"),
        (lambda: Participation.cyclic_poisson(10, period=2, rate=1e-310), r"rate must lie in \[1e-12, 1\]"),
        (
            lambda: DPSGD().program(Participation.poisson(10, 1e-9)).multiplier(Budget(epsilon=1.0, delta=1e-6)),
            "uses an example with probability at most 1e-08, below delta=1e-06.*more steps or a larger rate",
        ),
        (lambda: POISSON.covering(BANDS), "one band for Poisson sampling, got 4"),
        (
            lambda: Participation.cyclic_poisson(60, period=3, rate=0.3).covering(BANDS),
            "at most as many bands as there are groups, period=3",
        ),
        (lambda: POISSON.covering(DPSGD(), column_error=-1.0), "column_error must lie in"),
        (lambda: DPSGD().program(POISSON).multiplier(Budget(1.0)), "amplified curves are no zCDP"),
        (
            lambda: DPSGD().program(POISSON).multiplier(Budget(epsilon=1.0, delta=1e-5, adjacency="replace-one")),
            "zero-out adjacency",
        ),
        (lambda: BANDS.program(POISSON).multiplier(BUDGET), "one band for Poisson sampling"),
        (lambda: cn.privacy.amplified(DPSGD(), POISSON, noise_multiplier=1.0), "delta or epsilon must be given"),
        (
            lambda: cn.privacy.amplified(
                DPSGD(), Participation.fixed_epochs(8, epochs=2, secret=True), noise_multiplier=1.0, delta=1e-5
            ),
            "violate H2",
        ),
        (lambda: cn.privacy.amplified(DPSGD(), POISSON, noise_multiplier=0.0, delta=1e-5), "noise_multiplier must lie"),
    ],
)
def test_what_no_accountant_covers_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# -- searches ----------------------------------------------------------------------------------------------------------


class Loose(Curve):
    """A curve whose estimate is wrong: only what is verified counts."""

    attained = False
    factor: float

    def __init__(self, factor: float) -> None:
        self._set(factor=factor)

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        truth = gaussian_delta(0.5 / noise_multiplier**2, epsilon)
        return DeltaBound(truth, truth, "certified", "a Gaussian mechanism")

    def estimate(self, epsilon: float, noise_multiplier: float, direction: Direction) -> tuple[float, float]:
        found = self.delta(epsilon, noise_multiplier, direction)
        return found.lower / self.factor, found.upper / self.factor


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_searches_verify_their_results(factor: float) -> None:
    """A wrong estimate costs accuracy and never privacy."""
    curve = Loose(factor)
    found = noise_multiplier_of(curve, 1.0, 1e-5)
    assert curve.delta(1.0, found, "remove").upper <= 1e-5
    assert found < 1.2 * (2 * cn.privacy.gaussian_rho(1.0, 1e-5)) ** -0.5
    bracket = epsilon_of(curve, 1e-5, 1.0, "add")
    assert bracket.lower <= cn.privacy.gaussian_epsilon(0.5, 1e-5) <= bracket.upper


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("noise", "who"),
    [
        (DPSGD(), Participation.poisson(32, 0.1)),
        (BandedStrategyNoise([1.0, 0.5, 0.25]), Participation.cyclic_poisson(32, period=4, rate=0.4)),
        (cn.mechanisms.rational(NuFTRL(0.05), 1e-3), Participation.balls_in_bins(32, period=8)),
    ],
    ids=["Poisson", "cyclic Poisson", "bins"],
)
def test_the_curve_of_a_program_holds_its_rounding(noise: Any, who: Participation, dtype: Any) -> None:
    """Its norms are at least what covers one participation; those of exact arithmetic are smaller."""
    form = None if dtype in noise.FORMS[noise.forms()[0]] else "strategy column"
    program = noise.program(who, dtype, form)
    covered = program.mechanism.covered(Participation.single(32), program.form, dtype)[1]

    def squared_norm(curve: Any) -> float:
        if isinstance(curve, PoissonCurve):
            return max(factor.norm for factor in curve.above) ** 2
        return float(np.diagonal(curve.upper).max())

    exact = squared_norm(who.covering(program.mechanism))
    held = squared_norm(program.curve)
    participations = who.worst.count if isinstance(who, BallsInBins) else 1
    added = participations * (covered - float(noise.column_norms(32).max()))
    assert added > 0
    assert math.sqrt(held) >= math.sqrt(exact) + added * (1 - 1e-6)


class Adding(Loose):
    """A curve whose δ of addition is twice that of removal, which no known run has."""

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        found = super().delta(epsilon, noise_multiplier, direction)
        factor = 2.0 if direction == "add" else 1.0
        return DeltaBound(found.lower * factor, found.upper * factor, found.kind, found.comparison)


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_noise_multiplier_is_verified_in_both_directions(factor: float) -> None:
    curve = Adding(factor)
    sigma = noise_multiplier_of(curve, 1.0, 1e-5)
    assert max(curve.delta(1.0, sigma, direction).upper for direction in DIRECTIONS) <= 1e-5
    assert sigma > noise_multiplier_of(Loose(factor), 1.0, 1e-5)
