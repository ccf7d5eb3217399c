"""All families of noise, by name.

>>> import corrnoise as cn
>>> cn.families.by_name("buffers").name
'BLT'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corrnoise.solvers.families.band_inv_mf import BandInvMF
from corrnoise.solvers.families.band_mf import BandMF
from corrnoise.solvers.families.banded_toeplitz import BandedToeplitz
from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.binary_tree import TreeAggregation
from corrnoise.solvers.families.bisr import BISR
from corrnoise.solvers.families.blt import BLT
from corrnoise.solvers.families.bsr import BSR
from corrnoise.solvers.families.damped_root import DampedRoot
from corrnoise.solvers.families.dense import Dense
from corrnoise.solvers.families.gamma_bifr import GammaBIFR
from corrnoise.solvers.families.honaker_tree import HonakerTree
from corrnoise.solvers.families.independent import IndependentNoise
from corrnoise.solvers.families.lambda_cgd import LambdaCGD
from corrnoise.solvers.families.nu_dp_ftrl import NuDPFTRL
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.families.scaled import EPOCH_WEIGHTS, UNIT_COLUMNS, Scaled
from corrnoise.solvers.families.stationary_optimum import StationaryOptimum
from corrnoise.solvers.families.time_varying_family import TimeVarying, buffer_counts
from corrnoise.solvers.optimum import label
from corrnoise.support.suggestions import did_you_mean

USUAL_MEMORY = 16  #: buffers that a run may keep if no limit is given

INDEPENDENT_NOISE, TIME_VARYING = IndependentNoise(), TimeVarying()
#: The families that a comparison tries.  With at most 16 buffers others have a smaller error in very short runs only.
DEFAULT: tuple[Family, ...] = (INDEPENDENT_NOISE, TIME_VARYING)
#: The further families that it tries where the objective is not a linear system, or more than 16 buffers are allowed.
TOEPLITZ: tuple[Family, ...] = (BLT(), BandInvMF(), BandedToeplitz())
#: All families.
FAMILIES: tuple[Family, ...] = (
    *(*DEFAULT, *TOEPLITZ, NuDPFTRL(), LambdaCGD(), BISR(), BSR(), GammaBIFR(), DampedRoot(), BandMF()),
    *(HonakerTree(), TreeAggregation(), StationaryOptimum(), Dense()),
)
#: The members of the Toeplitz families with a factor for each step.
VARIANTS: tuple[Family, ...] = tuple(
    Scaled(family, variant)
    for family in FAMILIES
    if not isinstance(family, IndependentNoise | TimeVarying | BandMF | TreeAggregation | Dense)
    for variant in (UNIT_COLUMNS, EPOCH_WEIGHTS)
)


def table(families: Iterable[Family]) -> dict[str, Family]:
    """The families by their names and aliases, in lower case.

    Parameters
    ----------
    families : Iterable of Family
        Families with different names and aliases.

    Returns
    -------
    dict
    """
    found: dict[str, Family] = {}
    for family in families:
        known = family.base.aliases if isinstance(family, Scaled) else family.aliases
        for name in (family.name, *known):
            key = label(name, family.variant).casefold()
            if key in found:
                raise ValueError(f"families must have different names and aliases, got {key!r} twice")
            found[key] = family
    return found


BY_NAME = table([*FAMILIES, *VARIANTS])


def by_name(name: str) -> Family:
    """The family with this name or alias.

    Parameters
    ----------
    name : str
        A name or alias, in upper or lower case; for Toeplitz families also with ``", unit columns"`` or
        ``", epoch weights"`` appended.

    Returns
    -------
    Family

    Raises
    ------
    ValueError
        No family has this name.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.families.by_name("banded inverse").name
    'BandInvMF'
    """
    found = BY_NAME.get(name.casefold())
    if found is None:
        known = [key for family in FAMILIES for key in (family.name, *family.aliases)]
        raise ValueError(f"family must be one of {', '.join(names())}, got {name!r}{did_you_mean(name, known)}")
    return found


def names() -> tuple[str, ...]:
    """The names of all families.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.families.names()[:3]
    ('independent noise', 'time-varying buffers', 'BLT')
    """
    return tuple(family.name for family in FAMILIES)


def resolved(family: str | Family | Sequence[str | Family] | None) -> tuple[Family, ...]:
    """The families that an argument ``family`` stands for; none for None.

    Parameters
    ----------
    family : str or Family or sequence of these, optional
        The argument.

    Returns
    -------
    tuple of Family
    """
    if family is None:
        return ()
    several = family if isinstance(family, list | tuple) else [family]
    if not several:
        raise ValueError("family must be None, a family or a sequence of at least one, got an empty sequence")
    found = []
    for one in several:
        if not isinstance(one, str | Family) or not getattr(one, "name", one):
            raise TypeError(f"family must be None, a name, a Family with a name or some of these, got {family!r:.80}")
        found.append(by_name(one) if isinstance(one, str) else one)
    return tuple(found)


def compared(run: Problem, memory: float | None) -> tuple[Family, ...]:
    """The families that are compared if none is asked for.

    Parameters
    ----------
    run : Problem
        The run.
    memory : float, optional
        The number of buffers that was asked for; ``math.inf`` for any.

    Returns
    -------
    tuple of Family
    """
    linear = bool(buffer_counts(run, memory))
    few = memory is None or memory <= USUAL_MEMORY
    if not run.objective.toeplitz or memory == 0 or (linear and few):
        return DEFAULT
    scaled = [one for one in VARIANTS if isinstance(one, Scaled) and isinstance(one.base, BLT | BandedToeplitz)]
    return (*DEFAULT, *TOEPLITZ, *([] if linear else scaled))
