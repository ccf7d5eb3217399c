"""A private run: its noise is that of the mechanism, covered, added once to each batch, and never drawn twice."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import linalg, stats

from corrnoise.simulations.audit import audit
from corrnoise.simulations.run import private as run_module
from corrnoise.simulations.run.batches import Batches, batches
from corrnoise.simulations.run.keys import Draws, RunKey
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_epsilon, gaussian_rho

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
        made.append(run.noise())
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
    epochs = Participation.fixed_epochs(80, epochs=4)
    claim = PrivateRun(budget, epochs, NOISE, 1)

    def loop(gradients: Sequence[np.ndarray]) -> np.ndarray:
        run = PrivateRun(budget, epochs, NOISE, gradients[0].shape[1])
        released = []
        for step in run:
            norms = np.linalg.norm(gradients[step], axis=1, keepdims=True)
            total = (gradients[step] * np.minimum(1, 2.0 / np.maximum(norms, 1e-9))).sum(axis=0)
            released.append(total + share * (run.add_noise(total) - total))
        return np.array(released)

    found = audit(loop, claim, canaries=200, idle=200, level=1e-6, rng=1)
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
    assert run.epsilon(1e-5) <= 2.0 < run.epsilon(0.99e-5)
    assert run.epsilon(1e-3) == gaussian_epsilon(gaussian_rho(2.0, 1e-5), 1e-3)
    assert run.scale == run.multiplier * 2.0


@pytest.mark.parametrize(
    ("sampled", "worst"),
    [
        (Participation.poisson(12, 0.1), Participation.min_sep(12, 1)),
        (Participation.cyclic_poisson(12, period=4, rate=0.5), EPOCHS),
        (Participation.balls_in_bins(12, period=4), EPOCHS),
        (Participation.fixed_epochs(12, epochs=3, secret=True), EPOCHS),
        (Participation.reshuffled(12, epochs=3, secret=True), Participation.reshuffled(12, epochs=3)),
    ],
)
def test_without_an_accountant_the_worst_case_counts(sampled: Participation, worst: Participation) -> None:
    options: dict[str, Any] = {"batches": None, "participation": sampled}
    assert private(**options).multiplier == private(**options | {"participation": worst}).multiplier


def test_the_guarantee_in_words() -> None:
    words = private(budget=Budget(rho=0.125, clip_norm=2.0)).in_words()
    for part in (
        "12 steps",
        "0.125-zCDP",
        "zero-out",
        "norm 2",
        "each of 3 epochs of 4 steps, in the same order",
        "the last 1 ",
    ):
        assert part in words
    assert "any number of steps" in private(batches=None, participation=Participation.single()).in_words()


def test_the_noise_is_the_mechanism_times_its_scale() -> None:
    """The draws are made again from the key; parts have generators of their own."""
    size = 70_000
    key = RunKey(bytes(range(32)))
    run = private(AntiPGD(0.25), size, key=key.secret())
    made = noise_of(run, 3)
    assert made.dtype == np.float32
    w = np.empty((3, size))
    for step, row in enumerate(w):
        Draws(key).normals(step, 0)(row[:65_536])
        Draws(key).normals(step, 1)(row[65_536:])
    expected = run.scale * np.array([w[0], w[1] - 0.75 * w[0], w[2] - 0.75 * w[1]])
    np.testing.assert_allclose(made, expected, atol=2e-6 * run.scale)
    assert stats.kstest(made[0] / run.scale, "norm").pvalue > 1e-6


def test_threads_and_types_do_not_change_the_noise() -> None:
    key = bytes(range(32))
    found = []
    for options in ({"threads": 1}, {"threads": 3}, {"dtype": "float64"}):
        with private(size=200_000, key=key, **options) as run:
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
        total = np.full(5, 7.0)
        assert run.add_noise(total) is not total
        with pytest.raises(RuntimeError, match=r"no batch was handed out|has made its"):
            run.add_noise(total)
    assert run.position == STEPS
    with pytest.raises(RuntimeError, match="further epoch is not covered"):
        next(iter(run))


def test_a_run_without_batches_hands_out_steps_and_ends_with_the_promise() -> None:
    run = private(batches=None)
    first = run.noise()
    assert first.shape == (5,)
    steps = []
    for step in run:
        steps.append(step)
        run.add_noise(np.zeros(5))
    assert steps == list(range(1, STEPS))
    assert len(run) == 0
    with pytest.raises(RuntimeError, match="has made its 12 steps"):
        run.noise()
    with pytest.raises(RuntimeError, match="has made its 12 steps"):
        next(iter(run))
    left = iter(private(batches=None))
    next(left)
    with pytest.raises(RuntimeError, match="step 0 has got no noise"):
        next(left)


def test_a_run_of_any_length_does_not_end() -> None:
    run = private(batches=None, participation=Participation.single())
    for step in run:
        run.noise()
        if step == 20:
            break
    assert run.steps is None
    with pytest.raises(TypeError, match="any length"):
        len(run)
    state = run.state()
    run.close()
    resumed = private(batches=None, participation=Participation.single())
    resumed.load_state(state, discarded=True)
    assert resumed.position == 21


@pytest.mark.parametrize(
    ("given", "promised", "covered"),
    [
        (EPOCHS, EPOCHS, True),
        (EPOCHS, Participation.min_sep(12, 4), True),
        (EPOCHS, Participation.reshuffled(12, period=4), True),
        (EPOCHS, Participation.poisson(12, 0.1), True),
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


def test_noise_without_a_batch_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no batch was handed out for step 0"):
        private().noise()


def test_two_loops_over_one_run_are_an_error() -> None:
    run = private()
    first, second = iter(run), iter(run)
    next(first)
    run.noise()
    next(second)
    run.noise()
    with pytest.raises(RuntimeError, match="another loop"):
        next(first)


def test_batches_one_by_one() -> None:
    run = private()
    np.testing.assert_array_equal(run.next_batch(), ORDER.batch(0))
    with pytest.raises(RuntimeError, match="batch of step 0 has got no noise"):
        run.next_batch()
    run.noise()
    np.testing.assert_array_equal(run.next_batch(), ORDER.batch(1))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_run_is_not_copied(copied: Any) -> None:
    with pytest.raises(TypeError, match="must not be copied"):
        copied(private())


def test_a_loop_that_was_left_goes_on_with_the_same_batch() -> None:
    run = private()
    next(iter(run))
    np.testing.assert_array_equal(next(iter(run)), ORDER.batch(0))


@pytest.mark.parametrize("total", [np.zeros(4), np.zeros((5, 1)), np.zeros(5, np.float16), np.zeros(5, int)])
def test_totals_of_another_shape_or_type_are_refused(total: np.ndarray) -> None:
    run = private()
    next(iter(run))
    with pytest.raises(ValueError, match="total must be"):
        run.add_noise(total)
    assert run.position == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"budget": 1.0}, TypeError, "budget must be a Budget"),
        ({"budget": Budget(0.5, clip_norm=1e-40)}, ValueError, "range of float32"),
        ({"budget": Budget(0.5, clip_norm=1e38)}, ValueError, "range of float32"),
        ({"batches": EPOCHS}, TypeError, "batches must be a Batches"),
        ({"participation": ORDER}, TypeError, "participation must be a Participation"),
        ({"generator": "device"}, ValueError, "generator must"),
        ({"mechanism": NuFTRL(0.0)}, ValueError, "unit circle"),
        ({"mechanism": BinaryTree(13)}, ValueError, "participation must have steps=13"),
        ({"mechanism": 3}, TypeError, "mechanism must be a Mechanism"),
        ({"mechanism": BinaryTree(12), "dtype": "float32"}, ValueError, "dtype must be one of 'float64'"),
        ({"size": 10**15}, ValueError, "GiB"),
        ({"key": b"short"}, ValueError, "16 to 64 bytes"),
    ],
)
def test_bad_arguments_are_refused(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        private(**options)


def test_a_key_has_one_run_and_the_numbers_of_privacy_are_read_only() -> None:
    key = bytes(range(1, 33))
    run = private(key=key)
    with pytest.raises(ValueError, match="in use by another run"):
        private(key=key)
    for name in ("multiplier", "budget", "participation", "scale", "batches", "size", "position", "program"):
        with pytest.raises(AttributeError):
            setattr(run, name, 1)
    run.close()
    with pytest.raises(RuntimeError):
        run.noise()
    private(key=key).close()


def test_a_copy_of_the_process_cannot_add_the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    run = private()
    next(iter(run))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="copy of its process"):
        run.noise()


def test_interrupted_noise_is_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    run = private()
    state = run.state()
    next(iter(run))
    with monkeypatch.context() as patch:
        patch.setattr(run._draws, "normals", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run.noise()
    for use in (run.noise, run.state):
        with pytest.raises(RuntimeError, match="was interrupted: load"):
            use()
    run.load_state(state, discarded=True)
    assert noise_of(run).shape == (STEPS, 5)


# -- states and crashes ------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("secret", [True, False])
def test_a_loaded_state_goes_on_bit_for_bit(mechanism: Any, secret: bool) -> None:
    key = os.urandom(32)
    run = private(mechanism, key=key)
    noise_of(run, 5)
    state = run.state(secret=secret)
    rest = noise_of(run)
    run.close()
    resumed = private(mechanism, key=None if secret else key)
    resumed.load_state(state, discarded=True)
    assert resumed.position == 5
    np.testing.assert_array_equal(noise_of(resumed), rest)


def test_a_public_state_holds_no_secret() -> None:
    key = os.urandom(32)
    state = private(key=key).state(secret=False)
    assert key.hex() not in repr(state)
    assert "memory" not in state
    with pytest.raises(ValueError, match="must be that of the key"):
        private().load_state(state, discarded=True)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"mechanism": NuFTRL(0.03)}, "mechanism"),
        ({"participation": Participation.min_sep(12, 4)}, "participation"),
        ({"batches": batches(EPOCHS, 17, 4, rng=1)}, "batches"),
        ({"batches": Batches(EPOCHS, ORDER.orders, 3)}, "batches"),
        ({"size": 6}, "size"),
        ({"budget": Budget(0.6, clip_norm=2.0)}, "budget"),
        ({"budget": Budget(0.5)}, "budget"),
        ({"budget": Budget(0.5, clip_norm=2.0, adjacency="replace-one")}, "budget"),
        ({"mechanism": DPSGD(), "dtype": "float64"}, "dtype"),
    ],
)
def test_states_of_other_runs_are_refused(options: dict, field: str) -> None:
    state = private(options.get("mechanism", NOISE) if field == "dtype" else NOISE).state()
    with pytest.raises(ValueError, match=f"state must have {field}="):
        private(**options).load_state(state, discarded=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "corrnoise.PrivateRun 0"}, "must come from"),
        ({"fingerprint": "0"}, "fingerprint"),
        ({"position": 13}, "position"),
        ({"memory": np.zeros((1, 5))}, "memory of shape"),
        ({"memory": None}, "memory of shape"),
    ],
)
def test_damaged_states_are_refused(change: dict, message: str) -> None:
    run = private()
    state = run.state() | change
    run.close()
    with pytest.raises(ValueError, match=message):
        private().load_state(state, discarded=True)


def test_a_state_without_a_journal_takes_the_users_word(tmp_path: Path) -> None:
    run = private()
    noise_of(run, 2)
    state = run.state()
    run.close()
    for journal in (None, tmp_path / "new"):
        with pytest.raises(ValueError, match="discarded must be True"):
            private(journal=journal).load_state(state)
    resumed = private(journal=tmp_path / "new")
    resumed.load_state(state, discarded=True)
    noise_of(resumed, 1)
    resumed.close()


def test_a_clean_end_loses_nothing_and_a_crash_skips_what_was_begun(tmp_path: Path) -> None:
    key = bytes(range(32))
    first_run = private(key=key)
    whole = noise_of(first_run)
    first_run.close()
    with private(key=key, journal=tmp_path / "journal", journal_ahead=4) as run:
        first = noise_of(run, 2)
        state = run.state()
    with private(journal=tmp_path / "journal", journal_ahead=4) as run:
        run.load_state(state)
        second = noise_of(run, 1)
        os.close(run._journal._file)  # type: ignore[union-attr]  # dies
        run._journal = None
    with private(journal=tmp_path / "journal", journal_ahead=4) as run:
        run.load_state(state)
        assert (run.position, run.skipped) == (6, 4)
        third = noise_of(run)
    with private(journal=tmp_path / "journal", journal_ahead=4) as run:
        run.load_state(state)
        assert (run.position, run.skipped) == (12, 10)
    np.testing.assert_array_equal(np.vstack([first, second, third]), whole[[0, 1, 2, *range(6, 12)]])


def test_a_run_that_begins_again_skips_what_its_journal_knows(tmp_path: Path) -> None:
    key = bytes(range(32))
    with private(key=key, journal=tmp_path / "journal") as run:
        noise_of(run, 5)
    with private(key=key, journal=tmp_path / "journal") as run:
        np.testing.assert_array_equal(next(iter(run)), ORDER.batch(5))
        assert run.skipped == 5


def test_a_script_that_is_started_again_does_not_make_the_same_noise(tmp_path: Path) -> None:
    """Its key is in a file: without the journal, or with a new one, it would begin with the first step again."""
    with pytest.raises(ValueError, match="journal must be given for the key in"):
        private(key=tmp_path / "key")
    with private(key=tmp_path / "key", journal=tmp_path / "journal") as run:
        noise_of(run, 2)
    other = private(key=tmp_path / "key", journal=tmp_path / "other")
    with pytest.raises(ValueError, match="must be the journal of the key"):
        other.start()
    other.close()
    with private(key=tmp_path / "key", journal=tmp_path / "journal") as run:
        assert run.start() == 2
    (tmp_path / "journal").unlink()
    lost = private(key=tmp_path / "key", journal=tmp_path / "journal")
    with pytest.raises(ValueError, match="must be the journal of the key"):
        lost.start()


CRASHES = """
import os, signal, sys
import numpy as np
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

folder = sys.argv[1]

def train(last):
    epochs = Participation.fixed_epochs(12, epochs=3)
    run = PrivateRun(
        Budget(rho=0.5, clip_norm=2.0), epochs, AntiPGD(0.3), 3,
        batches=batches(epochs, 17, 4, 0), key=folder + "/key", journal=folder + "/journal",
    )
    if os.path.exists(folder + "/state.npy"):
        run.load_state(np.load(folder + "/state.npy", allow_pickle=True).item())
    used = open(folder + "/used", "a")
    for number, batch in enumerate(run):
        print(run.position, run.noise().tobytes().hex(), file=used, flush=True)
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)
        if number % 2:
            np.save(folder + "/unfinished.npy", run.state(), allow_pickle=True)
            os.replace(folder + "/unfinished.npy", folder + "/state.npy")

for last in (2, 0, 3, 100):
    child = os.fork()
    if not child:
        train(last)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == (0 if last == 100 else signal.SIGKILL), status
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_process_that_kills_itself_uses_nothing_twice(tmp_path: Path) -> None:
    """Each of four processes goes on from the last state, which is older than its last step, and kills itself."""
    arguments = [sys.executable, "-c", CRASHES, str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    used = [line.split() for line in (tmp_path / "used").read_text().splitlines()]
    assert [int(step) for step, _ in used] == list(range(STEPS))
    whole = noise_of(private(AntiPGD(0.3), size=3, key=RunKey.kept_in(tmp_path / "key").secret()))
    assert [noise for _, noise in used] == [step.tobytes().hex() for step in whole]


def test_without_a_journal_noise_would_be_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that go on from one state without a journal use the same noise."""
    state = private().state()
    monkeypatch.setattr(run_module, "_IN_USE", {})
    one, two = private(), private()
    one.load_state(state, discarded=True)
    run_module._IN_USE.clear()
    two.load_state(state, discarded=True)
    np.testing.assert_array_equal(noise_of(one, 1), noise_of(two, 1))
