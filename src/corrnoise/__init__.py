"""Correlated noise for differentially private optimisation: check the theory, design the noise, run it.

>>> import corrnoise as cn
>>> budget = cn.Budget(epsilon=2.0, delta=1e-6, clip_norm=1.0)
>>> design = cn.design(budget, cn.Participation.fixed_epochs(400, epochs=4), memory=4)
>>> print(f"{design.ratio:.3f}")
1.038

Names are loaded when they are first used; ``__init__.pyi`` lists them.
"""

import logging

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
logging.getLogger(__name__).addHandler(logging.NullHandler())  # what is logged is shown where a program asks for it
