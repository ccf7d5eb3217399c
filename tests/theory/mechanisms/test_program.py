"""Programs: forms and types, refusals, members and adjacency, and known covered sensitivities."""

import math
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.rounding import as_stored
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget
from tests.strategies import mechanisms, participations

SINGLE, FIXED = Participation.single(400), Participation.fixed_epochs(400, epochs=4)
MIN_SEP = Participation.min_sep(400, 100)
POLES = PoleNoise([0.01, 0.2], [0.1, 0.5])
#: Decays and scales of the buffers with the least mean error of prefix sums under ``MIN_SEP``.
DECAYS = [0.9772416438135043, 0.5907152780776496]
BUFFERS = [0.24424441596168062, 0.26025648677781216]


@given(participations(), st.data())
def test_a_program_covers_the_bracket(who, data):
    """program.sensitivity >= bracket.upper >= bracket.lower, and little more; float32 covers more than float64."""
    run = data.draw(mechanisms(who.steps))
    forms = run.forms() or ("transform",)
    exact = run.bracket(who)
    try:
        program = run.program(who, "float64", forms[0])
    except ValueError as error:  # rounding errors are not small beside the noise
        assert "must have a finite sensitivity" in str(error)  # noqa: PT017
        return
    assert exact.lower <= exact.upper
    assert program.sensitivity >= exact.upper * (1 - 1e-12)
    assert (program.form, program.dtype, program.participation) == (forms[0], "float64", who)
    if program.form != "substitution":
        assert program.memory == run.memory(who.steps)
    if "float32" in run.FORMS[forms[0]] and exact.upper < 100 and not isinstance(run, FiniteNoise):
        try:
            rounded = run.program(who, "float32", forms[0])
        except ValueError:
            return
        assert rounded.sensitivity >= rounded.mechanism.bracket(who).upper


@pytest.mark.parametrize(
    ("mechanism", "form", "types"),
    [
        (DPSGD(), "cascade", ("float64", "float32")),
        (AntiPGD(0.1), "cascade", ("float64", "float32")),
        (POLES, "cascade", ("float64", "float32")),
        (FiniteNoise([1, -0.4, -0.2]), "delay line", ("float64", "float32")),
        (BandedStrategyNoise([1, 0.5]), "substitution", ("float64",)),
        (ScaledNoise(POLES, np.ones(400)), "cascade", ("float64",)),
        (MatrixNoise(np.eye(400)), "substitution", ("float64",)),
        (BandedNoise(np.ones((1, 400))), "substitution", ("float64",)),
        (BinaryTree(400), "tree", ("float64",)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_usual_form_and_its_types(mechanism, form, types):
    program = mechanism.program(SINGLE)
    assert (program.form, program.dtype) == (form, types[-1])
    assert mechanism.FORMS[form] == types
    assert program.sensitivity <= mechanism.program(SINGLE, "float64").sensitivity * 1.001
    if len(types) == 1:
        with pytest.raises(ValueError, match="dtype must be"):
            mechanism.program(SINGLE, "float32")


def test_float32_is_left_where_it_costs_more_than_a_thousandth():
    program = FiniteNoise(NuFTRL(1e-3).coefficients(400)).program(SINGLE)
    assert program.dtype == "float64"


def test_two_programs_of_one_mechanism_agree_to_their_rounding():
    for who in (SINGLE, MIN_SEP, FIXED, Participation.reshuffled(400, epochs=4)):
        forms = ("cascade", "buffers", "strategy column", "noising column", "transform")
        found = [POLES.program(who, "float64", form).sensitivity for form in forms]
        assert max(found) == pytest.approx(min(found), rel=1e-6)
        coarse = [POLES.program(who, "float32", form).sensitivity for form in forms[:3]]
        assert min(coarse) > max(found)  # a float32 program covered as float64 would be covered too little
        assert max(coarse) == pytest.approx(min(found), rel=1e-3)


def test_known_sensitivities():
    assert DPSGD().program(SINGLE).sensitivity == pytest.approx(1.00000023842, abs=6e-12)
    assert DPSGD().program(FIXED).sensitivity == pytest.approx(2.00000047684, abs=6e-12)
    damped = AntiPGD(0.1).program(SINGLE, "float64"), AntiPGD(0.1).program(FIXED, "float64")
    assert [program.sensitivity for program in damped] == pytest.approx([2.29415788568, 4.58840717572], abs=6e-12)
    sixty_four = Participation.fixed_epochs(64, epochs=4)
    assert MatrixNoise.honaker(64).program(sixty_four).sensitivity == pytest.approx(6.6332511622, abs=6e-11)
    two = BufferNoise(DECAYS, BUFFERS)
    two = PoleNoise(two.zeros, two.poles)
    scaled = ScaledNoise.normalised(two, MIN_SEP, [0.4, 0.3, 0.2, 0.1])
    assert scaled.program(MIN_SEP).sensitivity == pytest.approx(1.0490762678, abs=6e-11)
    # Other programs round the factors of the steps to their type, too.
    handed = scaled.program(MIN_SEP, "float32", "buffers")
    assert handed.sensitivity == pytest.approx(1.0490829091763, abs=6e-13)
    assert two.program(MIN_SEP, "float64", "buffers").sensitivity == pytest.approx(3.46604207330597, abs=6e-13)


def test_arrays_are_the_numbers_that_run():
    scaled = ScaledNoise.normalised(POLES, MIN_SEP)
    expected = {
        "cascade": {"zeros", "poles"},
        "buffers": {"buf_decay", "output_scale"},
        "strategy column": {"strategy_coef"},
        "noising column": {"noising_coef"},
    }
    for form, names in expected.items():
        for dtype in ("float64", "float32"):
            if (form, dtype) == ("noising column", "float32"):
                continue  # costs too much here
            arrays = POLES.program(SINGLE, dtype, form).arrays
            assert set(arrays) == names
            assert all(np.array_equal(array, as_stored(array, dtype)) for array in arrays.values())
        assert set(scaled.program(MIN_SEP, "float64", form).arrays) == names | {"step_scales"}
    program = scaled.program(MIN_SEP)
    np.testing.assert_array_equal(program.step_scales, scaled.step_scales)
    assert program.draw_scales is None
    assert program.unscaled == program.mechanism.noise
    assert BinaryTree(8).program(Participation.single(8)).arrays == {}
    np.testing.assert_array_equal(
        POLES.program(SINGLE, "float64", "strategy column").arrays["strategy_coef"], POLES.inverse_coefficients(400)
    )


def test_members_and_adjacency_multiply():
    """The mutants: members are ignored, the factor of replace-one is 1, the clip norm is forgotten."""
    one = POLES.program(MIN_SEP)
    three = POLES.program(Participation.min_sep(400, 100, unit="user", members=3))
    assert three.sensitivity == one.sensitivity
    for budget in (Budget(0.5), Budget(epsilon=2.0, delta=1e-6)):
        assert one.multiplier(budget) == budget.multiplier(one.sensitivity)
        assert three.multiplier(budget) == pytest.approx(3 * one.multiplier(budget), rel=1e-14)
        doubled = Budget(budget.rho, epsilon=budget.epsilon, delta=budget.delta, adjacency="replace-one", clip_norm=2.0)
        assert one.multiplier(doubled) == pytest.approx(2 * one.multiplier(budget), rel=1e-14)
        assert one.scale(doubled) == 2.0 * one.multiplier(doubled)


@pytest.mark.parametrize("clip_norm", [1e-40, 1e40])
def test_noise_outside_of_float32_is_refused(clip_norm):
    with pytest.raises(ValueError, match="clip_norm must keep multiplier × clip_norm in the range of float32"):
        POLES.program(SINGLE).multiplier(Budget(0.5, clip_norm=clip_norm))


def test_runs_of_any_length():
    for noise in (POLES, AntiPGD(0.1), FiniteNoise([1, -0.5])):
        endless = noise.program(ANY_LENGTH)
        assert endless.sensitivity >= noise.limiting_sensitivity()
        assert endless.sensitivity >= noise.program(SINGLE).sensitivity * (1 - 1e-5)
        assert endless.memory == noise.memory(400)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NuFTRL(0.1).program(SINGLE), r"has a memory as long as the run: give rational\(noise, tolerance\)"),
        (lambda: NuFTRL(0.1).program(SINGLE, "float32", "transform"), "dtype must be"),
        (lambda: NuFTRL(0.1).program(SINGLE, form="cascade"), "noise must be rational"),
        (lambda: BinaryTree(400).program(SINGLE, form="cascade"), "form must be"),
        (lambda: AntiPGD(0.0).program(ANY_LENGTH), "must have a finite sensitivity"),
        (lambda: PoleNoise([0.5, 0.5], [0.1]).program(SINGLE, form="buffers"), "must have distinct zeros"),
        (lambda: ProductNoise([0.3], [-0.5]).program(ANY_LENGTH, form="transform"), "participation must have a number"),
        (lambda: BinaryTree(8).program(SINGLE), "participation must have steps=8"),
        (lambda: POLES.program(SimpleNamespace(steps=3)), "participation must be"),  # type: ignore[arg-type]
    ],
)
def test_refusals(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_random_order_is_covered_as_its_worst_case():
    poisson = Participation.poisson(12, 0.1)
    covered = POLES.program(poisson)
    assert covered.sensitivity == POLES.program(Participation.min_sep(12, 1)).sensitivity
    assert covered.sensitivity > 3 * POLES.program(Participation.single(12)).sensitivity
    assert covered.participation == poisson
    assert math.isfinite(covered.sensitivity)


def test_the_worst_case_of_cut_batches_pays_for_the_cuts() -> None:
    """Where the worst case is below the accountant's number, δ is that of a Gaussian, and the overflow."""
    delta, epsilon = 1e-5, 1.0
    who = Participation.poisson(3, 0.5, capacity=90, examples=128)
    assert 0.1 * delta < who.overflow < 0.9 * delta
    with mock.patch.object(Program, "_amplified", return_value=math.inf):
        multiplier = DPSGD().program(who).multiplier(Budget(epsilon=epsilon, delta=delta))
    mu = math.sqrt(3) / multiplier
    gaussian = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert 0.999 * delta < who.overflow + (1 - who.overflow) * gaussian <= delta
    mutant = Budget(epsilon=epsilon, delta=delta).multiplier(math.sqrt(3))
    assert mutant < multiplier * 0.99
