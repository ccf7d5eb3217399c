"""The paper's experiment with tiny stand-ins for its images: the network, the data, and each way of training."""

from __future__ import annotations

import numpy as np
import pytest

from corrnoise.simulations.private_training import cifar
from corrnoise.simulations.private_training.cifar import Images, cifar_10, paper_network, scores
from corrnoise.simulations.private_training.comparison import (
    CIFAR_10,
    PUBLIC,
    SAMPLED,
    STREAMED,
    Experiment,
    Run,
)
from corrnoise.simulations.private_training.comparison import (
    scores as small,
)
from corrnoise.theory.participation import Participation


def test_images_are_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.arange(2 * 3072, dtype=float).reshape(2, -1) % 256
    monkeypatch.setattr(cifar, "load", lambda *_, **__: (pixels, np.array(["3", "9"]), []))
    found = cifar_10()
    assert found.inputs.shape == (2, 3, 32, 32)
    assert (found.inputs.min(), found.inputs.max()) == (-1, 1)
    assert found.inputs[0, 1, 0, 0] == pytest.approx(1024 % 256 / 127.5 - 1)
    assert found.classes.tolist() == [3, 9]


def test_the_settings_are_those_of_the_paper() -> None:
    assert CIFAR_10.participation == Participation.fixed_epochs(2000, epochs=20)
    assert CIFAR_10.participation.period == 100
    assert CIFAR_10.task == "classification"
    with pytest.raises(ValueError, match="experiment must have a small network"):
        small(CIFAR_10, [], (0,))


@pytest.mark.slow
def test_the_network_and_every_method_run(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    assert sum(parameter.numel() for parameter in paper_network(0).parameters()) == 550_570
    first, second, third = (paper_network(seed, side=8).state_dict()["0.weight"] for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert float(first.std()) == pytest.approx(27**-0.5, rel=0.1)

    rng = np.random.default_rng(0)
    classes = rng.integers(2, size=30)
    inputs = (rng.normal(0, 0.1, size=(30, 3, 8, 8)) + classes[:, None, None, None] - 0.5).astype(np.float32)
    tiny = Experiment("CIFAR-10", None, 20, 5, 2)
    methods = [method for method in STREAMED if method != SAMPLED]
    runs = [Run(method, 1e6, 0.05, 0.9) for method in methods]
    found = scores(tiny, runs, (1,), images=lambda: Images(inputs, classes), device="cpu")
    assert found.shape == (len(runs),)
    assert ((found >= 0) & (found <= 1)).all()
    assert found[methods.index(PUBLIC)] == 1.0
    sampled = [Run(SAMPLED, 100.0, 0.05, 0.9)]
    assert np.isfinite(scores(tiny, sampled, (1,), images=lambda: Images(inputs, classes), device="cpu")).all()
