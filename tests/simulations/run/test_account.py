"""Accounts: charges, refusals and refunds, also after a kill at every write."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run.account import Account, Charge
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.tuning import tune
from corrnoise.support.serialise import load, save
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_odometer
from corrnoise.theory.profile import GaussianProfile, NearbyProfile, Profile, compose
from corrnoise.theory.selection import Trials, selection, trial_budget
from tests.simulations.run.crashes import dies

DELTA = 1e-6
BUDGET = Budget(epsilon=3.0, delta=DELTA)
EPOCHS = Participation.fixed_epochs(12, epochs=3)
POISSON = Participation.poisson(20, 0.1)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path / "account", data="survey", budget=BUDGET)


def run_of(account: Account | None, folder: Path | None, rho: float = 0.05, **options: Any) -> PrivateRun:
    where = None if folder is None else Folder(folder, marks=folder.parent / "marks", **options)
    return PrivateRun(Budget(rho), EPOCHS, NuFTRL(0.1), 3, folder=where, account=account)


def train(run: PrivateRun, steps: int) -> None:
    for step in run:
        run.add_noise(np.zeros(3))
        if step == steps - 1:
            break


def sampled(sigma_budget: float = 1.0) -> Profile:
    program = DPSGD().program(POISSON)
    return program.profile(program.multiplier(Budget(epsilon=sigma_budget, delta=DELTA / 2)))


def sampled_run(account: Account) -> PrivateRun:
    budget = Budget(epsilon=1.0, delta=DELTA / 2)
    return PrivateRun(budget, POISSON, DPSGD(), 3, batches=batches(POISSON, 100), account=account)


# -- charges -----------------------------------------------------------------------------------------------------------


def test_a_run_is_paid_in_full_before_its_first_step(account: Account, tmp_path: Path) -> None:
    assert (account.spent(DELTA), account.odometer(DELTA)) == (0.0, 0.0)
    account.charge("histogram", GaussianProfile(0.02))
    run = run_of(account, tmp_path / "run")
    assert run.position == 0
    assert account.spent(DELTA) == compose(GaussianProfile(0.02), run.profile()).epsilon_at(DELTA)
    assert account.left == pytest.approx(BUDGET.gaussian_rho - 0.07, rel=1e-9)
    last = PrivateRun(Budget(account.left), EPOCHS, DPSGD(), 3, account=account)  # without a folder
    assert account.left < 1e-9
    assert 2.99 < account.spent(DELTA) <= 3.0
    train(last, 12)
    assert "histogram: ρ = 0.02" in account.summary()


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize("given", [{"rho": 0.37}, {"epsilon": 0.7, "delta": 1e-9}])
def test_a_run_with_the_budget_that_is_left_is_admitted(
    tmp_path: Path, given: dict[str, float], adjacency: Any, members: int
) -> None:
    budget = Budget(**given, adjacency=adjacency)
    unit: Any = "example" if members == 1 else "user"
    plan = [GaussianProfile(budget.gaussian_rho, adjacency=adjacency, unit=unit)]
    account = Account(tmp_path / "account", data="x", budget=budget, plan=plan)
    who = Participation.min_sep(20, 4, unit=unit, members=members)
    for _ in range(3):
        rest = Budget(account.left / 2, adjacency=adjacency)
        PrivateRun(rest, who, NuFTRL(0.1), 3, account=account)
    PrivateRun(Budget(account.left, adjacency=adjacency), who, NuFTRL(0.1), 3, account=account)
    assert 0 <= account.left < 1e-9


def test_what_exceeds_the_budget_is_refused_and_leaves_nothing(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "account" / "account.npz"
    account.charge("first", GaussianProfile(BUDGET.gaussian_rho / 2))
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"rest of the account, rho=0\.1"):
        run_of(account, tmp_path / "run", rho=0.2)
    for profile, word in (
        (GaussianProfile(0.51 * BUDGET.gaussian_rho), "rest of the account"),
        (GaussianProfile(0.01, adjacency="replace-one"), "adjacency"),
        (GaussianProfile(0.01, unit="user"), "unit"),
        (sampled(), "in the plan"),
    ):
        with pytest.raises(ValueError, match=word):
            account.charge("second", profile)
    with pytest.raises(ValueError, match="name must be new"):
        account.charge("first", GaussianProfile(1e-9))
    assert file.read_bytes() == before
    assert not (tmp_path / "run").exists()


def test_a_run_that_ends_gives_back_the_rest(account: Account, tmp_path: Path) -> None:
    run = run_of(account, tmp_path / "run", ahead=4)
    train(run, 5)
    run.settle()
    paid = run.profile(5)
    assert account.charges == (Charge(account.charges[0].name, paid, True),)
    assert paid.epsilon_at(DELTA) == account.spent(DELTA) < run.profile().epsilon_at(DELTA)
    with pytest.raises(RuntimeError, match="closed"):
        train(run, 1)
    with pytest.raises(ValueError, match="settled"):
        run_of(account, tmp_path / "run", ahead=4)
    with pytest.raises(ValueError, match="must have an account"):
        run_of(None, None).settle()
    PrivateRun(Budget(account.left), EPOCHS, DPSGD(), 3, account=account)


def test_steps_that_a_crash_skipped_stay_paid(account: Account, tmp_path: Path) -> None:
    run = run_of(account, tmp_path / "run", ahead=4)
    train(run, 5)
    dies(run)
    again = run_of(account, tmp_path / "run", ahead=4)
    assert again.position == 8
    again.settle()
    assert account.spent(DELTA) == again.profile(8).epsilon_at(DELTA) > again.profile(5).epsilon_at(DELTA)


def test_proved_noise_pays_for_its_total_variation(account: Account, tmp_path: Path) -> None:
    def proved(account: Account, rho: float) -> PrivateRun:
        order = batches(EPOCHS, 8, 2, rng=0)
        given: dict[str, Any] = {"sums": "exact", "release": "proved", "threads": 1}
        return PrivateRun(Budget(rho), EPOCHS, DPSGD(), 50, batches=order, account=account, **given)

    run = proved(account, account.left)
    assert 0 <= account.left < 1e-9
    assert isinstance(account.charges[0].profile, NearbyProfile)
    assert run.profile().delta_at(3.0) <= DELTA
    run.settle()
    assert account.left == pytest.approx(BUDGET.gaussian_rho)
    full = [GaussianProfile(BUDGET.gaussian_rho)]
    tight = Account(tmp_path / "tight", data="x", budget=replace(BUDGET, delta=full[0].delta_at(3.0)), plan=full)
    with pytest.raises(ValueError, match="total variation"):
        proved(tight, 0.01)
    assert tight.charges == ()


# -- plans -------------------------------------------------------------------------------------------------------------


def test_sampled_runs_are_planned_at_the_opening(tmp_path: Path) -> None:
    """A profile that is chosen after looking is not covered, even if the product of all is within the budget."""
    one = sampled()
    account = Account(tmp_path / "account", data="x", budget=BUDGET, plan=[one, GaussianProfile(0.02), one])
    assert account.spent(DELTA) == 0.0
    account.charge("before", GaussianProfile(0.015))
    sampled_run(account)
    assert account.left == pytest.approx(0.005)
    with pytest.raises(ValueError, match="in the plan of the account and unused"):
        account.charge("less noise", sampled(1.001))
    sampled_run(account).settle()  # which stays paid in full
    assert account.spent(DELTA) == compose(GaussianProfile(0.015), one, one).epsilon_at(DELTA)
    with pytest.raises(ValueError, match="unused"):
        sampled_run(account)
    with pytest.raises(ValueError, match="Gaussian"):
        account.odometer(DELTA)
    assert Account(tmp_path / "account").plan == account.plan


@pytest.mark.parametrize(
    ("budget", "plan", "word"),
    [
        (BUDGET, [GaussianProfile(BUDGET.gaussian_rho * (1 + 1e-12))], "within the budget"),
        (BUDGET, [GaussianProfile(BUDGET.gaussian_rho / 2)] * 3, "within the budget"),
        (Budget(0.1), [GaussianProfile(0.1 + 1e-9)], "within the budget"),
        (BUDGET, [sampled(2.99), GaussianProfile(0.05)], "within the budget"),
        (Budget(3.0), [sampled()], "within the budget"),
        (Budget(0.1, adjacency="replace-one"), [GaussianProfile(0.1)], "adjacency"),
        (BUDGET, [], "at least one"),
    ],
)
def test_a_plan_above_the_budget_is_refused(tmp_path: Path, budget: Budget, plan: list[Profile], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Account(tmp_path / "account", data="x", budget=budget, plan=plan)
    with pytest.raises(TypeError, match="data"):
        Account(tmp_path / "account", budget=budget)
    assert [each.name for each in (tmp_path / "account").iterdir()] == ["lock"]


@pytest.mark.slow
def test_a_search_pays_once(tmp_path: Path) -> None:
    trials, whole = Trials.negative_binomial(4), Budget(epsilon=2.0, delta=DELTA, clip_norm=0.5)  # of test_tuning
    one = GaussianProfile(trial_budget(whole, trials).gaussian_rho)
    plan = [selection(one, trials), GaussianProfile(0.01)]
    assert compose(*plan).epsilon_at(DELTA) < 3.0
    account = Account(tmp_path / "account", data="x", budget=BUDGET, plan=plan)
    calls: list[float] = []

    def trial(candidate: float, budget: Budget, folder: Path) -> float:
        assert len(account.charges) == 1
        calls.append(candidate)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return candidate

    def search(folder: str, account: Account | None) -> Any:
        return tune(trial, [0.1, 0.2], trials=trials, budget=whole, folder=tmp_path / folder, account=account)

    with pytest.raises(KeyboardInterrupt):
        search("search", account)
    with pytest.raises(ValueError, match="account"):
        search("search", None)
    assert search("search", account).profile.ideal == plan[0] == search("search", account).profile.ideal
    (charge,) = account.charges
    assert isinstance(charge.profile, NearbyProfile)
    assert charge.profile.ideal == plan[0]
    with pytest.raises(ValueError, match="unused"):
        search("another", account)
    assert sorted(each.name for each in (tmp_path / "another").iterdir()) == ["lock"]


# -- looking -----------------------------------------------------------------------------------------------------------


def test_the_odometer_takes_the_least_level_above(account: Account) -> None:
    whole = account.left
    for number, (rho, level) in enumerate([(whole * 2.0**-9.75, 19), (whole / 4 * 0.99, 4), (whole / 4, 2)]):
        account.charge(str(number), GaussianProfile(rho))
        exact = gaussian_odometer(whole * 2 ** (-level / 2), DELTA / 20)
        assert account.odometer(DELTA) == pytest.approx(exact, rel=1e-9)
        assert account.odometer(DELTA) > account.spent(DELTA)


# -- the folder --------------------------------------------------------------------------------------------------------


def test_a_resumed_run_needs_its_account(account: Account, tmp_path: Path) -> None:
    other = Account(tmp_path / "other", data="other", budget=BUDGET)
    shutil.copytree(tmp_path / "account", tmp_path / "old")
    run = run_of(account, tmp_path / "run")
    train(run, 3)
    run.close()
    run = run_of(Account(tmp_path / "account"), tmp_path / "run")
    assert len(account.charges) == 1
    run.close()
    for wrong in (None, other):
        with pytest.raises(ValueError, match="account was"):
            run_of(wrong, tmp_path / "run")
    shutil.rmtree(tmp_path / "account")
    (tmp_path / "old").rename(tmp_path / "account")
    with pytest.raises(ValueError, match="older copy"):
        run_of(account, tmp_path / "run")


def test_another_account_is_not_opened(account: Account, tmp_path: Path) -> None:
    for options, word in (
        ({"data": "census"}, "data must be 'survey'"),
        ({"budget": Budget(epsilon=4.0, delta=DELTA)}, "budget must be Budget"),
        ({"plan": [GaussianProfile(0.1)]}, "plan must be "),
    ):
        with pytest.raises(ValueError, match=word):
            Account(tmp_path / "account", **options)
    assert Account(tmp_path / "account", data="survey", budget=BUDGET).identity == account.identity
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        Account(tmp_path / "mine", data="x", budget=BUDGET)


def test_a_damaged_or_overdrawn_file_is_refused(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "account" / "account.npz"
    account.charge("first", GaussianProfile(0.1))
    whole = file.read_bytes()
    for place in range(0, len(whole), 37):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"account\.npz"):
            Account(tmp_path / "account")
    file.write_bytes(whole)
    kinds = {kind.__name__: kind for kind in (Budget, Charge, GaussianProfile)}
    state = load(file, kinds)
    for charges, word in (
        ((Charge("a", GaussianProfile(0.1)),) * 2, "twice"),
        ((Charge("a", GaussianProfile(0.2)), Charge("b", GaussianProfile(0.2))), "rest of the account"),
    ):
        save({**state, "charges": charges}, file, kinds, secret=True)
        with pytest.raises(ValueError, match=word):
            Account(tmp_path / "account")


class Killed(BaseException):
    """The process is dead."""


def killed(number: int, *, after: bool) -> Any:
    """Writing, synchronising and renaming; call ``number`` kills the process before or after it."""
    count = [0]

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            count[0] += 1
            if count[0] > number or (count[0] == number and not after):
                raise Killed
            found = real(*arguments)
            if count[0] == number:
                raise Killed
            return found

        return call

    replaced: dict[str, Any] = {name: wrapped(getattr(os, name)) for name in ("write", "fsync", "replace")}
    return mock.patch.multiple(os, **replaced)


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_write_leaves_no_less_than_was_released(tmp_path: Path, after: bool) -> None:
    """Two charges and a run that is settled: the test notes a release after each call has returned."""
    kills = 0
    for number in range(1, 40):
        place, released = tmp_path / str(number), [0.0]
        run = PrivateRun(Budget(0.05), EPOCHS, NuFTRL(0.1), 3)
        rho = {step: run.profile(step).rho for step in (4, 12)}  # type: ignore[attr-defined]
        try:
            with killed(number, after=after):
                account = Account(place, data="x", budget=BUDGET)
                account.charge("first", GaussianProfile(0.02))
                released.append(0.02)
                account.admit("run", run.profile())
                released.append(rho[4])
                account.settle("run", run.profile(4))
                account.charge("second", GaussianProfile(0.03))
                released.append(0.03)
        except Killed:
            kills += 1
        found = Account(place, data="x", budget=BUDGET)
        spent = sum(each.profile.rho for each in found.charges)  # type: ignore[attr-defined]
        assert sum(released) * (1 - 1e-12) <= spent <= 0.02 + 0.03 + rho[12]
        assert sorted(each.name for each in place.iterdir()) == ["account.npz", "lock"]
    assert kills >= 10


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_the_account_is_of_one_user(account: Account, tmp_path: Path) -> None:
    file = tmp_path / "account" / "account.npz"
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o644)
    with pytest.raises(PermissionError):
        account.charge("first", GaussianProfile(0.1))


def test_distances_of_all_runs_add_up(tmp_path: Path) -> None:
    plan = [GaussianProfile(0.9 * BUDGET.gaussian_rho)]
    tau = 0.6 * (1e-6 - plan[0].delta_at(3.0)) / (1 + np.exp(3.0))
    account = Account(tmp_path / "account", data="x", budget=BUDGET, plan=plan)
    account.charge("first", NearbyProfile(GaussianProfile(0.01), tau))
    with pytest.raises(ValueError, match="total variation"):
        account.charge("second", NearbyProfile(GaussianProfile(0.01), tau))
    assert account.odometer(1e-6) == np.inf


def test_a_release_has_a_name(account: Account) -> None:
    with pytest.raises(ValueError, match="name must not be empty"):
        account.charge("", GaussianProfile(0.1))


def test_charges_wait_for_each_other(tmp_path: Path) -> None:
    account = Account(tmp_path / "account", data="x", budget=BUDGET)
    names = [str(number) for number in range(12)]
    threads = [threading.Thread(target=account.charge, args=(name, GaussianProfile(0.001))) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.name for each in account.charges) == sorted(names)


def test_another_account_in_the_folder_and_a_second_refund(tmp_path: Path) -> None:
    account = Account(tmp_path / "account", data="x", budget=BUDGET)
    account.admit("run", GaussianProfile(0.1))
    account.settle("run", GaussianProfile(0.05))
    account.settle("run", GaussianProfile(0.01))
    assert account.charges[0].profile == GaussianProfile(0.05)
    shutil.rmtree(tmp_path / "account")
    Account(tmp_path / "account", data="survey", budget=BUDGET)
    with pytest.raises(ValueError, match="another account"):
        account.charge("second", GaussianProfile(0.1))


def test_an_interrupted_refund_ends_the_run(tmp_path: Path) -> None:
    account = Account(tmp_path / "account", data="x", budget=BUDGET)
    run = PrivateRun(Budget(0.1), EPOCHS, DPSGD(), 3, account=account)
    real = os.replace

    def replaced(*names: object) -> None:
        real(*names)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with mock.patch("os.replace", replaced), pytest.raises(KeyboardInterrupt):
        run.settle()
    assert account.charges[0].settled
    assert run.closed
