"""Poisson sampling against independent numbers: quadrature, Bromwich inversion, one and two steps, dp-accounting.

The digits of ``EPSILONS``, ``ONE_STEP`` and ``TWO_STEPS`` were computed with mpmath and by quadrature with a closed
inner integral, not by this package.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from corrnoise.theory.amplification import contour, enclosure
from corrnoise.theory.amplification.contour import PoissonCurve, planned
from corrnoise.theory.amplification.curve import DIRECTIONS, Direction, delta_of, epsilon_of, noise_multiplier_of
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.privacy import gaussian_delta, gaussian_epsilon
from tests.strategies import log_uniform

#: σ, q, T, δ; ε of remove and of add
EPSILONS = [
    (1.0, 0.01, 1024, 1e-6, 2.14759434, 1.61170419),
    (1.0, 0.01, 1024, 1e-10, 3.31569359, 2.14868766),
    (1.0, 0.32, 32, 1e-6, 14.39253943, 7.06890009),
    (2.0, 0.16, 64, 1e-6, 3.54536753, 2.67462913),
    (4.0, 0.64, 16, 1e-6, 3.12095175, 2.78369509),
    (1.0, 0.01, 10_000, 1e-6, 6.90738450, 6.20748438),
    (1.0, 0.01, 10_000, 1e-10, 9.31613853, 8.12174476),
    (2.0, 0.05, 2000, 1e-12, 9.09312411, 8.26406640),
    (0.8, 1e-3, 100_000, 1e-5, 2.57495931, 2.42433546),
    (0.5, 1e-4, 1_000_000, 1e-6, 4.72831114, 2.98482983),
    (0.5, 1e-4, 1_000_000, 1e-10, 7.96164413, 3.96654254),
    (1.0, 1 / 128, 512, 1e-6, 1.24233727, 0.81808176),
]
#: σ, q, ε; δ of remove
ONE_STEP = [
    (1.0, 0.01, 1.0, 2.73200926154613e-9),
    (1.0, 0.1, 1.0, 0.000207121486021392),
    (0.7, 0.3, 0.5, 0.0781122650274659),
]
TWO_STEPS = [
    (1.0, 0.25, 1.0, 0.012052729853605),
    (1.0, 0.1, 0.5, 0.0046058961098051),
    (0.8, 0.5, 2.0, 0.0437195413857191),
]


def curve(*factors: tuple[float, float, int]) -> PoissonCurve:
    made = tuple(Factor(*one) for one in factors)
    return PoissonCurve(made, made, True, "a product")


def bracket(one: PoissonCurve, epsilon: float, sigma: float, direction: Direction) -> tuple[float, float]:
    found = one.delta(epsilon, sigma, direction)
    assert 0 <= found.lower <= found.upper <= 1
    return found.lower, found.upper


@pytest.mark.parametrize(("sigma", "q", "steps", "delta", "remove", "add"), EPSILONS)
def test_reference_values_of_epsilon(
    sigma: float, q: float, steps: int, delta: float, remove: float, add: float
) -> None:
    one = curve((q, 1.0, steps))
    for direction, digits in (("remove", remove), ("add", add)):
        found = epsilon_of(one, delta, sigma, direction)  # type: ignore[arg-type]
        assert found.kind == "certified"
        assert found.lower <= digits + 1e-8
        assert found.upper >= digits - 1e-8
        assert found.upper - found.lower < 1e-7
        assert one.delta(found.upper, sigma, direction).upper <= delta  # type: ignore[arg-type]


@pytest.mark.parametrize(("sigma", "q", "epsilon", "delta"), ONE_STEP)
def test_one_step(sigma: float, q: float, epsilon: float, delta: float) -> None:
    low, high = bracket(curve((q, 1.0, 1)), epsilon, sigma, "remove")
    assert low == pytest.approx(delta, rel=2e-14)
    assert high - low <= 1e-15 * high
    assert bracket(curve((q, 1.0, 1)), epsilon, sigma, "add")[1] == 5e-324  # e^ε (1 − q) >= 1


@pytest.mark.parametrize(("sigma", "q", "epsilon", "delta"), TWO_STEPS)
def test_two_steps(sigma: float, q: float, epsilon: float, delta: float) -> None:
    low, high = bracket(curve((q, 1.0, 2)), epsilon, sigma, "remove")
    assert low <= delta * (1 + 1e-13)
    assert high >= delta * (1 - 1e-13)
    assert high - low < 1e-6 * delta
    assert bracket(curve((q, 1.0, 2)), epsilon, sigma, "add")[1] < 1e-300 or epsilon < -2 * math.log1p(-q)


def by_quadrature(parts: list[tuple[float, float]], epsilon: float, direction: Direction) -> float:
    """δ of two unlike steps (q, r): closed in the last, Gauss–Hermite–Legendre panels in the first."""
    (q, r), (p, s) = parts

    def inner(ratio: Any) -> Any:
        """E(a A − K)₊ or E(1 − K a A)₊ over the second step, at the first ratio a."""
        scale = mpmath.exp(epsilon) / ratio
        strike = scale if direction == "remove" else 1 / (mpmath.exp(epsilon) * ratio)
        moved = (strike - 1 + p) / p
        if direction == "remove":
            if moved <= 0:
                return ratio - mpmath.exp(epsilon)
            x = mpmath.log(moved)
            return ratio * p * (mpmath.ncdf(s / 2 - x / s) - moved * mpmath.ncdf(-s / 2 - x / s))
        if moved <= 0:
            return mpmath.mpf(0)
        x = mpmath.log(moved)
        put = moved * mpmath.ncdf(x / s + s / 2) - mpmath.ncdf(x / s - s / 2)
        return mpmath.exp(epsilon) * ratio * p * put

    def outer(x: Any) -> Any:
        return mpmath.npdf(x) * inner(1 - q + q * mpmath.exp(r * x - r * r / 2))

    with mpmath.workdps(20):
        return float(mpmath.quad(outer, [-9, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 11]))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [([(0.25, 1.0), (0.6, 0.7)], 0.4), ([(0.5, 1.25), (0.5, 1.25)], 1.0), ([(0.1, 2.0), (0.8, 0.5)], 0.3)],
)
def test_two_unlike_steps_by_quadrature(parts: list[tuple[float, float]], epsilon: float, direction: Direction) -> None:
    low, high = bracket(curve(*((q, r, 1) for q, r in parts)), epsilon, 1.0, direction)
    exact = by_quadrature(parts, epsilon, direction)
    assert low * (1 - 1e-10) <= exact <= high * (1 + 1e-10)
    assert high - low <= 1e-6 * high


def test_gaussians_alone_and_beside_sampled_steps() -> None:
    for direction in DIRECTIONS:
        low, high = bracket(curve((1.0, 0.5, 4), (1.0, 1.0, 1)), 1.0, 1.5, direction)
        exact = gaussian_delta((4 * 0.25 + 1) / (2 * 1.5**2), 1.0)
        assert low <= exact <= math.nextafter(high, 1) * (1 + 1e-15)
        low, high = bracket(curve((1.0, 0.5, 4), (1 - 1e-9, 1.0, 20)), 1.0, 4.0, direction)
        assert high == pytest.approx(gaussian_delta(21 / 32, 1.0), rel=1e-6)
        below = bracket(curve((0.2, 1.0, 20)), 1.0, 4.0, direction)[1]
        assert below < bracket(curve((0.2, 1.0, 20), (1.0, 0.5, 4)), 1.0, 4.0, direction)[0]
    remove = epsilon_of(curve((1.0, 1.0, 1)), 1e-5, 1.0, "remove")
    assert remove.lower <= gaussian_epsilon(0.5, 1e-5) <= remove.upper * (1 + 1e-15)


def test_a_gaussian_beside_one_sampled_step() -> None:
    """E over the sampled step of Gaussian curves at shifted ε, by the trapezoidal rule."""
    q, r, s, epsilon = 0.3, 1.0, 0.8, 0.7
    x = np.linspace(-12, 13, 4001)
    a = 1 - q + q * np.exp(r * x - r * r / 2)
    shifted = epsilon - np.log(a)
    normal = np.vectorize(lambda t: 0.5 * math.erfc(-t / math.sqrt(2)))
    call = a * (normal(s / 2 - shifted / s) - np.exp(shifted) * normal(-s / 2 - shifted / s))
    exact = float((call * np.exp(-x * x / 2)).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi))
    low, high = bracket(curve((q, r, 1), (1.0, s, 1)), epsilon, 1.0, "remove")
    assert low == pytest.approx(exact, rel=1e-11)
    assert high - low < 1e-11 * high


# -- properties --------------------------------------------------------------------------------------------------------

RUNS = {
    "sigma": log_uniform(0.5, 5.0),
    "q": log_uniform(1e-3, 0.9),
    "steps": st.integers(2, 3000),
    "epsilon": st.floats(0.0, 4.0),
}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(**RUNS)
def test_parity(sigma: float, q: float, steps: int, epsilon: float) -> None:
    """δ_add(ε) = 1 − e^ε + e^ε δ_remove(−ε)."""
    one = curve((q, 1.0, steps))
    low, high = bracket(one, epsilon, sigma, "add")
    other = one.delta(-epsilon, sigma, "remove")
    scale = math.exp(epsilon)
    tolerance = 1e-14 * scale
    assert 1 - scale + scale * other.lower <= high + tolerance
    assert 1 - scale + scale * other.upper >= low - tolerance


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(**RUNS, direction=st.sampled_from(DIRECTIONS), more=st.floats(1.01, 1.5))
def test_monotone(sigma: float, q: float, steps: int, epsilon: float, direction: Direction, more: float) -> None:
    low, high = bracket(curve((q, 1.0, steps)), epsilon, sigma, direction)
    assert bracket(curve((q, 1.0, steps)), epsilon, sigma * more, direction)[0] <= high
    assert bracket(curve((q, 1.0, steps)), epsilon * more, sigma, direction)[0] <= high
    assert bracket(curve((min(q * more, 1.0), 1.0, steps)), epsilon, sigma, direction)[1] >= low
    assert bracket(curve((q, 1.0, steps + 1)), epsilon, sigma, direction)[1] >= low
    assert bracket(curve((q, more, steps)), epsilon, sigma, direction)[1] >= low


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(**RUNS, direction=st.sampled_from(DIRECTIONS))
def test_the_certificate_contains_the_estimate(
    sigma: float, q: float, steps: int, epsilon: float, direction: Direction
) -> None:
    one = curve((q, 1.0, steps))
    low, high = bracket(one, epsilon, sigma, direction)
    lower, upper = one.estimate(epsilon, sigma, direction)
    scale = steps * 2e-14 + 1e-9
    lost = 1e-18  # of terms that are far above a small δ and cancel
    if high > 1e-15:
        assert lower <= high * (1 + scale) + lost
        assert upper >= low * (1 - scale) - lost


@settings(max_examples=4, deadline=None)
@given(sigma=log_uniform(0.5, 3.0), q=log_uniform(1e-3, 0.9), steps=st.integers(16, 500), epsilon=st.floats(0.1, 8.0))
def test_the_noise_multiplier_is_safe_and_tight(sigma: float, q: float, steps: int, epsilon: float) -> None:
    one = curve((q, 1.0, steps))
    target = delta_of(one, epsilon, sigma).upper
    if not 1e-12 < target < 0.5:
        return
    found = noise_multiplier_of(one, epsilon, target)
    assert found <= sigma * (1 + 1e-7)
    assert delta_of(one, epsilon, found).upper <= target
    assert delta_of(one, epsilon, found * (1 - 1e-5)).lower > target


#: q, T, σ, ε; δ of remove in the third decimal
FEW_STEPS = [
    (1e-4, 100, 0.2, 12.0, 2.866e-4),
    (1e-5, 1000, 0.25, 10.0, 1.9196e-6),
    (1e-3, 30, 0.3, 6.0, 2.344e-4),
    (1e-4, 3, 0.25, 8.0, 1.887e-6),
]


def on_a_grid(q: float, steps: int, sigma: float, epsilon: float, direction: Direction) -> float:
    """δ by masses of ln Λ on a grid, with the mean of Λ kept in each cell: from above, by some 1e-6."""
    d, size, r = 2e-4, 2**19, 1 / sigma
    first = -math.ceil(1.2 / d)
    losses = np.arange(first, size + first) * d
    moved = (np.exp(losses) - 1 + q) / q
    x = np.where(moved > 0, np.log(np.maximum(moved, 1e-300)) / r + r / 2, -40.0)

    def cells(x: Any) -> Any:
        signs = np.where(x[:-1] > 0, -1.0, 1.0)
        return signs * (ndtr(signs * x[1:]) - ndtr(signs * x[:-1]))

    without = cells(x)
    with_it = (1 - q) * without + q * cells(x - r)  # masses of Q and of P
    right = (with_it - without * np.exp(losses[:-1])) / -math.expm1(-d)
    masses = np.concatenate([with_it - right, [0.0]]) + np.concatenate([[0.0], right])
    product = np.fft.irfft(np.fft.rfft(np.roll(masses, first)) ** steps, size)
    signed = np.roll(losses, first)
    if direction == "remove":
        return float((product * -np.expm1(np.minimum(epsilon - signed, 0.0))).sum())
    return float((product * np.maximum(np.exp(-signed) - math.exp(epsilon), 0.0)).sum())


@pytest.mark.parametrize(("q", "steps", "sigma", "epsilon", "delta"), FEW_STEPS)
def test_few_steps_of_small_rates(q: float, steps: int, sigma: float, epsilon: float, delta: float) -> None:
    one = curve((q, 1.0, steps))
    exact = on_a_grid(q, steps, sigma, epsilon, "remove")
    low, high = bracket(one, epsilon, sigma, "remove")
    assert low <= exact
    assert exact * (1 - 2e-5) <= high <= exact * (1 + 2e-4)
    assert high - low < 6e-3 * high
    assert high == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("share", [0.05, 5.0])
def test_any_gap_gives_a_valid_lower_end(direction: Direction, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small gaps need the corrections of the lower end: without them it is near the smoothed δ, above the truth."""
    q, steps, sigma, epsilon = (0.01, 10, 0.3, 3.0) if direction == "remove" else (0.1, 10, 0.8, 0.3)
    factors = (Factor(q, 1.0, steps),)
    exact = on_a_grid(q, steps, sigma, epsilon, direction)
    smoothing = 0.2**2
    monkeypatch.setattr(enclosure.Sum, "gap", lambda *_: share * 0.2)

    def smoothed(*key: Any) -> Any:
        plan = planned(*key)
        step = plan.step / 4
        count = round(9 / 0.2 / step)
        return dataclasses.replace(plan, step=step, count=count, smoothing=smoothing)

    low, high = enclosure.enclosure(factors, epsilon, sigma, direction, smoothed)
    assert low <= exact * (1 - 1e-4)
    assert high >= exact * (1 + 1e-4)
    if share > 1 and direction == "remove":
        assert low > 0.2 * exact


@pytest.mark.slow
def test_adding_an_example_has_a_closed_bound() -> None:
    one = curve((1e-4, 1.0, 100))
    for epsilon in (0.001, 0.00999):
        assert bracket(one, epsilon, 0.2, "add")[1] <= -math.expm1(epsilon + 100 * math.log1p(-1e-4)) * (1 + 1e-9)
    found = epsilon_of(one, 1e-6, 0.2, "add")
    assert found.upper <= -100 * math.log1p(-1e-4) + math.log1p(-1e-6) + 1e-8
    exact = on_a_grid(1e-4, 100, 0.2, 0.001, "add")
    low, high = bracket(one, 0.001, 0.2, "add")
    assert low <= exact <= high * (1 + 2e-4)


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "delta", "multiplier"),
    [
        (0.1, 200, 1.0, 1e-5, 5.42689),
        (1e-3, 10**7, 1.0, 1e-6, 13.37890),
        (0.1, 200, 400.0, 1e-5, 0.205853),
        pytest.param(0.1, 200, 1e4, 1e-5, 0.044636, marks=pytest.mark.slow),
        pytest.param(3.3e-4, 10**4, 0.669, 1e-20, 1.20137, marks=pytest.mark.slow),
        pytest.param(3.3e-4, 10**4, 0.669, 1e-24, 1.31405, marks=pytest.mark.slow),
    ],
)
def test_multipliers_of_extreme_budgets(q: float, steps: int, epsilon: float, delta: float, multiplier: float) -> None:
    with np.errstate(all="raise"):
        found = noise_multiplier_of(curve((q, 1.0, steps)), epsilon, delta)
    assert found == pytest.approx(multiplier, rel=1e-5)


def test_wide_steps_reveal_how_often_the_example_is_used() -> None:
    low, high = bracket(curve((0.1, 1.0, 200)), 1e6, 0.0045, "remove")
    assert 0 <= low <= high < 2e-5
    few = bracket(curve((0.3, 1.0, 2)), 700.0, 0.03, "remove")
    alone = (0.42 * gaussian_delta(0.5 / 0.03**2, 700.0), 0.09 * gaussian_delta(1 / 0.03**2, 700.0))
    assert few[1] == pytest.approx(sum(alone), rel=1e-12)
    assert few[0] <= few[1]


def test_extreme_runs_have_answers() -> None:
    never = curve((1e-9, 1.0, 10))
    with pytest.raises(ValueError, match="uses an example with probability at most 1e-08, below delta=1e-06"):
        noise_multiplier_of(never, 1.0, 1e-6)
    with pytest.raises(ValueError, match="take a smaller epsilon"):
        noise_multiplier_of(curve((1.0, 1.0, 1)), 1e6, 1e-6)
    assert bracket(never, 0.0, 1e-4, "remove")[1] <= 1.0001e-8
    assert bracket(curve((0.5, 1.0, 10)), 600.0, 1.0, "remove")[1] < 1e-300
    assert bracket(curve((0.5, 1.0, 10)), 20.0, 1.0, "add") == (0.0, 5e-324)
    assert epsilon_of(curve((0.5, 1.0, 10)), 0.9999, 1.0, "add").upper == 0.0


# -- mutants of the error budget ---------------------------------------------------------------------------------------

CASE = ((Factor(0.01, 1.0, 1024),), 2.14759434, 1.0)
EXACT = 9.9999999983784e-7  # with the digits of this package at twice the precision; δ = 1e-6 by definition of ε


def certified(direction: Direction = "remove", **change: Any) -> tuple[float, float]:
    factors, epsilon, sigma = CASE

    def changed(*key: Any) -> Any:
        plan = planned(*key)
        lines = change.get("lines", lambda line: line)
        return dataclasses.replace(
            plan,
            step=plan.step * change.get("step", 1),
            count=max(1, round(plan.count * change.get("count", 1))),
            lines=tuple(lines(line) for line in plan.lines),
        )

    return enclosure.enclosure(factors, epsilon, sigma, direction, changed)


def raw(**change: Any) -> float:
    """The finite sum itself, without its error terms."""
    factors, epsilon, sigma = CASE
    plan = planned(factors, epsilon, sigma, "remove")
    lines = change.get("lines", lambda line: line)
    plan = dataclasses.replace(
        plan,
        step=plan.step * change.get("step", 1),
        count=max(1, round(plan.count * change.get("count", 1))),
        lines=tuple(lines(line) for line in plan.lines),
    )
    return contour._summed(factors, epsilon, sigma, "remove", plan)[1]


def coarser(line: Any) -> Any:
    return dataclasses.replace(line, step=line.step * 12, first=line.first // 12, last=-(-line.last // 12))


def shorter(line: Any) -> Any:
    return dataclasses.replace(line, first=line.first // 6, last=line.last // 6)


@pytest.mark.parametrize(
    "change",
    [{"step": 5.0}, {"count": 0.2}, {"lines": coarser}, {"lines": shorter}],
    ids=["h", "U", "h_x", "cut"],
)
def test_a_worse_sum_is_noticed_by_its_certificate(change: dict[str, Any]) -> None:
    """The sum leaves the true value; its bracket grows, and still holds it."""
    low, high = certified()
    assert low <= EXACT * (1 + 1e-12)
    assert high >= EXACT * (1 - 1e-12)
    assert high - low < 1e-12 * EXACT
    assert abs(raw(**change) - EXACT) > 1e-9 * EXACT
    low, high = certified(**change)
    assert low <= EXACT <= high
    assert high - low > 1e-9 * EXACT


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    sigma=log_uniform(0.5, 5.0),
    q=log_uniform(1e-2, 0.9),
    steps=st.integers(2, 200),
    epsilon=st.floats(0.1, 3.0),
    direction=st.sampled_from(DIRECTIONS),
    scales=st.tuples(*[log_uniform(0.3, 3.0)] * 8),
    members=st.integers(1, 3),
)
def test_any_plan_gives_a_valid_bracket(
    sigma: float, q: float, steps: int, epsilon: float, direction: Direction, scales: tuple[float, ...], members: int
) -> None:
    """The choice of the contour decides the width of the bracket, and nothing else."""
    factors = (Factor(q, 1.0, steps, members), Factor(min(2 * q, 1.0), 0.5, 2))
    order, other, step, count, height, width, first, last = scales

    def changed(*key: Any) -> Any:
        plan = planned(*key)

        def line(one: Any) -> Any:
            return dataclasses.replace(
                one,
                height=one.height * height,
                step=one.step * width,
                first=round(one.first * first),
                last=round(one.last * last),
            )

        return dataclasses.replace(
            plan,
            order=plan.order * order,
            other=max(plan.other * other, plan.order * order * 1.01),
            step=plan.step * step,
            count=min(round(plan.count * count), 20_000),
            lines=tuple(map(line, plan.lines)),
            other_lines=tuple(map(line, plan.other_lines)),
            shift=plan.shift * height,
        )

    low, high = enclosure.enclosure(factors, epsilon, sigma, direction, planned)
    lower, upper = enclosure.enclosure(factors, epsilon, sigma, direction, changed)
    assert lower <= high
    assert upper >= low


@pytest.mark.parametrize("name", ["_aliases", "modulus", "error"])
def test_a_budget_without_one_of_its_terms_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each error term is needed: without it the bracket of a worse sum misses the true value."""
    changes: dict[str, dict[str, Any]] = {
        "_aliases": {"step": 5.0},
        "modulus": {"count": 0.2},
        "error": {"lines": coarser},
    }
    where = enclosure._Pair if name == "_aliases" else enclosure._Rule
    monkeypatch.setattr(where, name, lambda *_: arb(0))
    low, high = certified(**changes[name])
    assert not low <= EXACT <= high


@pytest.mark.slow
def test_dp_accounting_is_an_approximation() -> None:
    """Its connect-the-dots grid with its default truncation has errors of 1e-3 here, of either sign."""
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    for sigma, q, steps, delta in ((1.0, 0.01, 10_000, 1e-10), (2.0, 0.05, 2000, 1e-12)):
        step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
        accountant = pld.PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(step, steps))
        theirs = accountant.get_epsilon(delta)
        ours = epsilon_of(curve((q, 1.0, steps)), delta, sigma, "remove")
        assert not ours.lower <= theirs <= ours.upper
        assert theirs == pytest.approx(ours.lower, rel=1e-3)
    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    accountant = pld.PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(step, 1024))
    assert accountant.get_epsilon(1e-6) == pytest.approx(2.14759434, rel=1e-4)


def test_the_strip_of_a_group() -> None:
    """|A(x + ib)/A(x)|^θ is largest for θ < 0, where the terms point away from each other."""
    members, q, r, theta, height = 3, 0.5, 0.5, -0.7, 0.9
    rule = enclosure._Rule(arb(q), arb(r), members, arb(theta), enclosure.Line(height, 0.1, -80, 80))
    j, p = np.arange(members + 1), binom.pmf(np.arange(members + 1), members, q)
    x = np.linspace(-4, 4, 400)[:, np.newaxis] + 1j * np.linspace(0, height, 20)
    sizes = np.abs(np.exp(j * r * x[..., np.newaxis] - (j * r) ** 2 / 2) @ p)
    assert np.max((sizes / sizes[:, :1]) ** theta) <= float(rule._kappa(arb(height)).upper())
    for wide in (1.1, 3.0):  # 2 k r h > π: A may have zeros in the strip of a group
        assert (
            not enclosure._Rule(arb(q), arb(r), members, arb(1.7), enclosure.Line(wide, 0.1, -80, 80))
            ._relative()
            .is_finite()
        )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("sigma", [1.1, pytest.param(0.06, marks=pytest.mark.slow)])
def test_slopes_are_derivatives_by_the_norms(sigma: float, direction: Direction) -> None:
    """Against differences with a plan for each value; the second noise multiplier has no sum in float64."""
    factors = (Factor(0.02, 1.0, 40), Factor(0.02, 0.7, 30), Factor(0.02, 0.7, 30), Factor(1.0, 0.1, 2))
    curve = PoissonCurve(factors, factors, True, "")
    found = curve.slopes(0.5, sigma, direction)
    stride = 1e-3
    for i, one in enumerate(factors):
        ends = []
        for sign in (1, -1):
            norm = one.norm * math.exp(sign * stride)
            moved = (*factors[:i], dataclasses.replace(one, norm=norm), *factors[i + 1 :])
            ends.append(math.log(PoissonCurve(moved, moved, True, "").estimate(0.5, sigma, direction)[1]))
        assert np.isclose(found[i], (ends[0] - ends[1]) / (2 * stride), rtol=2e-3, atol=2e-3)
