"""Correlated noise for differentially private optimisation: check the theory, design the noise, run it.

>>> import corrnoise as cn
>>> noise = cn.NuFTRL(0.01)
>>> problem = cn.LinearRegression([1.0, 0.5, 0.1], learning_rate=0.1)
>>> problem.stationary_error(noise) / problem.optimal_error()  # doctest: +ELLIPSIS
1.156...

Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from corrnoise.support.version import __version__

if TYPE_CHECKING:
    from corrnoise.designs.make import design as design
    from corrnoise.designs.record import Design as Design
    from corrnoise.designs.release import Release as Release
    from corrnoise.paper_checks import claims as claims
    from corrnoise.simulations.audit import audit as audit
    from corrnoise.simulations.momentum_aggregation.private import private_momentum as private_momentum
    from corrnoise.simulations.momentum_aggregation.private import private_reduced_momentum as private_reduced_momentum
    from corrnoise.simulations.quadratic import simulate as simulate
    from corrnoise.simulations.run.batches import Batches as Batches
    from corrnoise.simulations.run.batches import batches as batches
    from corrnoise.simulations.run.private import PrivateRun as PrivateRun
    from corrnoise.simulations.run.stream import Stream as Stream
    from corrnoise.solvers.matrix_factorisation.banded import optimal_banded as optimal_banded
    from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers as optimal_buffers
    from corrnoise.solvers.matrix_factorisation.dense import (
        optimal_single_participation as optimal_single_participation,
    )
    from corrnoise.solvers.matrix_factorisation.dense import workload_of_weights as workload_of_weights
    from corrnoise.solvers.matrix_factorisation.fixed_epochs import optimal_fixed_epochs as optimal_fixed_epochs
    from corrnoise.solvers.matrix_factorisation.learning import optimal_for_learning as optimal_for_learning
    from corrnoise.solvers.matrix_factorisation.scaled_buffers import optimal_scaled_buffers as optimal_scaled_buffers
    from corrnoise.solvers.matrix_factorisation.toeplitz import optimal_toeplitz as optimal_toeplitz
    from corrnoise.solvers.optimal_noise import optimal_noise as optimal_noise
    from corrnoise.solvers.rational.approximation import rational_approximation as rational_approximation
    from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum as noise_from_power_spectrum
    from corrnoise.solvers.strongly_convex.alternating_minimisation import (
        minimise_strongly_convex_bound as minimise_strongly_convex_bound,
    )
    from corrnoise.solvers.strongly_convex.bound import strongly_convex_bound as strongly_convex_bound
    from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate as strongly_convex_certificate
    from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise as BandedStrategyNoise
    from corrnoise.theory.mechanisms.finite import FiniteNoise as FiniteNoise
    from corrnoise.theory.mechanisms.matrix import BandedNoise as BandedNoise
    from corrnoise.theory.mechanisms.matrix import MatrixNoise as MatrixNoise
    from corrnoise.theory.mechanisms.matrix import ScaledNoise as ScaledNoise
    from corrnoise.theory.mechanisms.matrix import ToeplitzMechanism as ToeplitzMechanism
    from corrnoise.theory.mechanisms.matrix import column_normalised as column_normalised
    from corrnoise.theory.mechanisms.participation import Participation as Participation
    from corrnoise.theory.mechanisms.participation import fixed_epochs as fixed_epochs
    from corrnoise.theory.mechanisms.product import DPSGD as DPSGD
    from corrnoise.theory.mechanisms.product import AntiPGD as AntiPGD
    from corrnoise.theory.mechanisms.product import NuFTRL as NuFTRL
    from corrnoise.theory.mechanisms.product import ProductNoise as ProductNoise
    from corrnoise.theory.mechanisms.tree import BinaryTree as BinaryTree
    from corrnoise.theory.mechanisms.tree import fourier_mechanism as fourier_mechanism
    from corrnoise.theory.mechanisms.tree import full_honaker as full_honaker
    from corrnoise.theory.mechanisms.workloads import MatrixWorkload as MatrixWorkload
    from corrnoise.theory.mechanisms.workloads import MomentumAverage as MomentumAverage
    from corrnoise.theory.mechanisms.workloads import MomentumSGD as MomentumSGD
    from corrnoise.theory.mechanisms.workloads import PrefixSums as PrefixSums
    from corrnoise.theory.privacy import approx_dp_to_zcdp as approx_dp_to_zcdp
    from corrnoise.theory.privacy import gaussian_delta as gaussian_delta
    from corrnoise.theory.privacy import gaussian_epsilon as gaussian_epsilon
    from corrnoise.theory.privacy import gaussian_rho as gaussian_rho
    from corrnoise.theory.privacy import zcdp_to_approx_dp as zcdp_to_approx_dp
    from corrnoise.theory.problems.bounded_losses import EmpiricalRisk as EmpiricalRisk
    from corrnoise.theory.problems.bounded_losses import MarginLoss as MarginLoss
    from corrnoise.theory.problems.bounded_losses import TwoLayerNetwork as TwoLayerNetwork
    from corrnoise.theory.problems.learning_objective import LearningObjective as LearningObjective
    from corrnoise.theory.problems.quadratic import LinearRegression as LinearRegression
    from corrnoise.theory.problems.quadratic import MeanEstimation as MeanEstimation
    from corrnoise.theory.problems.strongly_convex import StronglyConvex as StronglyConvex
    from corrnoise.theory.shuffled_gradients.run import ShuffledGradients as ShuffledGradients

_HOMES = {
    "theory.mechanisms.banded_strategy": ("BandedStrategyNoise",),
    "theory.mechanisms.finite": ("FiniteNoise",),
    "theory.mechanisms.matrix": (
        "BandedNoise",
        "MatrixNoise",
        "ScaledNoise",
        "ToeplitzMechanism",
        "column_normalised",
    ),
    "theory.mechanisms.participation": (
        "Participation",
        "fixed_epochs",
    ),
    "theory.mechanisms.tree": (
        "BinaryTree",
        "fourier_mechanism",
        "full_honaker",
    ),
    "theory.mechanisms.workloads": (
        "MatrixWorkload",
        "MomentumAverage",
        "MomentumSGD",
        "PrefixSums",
    ),
    "theory.privacy": (
        "approx_dp_to_zcdp",
        "gaussian_delta",
        "gaussian_epsilon",
        "gaussian_rho",
        "zcdp_to_approx_dp",
    ),
    "theory.problems.bounded_losses": (
        "EmpiricalRisk",
        "MarginLoss",
        "TwoLayerNetwork",
    ),
    "theory.problems.learning_objective": ("LearningObjective",),
    "theory.problems.quadratic": (
        "LinearRegression",
        "MeanEstimation",
    ),
    "theory.mechanisms.product": (
        "DPSGD",
        "AntiPGD",
        "NuFTRL",
        "ProductNoise",
    ),
    "theory.problems.strongly_convex": ("StronglyConvex",),
    "theory.shuffled_gradients.run": ("ShuffledGradients",),
    "solvers.strongly_convex.alternating_minimisation": ("minimise_strongly_convex_bound",),
    "solvers.matrix_factorisation.banded": ("optimal_banded",),
    "solvers.matrix_factorisation.buffers": ("optimal_buffers",),
    "solvers.matrix_factorisation.dense": (
        "optimal_single_participation",
        "workload_of_weights",
    ),
    "solvers.matrix_factorisation.fixed_epochs": ("optimal_fixed_epochs",),
    "solvers.matrix_factorisation.learning": ("optimal_for_learning",),
    "solvers.matrix_factorisation.scaled_buffers": ("optimal_scaled_buffers",),
    "solvers.matrix_factorisation.toeplitz": ("optimal_toeplitz",),
    "solvers.optimal_noise": ("optimal_noise",),
    "solvers.rational.approximation": ("rational_approximation",),
    "solvers.spectral_factorisation": ("noise_from_power_spectrum",),
    "solvers.strongly_convex.bound": (
        "strongly_convex_bound",
        "strongly_convex_certificate",
    ),
    "simulations.audit": ("audit",),
    "simulations.momentum_aggregation.private": (
        "private_momentum",
        "private_reduced_momentum",
    ),
    "simulations.quadratic": ("simulate",),
    "simulations.run.batches": (
        "Batches",
        "batches",
    ),
    "simulations.run.private": ("PrivateRun",),
    "simulations.run.stream": ("Stream",),
    "designs.make": ("design",),
    "designs.record": ("Design",),
    "designs.release": ("Release",),
    "paper_checks": ("claims",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'corrnoise' has no attribute {name!r}")
    value = getattr(import_module(f"corrnoise.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
