"""Shuffled gradients (arXiv 2502.03652): accounting across epochs, and runs."""

from corrnoise.simulations.papers.shuffled_gradients.data import SPLITS, task
from corrnoise.simulations.papers.shuffled_gradients.experiments import experiment
from corrnoise.simulations.papers.shuffled_gradients.run import shuffled_run
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients

__all__ = ["SPLITS", "ShuffledGradients", "experiment", "shuffled_run", "task"]
