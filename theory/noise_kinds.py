"""Every kind of correlated noise by name: what a saved stream or design may hold."""

from __future__ import annotations

from corrnoise.theory.cepstral_noise import CepstralNoise
from corrnoise.theory.finite_noise import FiniteNoise
from corrnoise.theory.pole_noise import PoleNoise
from corrnoise.theory.product_noise import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.toeplitz_noise import ToeplitzNoise

KINDS: dict[str, type[ToeplitzNoise]] = {
    kind.__name__: kind for kind in (DPSGD, NuFTRL, AntiPGD, ProductNoise, PoleNoise, FiniteNoise, CepstralNoise)
}
