"""What a solver of this package returns for a Toeplitz mechanism: the noise, and what it costs."""

from __future__ import annotations

import math

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.participation import Participation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.toeplitz_losses import Objective, error_weights, noising_error
from corrnoise.theory.numerics.records import Record, record


@record
class OptimisedNoise(Record):
    """Toeplitz noise for prefix sums in a finite run, the best of its family.

    Attributes
    ----------
    noise
        The noise, to be scaled by ``sensitivity``/sqrt(2ρ) and the clip norm.
    participation
        Length of the run, and how often and how far apart an example takes part.
    objective
        ``"mean"`` or ``"max"``, the error that was minimised.
    sensitivity
        Of the run, rounded up.
    mean_error, max_error
        Sensitivity times the root of the mean and of the largest squared error of a step, at unit noise: the errors
        of a release with ρ = 1/2 and clip norm 1.
    lower_bound
        No Toeplitz mechanism with at most as many bands has a smaller error; None where there is no such certificate.
        Computed in floating point: it is right to about 1e-9.
    """

    noise: ToeplitzNoise
    participation: Participation
    objective: Objective
    sensitivity: float
    mean_error: float
    max_error: float
    lower_bound: float | None = None

    @property
    def error(self) -> float:
        """The error that was minimised."""
        return self.mean_error if self.objective == "mean" else self.max_error

    @property
    def gap(self) -> float | None:
        """By how much, relatively, the error may exceed that of the best of the family; None without certificate."""
        return None if self.lower_bound is None else self.error / self.lower_bound - 1

    @property
    def memory(self) -> int:
        """Vectors of the model's size that a stream keeps; multiplications and additions of a step are as many."""
        if isinstance(self.noise, PoleNoise):
            return self.noise.sections()[0].size
        if isinstance(self.noise, BandedStrategyNoise | FiniteNoise):
            return self.noise.values.size - 1
        return self.participation.steps - 1

    @property
    def anytime(self) -> bool:
        """Whether a run with one participation can go on beyond ``steps`` without an end, at a finite noise level."""
        return math.isfinite(self.noise.limiting_sensitivity())


def evaluated(
    noise: ToeplitzNoise, participation: Participation, objective: Objective, lower_bound: float | None = None
) -> OptimisedNoise:
    """The record of ``noise``, from its coefficients."""
    n = participation.steps
    sensitivity = noise.sensitivity_upper_bound(
        n, min_sep=participation.min_sep, max_participations=participation.count
    )
    coefficients = noise.coefficients(n)
    mean, _ = noising_error(coefficients, error_weights(n, n, "mean"))
    largest, _ = noising_error(coefficients, error_weights(n, n, "max"))
    return OptimisedNoise(
        noise=noise,
        participation=participation,
        objective=objective,
        sensitivity=sensitivity,
        mean_error=sensitivity * math.sqrt(mean),
        max_error=sensitivity * math.sqrt(largest),
        lower_bound=lower_bound,
    )
