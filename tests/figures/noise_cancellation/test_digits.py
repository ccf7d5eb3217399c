"""The tables in miniature, at a smaller size: every algorithm is run, and none is at chance level."""

from dataclasses import replace

import numpy as np
import pytest

from corrnoise.figures.noise_cancellation import digits as figure
from corrnoise.simulations import data_sources
from corrnoise.simulations.noise_cancellation.images import digits, mnist
from tests.figure_entries import check_entry


def test_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "RATES", (0.3, 1.0))
    monkeypatch.setattr(figure, "CLIP_NORMS", (3.0,))
    shown = {name: figure.LOOKS[name] for name in ("published", "best share", "noisy SGD", "no privacy")}
    monkeypatch.setattr(figure, "LOOKS", shown)
    images = digits(40)
    few = replace(images, training=[(features[:12], labels[:12]) for features, labels in images.training])
    drawn = figure.data(few, (12.0,), (20,), tuning=(7,), seeds=(0, 1))
    check_entry(figure.FIGURE, drawn)
    assert len(figure.draw(drawn).axes) == 2
    accuracies = {(s.panel, s.method): s.y[0] for s in drawn if s.kind == "mean test accuracy"}
    assert set(accuracies) == {(panel, method) for panel in ("budget", "participation") for method in figure.LOOKS}
    assert min(accuracies.values()) > 0.3
    assert accuracies["budget", "no privacy"] == max(accuracies.values()) < 1.0
    assert "best share" in figure.report(drawn)
    assert "16 of the 16 tuned values are at an end of the grid" in figure.report(drawn)


class Served:
    """A server with ten thousand noisy images of one bright row each, in the shape of MNIST."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 10, 70000).astype(np.uint8)
        self.target = labels.astype(str)
        self.data = np.zeros((70000, 4), dtype=np.uint8)
        self.data[np.arange(70000), labels % 4] = 255
        self.feature_names = ["p"] * 4

    def fetch_openml(self, **options: object) -> "Served":
        assert options["data_id"] == 554
        return self


def test_mnist_is_fetched_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_sources, "scikit_learn", Served)
    images = mnist(100, download=True)
    assert images.examples == 60000
    assert [len(images.validation[1]), len(images.test[1])] == [5000, 5000]
    assert images.test[0].max() == 1.0
    assert images.protocol(participants=50, rho=32.0).rounds == 1200
    assert images.loss.dimension == 50
    with pytest.raises(ValueError, match="download must be True for MNIST"):
        mnist(100)
    original = figure.FIGURE.on_original_data
    assert original is not None
    assert original().name == "noise_cancellation_mnist"
    assert "MNIST" in original().title


def test_an_unreachable_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline:
        @staticmethod
        def fetch_openml(**_: object) -> None:
            raise ConnectionError("no route")

    monkeypatch.setattr(data_sources, "scikit_learn", Offline)
    with pytest.raises(OSError, match=r"mnist_784 could not be fetched from OpenML \(no route\)"):
        mnist(100, download=True)
