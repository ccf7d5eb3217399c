"""The same command goes on: on another processor, with another version, and with whatever the writer has written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run import draws, durable, engines, journal, sealed
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.model_noise import fingerprint
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.support import reading
from corrnoise.support.files import write_whole
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import counted

WHO = Participation.fixed_epochs(24, epochs=4)
BUDGET = Budget(epsilon=5.0, delta=1e-5)


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    """Nothing waits for the disk here."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


class Carry:
    """Arrays that are carried."""

    def __init__(self, **arrays: Any) -> None:
        self.arrays: dict[str, Any] = arrays

    def save(self) -> dict[str, Any]:
        return self.arrays

    def load(self, arrays: dict[str, Any], /) -> None:
        self.arrays = arrays


def opened(path: Path, mechanism: Mechanism | None = None, **options: Any) -> PrivateRun:
    given = Folder(path, marks=path.with_name(f"{path.name} marks"), checkpoint_every=4, keep_releases=False)
    return PrivateRun(BUDGET, WHO, NuFTRL(0.05) if mechanism is None else mechanism, 3, folder=given, **options)


def made(run: PrivateRun, until: int) -> list[bytes]:
    found = []
    while run.position < until:
        run.next_batch()
        found.append(run.add_noise(np.zeros(3)).tobytes())
    run.close()
    return found


# -- results of searches ----------------------------------------------------------------------------------------------


def test_a_restart_of_the_same_search_goes_on_with_the_noise_of_the_beginning(tmp_path: Path) -> None:
    """To its bits, whatever the search finds now; numbers that are given must be the same, and so must the question."""
    first, other = AntiPGD(0.3), AntiPGD(0.3 * (1 + 1e-7))
    with counted():
        expected = made(opened(tmp_path / "whole", first, asked="a1"), 24)
    with counted():
        begun = opened(tmp_path / "run", first, asked="a1")
        found = made(begun, 10)
        again = opened(tmp_path / "run", other, asked="a1")
        assert again.program == begun.program
        found += made(again, 24)
    assert found == expected
    assert opened(tmp_path / "other", other).program != begun.program
    made(opened(tmp_path / "given", first), 1)
    for path, mechanism, asked in (
        ("run", first, "b2"),
        ("run", first, None),
        ("given", first, "a1"),
        ("given", other, None),
    ):
        with pytest.raises(ValueError, match="the settings must be those with which the run began: mechanism was"):
            opened(tmp_path / path, mechanism, asked=asked)
    for bad in ("", "a b", "ä!"):
        with pytest.raises(ValueError, match="asked must be a digest"):
            opened(tmp_path / "bad", first, asked=bad)


def test_a_design_goes_on_on_another_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches differ there by 1e-7; here the second one has another start."""
    import corrnoise as cn
    from corrnoise.designs import make

    real = cn.optimise

    def elsewhere(*arguments: Any, **options: Any) -> Any:
        from dataclasses import replace

        found = real(*arguments, **options)
        return found if isinstance(found.mechanism, DPSGD) else replace(found, mechanism=AntiPGD(0.4321))

    def run_of(memory: int) -> PrivateRun:
        design = cn.design(Budget(0.5), Participation.fixed_epochs(8, epochs=2), memory=memory)
        return design.run(3, folder=Folder(tmp_path / "run", marks=tmp_path / "marks"))

    first = run_of(1)
    noise_of_first, multiplier = first.program.mechanism, first.multiplier
    made(first, 5)
    monkeypatch.setattr(make, "optimise", elsewhere)
    second = run_of(1)
    assert (second.position, second.multiplier, second.program.mechanism) == (5, multiplier, noise_of_first)
    made(second, 7)
    with pytest.raises(ValueError, match=r"mechanism was 'the one of the search .*', is 'the one of the search"):
        run_of(0)


def test_each_argument_of_a_search_is_in_its_digest() -> None:
    import corrnoise as cn
    from corrnoise.designs.make import digest_of_search

    first: list[Any] = [BUDGET, WHO, None, None, None, None, None, None]
    others: list[Any] = [Budget(0.5), Participation.single(24), cn.SGD(momentum=0.9), 9, 3, 4, 2.0, "buffers"]
    found = [digest_of_search(tuple(first))] + [
        digest_of_search(tuple(other if k == number else each for k, each in enumerate(first)))
        for number, other in enumerate(others)
    ]
    assert len(set(found)) == len(found)
    assert found[0] == digest_of_search(tuple(first))
    assert digest_of_search((object(),)) is None


# -- the multiplier, the version and the fingerprint -------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "goes_on"), [(1 - 1e-3, True), (1 + 5e-10, True), (1 + 2e-9, False), (2.0, False)])
def test_a_multiplier_that_is_found_again_may_not_be_larger(factor: float, goes_on: bool, tmp_path: Path) -> None:
    first = opened(tmp_path / "run")
    stored = first.multiplier
    first.close()
    with mock.patch.object(Program, "multiplier", return_value=stored * factor):
        if goes_on:
            assert opened(tmp_path / "run").multiplier == stored
        else:
            with pytest.raises(ValueError, match=r"multiplier .* must be at least .*begin a new run, and add its ρ"):
                opened(tmp_path / "run")


def test_another_version_goes_on_where_it_makes_the_same_noise(tmp_path: Path) -> None:
    with mock.patch.object(durable, "__version__", "0.0.7"):
        made(opened(tmp_path / "run"), 3)
    made(opened(tmp_path / "run"), 5)
    with mock.patch.object(durable, "fingerprint", return_value="other"):
        with pytest.raises(
            ValueError,
            match=r"makes other noise here .* corrnoise 0\.0\.7 .*: finish the run with the version that",
        ):
            opened(tmp_path / "run")
        with pytest.raises(ValueError, match="mechanism was"):  # the reason, not its consequence
            opened(tmp_path / "run", AntiPGD(0.1))


@pytest.mark.parametrize("former", ["corrnoise run 1", "corrnoise run 2"])
def test_a_folder_of_another_format_is_refused_by_name_and_not_touched(former: str, tmp_path: Path) -> None:
    """As one of version 0.1.0, whose lock has another mode, too."""
    made(opened(tmp_path / "run"), 3)
    path = tmp_path / "run"
    settings = json.loads((path / "settings.json").read_text()) | {"format": former, "version": "0.1.0"}
    (path / "settings.json").write_text(json.dumps(settings))
    (path / "lock").chmod(0o644)
    before = {each.name: (each.read_bytes(), each.stat().st_mode) for each in path.iterdir()}
    with pytest.raises(
        ValueError, match=rf"has the format '{former}' of corrnoise 0\.1\.0, .*: finish the run with the version that"
    ):
        opened(path)
    assert {each.name: (each.read_bytes(), each.stat().st_mode) for each in path.iterdir()} == before


def ring_that_goes_round_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    real = engines.DelayLine._step

    def step(self: Any, draw: Any, values: Any, position: int) -> None:
        real(self, draw, values, position)
        if position >= len(self._ring):
            values += 1

    monkeypatch.setattr(engines.DelayLine, "_step", step)


def other_draws_from(first: int) -> Callable[[pytest.MonkeyPatch], None]:
    def change(monkeypatch: pytest.MonkeyPatch) -> None:
        real = draws.filler

        def filler(secret: Any, step: int, spans: Any, nonce: bytes = b"") -> Any:
            draw = real(secret, step, spans, nonce)
            places = np.concatenate([np.arange(start, start + length) for start, length in spans.tolist()])

            def other(values: Any, number: int = 0) -> None:
                draw(values, number)
                values[places >= first] += 1

            return other

        monkeypatch.setattr(draws, "filler", filler)

    return change


@pytest.mark.parametrize(
    ("size", "change"),
    [
        (3, ring_that_goes_round_wrongly),
        (3, other_draws_from(2048)),
        (5000, other_draws_from(4096)),
        (70_000, other_draws_from(65_536)),
    ],
)
def test_the_fingerprint_reaches_round_the_ring_and_beyond_blocks_and_parts(
    size: int, change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first change takes place after 72 steps, the others at the end of a block of draws, of engines, or a part."""
    program = FiniteNoise(0.9 ** np.arange(72)).program(Participation.single(100))
    before = [fingerprint(program, size, wide=wide) for wide in (False, True)]
    assert before == [fingerprint(program, size, wide=wide) for wide in (False, True)]
    assert before[0] != before[1]
    monkeypatch.undo()
    change(monkeypatch)
    if size > 65_536:
        program = FiniteNoise([1.0, -0.5]).program(Participation.single(100))
        monkeypatch.undo()
        before = [fingerprint(program, size, wide=wide) for wide in (False, True)]
        change(monkeypatch)
    assert set(before).isdisjoint(fingerprint(program, size, wide=wide) for wide in (False, True))


def test_all_ways_to_make_noise_have_one_fingerprint() -> None:
    """It depends on the noise alone: not on threads, and not on the size of a small model."""
    program = AntiPGD(0.3).program(Participation.single(10))
    assert fingerprint(program, 3, wide=False) != fingerprint(
        AntiPGD(0.4).program(Participation.single(10)), 3, wide=False
    )
    with mock.patch.object(os, "cpu_count", return_value=7):
        assert fingerprint(program, 3, wide=False) == fingerprint(program, 3, wide=False)


# -- writers and readers --------------------------------------------------------------------------------------------


def test_settings_are_compared_as_they_are_read_and_refused_where_they_cannot_be_read(tmp_path: Path) -> None:
    said = {"layers": (3, 4), "rate": 0.1, "nested": {"a": (None, True)}}
    opened(tmp_path / "run", settings=said).close()
    assert opened(tmp_path / "run", settings=said).position == 0
    deep: Any = 0
    for _ in range(40):
        deep = [deep]
    for bad in (float("nan"), float("inf"), 10**400, deep):
        with pytest.raises(ValueError, match="settings must be of JSON types and not too large"):
            opened(tmp_path / "bad", settings={"rate": bad})
    with pytest.raises(TypeError, match="settings must be of JSON types"):
        opened(tmp_path / "bad", settings={"rate": object()})
    assert not (tmp_path / "bad").exists()


def test_a_head_of_more_than_a_mebibyte_is_read_again(tmp_path: Path) -> None:
    """As of an optimizer whose state grows after the first step."""
    name = "base_model.model.model.layers.{:05d}.self_attn.q_proj.lora_A.default.weight exp_avg"
    carry = Carry(**{name.format(k): np.full(2, k, np.float32) for k in range(12_000)})
    made(opened(tmp_path / "run", carry=carry), 2)
    assert (tmp_path / "run" / "checkpoint-2").read_bytes().index(b"\n") > 2**20
    opened(tmp_path / "run", carry=(found := Carry()))
    assert found.arrays.keys() == carry.arrays.keys()


LIMITS = {
    "head": (sealed, "MAX_HEAD_BYTES", 300),
    "file": (sealed, "MAX_FILE_BYTES", 300),
    "commas": (reading, "MOST_COMMAS", 9),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_the_writer_has_the_limits_of_the_reader(limit: str, tmp_path: Path) -> None:
    """What could not be read is refused while the run is there, and the checkpoint before stays."""
    carry = Carry(x=np.zeros(1))
    run = opened(tmp_path / "run", DPSGD(), carry=carry)
    run.next_batch()
    run.add_noise(np.zeros(3))
    carry.arrays = {f"x{k}": np.zeros(1) for k in range(40)}
    with mock.patch.object(*LIMITS[limit]), pytest.raises(ValueError, match="checkpoint-1 is not written, which is"):
        run.close()
    assert [each.name for each in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-0"]
    assert opened(tmp_path / "run", DPSGD(), carry=(found := Carry())).position == 1
    assert list(found.arrays) == ["x"]


def test_a_checkpoint_is_read_again_after_it_was_written(tmp_path: Path) -> None:
    """One that the disk has changed is removed, and the run can write it once more."""
    run = opened(tmp_path / "run", carry=(carry := Carry(x=np.arange(100.0))))
    real = write_whole

    def changed(path: Path, *arguments: Any, **options: Any) -> None:
        real(path, *arguments, **options)
        content = bytearray(path.read_bytes())
        content[200] ^= 1
        path.write_bytes(content)

    for _ in range(4):
        run.next_batch()
        run.add_noise(np.zeros(3))
    unreadable = r"checkpoint-4 was written, and cannot be read again: .*keyed hash is wrong"
    with mock.patch.object(sealed, "write_whole", changed), pytest.raises(OSError, match=unreadable):
        run.next_batch()
    assert [each.name for each in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-0"]
    run.next_batch()
    assert {each.name for each in (tmp_path / "run").glob("checkpoint-*")} == {"checkpoint-0", "checkpoint-4"}
    run.add_noise(np.zeros(3))
    carry.arrays = {"x": np.ones(1)}
    run.close()
    assert opened(tmp_path / "run", carry=Carry()).position == 5


def test_a_journal_grows_no_larger_than_it_can_be_read(tmp_path: Path) -> None:
    """A checkpoint starts another file of the journal, so that the run can be resumed."""
    run = opened(tmp_path / "run")
    with mock.patch.object(journal, "MAX_FILE_BYTES", 250):
        for _ in range(2):
            run.next_batch()
            run.add_noise(np.zeros(3))
        run.next_batch()
        with pytest.raises(ValueError, match=r"journal-0 is full: resume the run with .*checkpoint_every=…"):
            run.add_noise(np.zeros(3))
        run.close()
        again = Folder(tmp_path / "run", marks=tmp_path / "run marks", checkpoint_every=1, keep_releases=False)
        assert made(PrivateRun(BUDGET, WHO, NuFTRL(0.05), 3, folder=again), 6)
