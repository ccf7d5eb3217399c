"""Privacy curves against mpmath at 120 digits, Google's dp-accounting, and each other.

The oracles evaluate the published formulas directly; they share no code, and no rearrangement, with what they test.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, ZCDpEvent
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from flint import arb, ctx
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp
from scipy import special

from corrnoise.theory import privacy
from corrnoise.theory.numerics.rounding import rounded_up
from corrnoise.theory.privacy import (
    UNIT_BUDGET,
    Budget,
    approx_dp_to_zcdp,
    gaussian_delta,
    gaussian_deltas,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    gaussian_odometer,
    gaussian_rho,
    zcdp_to_approx_dp,
)
from tests.strategies import log_uniform

DELTAS = [1e-300, 1e-100, 1e-10, 1e-5, 0.1, 0.5, 0.9, 1 - 1e-10]
RHOS = [1e-20, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 3.0, 100.0, 1e4, 1e6]
EPSILONS = [0.0, 1e-12, 1e-4, 0.1, 1.0, 10.0, 300.0, 1e5]


def previous(x: float) -> float:
    return math.nextafter(x, 0.0)


def following(x: float) -> float:
    return math.nextafter(x, math.inf)


def random_arguments(count: int, seed: int) -> list[tuple[float, float, float]]:
    """ρ, ε, δ at random on logarithmic scales, with ε near the curve as often as far from it."""
    rng = np.random.default_rng(seed)
    rho = 10 ** rng.uniform(-20, 6, count)
    near = rho + np.sqrt(2 * rho) * rng.normal(size=count) * 5
    epsilon = np.where(rng.random(count) < 0.5, np.clip(near, 0, 1e5), 10 ** rng.uniform(-12, 5, count))
    delta = np.where(rng.random(count) < 0.7, 10 ** rng.uniform(-300, 0, count), 1 - 10 ** rng.uniform(-10, -1, count))
    return list(zip(rho.tolist(), epsilon.tolist(), delta.tolist(), strict=True))


# -- oracles -----------------------------------------------------------------------------------------------------------


def gaussian_curve(rho: float, epsilon: float) -> Any:
    """Theorem 8 of Balle and Wang, as printed, with μ = sqrt(2ρ)."""
    with mp.workdps(120 - round(math.log10(min(rho, 1.0)))):
        mu, e = mp.sqrt(2 * mp.mpf(rho)), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


def zcdp_curve(rho: float, epsilon: float) -> Any:
    """min over α > 1 of exp((α − 1)(α ρ − ε))/(α − 1) (1 − 1/α)^α, by golden section in log(α − 1)."""
    with mp.workdps(50):
        r, e = mp.mpf(rho), mp.mpf(epsilon)

        def log_delta(u: Any) -> Any:
            alpha = 1 + mp.exp(u)
            return (alpha - 1) * (alpha * r - e) - u + alpha * mp.log1p(-1 / alpha)

        low, high, golden = mp.mpf(-45), mp.mpf(45), (mp.sqrt(5) - 1) / 2
        x, y = high - golden * (high - low), low + golden * (high - low)
        fx, fy = log_delta(x), log_delta(y)
        while high - low > 1e-15:
            if fx < fy:
                high, y, fy = y, x, fx
                x = high - golden * (high - low)
                fx = log_delta(x)
            else:
                low, x, fx = x, y, fy
                y = low + golden * (high - low)
                fy = log_delta(y)
        return mp.exp(min(fx, fy))


# -- checks: the arguments at which a statement fails ------------------------------------------------------------------


def not_smallest_delta() -> Iterator[tuple[float, float]]:
    """``gaussian_delta`` is the smallest float that is at least δ(ε)."""
    points = [*product(RHOS, EPSILONS), *((r, e) for r, e, _ in random_arguments(300, 1))]
    return (
        (r, e)
        for r, e in points
        for value in [privacy.gaussian_delta(r, e)]
        if not previous(value) < gaussian_curve(r, e) <= value
    )


def not_smallest_epsilon() -> Iterator[tuple[float, float]]:
    """``gaussian_epsilon`` is the smallest float ε >= 0 with δ(ε) <= δ."""
    points = [*product(RHOS, DELTAS), *((r, d) for r, _, d in random_arguments(100, 2))]
    return (
        (r, d)
        for r, d in points
        for value in [privacy.gaussian_epsilon(r, d)]
        if not gaussian_curve(r, value) <= d or (value > 0 and not gaussian_curve(r, previous(value)) > d)
    )


def not_largest_rho() -> Iterator[tuple[float, float]]:
    """``gaussian_rho`` is the largest float ρ with δ(ε) <= δ."""
    points = [*product(EPSILONS, DELTAS[1:]), *((e, d) for _, e, d in random_arguments(100, 3))]
    return (
        (e, d)
        for e, d in points
        for value in [privacy.gaussian_rho(e, d)]
        if (value > 0 and not gaussian_curve(value, e) <= d) or not gaussian_curve(following(value), e) > d
    )


def not_smallest_zcdp_epsilon() -> Iterator[tuple[float, float]]:
    """``zcdp_to_approx_dp`` is the smallest float ε >= 0 at which the optimised δ is at most δ."""
    points = [*product(RHOS, DELTAS), *((r, d) for r, _, d in random_arguments(100, 4))]
    return (
        (r, d)
        for r, d in points
        for value in [privacy.zcdp_to_approx_dp(r, d)]
        if not zcdp_curve(r, value) <= d or (value > 0 and not zcdp_curve(r, previous(value)) > d)
    )


def not_largest_zcdp_rho() -> Iterator[tuple[float, float]]:
    """``approx_dp_to_zcdp`` is the largest float ρ at which the optimised δ is at most δ."""
    points = [*product(EPSILONS[2:], DELTAS), *((max(e, 1e-6), d) for _, e, d in random_arguments(100, 5))]
    return (
        (e, d)
        for e, d in points
        for value in [privacy.approx_dp_to_zcdp(e, d)]
        if not zcdp_curve(value, e) <= d or not zcdp_curve(following(value), e) > d
    )


CHECKS = [not_smallest_delta, not_smallest_epsilon, not_largest_rho, not_smallest_zcdp_epsilon, not_largest_zcdp_rho]


@pytest.mark.slow
@pytest.mark.parametrize("failures", CHECKS, ids=lambda check: check.__name__)
def test_values_are_the_nearest_floats_on_the_safe_side(failures: Callable[[], Iterator]) -> None:
    assert list(failures()) == []


def test_extreme_floats_stay_on_the_safe_side() -> None:
    assert gaussian_delta(1e-20, 1e5) == 5e-324  # δ = e^{−2.5e29}, never 0
    assert gaussian_delta(1e6, 0.0) == 1.0
    assert gaussian_delta(1e300, 1e300) == pytest.approx(0.5, rel=1e-15)
    assert gaussian_rho(0.0, 1e-300) == approx_dp_to_zcdp(0.0, 1e-300) == 0.0  # about 1e-600
    for rho, delta in product([5e-324, 1e-200, 1e200, 1.7e308], [5e-324, 1 - 2**-53]):
        assert 0.0 <= gaussian_epsilon(rho, delta) <= zcdp_to_approx_dp(rho, delta) <= math.inf
    for epsilon, delta in product([5e-324, 1e-200, 1e200, 1.7e308], [5e-324, 1 - 2**-53]):
        assert gaussian_rho(epsilon, delta) >= approx_dp_to_zcdp(epsilon, delta) >= 0.0


def test_precision_of_the_caller_is_neither_used_nor_changed() -> None:
    expected = gaussian_epsilon(0.3, 1e-7), zcdp_to_approx_dp(0.3, 1e-7)
    with ctx.workprec(8):
        assert (gaussian_epsilon(0.3, 1e-7), zcdp_to_approx_dp(0.3, 1e-7)) == expected
        assert ctx.prec == 8


# -- mutants -----------------------------------------------------------------------------------------------------------

_curve, gain_of, best_rho = privacy.gaussian_curve, privacy.gain_of, privacy.best_rho
GAUSSIAN, ZCDP = CHECKS[:3], CHECKS[3:]
MUTANTS: dict[str, tuple[str, Callable, list]] = {
    "mu = sqrt(rho)": ("gaussian_curve", lambda rho, epsilon: _curve(rho / 2, epsilon), GAUSSIAN),
    "mu = 2 sqrt(rho)": ("gaussian_curve", lambda rho, epsilon: _curve(2 * rho, epsilon), GAUSSIAN),
    "relative error 1e-15": ("gaussian_curve", lambda rho, epsilon: _curve(rho, epsilon) * (1 + arb(1e-15)), GAUSSIAN),
    "no (1 - 1/alpha)^alpha": (
        "gain_of",
        lambda a, delta: gain_of(a, delta) - (1 + 1 / a) * (1 / a).log1p(),
        ZCDP,
    ),
    "power alpha - 1": ("gain_of", lambda a, delta: gain_of(a, delta) - (1 / a).log1p() / a, ZCDP),
    "order 0.1% from the best": ("best_rho", lambda a, delta: best_rho(a, delta) * arb(1.002), ZCDP),
    "rounding to nearest": ("rounded_up", float, [CHECKS[0], *ZCDP]),
    "rounding up twice": ("rounded_up", lambda x: following(float(x)) if x > 0 else 0.0, [CHECKS[0]]),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_checks_reject(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, replacement, checks = MUTANTS[mutant]
    monkeypatch.setattr(privacy, name, replacement)
    for failures in checks:
        assert any(True for _ in failures()), f"{failures.__name__} accepts: {mutant}"


# -- what the numbers mean ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "epsilon"), [(0.5, 0.0), (0.5, 1.0), (0.02, 0.7), (8.0, 12.0)])
def test_gaussian_delta_is_the_hockey_stick_divergence(rho: float, epsilon: float) -> None:
    """∫ (p − e^ε q)₊ for the densities p, q of N(μ, 1), N(0, 1), by quadrature."""

    def divergence(mu: Any) -> float:
        with mp.workdps(30):
            start = epsilon / mu + mu / 2  # p > e^ε q beyond
            return float(
                mp.quad(
                    lambda t: mp.npdf(t, mu) - mp.exp(epsilon) * mp.npdf(t), [start, start + 3, start + 12, start + 40]
                )
            )

    assert gaussian_delta(rho, epsilon) == pytest.approx(divergence(mp.sqrt(2 * rho)), rel=1e-14)
    assert gaussian_delta(rho, epsilon) != pytest.approx(divergence(mp.sqrt(rho)), rel=1e-2)  # mutant


@pytest.mark.parametrize(("rho", "epsilon"), [(1e13, 1e13), (1e13, 1e13 + 1e7), (1e20, 1e20), (4e12, 4e12 - 1e6)])
def test_the_gaussian_curve_of_budgets_beyond_all_use(rho: float, epsilon: float) -> None:
    """Where erfc is taken by Tricomi's function: against e^ε erfc(y) in full."""
    with mp.workdps(120):
        centre, half = mp.mpf(epsilon) / (2 * mp.sqrt(rho)), mp.sqrt(rho) / 2
        assert centre + half > 10**6
        exact = (mp.erfc(centre - half) - mp.exp(epsilon) * mp.erfc(centre + half)) / 2
        assert exact <= mp.mpf(gaussian_delta(rho, epsilon)) <= exact * (1 + mp.mpf(2) ** -51)


def test_zcdp_mechanism_above_the_gaussian_curve() -> None:
    """Randomised response with ε₀ = 1 is ½-zCDP and not (0, 0.383)-DP, as the Gaussian mechanism with ρ = ½ is."""
    p = math.e / (1 + math.e)
    orders = 1 + np.logspace(-6, 3, 200)
    renyi = np.logaddexp(
        orders * np.log(p) + (1 - orders) * np.log1p(-p), orders * np.log1p(-p) + (1 - orders) * np.log(p)
    ) / (orders - 1)
    assert (renyi <= orders / 2).all()

    its_delta = 2 * p - 1  # at ε = 0: the total variation distance
    assert its_delta == pytest.approx(0.4621, abs=5e-5)
    assert gaussian_delta(0.5, 0.0) == pytest.approx(0.3829, abs=5e-5)
    assert gaussian_delta(0.5, 0.0) < its_delta
    # So the exact curve would call it (0, δ)-DP at a δ below its own; the conversion does not.
    assert gaussian_epsilon(0.5, 0.4) == 0.0
    assert zcdp_to_approx_dp(0.5, 0.4) > 0.3
    assert zcdp_curve(0.5, 0.0) >= its_delta


def test_the_two_guarantees_of_one_budget() -> None:
    assert gaussian_epsilon(0.5, 1e-5) == pytest.approx(4.3772, abs=5e-5)
    assert zcdp_to_approx_dp(0.5, 1e-5) == pytest.approx(4.7284, abs=5e-5)
    assert gaussian_rho(1.0, 1e-5) == pytest.approx(0.035926, abs=5e-7)
    assert approx_dp_to_zcdp(1.0, 1e-5) == pytest.approx(0.030557, abs=5e-7)


def test_published_guarantees_of_keyboard_models() -> None:
    """ρ = 0.15 and 0.0144, ε = 3.42 and 0.994 at δ = 1e-10, were published for production language models (DP-FTRL).

    They are values of the Gaussian curve: the first to all digits printed, the second within the rounding of ρ.  The
    conversion from zCDP gives 3.57 and 1.04.
    """
    assert f"{gaussian_epsilon(0.15, 1e-10):.2f}" == "3.42"
    assert gaussian_epsilon(0.01435, 1e-10) < 0.994 < gaussian_epsilon(0.01445, 1e-10)
    assert f"{zcdp_to_approx_dp(0.15, 1e-10):.2f}" == "3.57"
    assert zcdp_to_approx_dp(0.01435, 1e-10) > 1.04


# -- relations between the functions -----------------------------------------------------------------------------------

rhos = log_uniform(1e-20, 1e6)
epsilons = st.just(0.0) | log_uniform(1e-10, 1e5)
deltas = log_uniform(1e-300, 0.999) | log_uniform(1e-10, 0.5).map(lambda x: 1 - x)


@given(rhos, rhos, epsilons, epsilons)
def test_gaussian_delta_is_monotone(rho: float, other_rho: float, epsilon: float, other_epsilon: float) -> None:
    most = gaussian_delta(max(rho, other_rho), min(epsilon, other_epsilon))
    assert gaussian_delta(rho, epsilon) <= most
    assert gaussian_delta(other_rho, other_epsilon) <= most


@pytest.mark.parametrize("epsilon", [gaussian_epsilon, zcdp_to_approx_dp])
@given(rhos, rhos, deltas, deltas)
def test_epsilon_is_monotone(epsilon: Callable, rho: float, other_rho: float, delta: float, other: float) -> None:
    most = epsilon(max(rho, other_rho), min(delta, other))
    assert epsilon(rho, delta) <= most
    assert epsilon(other_rho, other) <= most


@pytest.mark.parametrize("rho", [gaussian_rho, approx_dp_to_zcdp])
@given(epsilons, epsilons, deltas, deltas)
def test_rho_is_monotone(rho: Callable, epsilon: float, other_epsilon: float, delta: float, other: float) -> None:
    most = rho(max(epsilon, other_epsilon), max(delta, other))
    assert rho(epsilon, delta) <= most
    assert rho(other_epsilon, other) <= most


@given(rhos, epsilons, deltas)
def test_inversions_are_on_the_safe_side(rho: float, epsilon: float, delta: float) -> None:
    assert gaussian_delta(rho, gaussian_epsilon(rho, delta)) <= delta
    assert gaussian_rho(gaussian_epsilon(rho, delta), delta) >= rho
    assert approx_dp_to_zcdp(zcdp_to_approx_dp(rho, delta), delta) >= previous(rho)
    if gaussian_delta(rho, epsilon) < 1:
        assert gaussian_epsilon(rho, gaussian_delta(rho, epsilon)) <= epsilon
    if approx_dp_to_zcdp(epsilon, delta) > 0:  # neither budget is below the range of floats
        assert gaussian_delta(gaussian_rho(epsilon, delta), epsilon) <= delta
        assert gaussian_epsilon(gaussian_rho(epsilon, delta), delta) <= epsilon
        assert zcdp_to_approx_dp(approx_dp_to_zcdp(epsilon, delta), delta) <= following(epsilon)


@given(log_uniform(1e-6, 1e4), log_uniform(1e-30, 0.1))
def test_round_trips_are_tight(rho: float, delta: float) -> None:
    epsilon = gaussian_epsilon(rho, delta)
    assume(epsilon > 1e-3 * rho**0.5)
    assert gaussian_rho(epsilon, delta) == pytest.approx(rho, rel=1e-11)
    assert gaussian_delta(rho, epsilon) == pytest.approx(delta, rel=1e-10)
    assert approx_dp_to_zcdp(zcdp_to_approx_dp(rho, delta), delta) == pytest.approx(rho, rel=1e-11)


@given(rhos, epsilons, deltas)
def test_order_of_the_guarantees(rho: float, epsilon: float, delta: float) -> None:
    """Gaussian curve, optimised conversion, and ρ + 2 sqrt(ρ log(1/δ)) of Bun and Steinke (2016), Proposition 1.3."""
    simple = rho + 2 * math.sqrt(rho * -math.log(delta))
    assert gaussian_epsilon(rho, delta) <= zcdp_to_approx_dp(rho, delta) <= simple * (1 + 1e-14)
    assert gaussian_rho(epsilon, delta) >= approx_dp_to_zcdp(epsilon, delta)


# -- dp-accounting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1e-4, 0.0144, 0.5, 8.0, 300.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-10, 1e-5, 0.1])
def test_gaussian_curve_of_dp_accounting(rho: float, delta: float) -> None:
    sigma = 1 / math.sqrt(2 * rho)
    theirs = get_epsilon_gaussian(sigma, delta)
    assert gaussian_epsilon(rho, delta) == pytest.approx(theirs, rel=1e-10, abs=1e-11)
    assert gaussian_epsilon(rho * (1 + 1e-6), delta) != pytest.approx(theirs, rel=1e-10, abs=1e-11) or theirs == 0
    for epsilon in (0.01, 1.0, 20.0):
        assert gaussian_rho(epsilon, delta) == pytest.approx(get_sigma_gaussian(epsilon, delta) ** -2 / 2, rel=1e-9)


def test_accountants_of_dp_accounting() -> None:
    rho, delta = 0.15, 1e-10
    pld = PLDAccountant().compose(GaussianDpEvent(1 / math.sqrt(2 * rho))).get_epsilon(delta)
    assert gaussian_epsilon(rho, delta) <= pld == pytest.approx(gaussian_epsilon(rho, delta), rel=1e-4)


@pytest.mark.parametrize("rho", [1e-3, 0.15, 0.5, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.1, 0.6, 0.9])
def test_zcdp_conversion_of_dp_accounting(rho: float, delta: float) -> None:
    """Theirs is the same proposition at a list of orders: larger at the default list, equal at a fine one."""
    ours = zcdp_to_approx_dp(rho, delta)
    assert ours <= RdpAccountant().compose(ZCDpEvent(rho)).get_epsilon(delta) * (1 + 1e-12)
    fine = RdpAccountant(orders=list(1 + np.logspace(-1.9, 3, 3000)))
    theirs = fine.compose(ZCDpEvent(rho)).get_epsilon(delta)
    assert ours <= theirs * (1 + 1e-12)
    if delta < 0.5:  # else the best order lies below the least that they use, 1.01
        assert ours == pytest.approx(theirs, rel=1e-4)


# -- noise multipliers -------------------------------------------------------------------------------------------------


@given(log_uniform(1e-9, 1e9), log_uniform(1e-9, 1e9), log_uniform(1e-6, 1e6), st.sampled_from([1, 2]))
def test_multipliers_are_never_too_small(gamma: float, rho: float, clip_norm: float, factor: int) -> None:
    """The factor 2 is that of replace-one adjacency; a mutant that leaves it out is far below."""
    budget = Budget(rho, clip_norm=clip_norm, adjacency="replace-one" if factor == 2 else "zero-out")
    multiplier = budget.multiplier(gamma)
    with mp.workdps(60):
        exact = factor * mp.mpf(gamma) / mp.sqrt(2 * mp.mpf(rho))
        assert mp.mpf(multiplier) >= exact
        assert mp.mpf(multiplier) <= exact * (1 + mp.mpf(2) ** -49)
        assert mp.mpf(budget.scale(gamma)) >= exact * mp.mpf(clip_norm)
        variance = exact**2 * mp.mpf(clip_norm) ** 2
        assert abs(mp.mpf(budget.unit_variance) * mp.mpf(gamma) ** 2 / variance - 1) < 1e-15
        # One unit in the last place down it would be too small somewhere: the multiplier that accountants take is.
        assert mp.mpf(gaussian_noise_multiplier(rho)) <= 1 / mp.sqrt(2 * mp.mpf(rho))
        assert mp.mpf(gaussian_noise_multiplier(rho)) >= (1 - mp.mpf(2) ** -50) / mp.sqrt(2 * mp.mpf(rho))


def test_known_multipliers_are_the_same_to_the_last_bit() -> None:
    gamma = 1.4618066589992431
    assert Budget(0.5).multiplier(gamma) == 1.4618066589992444
    assert Budget(epsilon=2.0, delta=1e-6).multiplier(gamma) == 3.2605250659601097
    assert Budget(epsilon=2.0, delta=1e-6, adjacency="replace-one").multiplier(gamma) == 6.521050131920219
    assert Budget(gaussian_rho(2.0, 1e-6)).multiplier(gamma) == Budget(epsilon=2.0, delta=1e-6).multiplier(gamma)
    assert UNIT_BUDGET == Budget(1.0) == Budget(1, clip_norm=1, adjacency="zero-out")
    assert UNIT_BUDGET.unit_variance == 0.5


def test_rounding_to_nearest_would_be_too_small_half_of_the_time() -> None:
    rng, unsafe = np.random.default_rng(0), 0
    with mp.workdps(60):
        for gamma, rho in rng.uniform(1, 3, (200, 2)).tolist():
            unsafe += mp.mpf(gamma / math.sqrt(2 * rho)) < mp.mpf(gamma) / mp.sqrt(2 * mp.mpf(rho))
    assert unsafe > 20


def test_balls_are_rounded_up_as_a_whole() -> None:
    with ctx.workprec(100):
        assert rounded_up(arb("1.5")) == 1.5
        assert rounded_up(arb(1) / 3) == math.nextafter(1 / 3, 1)
        assert rounded_up(-arb(1) / 3) == -1 / 3
        assert 1.25 <= rounded_up(arb(1, 0.25)) < 1.2500001
        assert rounded_up(arb("inf")) == math.inf


def test_arguments_of_multipliers_are_checked() -> None:
    assert UNIT_BUDGET.multiplier(math.inf) == math.inf
    for sensitivity in (0.0, -1.0, -math.inf, math.nan):
        with pytest.raises(ValueError, match=r"sensitivity must lie in \(0, inf\]?\)"):
            UNIT_BUDGET.multiplier(sensitivity)
    for rho in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"rho must lie in \(0, inf\)"):
            gaussian_noise_multiplier(rho)


# -- budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"rho": 1.0, "epsilon": 1.0}, {"rho": 1.0, "epsilon": 1.0, "delta": 1e-6}])
@pytest.mark.parametrize("more", [{}, {"clip_norm": 2.0}])
def test_a_budget_is_given_in_one_way(given: dict, more: dict) -> None:
    with pytest.raises(ValueError, match="the budget must be given either by rho or by epsilon and delta, got rho="):
        Budget(**given, **more)


@pytest.mark.parametrize("half", [{"epsilon": 1.0}, {"delta": 1e-6}, {"rho": 1.0, "delta": 1e-6}])
def test_half_a_budget_is_refused(half: dict) -> None:
    with pytest.raises(ValueError, match="the budget must be given either by rho or by epsilon and delta"):
        Budget(**half)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rho", [0, -0.0, -1.0, 1e-101, 1e101, math.nan, math.inf, -math.inf]),
        ("clip_norm", [0, -1.0, 1e-101, 1e101, math.nan, math.inf]),
        ("epsilon", [-1e-9, math.inf, math.nan]),
        ("delta", [0.0, 1.0, -0.1, 2.0, math.nan]),
    ],
)
def test_the_numbers_of_a_budget_have_ranges(name: str, values: list[float]) -> None:
    good: dict[str, Any] = {"rho": 1.0} if name in ("rho", "clip_norm") else {"epsilon": 1.0, "delta": 1e-6}
    for value in values:
        with pytest.raises(ValueError, match=f"{name} must lie in"):
            Budget(**good | {name: value})
    for wrong in ("1", 1j, True, [0.1]):
        with pytest.raises(TypeError, match=f"{name} must be a real number"):
            Budget(**good | {name: wrong})


def test_adjacency_and_hopeless_budgets() -> None:
    with pytest.raises(ValueError, match="adjacency must be one of 'zero-out', 'replace-one', got 'add-remove'"):
        Budget(1.0, adjacency="add-remove")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the ρ of epsilon and delta must lie in"):
        _ = Budget(epsilon=0.0, delta=5e-324).gaussian_rho
    with pytest.raises(TypeError):
        Budget(1.0, 2.0)  # type: ignore[call-arg]


@given(log_uniform(1e-3, 30), log_uniform(1e-12, 0.1))
def test_a_budget_keeps_what_it_promises(epsilon: float, delta: float) -> None:
    for adjacency in ("zero-out", "replace-one"):
        budget = Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)
        assert budget.rho is None
        assert (budget.epsilon, budget.delta) == (epsilon, delta)
        assert budget.epsilon_at(delta) <= epsilon
        assert budget.delta_at(epsilon) <= delta
        assert budget.gaussian_rho == gaussian_rho(epsilon, delta)
        spent = Budget(budget.gaussian_rho, adjacency=adjacency)
        assert spent.epsilon_at(delta) == budget.epsilon_at(delta)
        assert spent != budget
        assert type(budget)(**budget.arguments()) == budget


def test_budgets_in_words() -> None:
    assert Budget(0.125).in_words() == "0.125-zCDP for zero-out adjacency"
    words = Budget(epsilon=2, delta=1e-6, adjacency="replace-one").in_words()
    assert words == "(2, 1e-06)-DP for replace-one adjacency"


# -- bad input, documentation ------------------------------------------------------------------------------------------

FUNCTIONS = [gaussian_delta, gaussian_epsilon, gaussian_odometer, gaussian_rho, zcdp_to_approx_dp, approx_dp_to_zcdp]
BAD = {"rho": [0.0, -1.0, math.inf, math.nan], "epsilon": [-1e-9, math.inf], "delta": [0.0, 1.0, -0.1, 2.0, math.nan]}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bad_input(function: Callable) -> None:
    names = list(inspect.signature(function).parameters)[:2]
    good = dict.fromkeys(names, 0.5)
    for name in names:
        for value in BAD[name]:
            with pytest.raises(ValueError, match=f"{name} must lie in .*, got"):
                function(**good | {name: value})
        for wrong in ("1", None, 1j, True):
            with pytest.raises(TypeError, match=f"{name} must be a real number"):
                function(**good | {name: wrong})


@pytest.mark.parametrize(("mu", "epsilon"), [(0.2, 0.99759868), (0.5, 2.56643215), (1, 5.37511594), (2, 11.72413155)])
def test_the_odometer_is_the_tail_of_the_largest_loss(mu: float, epsilon: float) -> None:
    """Numbers of another program, and losses of two steps whose second is made if the first loss is small."""
    assert gaussian_odometer(mu**2 / 2, 1e-6) == pytest.approx(epsilon, rel=1e-8)
    level, first = gaussian_odometer(mu**2 / 2, 0.05), 0.6 * mu**2
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    loss = first / 2 + math.sqrt(first) * nodes
    second = (mu**2 - first) / 2 + loss
    exceeds = np.where(loss > level, 1.0, special.ndtr((second - level) / math.sqrt(mu**2 - first)))
    found = float(weights @ exceeds) / weights.sum()
    assert 0.5 * 0.05 < found <= 0.05
    assert level > gaussian_epsilon(mu**2 / 2, 0.05)


def test_results_are_floats() -> None:
    for function in FUNCTIONS:
        assert type(function(np.float64(0.5), 1 / 2)) is float


@given(st.lists(log_uniform(1e-8, 1e4), min_size=1, max_size=5), st.floats(0, 30))
def test_many_curves_are_the_one_curve_rounded_up(budgets: list[float], epsilon: float) -> None:
    found = gaussian_deltas(np.array(budgets), epsilon)
    for budget, delta in zip(budgets, found.tolist(), strict=True):
        exact = gaussian_delta(budget, epsilon)
        assert math.nextafter(exact, 0) <= delta
        assert delta <= 1e-300 or delta <= exact * (1 + 1e-6)
