"""The states of recursions (``theory.recursion``) that are driven by noise, compiled.  No argument is checked."""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.inlined import times


@kernel
def respond(transition, entry, noise, responses):  # type: ignore[no-untyped-def]
    """Fill the first states of all groups after each step."""
    groups, m = entry.shape[1:]
    states, moved = np.zeros((groups, m)), np.empty(m)
    for t in range(noise.size):
        f, e = transition[t % len(transition)], entry[t % len(entry)]
        for g in range(groups):
            times(f[g], states[g], moved)
            for x in range(m):
                states[g, x] = moved[x] + e[g, x] * noise[t]
            responses[t, g] = states[g, 0]
