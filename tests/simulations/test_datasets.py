"""Data sets: bundled ones, fetching on request only, and which rows and columns are left out."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations import datasets
from corrnoise.simulations.datasets import DATA_SETS, load, standardised


class Fetched:
    """A server that has one small table: a gap in a column that is left out, and one in a column that is not."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def fetch_openml(self, **options: Any) -> SimpleNamespace:
        self.asked.append(options)
        data = np.array([[1, np.nan, 2], [3, 4, np.nan], [5, 6, 7]])
        return SimpleNamespace(data=data, target=np.array(["a", "b", "c"]), feature_names=["x", "Community", "y"])


@pytest.mark.parametrize(
    ("name", "shape"), [("digits", (1797, 64)), ("breast cancer", (569, 30)), ("diabetes", (442, 10))]
)
def test_bundled_data_sets_are_read_without_leave(name, shape):
    pytest.importorskip("sklearn")
    table = load(name)
    assert table.features.shape == shape
    assert (len(table.targets), len(table.columns)) == shape


def test_every_stand_in_is_bundled():
    for entry in DATA_SETS.values():
        assert entry.downloaded == entry.source.startswith("OpenML")
        if entry.stand_in:
            assert entry.downloaded
            assert not DATA_SETS[entry.stand_in].downloaded


def test_nothing_is_fetched_without_leave(monkeypatch):
    server = Fetched()
    monkeypatch.setattr(datasets, "scikit_learn", lambda: server)
    for name, entry in DATA_SETS.items():
        if entry.downloaded:
            with pytest.raises(ValueError, match=f"download must be True for '{name}', which is fetched from OpenML"):
                load(name)
    with pytest.raises(ValueError, match="name must be one of 'digits'"):
        load("iris", download=True)
    assert not server.asked


def test_columns_that_are_not_wanted_go_first_and_then_rows_with_gaps(monkeypatch):
    server = Fetched()
    monkeypatch.setattr(datasets, "scikit_learn", lambda: server)
    features, targets, columns = load("Crime", download=True, cache="here")
    assert (features.tolist(), targets.tolist(), columns) == ([[1.0, 2.0], [5.0, 7.0]], ["a", "c"], ["x", "y"])
    assert (server.asked[0]["data_id"], server.asked[0]["data_home"]) == (42730, "here")
    features, targets, columns = load("COMPAS", download=True)
    assert (features.tolist(), targets.tolist(), columns) == ([[5.0, 6.0, 7.0]], ["c"], ["x", "Community", "y"])


def test_an_unreachable_server_is_reported_with_the_stand_in(monkeypatch):
    class Offline:
        @staticmethod
        def fetch_openml(**_: object) -> None:
            raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "scikit_learn", lambda: Offline)
    with pytest.raises(
        OSError, match=r"MNIST could not be fetched from OpenML \(no route\); its bundled stand-in is 'digi"
    ):
        load("MNIST", download=True)
    with pytest.raises(OSError, match=r"CIFAR-10 could not be fetched from OpenML \(no route\)$"):
        load("CIFAR-10", download=True)


@pytest.mark.parametrize("name", ["digits", "MNIST"])
def test_data_need_their_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"pip install 'corrnoise\[data\]'"):
        load(name, download=True)


def test_standardised_columns():
    columns = standardised(np.array([[1.0, 7.0], [3.0, 7.0]]))
    assert columns.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
