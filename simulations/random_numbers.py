"""Generators of random numbers: what simulations and streams take as ``rng``."""

from __future__ import annotations

from numbers import Integral

import numpy as np

Seed = int | np.random.SeedSequence | np.random.Generator | None


def generator(rng: object) -> np.random.Generator:
    """Return the generator that ``rng`` stands for.

    An integer >= 0 or a ``SeedSequence`` fixes the numbers; a ``Generator`` is used as it is, not copied; None takes a
    seed from the operating system.  Anything else is a ``ValueError`` or ``TypeError``.
    """
    integer = isinstance(rng, Integral) and not isinstance(rng, bool)
    if not (integer or rng is None or isinstance(rng, np.random.SeedSequence | np.random.Generator)):
        raise TypeError(f"rng must be an integer >= 0, a SeedSequence, a Generator or None, got {rng!r:.80}")
    if integer and rng < 0:  # type: ignore[operator]
        raise ValueError(f"rng must be an integer >= 0, a SeedSequence, a Generator or None, got {rng!r:.80}")
    return np.random.default_rng(rng)  # type: ignore[arg-type]
