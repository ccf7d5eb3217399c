"""Networks in numpy: gradients against differences, clipping example by example, noise where it belongs."""

import math

import numpy as np
import pytest

from corrnoise.simulations.private_training.networks import Network, Runs, trained

RNG = np.random.default_rng(1)


def some(network, examples=5, runs=2):
    inputs = RNG.standard_normal((examples, network.sizes[0])).astype(np.float32)
    targets = np.eye(network.sizes[-1], dtype=np.float32)[RNG.integers(network.sizes[-1], size=examples)]
    parameters = np.stack([network.initial(RNG) for _ in range(runs)])
    return parameters, inputs, targets


def loss(network, parameters, inputs, targets):
    """In float64, shape (examples,)."""
    a = inputs.astype(float)
    start = 0
    for k, (m, n) in enumerate(zip(network.sizes, network.sizes[1:], strict=False)):
        layer = parameters[start : start + (m + 1) * n].reshape(m + 1, n)
        start += (m + 1) * n
        a = a @ layer[:-1] + layer[-1]
        if k < len(network.sizes) - 2:
            a = np.tanh(a)
    if network.task == "regression":
        return np.square(a - targets).sum(axis=1) / 2
    return np.log(np.exp(a).sum(axis=1)) - (a * targets).sum(axis=1)


def gradients(network, parameters, inputs, targets, step=1e-5):
    """One row for each example, by central differences."""
    columns = []
    for j in range(parameters.size):
        h = np.zeros(parameters.size)
        h[j] = step
        ends = [loss(network, parameters.astype(float) + sign * h, inputs, targets) for sign in (1, -1)]
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.array(columns).T


NETWORKS = [
    Network((3, 4)),
    Network((3, 5, 2)),
    Network((2, 4, 3, 2)),
    Network((3, 2), "regression"),
    Network((3, 4, 1), "regression"),
]


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, math.inf])
def test_clipped_sums_against_differences(network, clip_norm):
    parameters, inputs, targets = some(network)
    found = network.clipped_sum(parameters, inputs, targets, clip_norm)
    assert found.shape == parameters.shape == (2, network.parameters)
    for own, total in zip(parameters, found, strict=True):
        each = gradients(network, own, inputs, targets)
        norms = np.linalg.norm(each, axis=1, keepdims=True)
        assert total == pytest.approx((each * np.minimum(1, clip_norm / norms)).sum(axis=0), abs=3e-5)
        if clip_norm == 0.3:  # the mutant: clipping the sum
            mean = each.sum(axis=0)
            assert not np.allclose(total, mean * min(1, clip_norm / np.linalg.norm(mean)), atol=1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e30])
def test_no_example_exceeds_the_clip_norm(scale):
    network = Network((3, 5, 2), "regression")
    parameters, inputs, targets = some(network)
    for example in range(5):
        one = slice(example, example + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            total = network.clipped_sum(parameters, np.float32(scale) * inputs[one], targets[one], 0.7)
        assert np.isfinite(total).all()
        assert (np.linalg.norm(total.astype(float), axis=1) <= 0.7).all()


def test_an_example_that_is_not_finite_counts_as_nothing():
    network = Network((3, 2))
    parameters, inputs, targets = some(network)
    without = network.clipped_sum(parameters, inputs[1:], targets[1:], 1.0)
    inputs[0, 1] = math.nan
    with np.errstate(invalid="ignore"):
        assert network.clipped_sum(parameters, inputs, targets, 1.0) == pytest.approx(without, abs=1e-6)


def test_a_run_is_momentum_with_noise_on_the_sum():
    """Against a loop over runs, in float64 between the steps."""
    network = Network((3, 2))
    _, inputs, targets = some(network)
    start = network.initial(RNG)
    noise = RNG.standard_normal((2, 4, start.size)).astype(np.float32)
    batches = [np.array(batch) for batch in ([0, 1], [2, 3, 4], [], [1, 1])]
    settings = {
        "kinds": np.array([0, 1, 1]),
        "scales": np.array([0.0, 0.5, 2.0]),
        "learning_rates": np.array([0.1, 0.2, 0.3]),
        "momenta": np.array([0.0, 0.9, 0.5]),
    }
    schedule = np.array([1.0, 1.0, 0.5, 0.1])
    batches[2] = batches[2].astype(int)
    found = trained(
        network,
        inputs,
        targets,
        batches,
        Runs(**settings),
        start=start,
        noise=noise,
        schedule=schedule,
        batch_size=2,
        clip_norm=0.5,
    )
    for r in range(3):
        kind, scale, rate, momentum = (settings[name][r] for name in settings)
        theta = start.astype(float)
        velocity = np.zeros_like(theta)
        for t, batch in enumerate(batches):
            total = network.clipped_sum(theta.astype(np.float32)[np.newaxis], inputs[batch], targets[batch], 0.5)[0]
            velocity = momentum * velocity + total + scale * noise[kind, t]
            theta -= rate * schedule[t] / 2 * velocity
        assert found[r] == pytest.approx(theta, abs=1e-5)


def test_scores():
    network = Network((1, 2))
    inputs = np.array([[1.0], [-1.0], [2.0]], dtype=np.float32)
    targets = np.eye(2, dtype=np.float32)[[0, 1, 1]]
    right = np.array([[1.0, -1.0, 0.0, 0.0]], dtype=np.float32)
    assert network.score(right, inputs, targets) == pytest.approx([2 / 3])
    line = Network((1, 1), "regression")
    y = np.array([[2.0], [-2.0], [4.0]], dtype=np.float32)
    parameters = np.array([[2.0, 0.0], [0.0, 4 / 3], [math.inf, 0.0]], dtype=np.float32)
    assert line.score(parameters, inputs, y) == pytest.approx([1.0, 0.0, -1.0], abs=1e-6)  # exact, the mean, diverged


def test_bad_arguments():
    with pytest.raises(ValueError, match="sizes must have inputs and outputs"):
        Network((3,))
    with pytest.raises(ValueError, match="sizes must be an integer >= 1"):
        Network((3, 0))
    with pytest.raises(ValueError, match="task must be one of"):
        Network((3, 2), "ranking")
