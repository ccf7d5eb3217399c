"""Private training in PyTorch: clipped sums of gradients, with the noise of a run."""

from corrnoise.simulations.adapters.torch import add_noise, clipped_sum, example_gradients, private_gradient

__all__ = ["add_noise", "clipped_sum", "example_gradients", "private_gradient"]
