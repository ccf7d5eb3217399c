"""Simulated federations against an independent loop, the clients of a deployment, and the law of their noise."""

from pathlib import Path

import numpy as np
import pytest

from corrnoise.simulations.federation.client import (
    STATE,
    STATE_KINDS,
    FederatedClient,
    enrol,
    linear_contribution,
)
from corrnoise.simulations.federation.messages import Reply, Request
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.simulate import Examples, simulate_federation, split_examples
from corrnoise.support.serialise import load
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise
from tests.simulations.federation.federations import LOSS, plan_of


def examples(clients: int, each: int, *, zero: bool = False) -> list[Examples]:
    rng = np.random.default_rng(3)
    features = np.zeros((clients * each, 3)) if zero else rng.uniform(-0.5, 0.5, (clients * each, 3))
    return split_examples(features, rng.uniform(-1, 1, clients * each), clients)


def all_take_part(**settings: object) -> Plan:
    """Three clients that all take part in each of four rounds, with two examples each time, in two passes."""
    return plan_of(**{"rounds": 4, "participants": 3, "per_pass": 2, "passes": 2, "learning_rate": 0.3} | settings)


@pytest.mark.parametrize("algorithm", ["corrections", "gradients"])
def test_without_noise_it_is_mu_squared_sgd_or_projected_sgd(algorithm: str) -> None:
    """Against equations (8) and (9): d_t = ∇f(x_t) + (1 − 1/t)(d_{t−1} − ∇f(x_{t−1})), averages x_t by α_t = t."""
    plan = all_take_part(clip_norm=50.0, noise=DPSGD())
    data = examples(3, 4)
    used = 0
    w = x = before = d = np.zeros(3)
    path = []
    for t in range(1, 5):
        rows = slice(used % 4, used % 4 + 2)
        now, then = (
            np.mean([LOSS.gradients(point, a[rows], y[rows]) for a, y in data], axis=(0, 1)) for point in (x, before)
        )
        d = now if algorithm == "gradients" else now + (1 - 1 / t) * (d - then)
        path.append(x)
        w = w - 0.3 * (1 if algorithm == "gradients" else t) * d
        w = w / max(1.0, float(np.linalg.norm(w)))
        before, x = x, w if algorithm == "gradients" else (t * x + 2 * w) / (t + 2)
        used += 2
    end = simulate_federation(plan, data, seed=0, algorithm=algorithm, scale=0.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(end.point, np.mean(path, axis=0) if algorithm == "gradients" else x, atol=1e-14)
    np.testing.assert_allclose(end.queried, path[-1], atol=1e-14)
    assert end.participations.tolist() == [4, 4, 4]


@pytest.mark.parametrize(
    "settings", [{}, {"guard": "centred"}, {"unit": "client", "noise": None}], ids=["norm", "centred", "client"]
)
def test_contributions_are_those_of_real_clients(tmp_path: Path, settings: dict[str, object]) -> None:
    """Central trust without noise in the simulation: what clients send is what it adds up."""
    plan = all_take_part(trust="central", clip_norm=0.2, **settings)
    data = examples(3, 4)
    first = np.zeros(3)
    for i, (a, y) in enumerate(data):
        enrol(plan, str(i), tmp_path / str(i), examples=4)
        client = FederatedClient(plan, str(i), tmp_path / str(i), linear_contribution(LOSS, a, y))
        order = load(tmp_path / str(i) / STATE, STATE_KINDS).order
        data[i] = (a[order], y[order])
        reply = client.reply(Request("test", 1, np.zeros(3), np.zeros(3), 0))
        assert isinstance(reply, Reply)
        first += reply.vector / 3
    one = all_take_part(trust="central", clip_norm=0.2, **(settings | {"rounds": 1}))
    np.testing.assert_allclose(simulate_federation(one, data, seed=0, scale=0.0).estimate, first, atol=1e-15)


@pytest.mark.parametrize(
    ("noise", "trust"),
    [
        (cancelling_noise(4, growth=1), "local"),
        (PoleNoise([0.0], [0.3]), "local"),
        (DPSGD(), "local"),
        (AntiPGD(0.0), "central"),
    ],
    ids=["published", "share", "fresh", "central"],
)
def test_the_noise_in_the_estimate_has_its_law(noise: Mechanism, trust: str) -> None:
    """Lemma 4.1: 1/m of the last prefix noise of each client, or with central trust the prefix noise of the server."""
    plan = all_take_part(noise=noise, trust=trust)
    data = examples(3, 4, zero=True)  # no gradient
    found = np.array([simulate_federation(plan, data, seed=seed).estimate for seed in range(400)])
    expected = plan.noise_std**2 * noise.errors(PrefixSums(4))[-1] / (1 if trust == "central" else 3)
    measured = float(np.mean(found**2))
    error = expected * (2 / found.size) ** 0.5
    assert abs(measured - expected) < 5 * error
    assert not abs(measured * 4 / 3 - expected) < 5 * error  # a client too many


def test_clients_leave_and_are_not_asked_again_too_soon() -> None:
    end = simulate_federation(plan_of(per_pass=2, passes=1, rounds=20), examples(3, 4), seed=1)
    assert end.participations.tolist() == [2, 2, 2]
    apart = plan_of(trust="central", separation=3, rounds=7, per_pass=8, passes=1, batch=1)
    assert simulate_federation(apart, examples(2, 8), seed=1).participations.tolist() == [3, 3]


def test_what_does_not_fit_is_refused() -> None:
    plan = all_take_part()
    for data, message in ((examples(2, 4), "at least 3 clients"), (examples(3, 3), "per_pass = 4")):
        with pytest.raises(ValueError, match=message):
            simulate_federation(plan, data, seed=0)
    with pytest.raises(ValueError, match="must be independent"):
        simulate_federation(plan, examples(3, 4), seed=0, algorithm="gradients")
    with pytest.raises(ValueError, match="seed"):
        simulate_federation(plan, examples(3, 4), seed=-1)
    with pytest.raises(TypeError, match="model"):
        simulate_federation(plan_of(model=3), examples(3, 4), seed=0)
    with pytest.raises(ValueError, match="one example a client"):
        split_examples(np.zeros((2, 3)), np.zeros(2), 3)
