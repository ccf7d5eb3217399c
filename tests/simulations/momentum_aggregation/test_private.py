"""Private runs: the noise that covers what runs, baselines, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.momentum_aggregation import baselines, private
from corrnoise.simulations.momentum_aggregation.baselines import (
    poisson_noise_multiplier,
    private_gradient_descent,
    private_sgd,
)
from corrnoise.simulations.momentum_aggregation.descent import ReducedMomentum, momentum_step
from corrnoise.simulations.momentum_aggregation.private import (
    private_momentum,
    private_reduced_momentum,
    published_momentum,
    published_reduced_momentum,
)
from corrnoise.theory.losses import EmpiricalRisk, MarginLoss, TwoLayerNetwork
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.momentum_aggregation.calibration import node_std, published_node_std, reduced_noise
from corrnoise.theory.momentum_aggregation.orders import order_sensitivity

N = 16
RUN: dict[str, Any] = {"steps": 4 * N, "alpha": 1 / N, "learning_rate": 0.05, "order": "fixed", "rng": 1}
PRIVATE: dict[str, Any] = RUN | {"rho": 0.5, "adjacency": "replace-one"}


def risk(link: Any = "sigmoid", norm: float = 1.0, count: int = N) -> EmpiricalRisk:
    rows = np.random.default_rng(7).standard_normal((count, 3)) + 0.5
    rows *= norm / np.linalg.norm(rows, axis=1, keepdims=True)
    return EmpiricalRisk(MarginLoss(link, 3, norm), rows, 0.02)


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the loops are given."""
    seen: list[dict[str, Any]] = []

    def spied(function):
        def spy(*positional: Any, **named: Any) -> Any:
            seen.append(named)
            return function(*positional, **named)

        return spy

    monkeypatch.setattr(private, "momentum_step", spied(momentum_step))
    monkeypatch.setattr(private, "ReducedMomentum", spied(ReducedMomentum))
    return seen


@pytest.mark.parametrize("order", ["fixed", "reshuffled"])
@pytest.mark.parametrize(("clip", "bound"), [(None, 0.25), (0.1, 0.1), (3.0, 0.25)])
def test_tree_noise_is_that_of_the_run(loops, order, clip, bound):
    change = {"order": order, "steps": 55, "alpha": 0.03, "rho": [0.2, 0.5], "clip_norm": clip}
    private_momentum(risk(), **PRIVATE | change)
    expected = [
        node_std(steps=55, examples=N, alpha=0.03, lipschitz=bound, rho=rho, order=order, adjacency="replace-one")
        for rho in (0.2, 0.5)
    ]
    assert loops[0]["scales"].ravel().tolist() == expected
    assert loops[0]["clip_norm"] == (0.1 if clip == 0.1 else math.inf)


@pytest.mark.parametrize("order", ["fixed", "reshuffled"])
@pytest.mark.parametrize(("adjacency", "factor"), [("zero-out", 1), ("replace-one", 2)])
def test_other_noise_has_its_own_sensitivity(loops, order, adjacency, factor):
    private_momentum(risk(), **PRIVATE | {"order": order, "adjacency": adjacency, "noise": NuFTRL(1 / N)})
    sensitivity = order_sensitivity(NuFTRL(1 / N), N, order)
    assert loops[0]["scales"].item() == pytest.approx(factor * sensitivity * 0.25, rel=1e-12)
    assert loops[0]["scales"].item() >= factor * sensitivity * 0.25


def test_every_kind_of_noise_runs():
    noises = ["tree", DPSGD(), NuFTRL(0.0), NuFTRL(0.1), BinaryTree(4 * N)]
    found = [private_momentum(risk(), **PRIVATE | {"noise": noise}).points[-1] for noise in noises]
    assert len({tuple(points.ravel()) for points in found}) == len(noises)
    assert all(np.isfinite(points).all() for points in found)


def test_the_published_noise_and_its_refusals(loops):
    published = RUN | {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one"}
    published_momentum(risk(), **published)
    std = published_node_std(steps=4 * N, examples=N, alpha=1 / N, lipschitz=0.25, epsilon=1.0, delta=1e-5)
    assert loops[0]["scales"].item() == std
    published_momentum(risk(), **published | {"adjacency": "zero-out"})
    assert loops[1]["scales"].item() == std / 2
    for change, message in (
        ({"steps": 4 * N + 1}, "steps must be a multiple of examples=16"),
        ({"alpha": 0.9 / N}, r"alpha must lie in \[1/examples, 1\]"),
        ({"epsilon": 10.0, "delta": 0.5}, r"delta must lie in \(0, exp\(-epsilon\)\]"),
        ({"height": 6}, "height must be at least"),
    ):
        with pytest.raises(ValueError, match=message):
            published_momentum(risk(), **published | change)


def test_the_published_noise_of_algorithm_2(loops):
    change = {"gamma": [0.2, 1.0], "epsilon": 1.0, "delta": 1e-5, "adjacency": "zero-out", "learning_rate": 0.01}
    found = published_reduced_momentum(risk(), **RUN | change)
    assert found.points.shape == (33, 2, 1, 3)
    noise = loops[0]["noise"]
    sigma = 4 * math.sqrt(math.log(1e5))
    assert noise.scales[0].ravel()[0] == pytest.approx(2 * 0.25 * sigma * math.sqrt(3 * 4), rel=1e-12)
    assert noise.late.ravel()[0] == pytest.approx(2 * 0.25 * sigma * math.sqrt(4 * 4 * 4), rel=1e-12)
    smoothness = 1 / (6 * math.sqrt(3))
    for tree in (1, 2):
        assert noise.scales[tree].ravel()[0] == pytest.approx(0.01 * N * smoothness * sigma * 8, rel=1e-12)
    with pytest.raises(ValueError, match="steps must be a multiple of examples=16"):
        published_reduced_momentum(risk(), **RUN | change | {"steps": 4 * N + 1})


def test_reduced_noise_is_that_of_the_run(loops):
    private_reduced_momentum(risk(), **PRIVATE | {"gamma": [0.2, 0.6], "learning_rate": [0.01, 0.03]})
    for k, (gamma, rate) in enumerate([(0.2, 0.01), (0.6, 0.03)]):
        expected = reduced_noise(
            steps=4 * N,
            examples=N,
            alpha=1 / N,
            gamma=gamma,
            learning_rate=rate,
            lipschitz=0.25,
            smoothness=1 / (6 * math.sqrt(3)),
            rho=0.5,
            order="fixed",
            adjacency="replace-one",
        )
        for scales, name in zip(loops[0]["noise"].scales, ("gradients", "combined", "remainders"), strict=True):
            assert scales.ravel()[k] == getattr(expected, name)


def test_a_run_of_less_than_two_epochs_has_no_combined_tree():
    found = private_reduced_momentum(risk(), **PRIVATE | {"gamma": 0.5, "steps": N + 3})
    assert np.isfinite(found.points).all()


def test_settings_are_broadcast_and_repetitions_are_paired():
    change = {"learning_rate": np.array([[0.02], [0.05]]), "rho": [0.1, 1.0, 10.0], "repetitions": 4}
    together = private_momentum(risk(), **PRIVATE | change)
    assert together.points.shape == (33, 2, 3, 4, 3)
    assert together.gradient_norms(risk()).shape == (33, 2, 3, 4)
    alone = private_momentum(risk(), **PRIVATE | {"learning_rate": 0.05, "rho": 10.0, "repetitions": 4})
    np.testing.assert_allclose(together.points[:, 1, 2], alone.points, atol=1e-12)
    assert len({tuple(point) for point in alone.points[-1]}) == 4


def test_more_budget_and_no_noise_at_all_find_smaller_gradients():
    change = {"rho": [1e-3, 1e3], "steps": 20 * N, "repetitions": 8, "learning_rate": 0.02}
    norms = private_momentum(risk(), **PRIVATE | change).gradient_norms(risk())[-1].mean(axis=-1)
    assert norms[1] < norms[0] / 2
    exact = private_momentum(risk(), **PRIVATE | change | {"rho": None}).gradient_norms(risk())[-1].mean(axis=-1)
    assert exact < norms[0] / 2


def test_networks_train_from_a_start_of_their_own():
    rows = risk().examples
    network = EmpiricalRisk(TwoLayerNetwork("sigmoid", 3, 1.0, hidden=4), rows, 0.01)
    start = np.random.default_rng(0).standard_normal(16)
    found = private_momentum(network, **PRIVATE | {"rho": None, "start": start, "steps": 20 * N})
    assert found.gradient_norms(network)[-1].item() < found.gradient_norms(network)[0].item() / 2


def test_full_batches_use_up_their_budget():
    """The sum of the squares of what one example changes, over the noise, is 2ρ."""
    f = EmpiricalRisk(MarginLoss("sigmoid", 1, 1.0), np.zeros((N, 1)))
    found = private_gradient_descent(
        f, steps=9, learning_rate=1.0, rho=0.3, adjacency="replace-one", repetitions=4000, records=9, rng=0
    )
    std = float(np.sqrt(np.square(np.diff(found.points[:, :, 0], axis=0)).mean()))
    exact = 2 * 0.25 / N * math.sqrt(9) / math.sqrt(2 * 0.3)
    assert abs(std / exact - 1) < 5 / math.sqrt(2 * 9 * 4000)  # 6e-7


def test_a_full_batch_step_is_along_the_mean_of_clipped_gradients():
    f = risk("squares", 2.0)
    settings: dict[str, Any] = {"steps": 1, "learning_rate": 0.5, "rho": None, "adjacency": "zero-out"}
    gradients = f.loss.gradients(np.full(3, 0.1), f.examples)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    assert lengths.min() < 1.6 < lengths.max()
    mean = (gradients * np.minimum(1.0, 1.6 / lengths)).mean(axis=0) + f.regulariser_gradients(np.full(3, 0.1))
    found = private_gradient_descent(f, clip_norm=1.6, start=np.full(3, 0.1), **settings).points[-1, 0]
    np.testing.assert_allclose(found, 0.1 - 0.5 * mean, rtol=1e-12)
    unit = private_gradient_descent(f, clip_norm=1.6, start=np.full(3, 0.1), normalised=True, **settings).points[-1, 0]
    np.testing.assert_allclose(unit, 0.1 - 0.5 * mean / np.linalg.norm(mean), rtol=1e-12)


def test_sampled_batches_are_right_on_average():
    f = risk()
    settings: dict[str, Any] = {"steps": 1, "learning_rate": 1.0, "repetitions": 20_000, "rng": 3, "records": 1}
    found = private_sgd(f, sampling_rate=0.25, noise_multiplier=0.0, **settings)
    moves = found.points[0] - found.points[-1]
    error = moves.std(axis=0) / math.sqrt(20_000)
    assert (np.abs(moves.mean(axis=0) - f.gradients(np.zeros(3))) < 5.2 * error).all()  # 6e-7
    noisy = private_sgd(f, sampling_rate=0.25, noise_multiplier=2.0, **settings)
    added = (noisy.points[-1] - found.points[-1]) / (2.0 * 0.25 / (0.25 * N))
    assert abs(added.std() - 1) < 5 / math.sqrt(2 * 60_000)


def test_the_multiplier_of_sampled_batches():
    pytest.importorskip("dp_accounting")
    from corrnoise.theory.privacy import gaussian_rho

    alone = poisson_noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=4)
    exact = math.sqrt(4 / (2 * gaussian_rho(1.0, 1e-5)))
    assert exact <= alone < 1.1 * exact  # Rényi divergences of Gaussians, not their exact curve
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    sampled = poisson_noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=0.05, steps=4)
    assert sampled < alone / 2
    for multiplier, enough in ((sampled, True), (0.99 * sampled, False)):
        accountant = RdpAccountant(range(2, 200))
        accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(multiplier)), 4))
        assert (accountant.get_epsilon(1e-5) <= 1.0) == enough


def test_amplification_needs_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"pip install 'corrnoise\[amplification\]'"):
        baselines.poisson_noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=0.1, steps=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: private_momentum(risk("squares"), **PRIVATE), "clip_norm must lie in .* no bound, .* got None"),
        (
            lambda: private_reduced_momentum(risk("squares"), **PRIVATE, gamma=0.5),
            "clip_norm must lie in .* no bound",
        ),
        (lambda: private_momentum(risk(), **PRIVATE | {"alpha": 0.0}), r"alpha must lie in \(0, 1\], got 0.0"),
        (lambda: private_momentum(risk(), **PRIVATE | {"order": "shuffled"}), "order must be one of 'fixed', 'resh"),
        (lambda: private_momentum(risk(), **PRIVATE | {"steps": 0}), "steps must be an integer >= 1, got 0"),
        (lambda: private_momentum(risk(), **PRIVATE | {"rho": 0.0}), r"rho must lie in \(0, inf\), got 0.0"),
        (lambda: private_momentum(risk(), **PRIVATE | {"adjacency": "x"}), "adjacency must be one of"),
        (lambda: private_momentum(risk(), **PRIVATE | {"noise": BinaryTree(9)}), "noise must have steps=64 as the run"),
        (lambda: private_momentum(risk(), **PRIVATE | {"start": [0.0]}), r"start must have shape \(3,\) or \(1, 3\)"),
        (
            lambda: private_reduced_momentum(risk(count=1), **PRIVATE, gamma=0.5),
            "risk must have at least 2 examples, got 1",
        ),
        (lambda: private_reduced_momentum(risk(), **PRIVATE, gamma=1.0), r"gamma must lie in \[0, 1\), got 1.0"),
        (
            lambda: private_sgd(risk(), steps=1, sampling_rate=0.0, learning_rate=1.0, noise_multiplier=1.0),
            r"sampling_rate must lie in \(0, 1\]",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_noise_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="noise must be one of 'tree', got 'forest'"):
        private_momentum(risk(), **PRIVATE | {"noise": "forest"})
    with pytest.raises(TypeError, match="noise must be 'tree', correlated noise or a Mechanism, got 3"):
        private_momentum(risk(), **PRIVATE | {"noise": 3})


@pytest.mark.parametrize("change", [{"steps": 1}, {"alpha": 1.0}, {"steps": 3}])
def test_the_smallest_runs(change):
    assert np.isfinite(private_momentum(risk(), **PRIVATE | change).points).all()
    assert np.isfinite(private_momentum(risk(count=1), **PRIVATE | change).points).all()
    assert np.isfinite(private_reduced_momentum(risk(count=2), **PRIVATE | change, gamma=0.0).points).all()


def test_more_than_fits_into_memory_is_refused():
    change = {"gamma": 0.5, "learning_rate": np.full(10**5, 0.1), "rho": None, "repetitions": 10**5}
    with pytest.raises(ValueError, match=r"settings and repetitions must be smaller, got \(100000, 100000\)"):
        private_reduced_momentum(risk(), **PRIVATE | change | {"steps": 2})
