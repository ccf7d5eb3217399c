"""Designs as records: multipliers that cover what runs, arguments that are checked, and a description in full."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from corrnoise.designs.handover import FORMS
from corrnoise.solvers.rational.exchange import BufferForm, buffer_form
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.designs.record import Design
from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.privacy import Adjacency
from corrnoise.theory.problems.quadratic import LinearRegression
from tests import oracles
from tests.design_examples import POLES, small
from tests.strategies import gaps, log_uniform

# -- multipliers -------------------------------------------------------------------------------------------------------


def own_sensitivities(d: Design, nu: float, steps: int) -> dict[str, Any]:
    """The strategy of everything that is handed over, at many digits."""
    assert d.toeplitz is not None
    assert isinstance(d.stream, PoleNoise)
    assert d.buffers is not None
    buffers = [mpf(1)] + [mpf(0)] * (steps - 1)
    for decay, scale in zip(d.buffers.buf_decay.tolist(), d.buffers.output_scale.tolist(), strict=True):
        for t in range(1, steps):
            buffers[t] += mpf(scale) * mpf(decay) ** (t - 1)
    sections = np.concatenate([d.stream.zeros, d.stream.poles]).tolist()
    signs = [-1] * d.stream.zeros.size + [1] * d.stream.poles.size
    return {
        "noise": oracles.product_coefficients([nu], [-0.5], steps),
        "stream": oracles.product_coefficients(sections, signs, steps),
        "noising_coef": oracles.reciprocal(d.toeplitz.noising_coef.tolist(), steps),
        "strategy_coef": [mpf(value) for value in d.toeplitz.strategy_coef.tolist()],
        "buffers": buffers,
    }


@given(gaps(1e-6), st.integers(1, 30), log_uniform(1e-4, 1e4), st.sampled_from([1, 2]))
@settings(max_examples=25)
def test_every_multiplier_is_that_of_its_own_numbers_and_not_too_small(
    nu: float, steps: int, rho: float, factor: int
) -> None:
    """In float64 larger than the exact one by the four roundings to float32 at the ends of a program, at most."""
    stream = rational_approximation(NuFTRL(nu), 1e-6)
    assert isinstance(stream, PoleNoise)
    adjacency: Adjacency = "replace-one" if factor == 2 else "zero-out"
    d = Design(NuFTRL(nu), stream, buffer_form(stream), rho=rho, steps=steps, adjacency=adjacency)
    with workdps(40):
        found = {"noise": d.noise_multiplier, "stream": d.stream_multiplier}
        found |= {form: d.multipliers(form)["float64"] for form in FORMS}
        for name, column in own_sensitivities(d, nu, steps).items():
            exact = factor * mp.sqrt(mp.fsum(c * c for c in column)) / mp.sqrt(2 * mpf(rho))
            assert exact * (1 + mpf(2) ** -22) <= mpf(found[name]) <= exact * (1 + mpf("2.4e-7")), name
            in_float32 = d.multipliers(name).get("float32") if name in FORMS else None
            assert in_float32 is None or exact < mpf(in_float32) < exact * mpf("1.02"), name
        for form in FORMS:
            held = [value for value in d.multipliers(form).values() if value is not None]
            assert d.largest_multiplier(form) == max(held)
        assert d.buffers_multiplier == d.largest_multiplier("buffers")
        assert d.toeplitz_multiplier == max(d.largest_multiplier(form) or 0 for form in FORMS[1:])


def test_without_a_horizon_the_limit_counts() -> None:
    d = small(steps=None)
    assert d.toeplitz is None
    assert d.toeplitz_multiplier is None
    assert d.noise_multiplier == NuFTRL(0.1).noise_multiplier(0.5)
    ideal = POLES.noise_multiplier(0.5)
    assert d.stream_multiplier is not None
    assert ideal < d.stream_multiplier < ideal * (1 + 2.4e-7)
    assert d.multipliers("buffers")["float64"] == pytest.approx(d.stream_multiplier, rel=1e-13)
    assert {one.reason for one in d.handover if one.form != "buffers"} == {"coefficients need a number of steps"}


def test_what_does_not_hold_has_no_multiplier_and_a_reason() -> None:
    assert small(stream=None).stream_multiplier is None
    without = small(buffers=None)
    assert without.buffers_multiplier is None
    assert without.multipliers("buffers") == {"float64": None, "float32": None}
    assert all(one.reason for one in without.handover if one.form == "buffers")
    colliding = BufferForm([0.9, 0.9 + 1e-13], [1e12, -1e12])
    refused = small(buffers=colliding, steps=200)
    assert refused.buffers_multiplier is None
    assert refused.description()["buffers"]["noise_multiplier"] is None
    assert "buf_decay" not in refused.description()["buffers"]
    slow = BufferForm([1.0], [0.1])
    assert "is 1 to within the rounding" in small(buffers=slow, steps=None).handover[0].reason
    finite = small(stream=FiniteNoise([1.0, -0.5]))
    ideal = FiniteNoise([1.0, -0.5]).noise_multiplier(0.5, 5)
    assert finite.stream_multiplier is not None
    assert ideal < finite.stream_multiplier < ideal * (1 + 2.4e-7)


def test_replace_one_takes_twice_the_noise_and_four_times_the_error() -> None:
    zero_out = small()
    replace_one = small(adjacency="replace-one")
    for name in ("noise_multiplier", "stream_multiplier", "toeplitz_multiplier", "buffers_multiplier"):
        assert getattr(replace_one, name) == pytest.approx(2 * getattr(zero_out, name), rel=1e-14)
    noiseless = LinearRegression([1.0, 0.3], 0.05)
    errors = [noiseless.stationary_error(d.noise, **d.budget) for d in (zero_out, replace_one)]
    assert errors[1] == pytest.approx(4 * errors[0], rel=1e-14)


# -- description -------------------------------------------------------------------------------------------------------


def test_json_says_everything_in_plain_numbers() -> None:
    d = small()
    described = json.loads(d.json())
    assert described["format"] == "corrnoise.Design 4"
    assert described["privacy"] == {
        "rho": 0.5,
        "clip_norm": 1.0,
        "adjacency": "zero-out",
        "steps": 5,
        "min_sep": 1,
        "max_participations": 1,
        "gaussian_noise_multiplier": pytest.approx(1.0, rel=1e-15),
    }
    assert described["noise"] == {"kind": "NuFTRL", "nu": 0.1, "noise_multiplier": d.noise_multiplier}
    coefficients = described["coefficients"]
    assert coefficients["noise_multiplier"] == d.toeplitz_multiplier
    assert coefficients["strategy_coef"] == {"noise_multipliers": d.multipliers("strategy_coef"), "refused": {}}
    assert described["stream"]["zero_gaps"] == POLES.zeros.tolist()
    assert described["stream"]["noise_multiplier"] == d.stream_multiplier
    assert d.buffers is not None
    assert described["buffers"]["output_scale"] == d.buffers.output_scale.tolist()
    assert described["buffers"]["noise_multipliers"] == d.multipliers("buffers")
    assert described["problem"]["kind"] == "LinearRegression"
    assert described["problem"]["eigenvalues"] == [1.0, 0.3, 0.01]
    assert described["metadata"] == dict(d.metadata)
    assert described["notes"] == ["A sentence."]
    rows = {row["method"]: row for row in described["comparison"]["rows"]}
    assert rows["DP-SGD"]["best_error"] == d.comparison["DP-SGD"].best_error
    assert described["comparison"]["initial_offset"] == 0.5
    assert "sum of the clipped gradients" in described["conventions"]["noise_multiplier"]
    rest = json.loads(small(stream=FiniteNoise([1.0, -0.5]), problem=None, steps=None).json())
    assert rest["stream"]["coefficients"] == [1.0, -0.5]
    assert (rest["problem"], rest["comparison"], rest["coefficients"]["noise_multiplier"]) == (None, None, None)
    assert rest["coefficients"]["noising_coef"]["refused"]["float32"] == "coefficients need a number of steps"


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"noise": "nu"}, TypeError, "noise must be correlated noise"),
        ({"stream": NuFTRL(0.1)}, TypeError, "stream must be PoleNoise, FiniteNoise, ScaledNoise, BandedNoise or None"),
        (
            {"problem": [1.0]},
            TypeError,
            "problem must be one of LinearRegression, MeanEstimation, StronglyConvex or None",
        ),
        ({"buffers": buffer_form(POLES, "noising")}, ValueError, "buffers must be those of a strategy"),
        ({"buffers": POLES}, TypeError, "buffers must be a BufferForm"),
        ({"min_sep": 0}, ValueError, "min_sep must be an integer >= 1, got 0"),
        ({"max_participations": 6}, ValueError, r"max_participations must be at most ceil\(steps/min_sep\) = 5"),
        ({"max_participations": 2, "steps": None}, ValueError, "steps must be given for several participations"),
        ({"initial_offset": [1.0, 2.0]}, ValueError, r"initial_offset must be a scalar or have shape \(3,\)"),
        ({"initial_offset": [1.0], "problem": None}, ValueError, "initial_offset must be a number without a quadratic"),
        ({"initial_offset": math.nan}, ValueError, "initial_offset must lie in"),
        ({"notes": "a sentence"}, TypeError, "notes must be a sequence of strings"),
        ({"rho": 0.0}, ValueError, "rho must lie in"),
        ({"rho": math.nan}, ValueError, "rho must lie in"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1, got 0"),
        ({"clip_norm": math.inf}, ValueError, "clip_norm must lie in"),
        ({"adjacency": "add-remove"}, ValueError, "adjacency must be one of"),
        ({"noise": NuFTRL(0.0), "steps": None}, ValueError, "noise must have a finite sensitivity for steps=None"),
        ({"stream": AntiPGD(0.0)}, TypeError, "stream must be"),
        ({"stream": PoleNoise([0.0], [0.5]), "steps": None}, ValueError, "stream must have a finite sensitivity"),
        ({"metadata": {"a": math.nan}}, ValueError, "metadata must hold finite numbers, got 'a': nan"),
        ({"metadata": {"a": [1]}}, TypeError, "metadata must map strings to strings, numbers and booleans"),
        ({"metadata": {1: "a"}}, TypeError, "metadata must map strings"),
        ({"metadata": "a"}, TypeError, "metadata must be a mapping"),
    ],
)
def test_arguments_are_checked(changes: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        small(**changes)


def test_designs_are_frozen() -> None:
    d = small()
    with pytest.raises(dataclasses.FrozenInstanceError):
        d.rho = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        d.metadata["more"] = 1  # type: ignore[index]
    assert Design(ProductNoise([0.1], [0.5]), rho=1.0) != Design(NuFTRL(0.1), rho=1.0)
    assert Design(DPSGD(), rho=1.0).noise_multiplier == pytest.approx(1 / math.sqrt(2))
