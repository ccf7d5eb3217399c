"""Every class of correlated noise that a file may hold, by name."""

from __future__ import annotations

from corrnoise.support.serialise import by_name
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree

KINDS: dict[str, type[Mechanism]] = by_name(
    *(DPSGD, NuFTRL, AntiPGD, ProductNoise, PoleNoise, BufferNoise, FiniteNoise, BandedStrategyNoise, CepstralNoise),
    *(ScaledNoise, MatrixNoise, BandedNoise, BinaryTree, TimeVaryingBuffers),
)
