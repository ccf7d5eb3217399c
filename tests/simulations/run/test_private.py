"""A private run: its noise has the law of the mechanism, covered, added once to each batch, and never drawn twice."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import linalg, stats

from corrnoise.simulations.audit import audit
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.draws import normals
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_epsilon, gaussian_rho
from tests.simulations.run.sources import KEY, known_key

EPOCHS = Participation.fixed_epochs(12, epochs=3)
ORDER = batches(EPOCHS, 17, 4, rng=0)  # one example is left out
STEPS = ORDER.steps
MECHANISMS: list[Mechanism] = [
    DPSGD(),
    AntiPGD(0.3),
    NuFTRL(0.02),
    FiniteNoise([1.0, -0.5, -0.1]),
    BufferNoise([0.9, 0.3], [0.2, 0.1]),
    ScaledNoise(NuFTRL(0.02), np.linspace(1.0, 2.0, STEPS)),
    MatrixNoise.honaker(STEPS),
    BandedNoise(np.array([[1.0] * STEPS, [0.4] * (STEPS - 1) + [0.0]])),
    BinaryTree(STEPS, decoder="online"),
]
NOISE = NuFTRL(0.02)
BUDGET = Budget(rho=0.5, clip_norm=2.0)
EACH = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)


def private(mechanism: Mechanism = NOISE, size: int = 5, **options: Any) -> PrivateRun:
    settings: dict[str, Any] = {"budget": BUDGET, "participation": EPOCHS, "batches": ORDER} | options
    return PrivateRun(settings.pop("budget"), settings.pop("participation"), mechanism, size, **settings)


def noise_of(run: PrivateRun, steps: int | None = None) -> np.ndarray:
    """The noise of the steps to come, or of some of them."""
    made = []
    for _ in run:
        made.append(run.add_noise(np.zeros(run.size, np.float32)))
        if len(made) == steps:
            break
    return np.array(made)


# -- the noise, and what covers it -------------------------------------------------------------------------------------


def test_epsilon_by_another_accountant() -> None:
    """The whole run is one Gaussian mechanism of the sensitivity found by brute force."""
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    run = private(budget=Budget(epsilon=2.0, delta=1e-5))
    beta = run.program.mechanism.coefficients(STEPS)
    strategy = np.linalg.inv(linalg.toeplitz(beta, np.zeros(STEPS)))
    truth = strategy_sensitivity(strategy, EPOCHS, error=1e-12).lower
    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(run.multiplier / truth))
    assert accountant.get_epsilon(1e-5) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(("share", "private_as_claimed"), [(1.0, True), (0.5, False)])
def test_an_audit_of_the_loop(share: float, private_as_claimed: bool) -> None:
    """Level 1e-6; noise that is halved behind the run is found."""
    budget = Budget(rho=1.0, clip_norm=2.0)
    epochs = Participation.fixed_epochs(20, epochs=4)
    claim = PrivateRun(budget, epochs, NOISE, 1)

    def loop(gradients: Sequence[np.ndarray]) -> np.ndarray:
        run = PrivateRun(budget, epochs, NOISE, gradients[0].shape[1])
        released = []
        for step in run:
            norms = np.linalg.norm(gradients[step], axis=1, keepdims=True)
            total = (gradients[step] * np.minimum(1, 2.0 / np.maximum(norms, 1e-9))).sum(axis=0)
            released.append(total + share * (run.add_noise(total) - total))
        return np.array(released)

    found = audit(loop, claim, idle=200, level=1e-6, rng=1)
    assert found.cause == ("" if private_as_claimed else "the noise is smaller than claimed")


def test_multipliers_of_known_answers() -> None:
    epochs = Participation.fixed_epochs(400, epochs=20)
    budgets = [Budget(epsilon=5.0, delta=1e-5, adjacency=each) for each in ("zero-out", "replace-one")]
    found = [PrivateRun(budget, epochs, NuFTRL(0.021), 3).multiplier for budget in budgets]
    assert found == pytest.approx([7.186532531058121, 14.373065062116241], rel=1e-14)
    pair = Participation.fixed_epochs(400, epochs=20, unit="user", members=2)
    assert PrivateRun(budgets[0], pair, NuFTRL(0.021), 3).multiplier == pytest.approx(found[1], rel=1e-14)


def test_epsilon() -> None:
    run = private(budget=Budget(epsilon=2.0, delta=1e-5, clip_norm=2.0))
    assert run.profile().epsilon_at(1e-5) <= 2.0 < run.profile().epsilon_at(0.99e-5)
    assert run.profile().epsilon_at(1e-3) == pytest.approx(gaussian_epsilon(gaussian_rho(2.0, 1e-5), 1e-3), rel=1e-12)
    assert run.scale == run.multiplier * 2.0


def test_the_spent_epsilon_is_of_the_leading_block() -> None:
    """Against the norm of sums of columns, which are the longest because the strategy of this noise is positive."""
    run = private()
    strategy, spent = run.program.mechanism.strategy(STEPS), [run.spent(1e-6)]
    for _ in run:
        run.add_noise(np.zeros(run.size))
        spent.append(run.spent(1e-6))
    assert spent[0] == 0
    assert spent[-1] == run.profile().epsilon_at(1e-6)
    for step, epsilon in enumerate(spent[1:], 1):
        sums = [np.linalg.norm(strategy[:step, first:step:4].sum(axis=1)) for first in range(min(step, 4))]
        gamma = float(max(sums))
        exact = gaussian_epsilon(gamma**2 / 2 / run.multiplier**2, 1e-6)
        assert exact * (1 - 1e-6) <= epsilon <= exact * (1 + 2e-3)


@pytest.mark.parametrize(
    ("random", "worst"),
    [
        (Participation.fixed_epochs(12, epochs=3, secret=True), EPOCHS),
        (Participation.reshuffled(12, epochs=3, secret=True), Participation.reshuffled(12, epochs=3)),
    ],
)
def test_without_an_accountant_the_worst_case_counts(random: Participation, worst: Participation) -> None:
    options: dict[str, Any] = {"batches": None, "participation": random}
    assert private(**options).multiplier == private(**options | {"participation": worst}).multiplier


def test_the_noise_is_the_mechanism_times_its_scale() -> None:
    """The draws are made again from the key, over more than one part."""
    size = 70_000
    with known_key():
        run = private(AntiPGD(0.25), size)
    made = noise_of(run, 3)
    assert made.dtype == np.float32
    w = [normals(KEY, step, 0, size) for step in range(3)]
    expected = run.scale * np.array([w[0], w[1] - 0.75 * w[0], w[2] - 0.75 * w[1]])
    np.testing.assert_allclose(made, expected, atol=2e-6 * run.scale)
    assert stats.kstest(made[0] / run.scale, "norm").pvalue > 1e-6


def test_threads_and_types_do_not_change_the_noise() -> None:
    found = []
    for options in ({"threads": 1}, {"threads": 3}, {"dtype": "float64"}):
        with known_key(), private(size=200_000, **options) as run:
            found.append(noise_of(run, 3) / run.multiplier)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)


def test_float32_is_taken_only_where_it_costs_little() -> None:
    assert private(NuFTRL(1e-4)).program.dtype == "float32"
    assert private(MatrixNoise.honaker(STEPS)).program.dtype == "float64"
    assert private(PoleNoise([0.5], [1e-46])).program.dtype == "float64"  # no float32 has such a gap
    long: dict[str, Any] = {"participation": Participation.single(30_000), "batches": None}
    assert private(AntiPGD(0.0), **long).program.dtype == "float64"


def test_noise_with_a_long_memory_is_replaced_with_or_without_scales() -> None:
    """The program shows what runs; factors of steps and draws are kept."""
    plain = private(NOISE, dtype="float64").program
    assert plain.form == "cascade"
    assert plain.mechanism != NOISE
    scaled = private(ScaledNoise(NOISE, draw_scales=np.linspace(1, 2, STEPS))).program
    assert scaled.unscaled == plain.mechanism
    np.testing.assert_array_equal(scaled.draw_scales, np.linspace(1, 2, STEPS))


# -- batches and noise -------------------------------------------------------------------------------------------------


def test_batches_are_those_of_the_order_and_noise_comes_once_for_each() -> None:
    run = private()
    for step, batch in enumerate(run):
        np.testing.assert_array_equal(batch, ORDER.batch(step))
        total = np.full(5, 1.5)
        assert run.add_noise(total) is not total
        with pytest.raises(RuntimeError, match="no batch was handed out"):
            run.add_noise(total)
    assert run.position == STEPS
    assert list(run) == []
    with pytest.raises(RuntimeError, match="a further one is not covered"):
        run.next_batch()


def test_a_run_without_batches_hands_out_steps_and_ends_with_the_promise() -> None:
    run = private(batches=None)
    with pytest.raises(RuntimeError, match="no batch was handed out for step 0"):
        run.add_noise(np.zeros(5))
    steps = []
    for step in run:
        steps.append(step)
        run.add_noise(np.zeros(5))
    assert steps == list(range(STEPS))
    assert len(run) == 0
    assert list(run) == []
    left = iter(private(batches=None))
    next(left)
    with pytest.raises(RuntimeError, match="step 0 has got no noise"):
        next(left)


def test_a_run_of_any_length_does_not_end() -> None:
    run = private(batches=None, participation=Participation.single())
    assert noise_of(run, 21).shape == (21, 5)
    assert run.steps is None
    with pytest.raises(TypeError, match="any length"):
        len(run)


@pytest.mark.parametrize(
    ("given", "promised", "covered"),
    [
        (EPOCHS, EPOCHS, True),
        (EPOCHS, Participation.min_sep(12, 4), True),
        (EPOCHS, Participation.reshuffled(12, period=4), True),
        (EPOCHS, Participation.poisson(12, 0.1).worst, True),
        (EPOCHS, Participation.fixed_epochs(16, epochs=4), True),
        (EPOCHS, Participation.fixed_epochs(12, epochs=2), False),
        (EPOCHS, Participation.fixed_epochs(8, epochs=2), False),
        (EPOCHS, Participation.min_sep(12, 4, 2), False),
        (EPOCHS, Participation.single(12), False),
        (Participation.reshuffled(12, epochs=3), EPOCHS, False),
        (Participation.reshuffled(12, epochs=3), Participation.min_sep(12, 4), False),
    ],
)
def test_batches_must_be_covered_and_not_more(given: Participation, promised: Participation, covered: bool) -> None:
    order = batches(given, 17, 4, rng=0)
    if not covered:
        with pytest.raises(ValueError, match="batches must be covered by the participation of the run"):
            private(batches=order, participation=promised)
        return
    run = private(batches=order, participation=promised)
    assert len(run) == run.steps == 12
    assert run.participation == promised
    assert noise_of(run).shape == (12, 5)


def test_a_batch_without_noise_is_an_error() -> None:
    run = private()
    left = iter(run)
    next(left)
    with pytest.raises(RuntimeError, match="step 0 has got no noise"):
        next(left)


def test_two_loops_over_one_run_are_an_error() -> None:
    run = private()
    first, second = iter(run), iter(run)
    next(first)
    run.add_noise(np.zeros(5))
    next(second)
    run.add_noise(np.zeros(5))
    with pytest.raises(RuntimeError, match="another loop"):
        next(first)


def test_batches_one_by_one() -> None:
    run = private()
    np.testing.assert_array_equal(run.next_batch(), ORDER.batch(0))
    with pytest.raises(RuntimeError, match="batch of step 0 has got no noise"):
        run.next_batch()
    run.add_noise(np.zeros(5))
    np.testing.assert_array_equal(run.next_batch(), ORDER.batch(1))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_run_is_not_copied(copied: Any) -> None:
    with pytest.raises(TypeError, match="must not be copied"):
        copied(private())


def test_a_loop_that_was_left_goes_on_with_the_same_batch() -> None:
    run = private()
    next(iter(run))
    np.testing.assert_array_equal(next(iter(run)), ORDER.batch(0))


@pytest.mark.parametrize(
    ("total", "message"),
    [
        (np.zeros(4), "vector of 5 numbers"),
        (np.zeros((5, 1)), "vector of 5 numbers"),
        (np.zeros(5, np.float16), "float32 or float64, got shape .* of float16"),
        (np.zeros(5, int), "float32 or float64"),
        (np.zeros(5, np.longdouble), "float32 or float64"),
        (np.full(5, np.nan), "must be finite"),
        (np.array([0, 0, 0, 0, np.inf]), "must be finite"),
        (np.full(5, 1e300), "must be finite|norm of at most 8"),
        (np.full(5, np.float32(1e38)), "norm of at most 8"),
        (np.eye(5)[0] * 8.0 * 1.0011, "norm of at most 8, as the sum of 4 clipped gradients has, got 8.0088"),
        (np.eye(5, dtype=np.float32)[0] * np.float32(8.0 * 1.0011), "norm of at most 8"),
    ],
)
def test_sums_that_the_noise_does_not_cover_are_refused_before_anything_is_noted(total: Any, message: str) -> None:
    run = private()
    next(iter(run))
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=message):
        run.add_noise(total)
    assert run.position == 0
    assert run.add_noise(np.eye(5)[0] * 8.0 * 1.0009).dtype == np.float64
    assert run.position == 1


def test_without_batches_the_caller_may_state_the_number_of_examples() -> None:
    run = private(batches=None)
    run.next_batch()
    with pytest.raises(ValueError, match="norm of at most 6"):
        run.add_noise(np.eye(5)[0] * 6.1, examples=3)
    with pytest.raises(ValueError, match="must be finite"):
        run.add_noise(np.full(5, np.nan))
    run.add_noise(np.eye(5)[0] * 6.1, examples=4)
    run.next_batch()
    run.add_noise(np.eye(5)[0] * 1e6)
    ordered = private()
    next(iter(ordered))
    with pytest.raises(ValueError, match="examples must be the 4 of the batch, got 5"):
        ordered.add_noise(np.zeros(5), examples=5)


@pytest.mark.parametrize(("examples", "refused"), [(2**14, False), (2**14 + 1, True)])
def test_types_that_are_coarse_beside_the_noise_are_refused(examples: int, refused: bool) -> None:
    """Sums of float32 are off by 2⁻²⁴ B G, which must be at most 2⁻¹⁰ standard deviations."""
    run = private(DPSGD(), batches=None, participation=Participation.single(3), budget=Budget(0.5))
    assert run.scale == pytest.approx(1.0, rel=1e-5)
    run.next_batch()
    if refused:
        with pytest.raises(ValueError, match="standard deviations: sum in float64"):
            run.add_noise(np.zeros(5, np.float32), examples=examples)
        run.add_noise(np.zeros(5), examples=2**40)
    else:
        run.add_noise(np.zeros(5, np.float32), examples=examples)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"budget": 1.0}, TypeError, "budget must be a Budget"),
        ({"budget": Budget(0.5, clip_norm=1e-40)}, ValueError, "range of float32"),
        ({"budget": Budget(0.5, clip_norm=1e38)}, ValueError, "range of float32"),
        ({"batches": EPOCHS}, TypeError, "batches must be a Batches"),
        ({"participation": ORDER}, TypeError, "participation must be a Participation"),
        ({"mechanism": NuFTRL(0.0)}, ValueError, "unit circle"),
        ({"mechanism": BinaryTree(13)}, ValueError, "participation must have steps=13"),
        ({"mechanism": 3}, TypeError, "mechanism must be a Mechanism"),
        ({"mechanism": BinaryTree(12), "dtype": "float32"}, ValueError, "dtype must be one of 'float64'"),
        ({"size": 10**15}, ValueError, "GiB"),
        ({"folder": 3}, TypeError, "folder must be a path"),
        ({"carry": object()}, ValueError, "folder must be given"),
    ],
)
def test_bad_arguments_are_refused(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        private(**options)


def test_the_numbers_of_privacy_are_read_only_and_a_closed_run_is_closed() -> None:
    run = private()
    for name in ("multiplier", "budget", "participation", "scale", "batches", "size", "position", "program"):
        with pytest.raises(AttributeError):
            setattr(run, name, 1)
    run.close()
    for use in (run.next_batch, lambda: next(iter(run)), lambda: run.add_noise(np.zeros(5))):
        with pytest.raises(RuntimeError, match="the run is closed"):
            use()
    run.close()


def test_a_copy_of_the_process_cannot_add_the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    run = private()
    next(iter(run))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="copy of its process"):
        run.add_noise(np.zeros(5))


def test_interrupted_noise_is_not_continued() -> None:
    run = private()
    next(iter(run))
    with mock.patch.object(run._noise, "added", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run.add_noise(np.zeros(5))
    for use in (run.next_batch, lambda: next(iter(run)), lambda: run.add_noise(np.zeros(5))):
        with pytest.raises(RuntimeError, match="was interrupted while it made noise"):
            use()
    run.close()


DEVIATION_RUNS = [
    *MECHANISMS,
    TimeVaryingBuffers(
        [0.9, 0.5],
        np.full((STEPS, 2), 0.05),
        np.linspace(0.5, 1, 2 * STEPS).reshape(STEPS, 2),
        np.linspace(1, 2, STEPS),
    ),
    ScaledNoise(DPSGD(), np.linspace(1, 2, STEPS), np.linspace(2, 1, STEPS)),
    ScaledNoise(FiniteNoise([1.0, -0.6]), None, np.linspace(2, 1, STEPS)),
]


@pytest.mark.parametrize("mechanism", DEVIATION_RUNS, ids=lambda each: type(each).__name__)
def test_the_deviation_of_the_noise_of_a_step_is_that_of_its_row(mechanism: Mechanism) -> None:
    """Against the dense matrix of the program, and the noise of 30 000 coordinates: 12 variances at level 1e-8 each."""
    size = 30_000
    with known_key():
        run = private(mechanism, size)
    matrix = run.program.mechanism.noising_matrix(STEPS)
    found = np.array([run.noise_deviation(step) for step in range(STEPS)])
    np.testing.assert_allclose(found, run.scale * np.linalg.norm(matrix, axis=1) / 4, rtol=1e-9)
    made = noise_of(run).std(axis=1) / 4
    assert np.abs(made / found - 1).max() < stats.norm.isf(1e-8 / 2) / math.sqrt(2 * size)


@pytest.mark.parametrize(
    ("mechanism", "step", "ratio"),
    [
        (DPSGD(), 5, 1.0),
        (FiniteNoise([1.0, -0.6]), 3, 1.1661904),
        (FiniteNoise([1.0, -0.5, -0.125]), 1, 1.1180340),
    ],
    ids=repr,
)
def test_deviations_of_known_answers(mechanism: Mechanism, step: int, ratio: float) -> None:
    run = private(mechanism)
    assert run.noise_deviation(step) / run.noise_deviation(0) == pytest.approx(ratio, abs=1e-7)
    assert run.noise_deviation(0) == pytest.approx(run.scale / 4, rel=1e-12)
    for wrong in (-1, STEPS, 1.5):
        with pytest.raises((ValueError, TypeError), match="step must"):
            run.noise_deviation(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="run must have batches here"):
        private(mechanism, batches=None).noise_deviation(0)
