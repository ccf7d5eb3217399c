"""Private training in the loop of Opacus, with gradients of the library."""

from corrnoise.simulations.adapters.opacus import make_private

__all__ = ["make_private"]
