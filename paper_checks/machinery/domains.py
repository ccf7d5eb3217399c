"""Domains of claims: maps from the unit cube to the arguments of a claim.

One description serves three purposes.  Property-based tests draw points of the cube, the search for the worst case
moves in it, and a certificate divides it into boxes.  So scalar axes take a float or an Arb ball.  A bound is a number,
a decimal string (exact in ball arithmetic) or the name of an earlier argument:

>>> domain = Domain({"b": log_scale("1e-9", "0.25"), "a": log_scale("1e-12", "b")})
>>> domain.arguments([1.0, 1.0])
{'b': 0.25, 'a': 0.25}
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation

CHOICES = 6  #: values of an argument at most that are told apart
Bound = float | int | str


@dataclass(frozen=True)
class Axis:
    """One argument: the number of coordinates of the cube that it takes, its value there, and its range in words.

    ``value`` is called with the coordinates and the earlier arguments.
    """

    size: int
    value: Callable[[Any, Mapping[str, Any]], Any]
    range: str
    scale: str | None = None  #: of a real number, whose coordinate may be an Arb ball: "linear" or "log"
    low: Bound = 0  #: the ends of a real number
    high: Bound = 1
    count: int | None = None  #: number of the values, if finite; each belongs to an interval of [0, 1] of equal length
    bounded_by: tuple[str, ...] = ()  #: names of the earlier arguments that are bounds of this one

    def beyond(self, upper: bool) -> "Axis | None":
        """A range of real numbers beyond the upper or the lower end, up to twice it; None if it is another argument."""
        end, other = (self.high, self.low) if upper else (self.low, self.high)
        if self.scale is None or _names(end):
            return None
        limit = float(end)
        width = 1.0 if _names(other) else abs(limit - float(other))
        far = 2 * limit if upper == (limit > 0) else limit / 2
        far = far or (width if upper else -width) / 2
        return (linear if self.scale == "linear" else log_scale)(*sorted((limit, far)))


def _names(*bounds: Bound) -> tuple[str, ...]:
    """The bounds that are names of arguments."""
    return tuple(bound for bound in bounds if isinstance(bound, str) and bound.isidentifier())


def _at(bound: Bound, earlier: Mapping[str, Any]) -> Any:
    return earlier[str(bound)] if _names(bound) else bound


def _between(u: Any, value: Any, low: Any, high: Any) -> Any:
    """``value`` at u, with the exact ends and within [low, high] in spite of rounding; balls are left unchanged."""
    if u == 0 or u == 1:
        return high if u == 1 else low
    return min(max(value, low), high) if isinstance(value, float) else value


def linear(low: Bound, high: Bound) -> Axis:
    """Numbers in [low, high].

    Parameters
    ----------
    low, high : float or str
        The ends, or the names of earlier arguments.

    Returns
    -------
    Axis
    """

    def value(u: Sequence[Any], earlier: Mapping[str, Any]) -> Any:
        number = arithmetic(u[0]).number
        a, b = number(_at(low, earlier)), number(_at(high, earlier))
        return _between(u[0], a + u[0] * (b - a), a, b)

    return Axis(1, value, f"[{low}, {high}]", "linear", low, high, bounded_by=_names(low, high))


def log_scale(low: Bound, high: Bound) -> Axis:
    """Numbers in [low, high], low > 0, on a logarithmic scale.

    Parameters
    ----------
    low, high : float or str
        The ends, or the names of earlier arguments.

    Returns
    -------
    Axis
    """

    def value(u: Sequence[Any], earlier: Mapping[str, Any]) -> Any:
        m = arithmetic(u[0])
        a, b = m.number(_at(low, earlier)), m.number(_at(high, earlier))
        return _between(u[0], m.exp(m.log(a) + u[0] * (m.log(b) - m.log(a))), a, b)

    return Axis(1, value, f"[{low}, {high}]", "log", low, high, bounded_by=_names(low, high))


def integers(low: Bound, high: Bound, *, log: bool = False) -> Axis:
    """Integers low, …, high, uniform or on a logarithmic scale.

    Parameters
    ----------
    low, high : int or str
        The ends, or the names of earlier arguments.
    log : bool, default False
        Whether the scale is logarithmic.

    Returns
    -------
    Axis
    """

    def value(u: Sequence[float], earlier: Mapping[str, Any]) -> int:
        a, b = int(_at(low, earlier)), int(_at(high, earlier))
        if log:
            return min(int(a * ((b + 1) / a) ** u[0]), b)
        return min(a + int(u[0] * (b + 1 - a)), b)

    names = _names(low, high)
    count = None if log or names else int(high) + 1 - int(low)
    return Axis(1, value, f"{{{low}, …, {high}}}", count=count, bounded_by=names)


def one_of(*choices: Any) -> Axis:
    """One of finitely many values.

    Parameters
    ----------
    *choices : object
        The values.

    Returns
    -------
    Axis
    """
    return Axis(
        1,
        lambda u, _: choices[min(int(u[0] * len(choices)), len(choices) - 1)],
        f"{{{', '.join(f'{choice:g}' if isinstance(choice, float) else str(choice) for choice in choices)}}}",
        count=len(choices),
    )


def vector(entry: Axis, length: int) -> Axis:
    """Vectors with entries from one axis.

    Parameters
    ----------
    entry : Axis
        The range of each entry.
    length : int
        The number of entries.

    Returns
    -------
    Axis
        Of arrays, shape (length,).
    """
    if entry.size != 1:
        raise ValueError(f"entry must take one coordinate, got {entry.size}")

    def value(u: Sequence[float], earlier: Mapping[str, Any]) -> Array:
        return np.array([entry.value([v], earlier) for v in u])

    return Axis(length, value, f"{entry.range}^{length}", bounded_by=entry.bounded_by)


def symmetric(low: float, high: float, *, size: int, count: int) -> Axis:
    """So many symmetric matrices with eigenvalues in [low, high], shape (count, size, size), with any eigenvectors."""
    pairs = np.triu_indices(size, 1)
    each = size + len(pairs[0])

    def value(u: Sequence[float], _: Mapping[str, Any]) -> Array:
        found = []
        for coordinates in np.reshape(u, (count, each)):
            skew = np.zeros((size, size))
            skew[pairs] = np.pi * coordinates[size:]
            skew = skew - skew.T
            rotation = np.linalg.solve(np.eye(size) + skew, np.eye(size) - skew)  # Cayley's formula
            found.append(rotation * (low + (high - low) * coordinates[:size]) @ rotation.T)
        return np.array(found)

    return Axis(count * each, value, f"{count} symmetric matrices of size {size}, eigenvalues in [{low}, {high}]")


def gaps(low: float = 1e-9) -> Axis:
    """Numbers in [low, 2 − low], dense at both ends: for gaps, damping and rates."""

    def value(u: Sequence[float], _: Mapping[str, Any]) -> float:
        near = low ** (1 - 2 * min(u[0], 1 - u[0]))
        return float(near if u[0] <= 0.5 else 2 - near)

    return Axis(1, value, f"[{low:g}, 2 − {low:g}]")


NORMS = (1e-4, 1.0, 1e4)  #: largest eigenvalues: a bound with two sides in different units fails for some


def spectra(most: int = 6, condition: float = 1e6, multiplicity: int = 1, norms: tuple[float, ...] = NORMS) -> Axis:
    """Eigenvalues: up to ``most`` values, one of ``norms`` and others on a logarithmic scale down to 1/condition of it.

    With ``multiplicity`` M > 1 one of the values occurs 1 to M times, so the dimension is at most ``most`` + M − 1.
    """
    scale = one_of(*norms)
    many = len(norms) > 1

    def value(u: Sequence[float], earlier: Mapping[str, Any]) -> Array:
        norm = float(scale.value(u[-1:], earlier)) if many else norms[0]
        d = min(1 + int(u[0] * most), most)
        values = norm * np.concatenate([[1.0], condition ** -np.asarray(u[1:d], dtype=float)])
        if multiplicity == 1:
            return values
        repeated = min(int(u[most] * d), d - 1)
        times = min(int((multiplicity + 1) ** u[most + 1]), multiplicity)
        return np.insert(values, repeated, np.full(times - 1, values[repeated]))

    largest = most + multiplicity - 1
    size = (most if multiplicity == 1 else most + 2) + many
    units = f", ‖H‖ in {scale.range}" if many else ""
    return Axis(size, value, f"spectra with d <= {largest} and condition <= {condition:g}{units}")


def regressions(
    most: int = 6,
    condition: float = 1e6,
    largest: float = 0.999,
    kurtosis: float | tuple[float, float] = 3.0,
    residual_std: float | None = None,
    multiplicity: int = 1,
    norms: tuple[float, ...] = NORMS,
) -> Axis:
    """Linear regression with 1e-6 <= η R²/``largest`` <= 1 and residual deviation 0 or 1e-3 … 1e3 (or as given).

    The kurtosis is a number, or between two numbers on a logarithmic scale.  ``spectra`` explains the other arguments.
    """
    spectrum = spectra(most, condition, multiplicity, norms)
    shape = log_scale(*kurtosis) if isinstance(kurtosis, tuple) else one_of(kurtosis)
    free = isinstance(kurtosis, tuple)

    def value(u: Sequence[float], earlier: Mapping[str, Any]) -> LinearRegression:
        eigenvalues = spectrum.value(u[2 : 2 + spectrum.size], earlier)
        k = float(shape.value(u[-1:], earlier))
        eta = largest * 1e-6 ** (1 - u[0]) / (eigenvalues.sum() + (k - 1) * eigenvalues.max())
        s = residual_std if residual_std is not None else (0.0 if u[1] < 0.25 else 10 ** (8 * u[1] - 5))
        return LinearRegression(eigenvalues, eta, s, kurtosis=k)

    inputs = f", kurtosis in {shape.range}" if free else ""
    size = 2 + spectrum.size + free
    return Axis(size, value, f"linear regression, {spectrum.range}, η R² <= {largest:g}{inputs}")


def mean_estimations(low: float = 1e-9, high: float = 1.0, sample_std: float | None = None) -> Axis:
    """Mean estimation with low <= η <= high and sample standard deviation 0 or 1e-3 … 1e3 (or as given)."""
    rate = log_scale(low, high)

    def value(u: Sequence[float], earlier: Mapping[str, Any]) -> MeanEstimation:
        s = sample_std if sample_std is not None else (0.0 if u[1] < 0.25 else 10 ** (8 * u[1] - 5))
        return MeanEstimation(rate.value(u[:1], earlier), s)

    return Axis(2, value, f"mean estimation, η in {rate.range}")


def noises(low: float = 1e-6) -> Axis:
    """Correlated noise of finite sensitivity.

    Independent noise, ν-DP-FTRL, anti-PGD, products of two factors, minimum-phase polynomials and their inverses.
    """
    gap = gaps(low)

    def value(u: Sequence[float], earlier: Mapping[str, Any]) -> ToeplitzNoise:
        a, b = (float(gap.value([v], earlier)) for v in u[1:3])
        e, f = (2 * v - 1 for v in u[3:5])
        polynomial = np.convolve([1, -0.95 * e], [1, -1.9 * f * np.cos(np.pi * u[1]), (0.95 * f) ** 2])
        kinds: tuple[Callable[[], ToeplitzNoise], ...] = (
            DPSGD,
            lambda: NuFTRL(a),
            lambda: AntiPGD(a),
            lambda: ProductNoise([a, b], [e, f]),
            lambda: FiniteNoise(polynomial),
            lambda: BandedStrategyNoise(polynomial),
        )
        return kinds[min(int(u[0] * len(kinds)), len(kinds) - 1)]()

    kinds = "independent, ν-DP-FTRL, anti-PGD, products of two factors, cubics and their inverses"
    return Axis(5, value, f"correlated noise: {kinds}, gaps in {gap.range}")


@dataclass(frozen=True)
class Domain:
    """The arguments of a claim, an axis each, in order.

    Raises
    ------
    ValueError
        If a bound is a name that no earlier argument has.
    """

    axes: Mapping[str, Axis]

    def __post_init__(self) -> None:
        earlier: list[str] = []
        for name, axis in self.axes.items():
            for bound in axis.bounded_by:
                if bound not in earlier:
                    known = ", ".join(earlier) or "there is none"
                    raise ValueError(
                        f"bounds of {name} must be numbers or arguments before it ({known}), got {bound!r}"
                    )
            earlier.append(name)

    @property
    def size(self) -> int:
        """Dimension of the cube."""
        return sum(axis.size for axis in self.axes.values())

    @property
    def ball(self) -> bool:
        """Whether coordinates may be Arb balls; only then can the claim be certified."""
        return all(axis.scale is not None for axis in self.axes.values())

    def beyond(self) -> "Iterator[tuple[str, Bound, Domain]]":
        """For each end of a range of real numbers: the argument, the end, and the domain with a range beyond it."""
        for name, axis in self.axes.items():
            for upper in (False, True):
                further = axis.beyond(upper)
                if further is not None:
                    yield name, axis.high if upper else axis.low, Domain({**self.axes, name: further})

    def arguments(self, point: Sequence[Any] | Array) -> dict[str, Any]:
        """The arguments at a point of the cube, shape (size,)."""
        found: dict[str, Any] = {}
        first = 0
        for name, axis in self.axes.items():
            found[name] = axis.value(point[first : first + axis.size], found)
            first += axis.size
        return found

    def cases(self, point: Sequence[Any] | Array) -> Array:
        """Which values the arguments with few values have at a point of the cube, shape (cases,): a bool for each.

        Arguments with more than ``CHOICES`` values are not told apart; if there are no others, there is one case.
        """
        found = []
        first = 0
        for axis in self.axes.values():
            if axis.count is not None and 1 < axis.count <= CHOICES:
                found += [k == min(int(point[first] * axis.count), axis.count - 1) for k in range(axis.count)]
            first += axis.size
        return np.array(found or [True])

    def all_points(self, most: int) -> Array | None:
        """A point of the cube for each choice of arguments, shape (n, size); None if there are more than ``most``."""
        counts = [axis.count or most + 1 for axis in self.axes.values()]
        if not counts or math.prod(counts) > most:
            return None
        return (np.indices(counts).reshape(len(counts), -1).T + 0.5) / counts

    def __str__(self) -> str:
        return "; ".join(f"{name}: {axis.range}" for name, axis in self.axes.items())
