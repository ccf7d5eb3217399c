"""Private training in PyTorch: a crash-safe run of a model, and clipped sums of gradients with the noise of a run."""

from corrnoise.simulations.adapters.torch import add_noise, clipped_sum, example_gradients, private_gradient
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.adapters.torch_shards import Group

__all__ = ["Group", "TorchRun", "add_noise", "clipped_sum", "example_gradients", "make_private", "private_gradient"]
