"""The account of a data set: all that was spent of its privacy budget, on the disk before anything is released.

The budget is fixed when the account is opened, by a *plan*: profiles whose composition is within it.  Gaussian profiles
of the plan give ρ that any Gaussian runs may use, with noise, lengths and stops chosen by looking at earlier releases.
Each of the other profiles, of sampled batches and of searches, may be used once, in any order, or not at all.

**Theorem.**  Everything that is released under an account is within its budget.

*Proof.*  Let F be convex, W standard normal, R the unused profiles with ratios Λ_i, and c = μ² − Σ|a|² >= 0 where a
release adds noise N(0, 1) to a function a of the past.  V(λ, R, c) = E F(λ Π_R Λ_i e^{√c W − c/2}) is convex in λ, and
V >= F by Jensen.  A Gaussian release keeps the mean of V, since c is known before it.  A run of the plan has a ratio
that its profile dominates given the past, so that it does not raise the mean of V.  So E F(Λ) <= V(1, plan, μ²).  Runs
may also be interleaved: each is an interactive mechanism, and the bounds of interactive mechanisms compose like those
of others (Vadhan, Zhang, arXiv 2207.08335); all Gaussian releases together are one, with μ-GDP by the same proof.  ∎

A run is charged in full before its first step.  A crash at any time leaves a charge too much, never too little.  A
Gaussian run that ends for ever (``PrivateRun.settle``) gives back the unused part.

The folder holds ``account.npz``, which is written whole, and ``lock``.  Runs keep the identity of their account, and go
on with it alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flint import arb, ctx

from corrnoise.simulations.run import draws, owned
from corrnoise.support.serialise import by_name, load, save
from corrnoise.theory.amplification.accountant import CutCurve
from corrnoise.theory.amplification.bins import BinsCurve, RedrawnBinsCurve
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.amplification.spaced import SpacedCurve
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import rounded_up
from corrnoise.theory.privacy import Budget, gaussian_odometer
from corrnoise.theory.profile import GaussianProfile, NearbyProfile, Profile, SampledProfile, compose
from corrnoise.theory.selection import BinomialTrials, NegativeBinomialTrials, PoissonTrials, SelectionProfile

FORMAT = "corrnoise account 1"  #: of the file
_ACCOUNT_FILE, _LOCK_FILE = "account.npz", "lock"
_LOCK_SECONDS = 30.0  # to wait for another process
_ODOMETER_LEVELS = 20
_OLD_COPY = "which was restored from an older copy, and understates: restore the newest"
_MAX_SHOWN_CHARGES = 10  # of a summary


@record
class Charge(Record):
    """The price of one run, search or release.

    Parameters
    ----------
    name : str
        A name of its own.
    profile : Profile
        The privacy that is paid for.
    settled : bool, default False
        Whether it is a run that has ended for ever.
    """

    name: str
    profile: Profile
    settled: bool = False

    def __post_init__(self) -> None:
        self._check(name=str, profile=Profile, settled=bool)


_KINDS = by_name(
    *(Budget, Charge, GaussianProfile, NearbyProfile, SampledProfile, SelectionProfile),
    *(BinomialTrials, NegativeBinomialTrials, PoissonTrials),
    *(PoissonCurve, Factor, CutCurve, BinsCurve, RedrawnBinsCurve, SpacedCurve),
)


class Account:
    """The privacy budget of one data set, and all that was spent of it.

    Parameters
    ----------
    folder : path
        The folder of this account alone; made if it does not exist.
    data : str, optional
        The name of the data set; required for a new account.
    budget : Budget, optional
        ε and δ, or ρ, of everything that is ever released from the data; required for a new account.
    plan : sequence of Profile, optional
        Profiles that together are within the budget: Gaussian ones, whose ρ any Gaussian runs may use; and of each
        sampled run or search that will be made.  None for Gaussian runs alone.

    Raises
    ------
    ValueError
        The plan exceeds the budget, or the folder has another account or is damaged.
    BlockingIOError
        Another process keeps the lock for 30 seconds.

    Notes
    -----
    Whoever decides on runs and stops sees releases and public facts alone, never scores on private data.  Runs with
    other libraries are charged by hand, with ``charge``.  An older copy of the folder understates.

    Examples
    --------
    >>> import tempfile, corrnoise as cn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = cn.Account(folder, data="survey", budget=cn.Budget(epsilon=3.0, delta=1e-6))
    ...     account.charge("histogram", cn.privacy.GaussianProfile(0.05))
    ...     run = cn.PrivateRun(cn.Budget(account.left / 2), cn.Participation.single(10), cn.mechanisms.DPSGD(), 3,
    ...                         account=account)
    ...     round(account.spent(1e-6), 2)
    2.3
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        data: str | None = None,
        budget: Budget | None = None,
        plan: Sequence[Profile] | None = None,
    ) -> None:
        self._home = Path(folder).absolute()
        owned.make_folder(self._home)
        owned.check_folder(self._home)
        given: dict[str, Any] = {"data": data, "budget": budget}
        with self._locked():
            if not (self._home / _ACCOUNT_FILE).exists():
                self._begin(**given, plan=plan)
            state = self._read()
        given["plan"] = None if plan is None else _checked_plan(plan, state["budget"])
        for name, value in given.items():
            if value is not None and value != state[name]:
                raise ValueError(
                    f"{name} must be {state[name]!r:.120}, as in the account in {self._home}, got {value!r:.120}: "
                    "take another folder for other data; a budget stays as it was"
                )
        self.identity: str = state["identity"]
        self.data: str = state["data"]
        self.budget: Budget = state["budget"]
        self.plan: tuple[Profile, ...] = state["plan"]

    def _begin(self, data: str | None, budget: Budget | None, plan: Sequence[Profile] | None) -> None:
        strangers = sorted(each.name for each in self._home.iterdir() if each.name != _LOCK_FILE)
        if strangers and strangers != [f"{_ACCOUNT_FILE}.corrnoise-new"]:
            raise ValueError(f"folder must be new or have an account, got {self._home} with {strangers[0]!r} in it")
        name, whole = checks.instance("data", data, str), checks.instance("budget", budget, Budget)
        if not name:
            raise ValueError("data must be the name of a data set, got ''")
        if plan is None:
            # The float below δ leaves room for the total variations of proved noise.
            inner = whole if whole.delta is None else replace(whole, delta=math.nextafter(whole.delta, 0.0))
            chosen: tuple[Profile, ...] = (GaussianProfile(inner.gaussian_rho, adjacency=whole.adjacency),)
        else:
            chosen = _checked_plan(plan, whole)
        state = {"identity": draws.fresh(16).hex(), "data": name, "budget": whole, "plan": chosen, "charges": ()}
        self._write({"format": FORMAT, **state})

    @contextmanager
    def _locked(self) -> Iterator[None]:
        message = f"the account in {self._home} is in use by another process: wait for its end"
        lock = owned.locked(self._home / _LOCK_FILE, message, _LOCK_SECONDS)
        try:
            yield
        finally:
            lock.release()

    def _read(self) -> dict[str, Any]:
        path = self._home / _ACCOUNT_FILE
        owned.check_file(path)
        return dict(load(path, _KINDS, check=_checked_state))

    def _write(self, state: dict[str, Any]) -> None:
        save(state, self._home / _ACCOUNT_FILE, _KINDS, secret=True)

    def _charges(self) -> tuple[Charge, ...]:
        """The charges that are on the disk now."""
        state = self._read()
        if state["identity"] != self.identity:
            raise ValueError(f"{self._home} holds another account than this object was opened with: open it again")
        found: tuple[Charge, ...] = state["charges"]
        return found

    def _keep(self, charges: tuple[Charge, ...]) -> None:
        self._write({**self._read(), "charges": charges})

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, oldest first."""
        with self._locked():
            return self._charges()

    @property
    def left(self) -> float:
        """ρ that Gaussian runs may still use, rounded down: the budget of the next run is ``Budget(account.left)``."""
        return _left(self.plan, self.charges)

    def spent(self, delta: float) -> float:
        """The ε of all charges so far, at δ.

        Parameters
        ----------
        delta : float
            0 < δ < 1.

        Returns
        -------
        float
            ε >= 0, rounded up.  It holds for charges that were fixed beforehand.  Whatever was decided by looking, the
            budget holds; and for Gaussian charges ``odometer``.
        """
        charges = self.charges
        return compose(*(each.profile for each in charges)).epsilon_at(delta) if charges else 0.0

    def odometer(self, delta: float) -> float:
        """An ε of all charges so far that may be published at any time, also where the time was chosen by looking.

        Parameters
        ----------
        delta : float
            0 < δ < 1.

        Returns
        -------
        float
            ε >= 0, by ``gaussian_odometer`` at the least of 20 levels of ρ that has not been exceeded.

        Raises
        ------
        ValueError
            The plan has other profiles than Gaussian ones.
        """
        share = checks.real("delta", delta, "(0, 1)") / _ODOMETER_LEVELS * (1 - 2.0**-51)
        if not all(isinstance(each, GaussianProfile) for each in self.plan):
            raise ValueError("plan must be Gaussian for an odometer, got other profiles: state the whole budget")
        whole, charges = _left(self.plan, ()), self.charges
        if not charges:
            return 0.0
        levels = [whole * 2.0 ** (-j / 2) for j in range(_ODOMETER_LEVELS)]
        used = _rho(charges)
        found = gaussian_odometer(min(level for level in levels if level >= used or level == whole), share)
        with ctx.workprec(128):  # δ left out for total variations
            covered = (1 + arb(found).exp()) * _total_variation(charges) <= arb(delta) * arb(2) ** -51
        return found if covered else math.inf

    def charge(self, name: str, profile: Profile) -> None:
        """Pay for a release, on the disk when this returns; release afterwards.

        Parameters
        ----------
        name : str
            A name that no other charge has.
        profile : Profile
            The privacy of the release.

        Raises
        ------
        ValueError
            The rest of the plan does not cover the profile, or the name is taken.  Nothing is paid then.
        """
        if not checks.instance("name", name, str):
            raise ValueError("name must not be empty: name each release")
        with self._locked():
            charges = self._charges()
            if any(each.name == name for each in charges):
                raise ValueError(f"name must be new, got {name!r}, which is charged: name each release")
            self._keep(self._paid(charges, Charge(name, profile)))

    def check(self, profile: Profile) -> None:
        """Refuse a profile that the rest of the plan does not cover.

        Parameters
        ----------
        profile : Profile
            The privacy of a run.
        """
        self._paid(self.charges, Charge("", profile))

    def _paid(self, charges: tuple[Charge, ...], new: Charge) -> tuple[Charge, ...]:
        """The charges with a new one, which the rest of the plan covers, with all total variations."""
        found = _charged(self.plan, charges, new)
        total = _total_variation(found)
        if total and self.budget.epsilon is not None:
            assert self.budget.delta is not None
            if NearbyProfile(compose(*self.plan), total).delta_at(self.budget.epsilon) > self.budget.delta:
                raise ValueError(
                    f"plan must leave room for a total variation of {total:.3g} of proved noise, got one that uses all "
                    f"of delta={self.budget.delta!r}: open an account whose plan has a slightly smaller rho"
                )
        return found

    def admit(self, name: str, profile: Profile, *, started: bool = False) -> None:
        """Pay for a run before its first step, or find it paid when it is resumed; runs and searches call it.

        Parameters
        ----------
        name : str
            The name of the run, which no other run has.
        profile : Profile
            The privacy of the whole run.
        started : bool, default False
            Whether it has made steps, so that it must be paid already.
        """
        with self._locked():
            charges = self._charges()
            for each in charges:
                if each.name == name:
                    if each.settled:
                        raise ValueError(f"{name} was settled and has ended for ever: begin another run")
                    return
            if started:
                raise ValueError(f"{name} is not in the account in {self._home}, {_OLD_COPY}")
            self._keep(self._paid(charges, Charge(name, profile)))

    def settle(self, name: str, profile: Profile) -> None:
        """Take back the unused part of a run that has ended for ever; ``PrivateRun.settle`` calls it.

        Parameters
        ----------
        name : str
            The name of the run.
        profile : Profile
            The privacy of the steps that were made; sampled runs stay charged in full.
        """
        with self._locked():
            charges = list(self._charges())
            found = [i for i, each in enumerate(charges) if each.name == name]
            if not found:
                raise ValueError(f"{name} is not in the account in {self._home}, {_OLD_COPY}")
            old = charges[found[0]]
            before, now = _plain(old.profile), _plain(profile)
            smaller = (
                isinstance(before, GaussianProfile)
                and isinstance(now, GaussianProfile)
                and now.rho < before.rho
                and not old.settled
            )
            charges[found[0]] = Charge(name, profile if smaller else old.profile, True)
            self._keep(tuple(charges))

    def summary(self) -> str:
        """The budget and the last charges, a line each.

        Returns
        -------
        str
        """
        charges = self.charges
        lines = [f"account of {self.data}: {self.budget.in_words()}", f"left: ρ = {_left(self.plan, charges):.6g}"]
        for each in charges[-_MAX_SHOWN_CHARGES:]:
            one = _plain(each.profile)
            price = f"ρ = {one.rho:.6g}" if isinstance(one, GaussianProfile) else type(one).__name__
            lines.append(f"{each.name}: {price}{', settled' if each.settled else ''}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Account({str(self._home)!r}, data={self.data!r}, budget={self.budget!r})"


def _plain(profile: Profile) -> Profile:
    """The profile of the ideal mechanism, without the numbers that were verified for a run."""
    ideal = profile.ideal if isinstance(profile, NearbyProfile) else profile
    return replace(ideal, verified=None) if isinstance(ideal, SampledProfile) else ideal


def _checked_plan(plan: Sequence[Profile], budget: Budget) -> tuple[Profile, ...]:
    """The plan, whose composition is within the budget."""
    chosen = tuple(_plain(checks.instance("plan", each, Profile)) for each in plan)
    if not chosen:
        raise ValueError("plan must have at least one profile, got none")
    whole = compose(*chosen)
    if whole.adjacency != budget.adjacency:
        raise ValueError(f"plan must have the adjacency of the budget, {budget.adjacency!r}, got {whole.adjacency!r}")
    if budget.rho is not None:
        within = isinstance(whole, GaussianProfile) and whole.rho <= budget.rho
        found = f"{whole!r:.80}"
    else:
        assert budget.epsilon is not None
        assert budget.delta is not None
        spent = whole.delta_at(budget.epsilon)
        within, found = spent <= budget.delta, f"delta={spent:.3g} at epsilon={budget.epsilon:g}"
    if not within:
        raise ValueError(f"plan must be within the budget, {budget.in_words()}, got {found}: plan less, or more noise")
    return chosen


def _sum_of_rho(profiles: Iterable[Profile]) -> arb:
    """The sum of the ρ of Gaussian profiles."""
    return sum((arb(each.rho) for each in profiles if isinstance(each, GaussianProfile)), arb(0))


def _rho(charges: tuple[Charge, ...]) -> float:
    """The ρ of all Gaussian charges, rounded up."""
    with ctx.workprec(128):
        return rounded_up(_sum_of_rho(_plain(each.profile) for each in charges))


def _total_variation(charges: tuple[Charge, ...]) -> float:
    """The total variations of all charges for proved noise, rounded up."""
    near = (arb(each.profile.total_variation) for each in charges if isinstance(each.profile, NearbyProfile))
    with ctx.workprec(128):
        return rounded_up(sum(near, arb(0)))


def _left(plan: tuple[Profile, ...], charges: tuple[Charge, ...]) -> float:
    """ρ of the plan that no charge uses, rounded down; negative where too much is charged."""
    with ctx.workprec(128):
        return 0.0 - rounded_up(_sum_of_rho(_plain(each.profile) for each in charges) - _sum_of_rho(plan))


def _charged(plan: tuple[Profile, ...], charges: tuple[Charge, ...], new: Charge) -> tuple[Charge, ...]:
    """The charges with a new one, which the rest of the plan covers."""
    profile = _plain(new.profile)
    plan[0].check_same_data(profile)
    if isinstance(profile, GaussianProfile):
        if profile.rho > (left := _left(plan, charges)):
            raise ValueError(
                f"profile must be within the rest of the account, rho={max(left, 0.0):.6g}, got "
                f"rho={profile.rho:.6g}: give the run the budget Budget(account.left), or fewer steps"
            )
    else:
        unused = list(plan)
        for each in charges:
            if _plain(each.profile) in unused:
                unused.remove(_plain(each.profile))
        if profile not in unused:
            raise ValueError(
                f"profile must be in the plan of the account and unused, got {profile!r:.80}: the budget covers "
                "sampled runs and searches that were planned at the opening, with the same noise"
            )
    return (*charges, new)


def _checked_state(state: Any) -> dict[str, Any]:
    """The content of the file, whose charges are within the plan."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"its format must be {FORMAT!r}")
    plan = state["plan"]
    charges: tuple[Charge, ...] = ()
    for each in state["charges"]:
        charges = _charged(plan, charges, each)
    if len({each.name for each in charges}) < len(charges):
        raise ValueError("it has a name twice")
    return state
