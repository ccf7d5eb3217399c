"""Workloads by name: what noise is optimised for, besides ``cn.SGD`` and the problems of known spectrum."""

from corrnoise.theory.objectives.workloads import LargestError, MomentumAverage, PrefixSums

__all__ = ["LargestError", "MomentumAverage", "PrefixSums"]
