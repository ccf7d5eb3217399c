"""What a solver of this package returns for a Toeplitz mechanism: the noise, and what it costs."""

from __future__ import annotations

import math

from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.toeplitz_losses import Objective
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import safe_multiplier


@record
class OptimisedNoise(Record):
    """Toeplitz noise for prefix sums in a finite run, the best of its family.

    Attributes
    ----------
    noise
        The noise, to be scaled by ``noise_multiplier`` and the clip norm.
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

    def noise_multiplier(self, rho: float, *, adjacency: str = "zero-out") -> float:
        """Standard deviation of the independent noise, in units of the clip norm, that makes the run ρ-zCDP.

        Parameters
        ----------
        rho
            Budget of zero-concentrated differential privacy, > 0.
        adjacency
            ``"zero-out"``, or ``"replace-one"``, which doubles the sensitivity.

        Returns
        -------
        ``sensitivity``/sqrt(2ρ), rounded up.
        """
        return safe_multiplier(self.sensitivity, rho, adjacency)

    @property
    def mechanism(self) -> ToeplitzMechanism:
        """The noise as a mechanism of this run: its strategy, its errors for other workloads."""
        return self.noise

    @property
    def memory(self) -> int:
        """How many arrays of the size of the gradient a stream keeps; a step takes about as many multiplications."""
        return self.mechanism.memory

    @property
    def anytime(self) -> bool:
        """Whether a run with one participation can go on beyond ``steps`` without an end, at a finite noise level."""
        return self.mechanism.anytime


def evaluated(
    noise: ToeplitzNoise, participation: Participation, objective: Objective, lower_bound: float | None = None
) -> OptimisedNoise:
    """The record of ``noise``, from its coefficients."""
    run = noise
    sensitivity = run.sensitivity_upper_bound(participation)
    variances = run.errors()
    return OptimisedNoise(
        noise=noise,
        participation=participation,
        objective=objective,
        sensitivity=sensitivity,
        mean_error=sensitivity * math.sqrt(variances.mean()),
        max_error=sensitivity * math.sqrt(variances[-1]),
        lower_bound=lower_bound,
    )
