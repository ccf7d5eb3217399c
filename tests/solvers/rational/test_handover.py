"""What is handed over is what was promised: every form, run as its library runs it, in both types, over all problems.

The sweep takes the noise coefficients that each recurrence makes in its own arithmetic, inverts them, and compares the
sensitivity with the one that the multiplier covers.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
from corrnoise.designs.handover import (
    LARGEST_INCREASE,
    Reference,
    buffer_handover,
    fitted_buffers,
    reference,
    toeplitz_handover,
)
from corrnoise.solvers.rational.exchange import BufferForm, ToeplitzForm, buffer_form, noise_from_buffers, toeplitz_form

from corrnoise.designs.covered_noise import Problem
from corrnoise.designs.make import design
from corrnoise.designs.record import Design
from corrnoise.solvers.rational.approximation import rational
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.rounding import DTYPES, Dtype
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests.design_examples import POLES

RUN = 3000  # steps of runs of any length


def strongly_convex(mu: float, eta: float) -> StronglyConvex:
    return StronglyConvex(mu, 1.0, eta, dimension=10)


def power_law(d: int, decay: float, share: float) -> LinearRegression:
    """Eigenvalues k^{−decay}, at a share of the learning rate 2/R²."""
    eigenvalues = np.arange(1.0, d + 1) ** -decay
    return LinearRegression(eigenvalues, share * 2 / (eigenvalues.sum() + 2))


#: The first two broke: three decays that nearly coincide have scales up to 5e14; a multiplier of 81421 for 2.483.
FAST: list[tuple[Problem, int | None]] = [
    (strongly_convex(0.01, 0.5), 2000),
    (strongly_convex(0.07, 0.5), 200),
    (strongly_convex(0.05, 0.6), 2000),  # 0.6 % more sensitivity than exact arithmetic has
    (strongly_convex(0.07, 0.6), 2000),  # holds in float64 only
    (strongly_convex(0.3, 0.5), 500),  # a stream of few coefficients
    (strongly_convex(0.1, 1.5), None),
    (power_law(8, 0.5, 0.5), 1000),
    (power_law(128, 1.0, 0.05), 2000),
    (power_law(128, 1.0, 0.9), None),
    (power_law(32, 2.0, 0.05), None),
    (MeanEstimation(1e-4), 3000),
    (MeanEstimation(1e-2), None),
    (MeanEstimation(1.5), 100),
]
SWEPT: list[Problem] = [
    *(strongly_convex(mu, eta) for mu in (0.01, 0.03, 0.1, 0.3) for eta in (0.1, 0.3, 0.6, 1.0, 1.5)),
    *(power_law(d, decay, share) for d, decay in ((8, 0.5), (64, 1.0)) for share in (0.05, 0.5, 0.9)),
    *(MeanEstimation(eta) for eta in (1e-5, 1e-3, 0.1, 0.5)),
]
SLOW = [(problem, None if number % 2 else 2000) for number, problem in enumerate(SWEPT)]


def made(d: Design, form: str, dtype: Dtype, steps: int) -> np.ndarray:
    """The noise coefficients that the recurrence of a form makes in its own arithmetic."""
    impulse = np.zeros(steps)
    impulse[0] = 1.0
    if form == "buffers":
        assert d.buffers is not None
        return d.buffers.noise_as_run(impulse, dtype=dtype)
    assert d.toeplitz is not None
    if form == "noising_coef":
        return d.toeplitz.noising_coef[:steps].astype(dtype).astype(float)
    column = d.toeplitz.strategy_coef[:steps].astype(dtype)
    noise = np.zeros(steps, dtype)
    for t in range(steps):
        noise[t] = (column.dtype.type(impulse[t]) - column[1 : t + 1] @ noise[:t][::-1]) / column[0]
    return noise.astype(float)


@cache
def designed(problem: Problem, steps: int | None) -> Design:
    return design(problem, rho=0.5, steps=steps)


def check(problem: Problem, steps: int | None) -> Design:
    d = designed(problem, steps)
    length = min(steps or RUN, RUN)
    for one in d.handover:
        if one.sensitivity is None:
            assert one.reason
            assert d.multipliers(one.form)[one.dtype] is None
            continue
        coefficients = made(d, one.form, cast(Dtype, one.dtype), length)
        # Inverted in double-double arithmetic; the same noise, so that errors may not grow.
        run = FiniteNoise(coefficients).sensitivity(length)
        assert run <= one.sensitivity, (one.form, one.dtype)
        assert (d.multipliers(one.form)[one.dtype] or 0) >= run
        rates = d.reference.rates[d.reference.rates > 20 / length]
        if rates.size:
            ideal = (
                FiniteNoise(d.noise.coefficients(length)).averaged_variance(rates) * d.noise.sensitivity(length) ** 2
            )
            variances = FiniteNoise(coefficients).averaged_variance(rates) * run**2
            assert (variances <= ideal * (1 + LARGEST_INCREASE)).all(), (one.form, one.dtype)
    return d


@pytest.mark.parametrize(("problem", "steps"), FAST, ids=repr)
def test_what_runs_is_covered_and_close(problem: Problem, steps: int | None) -> None:
    check(problem, steps)


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "steps"), SLOW, ids=repr)
def test_what_runs_is_covered_and_close_everywhere(problem: Problem, steps: int | None) -> None:
    check(problem, steps)


def test_quadratic_problems_have_buffers_in_both_types() -> None:
    for problem in (power_law(128, 1.0, 0.5), power_law(32, 2.0, 0.5), MeanEstimation(1e-3)):
        assert None not in designed(problem, 1000).multipliers("buffers").values()


# -- the failures ------------------------------------------------------------------------------------------------------

#: Fits of the optimal noise at (μ, η) = (0.01, 0.5) and (0.05, 0.6), with decays that all but coincide.
TRIPLE = PoleNoise(
    [
        *(0.0015217094948264819, 0.018490203764236015, 0.01855793105997895, 0.03610053090842492, 0.07842639402652268),
        *(0.07842640830089109, 0.2304581779978837, 0.23045817800879276, 0.23045817805868118, 0.5920843301087033),
        *(0.5920843327036583, 1.0421552244003416, 1.0421567778243641, 1.80916223986266),
    ],
    [
        *(0.0015217654935793833, 0.017234382447634262, 0.02078289390026369, 0.062176169594513185, 0.06217618951392497),
        *(0.17286927390128298, 0.17286927916555744, 0.1728692791659594, 0.45353224837876116, 0.4536582530008979),
        *(0.9374328686267923, 0.9374332873354265, 1.1024077169327708, 1.8090971027726281),
    ],
)
PAIRS = PoleNoise(
    [
        *(0.003951369576025398, 0.039669246214595104, 0.06313866790397195, 0.10513092794676183, 0.179984289688171),
        *(0.18005776598003487, 0.3900949171206198, 0.39011503915478063, 0.6710695056528388, 0.6710775005830657),
        *(0.6710815250695927, 1.2830293178374952, 1.2830397330277987, 1.5096758186769077),
    ],
    [
        *(0.003951393660325137, 0.03963282184228853, 0.06369341393763488, 0.15251716741131743, 0.15256133667646204),
        *(0.30674157665476537, 0.30674369402308777, 0.5653276369052004, 0.5653607957110536, 0.565360795711061),
        *(1.0829773287010263, 1.0829774551019835, 1.371127560691617, 1.5038504801617072),
    ],
)


def spectral_distance(form: BufferForm, noise: PoleNoise, dtype: Dtype) -> float:
    """Distance of the noise coefficients that ``form`` makes from those of ``noise``."""
    impulse = np.zeros(500)
    impulse[0] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.linalg.norm(form.noise_as_run(impulse, dtype=dtype) - noise.coefficients(500)))


def test_buffers_that_cancel_have_no_multiplier() -> None:
    """Scales up to 5e17: already the rounded scales, run exactly, stand for other noise."""
    form = buffer_form(TRIPLE)
    assert np.abs(form.output_scale).max() > 1e17
    assert form.sensitivity_upper_bound(Participation.single(2000)) > 100 * TRIPLE.sensitivity(Participation.single(2000))
    for dtype in DTYPES:
        assert not spectral_distance(form, TRIPLE, dtype) < 1
        assert form.sensitivity_as_run(2000, dtype=dtype) > 1000
        assert buffer_handover(form, dtype, reference(TRIPLE, 2000, [0.005, 0.5])).sensitivity is None


def test_buffers_that_diverge_in_float32_are_refused() -> None:
    """In float64 rounding costs 1e-7 of the sensitivity, more than any rounding of the numbers themselves."""
    form = buffer_form(PAIRS)
    measure = reference(PAIRS, 2000, [0.03, 0.6])
    exact = form.sensitivity_upper_bound(Participation.single(2000))
    assert form.sensitivity_as_run(2000, dtype="float64") > exact * (1 + 1e-8)
    assert spectral_distance(form, PAIRS, "float64") < 1e-6
    assert "real and stable poles" in buffer_handover(form, "float64", measure).reason
    assert buffer_handover(form, "float32", measure).sensitivity is None
    assert not spectral_distance(form, PAIRS, "float32") < 1


@pytest.mark.parametrize(("mu", "eta", "steps"), [(0.01, 0.5, 2000), (0.07, 0.5, 200), (0.05, 0.6, 2000)])
def test_designs_whose_first_fit_was_broken_hold_in_both_types(mu: float, eta: float, steps: int) -> None:
    """Rounding decides whether the fit with 8 buffers holds, or one with fewer; it is not the same in all processes."""
    d = designed(strongly_convex(mu, eta), steps)
    assert d.buffers is not None
    assert d.buffers.buf_decay.size <= 8
    assert None not in d.multipliers("buffers").values()
    assert d.buffers_multiplier == pytest.approx(d.noise_multiplier, rel=1e-3)


# -- one form at a time ------------------------------------------------------------------------------------------------

MEASURE = reference(NuFTRL(0.1), 500, [0.01, 1.0])


def test_a_form_that_holds() -> None:
    form = buffer_form(POLES)
    for dtype in DTYPES:
        held = buffer_handover(form, dtype, MEASURE)
        assert (held.form, held.dtype, held.reason) == ("buffers", dtype, "")
        assert held.sensitivity == form.sensitivity_as_run(500, dtype=dtype)


@pytest.mark.parametrize(
    ("form", "steps", "dtype", "reason"),
    [
        (None, 500, "float64", "no sum of few decaying exponentials"),
        (BufferForm([0.9], [1e300]), 500, "float32", "its scales exceed the range of float32"),
        (BufferForm([1.0], [0.1]), None, "float64", "a decay is 1 to within the rounding of float64"),
        (BufferForm([0.5], [3.0]), 500, "float64", "rounded to float64 it is no noise with real and stable poles"),
        (
            BufferForm([0.5, 0.4], [1.0, -1.0]),
            500,
            "float64",
            "rounded to float64 it is no noise with real and stable poles",
        ),
        (BufferForm([0.5], [0.4]), 500, "float64", "errors due to privacy would be .* larger"),
        (buffer_form(PoleNoise([0.1], [0.3])), 500, "float64", "errors due to privacy would be .* larger"),
    ],
)
def test_a_form_that_is_refused(form: BufferForm | None, steps: int | None, dtype: Dtype, reason: str) -> None:
    refused = buffer_handover(form, dtype, Reference(MEASURE.noise, steps, MEASURE.rates))
    assert refused.sensitivity is None
    assert re.match(reason, refused.reason), refused.reason


def test_a_recurrence_that_goes_astray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last check alone: a program that makes other noise, with everything else in order."""
    form = buffer_form(POLES)

    def wrong(self: BufferForm, independent: np.ndarray, *, dtype: Dtype) -> np.ndarray:
        return np.where(np.arange(independent.size) < 3, independent, 0.1)

    monkeypatch.setattr(BufferForm, "noise_as_run", wrong)
    assert "its recurrence makes other noise" in buffer_handover(form, "float64", MEASURE).reason
    monkeypatch.setattr(BufferForm, "noise_as_run", lambda *_, **__: np.full(20_000, math.nan))
    assert "its recurrence makes other noise" in buffer_handover(form, "float64", MEASURE).reason


def test_columns_that_hold_and_that_do_not() -> None:
    noise = NuFTRL(1e-4)
    measure = reference(noise, 20_000, [1e-3, 1.0])
    form = toeplitz_form(noise, 20_000)
    held = {
        (column, dtype): toeplitz_handover(form, column, dtype, measure)
        for column in ("strategy_coef", "noising_coef")
        for dtype in DTYPES
    }
    assert [key for key, one in held.items() if one.reason] == [("noising_coef", "float32")]
    assert all((one.sensitivity or 9) >= form.sensitivity for one in held.values())
    assert (
        "may be as large as the noise"
        in toeplitz_handover(
            toeplitz_form(noise, 100_000), "noising_coef", "float32", reference(noise, 100_000, [1e-3, 1.0])
        ).reason
    )
    overflowing = ToeplitzForm(np.array([1.0, 0.1]), np.array([1.0, 1e300]), 1e300)
    assert toeplitz_handover(overflowing, "strategy_coef", "float32", MEASURE).sensitivity is None


def test_the_most_accurate_fit_that_holds_is_taken() -> None:
    noise = NuFTRL(1e-3)
    measure = reference(noise, 1000, [1e-3, 1.0])
    stream = rational(noise, 1e-6)
    assert fitted_buffers(stream, measure) == buffer_form(cast(PoleNoise, stream))
    fitted = fitted_buffers(None, measure)  # no stream: the first fit
    assert fitted is not None
    assert noise_from_buffers(fitted).limiting_sensitivity() == pytest.approx(noise.limiting_sensitivity(), rel=1e-4)
    banded = FiniteNoise([1.0, -0.5])
    assert fitted_buffers(banded, reference(banded, 100, [0.01, 1.0])) is None
    # Only float64 resolves decays so close to 1 in runs of any length.
    slow = NuFTRL(1e-7)
    only: Any = fitted_buffers(rational(slow, 1e-6), reference(slow, None, [1e-7, 1.0]))
    assert not buffer_handover(only, "float64", reference(slow, None, [1e-7, 1.0])).reason
    assert buffer_handover(only, "float32", reference(slow, None, [1e-7, 1.0])).reason


def test_rates_cover_the_problem() -> None:
    assert reference(NuFTRL(0.1), 7, [0.3, 0.1, 0.5]).rates[[0, -1]] == pytest.approx([0.1, 0.5])
    assert reference(NuFTRL(0.1), 7, [0.3]).rates == pytest.approx([0.3])
    assert reference(NuFTRL(0.1), 7, None).rates[[0, -1]] == pytest.approx([1 / 7, 1.0])
    assert reference(NuFTRL(0.1), None, None).rates[0] == pytest.approx(1e-4)
    assert MEASURE.increase(MEASURE.sensitivity) == pytest.approx(0, abs=1e-15)
    assert MEASURE.increase(1.1 * MEASURE.sensitivity) == pytest.approx(0.21)
    assert MEASURE.increase(MEASURE.sensitivity, NuFTRL(0.2)) > 0.2
