"""Private training in PyTorch: a crash-safe run of a model, and clipped sums of gradients with the noise of a run."""

from corrnoise.simulations.adapters.torch import add_noise, clipped_sum, private_gradient
from corrnoise.simulations.adapters.torch_choice import example_gradients
from corrnoise.simulations.adapters.torch_engines import Engine
from corrnoise.simulations.adapters.torch_items import model_loss, pad_to, per_example
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.adapters.torch_shards import Group

__all__ = [
    "Engine",
    "Group",
    "TorchRun",
    "add_noise",
    "clipped_sum",
    "example_gradients",
    "make_private",
    "model_loss",
    "pad_to",
    "per_example",
    "private_gradient",
]
