__all__: list[str]

from .solvers.rational.stand_in import rational as rational
from .theory.mechanisms.banded_strategy import BandedStrategyNoise as BandedStrategyNoise
from .theory.mechanisms.finite import FiniteNoise as FiniteNoise
from .theory.mechanisms.matrix import BandedNoise as BandedNoise
from .theory.mechanisms.matrix import MatrixNoise as MatrixNoise
from .theory.mechanisms.poles import PoleNoise as PoleNoise
from .theory.mechanisms.product import DPSGD as DPSGD
from .theory.mechanisms.product import AntiPGD as AntiPGD
from .theory.mechanisms.product import NuFTRL as NuFTRL
from .theory.mechanisms.product import ProductNoise as ProductNoise
from .theory.mechanisms.scaled import ScaledNoise as ScaledNoise
from .theory.mechanisms.time_varying import TimeVaryingBuffers as TimeVaryingBuffers
from .theory.mechanisms.tree import BinaryTree as BinaryTree
