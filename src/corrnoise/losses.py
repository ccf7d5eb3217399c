"""Losses with derived constants: linear models by their link, margins, small networks, and means over examples."""

from corrnoise.theory.losses import EmpiricalRisk, LinearLoss, MarginLoss, TwoLayerNetwork

__all__ = ["EmpiricalRisk", "LinearLoss", "MarginLoss", "TwoLayerNetwork"]
