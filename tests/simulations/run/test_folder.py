"""Runs in folders: started, killed at every write, resumed, damaged, restored, copied, and never shown twice."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run.batches import Batches, batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.support.files import NEW
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.crashes import dies
from tests.simulations.run.sources import counted, known_key

EPOCHS = Participation.fixed_epochs(6, epochs=2)
ORDER: Any = batches(EPOCHS, 9, 3, rng=0)
NOISE = AntiPGD(0.3)
BUDGET = Budget(0.5, clip_norm=10.0)
STEPS = 6
SETTINGS = ["settings.json", "order", "program.npz"]
Shown = list[tuple[int, bytes]]


class Model:
    """A model of three numbers, which is carried."""

    def __init__(self) -> None:
        self.x = np.ones(3)

    def save(self) -> dict[str, np.ndarray]:
        return {"x": self.x.copy()}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self.x = arrays["x"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "digits"


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    """Nothing waits for the disk here: kills lose no written bytes."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def opened(path: Path, model: Model | None = None, **options: Any) -> PrivateRun:
    kept = {
        name: options.pop(name)
        for name in ("ahead", "checkpoint_every", "mark_every", "keep_releases", "marks", "moved")
        if name in options
    }
    given: dict[str, Any] = {"budget": BUDGET, "participation": EPOCHS, "mechanism": NOISE, "size": 3, "batches": ORDER}
    given |= options
    first = [given.pop(name) for name in ("budget", "participation", "mechanism", "size")]
    return PrivateRun(*first, folder=Folder(path, **kept), carry=model, **given)


def train(run: PrivateRun, model: Model, shown: Shown, steps: int = STEPS) -> None:
    for number, batch in enumerate(run):
        step = run.position
        noisy = run.add_noise(np.full(3, float(np.sum(batch)) / 10) + model.x / 100)
        shown.append((step, noisy.tobytes()))
        model.x = model.x - noisy / 10
        if number == steps - 1:
            return


def trained(path: Path, steps: int = STEPS, **options: Any) -> Shown:
    model = Model()
    shown: Shown = []
    run = opened(path, model, **options)
    train(run, model, shown, steps)
    dies(run)
    return shown


class Killed(BaseException):
    """The process is dead."""


@contextmanager
def killed_at(number: int, part: float = 0.0) -> Iterator[list[int]]:
    """The process dies at a write, a synchronisation or a renaming; ``part`` of the bytes are there."""
    count = [0]

    def wrapped(real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            count[0] += 1
            if count[0] <= number:
                return real(*arguments)
            if count[0] == number + 1 and part:
                if name == "write":
                    content = bytes(arguments[1])
                    real(arguments[0], content[: int(len(content) * part)])
                else:
                    real(*arguments)
            raise Killed

        return call

    names = ("write", "fsync", "replace", "ftruncate", "rename", "unlink")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(mock.patch.object(os, name, wrapped(getattr(os, name), name)))
        yield count


@pytest.mark.parametrize(
    "part", [pytest.param(0.0, marks=pytest.mark.slow), 0.5, pytest.param(1.0, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("keeps", [False, True])
def test_a_kill_at_every_write(keeps: bool, part: float, tmp_path: Path) -> None:
    """A restart is never refused, no step is shown twice, and a third start does nothing.

    Nonces are the same everywhere, so that with kept releases the model equals one without a kill, bit for bit.
    """
    with known_key():
        whole = Model()
        with opened(tmp_path / "whole", whole, keep_releases=keeps) as uninterrupted:
            train(uninterrupted, whole, [])
        number = 0
        while True:
            path = tmp_path / str(number)
            options: dict[str, Any] = {"keep_releases": keeps, "marks": tmp_path / f"marks {number}"}
            options |= {"mark_every": 3 if keeps else 1}
            model = Model()
            shown: Shown = []
            with killed_at(number, part) as count:
                run: PrivateRun | None = None
                try:
                    run = opened(path, model, **options)
                    train(run, model, shown)
                    list(run)
                except Killed:
                    pass
                alive = count[0] <= number
                if run is not None:
                    dies(run)
            early = dict(shown)
            again = opened(path, model := Model(), **options)
            if keeps:
                assert again.skipped == 0
            train(again, model, shown)
            assert list(again) == []
            steps = [step for step, _ in shown]
            if keeps:
                assert set(steps) == set(range(STEPS))
                assert all(noisy == early.get(step, noisy) for step, noisy in shown)
                np.testing.assert_array_equal(model.x, whole.x)
            else:
                assert len(set(steps)) == len(steps) >= STEPS - 1
            third = opened(path, last := Model(), **options)
            assert list(third) == []
            assert third.position == STEPS
            np.testing.assert_array_equal(last.x, model.x)
            assert not [file for file in path.iterdir() if file.name == "beginning" or NEW in file.name]
            if alive:
                break
            number += 1
    assert number > 90


def test_the_command_twice_and_three_times(path: Path) -> None:
    run = opened(path, Model())
    with pytest.raises(BlockingIOError, match="in use by another process or another run"):
        opened(path, Model())
    train(run, Model(), [])
    assert list(run) == []  # the folder is free once the run is finished
    assert opened(path, Model()).position == STEPS
    assert sorted(file.name for file in path.iterdir()) == sorted(
        [*SETTINGS, "key", "journal-3", "journal-6", "lock", "checkpoint-3", "checkpoint-6"]
    )
    assert path.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in path.iterdir())
    assert (path / "lock").stat().st_size == 0  # as ``Home`` relies upon


def test_a_clean_end_frees_steps_that_were_noted_ahead_and_loses_nothing(path: Path) -> None:
    model = Model()
    shown: Shown = []
    for steps in (2, 2, 2):
        with opened(path, model, ahead=4) as run:
            assert run.skipped == 0
            train(run, model, shown, steps)
    assert [step for step, _ in shown] == list(range(STEPS))


def test_a_crash_skips_what_was_noted_ahead(path: Path) -> None:
    trained(path, 1, ahead=4)
    run = opened(path, ahead=4)
    assert (run.position, run.skipped) == (4, 4)
    assert run.spent(1e-6) == run.profile(step=4).epsilon_at(1e-6) > run.profile(step=1).epsilon_at(1e-6) > 0


def test_kept_releases_that_are_to_come_again_are_spent(path: Path) -> None:
    trained(path, 5, keep_releases=True, checkpoint_every=3)
    run = opened(path, Model(), keep_releases=True, checkpoint_every=3)
    assert run.position < 5
    assert run.spent(1e-6) == run.profile(step=5).epsilon_at(1e-6)


def test_skipped_steps_keep_the_correlation(path: Path) -> None:
    """The memory goes over them with the nonces of the journal."""
    with known_key():
        whole = opened(path.with_name("whole"), marks=path.with_name("other marks"))
        expected = [whole.add_noise(np.zeros(3)).tobytes() for _ in whole]
        trained(path, 2, keep_releases=False, checkpoint_every=10)
        run = opened(path)
        assert run.skipped == 2
        assert [run.add_noise(np.zeros(3)).tobytes() for _ in run] == expected[2:]


@pytest.mark.parametrize("rng", [None, 3])
def test_the_order_is_drawn_once(path: Path, rng: int | None) -> None:
    who = Participation.reshuffled(6, epochs=2)
    options: dict[str, Any] = {"participation": who, "mechanism": NuFTRL(0.05)}
    first = opened(path, batches=batches(who, 9, 3, rng=rng), **options)
    dies(first)
    again = opened(path, batches=batches(who, 9, 3, rng=rng), **options)
    assert first.batches is not None
    assert again.batches == first.batches
    assert again.multiplier == first.multiplier
    assert again.program == first.program  # also the noise that was found
    dies(again)
    with pytest.raises(ValueError, match="order was"):
        opened(path, batches=batches(who, 9, 3, rng=4), **options)


DRIFT: dict[str, tuple[dict[str, Any], str]] = {
    "rho": ({"budget": Budget(1.0, clip_norm=10.0)}, "rho was 0.5, is 1.0"),
    "epsilon": ({"budget": Budget(epsilon=1.0, delta=1e-5, clip_norm=10.0)}, "epsilon was None, is 1.0"),
    "delta": ({"budget": Budget(epsilon=1.0, delta=1e-5, clip_norm=10.0)}, "delta was None, is 1e-05"),
    "clip norm": ({"budget": Budget(0.5, clip_norm=9.0)}, "clip_norm was 10.0, is 9.0"),
    "adjacency": ({"budget": Budget(0.5, clip_norm=10.0, adjacency="replace-one")}, "adjacency was 'zero-out'"),
    "participation": (
        {"participation": Participation.min_sep(6, 3)},
        "participation was .*fixed epochs.*, is .*min-sep",
    ),
    "mechanism": ({"mechanism": AntiPGD(0.4)}, r"mechanism was 'AntiPGD\(.*', is 'AntiPGD"),
    "size": ({"size": 4}, "size was 3, is 4"),
    "examples": ({"batches": batches(EPOCHS, 10, 3, rng=0)}, "examples was 9, is 10"),
    "batch size": ({"batches": batches(EPOCHS, 9, 2, rng=0)}, "batch size was 3, is 2"),
    "order": ({"batches": batches(EPOCHS, 9, 3, rng=1)}, "order was"),
    "no batches": ({"batches": None}, "order was '.*', is None"),
    "arithmetic": ({"dtype": "float64"}, "arithmetic was 'float32', is 'float64'"),
    "kept releases": ({"keep_releases": False}, "kept releases was True, is False"),
}


@pytest.mark.parametrize("drift", DRIFT)
def test_other_settings_are_refused_with_each_difference(drift: str, path: Path) -> None:
    trained(path, 2)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    options, message = DRIFT[drift]
    with pytest.raises(ValueError, match=f"the settings must be those with which the run began: .*{message}"):
        opened(path, Model(), **options)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    opened(path, Model(), threads=2, checkpoint_every=2)


def outside(path: Path) -> Path:
    """The outside mark of the run in a folder."""
    state = Path(os.environ["XDG_STATE_HOME"], "corrnoise")
    key = (path / "key").read_bytes()
    from corrnoise.simulations.run import draws

    return state / draws.derived(key, b"identity").hex()


def test_a_journal_that_was_cut_is_refused_at_every_byte(path: Path) -> None:
    trained(path, 4, keep_releases=False)
    journal = path / "journal-3"
    whole = journal.read_bytes()
    assert len(whole) == 88 + 64
    for length in range(len(whole)):
        journal.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"is older than|does not follow"):
            opened(path, Model())
    journal.write_bytes(whole + bytes(65))
    with pytest.raises(ValueError, match="after 152 bytes of records it has 65 that are not a record"):
        opened(path, Model())
    journal.write_bytes(whole + bytes(64))  # of a power failure: the record was never finished, so nothing was shown
    assert opened(path, Model()).position == 4
    assert journal.read_bytes() == whole


def test_flipped_bits_are_refused(path: Path) -> None:
    trained(path, 4)
    rng = np.random.default_rng(0)
    names = ["settings.json", "key", "order", "journal-3"]
    files = [path / name for name in names]
    for trial in range(250):
        file = files[trial % len(files)]
        whole = file.read_bytes()
        damaged = bytearray(whole)
        place = int(rng.integers(8 * len(whole)))
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r".") as caught:
            opened(path, Model(), batches=Batches(EPOCHS, ORDER.orders, 3, drawn=True))
        assert str(caught.value), file
        file.write_bytes(whole)
    assert opened(path, Model()).position == 3


def damaged(file: Path, place: int) -> bytes:
    """Flip a bit of a file; its bytes before."""
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[place // 8 % len(whole)] ^= 1 << place % 8
    file.write_bytes(flipped)
    return whole


@pytest.mark.parametrize("keeps", [False, True])
def test_the_older_checkpoint_is_taken_where_the_last_cannot_be_read(keeps: bool, path: Path) -> None:
    """With kept releases nothing is lost; refused only if none can be read."""
    options: dict[str, Any] = {"keep_releases": keeps, "checkpoint_every": 2}
    with known_key():
        whole = Model()
        shown: Shown = []
        train(opened(path.with_name("whole"), whole, marks=path.with_name("other marks"), **options), whole, shown)
        trained(path, 5, **options)
        rng = np.random.default_rng(0)
        for place in rng.integers(8 * (path / "checkpoint-4").stat().st_size, size=40):
            before = damaged(path / "checkpoint-4", int(place))
            with pytest.warns(UserWarning, match="checkpoint-4 .*: the run goes on from checkpoint-2"):
                run = opened(path, model := Model(), **options)
            assert (run.position, run.skipped) == ((2, 0) if keeps else (5, 3))
            dies(run)
            (path / "checkpoint-4").write_bytes(before)
        damaged(path / "checkpoint-4", 1000)
        with pytest.warns(UserWarning, match="goes on from checkpoint-2"):
            run = opened(path, model := Model(), **options)
        later: Shown = []
        train(run, model, later)
        if keeps:
            assert later == shown[2:]
            np.testing.assert_array_equal(model.x, whole.x)
        else:
            assert later[0][0] == 5
        last = sorted(path.glob("checkpoint-*"))
        assert [file.name for file in last] == [f"checkpoint-{4 if keeps else 5}", "checkpoint-6"]
        for file in last:
            damaged(file, 1000)
        with pytest.raises(ValueError, match=rf"no checkpoint can be read: .*checkpoint-6 .*{last[0].name} "):
            opened(path, Model(), **options)


def test_a_block_of_the_mark_that_cannot_be_read_is_left_out(path: Path) -> None:
    """Another one is the mark then, a record older at most; a mark without blocks, or an older one, is refused."""
    trained(path, 5, keep_releases=False)
    mark = outside(path)
    whole = mark.read_bytes()
    assert len(whole) == 3 * 4096
    for block in range(3):
        for place in (0, 9, 20, 40, 50, 4000):
            damaged = bytearray(whole)
            damaged[4096 * block + place] ^= 1
            mark.write_bytes(damaged)
            run = opened(path, Model())
            assert run.position == 5
            dies(run)
    for wrong in (b"", whole[1:], bytes(len(whole))):
        mark.write_bytes(wrong)
        with pytest.raises(ValueError, match="is not the mark of a run"):
            opened(path, Model())
    mark.write_bytes(whole)


@pytest.mark.parametrize("name", ["settings.json", "journal-0", "order", "mark"])
def test_missing_files_are_refused(name: str, path: Path) -> None:
    trained(path, 2)
    file = outside(path) if name == "mark" else path / name
    file.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=file.name):
        opened(path, Model(), batches=Batches(EPOCHS, ORDER.orders, 3, drawn=True))


@pytest.mark.parametrize("chosen", [1, 2, 3])
@pytest.mark.parametrize("age", [1, 3])
def test_older_copies_of_journal_and_mark(chosen: int, age: int, path: Path) -> None:
    """An older journal is refused, an older mark may lag one record; both together repeat steps with other noise."""
    early = trained(path, 5 - age, keep_releases=False, checkpoint_every=10)
    parts = [path / "journal-0", outside(path)]
    old = [part.read_bytes() for part in parts]
    late = trained(path, age, keep_releases=False, checkpoint_every=10)
    assert [step for step, _ in late] == list(range(5 - age, 5))
    for k, part in enumerate(parts):
        if chosen >> k & 1:
            part.write_bytes(old[k])
    if chosen == 3:
        again = trained(path, keep_releases=False, checkpoint_every=10)
        assert [step for step, _ in again] == list(range(5 - age, STEPS))
        assert {noisy for _, noisy in again}.isdisjoint(noisy for _, noisy in early + late)
    elif age == 1 and chosen == 2:
        assert opened(path, Model()).position == 5
    else:
        with pytest.raises(ValueError, match=r"older than"):
            opened(path, Model())


@pytest.mark.parametrize("window", [1, 3])
def test_a_mark_that_a_power_failure_leaves(window: int, path: Path) -> None:
    """It is up to ``mark_every`` records older than the journal; a killed process leaves the newest."""
    options: dict[str, Any] = {"keep_releases": False, "checkpoint_every": 10, "mark_every": window}
    trained(path, 1, **options)
    old = outside(path).read_bytes()
    trained(path, 3, **options)
    journal = (path / "journal-0").read_bytes()
    (path / "journal-0").write_bytes(journal[:-64])
    with pytest.raises(ValueError, match="is older than"):
        opened(path, Model(), **options)
    (path / "journal-0").write_bytes(journal)
    outside(path).write_bytes(old)
    if window == 1:
        with pytest.raises(ValueError, match="is 3 records older than"):
            opened(path, Model(), **options)
        return
    dies(opened(path, Model(), **options | {"mark_every": 1}))  # another choice does not change what was written
    outside(path).write_bytes(old)
    (path / "journal-0").write_bytes(journal[:-64])  # the price: together with a power failure this is not noticed
    assert opened(path, Model(), **options).position == 3


def test_a_copied_folder_is_noticed_on_one_machine_and_a_moved_one_needs_a_word(path: Path, tmp_path: Path) -> None:
    trained(path, 2)
    other = path.with_name("copy")
    shutil.copytree(path, other)
    run = opened(path, Model())
    with pytest.raises(BlockingIOError):
        opened(other, Model())
    model = Model()
    train(run, model, [], 4)
    dies(run)
    with pytest.raises(ValueError, match="is older than"):
        opened(other, Model())
    moved = tmp_path / "another machine"
    with pytest.raises(ValueError, match="moved=True says so"):
        opened(path, Model(), marks=moved)
    run = opened(path, Model(), marks=moved, moved=True)
    assert (path / "journal-3").read_bytes()[-64:-63] == b"m"
    train(run, Model(), [])
    with pytest.raises(ValueError, match="records older than"):
        opened(path, Model())  # the first machine has an old mark
    assert opened(path, Model(), moved=True).position == STEPS


def test_an_older_checkpoint_skips_more_and_a_foreign_one_is_refused(path: Path) -> None:
    trained(path, 5, keep_releases=False, checkpoint_every=2)
    (path / "checkpoint-4").unlink()
    run = opened(path, Model())
    assert (run.position, run.skipped) == (5, 3)
    dies(run)
    other = path.with_name("other")
    trained(other, 5, keep_releases=False, checkpoint_every=2)
    shutil.copy(other / "checkpoint-4", path / "checkpoint-4")
    with pytest.warns(UserWarning, match="checkpoint-4 .* keyed hash is wrong.* goes on from checkpoint-2"):
        dies(opened(path, Model()))
    (path / "checkpoint-2").rename(path / "checkpoint-4")
    with pytest.raises(ValueError, match=r"no checkpoint can be read: .*checkpoint-4 has the head of another one"):
        opened(path, Model())


def test_a_checkpoint_shows_that_journal_and_mark_are_old(path: Path) -> None:
    """Both are restored: the last checkpoint can be read, and is not passed over."""
    options: dict[str, Any] = {"keep_releases": False, "checkpoint_every": 2}
    trained(path, 3, **options)
    parts = [path / "journal-2", outside(path)]
    old = [part.read_bytes() for part in parts]
    trained(path, 2, **options)
    for part, content in zip(parts, old, strict=True):
        part.write_bytes(content)
    (path / "journal-4").unlink()
    with pytest.raises(
        ValueError, match="checkpoint-4 is not of this run, or of a part of it that the journal does not"
    ):
        opened(path, Model(), **options)


def test_kept_releases_need_what_is_carried_and_no_other_key(path: Path) -> None:
    trained(path, 3, checkpoint_every=10)
    with pytest.raises(ValueError, match="carry must be given"):
        opened(path)
    assert opened(path, Model()).position == 0


def test_a_kept_release_that_changes_in_an_open_run_is_refused(path: Path) -> None:
    trained(path, 3, checkpoint_every=10)
    run = opened(path, Model())
    content = bytearray((path / "journal-0").read_bytes())
    content[88 + 50] ^= 1
    (path / "journal-0").write_bytes(content)
    next(iter(run))
    with pytest.raises(ValueError, match="journal-0 is damaged or foreign: the release of step 0 has changed"):
        run.add_noise(np.zeros(3))


def test_a_journal_that_another_program_changes_breaks_the_run(path: Path) -> None:
    for change in ("append", "replace"):
        place = path.with_name(change)
        run = opened(place, model := Model())
        train(run, model, [], 2)
        journal = place / "journal-0"
        if change == "append":
            with journal.open("ab") as stream:
                stream.write(b"x")
        else:
            shutil.copy(journal, place / "other")
            os.replace(place / "other", journal)
        with pytest.raises(RuntimeError, match="changed by another program"):
            train(run, model, [])
        with pytest.raises(RuntimeError, match="interrupted"):
            run.next_batch()
        run.close()


@pytest.mark.parametrize("made", ["a file", "foreign"])
def test_folders_of_others_are_refused(made: str, path: Path) -> None:
    path.mkdir()
    (path / made).write_text("mine")
    with pytest.raises(ValueError, match="folder must be new, empty or that of a run"):
        opened(path, Model())
    assert (path / made).read_text() == "mine"
    (path / made).unlink()
    opened(path, Model())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ahead": 0}, "ahead must"),
        ({"checkpoint_every": 0}, "checkpoint_every must"),
        ({"mark_every": 0}, "mark_every must"),
        ({"keep_releases": True, "ahead": 2}, "ahead must be 1"),
        ({"marks": "digits/marks", "path": "digits"}, "marks must be outside"),
    ],
)
def test_bad_folders_are_refused(options: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        Folder(**{"path": path, **options})


def test_a_key_that_others_may_read_is_refused(path: Path) -> None:
    trained(path, 1)
    (path / "key").chmod(0o640)
    with pytest.raises(PermissionError, match="0600"):
        opened(path, Model())


# -- one owner ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_open_run_is_not_copied(copied: Any, path: Path) -> None:
    with pytest.raises(TypeError, match="must not be copied"):
        copied(opened(path))


@pytest.mark.parametrize("where", ["folder", "memory"])
def test_many_threads_make_one_noise_for_each_batch(where: str, path: Path) -> None:
    """Each batch has one noise; a step that no thread gets is made by none."""
    epochs = Participation.fixed_epochs(60, epochs=2)
    run = PrivateRun(BUDGET, epochs, NOISE, 3, folder=path if where == "folder" else None)
    shown: Shown = []
    errors: list[str] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(100):
            for use in (run.next_batch, lambda: shown.append((0, run.add_noise(np.zeros(3)).tobytes()))):
                try:
                    use()
                except RuntimeError as error:
                    errors.append(str(error))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert run.position == 60 == len(shown) == len({noisy for _, noisy in shown})
    assert all("has got no noise" in e or "no batch was handed" in e or "has made its" in e for e in errors), errors[:3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, where other tests have started it
def test_a_forked_child_makes_no_noise_and_keeps_no_lock(path: Path) -> None:
    run = opened(path, Model())
    next(iter(run))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            run.add_noise(np.zeros(3))
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        run.close()
        signal.pause()
        os._exit(0)
    try:
        assert b"must not be used by a copy of its process" in os.read(reading, 1000)
        dies(run)
        assert opened(path, Model()).position == 0
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_sigterm_ends_the_run_between_two_steps(path: Path) -> None:
    model, shown = Model(), []

    def loop() -> None:
        with opened(path, model, ahead=6) as run:
            for batch in run:
                if run.position == 2:
                    os.kill(os.getpid(), signal.SIGTERM)
                noisy = run.add_noise(np.full(3, float(np.sum(batch)) / 10))
                shown.append((run.position, noisy.tobytes()))
                model.x = model.x - noisy

    with pytest.raises(SystemExit) as ended:
        loop()
    assert len(shown) == 3
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    again = opened(path, other := Model())
    assert (again.position, again.skipped) == (3, 0)
    np.testing.assert_array_equal(other.x, model.x)


def test_a_handler_of_the_process_stays(path: Path) -> None:
    def own(*_: object) -> None: ...

    before = signal.signal(signal.SIGTERM, own)
    try:
        run = opened(path, Model())
        next(iter(run))
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_error_in_the_loop_writes_no_checkpoint(path: Path) -> None:
    model = Model()

    def loop() -> None:
        with opened(path, model, checkpoint_every=10) as run:
            for _ in run:
                run.add_noise(np.zeros(3))
                model.x = model.x + 1
                if run.position == 2:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    again = opened(path, other := Model())
    assert (again.position, again.skipped, other.x[0]) == (0, 0, 1.0)  # the releases are kept


# -- the price of what cannot be noticed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begun", "shown", "factor"),
    [(0, 24, 2.0), (6, 12, 1.219444), (12, 18, 1.293925), (12, 24, 1.650831), (18, 24, 1.356906)],
)
def test_the_price_of_a_restored_state(begun: int, shown: int, factor: float) -> None:
    """ρ of a run that goes on from ``begun`` after ``shown`` steps were shown, for the worst example of a small run."""
    who = Participation.fixed_epochs(24, epochs=4)
    noise: Mechanism = NuFTRL(0.02)
    x = np.zeros(24)
    x[::6] = 1.0
    spent = np.square(noise.strategy(24) @ x)
    found = (spent[:shown].sum() + spent[begun:].sum()) / noise.sensitivity(who) ** 2
    assert found == pytest.approx(factor, abs=5e-7)
    assert found <= 2.0 + 1e-12


def test_settings_are_readable(path: Path) -> None:
    with counted():
        opened(path, Model())
    stored = json.loads((path / "settings.json").read_text())
    assert (stored["rho"], stored["clip_norm"], stored["examples"], stored["batch size"]) == (0.5, 10.0, 9, 3)
