"""Private runs: the noise that covers the runs, baselines, and refusals."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.papers.momentum_aggregation import methods
from corrnoise.simulations.papers.momentum_aggregation.descent import ReducedMomentumSteps, Trajectories, momentum_step
from corrnoise.simulations.papers.momentum_aggregation.methods import (
    GradientDescent,
    Momentum,
    PoissonDescent,
    PublishedMomentum,
    PublishedReducedMomentum,
    ReducedMomentum,
)
from corrnoise.simulations.papers.momentum_aggregation.runs import MomentumPlan, momentum_run
from corrnoise.theory.losses import EmpiricalRisk, MarginLoss
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.papers.momentum_aggregation.calibration import node_std, published_node_std, reduced_noise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

N = 16
RUN: dict[str, Any] = {"alpha": 1 / N, "learning_rate": 0.05, "rng": 1}
BUDGET = Budget(0.5, adjacency="replace-one")
EPOCHS = Participation.fixed_epochs(4 * N, period=N)
ORDERS = pytest.mark.parametrize("order", [Participation.fixed_epochs, Participation.reshuffled])


def risk(link: Any = "sigmoid", norm: float = 1.0, count: int = N) -> EmpiricalRisk:
    rows = np.random.default_rng(7).standard_normal((count, 3)) + 0.5
    rows *= norm / np.linalg.norm(rows, axis=1, keepdims=True)
    return EmpiricalRisk(MarginLoss(link, 3, norm), rows, 0.02)


def momentum(*given: Any, alpha: float = 1 / N, mechanism: Any = None, **run: Any) -> Trajectories:
    return momentum_run(*given, method=Momentum(alpha, mechanism), **run)


def published_momentum(*given: Any, alpha: float = 1 / N, height: int | None = None, **run: Any) -> Trajectories:
    return momentum_run(*given, method=PublishedMomentum(alpha, height), **run)


def reduced(*given: Any, alpha: float = 1 / N, gamma: Any, **run: Any) -> Trajectories:
    return momentum_run(*given, method=ReducedMomentum(alpha, gamma), **run)


def published_reduced(*given: Any, alpha: float = 1 / N, gamma: Any, **run: Any) -> Trajectories:
    return momentum_run(*given, method=PublishedReducedMomentum(alpha, gamma), **run)


def full_batches(f: EmpiricalRisk, budget: Any, steps: int, normalised: bool = False, **run: Any) -> Trajectories:
    return momentum_run(f, budget, Participation.min_sep(steps, 1), method=GradientDescent(normalised), **run)


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the loops are given."""
    seen: list[dict[str, Any]] = []

    def spied(function):
        def spy(*positional: Any, **named: Any) -> Any:
            seen.append(named)
            return function(*positional, **named)

        return spy

    monkeypatch.setattr(methods, "momentum_step", spied(momentum_step))
    monkeypatch.setattr(methods, "ReducedMomentumSteps", spied(ReducedMomentumSteps))
    return seen


@ORDERS
@pytest.mark.parametrize(("clip", "bound"), [(0.25, 0.25), (0.1, 0.1), (3.0, 0.25)])
def test_tree_noise_is_that_of_the_run(loops, order, clip, bound):
    who = order(55, period=N)
    budgets = [Budget(rho, clip_norm=clip, adjacency="replace-one") for rho in (0.2, 0.5)]
    momentum(risk(), budgets, who, **RUN | {"alpha": 0.03})
    expected = [node_std(Budget(**{**one.arguments(), "clip_norm": bound}), who, alpha=0.03) for one in budgets]
    assert loops[0]["scales"].ravel().tolist() == pytest.approx([std / 0.03 * 0.03 for std in expected], rel=1e-14)
    assert loops[0]["clip_norm"] == bound


@ORDERS
@pytest.mark.parametrize(("adjacency", "factor"), [("zero-out", 1), ("replace-one", 2)])
def test_other_noise_has_its_own_sensitivity(loops, order, adjacency, factor):
    who = order(4 * N, period=N)
    momentum(risk(), Budget(0.5, adjacency=adjacency), who, **RUN, mechanism=NuFTRL(1 / N))
    exact = factor * NuFTRL(1 / N).sensitivity_upper_bound(who) * 0.25 / N
    assert loops[0]["scales"].item() == pytest.approx(exact, rel=1e-12)
    assert loops[0]["scales"].item() >= exact


def test_every_kind_of_noise_runs():
    noises = [None, DPSGD(), NuFTRL(0.0), NuFTRL(0.1), BinaryTree(4 * N)]
    found = [momentum(risk(), BUDGET, EPOCHS, **RUN, mechanism=noise).points[-1] for noise in noises]
    assert len({tuple(points.ravel()) for points in found}) == len(noises)
    assert all(np.isfinite(points).all() for points in found)


def published(**change: Any) -> Budget:
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "clip_norm": 0.25}
    return Budget(**given | change)


def test_the_published_noise_and_its_refusals(loops):
    published_momentum(risk(), published(), EPOCHS, **RUN)
    std = published_node_std(published(), EPOCHS, alpha=1 / N)
    assert loops[0]["scales"].item() == std
    published_momentum(risk(), published(adjacency="zero-out"), EPOCHS, **RUN)
    assert loops[1]["scales"].item() == std / 2
    for budget, who, change, message in (
        (published(), Participation.fixed_epochs(4 * N + 1, period=N), {}, "participation must be in whole epochs"),
        (published(), EPOCHS, {"alpha": 0.9 / N}, r"alpha must lie in \[1/N, 1\]"),
        (published(epsilon=10.0, delta=0.5), EPOCHS, {}, r"delta must lie in \(0, exp\(-epsilon\)\]"),
        (published(), EPOCHS, {"height": 6}, "height must be at least"),
        (BUDGET, EPOCHS, {}, "budget must be given by epsilon and delta"),
    ):
        with pytest.raises(ValueError, match=message):
            published_momentum(risk(), budget, who, **RUN | change)


def test_the_published_noise_of_algorithm_2(loops):
    change = RUN | {"gamma": [0.2, 1.0], "learning_rate": 0.01}
    budget = published(adjacency="zero-out")
    found = published_reduced(risk(), budget, EPOCHS, **change)
    assert found.points.shape == (33, 2, 1, 3)
    noise = loops[0]["noise"]
    sigma = 4 * math.sqrt(math.log(1e5))
    assert noise.scales[0].ravel()[0] == pytest.approx(2 * 0.25 * sigma * math.sqrt(3 * 4), rel=1e-12)
    assert noise.late.ravel()[0] == pytest.approx(2 * 0.25 * sigma * math.sqrt(4 * 4 * 4), rel=1e-12)
    smoothness = 1 / (6 * math.sqrt(3))
    for tree in (1, 2):
        assert noise.scales[tree].ravel()[0] == pytest.approx(0.01 * N * smoothness * sigma * 8, rel=1e-12)
    with pytest.raises(ValueError, match="participation must be in whole epochs"):
        published_reduced(risk(), budget, Participation.fixed_epochs(4 * N + 1, period=N), **change)


def test_reduced_noise_is_that_of_the_run(loops):
    change = {"gamma": [0.2, 0.6], "learning_rate": [0.01, 0.03]}
    reduced(risk(), BUDGET, EPOCHS, **RUN | change)
    budget = Budget(0.5, clip_norm=0.25, adjacency="replace-one")
    for k, (gamma, rate) in enumerate([(0.2, 0.01), (0.6, 0.03)]):
        losses = {"learning_rate": rate, "smoothness": 1 / (6 * math.sqrt(3))}
        expected = reduced_noise(budget, EPOCHS, alpha=1 / N, gamma=gamma, **losses)
        for scales, name in zip(loops[0]["noise"].scales, ("gradients", "combined", "remainders"), strict=True):
            assert scales.ravel()[k] == getattr(expected, name)


def test_a_run_of_less_than_two_epochs_has_no_combined_tree():
    short = Participation.fixed_epochs(N + 3, period=N)
    assert np.isfinite(reduced(risk(), BUDGET, short, **RUN, gamma=0.5).points).all()


def test_settings_are_broadcast_and_repetitions_are_paired():
    change = {"learning_rate": np.array([[0.02], [0.05]]), "repetitions": 4}
    budgets = [Budget(rho) for rho in (0.1, 1.0, 10.0)]
    together = momentum(risk(), budgets, EPOCHS, **RUN | change)
    assert together.points.shape == (33, 2, 3, 4, 3)
    assert together.gradient_norms(risk()).shape == (33, 2, 3, 4)
    alone = momentum(risk(), budgets[2], EPOCHS, **RUN | {"repetitions": 4})
    np.testing.assert_allclose(together.points[:, 1, 2], alone.points, atol=1e-12)
    assert len({tuple(point) for point in alone.points[-1]}) == 4


def test_full_batches_use_up_their_budget():
    """The sum of the squares of what one example changes, over the noise, is 2ρ."""
    f = EmpiricalRisk(MarginLoss("sigmoid", 1, 1.0), np.zeros((N, 1)))
    found = full_batches(
        f, Budget(0.3, adjacency="replace-one"), steps=9, learning_rate=1.0, repetitions=4000, records=9, rng=0
    )
    std = float(np.sqrt(np.square(np.diff(found.points[:, :, 0], axis=0)).mean()))
    exact = 2 * 0.25 / N * math.sqrt(9) / math.sqrt(2 * 0.3)
    assert abs(std / exact - 1) < 5 / math.sqrt(2 * 9 * 4000)  # 6e-7


def test_a_full_batch_step_is_along_the_mean_of_clipped_gradients():
    f = risk("squares", 2.0)
    huge = Budget(1e60, clip_norm=1.6)  # practically without noise
    settings: dict[str, Any] = {"steps": 1, "learning_rate": 0.5, "start": np.full(3, 0.1)}
    gradients = f.loss.gradients(np.full(3, 0.1), f.examples)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    assert lengths.min() < 1.6 < lengths.max()
    mean = (gradients * np.minimum(1.0, 1.6 / lengths)).mean(axis=0) + f.regulariser_gradients(np.full(3, 0.1))
    found = full_batches(f, huge, **settings).points[-1, 0]
    np.testing.assert_allclose(found, 0.1 - 0.5 * mean, rtol=1e-12)
    unit = full_batches(f, huge, normalised=True, **settings).points[-1, 0]
    np.testing.assert_allclose(unit, 0.1 - 0.5 * mean / np.linalg.norm(mean), rtol=1e-12)


def test_sampled_batches_are_right_on_average(monkeypatch):
    f = risk()
    one = Participation.poisson(1, 0.25)
    monkeypatch.setattr(Program, "multiplier", lambda program, budget: 2.0)
    settings: dict[str, Any] = {"learning_rate": 1.0, "repetitions": 20_000, "rng": 3, "records": 1}
    found = momentum_run(f, None, one, method=PoissonDescent(), **settings)
    moves = found.points[0] - found.points[-1]
    error = moves.std(axis=0) / math.sqrt(20_000)
    assert (np.abs(moves.mean(axis=0) - f.gradients(np.zeros(3))) < 5.2 * error).all()  # 6e-7
    noisy = momentum_run(f, BUDGET, one, method=PoissonDescent(), **settings)
    added = (noisy.points[-1] - found.points[-1]) / (2.0 * 0.25 / (0.25 * N))
    assert abs(added.std() - 1) < 5 / math.sqrt(2 * 60_000)


def changed(budget: Any = BUDGET, who: Participation = EPOCHS, **change: Any) -> Trajectories:
    return momentum(risk(), budget, who, **RUN | change)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: changed(alpha=0.0), r"alpha must lie in \(0, 1\], got 0.0"),
        (lambda: changed(who=Participation.min_sep(4 * N, N)), "participation must be in epochs of one step an exam"),
        (lambda: changed(who=Participation.fixed_epochs(4 * N, period=9)), "period=16, got"),
        (lambda: changed([Budget(1.0), Budget(1.0, clip_norm=2.0)]), "budgets must have one clip norm"),
        (lambda: changed(mechanism=BinaryTree(9)), "participation must have steps=9 as the mechanism"),
        (lambda: changed(start=[0.0]), r"start must have shape \(3,\) or \(1, 3\)"),
        (
            lambda: reduced(risk(count=1), BUDGET, Participation.fixed_epochs(4, period=1), **RUN, gamma=0.5),
            "risk must have at least 2 examples, got 1",
        ),
        (
            lambda: reduced(risk(), BUDGET, EPOCHS, **RUN, gamma=1.0),
            r"gamma must lie in \[0, 1\), got 1.0",
        ),
        (
            lambda: momentum_run(risk(), BUDGET, EPOCHS, method=PoissonDescent(), learning_rate=1.0),
            "participation must be Poisson",
        ),
        (
            lambda: momentum_run(
                risk(), BUDGET, Participation.poisson(1, 0.5), method=PoissonDescent(), learning_rate=1.0
            ),
            "budget must have zero-out adjacency for sampled batches",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("method", [PublishedMomentum(1 / N), PublishedReducedMomentum(1 / N, 0.5)])
def test_published_noise_needs_a_budget(method):
    with pytest.raises(TypeError, match=r"budget must be a Budget for Published.*, got None"):
        momentum_run(risk(), None, EPOCHS, method=method, learning_rate=0.1)


def test_full_batches_read_all_examples_in_every_step():
    """Fewer steps an example would need less noise than an order of single examples gets."""
    for who in (EPOCHS, Participation.min_sep(8, 2), Participation.min_sep(8, 1, 3), Participation.poisson(8, 1.0)):
        with pytest.raises(ValueError, match=r"participation must be min_sep\(steps, 1\)"):
            momentum_run(risk(), BUDGET, who, method=GradientDescent(), learning_rate=0.1)


def test_noise_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="mechanism must be a Mechanism"):
        changed(mechanism="forest")
    with pytest.raises(TypeError, match="budget must be a Budget"):
        changed(0.5)


@pytest.mark.parametrize(("steps", "alpha"), [(1, 1 / N), (4 * N, 1.0), (3, 1 / N)])
def test_the_smallest_runs(steps, alpha):
    change = RUN | {"alpha": alpha}
    for count in (N, 1, 2):
        who = Participation.fixed_epochs(steps, period=count)
        assert np.isfinite(momentum(risk(count=count), BUDGET, who, **change).points).all()
    assert np.isfinite(reduced(risk(count=2), BUDGET, who, **change, gamma=0.0).points).all()


def test_more_than_fits_into_memory_is_refused():
    change = {"gamma": 0.5, "learning_rate": np.full(10**5, 0.1), "repetitions": 10**5}
    with pytest.raises(ValueError, match=r"settings and repetitions must be smaller, got \(100000, 100000\)"):
        reduced(risk(), None, Participation.fixed_epochs(2, period=N), **RUN | change)


# -- losses that do not keep what they state ---------------------------------------------------------------------------


class Liar(MarginLoss):
    """A loss with gradients and changes of gradients that are longer than it states, or not finite."""

    factor = 25.0

    def gradients(self, points, examples):
        turned = np.sin(1e6 * points) * np.linalg.norm(examples, axis=-1, keepdims=True)
        found = self.factor * (super().gradients(points, examples) + turned)
        return np.where(examples[..., :1] > 0.9, math.nan, found)

    def mean_gradients(self, points, examples):
        return self.factor * super().mean_gradients(points, examples)


LIAR = EmpiricalRisk(Liar("sigmoid", 3, 1.0), risk().examples, 0.02)
HONEST = LIAR.loss


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """The largest norms of what the noise of Algorithm 2 covers: gradients, and changes a unit of distance."""
    found: dict[str, list[float]] = {"gradients": [], "changes": []}
    real, near = ReducedMomentumSteps._gradients, ReducedMomentumSteps._gradients_near

    def gradients(self, points, t):
        norms = np.linalg.norm(real(self, points, t), axis=-1)
        found["gradients"].append(norms.max())
        return real(self, points, t)

    def gradients_near(self, leaf, points, t):
        moved = near(self, leaf, points, t)
        distance = np.linalg.norm(points - self.first, axis=-1)
        slack = 1e-12 * self.clip_norm
        found["changes"].append(float((np.linalg.norm(moved - leaf, axis=-1) - HONEST.smoothness * distance).max()))
        assert found["changes"][-1] <= slack + 1e-12 * distance.max() + 1e-15
        return moved

    monkeypatch.setattr(ReducedMomentumSteps, "_gradients", gradients)
    monkeypatch.setattr(ReducedMomentumSteps, "_gradients_near", gradients_near)
    return found


def test_a_loss_that_lies_stays_within_the_sensitivity_of_algorithm_2(leaves, monkeypatch):
    """Its leaves G, D and r are no longer than the noise accounts for; without the guard they are."""
    change = RUN | {"gamma": 0.3, "learning_rate": 1e-3}
    found = reduced(LIAR, BUDGET, EPOCHS, **change)
    assert np.isfinite(found.points).all()
    assert 0.25 * 0.99 < max(leaves["gradients"]) <= 0.25 * (1 + 1e-11)
    assert len(leaves["changes"]) > 4 * N
    mutant = ReducedMomentumSteps(
        LIAR, np.zeros((2, 1), int), alpha=0.1, gammas=np.zeros((1, 1, 1)), lengths=np.ones((1, 1, 1)), clip_norm=0.25
    )
    with pytest.raises(AssertionError):
        mutant._gradients_near(np.zeros((1, 1, 3)), np.full((1, 1, 3), 0.01), 1)


@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_gradients_of_a_loss_that_lies_are_clipped_at_what_it_states(clip, monkeypatch):
    """In Algorithm 1 and in both baselines; the mutant clips at the norm of the budget alone."""
    bound = min(clip, 0.25)
    budget = Budget(0.5, clip_norm=clip)
    seen = []
    real = momentum_step.__globals__["clipped_gradients"]

    def spy(*arguments: Any) -> Any:
        seen.append(real(*arguments))
        return seen[-1]

    monkeypatch.setitem(momentum_step.__globals__, "clipped_gradients", spy)
    monkeypatch.setattr(methods, "clipped_gradients", spy)
    momentum(LIAR, budget, EPOCHS, **RUN)
    assert len(seen) == 4 * N
    full_batches(LIAR, budget, steps=2, learning_rate=0.1, rng=1)
    assert len(seen) == 4 * N + 2 * N
    longest = max(float(np.linalg.norm(each, axis=-1).max()) for each in seen)
    assert bound * 0.99 < longest <= bound * (1 + 1e-11)
    mutant = real(HONEST, np.full(3, 0.3), LIAR.examples, max(clip, 1.0))
    assert np.linalg.norm(mutant, axis=-1).max() > 0.9


@pytest.mark.parametrize("start", [None, [0.4, -1.0, 2.0]])
def test_losses_that_do_not_lie_are_not_changed(start, monkeypatch):
    """Bit for bit, also where the bounds are attained: at 0, with examples of the largest norm."""
    run = RUN | {"start": start, "repetitions": 2}
    guarded = [
        momentum(risk(), BUDGET, EPOCHS, **run),
        reduced(risk(), BUDGET, EPOCHS, **run | {"gamma": 0.3}),
        full_batches(risk(), BUDGET, steps=4, learning_rate=0.1, start=start, rng=1),
    ]
    real = MomentumPlan.checked
    monkeypatch.setattr(MomentumPlan, "checked", lambda *given, **named: replace(real(*given, **named), clip=math.inf))
    free = [
        momentum(risk(), BUDGET, EPOCHS, **run),
        reduced(risk(), BUDGET, EPOCHS, **run | {"gamma": 0.3}),
        full_batches(risk(), BUDGET, steps=4, learning_rate=0.1, start=start, rng=1),
    ]
    for one, other in zip(guarded, free, strict=True):
        assert one.points.tobytes() == other.points.tobytes()
