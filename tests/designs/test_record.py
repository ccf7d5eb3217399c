"""Designs: files that give back what was saved or nothing, and multipliers that no rounding makes optimistic."""

import dataclasses
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps
from strategies import gaps, log_uniform, noises, regressions

from corrnoise.solvers.alternating_minimisation import minimise_strongly_convex_bound
from corrnoise.solvers.designs import Design, design
from corrnoise.solvers.exchange import toeplitz_form
from corrnoise.solvers.strongly_convex_bound import strongly_convex_bound
from corrnoise.theory.cepstral_noise import CepstralNoise
from corrnoise.theory.finite_noise import FiniteNoise
from corrnoise.theory.pole_noise import PoleNoise
from corrnoise.theory.problems import LinearRegression, MeanEstimation
from corrnoise.theory.product_noise import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.strongly_convex import StronglyConvex
from corrnoise.theory.toeplitz_noise import ToeplitzNoise

PROBLEM = LinearRegression([1.0, 0.3, 0.01], 0.05, 0.2)


def small(**changes: Any) -> Design:
    arguments: dict[str, Any] = {
        "noise": NuFTRL(0.1),
        "stream": PoleNoise([0.1, 0.5], [0.2, 0.6]),
        "rho": 0.5,
        "steps": 5,
        "problem": PROBLEM,
        "metadata": {"name": "small", "count": 3, "share": 0.1, "checked": True},
    }
    return Design(**{**arguments, **changes})


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
    st.dictionaries(st.text(), values, max_size=4),
)
@settings(max_examples=100)
def test_what_is_loaded_is_what_was_saved(
    tmp_path_factory: pytest.TempPathFactory,
    noise: ToeplitzNoise,
    stream: PoleNoise | FiniteNoise | None,
    rho: float,
    steps: int | None,
    clip_norm: float,
    adjacency: str,
    problem: Any,
    metadata: dict[str, Any],
) -> None:
    path = tmp_path_factory.getbasetemp() / "design.npz"
    saved = Design(noise, stream, rho, steps, clip_norm, adjacency, problem, metadata)
    saved.save(path)
    loaded = Design.load(path)
    assert loaded == saved
    assert hash(loaded) == hash(saved)
    assert loaded.description() == saved.description()
    assert list(map(type, loaded.metadata.values())) == list(map(type, saved.metadata.values()))
    for name, value in saved.arguments().items():
        assert type(getattr(loaded, name)) is type(value)


CHANGES: dict[str, Any] = {
    "noise": NuFTRL(math.nextafter(0.1, 1)),
    "stream": PoleNoise([0.1, 0.5], [0.2, math.nextafter(0.6, 1)]),
    "rho": math.nextafter(0.5, 0),
    "steps": 6,
    "clip_norm": math.nextafter(1.0, 0),
    "adjacency": "replace-one",
    "problem": LinearRegression([1.0, 0.3, math.nextafter(0.01, 1)], 0.05, 0.2),
    "metadata": {"name": "small", "count": 3, "share": 0.1, "checked": 1},
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Design)])
def test_a_change_of_any_field_is_seen_and_saved(name: str, tmp_path: Path) -> None:
    changed = small(**{name: CHANGES[name]})
    assert changed != small()
    changed.save(tmp_path / "design.npz")
    assert Design.load(tmp_path / "design.npz") == changed != small()


def test_no_flipped_byte_makes_another_design(tmp_path: Path) -> None:
    path, rng = tmp_path / "design.npz", np.random.default_rng(0)
    small().save(path)
    data, refusals = path.read_bytes(), []
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
    path = tmp_path / "design.npz"
    small().save(path)
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
    path = tmp_path / "design.npz"
    small().save(path)
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
        ("corrnoise.Design 2", "of the later format 2, which a later corrnoise reads"),
        ("corrnoise.Design 10", "of the later format 10"),
        ("corrnoise.Design one", "foreign"),
        ("corrnoise.NoiseStream 1", "foreign"),
    ],
)
def test_other_formats_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "design.npz"
    small().save(path)
    rewritten(path, lambda entries: entries.update({"format": np.array(text)}))
    with pytest.raises(ValueError, match=f"which is {message}"):
        Design.load(path)


def test_a_failure_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError("no space left on device")

    path = tmp_path / "design.npz"
    small().save(path)
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        small(rho=1.0).save(path)
    monkeypatch.undo()
    assert Design.load(path) == small()
    assert [entry.name for entry in tmp_path.iterdir()] == ["design.npz"]
    with pytest.raises(FileNotFoundError):
        small().save(tmp_path / "absent" / "design.npz")


def test_noise_of_the_users_own_is_not_saved(tmp_path: Path) -> None:
    class Own(NuFTRL):
        pass

    with pytest.raises(TypeError, match=r"noise must be one of DPSGD, NuFTRL, .* to be saved, got Own"):
        small(noise=Own(0.1)).save(tmp_path / "design.npz")
    assert not list(tmp_path.iterdir())


def test_other_programs_find_what_they_need(tmp_path: Path) -> None:
    d = small(steps=40)
    d.save(tmp_path / "design.npz")
    with np.load(tmp_path / "design.npz", allow_pickle=False) as file:
        entries = dict(file)
    assert not any(entry.dtype.hasobject for entry in entries.values())
    inverse = oracles.inverse(oracles.toeplitz(entries["noising_coef"].tolist(), 40))
    assert entries["strategy_coef"] == pytest.approx([float(row[0]) for row in inverse], rel=1e-13)
    norm = float(np.linalg.norm(entries["strategy_coef"]))
    assert entries["toeplitz_multiplier"] == pytest.approx(norm / math.sqrt(2 * 0.5), rel=1e-13)
    powers = entries["buf_decay"][:, np.newaxis] ** np.arange(39) * entries["output_scale"][:, np.newaxis]
    norm = float(np.linalg.norm(np.append(1.0, powers.sum(axis=0))))
    assert entries["buffers_multiplier"] == pytest.approx(norm / math.sqrt(2 * 0.5), rel=1e-13)


# -- multipliers -------------------------------------------------------------------------------------------------------


@given(gaps(1e-6), st.integers(1, 30), log_uniform(1e-4, 1e4), st.sampled_from([1, 2]))
@settings(max_examples=40)
def test_every_multiplier_is_that_of_its_own_noise_and_not_too_small(
    nu: float, steps: int, rho: float, factor: int
) -> None:
    d = Design(
        NuFTRL(nu),
        PoleNoise([nu, 0.4], [0.3, 0.45]),
        rho,
        steps,
        adjacency="replace-one" if factor == 2 else "zero-out",
    )
    assert d.toeplitz is not None
    assert d.stream is not None
    with workdps(40):
        own = {
            "noise_multiplier": oracles.product_coefficients([nu], [-0.5], steps),
            "stream_multiplier": oracles.product_coefficients([nu, 0.4, 0.3, 0.45], [-1, -1, 1, 1], steps),
            "toeplitz_multiplier": oracles.reciprocal(d.toeplitz.noising_coef.tolist(), steps),
        }
        for name, column in own.items():
            exact = factor * mp.sqrt(mp.fsum(c * c for c in column)) / mp.sqrt(2 * mpf(rho))
            assert exact <= mpf(getattr(d, name)) <= exact * (1 + mpf(10) ** -13)
        strategy = factor * mp.sqrt(mp.fsum(mpf(c) ** 2 for c in d.toeplitz.strategy_coef.tolist()))
        assert mpf(d.toeplitz_multiplier) >= strategy / mp.sqrt(2 * mpf(rho))
        if d.buffers is not None:
            column = [mpf(1)] + [mpf(0)] * (steps - 1)
            pairs = zip(d.buffers.buf_decay.tolist(), d.buffers.output_scale.tolist(), strict=True)
            for decay, scale in pairs:
                for t in range(1, steps):
                    column[t] += mpf(scale) * mpf(decay) ** (t - 1)
            exact = factor * mp.sqrt(mp.fsum(c * c for c in column)) / mp.sqrt(2 * mpf(rho))
            assert exact <= mpf(d.buffers_multiplier) <= exact * (1 + mpf(10) ** -14)


def test_the_multiplier_of_one_noise_is_too_small_for_another() -> None:
    d = design(PROBLEM, rho=0.5, tolerance=0.5)
    assert d.stream_multiplier is not None
    assert abs(d.stream_multiplier / d.noise_multiplier - 1) > 1e-3
    shorter = design(PROBLEM, rho=0.5, steps=10)
    assert shorter.noise_multiplier < 0.99 * d.noise_multiplier


def test_without_a_horizon_the_limit_counts() -> None:
    d = small(steps=None)
    assert d.toeplitz is None
    assert d.toeplitz_multiplier is None
    assert d.noise_multiplier == NuFTRL(0.1).noise_multiplier(0.5)
    assert d.stream is not None
    assert d.stream_multiplier == d.stream.noise_multiplier(0.5)
    assert d.buffers_multiplier == pytest.approx(d.stream_multiplier, rel=1e-13)


def test_where_there_are_no_poles_there_are_no_buffers() -> None:
    assert small(stream=None).stream_multiplier is None
    assert small(stream=None).buffers is None
    finite = small(stream=FiniteNoise([1.0, -0.5]))
    assert finite.buffers is None
    assert finite.buffers_multiplier is None
    assert finite.stream_multiplier == FiniteNoise([1.0, -0.5]).noise_multiplier(0.5, 5)
    assert small(stream=PoleNoise([0.1, 0.1], [0.2, 0.3])).buffers is None  # equal decays
    assert small(stream=PoleNoise([1e-20], [0.2])).buffers is not None
    assert small(stream=PoleNoise([1e-20], [0.2]), steps=None).buffers is None  # a decay is rounded to 1


def test_replace_one_takes_twice_the_noise_and_four_times_the_error() -> None:
    zero_out, replace_one = small(), small(adjacency="replace-one")
    for name in ("noise_multiplier", "stream_multiplier", "toeplitz_multiplier", "buffers_multiplier"):
        assert getattr(replace_one, name) == pytest.approx(2 * getattr(zero_out, name), rel=1e-14)
    noiseless = LinearRegression([1.0, 0.3], 0.05)
    errors = [noiseless.stationary_error(d.noise, **d.budget) for d in (zero_out, replace_one)]
    assert errors[1] == pytest.approx(4 * errors[0], rel=1e-14)


# -- designing ---------------------------------------------------------------------------------------------------------


@given(
    regressions(most=5), log_uniform(1e-3, 1e3), log_uniform(1e-3, 1e3), st.sampled_from(["zero-out", "replace-one"])
)
@settings(max_examples=20)
def test_a_design_is_optimal_and_its_stream_nearly(
    problem: LinearRegression, rho: float, clip_norm: float, adjacency: str
) -> None:
    d = design(problem, rho=rho, clip_norm=clip_norm, adjacency=adjacency, tolerance=1e-6)
    best = problem.optimal_error(**d.budget)
    assert problem.stationary_error(d.noise, **d.budget) == pytest.approx(best, rel=1e-11)
    assert d.stream is not None
    assert (1 - 1e-11) * best <= problem.stationary_error(d.stream, **d.budget) <= (1 + 1e-5) * best
    assert (d.problem, d.metadata["tolerance"]) == (problem, 1e-6)


def test_strongly_convex_designs_minimise_the_bound_of_the_objective() -> None:
    problem = StronglyConvex(1.0, 10.0, 0.01)
    d = design(problem, rho=0.5, tolerance=1e-4)
    assert d.stream is not None
    bounds = {
        name: strongly_convex_bound(problem, noise, **d.budget, criterion="objective")
        for name, noise in (("design", d.noise), ("poles", d.stream), ("nu", NuFTRL(0.01)), ("independent", DPSGD()))
    }
    assert bounds["design"] < 0.95 * bounds["nu"] < bounds["independent"]
    assert bounds["poles"] == pytest.approx(bounds["design"], rel=1e-2)
    smallest = minimise_strongly_convex_bound(problem, rho=0.5, criterion="objective").bound
    assert bounds["design"] == pytest.approx(smallest, rel=1e-6)


def test_the_horizon_changes_the_multiplier_only() -> None:
    long, short = design(PROBLEM, rho=2.0), design(PROBLEM, rho=2.0, steps=10, metadata={"who": "me"})
    assert (long.noise, long.stream) == (short.noise, short.stream)
    assert short.toeplitz == toeplitz_form(short.noise, 10)
    assert dict(short.metadata) == {"tolerance": 1e-6, "who": "me"}


def test_json_says_everything_in_plain_numbers() -> None:
    d = small()
    described = json.loads(d.json())
    assert described["format"] == "corrnoise.Design 1"
    assert described["privacy"] == {
        "rho": 0.5,
        "clip_norm": 1.0,
        "adjacency": "zero-out",
        "steps": 5,
        "gaussian_noise_multiplier": pytest.approx(1.0, rel=1e-15),
    }
    assert described["noise"] == {"kind": "NuFTRL", "nu": 0.1, "noise_multiplier": d.noise_multiplier}
    assert described["coefficients"] == {"noise_multiplier": d.toeplitz_multiplier}
    assert described["stream"]["zero_gaps"] == [0.1, 0.5]
    assert described["stream"]["noise_multiplier"] == d.stream_multiplier
    assert d.buffers is not None
    assert described["buffers"]["output_scale"] == d.buffers.output_scale.tolist()
    assert described["problem"]["kind"] == "LinearRegression"
    assert described["problem"]["eigenvalues"] == [1.0, 0.3, 0.01]
    assert described["metadata"] == dict(d.metadata)
    assert "sum of the clipped gradients" in described["conventions"]["noise_multiplier"]
    rest = json.loads(small(stream=FiniteNoise([1.0, -0.5]), problem=None, steps=None).json())
    assert rest["stream"]["coefficients"] == [1.0, -0.5]
    assert (rest["problem"], rest["coefficients"], rest["buffers"]) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"noise": "nu"}, TypeError, "noise must be correlated noise"),
        ({"stream": NuFTRL(0.1)}, TypeError, "stream must be PoleNoise, FiniteNoise or None"),
        (
            {"problem": [1.0]},
            TypeError,
            "problem must be one of LinearRegression, MeanEstimation, StronglyConvex or None",
        ),
        ({"rho": 0.0}, ValueError, "rho must lie in"),
        ({"rho": math.nan}, ValueError, "rho must lie in"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1, got 0"),
        ({"clip_norm": math.inf}, ValueError, "clip_norm must lie in"),
        ({"adjacency": "add-remove"}, ValueError, "adjacency must be one of"),
        ({"noise": NuFTRL(0.0), "steps": None}, ValueError, "noise must have a finite sensitivity for steps=None"),
        ({"stream": AntiPGD(0.0)}, TypeError, "stream must be"),
        ({"stream": PoleNoise([0.0], [0.5]), "steps": None}, ValueError, "stream must have a finite sensitivity"),
        ({"metadata": {"a": math.nan}}, ValueError, "metadata must hold finite numbers, got 'a': nan"),
        ({"metadata": {"a": [1]}}, TypeError, "metadata must map strings to strings, numbers and booleans"),
        ({"metadata": {1: "a"}}, TypeError, "metadata must map strings"),
        ({"metadata": "a"}, TypeError, "metadata must be a mapping"),
    ],
)
def test_arguments_are_checked(changes: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        small(**changes)


def test_problems_without_a_stationary_state_are_refused() -> None:
    with pytest.raises(ValueError, match="learning_rate must be stable"):
        design(LinearRegression([1.0, 0.5], 1.9))
    with pytest.raises(ValueError, match="adjacency must be one of"):
        design(PROBLEM, adjacency="substitution")
    with pytest.raises(ValueError, match="tolerance must lie in"):
        design(PROBLEM, tolerance=0.0)


def test_designs_are_frozen() -> None:
    d = small()
    with pytest.raises(dataclasses.FrozenInstanceError):
        d.rho = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        d.metadata["more"] = 1  # type: ignore[index]
    assert Design(ProductNoise([0.1], [0.5]), None, 1.0) != Design(NuFTRL(0.1), None, 1.0)
    assert Design(DPSGD(), None, 1.0).noise_multiplier == pytest.approx(1 / math.sqrt(2))


def test_metadata_may_be_numbers_of_numpy() -> None:
    kept: dict[str, Any] = {"n": np.int64(3), "x": np.float32(0.5), "yes": np.bool_(True)}
    assert design(LinearRegression([1.0, 0.5], 0.1), metadata=kept).metadata == {
        "n": 3,
        "x": 0.5,
        "yes": True,
        "tolerance": 1e-6,
    }
    with pytest.raises(TypeError, match="metadata must be a mapping"):
        design(LinearRegression([1.0, 0.5], 0.1), metadata=3)  # type: ignore[arg-type]
