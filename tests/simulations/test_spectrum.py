"""Spectra by random probes, against dense matrices; the confidence of the intervals is counted."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import corrnoise as cn
from corrnoise.simulations.spectrum import HessianSpectrum, hessian_spectrum, spectrum_of


def diagonal(values: np.ndarray) -> Any:
    return lambda vector: values * vector


@given(st.integers(0, 2**32 - 1), st.integers(3, 30), st.integers(2, 12))
def test_weights_of_eigenvalues_lie_between_the_shares(seed: int, size: int, steps: int) -> None:
    """The inequality of Chebyshev, Markov and Stieltjes."""
    values = np.sort(np.random.default_rng(seed).normal(size=size))
    found = spectrum_of(diagonal(values), size, probes=1, steps=steps, rng=seed)
    squares = np.random.default_rng(seed).standard_normal(size) ** 2
    nodes, weights = found.nodes[0], found.weights[0]
    assert weights.sum() == pytest.approx(squares.sum())
    for x in np.linspace(values[0] - 1, values[-1] + 1, 50):
        true = squares[values <= x].sum()
        assert weights[np.append(nodes[1:], np.inf) <= x].sum() <= true + 1e-9
        assert weights[np.append(-np.inf, nodes[:-1]) < x].sum() >= true - 1e-9


def hits(shift: int) -> int:
    """How many of 1000 intervals of 90 % hold the quantile; their ends count weights from a neighbour's node on."""
    values = np.concatenate([np.linspace(-0.1, 0.3, 50), np.geomspace(0.5, 40, 14)])
    first, found = HessianSpectrum._first, 0
    for seed in range(200):
        probes = spectrum_of(diagonal(values), values.size, probes=8, steps=8, rng=seed)
        for level in (0.1, 0.3, 0.5, 0.7, 0.9):
            with mock.patch.object(
                HessianSpectrum, "_first", lambda self, shares, side: first(self, shares, shift * side)
            ):
                _, low, high = probes.quantiles([level], confidence=0.9)
            found += int(low[0] <= np.quantile(values, level, method="inverted_cdf") <= high[0])
    return found


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say() -> None:
    """With a false-alarm rate of 1e-6; the mutant takes the quadrature for the weights."""
    least = binom.ppf(1e-6, 1000, 0.9)
    assert hits(1) >= least
    assert hits(0) < least


@pytest.mark.parametrize("values", [np.zeros(5), np.ones(7), np.array([3.0]), np.array([-2.0, 5.0])])
def test_degenerate_matrices(values: np.ndarray) -> None:
    found = spectrum_of(diagonal(values), values.size, probes=3, steps=10, rng=0)
    assert found.largest == pytest.approx(values.max(), abs=1e-12)
    estimate, low, high = found.quantiles([0.25, 0.75])
    assert (low <= estimate).all()
    assert (estimate <= high).all()


def test_eigenvalues_stand_for_the_spectrum() -> None:
    values = np.geomspace(1e-3, 10, 500)
    found = spectrum_of(diagonal(values), 500, probes=10, steps=100, rng=0).eigenvalues()
    assert found.shape == (500,)
    assert found[-1] == pytest.approx(10, rel=1e-6)
    assert np.abs(np.log(found / values)).mean() < 0.2
    few = spectrum_of(diagonal(values), 500, rng=0).eigenvalues(16)
    assert cn.LinearRegression(few, 0.05).eigenvalues.shape == (16,)


def test_negative_eigenvalues_become_slow_directions() -> None:
    found = spectrum_of(diagonal(np.array([-1.0, 0.0, 2.0, 3.0])), 4, probes=50, rng=0).eigenvalues()
    assert found.min() == pytest.approx(3e-9)
    with pytest.raises(ValueError, match="must have a positive eigenvalue"):
        spectrum_of(diagonal(-np.ones(3)), 3, rng=0).eigenvalues()


def network() -> tuple[Any, Any, tuple[Any, Any]]:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()
    data = torch.randn(20, 4).double(), torch.randint(2, (20,))
    return model, torch.nn.functional.cross_entropy, data


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own
@pytest.mark.parametrize("chunk_size", [None, 7])
def test_the_hessian_of_a_module(chunk_size: int | None) -> None:
    model, loss, data = network()
    torch = pytest.importorskip("torch")
    names = [name for name, _ in model.named_parameters()]

    def mean(*parameters: Any) -> Any:
        output = torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), data[0])
        return loss(output, data[1])

    blocks = torch.autograd.functional.hessian(mean, tuple(model.parameters()))
    sizes = [each.numel() for each in model.parameters()]
    dense = torch.cat(
        [torch.cat([blocks[i][j].reshape(sizes[i], -1) for j in range(len(sizes))], 1) for i in range(len(sizes))]
    )
    true = np.linalg.eigvalsh(dense.numpy())
    found = hessian_spectrum(model, loss, data, public=True, probes=4, steps=60, chunk_size=chunk_size, rng=0)
    assert found.size == true.size
    assert found.largest == pytest.approx(true[-1], rel=1e-9)
    for number in found.nodes[0][np.isfinite(found.nodes[0])]:
        assert np.abs(true - number).min() < 1e-6


def test_the_hessian_of_a_function_of_jax() -> None:
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(30, 5)).astype(np.float32)
    parameters = {"weights": np.ones(5, np.float32), "bias": np.float32(0)}

    def loss(at: Any, x: Any, y: Any) -> Any:
        return 0.5 * (x @ at["weights"] + at["bias"] - y) ** 2

    found = hessian_spectrum(parameters, loss, (inputs, np.zeros(30, np.float32)), public=True, rng=0)
    rows = np.column_stack([np.ones(30), inputs])
    true = np.linalg.eigvalsh(rows.T @ rows / 30)
    assert jax.tree.leaves(parameters)[0].size + 5 == found.size
    np.testing.assert_allclose(found.nodes[0], true, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"public": False}, "public must be True"),
        ({"public": 1}, "public must be True"),
        ({"data": ()}, "data must be a tuple"),
        ({"data": (np.zeros((3, 2)), np.zeros(4))}, "same number of examples"),
        ({"chunk_size": 0}, "chunk_size"),
        ({"probes": 0}, "probes"),
        ({"steps": 1}, "steps"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    model, loss, data = network()
    settings: dict[str, Any] = {"data": data, "public": True, "rng": 0} | change
    with pytest.raises(ValueError, match=message):
        hessian_spectrum(model, loss, settings.pop("data"), **settings)


def test_products_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="product must return 3 finite numbers"):
        spectrum_of(lambda vector: vector * np.nan, 3)
