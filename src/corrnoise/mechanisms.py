"""Mechanisms by name: correlated noise for runs of any length and for finite runs.

>>> import corrnoise as cn
>>> cn.mechanisms.NuFTRL(0.01).coefficients(3)
array([ 1.       , -0.495    , -0.1225125])
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("corrnoise", __file__)
