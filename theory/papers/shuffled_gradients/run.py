"""A run of shuffled private gradient steps: one description for its accountants, its bounds and its simulator.

Which accountant holds depends on facts that no code can see, so the caller states them: whether the losses are convex,
the clipping, the order, and the releases.  docs/shuffled-gradients.md says which accountant assumes what.

The participation gives the order: any ``fixed_epochs`` or ``reshuffled`` of n steps an epoch, reshuffled with
``reshuffled(…, secret=True)``, shuffled once with ``fixed_epochs(…, secret=True)``: uniform permutations that are
unknown.

An accountant for more releases covers fewer: one for every epoch covers the last iterate.  A run that violates an
assumption is refused with the reason.

A step of learning rate η on a μ-strongly convex and L-smooth loss shrinks distances by max(|1 − ημ|, |1 − ηL|), so
later steps forget a record.  If μ = L, as for mean estimation, noise before the record's use counts as well.

Hyper-parameters chosen on the private data are not accounted for, and noise is idealised real noise.

Source: Jiang, Sharma, Wu and Joshi, Improving the Convergence of Private Shuffled Gradient Methods with Public Data,
2026: Algorithms 1 to 5, Lemmas E.2, E.3 and F.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.shuffled_gradients.accountants import (
    METHODS,
    Accountant,
    Conversion,
    Method,
    accountant_of_nonexpansive_steps,
    per_step_sum,
)
from corrnoise.theory.papers.shuffled_gradients.amplification import StepFactors, composed_amplification_sum
from corrnoise.theory.papers.shuffled_gradients.schedules import (
    Placement,
    Schedule,
    interleaved,
    private_then_public,
    public_then_private,
)
from corrnoise.theory.participation import FixedEpochs, Order, Participation, Reshuffled
from corrnoise.theory.privacy import ADJACENCIES, Budget

Clipping = Literal["none", "cocoercive", "general"]
Released = Literal["last iterate", "every epoch", "every iterate"]
CLIPPING: tuple[str, ...] = get_args(Clipping)
RELEASED: tuple[str, ...] = get_args(Released)

SECRET_ORDERS: dict[str, type[Order]] = {"reshuffled": Reshuffled, "shuffled once": FixedEpochs}  # by ends of names
_ROUNDING_FACTOR = 1 + 2.0**-50  #: rounds up
_MULTIPLIER_INTERVAL = "[1e-99, 1e99]"


@record
class ShuffledGradients(Record):
    """A run of K epochs of n noisy gradient steps, and the facts that its privacy rests on.

    All records are private, with noise at every step, until ``interleaved``, ``private_then_public``,
    ``public_then_private`` or ``noise_at`` says otherwise.

    Parameters
    ----------
    budget : Budget
        The privacy budget.  Its adjacency is zero-out, which needs half the noise, or replace-one: neighbours differ in
        one record, which a gradient of zero or another one replaces.  Its clipping norm is G.
    participation : Participation
        n K steps in K epochs of n steps, one for each private record: ``fixed_epochs`` or ``reshuffled``, secret where
        the permutations are uniform and unknown.
    learning_rate : float
        η > 0 of private steps.
    public_learning_rate : float, optional
        η > 0 of public steps; None for ``learning_rate``.  The noise of a public step shrinks with it.
    smoothness : float
        L > 0: an upper bound of the smoothness of the loss of *every admissible record*, private or public.  It must
        be known without looking at the private records: their largest constant is not a bound.  ``math.inf`` where none
        is known.
    strong_convexity : float, default 0.0
        0 <= μ <= L: a lower bound of the strong convexity of the loss of every admissible record.  Positive ones are
        for unclipped gradients only.
    clipping : {"none", "cocoercive", "general"}
        ``"none"``: nothing is clipped.  Then G bounds the gradients of all admissible private records at all points;
        for replace-one adjacency it suffices that any two of them differ by at most 2G.  ``"cocoercive"``: gradients
        are clipped to the norm G, and clipped gradients are gradients of a convex function with the same smoothness
        (mean estimation, generalised linear models).  ``"general"``: gradients of other losses are
        clipped to the norm G.
    convex : bool
        Whether the losses of all admissible records, private and public, are convex.
    released : {"last iterate", "every epoch", "every iterate"}
        The releases: ``"last iterate"``, the iterate of ``"every epoch"``, or ``"every iterate"``.
    regulariser_convexity : float, default 0.0
        μ_ψ >= 0, strong convexity of the regulariser, which is public.
    private : array_like, optional
        n_k, the number of private steps that each epoch starts with, shape (K,); None for n.
    placement : {"every", "private", "tail", "end"}, default "every"
        Where noise is added in epochs with private steps: see ``Schedule``.

    Raises
    ------
    ValueError
        If an argument is out of its range, or contradicts another one.

    Examples
    --------
    >>> import corrnoise as cn
    >>> budget = cn.Budget(epsilon=1.0, delta=1e-6, adjacency="replace-one")
    >>> run = cn.papers.shuffled_gradients.ShuffledGradients(
    ...     budget, cn.Participation.reshuffled(50_000, epochs=50, secret=True), learning_rate=0.1, smoothness=1.0,
    ...     clipping="cocoercive", convex=True, released="last iterate",
    ... )
    >>> z = run.noise_multiplier()
    >>> round(z, 3), run.epsilon_at(1e-6, noise_multiplier=z) <= 1.0
    (5.286, True)
    >>> round(run.interleaved(500).noise_multiplier(), 3)
    1.771
    """

    budget: Budget
    participation: Participation
    _: KW_ONLY
    learning_rate: float
    public_learning_rate: float | None = None
    smoothness: float
    strong_convexity: float = 0.0
    clipping: Clipping
    convex: bool
    released: Released
    regulariser_convexity: float = 0.0
    private: ArrayLike | None = None
    placement: Placement = "every"

    def __post_init__(self) -> None:
        self._check(budget=Budget)
        who = checks.instance("participation", self.participation, Participation)
        if not isinstance(who, FixedEpochs | Reshuffled) or not who.saturated or who.length % who.period:
            raise ValueError(f"participation must be in whole epochs, fixed or reshuffled, got {who!r}")
        n = self.samples
        schedule = Schedule(n, np.full(self.epochs, n) if self.private is None else self.private, self.placement)
        if schedule.epochs != self.epochs:
            raise ValueError(f"private must have shape (epochs,) = ({self.epochs},), got {schedule.private.shape}")
        if not (isinstance(self.smoothness, float) and self.smoothness == math.inf):
            self._set(smoothness=checks.real("smoothness", self.smoothness, "(0, inf)"))
        self._check(learning_rate="(0, inf)", public_learning_rate="(0, inf)", convex=bool)
        self._check(clipping=CLIPPING, released=RELEASED)
        self._check(strong_convexity="[0, inf)", regulariser_convexity="[0, inf)")
        self._set(private=schedule.private)
        if self.strong_convexity > self.smoothness:
            raise ValueError(
                f"strong_convexity must be at most smoothness = {self.smoothness!r}, got {self.strong_convexity!r}"
            )
        if self.strong_convexity > 0 and not self.convex:
            raise ValueError(f"convex must be True where strong_convexity is positive, {self.strong_convexity!r}")
        if self.strong_convexity > 0 and self.clipping != "none":
            raise ValueError(
                f"strong_convexity must be 0 for clipping {self.clipping!r}, got {self.strong_convexity!r}: clipped "
                "gradients are not gradients of a strongly convex function"
            )

        if self.strong_convexity > 0 and self.budget.adjacency == "zero-out":
            raise ValueError(
                "adjacency must be 'replace-one' where strong_convexity is positive, got 'zero-out': gradients of "
                "strongly convex losses have no bound G"
            )

    # -- which run ----------------------------------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """The number n of private records, and of steps of an epoch."""
        return self.participation.worst.period

    @property
    def epochs(self) -> int:
        """K."""
        return self.participation.length // self.participation.worst.period

    @property
    def schedule(self) -> Schedule:
        """Which steps see private records, and which add noise."""
        return Schedule(self.samples, np.asarray(self.private), self.placement)

    def _with(self, schedule: Schedule) -> ShuffledGradients:
        changed = {"private": schedule.private, "placement": schedule.placement}
        return ShuffledGradients(**{**self.arguments(), **changed})

    def interleaved(self, private_per_epoch: int) -> ShuffledGradients:
        """Return this run with only ``private_per_epoch`` private steps in each epoch, public ones after them.

        In a given order, or one that is shuffled once, the same records are used in every epoch, and no others.

        Parameters
        ----------
        private_per_epoch : int
            Private steps of an epoch, in [1, n].

        Returns
        -------
        ShuffledGradients
        """
        return self._with(
            interleaved(self.samples, epochs=self.epochs, private_per_epoch=private_per_epoch, placement=self.placement)
        )

    def private_then_public(self, private_epochs: int) -> ShuffledGradients:
        """Return this run with private records in its first ``private_epochs`` epochs, public ones in the others.

        Parameters
        ----------
        private_epochs : int
            Epochs with private records, in [0, K].

        Returns
        -------
        ShuffledGradients
        """
        found = private_then_public(self.samples, epochs=self.epochs, private_epochs=private_epochs)
        return self._with(Schedule(self.samples, found.private, self.placement))

    def public_then_private(self, private_epochs: int) -> ShuffledGradients:
        """Return this run with private records in its last ``private_epochs`` epochs, public ones in the others.

        Parameters
        ----------
        private_epochs : int
            Epochs with private records, in [0, K].

        Returns
        -------
        ShuffledGradients
        """
        found = public_then_private(self.samples, epochs=self.epochs, private_epochs=private_epochs)
        return self._with(Schedule(self.samples, found.private, self.placement))

    def noise_at(self, placement: Placement) -> ShuffledGradients:
        """Return this run with its noise elsewhere; see ``Schedule``.

        Parameters
        ----------
        placement : {"every", "private", "tail", "end"}
            The steps that add noise in epochs with private steps.

        Returns
        -------
        ShuffledGradients
        """
        return self._with(Schedule(self.samples, np.asarray(self.private), placement))

    @property
    def step_factors(self) -> StepFactors:
        """How far the steps shrink differences, rounded up, and how loud public steps are."""
        rates = self.learning_rate, self.public_learning_rate or self.learning_rate
        return StepFactors(
            private_contraction=self._contraction(rates[0]),
            public_contraction=self._contraction(rates[1]),
            prox=min(_ROUNDING_FACTOR / (1 + min(rates) * self.samples * self.regulariser_convexity), 1.0),
            public_noise=rates[1] / rates[0] / _ROUNDING_FACTOR if rates[0] != rates[1] else 1.0,
            linear=0 < self.strong_convexity == self.smoothness,
        )

    def _contraction(self, rate: float) -> float:
        if self.strong_convexity == 0:
            return 1.0
        factor = max(abs(1 - rate * self.strong_convexity), abs(1 - rate * self.smoothness))
        return min(factor + (1 + factor) * (_ROUNDING_FACTOR - 1), 1.0)

    # -- which accountant ---------------------------------------------------------------------------------------------

    def _expansion(self) -> str | None:
        """Why steps between the first private one and the last noise may drive two iterates apart; None if none may."""
        if not self.convex:
            return "convex must be True, got False: gradient steps of other losses may expand"
        if self.clipping == "general":
            return (
                "clipping must be 'none' or 'cocoercive', got 'general': clipped gradients of a general convex loss "
                "may expand"
            )
        if self.learning_rate * self.smoothness > 2:
            return (
                f"learning_rate must be at most 2/smoothness = {2 / self.smoothness!r}, got {self.learning_rate!r}: "
                "longer steps may expand"
            )
        private = np.asarray(self.private)
        using = np.nonzero(private)[0]
        public_rate = self.public_learning_rate
        mixed = using.size > 0 and bool((private[using[0] : using[-1] + 1] < self.samples).any())
        if mixed and public_rate is not None and public_rate * self.smoothness > 2:
            return (
                f"public_learning_rate must be at most 2/smoothness = {2 / self.smoothness!r}, got {public_rate!r}: "
                "longer steps may expand"
            )
        return None

    def _refusal(self, method: Method) -> str | None:
        """Why the accountant does not hold for this run; None if it does."""
        schedule = self.schedule
        for order, cls in SECRET_ORDERS.items():
            if method.endswith(order) and not (isinstance(self.participation, cls) and self.participation.secret):
                return f"participation must be {cls.label} and secret, got {self.participation!r}"
        if method != "per-step" and self.released == "every iterate":
            return "released must be 'last iterate' or 'every epoch', got 'every iterate'"
        if method.startswith("whole-run") and self.released != "last iterate":
            return f"released must be 'last iterate', got {self.released!r}"
        counts = np.unique(schedule.private[schedule.private > 0])
        if method == "epochs reshuffled" and counts.size > 1:
            return f"private must be the same in every private epoch, got {counts[0]} to {counts[-1]}"
        if method == "per-step":
            return None
        composed = composed_amplification_sum(schedule, reshuffled=isinstance(self.participation, Reshuffled))
        if method == "per-epoch" and composed == per_step_sum(schedule):
            return None
        return self._expansion()

    def accountants(self) -> tuple[Method, ...]:
        """The accountants that hold for this run.

        Returns
        -------
        tuple of Method
        """
        return tuple(method for method in get_args(Method) if self._refusal(method) is None)

    def accountant(self, method: Method) -> Accountant:
        """The accountant ``method`` of this run, for replace-one adjacency.

        Parameters
        ----------
        method : str
            The name of an accountant.

        Returns
        -------
        Accountant

        Raises
        ------
        ValueError
            If the run violates an assumption of the accountant; the message names it, and the accountants that hold.
        """
        method = checks.choice("accountant", method, METHODS)
        if (refusal := self._refusal(method)) is not None:
            others = ", ".join(map(repr, self.accountants()))
            raise ValueError(f"{refusal} (for the accountant {method!r}; of this run hold {others})")
        return _accountant(self, method)

    def require_cover(self) -> None:
        """Raise unless an accountant covers this run with some noise."""
        if all(np.isinf(self.accountant(method).sums).any() for method in self.accountants()):
            reason = self._expansion() or self._refusal("per-epoch") or "no noise is added after a private step"
            raise ValueError(f"{reason}; 'per-step', which needs no such thing, needs noise at every private step")

    def _tightest(self, accountant: str, value: Callable[[Accountant], float]) -> float:
        """The smallest ``value``, of one accountant or of all that hold."""
        if accountant != "tightest":
            checks.choice("accountant", accountant, ("tightest", *METHODS))
            return value(self.accountant(accountant))  # type: ignore[arg-type]
        self.require_cover()
        return min(value(self.accountant(method)) for method in self.accountants())

    @property
    def _sensitivity(self) -> float:
        """The sensitivity of a step relative to that of replace-one adjacency."""
        return ADJACENCIES[self.budget.adjacency] / ADJACENCIES["replace-one"]

    # -- privacy ------------------------------------------------------------------------------------------------------

    def noise_multiplier(
        self, accountant: Method | Literal["tightest"] = "tightest", *, conversion: Conversion | None = None
    ) -> float:
        """The noise multiplier σ/G that keeps the run to its budget, never too small.

        It is for the noise N(0, σ² I) that is added to gradients.  Relative excess below 1e-8.

        Parameters
        ----------
        accountant : str, default "tightest"
            The name of an accountant; ``"tightest"`` for the smallest multiplier of all that hold.
        conversion : {"gaussian", "zcdp", "published"}, optional
            Of an accountant to (ε, δ), see ``Accountant.epsilon``; None for the sharpest.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the accountant does not hold, or no accountant gives a finite bound.
        """
        rho = self.budget.rho
        if rho is not None:
            return self._sensitivity * self._tightest(accountant, lambda found: found.noise_multiplier_of_zcdp(rho))
        epsilon = checks.real("epsilon", self.budget.epsilon, "(0, inf)")
        delta = checks.real("delta", self.budget.delta, "(0, 1)")
        return self._sensitivity * self._tightest(
            accountant,
            lambda found: found.noise_multiplier(
                epsilon=epsilon, delta=delta, conversion=_conversion(found, conversion)
            ),
        )

    def epsilon_at(
        self,
        delta: float,
        *,
        noise_multiplier: float,
        accountant: Method | Literal["tightest"] = "tightest",
        conversion: Conversion | None = None,
    ) -> float:
        """The ε such that the run is (ε, δ)-DP, never too small.

        Accountant and conversion as for ``noise_multiplier``, which is here in [1e-99, 1e99].

        Parameters
        ----------
        delta : float
            0 < δ < 1.
        noise_multiplier : float
            σ/G in [1e-99, 1e99].
        accountant : str, default "tightest"
            The name of an accountant; ``"tightest"`` for the smallest value of all that hold.
        conversion : {"gaussian", "zcdp", "published"}, optional
            The conversion to (ε, δ), see ``Accountant.epsilon``; None for the sharpest.

        Returns
        -------
        float
        """
        z = checks.real("noise_multiplier", noise_multiplier, _MULTIPLIER_INTERVAL) / self._sensitivity
        return self._tightest(
            accountant,
            lambda found: found.epsilon(delta, noise_multiplier=z, conversion=_conversion(found, conversion)),
        )

    def delta_at(
        self, epsilon: float, *, noise_multiplier: float, accountant: Method | Literal["tightest"] = "tightest"
    ) -> float:
        """A δ such that the run is (ε, δ)-DP, never too small.

        The arguments are those of ``epsilon_at``.  Of ``"epochs reshuffled"`` no curve is known: ``"tightest"`` leaves
        it out.

        Parameters
        ----------
        epsilon : float
            ε > 0.
        noise_multiplier : float
            σ/G in [1e-99, 1e99].
        accountant : str, default "tightest"
            The name of an accountant; ``"tightest"`` for the smallest value of all that hold.

        Returns
        -------
        float
        """
        z = checks.real("noise_multiplier", noise_multiplier, _MULTIPLIER_INTERVAL) / self._sensitivity
        skipped = accountant == "tightest"
        return self._tightest(
            accountant,
            lambda found: 1.0 if skipped and not found.has_curve else found.delta(epsilon, noise_multiplier=z),
        )


def _conversion(found: Accountant, conversion: Conversion | None) -> Conversion:
    """The conversion that was asked for, or the sharpest that applies."""
    if conversion is not None:
        return conversion
    return "gaussian" if found.has_curve else "zcdp"


@lru_cache(maxsize=64)
def _accountant(run: ShuffledGradients, method: Method) -> Accountant:
    return accountant_of_nonexpansive_steps(
        run.schedule, method, reshuffled=isinstance(run.participation, Reshuffled), factors=run.step_factors
    )
