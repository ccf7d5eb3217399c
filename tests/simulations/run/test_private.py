"""A private run: its noise is that of the mechanism, covered, added once to each batch, and never drawn twice."""

from __future__ import annotations

import copy
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corrnoise.simulations.noise_stream import NoiseStream
from corrnoise.simulations.training.keys import Draws, RunKey
from corrnoise.simulations.training.order import FixedOrder, fixed_order
from corrnoise.simulations.training.run import PrivateRun
from scipy import linalg, stats

from corrnoise.simulations.audit import audit
from corrnoise.simulations.training import run as run_module
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import gaussian_epsilon, gaussian_rho

ORDER = fixed_order(17, 4, epochs=3, rng=0)  # 12 steps, one example left out
STEPS = ORDER.steps
MECHANISMS: list[ToeplitzNoise | Mechanism] = [
    DPSGD(),
    AntiPGD(0.3),
    NuFTRL(0.02),
    FiniteNoise([1.0, -0.5, -0.1]),
    NuFTRL(0.02),
    ScaledNoise(NuFTRL(0.02), np.linspace(1.0, 2.0, STEPS)),
    MatrixNoise.honaker(STEPS),
    BandedNoise(np.array([[1.0] * STEPS, [0.4] * (STEPS - 1) + [0.0]])),
    BinaryTree(STEPS, decoder="online"),
]
NOISE = NuFTRL(0.02)
EACH = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)


def private(mechanism: ToeplitzNoise | Mechanism = NOISE, size: int = 5, **options: Any) -> PrivateRun:
    settings: dict[str, Any] = {"rho": 0.5, "clip_norm": 2.0, "adjacency": "zero-out", "order": ORDER}
    return PrivateRun(mechanism, size, **settings | options)


def noise_of(run: PrivateRun, steps: int | None = None) -> np.ndarray:
    """The noise of the steps to come, or of some of them."""
    made = []
    for _ in run:
        made.append(run.noise())
        if len(made) == steps:
            break
    return np.array(made)


# -- the noise, and what covers it -------------------------------------------------------------------------------------


@EACH
def test_the_multiplier_covers_the_program_that_runs(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fed with unit vectors the program shows its matrix; its strategy has the sensitivity of all epochs."""
    draws = mechanism.draws if isinstance(mechanism, Mechanism) else STEPS
    run = private(mechanism, draws, clip_norm=1.0)
    inputs = iter(np.eye(draws))
    monkeypatch.setattr(run._draws, "normals", lambda *_: lambda values: values.__setitem__(slice(None), next(inputs)))
    program = noise_of(run).astype(float) / run.scale
    factor = np.linalg.cholesky(program @ program.T)
    strategy = linalg.solve_triangular(factor, np.eye(STEPS), lower=True)
    truth = strategy_sensitivity(strategy, ORDER.participation, error=1e-6)
    assert truth.lower <= run.multiplier  # rho = 1/2
    made = run.program.noise
    whole = made if isinstance(made, Mechanism) else made
    assert run.multiplier <= whole.sensitivity_upper_bound(ORDER.participation) * (1 + 2e-3)
    assert strategy_sensitivity(strategy, Participation(STEPS), error=1e-6).upper < run.multiplier * 0.9


RAISED = ScaledNoise(PoleNoise([0.02], [0.4]), np.linspace(1.0, 2.0, STEPS))


@pytest.mark.parametrize("noise", [PoleNoise([0.02], [0.4]), RAISED], ids=["Toeplitz", "scaled"])
def test_the_multiplier_is_that_of_a_stream(noise: Any) -> None:
    """In float64 both make the same noise; a design hands over its stream with this multiplier."""
    promise: dict[str, Any] = {"rho": 0.5, "clip_norm": 2.0, "steps": STEPS, "min_sep": 4, "max_participations": 3}
    stream = NoiseStream.private(noise, 5, **promise)
    assert private(noise, arithmetic="float64").scale == pytest.approx(stream.scale, rel=1e-12)


def test_epsilon_by_another_accountant() -> None:
    """The whole run is one Gaussian mechanism of the sensitivity found by brute force."""
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    run = private(rho=None, epsilon=2.0, delta=1e-5)
    beta = run.program.noise.coefficients(STEPS)  # type: ignore[union-attr]
    strategy = np.linalg.inv(linalg.toeplitz(beta, np.zeros(STEPS)))
    truth = strategy_sensitivity(strategy, ORDER.participation, error=1e-12).lower
    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(run.multiplier / truth))
    assert accountant.get_epsilon(1e-5) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(("share", "private_as_claimed"), [(1.0, True), (0.5, False)])
def test_an_audit_of_the_loop(share: float, private_as_claimed: bool) -> None:
    """Level 1e-6; noise that is halved behind the run is found."""
    order = fixed_order(20, 1, epochs=4, rng=0)
    claim = private(order=order, rho=1.0)

    def loop(batches: Sequence[np.ndarray]) -> np.ndarray:
        run = private(size=batches[0].shape[1], order=order, rho=1.0)
        released = []
        for gradients, _ in zip(batches, run, strict=False):
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            total = (gradients * np.minimum(1, 2.0 / np.maximum(norms, 1e-9))).sum(axis=0)
            released.append(total + share * (run.add_noise(total) - total))
        return np.array(released)

    promise = {"rho": 1.0, "clip_norm": 2.0, "steps": 80, "min_sep": 20, "max_participations": 4}
    noise = claim.program.noise  # type: ignore[arg-type]
    found = audit(loop, noise, delta=1e-5, noise_multiplier=claim.multiplier, level=1e-6, rng=1, **promise)  # type: ignore[arg-type]
    assert found.private_as_claimed == private_as_claimed
    assert found.noise_as_claimed == private_as_claimed


def test_multipliers_of_known_answers() -> None:
    order = fixed_order(20, 1, epochs=20, rng=0)  # 400 steps, 20 apart
    assert private(NuFTRL(0.021), order=order, tolerance=1e-6).multiplier == pytest.approx(7.988175, rel=1e-4)
    both = [private(NuFTRL(0.021), order=order, adjacency=a).multiplier for a in ("zero-out", "replace-one")]
    assert both[1] == pytest.approx(2 * both[0], rel=1e-15)


def test_epsilon_and_rho() -> None:
    run = private(rho=None, epsilon=2.0, delta=1e-5)
    assert run.rho == gaussian_rho(2.0, 1e-5)
    assert run.epsilon(1e-5) <= 2.0 < run.epsilon(0.99e-5)
    assert run.epsilon(1e-3) == gaussian_epsilon(run.rho, 1e-3)
    assert run.scale == run.multiplier * 2.0


def test_the_guarantee_in_words() -> None:
    words = private(rho=0.125).in_words()
    for part in ("12 steps", "0.125-zCDP", "zero-out", "norm 2", "each of 3 epochs of 4 steps, in the same order"):
        assert part in words


def test_the_noise_is_the_mechanism_times_its_scale() -> None:
    """The draws are made again from the key; parts have generators of their own."""
    size = 70_000
    key = RunKey(bytes(range(32)))
    run = private(AntiPGD(0.25), size, key=key)
    made = noise_of(run, 3)
    assert made.dtype == np.float32
    w = np.empty((3, size))
    for step, row in enumerate(w):
        Draws(key).normals(step, 0)(row[:65_536])
        Draws(key).normals(step, 1)(row[65_536:])
    expected = run.scale * np.array([w[0], w[1] - 0.75 * w[0], w[2] - 0.75 * w[1]])
    np.testing.assert_allclose(made, expected, atol=2e-6 * run.scale)
    assert stats.kstest(made[0] / run.scale, "norm").pvalue > 1e-6


def test_threads_and_arithmetic_do_not_change_the_noise() -> None:
    key = bytes(range(32))
    found = []
    for options in ({"threads": 1}, {"threads": 3}, {"arithmetic": "float64"}):
        with private(size=200_000, key=RunKey(key), **options) as run:
            found.append(noise_of(run, 3) / run.multiplier)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)


def test_float32_is_taken_only_where_it_costs_little() -> None:
    assert private(NuFTRL(1e-4)).program.arithmetic == "float32"
    assert private(MatrixNoise.honaker(STEPS)).program.arithmetic == "float64"
    assert private(PoleNoise([0.5], [1e-46])).program.arithmetic == "float64"  # no float32 has such a gap
    long = fixed_order(30_000, 1, epochs=1, rng=0)
    assert private(AntiPGD(0.0), order=long).program.arithmetic == "float64"


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


def test_a_batch_without_noise_is_an_error() -> None:
    run = private()
    batches = iter(run)
    next(batches)
    with pytest.raises(RuntimeError, match="batch of step 0 has got no noise"):
        next(batches)


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
        ({"rho": None}, ValueError, "rho must be given"),
        ({"epsilon": 1.0}, ValueError, "must be left out"),
        ({"rho": 0.0}, ValueError, "rho must"),
        ({"clip_norm": math.inf}, ValueError, "clip_norm must"),
        ({"clip_norm": 0.0}, ValueError, "clip_norm must"),
        ({"clip_norm": 1e-40}, ValueError, "range of float32"),
        ({"clip_norm": 1e38}, ValueError, "range of float32"),
        ({"adjacency": "add-remove"}, ValueError, "adjacency must"),
        ({"order": Participation(12)}, TypeError, "order must be a FixedOrder"),
        ({"generator": "device"}, ValueError, "generator must"),
        ({"mechanism": NuFTRL(0.0)}, ValueError, "unit circle"),
        ({"mechanism": BinaryTree(13)}, ValueError, "mechanism must have steps=12"),
        ({"mechanism": 3}, TypeError, "mechanism must be one of"),
        ({"mechanism": BinaryTree(12), "arithmetic": "float32"}, ValueError, "must be 'float64' for BinaryTree"),
        ({"size": 10**15}, ValueError, "GiB"),
    ],
)
def test_bad_arguments_are_refused(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        private(**options)


def test_a_key_has_one_run_and_the_numbers_of_privacy_are_read_only() -> None:
    key = RunKey.new()
    run = private(key=key)
    with pytest.raises(ValueError, match="in use by another run"):
        private(key=RunKey(key.secret()))
    for name in ("multiplier", "clip_norm", "rho", "scale", "adjacency", "order", "size", "position", "program"):
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
    key = RunKey.new()
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
    key = RunKey.new()
    state = private(key=key).state(secret=False)
    assert key.secret().hex() not in repr(state)
    assert "memory" not in state
    with pytest.raises(ValueError, match="must be that of the key"):
        private().load_state(state, discarded=True)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"mechanism": NuFTRL(0.03)}, "noise"),
        ({"order": fixed_order(17, 4, epochs=3, rng=1)}, "order"),
        ({"order": FixedOrder(ORDER.permutation, 4, 2)}, "order"),
        ({"size": 6}, "size"),
        ({"rho": 0.6}, "rho"),
        ({"clip_norm": 1.0}, "clip_norm"),
        ({"adjacency": "replace-one"}, "multiplier"),
        ({"mechanism": DPSGD(), "arithmetic": "float64"}, "arithmetic"),
    ],
)
def test_states_of_other_runs_are_refused(options: dict, field: str) -> None:
    state = private(options.get("mechanism", NOISE) if field == "arithmetic" else NOISE).state()
    with pytest.raises(ValueError, match=f"state must have {field}="):
        private(**options).load_state(state, discarded=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "corrnoise.NoiseStream 2"}, "must come from"),
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
    key = RunKey(bytes(range(32)))
    whole = noise_of(private(key=RunKey(key.secret())))
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
    key = RunKey(bytes(range(32)))
    with private(key=key, journal=tmp_path / "journal") as run:
        noise_of(run, 5)
    with private(key=key, journal=tmp_path / "journal") as run:
        np.testing.assert_array_equal(next(iter(run)), ORDER.batch(5))
        assert run.skipped == 5


def test_a_script_that_is_started_again_does_not_make_the_same_noise(tmp_path: Path) -> None:
    """Its key is in a file: without the journal, or with a new one, it would begin with the first step again."""
    with pytest.raises(ValueError, match="journal must be given for the key in"):
        private(key=RunKey.kept_in(tmp_path / "key"))
    with private(key=RunKey.kept_in(tmp_path / "key"), journal=tmp_path / "journal") as run:
        noise_of(run, 2)
    other = private(key=RunKey.kept_in(tmp_path / "key"), journal=tmp_path / "other")
    with pytest.raises(ValueError, match="must be the journal of the key"):
        other.start()
    other.close()
    with private(key=RunKey.kept_in(tmp_path / "key"), journal=tmp_path / "journal") as run:
        assert run.start() == 2
    (tmp_path / "journal").unlink()
    lost = private(key=RunKey.kept_in(tmp_path / "key"), journal=tmp_path / "journal")
    with pytest.raises(ValueError, match="must be the journal of the key"):
        lost.start()


CRASHES = """
import os, signal, sys
import numpy as np
from corrnoise.simulations.training.keys import RunKey
from corrnoise.simulations.training.order import fixed_order
from corrnoise.simulations.training.run import PrivateRun
from corrnoise.theory.mechanisms.product import AntiPGD

folder = sys.argv[1]

def train(last):
    run = PrivateRun(
        AntiPGD(0.3), 3, fixed_order(17, 4, 3, 0), rho=0.5, clip_norm=2.0, adjacency="zero-out",
        key=RunKey.kept_in(folder + "/key"), journal=folder + "/journal",
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
    whole = noise_of(private(AntiPGD(0.3), size=3, key=RunKey(RunKey.kept_in(tmp_path / "key").secret())))
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
