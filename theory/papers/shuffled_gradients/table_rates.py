"""Rates of the excess risk bounds of shuffled gradient methods at the best learning rate and equal privacy.

With noise of variance σ² = 2 G² A/ρ, A the amplification sum and ρ the zCDP budget of (ε, δ), the corollaries bound the
excess risk of all algorithms, less what dissimilarity adds, by a/η + b η + c η² with

    a = R²/(nK),    b = 2 ℓ d σ² (noise at every step) or 2 ℓ d σ²/n (at the end),    ℓ = 1 + log K,
    c = 10 ℓ n² s² L + 10 ℓ n L d σ² (the latter for noise at every step only).

The minimum over η of the first two is 2 sqrt(ab) = 2 R sqrt(2 ℓ d σ²/(nK)): the privacy term is of order R G sqrt(d
A/(nK))/ε, and the third term vanishes as K grows.  So the rate is decided by A/(nK).  docs/shuffled-gradients.md has
the table of the rates of all algorithms, in addition to the published ones.  These rest on a noise term that is too
small: with it the bound tends to 0 as K grows, for any fixed n, d and ε.

Source: Jiang, Sharma, Wu and Joshi, 2026: Tables 1 and 5, Appendices E.3 and F.3.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

from corrnoise.theory.numerics import checks
from corrnoise.theory.papers.shuffled_gradients.accountants import published_rho

Algorithm = Literal["DP-ShuffleG", "Priv-Pub", "Pub-Priv", "Interleaved", "Noise at the end"]
TableAccounting = Literal["published", "per-epoch", "whole-run"]
TABLE_ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
TABLE_ACCOUNTING: tuple[str, ...] = get_args(TableAccounting)
_POSITIVE_INTERVAL = "[1e-30, 1e30]"  # so that nothing under- or overflows


def table_amplification(
    algorithm: Algorithm, *, samples: int, epochs: float, private_share: float = 1.0, whole_run: bool = True
) -> float:
    """A of an algorithm at the worst position: closed forms of ``amplification``, for real K >= 1.

    The share p of private steps, 0 < p <= 1, is for the algorithms that use public records.  Amplification by iteration
    covers the whole run, or epochs are composed as published (``whole_run=False``).
    """
    name = checks.choice("algorithm", algorithm, TABLE_ALGORITHMS)
    n = checks.integer("samples", samples, 1)
    k = checks.real("epochs", epochs, "[1, 1e100]")
    p = checks.real("private_share", private_share, "(0, 1]")
    if name == "Noise at the end":
        return k
    if name == "Interleaved":
        last = 1 / ((1 - p) * n + 1)
        return (k - 1) / n + last if whole_run else k * last
    used = k if name == "DP-ShuffleG" else max(p * k, 1.0)
    return (used - 1) / n + 1 if whole_run else used


def _require_accounting(algorithm: str, accounting: str) -> None:
    """Refuse unknown words, and ``"published"`` for noise at the end: it is not in the paper."""
    checks.choice("accounting", accounting, TABLE_ACCOUNTING)
    if algorithm == "Noise at the end" and accounting == "published":
        raise ValueError("accounting must be 'per-epoch' or 'whole-run' for noise at the end, got 'published'")


class BestLearningRate(NamedTuple):
    """A learning rate, and a bound of the excess risk at it."""

    learning_rate: float
    excess_risk_upper_bound: float


class BoundCoefficients(NamedTuple):
    """A bound a/η + bη + cη² of the excess risk, for learning rates η in (0, ``largest``]."""

    a: float
    b: float
    c: float
    largest: float

    def best(self) -> BestLearningRate:
        """The learning rate with the smallest bound: the root of 2cη³ + bη² = a, by Newton's method from above."""
        a, b, c, largest = self
        eta = a ** (1 / 3) / (2 * c) ** (1 / 3)
        for _ in range(200):
            step = ((2 * c * eta + b) * eta * eta - a) / ((6 * c * eta + 2 * b) * eta)
            eta -= step
            if step <= 1e-15 * eta:
                break
        eta = min(eta, largest)
        return BestLearningRate(eta, a / eta + b * eta + c * eta**2)


class Constants(NamedTuple):
    """R, G, L and s of losses and start, in [1e-30, 1e30]."""

    distance: float = 1.0
    lipschitz: float = 1.0
    smoothness: float = 1.0
    deviation: float = 1.0


UNIT_CONSTANTS = Constants()


def bound_coefficients(
    algorithm: Algorithm,
    *,
    samples: int,
    dimension: int,
    epochs: float,
    epsilon: float,
    delta: float = 1e-6,
    private_share: float = 1.0,
    accounting: TableAccounting = "whole-run",
    constants: Constants = UNIT_CONSTANTS,
) -> BoundCoefficients:
    """The excess risk bound of an algorithm at equal privacy, without dissimilarity, as a function of η.

    (ε, δ) with ε in [1e-30, 1e30] is converted by ``published_rho``.  The ``accounting`` is ``"whole-run"`` or
    ``"per-epoch"``, both with the corrected noise term, or ``"published"``: epochs composed, with the published noise
    term (not for noise at the end, which is not in the paper).
    """
    _require_accounting(algorithm, accounting)
    n, d = checks.integer("samples", samples, 1), checks.integer("dimension", dimension, 1)
    eps = checks.real("epsilon", epsilon, _POSITIVE_INTERVAL)
    radius, g, smooth, s = (checks.real(name, value, _POSITIVE_INTERVAL) for name, value in constants._asdict().items())
    total = table_amplification(
        algorithm, samples=n, epochs=epochs, private_share=private_share, whole_run=accounting == "whole-run"
    )
    ell = 1 + math.log(epochs)
    energy = d * 2 * g**2 * total / published_rho(eps, delta)
    a = radius**2 / (n * epochs)
    b = 2 * ell * energy
    c = 10 * ell * n**2 * s**2 * smooth
    if accounting == "published":
        b = 0.0
        c += 12 * ell * n * smooth * energy
    elif algorithm == "Noise at the end":
        b /= n
    else:
        c += 10 * ell * n * smooth * energy
    return BoundCoefficients(a, b, c, 1 / (2 * n * smooth * math.sqrt(10 * ell)))


def leading_rate(
    algorithm: Algorithm,
    *,
    samples: int,
    dimension: int,
    epsilon: float,
    private_share: float = 1.0,
    accounting: TableAccounting = "whole-run",
) -> float:
    """The privacy term of the rate, up to constants and logarithms: an entry of the table of the module."""
    name = checks.choice("algorithm", algorithm, TABLE_ALGORITHMS)
    n = checks.integer("samples", samples, 1)
    p = checks.real("private_share", private_share, "(0, 1]")
    ratio = math.sqrt(checks.integer("dimension", dimension, 1)) / checks.real("epsilon", epsilon, _POSITIVE_INTERVAL)
    used = p if name in ("Priv-Pub", "Pub-Priv") else 1.0
    _require_accounting(name, accounting)
    if accounting == "whole-run" or name == "Noise at the end":
        return math.sqrt(used) * ratio / n
    spread = used / n / ((1 - p) * n + 1 if name == "Interleaved" else 1.0)
    return (spread * ratio**2) ** (2 / 3) if accounting == "published" else math.sqrt(spread) * ratio
