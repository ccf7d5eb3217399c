"""Checks of arguments: accepted values, refusals and their messages; and the arguments of correlated noise."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "interval", "number"),
    [
        (0, "[0, 2)", 0.0),
        (np.float32(0.5), "[0, 2)", 0.5),
        (np.int64(1), "(0, 1]", 1.0),
        (np.array(1.5), "(0, 2)", 1.5),
        (Fraction(1, 4), "(0, inf)", 0.25),
        (-1e308, "(-inf, inf)", -1e308),
    ],
)
def test_real_numbers_of_all_types_become_floats(value, interval, number):
    result = checks.real("x", value, interval)
    assert type(result) is float
    assert result == number


@pytest.mark.parametrize(
    ("value", "interval", "error"),
    [
        (2, "[0, 2)", ValueError),
        (0, "(0, inf)", ValueError),
        (-1e-300, "[0, 2)", ValueError),
        (NAN, "(-inf, inf)", ValueError),
        (INF, "[0, inf]", ValueError),  # an infinite end is open, whatever the bracket says
        (-INF, "[-inf, 0]", ValueError),
        (10**400, "(-inf, inf)", ValueError),
        (True, "[0, 2)", TypeError),
        (np.bool_(True), "[0, 2)", TypeError),
        ("1", "[0, 2)", TypeError),
        (None, "[0, 2)", TypeError),
        (1j, "[0, 2)", TypeError),
        (Decimal(1), "[0, 2)", TypeError),
        ([1.0], "[0, 2)", TypeError),
        (np.ones(1), "[0, 2)", TypeError),
    ],
)
def test_refused_numbers_are_named_with_value_and_range(value, interval, error):
    with pytest.raises(error) as refusal:
        checks.real("damping", value, interval)
    message = str(refusal.value)
    assert message.startswith("damping must")
    assert interval in message
    assert repr(value) in message


@given(
    st.floats(),
    st.tuples(st.floats(-10, 10), st.floats(-10, 10)).map(sorted),
    st.sampled_from("[("),
    st.sampled_from("])"),
)
def test_intervals_mean_what_they_say(value, ends, left, right):
    low, high = ends
    inside = (low <= value if left == "[" else low < value) and (value <= high if right == "]" else value < high)
    try:
        checks.real("x", value, f"{left}{low!r}, {high!r}{right}")
        taken = True
    except ValueError:
        taken = False
    assert taken == inside


def test_the_ends_of_an_interval_are_told_apart():
    for interval, taken in [("[0, 1]", (0, 1)), ("(0, 1]", (1,)), ("[0, 1)", (0,)), ("(0, 1)", ())]:
        for end in (0, 1):
            if end in taken:
                checks.real("x", end, interval)
            else:
                with pytest.raises(ValueError, match="x must lie in"):
                    checks.real("x", end, interval)


def test_arrays_are_read_only_copies_in_float64():
    given_values = np.array([1, 2, 3])
    taken = checks.reals("v", given_values)
    given_values[0] = 7
    assert taken.dtype == np.float64
    assert taken.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        taken[0] = 0
    assert checks.reals("v", taken, shared=True) is taken
    assert checks.reals("v", 2).shape == ()
    assert checks.reals("v", np.ones((2, 3), dtype=np.float32)).shape == (2, 3)
    assert checks.reals("v", []).shape == (0,)
    assert checks.reals("v", np.ones((2, 3)).T).flags.c_contiguous


def test_a_read_only_array_that_others_write_to_is_copied():
    given_values = np.ones(3)
    view = given_values[:]
    given_values.setflags(write=False)
    taken = checks.reals("v", given_values)
    shared = checks.reals("v", given_values, shared=True)  # the mutant keeps the array
    view[0] = 7
    assert taken.tolist() == [1.0, 1.0, 1.0]
    assert shared.tolist() == [7.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("values", "keywords", "error", "said"),
    [
        ([0.5, 3.0, NAN], {}, ValueError, "3.0 (2 of 3 entries)"),
        ([0.5, 3.0], {}, ValueError, "3.0 (1 of 2 entries)"),
        ([-1.0, 0.5, 1.5], {}, ValueError, "-1.0 (1 of 3 entries)"),
        ([INF], {}, ValueError, "inf"),
        ([], {"ndim": 1}, ValueError, "shape (0,)"),
        (1.0, {"ndim": 1}, ValueError, "shape ()"),
        ([[1.0]], {"ndim": 1}, ValueError, "shape (1, 1)"),
        (["a"], {}, TypeError, "['a']"),
        (None, {}, TypeError, "None"),
        ([1j], {}, TypeError, "[1j]"),
        ([True, False], {}, TypeError, "[True, False]"),
        ([10**400], {}, TypeError, "[1000"),
        ([[1.0], [1.0, 2.0]], {}, (TypeError, ValueError), "[1.0, 2.0]"),  # ragged
    ],
)
def test_refused_arrays_are_named(values, keywords, error, said):
    with pytest.raises(error) as refusal:
        checks.reals("weights", values, "[0, 2)", **keywords)
    message = str(refusal.value)
    assert message.startswith("weights must")
    assert "[0, 2)" in message
    assert said in message


def test_vectors_and_scalars():
    assert checks.vector("v", 2).tolist() == [2.0]
    assert checks.vector("v", []).shape == (0,)
    assert not checks.vector("v", [1, 2]).flags.writeable
    with pytest.raises(ValueError, match=r"^v must be a vector of numbers in \[0, 1\], got shape \(1, 2\)$"):
        checks.vector("v", [[0, 1]], "[0, 1]")
    assert checks.scalar_or_vector("w", 1, "[0, 1]", 2).shape == ()
    assert checks.scalar_or_vector("w", [1, 0], "[0, 1]", 2).tolist() == [1.0, 0.0]
    for bad in ([1.0], [1, 1, 1], [[1, 1]]):
        with pytest.raises(ValueError, match=r"^w must be a scalar or have shape \(2,\), got shape"):
            checks.scalar_or_vector("w", bad, "[0, 1]", 2)


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError), (None, TypeError), ("1", TypeError),
     (NAN, TypeError), (1j, TypeError), ([1], TypeError)],
)  # fmt: skip
def test_integers(value, error):
    assert checks.integer("steps", np.int32(1), 1) == 1
    assert type(checks.integer("steps", np.int32(1), 1)) is int
    with pytest.raises(error, match=r"^steps must be an integer >= 1, got") as refusal:
        checks.integer("steps", value, 1)
    assert repr(value) in str(refusal.value)


def test_integers_end_where_no_array_is_longer():
    assert checks.integer("steps", 10**18, 1) == 10**18
    assert checks.seed("seed", 2**128) == 2**128
    with pytest.raises(ValueError, match=rf"^steps must be an integer in \[1, {10**18}\], got {10**30}$"):
        checks.integer("steps", 10**30, 1)


@pytest.mark.parametrize("value", ["c", None, 1, NAN, (), ["a"], np.array([1.0, NAN])], ids=repr)
def test_choices(value):
    assert checks.choice("kind", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match=r"^kind must be one of 'a', 'b', got"):
        checks.choice("kind", value, ("a", "b"))


def test_lengths():
    checks.same_length("p", np.ones(2), "q", np.zeros(2))
    with pytest.raises(ValueError, match=r"^p and q must have the same length, got 2 and 3$"):
        checks.same_length("p", np.ones(2), "q", np.ones(3))


def test_shapes_and_matrices():
    assert checks.shaped("m", [[1, 2]], (1, 2), "[0, 2]").tolist() == [[1.0, 2.0]]
    assert checks.symmetric("m", [[0, 1], [1 + 1e-12, 0]], 2).shape == (2, 2)
    assert not checks.positive_definite("m", [[2, 1], [1, 2]], 2).flags.writeable
    for call, said in [
        (lambda: checks.shaped("m", [1.0], (2,)), r"^m must have shape \(2,\), got shape \(1,\)$"),
        (lambda: checks.shaped("m", [3.0], (1,), "[0, 2]"), r"^m must lie in \[0, 2\], got 3\.0"),
        (lambda: checks.symmetric("m", [[0, 1], [0, 0]], 2), r"^m must be symmetric, got entries that differ by 1\.0"),
        (lambda: checks.symmetric("m", [[0, 1]], 2), r"^m must have shape \(2, 2\), got shape \(1, 2\)$"),
        (lambda: checks.positive_definite("m", [[1, 2], [2, 1]], 2), r"positive definite, .* got -1\.0"),
        (lambda: checks.positive_definite("m", [[0.0]], 1), r"eigenvalues in \(0, inf\), got 0\.0$"),
    ]:
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.parametrize("value", [0, 1, None, "no", [True]])
def test_truth_values(value):
    assert checks.boolean("flag", True) is True
    assert checks.boolean("flag", np.bool_(False)) is False
    with pytest.raises(TypeError, match=r"^flag must be True or False, got"):
        checks.boolean("flag", value)


def test_instances():
    assert checks.instance("noise", FINITE, FiniteNoise) is FINITE
    with pytest.raises(TypeError, match=r"^noise must be a FiniteNoise, got None$"):
        checks.instance("noise", None, FiniteNoise)
    with pytest.raises(TypeError, match=r"^noise must be a FiniteNoise, got NuFTRL") as refusal:
        checks.instance("noise", NUFTRL, FiniteNoise)
    assert len(str(refusal.value)) < 120
    with pytest.raises(TypeError, match="got '" + "x" * 79 + "$"):
        checks.instance("noise", "x" * 1000, FiniteNoise)


# -- where the checks are used -----------------------------------------------------------------------------------------

NUFTRL, FINITE = NuFTRL(0.1), FiniteNoise([1, -0.5])
ARGUMENTS = {  # each with the values, of those below, that are good
    "nu": (NuFTRL, ()),
    "damping": (AntiPGD, ()),
    "gaps": (lambda v: ProductNoise(v, [0.5]), (2.0,)),
    "exponents": (lambda v: ProductNoise([0.1], v), (-1, 2.0)),
    "coefficients": (FiniteNoise, ()),
    "frequencies": (NUFTRL.power_spectrum, (-1, 2.0, [], [[0.5], [0.5]])),
    "rates": (NUFTRL.averaged_variance, ([], [[0.5], [0.5]])),
    "steps": (NUFTRL.coefficients, ()),
    "period": (lambda v: Participation.min_sep(3, v), ()),
    "count": (lambda v: Participation.min_sep(3, 1, v), (None,)),
    "rate": (lambda v: Participation.poisson(3, v), ()),
    "rho": (Budget, (2.0,)),
    "adjacency": (lambda v: Budget(1.0, adjacency=v), ()),
    "clip_norm": (lambda v: Budget(1.0, clip_norm=v), (2.0,)),
}
BAD = [NAN, INF, -1, 2.0, True, "x", None, 1j, [], [[0.5], [0.5]], 0.0]


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("value", BAD, ids=map(repr, BAD))
def test_bad_arguments_are_named(name, value):
    call, good = ARGUMENTS[name]
    zero = ("nu", "damping", "gaps", "exponents", "frequencies")
    if any(value is v or (type(value) is type(v) and value == v) for v in (*good, *([0.0] if name in zero else []))):
        call(value)
        return
    with pytest.raises((ValueError, TypeError)) as refusal:
        call(value)
    assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: NuFTRL(2), r"nu must lie in \[0, 2\), got 2"),
        (lambda: ProductNoise([0.1, 0.2], [1]), "gaps and exponents must have the same length, got 2 and 1"),
        (lambda: ProductNoise([[0.1, 0.2]], [[1, 1]]), "gaps"),
        (lambda: ProductNoise([1e-301], [1]), "gaps must be 0 or at least 1e-300, got 1e-301"),
        (lambda: NuFTRL(1e-320), "nu must be 0 or at least 1e-300, got 1e-320"),
        (lambda: AntiPGD(1e-301), "damping must be 0 or at least 1e-300, got 1e-301"),
        (lambda: ProductNoise([2.1], [1]), r"gaps must lie in \[0, 2\]"),
        (lambda: FiniteNoise([0, 1]), r"coefficients\[0\] must not be 0"),
        (lambda: FiniteNoise([[1], [1, 2]]), "coefficients"),
        (lambda: Participation.min_sep(0, 4), "steps must be an integer >= 1, got 0"),
        (lambda: NUFTRL.sensitivity(Participation.single(0)), "steps must be an integer >= 1, got 0"),
        (lambda: FINITE.inverse_coefficients(2.0), "steps"),  # type: ignore[arg-type]
        (lambda: Budget(1.0, adjacency="add-remove"), "adjacency must be one of 'zero-out', 'replace"),  # type: ignore[arg-type]
        (lambda: ScaledNoise([1.0, -1.0], [1.0]), "noise must be correlated noise"),  # type: ignore[arg-type]
    ],
)
def test_refusals_say_what_is_wrong(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()
