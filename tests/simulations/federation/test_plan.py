"""The plan: its noise against brute force over what one unit can do, its guarantee, and refusals."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.run.engines import streaming
from corrnoise.solvers.default import default_noise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import ADJACENCIES
from tests.simulations.federation.federations import plan_of

NOISES = (DPSGD(), AntiPGD(0.0), PoleNoise([0.0], [0.3]), PoleNoise([0.1], [0.6]))


def largest_shift(noise: Mechanism, n: int, patterns: list[list[int]]) -> float:
    """The largest norm of C δ over patterns and signs, by trying them all."""
    strategy = np.linalg.inv(noise.noising_matrix(n))
    return max(
        float(np.linalg.norm(strategy[:, pattern] @ np.array([1, *signs])))
        for pattern in patterns
        for signs in product((-1, 1), repeat=len(pattern) - 1)
    )


def spent(plan: Plan, shift: float) -> float:
    """ρ of the worst unit, when one participation moves a message by at most ``shift``."""
    n = plan.participations
    if plan.unit == "client":
        patterns = [list(range(n))]
    else:
        patterns = [list(range(i, n, plan.per_pass)) for i in range(plan.per_pass)]
    return (largest_shift(plan.mechanism, n, patterns) * shift / plan.noise_std) ** 2 / 2


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("unit", ["example", "client"])
def test_noise_spends_the_budget_and_no_more(noise: Mechanism, adjacency: Any, unit: Any) -> None:
    plan = plan_of(noise=noise, adjacency=adjacency, unit=unit, clip_norm=0.7)
    shift = 0.7 * ADJACENCIES[adjacency] / (2 if unit == "example" else 1)
    assert spent(plan, shift) <= 2.0
    assert spent(plan, shift) == pytest.approx(2.0, rel=1e-5)


def test_a_plan_for_other_participations_is_found_out() -> None:
    noise = PoleNoise([0.0], [0.3])
    once = noise.program(Participation.single(8), "float64").scale(plan_of(noise=noise, unit="client").noise_budget)
    client = plan_of(noise=noise, unit="client")
    shift = 2.0
    assert spent(client, shift) * (client.noise_std / once) ** 2 > 2 * 2.0  # Participation(n) at client level
    example = plan_of(noise=noise)
    assert spent(example, shift) > 3 * 2.0  # c in place of c/b
    every = noise.program(Participation.min_sep(8, 1, 2), "float64").scale(example.noise_budget)
    assert every > example.noise_std * 1.001  # min_sep=1 in place of p, which is noisier only


@pytest.mark.parametrize(
    ("p", "passes", "noise", "gamma"),
    [
        (34, 1, PoleNoise([0.0], [0.1]), 1.153256),
        (34, 1, AntiPGD(0.0), 5.830952),
        (13, 4, AntiPGD(0.0), 19.748418),
        (13, 4, PoleNoise([0.0], [0.1]), 2.989983),
        (13, 4, DPSGD(), 2.0),
    ],
)
def test_sensitivities(p: int, passes: int, noise: Mechanism, gamma: float) -> None:
    plan = plan_of(per_pass=p, passes=passes, noise=noise)
    assert plan.program.sensitivity == pytest.approx(gamma, rel=1e-6)


@pytest.mark.parametrize(
    ("p", "passes", "name", "mean"),
    [
        (34, 1, "best-share", 5.793812),
        (34, 1, "two-buffers", 3.64891),
        (13, 4, "best-share", 42.748559),
        (13, 4, "two-buffers", 19.86940),
    ],
)
def test_noise_is_chosen_for_the_participation(p: int, passes: int, name: Any, mean: float) -> None:
    plan = plan_of(per_pass=p, passes=passes, noise=name)
    assert plan.mechanism.mean_error(plan.participation) ** 2 == pytest.approx(mean, rel=1e-4)


def test_the_noise_of_a_plan_that_names_none_is_the_default_noise() -> None:
    plan, named = plan_of(noise=None), plan_of(noise="two-buffers")
    found = streaming(default_noise(plan.participation), plan.participation, "float64")
    assert plan.program == named.program == found


def test_clients_take_nothing_back_by_default() -> None:
    np.testing.assert_array_equal(plan_of(noise=None, unit="client").mechanism.noising_matrix(8), np.eye(8))
    assert np.abs(plan_of(noise=None).mechanism.noising_matrix(8) - np.eye(8)).max() > 0.1


def test_no_noise_beats_independent_noise_at_the_end_of_a_client() -> None:
    for noise in NOISES:
        plan = plan_of(noise=noise, unit="client")
        prefix = plan.prefixes[1:] @ plan.prefixes[1:].T
        assert (np.diag(prefix) * plan.program.sensitivity**2 >= np.arange(1, 9) ** 2 * (1 - 1e-9)).all()


def test_rounds_take_the_place_of_participations_with_central_trust() -> None:
    example = plan_of(trust="central", separation=2, noise=DPSGD())
    assert example.participation == Participation.min_sep(20, 8, 2)
    assert example.noise_std == pytest.approx(2 / (2 * 2) / 2**0.5, rel=1e-6)  # 2c/(b m), twice, at ρ = 2
    assert plan_of(trust="central", separation=3, unit="client").participation == Participation.min_sep(20, 3, 8)


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    for plan in (plan_of(noise="two-buffers"), plan_of(guard="centred"), plan_of(model=7, unit="client", noise=None)):
        plan.save(tmp_path / "plan.json")
        again = Plan.load(tmp_path / "plan.json")
        assert (again, again.identity(), again.noise_std) == (plan, plan.identity(), plan.noise_std)
    assert plan_of(rho=2.5).identity() != plan_of().identity()


def test_restored_states_cost_a_budget_each() -> None:
    plan = plan_of()
    assert plan.guarantee(1e-5)["rho"] == 2.0
    assert 6.0 <= plan.guarantee(1e-5, restored=2)["rho"] <= 6.0 * (1 + 1e-15)


def test_a_budget_in_epsilon_and_delta_is_kept() -> None:
    """The noise is that of the largest ρ within (ε, δ), and the plan states (ε, δ) without being told δ again."""
    plan = plan_of(epsilon=2.0, delta=1e-6, clip_norm=0.5)
    same = plan_of(rho=plan.budget.gaussian_rho, clip_norm=0.5)
    assert plan.noise_std == same.noise_std
    promise = plan.guarantee()
    assert (promise["delta"], promise["rho"]) == (1e-6, plan.budget.gaussian_rho)
    assert 2.0 * (1 - 1e-6) <= promise["epsilon"] <= 2.0
    assert plan.guarantee(restored=1)["epsilon"] > 2.5
    with pytest.raises(ValueError, match="delta must be given"):
        same.guarantee()


def test_users_are_warned() -> None:
    words = " ".join(plan_of(rounds=200, rho=8.0, clip_norm=0.01).warnings(4))
    assert "exhausted after about 16 of 200 rounds" in words
    assert "weak promise" in words
    large = plan_of(model=10_000, rho=0.01).warnings(100)
    assert any("more than a contribution" in one for one in large)
    assert plan_of(model=1, rho=0.5, rounds=2, participants=100, noise=DPSGD()).warnings(1000) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"guard": "centred", "adjacency": "zero-out"}, "guard must be 'norm' unless"),
        ({"guard": "centred", "model": 3}, "guard must be 'norm' unless"),
        ({"separation": 2}, "separation must be 1 with trust='local'"),
        ({"unit": "user"}, "unit must be one of"),
        ({"adjacency": "add"}, "adjacency must be one of"),
        ({"noise": "best"}, "noise must be one of"),
        ({"rho": 0.0}, "rho must lie in"),
        ({"clip_norm": 1e60}, "clip_norm must lie in"),
        ({"epsilon": 2.0}, "must be given either by rho or by epsilon and delta"),
        ({"passes": 0}, "passes must be"),
        ({"rounds": 10**6 + 1}, r"rounds must be an integer in \[1, 1000000\]"),
        ({"passes": 10**6}, r"per_pass \* passes must be an integer in \[1, 1000000\]"),
        ({"radius": float("nan")}, "radius must"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan_of(**settings)


def test_unit_and_budget_have_no_default() -> None:
    for name in ("unit", "budget"):
        settings = {key: value for key, value in plan_of().arguments().items() if key != name}
        with pytest.raises(TypeError, match=name):
            Plan(**settings)
