"""Mechanisms by name: correlated noise for runs of any length and for finite runs.

>>> import corrnoise as cn
>>> cn.mechanisms.NuFTRL(0.01).coefficients(3)
array([ 1.       , -0.495    , -0.1225125])
"""

from corrnoise.solvers.rational.approximation import rational
from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum as from_power_spectrum
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree

__all__ = [
    "DPSGD",
    "AntiPGD",
    "BandedNoise",
    "BinaryTree",
    "FiniteNoise",
    "MatrixNoise",
    "NuFTRL",
    "PoleNoise",
    "ProductNoise",
    "ScaledNoise",
    "from_power_spectrum",
    "rational",
]
