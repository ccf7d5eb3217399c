"""Spectra from files: reading, refusals with their place, and columns that are not features."""

from pathlib import Path

import numpy as np
import pytest

from corrnoise.designs.spectra import NOT_COVERED, eigenvalues_from_file, eigenvalues_of_data, read_table

SPECTRUM = [1.0, 0.25, 1 / 3]


def written(path: Path, content: str | bytes | np.ndarray) -> Path:
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "1.0\n0.25\n\n0.3333333333333333\n"),
        ("a.csv", "eigenvalue\n1\n0.25\n0.3333333333333333\n"),
        ("a.csv", "# of the Hessian\n1.0,0.25,0.3333333333333333\n"),
        ("a.txt", "\ufeff1.0 0.25 0.3333333333333333"),
        ("a.txt", "1#largest\n0.25\n0.3333333333333333 # smallest\n"),
        ("a.npy", np.array(SPECTRUM)),
        ("a.npy", np.array([SPECTRUM])),
    ],
)
def test_eigenvalues_are_read(name: str, content: str | np.ndarray, tmp_path: Path) -> None:
    spectrum = eigenvalues_from_file(written(tmp_path / name, content))
    assert spectrum.eigenvalues.tolist() == SPECTRUM
    assert spectrum.notes == ()


@pytest.mark.parametrize("suffix", ["csv", "npy", "txt"])
def test_data_give_the_second_moment_matrix(suffix: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 0.3, 0.1]
    path = tmp_path / f"data.{suffix}"
    if suffix == "npy":
        np.save(path, x)
    else:
        space = "," if suffix == "csv" else " "
        np.savetxt(path, x, fmt="%.17g", delimiter=space, header=space.join("abc"), comments="")
    spectrum = eigenvalues_of_data(path)
    eigenvalues = np.linalg.eigvalsh(x.T @ x / 40)[::-1]
    assert spectrum.eigenvalues == pytest.approx(eigenvalues, rel=1e-12)
    assert spectrum.eigenvalues != pytest.approx(np.linalg.eigvalsh(x.T @ x / 39)[::-1], rel=1e-3)
    assert spectrum.notes == (NOT_COVERED,)


def test_flat_directions_are_left_out_and_named(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((20, 3))
    spectrum = eigenvalues_of_data(written(tmp_path / "a.npy", np.hstack([x, x[:, :1] + x[:, 1:2]])))
    assert spectrum.eigenvalues.size == 3
    assert "1 of 4 eigenvalues are 0 and were left out" in spectrum.notes[1]


# -- columns that are no features --------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [np.arange(1.0, 21), np.arange(20.0), np.arange(1000.0, 1020)])
def test_a_column_that_numbers_the_rows_is_refused(first: np.ndarray, tmp_path: Path) -> None:
    features = np.random.default_rng(0).standard_normal((20, 2))
    table = np.column_stack([first, features])
    with pytest.raises(
        ValueError, match=r"--data must hold features only, got a first column that numbers the rows, \d+,"
    ):
        eigenvalues_of_data(written(tmp_path / "a.npy", table), "--data")
    # Without it, in another order, or elsewhere the column is none of our business.
    expected = eigenvalues_of_data(written(tmp_path / "b.npy", features)).eigenvalues
    assert expected.size == 2
    assert eigenvalues_of_data(written(tmp_path / "c.npy", table[::-1])).eigenvalues.size == 3
    assert eigenvalues_of_data(written(tmp_path / "d.npy", table[:, [1, 2, 0]])).eigenvalues.size == 3
    assert eigenvalues_of_data(written(tmp_path / "e.npy", table[:5])).eigenvalues.size == 3  # too few to tell
    assert eigenvalues_of_data(written(tmp_path / "f.npy", table[:, :1])).eigenvalues.size == 1


def test_a_column_that_rises_is_named(tmp_path: Path) -> None:
    features = np.random.default_rng(0).standard_normal((20, 2))
    times = np.cumsum(np.random.default_rng(1).uniform(0.1, 1.0, 20))
    notes = eigenvalues_of_data(written(tmp_path / "a.npy", np.column_stack([times, features]))).notes
    assert "The first column of the data rises from row to row" in notes[1]
    times[7] = times[6]
    assert len(eigenvalues_of_data(written(tmp_path / "b.npy", np.column_stack([times, features]))).notes) == 1


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "--x must hold numbers, got none in"),
        ("a.txt", "# nothing\n\n", "--x must hold numbers, got none in"),
        ("a.csv", "eigenvalue\n", "--x must hold numbers, got none in"),
        ("a.txt", "1.O\n0.5\n", "--x must hold a table of numbers, got '1.O' in row 1, column 1 of"),
        ("a.txt", "# note\n1\n\ntwo\n", "--x must hold a table of numbers, got 'two' in row 4, column 1 of"),
        ("a.csv", "a,b\n1,2\n3,x\n", "--x must hold a table of numbers, got 'x' in row 3, column 2 of"),
        ("a.csv", "1,2\n3,\n", "--x must hold a table of numbers, got '' in row 2, column 2 of"),
        ("a.csv", "1,2\n3\n", "--x must hold a table, got 1 columns in row 2 of"),
        ("a.csv", "a,b\nc,d\n1,2\n", "--x must hold a table of numbers, got 'c' in row 2, column 1 of"),
        ("a.csv", "1;2\n3;4\n", "--x must hold a table of numbers, got '1;2' in row 1, column 1 of"),
        ("a.csv", "[[1, 2], [3, 4]]", "--x must be text or CSV with one row a line, or .npy, got JSON in"),
        ("a.json", "1", "--x must be text or CSV with one row a line, or .npy, got JSON in"),
        ("a.txt", ' {"eigenvalues": [1]}', "--x must be text or CSV with one row a line, or .npy, got JSON in"),
        ("a.txt", b"\xff\xfe\x00", "--x must be text in UTF-8, or a file of numpy.save called *.npy, got"),
        ("a.npy", "not numpy", "--x must be a file of numpy.save if it is called *.npy"),
        ("a.npy", "", "--x must be a file of numpy.save if it is called *.npy"),
        ("a.npy", np.ones((2, 2, 2)), "--x must hold a table of real numbers, got shape (2, 2, 2)"),
        ("a.npy", np.array([["a"]]), "--x must be a file of numpy.save if it is called *.npy"),
        ("a.npy", np.ones((0, 3)), "--x must hold a table of real numbers, got shape (0, 3)"),
    ],
)
def test_bad_tables_are_refused_with_their_place(
    name: str, content: str | bytes | np.ndarray, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError) as refusal:
        read_table(written(tmp_path / name, content), "--x")
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nan\n0.5\n", r"--x must lie in \(0, 1e300\], got nan"),
        ("1\n-1\n", r"--x must lie in \(0, 1e300\], got -1.0"),
        ("1\n0\n", r"--x must lie in \(0, 1e300\], got 0.0"),
        ("1,2\n3,4\n", r"--x must hold one number a line, got shape \(2, 2\)"),
    ],
)
def test_numbers_that_are_no_eigenvalues_are_refused(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        eigenvalues_from_file(written(tmp_path / "a.csv", content), "--x")


@pytest.mark.parametrize(
    ("content", "message"),
    [("1,2\n3,inf\n", r"--x must lie in \[-1e100, 1e100\], got inf"), ("0,0\n0,0\n", "--x must not be 0 everywhere")],
)
def test_data_that_are_no_features_are_refused(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        eigenvalues_of_data(written(tmp_path / "a.csv", content), "--x")


def test_missing_files_are_named(tmp_path: Path) -> None:
    for name in ("absent.txt", "absent.npy"):
        with pytest.raises(FileNotFoundError, match=name):
            read_table(tmp_path / name)
