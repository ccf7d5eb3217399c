"""Files of designs: they give back what was saved or nothing, and earlier formats are still read."""

import dataclasses
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from corrnoise.solvers.rational.exchange import BufferForm
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.designs.choice import Alternative, Choice
from corrnoise.designs.files import NAMES, save, tables
from corrnoise.designs.make import design
from corrnoise.designs.record import Design
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.privacy import Adjacency
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests import oracles
from tests.design_examples import small, written
from tests.strategies import gaps, log_uniform, noises, regressions

problems = st.one_of(
    st.none(),
    regressions(kurtosis=None),
    regressions(most=3).map(lambda p: LinearRegression(p.eigenvalues, p.learning_rate, kurtosis=p.eigenvalues + 1)),
    st.builds(MeanEstimation, gaps(1e-6), st.just(0.3)),
    st.builds(StronglyConvex, log_uniform(1e-3, 1.0), st.just(1.5), st.just(0.1), dimension=st.integers(1, 10**6)),
)
values = st.text() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


# -- files -------------------------------------------------------------------------------------------------------------


@given(
    noises() | st.builds(CepstralNoise, st.lists(st.floats(-0.3, 0.3), max_size=5), st.floats(-0.5, 0.5)),
    st.sampled_from([None, PoleNoise([0.1], [0.3]), FiniteNoise([1.0, -0.5])]),
    log_uniform(1e-6, 1e6),
    st.none() | st.integers(1, 50),
    log_uniform(1e-6, 1e6),
    st.sampled_from(["zero-out", "replace-one"]),
    problems,
    st.lists(st.text(), max_size=2),
    st.dictionaries(st.text(), values, max_size=4),
)
@settings(max_examples=50)
def test_what_is_loaded_is_what_was_saved(
    tmp_path_factory: pytest.TempPathFactory,
    noise: ToeplitzNoise,
    stream: PoleNoise | FiniteNoise | None,
    rho: float,
    steps: int | None,
    clip_norm: float,
    adjacency: Adjacency,
    problem: Any,
    notes: list[str],
    metadata: dict[str, Any],
) -> None:
    saved = Design(
        noise,
        stream,
        BufferForm([0.5, 0.9], [0.1, 0.2]) if notes else None,
        rho=rho,
        steps=steps,
        clip_norm=clip_norm,
        adjacency=adjacency,
        problem=problem,
        initial_offset=np.arange(float(problem.eigenvalues.size)) if isinstance(problem, LinearRegression) else rho,
        min_sep=3,
        notes=tuple(notes),
        metadata=metadata,
    )
    loaded = Design.load(written(saved, tmp_path_factory.getbasetemp() / "design.npz"))
    assert loaded == saved
    assert hash(loaded) == hash(saved)
    assert loaded.handover == saved.handover
    assert (loaded.noise_multiplier, loaded.stream_multiplier) == (saved.noise_multiplier, saved.stream_multiplier)
    assert list(map(type, loaded.metadata.values())) == list(map(type, saved.metadata.values()))
    for name, value in saved.arguments().items():
        assert type(getattr(loaded, name)) is type(value)


CHANGES: dict[str, Any] = {
    "noise": NuFTRL(math.nextafter(0.1, 1)),
    "stream": PoleNoise([0.1, 0.5], [0.2, math.nextafter(0.6, 1)]),
    "buffers": BufferForm([0.9, 0.5], [0.1, 0.2]),
    "rho": math.nextafter(0.5, 0),
    "steps": 6,
    "min_sep": 2,
    "max_participations": 2,
    "clip_norm": math.nextafter(1.0, 0),
    "adjacency": "replace-one",
    "problem": LinearRegression([1.0, 0.3, math.nextafter(0.01, 1)], 0.05, 0.2),
    "initial_offset": np.array([0.5, 0.5, 0.5]),
    "notes": ("A sentence.", ""),
    "metadata": {"name": "small", "count": 3, "share": 0.1, "checked": 1},
    "scales": np.array([1.0, 2.0, 3.0, 2.0, math.nextafter(1.0, 2)]),
    "choice": Choice("an error", "any memory", Alternative("one", 2, 0.5), (Alternative("one", 2, 0.5),), None, "none"),
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Design)])
def test_a_change_of_any_field_is_seen_and_saved(name: str, tmp_path: Path) -> None:
    changed = small(**{name: CHANGES[name]})
    assert changed != small()
    assert Design.load(written(changed, tmp_path / "design.npz")) == changed != small()


def test_no_flipped_byte_makes_another_design(tmp_path: Path) -> None:
    path = written(small(), tmp_path / "design.npz")
    rng = np.random.default_rng(0)
    data = path.read_bytes()
    refusals = []
    for position in rng.choice(len(data), 600, replace=False).tolist():
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        try:
            loaded = Design.load(path)
        except ValueError as error:
            refusals.append(str(error))
        else:
            assert loaded == small()  # dates and the like, which no one reads
    assert len(refusals) > 300
    assert all(refusal.startswith("path must be a file of Design.save, got '") for refusal in refusals)


def test_no_cut_makes_another_design(tmp_path: Path) -> None:
    path = written(small(), tmp_path / "design.npz")
    data = path.read_bytes()
    for length in range(0, len(data), 97):
        path.write_bytes(data[:length])
        with pytest.raises(
            ValueError, match=r"path must be a file of Design.save, got '.*', which is foreign or damaged"
        ):
            Design.load(path)


def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change entries of a file, with all checksums of the container right."""
    with np.load(path, allow_pickle=False) as file:
        entries = dict(file)
    change(entries)
    np.savez(path, **entries)


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update({"rho": np.array(0.6)}),
        lambda e: e.update({"noise_multiplier": e["noise_multiplier"] * 0.99}),
        lambda e: e.update({"noise.nu": e["noise.nu"].astype(np.float32)}),
        lambda e: e.update({"steps": e["steps"].astype(np.int32)}),
        lambda e: e.update({"strategy_coef": e["strategy_coef"][:, np.newaxis]}),
        lambda e: e.pop("metadata"),
        lambda e: e.update({"more": np.array(1)}),
        lambda e: e.update({"adjacency": np.array("zero-outs")}),
        lambda e: e.pop("checksum"),
    ],
)
def test_entries_cannot_be_changed(change: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    path = written(small(), tmp_path / "design.npz")
    rewritten(path, lambda entries: None)
    assert Design.load(path) == small()
    rewritten(path, change)
    with pytest.raises(ValueError, match="which is damaged: wrong checksum"):
        Design.load(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "design.npz"
    np.savez(path, rho=1.0)
    with pytest.raises(ValueError, match="which is foreign"):
        Design.load(path)
    np.save(tmp_path / "design.npy", np.ones(3))
    with pytest.raises(ValueError, match="which is foreign or damaged"):
        Design.load(tmp_path / "design.npy")
    np.savez(path, format=np.array([{"a": 1}], dtype=object))  # would need pickles
    with pytest.raises(ValueError, match="which is foreign or damaged"):
        Design.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("format", "corrnoise.Design 1")
    with pytest.raises(ValueError, match=r"which is (foreign|damaged)"):
        Design.load(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        Design.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corrnoise.Design 5", "of the later format 5, which a later corrnoise reads"),
        ("corrnoise.Design 10", "of the later format 10"),
        ("corrnoise.Design one", "foreign"),
        ("corrnoise.NoiseStream 1", "foreign"),
    ],
)
def test_other_formats_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = written(small(), tmp_path / "design.npz")
    rewritten(path, lambda entries: entries.update({"format": np.array(text)}))
    with pytest.raises(ValueError, match=f"which is {message}"):
        Design.load(path)


def test_format_1_is_still_read() -> None:
    """The file was written by the first version, for this problem and budget."""
    loaded = Design.load(Path(__file__).parent / "data/format-1.npz")
    problem = LinearRegression([1.0, 0.3, 0.01], 0.05, 0.2)
    again = design(
        problem,
        rho=0.5,
        steps=20,
        adjacency="replace-one",
        clip_norm=0.5,
        initial_offset=1.0,
        metadata={"epsilon": 2.0, "delta": 1e-6},
    )
    assert (loaded.problem, loaded.rho, loaded.steps, loaded.clip_norm) == (problem, 0.5, 20, 0.5)
    assert (loaded.adjacency, loaded.initial_offset, loaded.notes) == ("replace-one", 1.0, ())
    assert dict(loaded.metadata) == {"tolerance": 1e-6, "epsilon": 2.0, "delta": 1e-6}
    assert (loaded.min_sep, loaded.max_participations) == (1, 1)
    assert loaded.buffers is not None
    assert again.buffers is not None
    assert loaded.buffers.buf_decay == pytest.approx(again.buffers.buf_decay, rel=1e-9)
    assert loaded.noise_multiplier == pytest.approx(again.noise_multiplier, rel=1e-12)
    assert loaded.buffers_multiplier == pytest.approx(again.buffers_multiplier, rel=1e-9)


def test_paths_that_are_none_are_named() -> None:
    with pytest.raises(TypeError, match=r"path must be a path, as a string or os.PathLike, got 3"):
        Design.load(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"folder must be a path, as a string or os.PathLike, got None"):
        small(problem=None).save(None)  # type: ignore[arg-type]


# -- folders -----------------------------------------------------------------------------------------------------------


def test_a_folder_holds_all_files_of_a_design(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    saved = small()
    paths = saved.save(folder)
    assert paths == sorted(folder.iterdir())
    chosen = {"scales.csv", "memory.pdf", "memory.png", "memory.csv"}
    assert {path.name for path in paths} == set(NAMES) - {"stream.csv"} - chosen
    assert Design.load(folder) == Design.load(folder / "design.npz") == saved
    assert (folder / "design.json").read_text() == saved.json()
    assert (folder / "report.txt").read_text() == saved.report()
    assert {path.name for path in small(problem=None, steps=None).save(tmp_path / "few")} == {
        *("design.npz", "design.json", "report.txt", "poles.csv")
    }


def test_a_design_is_not_overwritten_without_a_word(tmp_path: Path) -> None:
    first = small(problem=None)
    first.save(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "stream.csv").write_text("of an earlier design")
    second = small(problem=None, steps=None, rho=0.25)
    with pytest.raises(FileExistsError, match=r"folder must not hold a design, got '.*' with design.npz, design.json"):
        second.save(tmp_path)
    assert Design.load(tmp_path) == first
    second.save(tmp_path, overwrite=True)
    assert Design.load(tmp_path) == second
    assert {path.name for path in tmp_path.iterdir()} == {
        *("design.npz", "design.json", "report.txt", "poles.csv", "mine.txt")
    }


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError("no space left on device")

    first = small(problem=None)
    first.save(tmp_path / "old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    monkeypatch.setattr("os.fsync", fail)
    for folder in ("old", "new"):
        with pytest.raises(OSError, match="no space"):
            save(small(problem=None, rho=1.0), None, tmp_path / folder, overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_the_same_design_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        small().save(tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_noise_of_the_users_own_is_not_saved(tmp_path: Path) -> None:
    class Own(NuFTRL):
        pass

    with pytest.raises(TypeError, match=r"noise must be one of DPSGD, NuFTRL, .* to be saved, got Own"):
        small(noise=Own(0.1), problem=None).save(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_tables_say_which_multiplier_belongs_to_them() -> None:
    design = small(problem=None)
    found = tables(design)
    assert list(found) == ["coefficients.csv", "poles.csv"]
    for form in ("strategy_coef", "noising_coef"):
        for value in design.multipliers(form).values():
            assert repr(value) in found["coefficients.csv"]
    assert repr(design.toeplitz_multiplier) in found["coefficients.csv"]
    assert repr(design.stream_multiplier) in found["poles.csv"]
    banded = small(problem=None, steps=None, buffers=None, stream=FiniteNoise([1.0, -0.5]))
    (name,) = found = tables(banded)
    assert name == "stream.csv"
    assert found[name].splitlines()[1:] == [
        f"# noise multiplier: {banded.stream_multiplier!r}",
        "t,noising_coef",
        "0,1.0",
        "1,-0.5",
    ]


# -- what other programs read ------------------------------------------------------------------------------------------


def test_other_programs_find_what_they_need(tmp_path: Path) -> None:
    d = small(steps=40)
    with np.load(written(d, tmp_path / "design.npz"), allow_pickle=False) as file:
        entries = dict(file)
    assert not any(entry.dtype.hasobject for entry in entries.values())
    inverse = oracles.inverse(oracles.toeplitz(entries["noising_coef"].tolist(), 40))
    assert entries["strategy_coef"] == pytest.approx([float(row[0]) for row in inverse], rel=1e-13)
    norm = float(np.linalg.norm(entries["strategy_coef"]))
    assert entries["toeplitz_multiplier"] == pytest.approx(norm / math.sqrt(2 * 0.5), rel=1e-3)
    assert entries["toeplitz_multiplier"] > norm / math.sqrt(2 * 0.5)
    powers = entries["buf_decay"][:, np.newaxis] ** np.arange(39) * entries["output_scale"][:, np.newaxis]
    norm = float(np.linalg.norm(np.append(1.0, powers.sum(axis=0))))
    assert entries["buffers_multiplier"] == pytest.approx(norm / math.sqrt(2 * 0.5), rel=1e-5)
    assert entries["buffers_multiplier"] > norm / math.sqrt(2 * 0.5)
