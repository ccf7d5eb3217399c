"""Every kind of correlated noise and of mechanism by name: what a saved stream, design or release may hold."""

from __future__ import annotations

from typing import Any

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree

KINDS: dict[str, type[ToeplitzNoise]] = {
    kind.__name__: kind
    for kind in (
        DPSGD,
        NuFTRL,
        AntiPGD,
        ProductNoise,
        PoleNoise,
        BufferNoise,
        FiniteNoise,
        BandedStrategyNoise,
        CepstralNoise,
    )
}

#: The mechanisms of finite runs that a stream makes.
MECHANISMS: dict[str, type[Mechanism]] = {
    kind.__name__: kind for kind in (ScaledNoise, MatrixNoise, BandedNoise, BinaryTree)
}


def made(described: dict[str, Any]) -> Any:
    """The noise or mechanism of a description: its class under ``"kind"``, and its arguments.

    Raises
    ------
    ValueError
        The class is unknown, or refuses the arguments.
    TypeError
        The class has other arguments.
    """
    arguments = {name: made(value) if isinstance(value, dict) else value for name, value in described.items()}
    kinds = {**KINDS, **MECHANISMS}
    kind = arguments.pop("kind", None)
    if kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {kind!r:.80}")
    return kinds[kind](**arguments)
