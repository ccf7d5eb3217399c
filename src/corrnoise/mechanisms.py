"""Mechanisms by name: correlated noise for runs of any length and for finite runs.

>>> import corrnoise as cn
>>> cn.mechanisms.NuFTRL(0.01).coefficients(3)
array([ 1.       , -0.495    , -0.1225125])
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "corrnoise",
    None,
    {
        "solvers.rational.stand_in": ["rational"],
        "theory.mechanisms.banded_strategy": ["BandedStrategyNoise"],
        "theory.mechanisms.finite": ["FiniteNoise"],
        "theory.mechanisms.matrix": ["BandedNoise", "MatrixNoise"],
        "theory.mechanisms.poles": ["PoleNoise"],
        "theory.mechanisms.product": ["DPSGD", "AntiPGD", "NuFTRL", "ProductNoise"],
        "theory.mechanisms.scaled": ["ScaledNoise"],
        "theory.mechanisms.time_varying": ["TimeVaryingBuffers"],
        "theory.mechanisms.tree": ["BinaryTree"],
    },
)
