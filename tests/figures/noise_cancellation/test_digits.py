"""The tables in miniature, at a smaller size: every algorithm is run, and none is at chance level."""

from dataclasses import replace

import numpy as np
import pytest

from corrnoise.figures.noise_cancellation import digits as figure
from corrnoise.simulations.datasets import Table
from corrnoise.simulations.federation import images
from corrnoise.simulations.federation.images import dealt_images
from tests.figure_entries import check_entry


@pytest.mark.slow
def test_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "RATES", (0.3, 1.0))
    monkeypatch.setattr(figure, "CLIP_NORMS", (3.0,))
    shown = {name: figure.LOOKS[name] for name in ("published", "best share", "central", "noisy SGD", "no privacy")}
    monkeypatch.setattr(figure, "LOOKS", shown)
    whole = [dealt_images("digits", 40, split=split) for split in (0, 1)]
    few = [replace(each, training=[(a[:12], y[:12]) for a, y in each.training]) for each in whole]
    drawn = figure.data(few, (12.0,), (20,), seeds=1)
    check_entry(figure.FIGURE, drawn)
    assert len(figure.draw(drawn).axes) == 2
    accuracies = {(s.panel, s.method): s.y[0] for s in drawn if s.kind == "mean test accuracy"}
    assert set(accuracies) == {(panel, method) for panel in ("budget", "participation") for method in figure.LOOKS}
    assert min(accuracies.values()) > 0.3
    assert accuracies["budget", "no privacy"] == max(accuracies.values()) < 1.0
    assert "best share" in figure.report(drawn)
    assert "20 of the 20 tuned values are at an end of the grid" in figure.report(drawn)


def test_mnist_is_dealt_in_its_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.random.default_rng(0).integers(0, 10, 70000).astype(np.uint8)
    served = np.zeros((70000, 4))
    served[np.arange(70000), labels % 4] = 255

    def load(name: str, *, download: bool) -> Table:
        assert (name, download) == ("MNIST", True)
        return Table(served, labels.astype(str), ["p"] * 4)

    monkeypatch.setattr(images, "load", load)
    found = dealt_images("mnist", 100, download=True)
    assert sum(len(y) for _, y in found.training) == 60000
    assert [len(found.validation[1]), len(found.test[1])] == [5000, 5000]
    assert found.test[0].max() == 1.0
    assert (found.test[1] == labels[65000:]).all()
    assert figure.plan_of(found, "no privacy", 8.0, 50).rounds == 1200
    assert found.loss.dimension == 50
    original = figure.FIGURE.on_original_data
    assert original is not None
    assert original().name == "noise_cancellation_mnist"
    assert "MNIST" in original().title
    with pytest.raises(ValueError, match="name must be one of 'digits', 'mnist', got 'MNIST'"):
        dealt_images("MNIST", 100)


def test_a_split_deals_out_other_images_and_keeps_those_to_test_on() -> None:
    first, second = (dealt_images("digits", 100, split=split) for split in (0, 1))
    assert np.array_equal(first.test[0], second.test[0])
    assert not np.array_equal(first.validation[0], second.validation[0])
    one, other = (np.vstack([*(a for a, _ in each.training), each.validation[0]]) for each in (first, second))
    assert np.array_equal(one[np.lexsort(one.T)], other[np.lexsort(other.T)])  # the same images in another order
