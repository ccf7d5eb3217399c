"""Shuffled gradients (arXiv 2502.03652): accounting across epochs, and runs."""

from corrnoise.simulations.papers.shuffled_gradients.run import shuffled_run
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients

__all__ = ["ShuffledGradients", "shuffled_run"]
