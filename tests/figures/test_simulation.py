"""How figures are simulated: settings, seeds, kept results, and the false-alarm rate of judgements."""

from pathlib import Path
from typing import Any, NoReturn

import mpmath
import numpy as np
import pytest

from corrnoise.figures import simulation
from corrnoise.figures.publication import SimulatedSeries
from corrnoise.figures.simulation import FALSE_ALARM, SimulationRun, agreement, counted, kept, largest_allowed_z
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.problems.quadratic import LinearRegression


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"effort": 0.0}, r"effort must lie in \(0, inf\), got 0.0"),
        ({"repeats": 0}, "repeats must be an integer >= 1, got 0"),
        ({"jobs": 0}, "jobs must be an integer >= 1, got 0"),
    ],
)
def test_other_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimulationRun(**settings)


def test_the_thorough_run_has_ten_seeds_and_more_steps() -> None:
    run = SimulationRun(jobs=-1, **simulation.THOROUGH)
    assert run.repeats == 10
    assert run.effort > SimulationRun().effort


def test_seeds_are_distinct_and_a_longer_list_goes_on() -> None:
    seeds = SimulationRun(seed=3).seeds(50)
    assert len(set(seeds)) == 50
    assert SimulationRun(seed=3).seeds(7) == seeds[:7]
    assert not set(seeds) & set(SimulationRun(seed=4).seeds(50))


@pytest.mark.parametrize(("markers", "freedom"), [(1, np.inf), (64, np.inf), (80, 31)])
def test_allowed_z_leaves_the_false_alarm_rate(markers: int, freedom: float) -> None:
    z = largest_allowed_z(markers, freedom)
    with mpmath.workdps(20):
        if np.isinf(freedom):
            tail = mpmath.erfc(z / mpmath.sqrt(2))
        else:
            tail = mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + mpmath.mpf(z) ** 2), regularized=True)
        assert float(tail * markers) == pytest.approx(FALSE_ALARM, rel=1e-9)


def test_agreement_names_the_largest_z() -> None:
    y, error, exact = np.array([1.0, 2.0]), np.array([0.1, 0.2]), np.array([1.05, 2.5])
    sentence = agreement((SimulatedSeries("p", "m", "plain", y, y, error, exact),))
    assert sentence.startswith(
        "2 simulated markers: the largest |z| is 2.50 (if all agree, above 2.81 with probability 0.01"
    )


SETTINGS = [LinearRegression([1.0, 0.1], 0.5), NuFTRL(0.1), 7, ["a", 0.1]]


def values() -> np.ndarray:
    return np.array([1 / 3, np.pi, 1e-300])


def fail() -> NoReturn:
    raise AssertionError("computed again")


def test_what_is_kept_is_not_computed_again(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on the way"
    assert (kept(folder, SETTINGS, values) == values()).all()
    assert (kept(folder, SETTINGS, fail) == values()).all()
    assert len(list(folder.iterdir())) == 1
    assert (kept(None, SETTINGS, values) == values()).all()


@pytest.mark.parametrize(
    "changed",
    [
        [LinearRegression([1.0, 0.1], 0.5, kurtosis=1.8), *SETTINGS[1:]],
        [LinearRegression([1.0, 0.1 + 1e-16], 0.5), *SETTINGS[1:]],
        [SETTINGS[0], NuFTRL(0.2), *SETTINGS[2:]],
        [*SETTINGS[:2], 8, SETTINGS[3]],
        [*SETTINGS[:3], ["a", 0.2]],
    ],
)
def test_other_settings_are_computed_anew(changed: list[Any], tmp_path: Path) -> None:
    kept(tmp_path, SETTINGS, values)
    with pytest.raises(AssertionError, match="computed again"):
        kept(tmp_path, changed, fail)
    assert len(list(tmp_path.iterdir())) == 1


def test_another_version_computes_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path, SETTINGS, values)
    monkeypatch.setattr(simulation, "__version__", "another")
    with pytest.raises(AssertionError, match="computed again"):
        kept(tmp_path, SETTINGS, fail)


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    kept(tmp_path, SETTINGS, values)
    (path,) = tmp_path.iterdir()
    whole = path.read_text()
    for damaged in (whole[: len(whole) // 2], "", whole.replace("1e-300", "2e-300"), "[1, 2]"):
        path.write_text(damaged)
        assert (kept(tmp_path, SETTINGS, values) == values()).all()
        assert path.read_text() == whole


def test_numbers_that_are_not_finite_are_kept(tmp_path: Path) -> None:
    odd = np.array([np.nan, np.inf, -np.inf, -0.0])
    kept(tmp_path, SETTINGS, lambda: odd)
    assert kept(tmp_path, SETTINGS, fail).tobytes() == odd.tobytes()


def test_what_cannot_be_described_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="value must be made of numbers, strings, arrays and records"):
        kept(tmp_path, [object()], values)


@pytest.mark.parametrize("progress", [True, False])
def test_results_are_counted(progress: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(counted(iter("ab"), 2, progress)) == ["a", "b"]
    assert capsys.readouterr().err.endswith(" 2/2 points\r\x1b[K" if progress else "")
