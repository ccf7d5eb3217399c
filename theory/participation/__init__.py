"""Participation: the steps of a run that may use one example.  A class for each kind, and a door for each class.

>>> from corrnoise.theory.participation import FixedEpochs, Participation
>>> Participation.fixed_epochs is FixedEpochs
True
"""

from corrnoise.theory.participation.base import Indices, Order, Participation, Sampled, Unit, Words
from corrnoise.theory.participation.orders import ANY_LENGTH, FixedEpochs, MinSep, Reshuffled, Single
from corrnoise.theory.participation.sampled import BallsInBins, BMinSep, CyclicPoisson, Poisson, RedrawnBins

__all__ = [
    "ANY_LENGTH",
    "BMinSep",
    "BallsInBins",
    "CyclicPoisson",
    "FixedEpochs",
    "Indices",
    "MinSep",
    "Order",
    "Participation",
    "Poisson",
    "RedrawnBins",
    "Reshuffled",
    "Sampled",
    "Single",
    "Unit",
    "Words",
]
