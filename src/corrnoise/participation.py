"""Participations: the steps of a run that may use one example, a class for each order and each sampler.

>>> import corrnoise as cn
>>> cn.participation.FixedEpochs(400, epochs=4) == cn.Participation.fixed_epochs(400, epochs=4)
True
"""

from corrnoise.theory.participation import (
    BallsInBins,
    BMinSep,
    CyclicPoisson,
    FixedEpochs,
    MinSep,
    Order,
    Participation,
    Poisson,
    RedrawnBins,
    Reshuffled,
    Sampled,
    Single,
)

__all__ = [
    "BMinSep",
    "BallsInBins",
    "CyclicPoisson",
    "FixedEpochs",
    "MinSep",
    "Order",
    "Participation",
    "Poisson",
    "RedrawnBins",
    "Reshuffled",
    "Sampled",
    "Single",
]
