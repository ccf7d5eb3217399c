"""The bound of one run: reference values, an independent linear program, and validity."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

import corrnoise as cn

bound = cn.privacy.one_run_bound

#: m, r, v and the level; μ, ε at δ = 1e-5 and at 0, by a code of 25 digits that carries all probabilities.
REFERENCE = [
    ((1000, 1000, 600, 0.05), (0.1638498, 0.2918038, 0.2918871)),
    ((1000, 100, 90, 0.05), (0.6025036, 1.6143181, 1.6149327)),
    ((1000, 100, 90, 0.001), (0.3938481, 1.2207828, 1.2355734)),
    ((200, 40, 40, 0.01), (0.7983251, 2.1024427, 2.1035830)),
    ((5000, 50, 45, 0.05), (0.4163978, 1.3700554, 1.3766079)),
    ((18048, 4512, 3300, 0.001), (0.2542942, 0.8904011, 0.8972642)),
]


@pytest.mark.parametrize(("counts", "expected"), REFERENCE)
def test_reference_values(counts, expected):
    *numbers, level = counts
    found = [bound(*numbers, level=level, delta=delta) for delta in (None, 1e-5, 0.0)]
    assert found == pytest.approx(expected, abs=1e-6)


def lines(value, delta):
    """Slopes and offsets of lines whose minimum is g: exact for (ε, δ), nearly for μ."""
    if delta is not None:
        return [(math.exp(value), delta), (math.exp(-value), 1 - math.exp(-value) * (1 - delta))]
    z = np.linspace(-5.0, 5.0, 1201)  # tangents at Φ(z)
    slopes = np.exp(-value * z - value**2 / 2)
    return list(zip(slopes, norm.cdf(z + value) - slopes * norm.cdf(z), strict=True))


def largest_chance(canaries, guesses, correct, value, delta):
    """The largest P[c >= v] of all laws of c that fulfil the inequalities of the theorem, as a linear program."""
    j = np.arange(guesses + 1)
    rows, limits = [], []
    for k in range(1, guesses + 1):
        left, right = np.where(j >= k, j, 0) / canaries, np.where(j >= k - 1, guesses - j, 0) / canaries
        for slope, offset in lines(value, delta):
            weight = max(1.0, slope)
            rows.append((left - slope * right) / weight)
            limits.append(offset / weight)
    found = linprog(-(j >= correct).astype(float), np.array(rows), limits, np.ones((1, j.size)), [1.0], method="highs")
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize(
    ("counts", "delta"),
    [((12, 12, 10), 0.01), ((30, 12, 11), 1e-3), ((40, 20, 17), 0.0), ((20, 6, 6), 0.005), ((25, 10, 9), None)],
)
def test_a_linear_program_agrees(counts, delta):
    """At the bound the largest chance is the level.  With D' = D, or r in place of m, it is another one."""
    level = 0.05
    found = bound(*counts, level=level, delta=delta)
    assert found > 0
    assert largest_chance(*counts, found, delta) == pytest.approx(level, rel=1e-6 if delta is not None else 1e-3)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("guesses", "factor"), [(40, 0.75), (200, 0.9)])
def test_randomised_response(epsilon, guesses, factor):
    """The number of correct guesses is binomial: the truth is exceeded rarely, a smaller ε not so rarely."""
    right = 1 / (1 + math.exp(-epsilon))
    counts = np.arange(guesses + 1)
    chances = binom.pmf(counts, guesses, right)
    bounds = np.array([bound(guesses, guesses, int(k), delta=0.0, level=0.05) for k in counts])
    assert chances[bounds > epsilon].sum() <= 0.05
    assert chances[bounds > factor * epsilon - 0.3].sum() > 0.025
    assert (np.diff(bounds) >= 0).all()


def test_extreme_counts():
    assert bound(10, 0, 0, level=0.1) == bound(10, 10, 4, level=0.1) == bound(1, 1, 1, level=0.1) == 0
    assert 0 < bound(10, 10, 10, level=0.1, delta=0.0) < bound(100, 100, 100, level=0.1, delta=0.0) < 5
    assert bound(10, 10, 10, level=0.9999999, delta=0.0) < 25
    assert bound(10, 10, 10, level=0.1, delta=0.9) == 0


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ((10, 3, 4), {}, r"correct must be an integer in \[0, 3\]"),
        ((10, 11, 4), {}, r"guesses must be an integer in \[0, 10\]"),
        ((10, 3, 2), {"delta": 1.0}, "delta must lie"),
        ((10, 3, 2), {"level": 0.0}, "level must lie"),
    ],
)
def test_bad_arguments(counts, options, message):
    with pytest.raises(ValueError, match=message):
        bound(*counts, **{"level": 0.1, **options})
