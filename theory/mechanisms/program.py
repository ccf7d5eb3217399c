"""A program: the noise of a run with its arithmetic, and the sensitivity that covers it.

No noise multiplier exists apart from a program.  A mechanism is asked for one, ``mechanism.program(participation)``;
the program holds the numbers that run (rounded to their type), the form of the recurrence, the factors of steps and
draws, and an upper bound of the sensitivity that includes the rounding errors of all this.

==========================  ==========================================================================  ==============
form                        recurrence                                                                  mechanisms
==========================  ==========================================================================  ==============
``"cascade"``               first-order sections, in gap form                                           rational noise
``"delay line"``            a ring of the last draws                                                    few coefficients
``"substitution"``          a triangular strategy is inverted step by step                              triangular
``"tree"``                  one node for each binary digit of the step                                  trees
``"transform"``             all steps at once by fast Fourier transforms                                Toeplitz noise
``"buffers"``               y = z − Σ_i ω_i x_i, then x_i ← θ_i x_i + y, by another program             rational noise
``"time-varying buffers"``  y = z − Σ_i o_i x_i, then x_i ← θ_i x_i + i_i y, with o, i of the step       finite runs
``"replayed buffers"``      the same with z + Σ_e a_e z_{t−eb} for z, of draws that are made again          fixed epochs
``"strategy column"``       y_t = (z_t − Σ_{k>=1} c_k y_{t−k})/c_0, by another program                  Toeplitz noise
``"noising column"``        y_t = Σ_k β_k z_{t−k}, by another program                                   Toeplitz noise
==========================  ==========================================================================  ==============
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from flint import arb, ctx

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNITS, Dtype, as_stored, rounded_up
from corrnoise.theory.participation import Participation, Sampled, Single
from corrnoise.theory.privacy import ADJACENCIES, Adjacency, Budget, uncut_delta

if TYPE_CHECKING:
    from corrnoise.theory.amplification.curve import Curve
    from corrnoise.theory.profile import Profile

Form = Literal[
    "cascade",
    "delay line",
    "substitution",
    "tree",
    "transform",
    "buffers",
    "time-varying buffers",
    "replayed buffers",
    "strategy column",
    "noising column",
]
#: Forms that other programs run, with the names of their numbers in files.
HANDED_OVER: tuple[Form, ...] = ("buffers", "strategy column", "noising column")

#: Forms whose steps can be made without rounding.
EXACT_FORMS: tuple[Form, ...] = (
    "cascade",
    "delay line",
    "substitution",
    "time-varying buffers",
    "replayed buffers",
    "tree",
)
#: Distance of a run with exact numbers from post-processing of the ideal mechanism, for random bits.
TOTAL_VARIATION = 2.0**-256
_LEAST_EXACT_DELTA, _LARGEST_EXACT_EPSILON = 2.0**-100, 69.0  # whose float below δ leaves (1 + e^ε) τ

_FLOAT32_RANGE = (1e-30, 1e30)  # standard deviations that float32 holds, with the noise of all steps
_ENDLESS_STEPS = 10**9  # steps, in place of any number
INCREASE = 1e-3  #: the largest relative increase of the sensitivity that is paid for float32


class SamplingAccountant(Protocol):
    """An accountant of sampled batches that replaces the certified one; its failure is a part of δ."""

    def multiplier(self, program: Any, budget: Budget) -> float:
        """The noise multiplier of a program for a budget."""
        ...

    def certificate(self, program: Any, budget: Budget) -> Any:
        """A new noise multiplier with its evidence: ``noise_multiplier`` and ``arguments()``."""
        ...

    def verified(self, program: Any, budget: Budget, described: Mapping[str, Any]) -> Any:
        """The certificate with these arguments, checked again."""
        ...


@record
class Program(Record):
    """The noise that is really made, and the sensitivity that covers it; ``Mechanism.program`` makes it.

    Parameters
    ----------
    mechanism : object
        The mechanism with the numbers of the run, rounded to ``dtype``.
    participation : Participation
        The data order or sampling of the run.
    dtype : {"float64", "float32", "exact"}
        ``"float32"`` or ``"float64"``: type of all numbers and operations between the draws and the finished noise;
        both may be rounded to float32.  ``"exact"``: the numbers are those of float64, and no operation rounds.
    form : str
        The recurrence; see the module.
    sensitivity : float
        Upper bound of the zero-out sensitivity for one example, rounding errors included, for the worst case of
        ``participation``.  Exact numbers have no rounding errors to include.
    """

    mechanism: Any
    participation: Participation
    dtype: Dtype
    form: Form
    sensitivity: float

    @property
    def memory(self) -> int:
        """Arrays of the size of the gradient that a run keeps from one step to the next."""
        return int(self.mechanism.memory(self.participation.steps or _ENDLESS_STEPS))

    @property
    def replays(self) -> int:
        """The number of earlier draws that a step makes again."""
        return len(self.mechanism.replays) if self.form == "replayed buffers" else 0

    @property
    def step_scales(self) -> Array | None:
        """Factors of the noise of the steps, shape (n,); None without factors."""
        return getattr(self.mechanism, "step_scales", None)

    @property
    def draw_scales(self) -> Array | None:
        """Factors of the independent noise of the steps, shape (n,); None without factors."""
        return getattr(self.mechanism, "draw_scales", None)

    @property
    def unscaled(self) -> Any:
        """The mechanism without the factors of steps and draws."""
        return getattr(self.mechanism, "noise", self.mechanism)

    @property
    def arrays(self) -> dict[str, Array]:
        """The numbers that run, rounded to ``dtype``, by the names that files and other libraries use.

        Factors of steps and draws are among them, if any.  A tree has no numbers of its own.
        """
        noise = self.unscaled
        if self.form == "buffers":
            found = {"buf_decay": noise.buf_decay, "output_scale": noise.output_scale}
        elif self.form in ("time-varying buffers", "replayed buffers"):
            found = {"buf_decay": noise.decays, "output_scale": noise.outputs, "input_scale": noise.inputs}
            found |= {"replays": noise.replays} if self.replays else {}
        elif self.form == "strategy column":
            found = {"strategy_coef": as_stored(noise.inverse_coefficients(self.participation.length), self.dtype)}
        elif self.form == "noising column":
            found = {"noising_coef": as_stored(noise.coefficients(self.participation.length), self.dtype)}
        elif self.form == "cascade":
            found = dict(zip(("zeros", "poles"), noise.sections(), strict=True))
        else:
            found = {name: value for name, value in noise.arguments().items() if isinstance(value, np.ndarray)}
        scales = {"step_scales": self.step_scales, "draw_scales": self.draw_scales}
        return found | {name: value for name, value in scales.items() if value is not None}

    def multiplier(self, budget: Budget, *, accountant: SamplingAccountant | None = None) -> float:
        """Standard deviation of the independent noise in units of the clipping norm; never too small.

        For sampled batches the accountant gives it, or the worst case where this is smaller.  It has
        been verified by bounds of δ at this number.  With exact numbers it is the multiplier of the float
        below δ, which leaves (1 + e^ε) 2⁻²⁵⁶ for the total variation of proved noise.

        Parameters
        ----------
        budget : Budget
            The privacy budget: for sampled batches ε and δ, for zero-out adjacency.
        accountant : SamplingAccountant, optional
            ``cn.privacy.MonteCarlo(…)`` for balls in bins and b-min-sep sampling; None for certified bounds.

        Raises
        ------
        ValueError
            The standard deviation is outside of the range of float32, the type of the noise; or no accountant covers
            the run and its budget.
        """
        budget = self.ideal_budget(budget)
        who, sensitivity = self.participation, self.sensitivity * self.participation.members
        if isinstance(who, Sampled):
            amplified = self._amplified(budget, accountant)
            assert budget.delta is not None
            uncut = replace(budget, delta=uncut_delta(budget.delta, who.overflow))
            multiplier = min(uncut.multiplier(sensitivity), amplified)
        else:
            if accountant is not None:
                self.check_amplified(budget)
            multiplier = budget.multiplier(sensitivity)
        low, high = _FLOAT32_RANGE
        if not low <= multiplier * budget.clip_norm <= high:
            raise ValueError(
                f"clip_norm must keep multiplier × clip_norm in the range of float32, [{low}, {high}], got "
                f"{budget.clip_norm} with the multiplier {multiplier}"
            )
        return multiplier

    def ideal_budget(self, budget: Budget) -> Budget:
        """The budget of the ideal mechanism: with the float below δ where proved noise is within a total variation.

        Parameters
        ----------
        budget : Budget
            The privacy budget of a run.

        Returns
        -------
        Budget

        Raises
        ------
        ValueError
            The numbers are exact, and δ is too small or ε too large to leave (1 + e^ε) 2⁻²⁵⁶.
        """
        if self.dtype != "exact" or budget.delta is None:
            return budget
        assert budget.epsilon is not None
        if budget.delta < _LEAST_EXACT_DELTA or budget.epsilon > _LARGEST_EXACT_EPSILON:
            raise ValueError(
                f"delta must be at least 2^-100 and epsilon at most {_LARGEST_EXACT_EPSILON} for exact numbers, got "
                f"{budget.delta:g} and {budget.epsilon:g}: take release='grid'"
            )
        return replace(budget, delta=math.nextafter(budget.delta, 0.0))

    def _amplified(self, budget: Budget, accountant: SamplingAccountant | None) -> float:
        self.check_amplified(budget)
        assert budget.epsilon is not None
        assert budget.delta is not None
        if accountant is not None:
            found = accountant.multiplier(self, budget)
        else:
            from corrnoise.theory.amplification.curve import noise_multiplier_of

            found = noise_multiplier_of(self.curve, budget.epsilon, budget.delta)
        return found * (1 + 2.0**-50)  # exceeds the rounding error of a later product with the clipping norm

    def check_amplified(self, budget: Budget) -> None:
        """Refuse a budget that no accountant of sampled batches takes.

        Parameters
        ----------
        budget : Budget
            The privacy budget.

        Raises
        ------
        ValueError
            The batches are not sampled, the budget has no ε and δ or another adjacency, or the capacity is too small.
        """
        who = self.participation
        if not isinstance(who, Sampled):
            raise ValueError(f"accountant must be None where batches are not sampled, got one for {who!r:.80}")
        if budget.adjacency != "zero-out":
            raise ValueError(
                f"budget must have zero-out adjacency for sampled batches, got {budget.adjacency!r}: the theorem "
                "compares a run with an example to one without; use participation.worst for replace-one"
            )
        if budget.epsilon is None or budget.delta is None:
            raise ValueError(
                f"budget must be given by epsilon and delta for sampled batches, got rho={budget.rho!r}: amplified "
                "curves are no zCDP; use participation.worst, or give epsilon and delta"
            )
        if who.overflow >= budget.delta:
            raise ValueError(
                f"capacity must be larger, got {who.capacity}: other examples fill a batch with probability up to "
                f"{who.overflow:.2g}, which counts as delta, and delta={budget.delta:g}; take a larger capacity [H2]"
            )

    @property
    def curve(self) -> Curve:
        """The curve of the accountant of sampled batches, for C as this program runs it.

        A program runs C + ΔC.  Its covered sensitivity for one participation exceeds the largest column norm of C by a
        bound of every |ΔC e_j|: additive bounds are γ + max_j |ΔC e_j|, and quotients γ/(1 − κ) with |ΔC e_j| <=
        κ |C e_j|/(1 − κ) <= γ/(1 − κ) − γ.  Errors of the norms themselves are added.

        Raises
        ------
        ValueError
            If no accountant covers the run.
        """
        who = self.participation
        once = Single(who.length)
        _, covered = self.mechanism.stored(once, self.form, self.dtype)
        norm = self.mechanism.bracket(once)
        error = (covered - norm.lower) + (norm.upper - norm.lower) + 4 * UNITS[self.dtype] * norm.upper
        bands = self.mechanism.bands(who.length)
        stays = self.form in ("substitution", "strategy column") or (bands == 1 and self.form != "transform")
        if isinstance(who, Sampled) and not who.any_bands and bands < who.length and not stays:
            raise ValueError(
                "form must be 'substitution' or 'strategy column' for sampled batches and a strategy of few bands, "
                f"got {self.form!r}, whose rounding errors leave the bands"
            )
        return who.covering(self.mechanism, error * (1 + 1e-12))

    def leading(self, steps: int) -> Program:
        """The program of the first steps of this run: its releases are those that the run has made by then.

        Parameters
        ----------
        steps : int
            1 <= t <= n.

        Returns
        -------
        Program
            Its sensitivity covers the rounding errors of this program, and is at most the sensitivity of this program.
        """
        who, noise = self.participation.leading(steps), self.mechanism.leading(steps)
        order = who.worst
        form = noise.forms()[0] if self.form == "replayed buffers" else self.form  # its first steps have no replays
        if self.form == "transform":  # the errors of the transforms of the whole run
            bound = (
                noise.bracket(order).upper + self.sensitivity - self.mechanism.bracket(self.participation.worst).lower
            )
        else:
            _, bound = noise.stored(order, form, self.dtype)
        return Program(noise, who, self.dtype, form, min(bound * (1 + 2.0**-50), self.sensitivity))

    def profile(
        self, noise_multiplier: float, *, step: int | None = None, adjacency: Adjacency = "zero-out"
    ) -> Profile:
        """The privacy profile of this run, or of its first steps.

        Parameters
        ----------
        noise_multiplier : float
            σ > 0: standard deviation of the independent noise in units of the clipping norm.
        step : int, optional
            t >= 0: the number of steps whose noise was made; None for the whole run.
        adjacency : {"zero-out", "replace-one"}, default "zero-out"
            The neighbouring data; sampled batches have zero-out alone.

        Returns
        -------
        Profile

        Raises
        ------
        ValueError
            The run has fewer steps, or no accountant covers it.

        Examples
        --------
        >>> import corrnoise as cn
        >>> program = cn.mechanisms.DPSGD().program(cn.Participation.fixed_epochs(40, epochs=4))
        >>> [round(program.profile(5.0, step=t).epsilon_at(1e-6), 2) for t in (0, 10, 11, 40)]
        [0.0, 0.83, 1.21, 1.77]
        """
        from corrnoise.theory.profile import GaussianProfile, SampledProfile

        sigma = checks.real("noise_multiplier", noise_multiplier, "(0, inf)")
        checks.choice("adjacency", adjacency, tuple(ADJACENCIES))
        who = self.participation
        if step is not None and who.steps is not None:
            checks.integer("step", step, 0, largest=who.steps)
        if step is not None and checks.integer("step", step, 0) == 0:
            return GaussianProfile(0.0, adjacency=adjacency, unit=who.unit)
        whole = step in (None, who.steps) or (self.form == "transform" and isinstance(who, Sampled))
        if not whole:
            assert step is not None
            return self.leading(step).profile(sigma, adjacency=adjacency)
        with ctx.workprec(128):
            distance = ADJACENCIES[adjacency] * who.members * arb(self.sensitivity) / arb(sigma)
            rho = rounded_up(distance**2 / 2)
        worst = GaussianProfile(rho, adjacency=adjacency, unit=who.unit)
        if not isinstance(who, Sampled):
            return worst
        if adjacency != "zero-out":
            raise ValueError(f"adjacency must be 'zero-out' for sampled batches, got {adjacency!r}")
        return SampledProfile(self.curve, sigma, worst, who.overflow)

    def scale(self, budget: Budget) -> float:
        """Standard deviation of the independent noise.

        Parameters
        ----------
        budget : Budget
            The privacy budget.
        """
        return self.multiplier(budget) * budget.clip_norm

    def record(self, budget: Budget) -> dict[str, Any]:
        """All that another program needs to make this noise, and to check its claims.

        Parameters
        ----------
        budget : Budget
            The privacy budget.

        Returns
        -------
        dict
            ``mechanism``, ``participation``, ``dtype``, ``form`` and ``sensitivity`` of this program; ``budget``;
            ``multiplier`` and ``scale`` of the independent noise; ``memory``; and ``arrays`` with the factors of steps
            and draws among them.  ``save`` writes it, and ``load`` computes the numbers again.
        """
        return {
            **self.arguments(),
            "budget": budget,
            "multiplier": self.multiplier(budget),
            "scale": self.scale(budget),
            "memory": self.memory,
            "arrays": self.arrays,
        }
