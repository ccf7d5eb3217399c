"""Families of noise by name, for ``cn.optimise(family=…)`` and ``cn.design(family=…)``.

>>> import corrnoise as cn
>>> cn.families.by_name("banded inverse").name
'BandInvMF'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    "corrnoise",
    None,
    {
        "solvers.families.base": ["Family"],
        "solvers.families.registry": ["DEFAULT", "by_name", "names"],
    },
)
