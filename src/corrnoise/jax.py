"""Private training in JAX: crash-safe runs, private gradients, and the noise for optax and jax-privacy."""

from corrnoise.simulations.adapters.jax import private_gradient
from corrnoise.simulations.adapters.jax_run import JaxRun, make_private
from corrnoise.simulations.adapters.jax_transforms import correlated_noise, noise_of_program, noising_matrix

__all__ = ["JaxRun", "correlated_noise", "make_private", "noise_of_program", "noising_matrix", "private_gradient"]
