"""Files that nobody should trust: a permanent corpus, the large ones made here, and seeded mutants of good files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import pytest

from corrnoise.designs.storage import load, save
from corrnoise.support import reading
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from tests.design_examples import BUDGET, made

CORPUS = Path(__file__).parents[1] / "corpus"

#: The sentence with which each file is refused.
SENTENCES = {
    "before-the-archive.npz": "it is no plain zip archive",
    "bomb.npz": r"its 2 members declare \d+ bytes, more than it has",
    "declares-more.npz": r"its 2 members declare \d+ bytes, more than it has",
    "deep-things.json": "it is nested more than 8 levels deep",
    "deep.json": "its JSON is nested more than 32 levels deep",
    "digits.json": "its JSON has a number of 400 digits",
    "empty.json": "its digest is wrong",
    "empty.npz": "its digest is wrong",
    "five-axes.npz": "its header is not that of a plain array",
    "flipped.json": "its digest is wrong",
    "header-by-literal.npz": "its header is not that of a plain array",
    "header-that-runs.npz": "its header is not that of a plain array",
    "huge-integer.json": "OverflowError",
    "huge-shape.npz": r"its shape \(10000000000000,\) of float64 does not fit to 16 bytes",
    "infinite.json": "1e999 is too large for a float",
    "large-list.json": "values must be a list of 18446744073709551614 numbers",
    "large-tree.json": "steps must be at most 1000000 for BinaryTree in a file",
    "long-run.json": "steps must be at most 10000000 for Participation in a file",
    "many-booleans.npz": "its booleans are other bytes than 0 and 1",
    "mechanism-is-a-list.json": "it holds no design, program or mechanism",
    "method-of-an-object.json": "step_scales must be a non-empty vector",
    "multiplier-halved.json": r"multiplier is 0\.66\d+ in it, and 1\.33\d+ when it is computed",
    "nan.json": "NaN is no number of JSON",
    "negative-shape.npz": "its header is not that of a plain array",
    "no-end.json": "JSONDecodeError",
    "no-object.json": "its digest is wrong",
    "no-text.npz": "it has no format, version and thing",
    "nothing-stated.json": "a design without what is stated of it",
    "object-array.npz": "its header is not that of a plain array",
    "other-format.json": "its format must be 'corrnoise 1', got 'corrnoise 0'",
    "pickle.json": "its digest is wrong",
    "pickle.npz": "it is no whole zip archive",
    "rho-times-100.json": r"rho is 0\.1005\d+ in it, and 10\.05\d+ when it is computed",
    "scale-halved.json": r"scale is 0\.66\d+ in it, and 1\.33\d+ when it is computed",
    "sensitivity-halved.json": r"sensitivity is 0\.66\d+ in it, and 1\.33\d+ when it is computed",
    "short-array.npz": r"its shape \(3,\) of float64 does not fit to 16 bytes",
    "traversal.npz": r"its members must have plain names, each another one, got '\.\./\.\./array-0\.npy'",
    "twice.json": "its JSON has a name twice among .*nu, nu",
    "unknown-kind.json": "kind must be one of .*, got 'Popen'",
    "unnamed-member.npz": "it has members that nothing names: array-0.npy",
}


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(str(path)) + f" is damaged or foreign: .*{sentence}"):
        load(path)


def test_every_file_of_the_corpus_has_its_sentence() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(SENTENCES)


@pytest.mark.parametrize("name", SENTENCES)
def test_files_that_nobody_should_trust(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(CORPUS / name, SENTENCES[name])
    assert capsys.readouterr() == ("", "")  # no pickle was run


# -- files that are large, or no files ---------------------------------------------------------------------------------


def text(thing: bytes) -> bytes:
    """A file of JSON with this thing, and with the right digest."""
    head = b'{\n "format": "corrnoise 1",\n "version": "0",\n "thing": ' + thing + b","
    return head + f'\n "digest": "{hashlib.sha256(head).hexdigest()}"\n}}\n'.encode()


def archive(members: dict[str, bytes]) -> bytes:
    """An archive with these members, and with the right digest."""
    file = BytesIO()
    with ZipFile(file, "w", ZIP_STORED) as made:
        for name, data in members.items():
            made.writestr(ZipInfo(name), data)
        made.comment = b"0" * 64
    data = file.getvalue()[:-64]
    return data + hashlib.sha256(data).hexdigest().encode()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lambda: text(b"[" * 200_000 + b"]" * 200_000), "its JSON is nested more than 32 levels deep"),
        (lambda: text(b'"' + b'\\"' * 10**7), "its JSON has more than 1000000 commas or brackets"),
        (lambda: text(b'"' + b'\\"' * 10**6), "JSONDecodeError"),
        (lambda: text(b"[" + b"0," * 10**6 + b"0, 0]"), "its JSON has more than 1000000 commas or brackets"),
        (lambda: text(b"[[]" + b",[]" * (10**6 - 1) + b"]"), "its JSON has more than 1000000 commas or brackets"),
        (lambda: archive({f"{k}.npy": b"" for k in range(4097)}), "it has 4097 members, more than 4096"),
        (lambda: bytes(2**26 + 1), "it has 67108865 bytes, more than 67108864"),
    ],
)
def test_large_files_are_refused_before_they_are_parsed(
    content: Callable[[], bytes], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "large.npz"
    path.write_bytes(content())
    refused(path, sentence)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_what_is_no_file_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "pipe.npz"
    os.mkfifo(path)
    refused(path, "it is no regular file")
    refused(Path("/dev/zero"), "it is no regular file")
    with pytest.raises(OSError, match="missing"):
        load(tmp_path / "missing.json")


# -- mutants -----------------------------------------------------------------------------------------------------------

_HOSTILE = [b"1e300", b"-1", b"0", b"1000000000000", b"null", b"[]", b"{}", b'"x"', b"true", b"1e-320", b"NaN", b"0.5"]


def good_files(folder: Path) -> list[Path]:
    """A design, mechanisms, programs and records, in both forms."""
    noise = PoleNoise([0.05], [0.2])
    epochs = Participation.fixed_epochs(48, epochs=4)
    scaled = ScaledNoise.normalised(noise, epochs)
    things = {
        "design.npz": made("once"),
        "design.json": made("once"),
        "mechanism.json": NuFTRL(0.1),
        "scaled.npz": scaled,
        "program.npz": scaled.program(epochs),
        "record.json": noise.program(epochs).record(BUDGET),
        "record.npz": scaled.program(epochs).record(BUDGET),
        "tree.json": BinaryTree(48).program(epochs, "float64").record(BUDGET),
    }
    for name, thing in things.items():
        save(thing, folder / name)
    return [folder / name for name in things]


def mutant(data: bytes, rng: np.random.Generator) -> bytes:
    """A file with one change: of any byte; or of the text or of an array, with all digests right."""
    how = rng.random()
    if how < 0.1:
        place = int(rng.integers(len(data)))
        return data[:place] if how < 0.05 else data[:place] + bytes([rng.integers(256)]) + data[place + 1 :]
    if data.startswith(b"PK"):
        members = reading.archive(data)
        name = str(rng.choice(list(members)))
        changed = changed_text if name.endswith("json") else changed_bytes
        return archive(members | {name: changed(members[name], rng)})
    head = changed_text(data[: data.rindex(b'\n "digest"')], rng)
    return head + f'\n "digest": "{hashlib.sha256(head).hexdigest()}"\n}}\n'.encode()


def changed_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(data)))
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def changed_text(data: bytes, rng: np.random.Generator) -> bytes:
    """Another byte, another value, or a value that is lost or there twice."""
    if rng.random() < 0.2:
        return changed_bytes(data, rng)
    values = list(re.finditer(rb'"[^"]*"(?!:)|-?\d[\d.e+-]*|null|true|false', data))
    one, other = (values[int(k)] for k in rng.integers(len(values), size=2))
    new = rng.choice([other[0], one[0] + b"9", b"-" + one[0], b"", one[0] + b", " + one[0], *_HOSTILE])
    return data[: one.start()] + bytes(new) + data[one.end() :]


def fuzzed(folder: Path, count: int, seed: int) -> dict[str, int]:
    """How many mutants were refused and how many were read; any other exception fails, and so does a false claim."""
    rng = np.random.default_rng(seed)
    files = good_files(folder)
    contents = [file.read_bytes() for file in files]
    found = {"refused": 0, "read": 0, "other": 0}
    for _ in range(count):
        which = int(rng.integers(len(files)))
        path = folder / f"mutant{files[which].suffix}"
        path.write_bytes(mutant(contents[which], rng))
        try:
            thing: Any = load(path)
        except ValueError as error:
            found["refused" if " is damaged or foreign: " in str(error) else "other"] += 1
        else:
            found["read"] += 1
            if isinstance(thing, dict):  # what is returned was computed
                program = thing["mechanism"].program(thing["participation"], thing["dtype"], thing["form"])
                assert thing["multiplier"] == program.multiplier(thing["budget"])
    return found


def test_mutants_are_refused_or_true(tmp_path: Path) -> None:
    found = fuzzed(tmp_path, 500, seed=1)
    assert found["refused"] > 350
    assert found["read"] > 10
    assert found["other"] == 0


@pytest.mark.slow
def test_many_mutants_are_refused_or_true(tmp_path: Path) -> None:
    found = fuzzed(tmp_path, 20_000, seed=2)
    assert found["refused"] > 14_000
    assert found["other"] == 0
