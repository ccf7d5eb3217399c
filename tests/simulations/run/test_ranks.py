"""Runs of several processes, here threads: the bits of one process, also through crashes and with other numbers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder, Home
from corrnoise.simulations.run.journal import Journal
from corrnoise.simulations.run.model_noise import ModelNoise
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.spans import Spans, checked
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.crashes import dies

SIZE = 10
STEPS = 8
MECHANISMS: dict[str, Mechanism] = {
    "poles": NuFTRL(0.1),
    "delay line": FiniteNoise([1.0, -0.5, 0.25, 0.125]),
    "independent": DPSGD(),
    "replays": TimeVaryingBuffers(
        [0.5],
        np.full((8, 1), 0.3),
        np.full((8, 1), 0.5),
        np.ones(8),
        replays=np.where(np.arange(8) < 3, 0, -0.4)[None],
        period=3,
    ),
}
EACH = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
CUTS: dict[int, list[list[tuple[int, int]]]] = {
    1: [[(0, SIZE)]],
    2: [[(7, 3), (0, 3)], [(3, 4)]],
    3: [[(0, 5)], [], [(9, 1), (5, 4)]],
}


class Threads:
    """Processes that are threads."""

    def __init__(self, rank: int, spans: Spans | None, count: int, told: list[Any], barrier: Barrier) -> None:
        self.rank, self.spans, self.count = rank, spans, count
        self._told, self._barrier = told, barrier

    def share(self, make: Callable[[], Any]) -> Any:
        if self.rank == 0:
            try:
                self._told[:] = [make(), None]
            except BaseException as error:
                self._told[:] = [None, error]
        self.wait()
        value, problem = self._told
        self.wait()
        if problem is not None:
            raise problem
        return value

    def wait(self) -> None:
        self._barrier.wait(20)


def together(job: Callable[[Threads], Any], cut: list[list[tuple[int, int]]]) -> list[Any]:
    """The results of a job in each process."""
    told: list[Any] = []
    barrier = Barrier(len(cut))

    def one(rank: int) -> Any:
        try:
            return job(Threads(rank, checked(cut[rank], SIZE), len(cut), told, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(len(cut)) as pool:
        found = [pool.submit(one, rank) for rank in range(len(cut))]
    problems = [each.exception() for each in found]
    for problem in sorted(filter(None, problems), key=lambda each: isinstance(each, BrokenBarrierError)):
        raise problem  # of a process, before the errors of the ones that wait for it
    return [each.result() for each in found]


class Model:
    """A carried model: all processes have the same."""

    def __init__(self) -> None:
        self.steps = 0

    def save(self) -> dict[str, np.ndarray]:
        return {"steps": np.array(self.steps)}

    def load(self, arrays: dict[str, np.ndarray], /) -> None:
        self.steps = int(arrays["steps"])


def folder_of(path: Path, ahead: int = 1) -> Folder:
    marks = path.with_name(f"{path.name} marks")
    return Folder(path, checkpoint_every=2, keep_releases=False, marks=marks, ahead=ahead)


def trained(
    path: Path, mechanism: Mechanism, until: int, *, crash: bool = False, ahead: int = 1, **options: Any
) -> Callable[[Threads], Any]:
    """A job that takes steps until a position, and returns noise by its step, position, and the carried steps."""

    def job(ranks: Threads) -> Any:
        who = Participation.single(STEPS)
        model = Model()
        run = PrivateRun(
            Budget(0.5),
            who,
            mechanism,
            SIZE,
            batches=batches(who, 2 * STEPS, 2, rng=ranks.rank),  # each process draws another order
            folder=folder_of(path, ahead),
            carry=model,
            ranks=ranks,
            **options,
        )
        start, skipped = run.position, run.skipped
        made = {}
        with run:
            for batch in run:
                step = run.position
                made[step] = (batch.tolist(), run.add_noise(np.zeros(len(covered(ranks.spans)))))
                model.steps += 1
                if run.position == until:
                    break
            if crash:
                dies(run)
        return made, start, skipped, model.steps

    return job


def covered(spans: Spans | None) -> np.ndarray:
    assert spans is not None
    return np.concatenate([np.arange(first, first + length) for first, length in [(0, 0), *spans.tolist()]])


@pytest.fixture(autouse=True)
def _known_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is known, and nonces follow from their steps, so that all runs of a test are one run."""

    monkeypatch.setattr(draws, "fresh", lambda size: bytes(range(size)))
    monkeypatch.setattr(Journal, "nonce", lambda _, step: step.to_bytes(16, "little"))


def whole(parts: list[Any], count: int) -> dict[int, np.ndarray]:
    """The noise of all coordinates by its step."""
    found = {}
    for step in parts[0][0]:
        found[step] = np.empty(SIZE)
        for rank, (made, *_) in enumerate(parts):
            assert made[step][0] == parts[0][0][step][0]  # all have the same batch
            found[step][covered(checked(CUTS[count][rank], SIZE))] = made[step][1]
    return found


@EACH
@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 1), (2, 3), (1, 3), (3, 2)])
def test_shards_have_the_bits_of_one_process(
    mechanism: Mechanism, crash: bool, before: int, after: int, tmp_path: Path
) -> None:
    """The run stops after five steps, with a clean end or without, and resumes with other processes."""
    one = together(trained(tmp_path / "one", mechanism, STEPS), CUTS[1])
    first = together(trained(tmp_path / "run", mechanism, 5, crash=crash), CUTS[before])
    second = together(trained(tmp_path / "run", mechanism, STEPS), CUTS[after])
    found = whole(first, before) | whole(second, after)
    true = whole(one, 1)
    assert found.keys() == true.keys() == set(range(STEPS))
    for step in range(STEPS):
        np.testing.assert_array_equal(found[step], true[step])
    for _, start, skipped, steps in second:
        assert (start, skipped) == (5, int(crash))
        assert steps == STEPS - skipped  # the model of the last checkpoint


@pytest.mark.parametrize(("before", "after"), [("ring", "replay"), ("replay", "ring"), ("replay", "replay")])
def test_a_run_goes_on_by_replay(before: str, after: str, tmp_path: Path) -> None:
    """The nonces of the last draws come from the journal."""
    mechanism = MECHANISMS["delay line"]
    one = together(trained(tmp_path / "one", mechanism, STEPS), CUTS[1])
    first = together(trained(tmp_path / "run", mechanism, 5, crash=True, memory=before), CUTS[1])
    second = together(trained(tmp_path / "run", mechanism, STEPS, memory=after), CUTS[1])
    found = whole(first, 1) | whole(second, 1)
    for step, values in whole(one, 1).items():
        np.testing.assert_array_equal(found[step], values)


@EACH
def test_draws_are_prefetched_where_steps_are_noted_ahead(mechanism: Mechanism, tmp_path: Path) -> None:
    """A clean end frees the steps that were noted, and their draws are not used."""
    found = []
    for prefetch in (False, True):
        path = tmp_path / str(prefetch)
        with mock.patch.object(ModelNoise, "prefetch", autospec=True, side_effect=ModelNoise.prefetch) as fetched:
            first = together(trained(path, mechanism, 5, ahead=4, prefetch=prefetch), CUTS[1])
            second = together(trained(path, mechanism, STEPS, ahead=4, prefetch=prefetch), CUTS[1])
        assert [call.args[2] for call in fetched.call_args_list] == ([1, 2, 3, 5, 6, 7] if prefetch else [])
        found.append(whole(first, 1) | whole(second, 1))
    for step, values in found[0].items():
        np.testing.assert_array_equal(found[1][step], values)
    with pytest.raises(ValueError, match="prefetch must be False where steps are not noted ahead"):
        PrivateRun(Budget(0.5), Participation.single(4), mechanism, SIZE, folder=tmp_path / "other", prefetch=True)


@EACH
def test_only_memory_that_draws_cannot_make_again_is_kept(mechanism: Mechanism, tmp_path: Path) -> None:
    together(trained(tmp_path / "run", mechanism, 5), CUTS[2])
    home = Home(folder_of(tmp_path / "run"))
    head, arrays = home.go_on()
    home.close()
    kept = mechanism in (MECHANISMS["poles"], MECHANISMS["replays"])
    assert head["shards"] == (2 if kept else 1)
    assert (arrays.keys() >= {"memory", "spans"}) == kept
    assert sorted(path.name for path in home.path.glob("shard-*")) == (["shard-4-1", "shard-5-1"] if kept else [])


@pytest.mark.parametrize("damage", ["missing", "doubled", "other position", "other key"])
def test_shards_that_do_not_belong_together_are_refused(damage: str, tmp_path: Path) -> None:
    mechanism = MECHANISMS["poles"]
    together(trained(tmp_path / "run", mechanism, 5), CUTS[3])
    path = tmp_path / "run" / "shard-5-1"
    other = tmp_path / "run" / "shard-5-2"
    if damage == "missing":
        path.unlink()
    elif damage == "doubled":
        path.write_bytes(other.read_bytes())
    elif damage == "other position":
        path.write_bytes((tmp_path / "run" / "shard-4-1").read_bytes())
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(draws, "fresh", lambda size: bytes(size))
            together(trained(tmp_path / "other", mechanism, 5), CUTS[3])
        path.write_bytes((tmp_path / "other" / "shard-5-1").read_bytes())
    reasons = {
        "missing": r"No such file or directory: '.*shard-5-1'",
        "other position": "it is of another checkpoint",
        "other key": "its keyed hash is wrong",
    }
    if damage == "doubled":  # by one who has the key
        with pytest.raises(ValueError, match="is damaged or foreign: spans must be disjoint"):
            together(trained(tmp_path / "run", mechanism, STEPS), CUTS[2])
        return
    with pytest.warns(UserWarning, match=f"{reasons[damage]}.*: the run goes on from checkpoint-4"):
        found = together(trained(tmp_path / "run", mechanism, STEPS), CUTS[2])
    assert [(start, skipped) for _, start, skipped, _ in found] == [(5, 1)] * 2
    one = whole(together(trained(tmp_path / "one", mechanism, STEPS), CUTS[1]), 1)
    for step, values in whole(found, 2).items():
        np.testing.assert_array_equal(values, one[step])


def test_processes_at_different_steps_are_refused(tmp_path: Path) -> None:
    def job(ranks: Threads) -> None:
        run = PrivateRun(
            Budget(0.5), Participation.single(4), NuFTRL(0.1), SIZE, folder=folder_of(tmp_path / "run"), ranks=ranks
        )
        run._position = ranks.rank
        run.next_batch()
        run.add_noise(np.zeros(len(covered(ranks.spans))))

    with pytest.raises(RuntimeError, match="all processes must make the same step, got 1 here and 0 in the first"):
        together(job, CUTS[2])


@pytest.mark.parametrize("other", [Budget(0.6), Budget(0.5, clip_norm=2.0)])
def test_processes_with_other_budgets_are_refused(other: Budget) -> None:
    """One with less noise would be the weakest."""

    def job(ranks: Threads) -> str:
        budget = other if ranks.rank else Budget(0.5)
        try:
            PrivateRun(budget, Participation.single(4), NuFTRL(0.1), SIZE, ranks=ranks)
        except (ValueError, BrokenBarrierError) as error:
            ranks._barrier.abort()
            return str(error)
        return ""

    assert together(job, CUTS[2])[1].startswith("budget, participation and size must agree with the first process")


def test_an_error_of_the_first_process_is_raised_in_all(tmp_path: Path) -> None:
    errors = []

    def job(ranks: Threads) -> None:
        try:
            PrivateRun(Budget(0.5), Participation.single(4), NuFTRL(0.1), SIZE, folder=Folder(tmp_path), ranks=ranks)
        except ValueError as error:
            errors.append(str(error))

    (tmp_path / "file").touch()
    together(job, CUTS[2])
    assert len(errors) == 2
    assert errors[0].startswith("folder must be new, empty or that of a run")


def test_a_run_without_a_folder_shares_its_key() -> None:
    def job(ranks: Threads) -> Any:
        run = PrivateRun(Budget(0.5), Participation.single(4), NuFTRL(0.1), SIZE, ranks=ranks)
        return [run.add_noise(np.zeros(len(covered(ranks.spans)))) for _ in run]

    one = np.array(together(job, CUTS[1])[0])
    for rank, made in enumerate(together(job, CUTS[2])):
        np.testing.assert_array_equal(made, one[:, covered(checked(CUTS[2][rank], SIZE))])
