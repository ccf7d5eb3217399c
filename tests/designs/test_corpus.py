"""Files that are not to be trusted: a permanent corpus, the large ones made here, and seeded mutants of good files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import pytest

from corrnoise.designs.design import Design
from corrnoise.designs.spectra import eigenvalues_from_file
from corrnoise.designs.storage import load, save
from corrnoise.support import reading
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.design_examples import BUDGET, made

CORPUS = Path(__file__).parents[1] / "corpus"

#: The sentence with which each file is refused.
SENTENCES = {
    "before-the-archive.npz": "it is not a plain zip archive",
    "bomb.npz": r"its 2 members declare \d+ bytes, more than it has",
    "declares-more.npz": r"its 2 members declare \d+ bytes, more than it has",
    "deep-things.json": "it is nested more than 8 levels deep",
    "deep.json": "its JSON is nested more than 32 levels deep",
    "digits.json": "its JSON has a number of more than 64 digits",
    "empty.json": "its digest is wrong",
    "empty.npz": "its digest is wrong",
    "five-axes.npz": "it holds no design, program or mechanism",
    "flipped.json": "its digest is wrong",
    "header-by-literal.npz": "its header does not describe a plain array",
    "header-that-runs.npz": "its header does not describe a plain array",
    "huge-integer.json": "OverflowError",
    "huge-shape.npz": "its header does not describe a plain array",
    "infinite.json": "1e999 is too large for a float",
    "large-list.json": "values must be a list of 18446744073709551614 numbers",
    "large-tree.json": "steps must be at most 1000000 for BinaryTree in a file",
    "long-run.json": r"steps must be at most 10000000 for \w+ in a file",
    "many-booleans.npz": "its booleans are other bytes than 0 and 1",
    "mechanism-is-a-list.json": "it holds no design, program or mechanism",
    "method-of-an-object.json": "step_scales must be a non-empty vector",
    "multiplier-halved.json": r"multiplier is 0\.66\d+ in it, and 1\.33\d+ when it is computed",
    "nan.json": "NaN is not a number of JSON",
    "negative-shape.npz": "its header does not describe a plain array",
    "no-end.json": "JSONDecodeError",
    "no-object.json": "its digest is wrong",
    "no-text.npz": "it has no format, version and thing",
    "nothing-stated.json": "a design without its claims",
    "object-array.npz": "its header does not describe a plain array",
    "other-format.json": "its format must be 'corrnoise 1', got 'corrnoise 0'",
    "pickle.json": "its digest is wrong",
    "pickle.npz": "it is not a whole zip archive",
    "rho-times-100.json": r"rho is 0\.1005\d+ in it, and 10\.05\d+ when it is computed",
    "scale-halved.json": r"scale is 0\.66\d+ in it, and 1\.33\d+ when it is computed",
    "sensitivity-halved.json": r"sensitivity is 0\.66\d+ in it, and 1\.33\d+ when it is computed",
    "short-array.npz": r"its shape \(3,\) of float64 does not fit to 16 bytes",
    "traversal.npz": r"its members must have plain names, each another one, got '\.\./\.\./array-0\.npy'",
    "twice.json": "its JSON has a name twice among .*nu, nu",
    "unknown-kind.json": "kind must be one of .*, got 'Popen'",
    "unnamed-member.npz": "it has members that nothing names: array-0.npy",
}


#: The same for spectra, whose sentences name the argument first.
SPECTRA = {
    "spectrum-bytes.csv": "path must be text in UTF-8",
    "spectrum-negative.csv": r"path must lie in \(0, 1e300\], got -0\.5",
    "spectrum-pickle.npy": "its header does not describe a plain array",
    "spectrum-ragged.csv": "got 1 columns in row 2",
    "spectrum-words.csv": "got 'half' in row 3, column 1",
}
_MOST_MEMORY = 2**25  # bytes for a small file


def read(path: Path) -> Any:
    """What the project makes of a file, by its name."""
    if path.name.startswith("spectrum"):
        return eigenvalues_from_file(path)
    return load(path)


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(str(path)) + f" is damaged or foreign: .*{sentence}"):
        read(path)


def test_every_file_of_the_corpus_has_its_sentence() -> None:
    assert {path.name for path in CORPUS.iterdir()} == {*SENTENCES, *SPECTRA}


@pytest.mark.parametrize("name", [*SENTENCES, *SPECTRA])
def test_files_that_nobody_should_trust(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = CORPUS / name
    tracemalloc.start()
    try:
        if name in SENTENCES:
            refused(path, SENTENCES[name])
        else:
            with pytest.raises(ValueError, match=SPECTRA[name]) as caught:
                read(path)
            assert str(path) in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < _MOST_MEMORY
    finally:
        tracemalloc.stop()
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
        (lambda: text(b'"' + b'\\"' * (8 * 10**6)), "its JSON has more than 1000000 commas or brackets"),
        (lambda: text(b"[" + b",".join([b"1" * 399] * 100_000) + b"]"), r"its JSON has \d+ bytes, more than 16777216"),
        (lambda: text(b"[" + b",".join([b"1" * 399] * 40_000) + b"]"), "its JSON has a number of more than 64 digits"),
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
    refused(path, "it is not a regular file")
    refused(Path("/dev/zero"), "it is not a regular file")
    with pytest.raises(OSError, match="missing"):
        load(tmp_path / "missing.json")


# -- mutants -----------------------------------------------------------------------------------------------------------

_HOSTILE = [b"1e300", b"-1", b"0", b"1000000000000", b"null", b"[]", b"{}", b'"x"', b"true", b"1e-320", b"NaN", b"0.5"]


def good_files(folder: Path) -> list[Path]:
    """A design, mechanisms, programs and records, in both forms; spectra."""
    noise = PoleNoise([0.05], [0.2])
    epochs = Participation.fixed_epochs(48, epochs=4)
    scaled = ScaledNoise.normalised(noise, epochs)
    things = {
        "design.npz": made("once"),
        "design.json": made("once", Budget(epsilon=2.0, delta=1e-5, clip_norm=3.0)),
        "mechanism.json": NuFTRL(0.1),
        "scaled.npz": scaled,
        "program.npz": scaled.program(epochs),
        "record.json": noise.program(epochs).record(BUDGET),
        "record.npz": scaled.program(epochs).record(BUDGET),
        "tree.json": BinaryTree(48).program(epochs, "float64").record(BUDGET),
    }
    for name, thing in things.items():
        save(thing, folder / name)
    np.save(folder / "spectrum.npy", [1.0, 0.5, 0.25])
    (folder / "spectrum.csv").write_text("eigenvalue\n1.0\n0.5\n# a comment\n0.25\n")
    return [folder / name for name in (*things, "spectrum.npy", "spectrum.csv")]


def mutant(name: str, data: bytes, rng: np.random.Generator) -> bytes:
    """A file with one change: of any byte; or of the text or of an array, with all digests right."""
    how = rng.random()
    if how < 0.1:
        place = int(rng.integers(len(data)))
        return data[:place] if how < 0.05 else data[:place] + bytes([rng.integers(256)]) + data[place + 1 :]
    if name.startswith("spectrum"):
        return changed_bytes(data, rng) if name.endswith("npy") else changed_text(data, rng)
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


def claims(path: Path) -> dict[str, float]:
    """The privacy figures that stand in a file, read without the project."""
    data = path.read_bytes()
    if data.startswith(b"PK"):
        with ZipFile(BytesIO(data)) as members:
            data = members.read("thing.json")
    thing = json.loads(data)["thing"]
    found: dict[str, float] = thing.get("stated", thing)
    return {name: found[name] for name in ("rho", "epsilon", "sensitivity", "multiplier", "scale") if name in found}


def recomputed(thing: Any) -> dict[str, float | None]:
    """The privacy figures of a design, a program or a record, from its mechanism, promise and budget alone."""
    if isinstance(thing, Design):
        budget, described = thing.budget, thing.program().arguments()
    else:
        described = thing.arguments() if isinstance(thing, Program) else thing
        budget = described.get("budget", BUDGET)
    program = described["mechanism"].program(described["participation"], described["dtype"], described["form"])
    return {
        "rho": budget.gaussian_rho,
        "epsilon": None if budget.delta is None else budget.epsilon_at(budget.delta),
        "sensitivity": program.sensitivity,
        "multiplier": budget.multiplier(program.sensitivity),
        "scale": budget.scale(program.sensitivity),
    }


def check_claims(path: Path, thing: Any) -> int:
    """How many claims of a file were compared; a false one fails."""
    if not isinstance(thing, Design | Program | dict):
        return 0
    true = recomputed(thing)
    stated = claims(path)
    for name, value in stated.items():
        assert value == (None if true[name] is None else pytest.approx(true[name], rel=2e-9)), (path, name)
    return len(stated)


def fuzzed(folder: Path, count: int, seed: int) -> dict[str, int]:
    """How many mutants were refused and read, and claims compared; another exception or a false claim fails."""
    rng = np.random.default_rng(seed)
    contents = {file.name: file.read_bytes() for file in good_files(folder)}
    names = list(contents)
    found = {"refused": 0, "not named": 0, "read": 0, "claims": 0}
    hostile = folder / "mutants"
    hostile.mkdir()
    for number in range(count):
        name = names[number % len(names)]
        path = hostile / name
        path.write_bytes(mutant(name, contents[name], rng))
        try:
            thing: Any = read(path)
        except ValueError as error:
            found["refused" if str(path) in str(error) else "not named"] += 1
        else:
            found["read"] += 1
            found["claims"] += check_claims(path, thing)
    return found


def test_good_files_are_read_and_their_claims_compared(tmp_path: Path) -> None:
    files = good_files(tmp_path)
    assert sum(check_claims(path, read(path)) for path in files) == 2 * 5 + 1 + 3 * 3


@pytest.mark.slow
def test_mutants_are_refused_or_true(tmp_path: Path) -> None:
    found = fuzzed(tmp_path, 1000, seed=1)
    assert found["refused"] > 600
    assert found["read"] > 50
    assert found["claims"] > 50
    assert found["not named"] == 0


@pytest.mark.slow
def test_many_mutants_are_refused_or_true(tmp_path: Path) -> None:
    found = fuzzed(tmp_path, 20_000, seed=2)
    assert found["refused"] > 12_000
    assert found["claims"] > 1000
    assert found["not named"] == 0
