"""The class of families of noise, and the sizes that searches try."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.optimum import Certificate, label
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.objectives.base import LARGEST_MATRIX

SHORT_STEPS = 20_000  #: steps, beyond which few sizes are tried, unless more are asked for
LONG_STEPS = 200_000  #: steps, beyond which noise with few coefficients is made only if it is asked for
FEW_SIZES = 2  #: the largest size that is tried between the two
MAX_COEFFICIENTS = 64  #: of noise with few coefficients, whose search takes O(p²) memory
MAX_BANDS = 64  #: in runs of more than LARGEST_MATRIX steps, if no more are asked for


class Family(ABC):
    """A family of noise: how its members are made, by their size.

    Subclass it.  A family needs a ``name`` and the method ``make``; the first line of its docstring is its description.
    A family without sizes has a single member.

    Attributes
    ----------
    name : str
        The name in results.
    aliases : tuple of str
        Other names that ``cn.families.by_name`` understands.
    variant : str
        ``"unit columns"`` or ``"epoch weights"`` if the members have a factor for each step.
    source : str
        The paper that introduced the family.
    needs : str
        The properties that a run must have, for the message where the family has no member.
    look : str
        The colour in figures.

    Examples
    --------
    >>> import corrnoise as cn
    >>> class FixedDamping(cn.families.Family):
    ...     name = "damping one half"
    ...     def make(self, run, size):
    ...         return cn.mechanisms.AntiPGD(0.5)
    >>> cn.optimise(None, cn.Participation.single(16), family=FixedDamping()).memory
    1
    """

    name: str = ""
    aliases: tuple[str, ...] = ()
    variant: str = ""
    source: str = ""
    needs: str = "a longer run or epoch"
    look: str = "0.5"

    @abstractmethod
    def make(self, run: Problem, size: int) -> Mechanism:
        """Make the member of a size.

        Parameters
        ----------
        run : Problem
            The run, with ``steps``, ``who`` (its participation) and ``objective``.
        size : int
            The number of buffers; 0 for a family with one member.

        Returns
        -------
        Mechanism
        """

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        """The sizes that a comparison tries, in ascending order.

        Parameters
        ----------
        run : Problem
            The run.
        memory : float, optional
            The number of buffers that was asked for; ``math.inf`` for any.

        Returns
        -------
        Sequence of int
            ``[0]`` for one member, nothing where the family has no member.
        """
        return [0]

    def most(self, run: Problem) -> int:
        """The largest size of a member.

        Parameters
        ----------
        run : Problem
            The run.

        Returns
        -------
        int
            0 for one member.
        """
        return 0

    def members(self, run: Problem, sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[Mechanism]:
        """The members of these sizes; each is made once in a run.

        Parameters
        ----------
        run : Problem
            The run.
        sizes : Sequence of int
            Sizes in ascending order.
        progress : Callable[[str], None]
            Called with a line of text before each search.

        Yields
        ------
        Mechanism
        """
        for size in sizes:
            progress(f"mechanisms: {label(self.name, self.variant)}" + f" with {size}" * (size > 0))
            yield self.member(run, size)

    def member(self, run: Problem, size: int) -> Mechanism:
        """The member of a size, made once in a run.

        Parameters
        ----------
        run : Problem
            The run.
        size : int
            As for ``make``.

        Returns
        -------
        Mechanism
        """
        return run.kept((self, size), lambda: self.make(run, size))

    def certificate(self, run: Problem, mechanism: Mechanism) -> Certificate | str:
        """The bounds of the optimum within the family.

        Parameters
        ----------
        run : Problem
            The run.
        mechanism : Mechanism
            A member.

        Returns
        -------
        Certificate or str
            An empty text where none is known.
        """
        return ""


class FewCoefficients(Family):
    """Noise with p coefficients, which keeps p − 1 buffers."""

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        most = MAX_COEFFICIENTS if run.steps <= SHORT_STEPS else FEW_SIZES if run.steps <= LONG_STEPS else 0
        return _up_to(min(most, run.steps - 1), memory)

    def most(self, run: Problem) -> int:
        return run.steps - 1


class FewBands(Family):
    """Strategies with at most as many bands as an epoch has steps, which keep a buffer less than they have bands."""

    def sizes(self, run: Problem, memory: float | None) -> Sequence[int]:
        most = self.most(run)
        if run.steps > LARGEST_MATRIX:
            asked = int(memory) if memory is not None and math.isfinite(memory) else 0
            most = min(most, max(MAX_BANDS if run.steps <= SHORT_STEPS else FEW_SIZES, asked))
        return sorted({*_up_to(most, memory), most} - {0})

    def most(self, run: Problem) -> int:
        return toeplitz.most_bands(run.start) - 1


def _up_to(most: int, memory: float | None) -> list[int]:
    """1, 2, 4, … and the memory asked for, all at most ``most``."""
    sizes = {2**i for i in range(most.bit_length()) if 2**i <= most}
    asked = () if memory is None or math.isinf(memory) else (int(memory),)
    return sorted(sizes | {size for size in asked if 1 <= size <= most})
