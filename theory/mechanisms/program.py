"""A program: the noise that is really made, in which arithmetic, and the sensitivity that covers it.

No noise multiplier exists apart from a program.  A mechanism is asked for one, ``mechanism.program(participation)``;
the program holds the numbers that run (rounded to their type), the form of the recurrence, the factors of steps and
draws, and an upper bound of the sensitivity that includes the rounding errors of all this.

==========================  ==========================================================================  ==============
form                        what is run                                                                 mechanisms
==========================  ==========================================================================  ==============
``"cascade"``               first-order sections, in gap form                                           rational noise
``"delay line"``            a ring of the last draws                                                    few coefficients
``"substitution"``          a triangular strategy is inverted step by step                              triangular
``"tree"``                  one node for each binary digit of the step                                  trees
``"transform"``             all steps at once by fast Fourier transforms                                Toeplitz noise
==========================  ==========================================================================  ==============
"""

from __future__ import annotations

from typing import Any, Literal

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Form = Literal["cascade", "delay line", "substitution", "tree", "transform"]

_FLOAT32 = (1e-30, 1e30)  # standard deviations that float32 holds, with the noise of all steps
__ANY = 10**9  # steps, in place of any number
INCREASE = 1e-3  # the largest relative increase of the sensitivity that is paid for float32
_ANY = 10**9  # steps, in place of any number
INCREASE = 1e-3  #: the largest relative increase of the sensitivity that is paid for float32


@record
class Program(Record):
    """The noise that is really made, and the sensitivity that covers it; ``Mechanism.program`` makes it.

    Parameters
    ----------
    mechanism
        The mechanism whose numbers are those that run, rounded to ``dtype``.
    participation
        Who takes part when.
    dtype
        ``"float32"`` or ``"float64"``: type of all numbers and operations between the draws and the finished noise,
        either of which may be rounded to float32.
    form
        What is run; see the module.
    sensitivity
        Upper bound of the zero-out sensitivity for one example, rounding errors included, for the worst case of
        ``participation``.
    """

    mechanism: Any
    participation: Participation
    dtype: Dtype
    form: Form
    sensitivity: float

    @property
    def memory(self) -> int:
        """Arrays of the size of the gradient that a run keeps from one step to the next."""
        return int(self.mechanism.memory(self.participation.steps or _ANY))

    @property
    def step_scales(self) -> Array | None:
        """Factors of the steps, shape (n,), with which the noise is multiplied; None for none."""
        return getattr(self.mechanism, "step_scales", None)

    @property
    def draw_scales(self) -> Array | None:
        """Factors of the draws, shape (n,), with which the independent noise is multiplied; None for none."""
        return getattr(self.mechanism, "draw_scales", None)

    @property
    def unscaled(self) -> Any:
        """The mechanism without the factors of steps and draws."""
        return getattr(self.mechanism, "noise", self.mechanism)

    def multiplier(self, budget: Budget) -> float:
        """Standard deviation of the independent noise in units of the clip norm; never too small.

        Parameters
        ----------
        budget
            What the run may spend.

        Raises
        ------
        ValueError
            The standard deviation is outside of the range of float32, in which noise is added.
        """
        multiplier = budget.multiplier(self.sensitivity * self.participation.members)
        low, high = _FLOAT32
        if not low <= multiplier * budget.clip_norm <= high:
            raise ValueError(
                f"clip_norm must keep multiplier × clip_norm in the range of float32, [{low}, {high}], got "
                f"{budget.clip_norm} with the multiplier {multiplier}"
            )
        return multiplier

    def scale(self, budget: Budget) -> float:
        """Standard deviation of the independent noise.

        Parameters
        ----------
        budget
            What the run may spend.
        """
        return self.multiplier(budget) * budget.clip_norm
