"""The limits of a run in a folder, as the page Security has them: its secrets, its blind spots, its keys."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import secrets
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.run import cipher, draws, exact_draws
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.secret import Secret
from corrnoise.support import process
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.crashes import dies
from tests.simulations.run.sources import KEY, known_key, worst_case

STEPS = 8
ORDER = Participation.single(STEPS)
SAMPLED = Participation.poisson(STEPS, 0.3)
NOISE = AntiPGD(0.3)


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    """Nothing waits for the disk here."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def opened(path: Path, who: Participation = ORDER, marks: str = "marks", **options: Any) -> PrivateRun:
    folder = cn.Folder(path, marks=path.parent / marks, keep_releases=False, checkpoint_every=4, **options)
    if who.sampled:
        with worst_case():
            budget = Budget(epsilon=2.0, delta=1e-5)
            return PrivateRun(budget, who, DPSGD(), 3, batches=cn.batches(who, 40), folder=folder)
    return PrivateRun(Budget(0.5), who, NOISE, 3, folder=folder)


def trained(run: PrivateRun, until: int) -> list[tuple[int, list[int], bytes]]:
    """The steps of a run that dies: number, batch and release."""
    shown = []
    while run.position < until:
        batch = run.next_batch()
        shown.append((run.position, np.ravel(batch).tolist(), run.add_noise(np.zeros(3)).tobytes()))
    dies(run)
    return shown


def test_the_folder_shows_the_noise_so_far_and_the_nonces_come_with_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise follows from the key and the nonces of the journal; no nonce exists before its step starts."""
    drawn: list[bytes] = []
    real = secrets.token_bytes

    def token_bytes(size: int) -> bytes:
        drawn.append(real(size))
        return drawn[-1]

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    run = opened(tmp_path / "run")
    shown = []
    for step in range(3):
        run.next_batch()
        assert len(drawn) == 1 + step
        shown.append(run.add_noise(np.zeros(3)))
    scale, program = run.scale, run.program
    dies(run)
    key = (tmp_path / "run" / "key").read_bytes()
    journal = (tmp_path / "run" / "journal-0").read_bytes()
    records = [struct.unpack("<c3s4xQQQ16s", journal[place : place + 48]) for place in range(88, len(journal), 64)]
    assert [(kind, first, end) for kind, _, first, end, _, _ in records] == [(b"b", k, k + 1) for k in range(3)]
    nonces = [record[-1] for record in records]
    assert [key, *nonces] == drawn
    normals = np.array([draws.normals(key, step, 0, 3, nonce=nonce) for step, nonce in enumerate(nonces)])
    expected = scale * program.mechanism.noising_matrix(STEPS)[:3, :3] @ normals
    np.testing.assert_allclose(shown, expected, rtol=1e-5)


def test_copies_that_go_on_share_their_batches_and_no_noise(tmp_path: Path) -> None:
    """On another machine with ``moved=True``, where the outside mark is missing; and on the first one, too."""
    first = tmp_path / "run"
    early = trained(opened(first, SAMPLED), 3)
    copy = tmp_path / "copy"
    shutil.copytree(first, copy)
    with pytest.raises(ValueError, match="is missing: the folder is a copy"):
        opened(copy, SAMPLED, marks="elsewhere")
    there = trained(opened(copy, SAMPLED, marks="elsewhere", moved=True), STEPS)
    here = trained(opened(first, SAMPLED), STEPS)
    assert [step for step, _, _ in here] == [step for step, _, _ in there] == list(range(3, STEPS))
    assert [batch for _, batch, _ in here] == [batch for _, batch, _ in there]
    assert len({noise for _, _, noise in early + here + there}) == len(early + here + there)
    key = (first / "key").read_bytes()
    shutil.rmtree(first)
    again = opened(first, SAMPLED)
    assert (again.position, (first / "key").read_bytes() == key) == (0, False)


def test_a_moved_folder_hides_only_the_steps_since_its_last_checkpoint(tmp_path: Path) -> None:
    """With ``moved=True`` a newer mark counts, and a missing one lets records go that no checkpoint knows."""
    path = tmp_path / "run"
    trained(opened(path), 6)
    last = path / "journal-4"
    whole = last.read_bytes()
    last.write_bytes(whole[:-64])
    with pytest.raises(ValueError, match="is older than"):
        opened(path, moved=True)  # the mark is newer
    shown = {step for step, _, _ in trained(opened(path, marks="lost", moved=True), STEPS)}
    assert shown == {5, 6, 7}  # the step 5 was released before

    third = tmp_path / "third"
    trained(opened(third), 2)
    trained(opened(third, marks="lost", moved=True), STEPS)
    with pytest.raises(ValueError, match="records older than"):
        opened(third)  # the mark is old
    assert opened(third, moved=True).position == STEPS

    other = tmp_path / "other"
    trained(opened(other), 3)
    early = (other / "journal-0").read_bytes()
    trained(opened(other), 6)
    (other / "journal-4").unlink()
    (other / "journal-0").write_bytes(early)
    with pytest.raises(ValueError, match="is not of this run, or of a part of it that the journal does not know"):
        opened(other, marks="lost", moved=True)
    (other / "key").write_bytes(bytes(32))
    with pytest.raises(ValueError, match="is damaged or foreign: "):
        opened(other, marks="lost", moved=True)


def test_copies_of_a_sampled_run_average_their_noise() -> None:
    """The likelihood of r releases of one sum depends on their mean alone, as of noise of 1/r of the variance."""
    rng = np.random.default_rng(0)
    sums, weights = np.array([0.0, 1.0, 0.4]), np.array([0.5, 0.2, 0.3])
    sigma, copies = 1.3, 3

    def log_ratio(releases: np.ndarray, deviation: float) -> float:
        """The log-likelihood ratio of all sums, mixed, and of the sum without the example."""
        logs = -((releases[:, np.newaxis] - sums) ** 2).sum(axis=0) / (2 * deviation**2)
        return float(np.log(np.exp(logs - logs[0]) @ weights))

    for releases in rng.normal(size=(20, copies)):
        alone = log_ratio(releases.mean(keepdims=True), sigma / np.sqrt(copies))
        assert log_ratio(releases, sigma) == pytest.approx(alone, rel=1e-12)
        assert log_ratio(releases, sigma) != pytest.approx(log_ratio(releases[:1], sigma), rel=1e-3)


def used(run: PrivateRun, way: Any) -> None:
    """Make a step in a child, and say what happened."""
    try:
        run.next_batch()
        way.send("a step")
    except RuntimeError as error:
        way.send(str(error))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, where other tests have started it
@pytest.mark.parametrize("counted", [True, False])
def test_children_of_multiprocessing_make_no_step(
    counted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are forked, or get a pickle; the mutant is a child that has the identity of its parent."""
    run = opened(tmp_path / "run")
    if not counted:
        this = process.this_process()
        for module in ("guard", "termination"):
            monkeypatch.setattr(f"corrnoise.simulations.run.{module}.this_process", lambda: this)
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=used, args=(run, theirs))
    child.start()
    assert ours.poll(60)
    said = ours.recv()
    child.join()
    assert said == "a step" if not counted else "must not be used by a copy of its process" in said
    with pytest.raises(TypeError, match="must not be copied"):
        pickle.dumps((used, run))  # as a process that is not forked gets it


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_workers_of_a_data_loader_make_no_step(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    run = opened(tmp_path / "run")

    class Data(torch.utils.data.Dataset):  # type: ignore[name-defined]
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> float:
            run.next_batch()
            return 0.0

    loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="must not be used by a copy of its process"):
        next(iter(loader))
    assert run.next_batch() == 0


@pytest.mark.parametrize("who", [ORDER, SAMPLED], ids=["order", "sampled"])
def test_each_step_and_each_vector_of_words_has_a_query_and_a_key_of_its_own(who: Participation) -> None:
    """At the level ``proved``: queries of BLAKE2b by their keys, and keys of ChaCha20 with the streams of each."""
    queries: dict[bytes, Counter[bytes]] = {}
    streams = Counter[bytes]()
    keyed, chacha20, words_of = draws.keyed, cipher.chacha20, cipher.words_of

    def asked(secret: Any, size: int, data: bytes = b"") -> Any:
        queries.setdefault(secret.reveal() if isinstance(secret, Secret) else secret, Counter())[data] += 1
        return keyed(secret, size, data)

    def of_words(key: bytes, *rest: Any) -> Any:
        streams[key] += 1
        return chacha20(key, *rest)

    of_noise = set()

    def of_steps(key: bytes) -> Any:
        of_noise.add(key)
        return words_of(key)

    with (
        mock.patch.object(draws, "keyed", asked),
        mock.patch.object(exact_draws, "keyed", asked),
        mock.patch.object(cipher, "chacha20", of_words),
        mock.patch.object(cipher, "words_of", of_steps),
        worst_case(),
        known_key(),
    ):
        batches = cn.batches(who, 40, None if who.sampled else 5)
        run = PrivateRun(
            Budget(epsilon=2.0, delta=1e-5),
            who,
            DPSGD(),
            3,
            batches=batches,
            sums="exact",
            release="proved",
            threads=1,
        )
        for _ in run:
            run.add_noise(np.zeros(3, run.grid.dtype))  # type: ignore[union-attr]
    of_key = queries.pop(KEY)
    of_draws = [data for data in of_key if data.startswith(b"draws")]
    assert len(of_draws) == STEPS
    assert set(of_key.values()) == {1}
    assert len(of_key) - STEPS <= 2  # the keys of the sampler and of the loop
    assert len(queries) == who.sampled
    for vectors in queries.values():
        assert set(vectors.values()) == {1}
        assert len(vectors) == STEPS
    assert len(of_noise - set(streams)) == STEPS
    assert set(streams.values()) <= {1}
    assert len(streams) == (STEPS if who.sampled else 0)


def test_no_block_of_a_stream_is_used_twice() -> None:
    """Normals and dithers of several rows read different words, whose addresses have their own tests."""
    reads = Counter[tuple[bool, int, int]]()

    real = cipher.words_at

    def counted(keys: list[bytes], streams: list[int], coordinates: Any, *, halves: bool = False) -> Any:
        assert set(keys) == {KEY}
        reads.update((halves, stream, int(each)) for stream in streams for each in coordinates)
        return real(keys, streams, coordinates, halves=halves)

    cosines = np.concatenate([np.arange(64), np.arange(1000, 1024), np.arange(2048, 2112)]).astype(np.uint64)
    with mock.patch.object(cipher, "words_at", counted):
        exact_draws.paired_normals([KEY], cosines)  # a sine shares the words of its cosine
        exact_draws.paired_dithers([(KEY, row) for row in range(3)], cosines)
        assert set(reads.values()) == {1}
        assert len({stream for _, stream, _ in reads}) == 2 + 2 * 3
        exact_draws.paired_dithers([(KEY, 0)], cosines[:1])  # the mutant
        assert 2 in reads.values()
