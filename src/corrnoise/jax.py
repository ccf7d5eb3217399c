"""Private training in JAX: gradients with the noise of a run, a transformation of optax, matrices of jax-privacy."""

from corrnoise.simulations.adapters.jax import correlated_noise, noise_of_program, noising_matrix, private_gradient

__all__ = ["correlated_noise", "noise_of_program", "noising_matrix", "private_gradient"]
