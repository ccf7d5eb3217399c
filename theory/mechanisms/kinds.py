"""Every kind of correlated noise by name: what a saved stream or design may hold."""

from __future__ import annotations

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise

KINDS: dict[str, type[ToeplitzNoise]] = {
    kind.__name__: kind
    for kind in (DPSGD, NuFTRL, AntiPGD, ProductNoise, PoleNoise, FiniteNoise, BandedStrategyNoise, CepstralNoise)
}
