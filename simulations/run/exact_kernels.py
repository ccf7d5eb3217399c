"""The steps of proved noise in floats, compiled: the integers that floats decide, and a list of the open places.

A number whose rounding is not certain becomes NaN, and so do the numbers that follow from it.  So a place is open where
the integer of its noise is NaN.  Products may be fused with sums: each leaves out a rounding that the limits count.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.simulations.run.exact_steps import LARGEST_INTEGER, LARGEST_ROW
from corrnoise.support.kernels import kernel

_BLOCK = 1024  # coordinates that stay in the first-level cache
_MIDDLE = 2.0**-17  # of the dithers whose first 16 bits are 0

_fused = kernel(fastmath={"contract"})


@_fused
def _is_certain(t, number, reach, largest):  # type: ignore[no-untyped-def]
    """Whether all numbers near t have this nearest integer, and it is in range; no NaN is certain."""
    return (abs(t - number) <= reach) & (abs(number) < largest)


@_fused
def _add(value, row, old, unit, weight):  # type: ignore[no-untyped-def]
    """Add a row times a weight."""
    shift = unit * _MIDDLE
    for j in range(value.size):
        value[j] += weight * ((np.float64(row[j]) - np.float64(old[j]) * 2.0**-16) * unit - shift)


@_fused
def _write(value, v, own, inverse, limit, fresh):  # type: ignore[no-untyped-def]
    """Write ⌊v/u + D + ½⌋; ``value`` is NaN where it is open."""
    reach = 0.5 - limit
    for j in range(value.size):
        t = v[j] * inverse + (np.float64(own[j]) * 2.0**-16 + _MIDDLE)
        number = np.rint(t)
        fresh[j] = np.int32(number)
        value[j] = value[j] if _is_certain(t, number, reach, LARGEST_ROW) else math.nan


@_fused
def _pass(value, row, old, own, decay, gain, unit, inverse, limit, fresh):  # type: ignore[no-untyped-def]
    """Send draws through a section of a cascade, and write its row."""
    reach, shift = 0.5 - limit, unit * _MIDDLE
    for j in range(value.size):  # the compiler vectorises loops of few arrays
        x = value[j]
        s = (np.float64(row[j]) - np.float64(old[j]) * 2.0**-16) * unit - shift
        t = (s + (x - decay * s)) * inverse + (np.float64(own[j]) * 2.0**-16 + _MIDDLE)
        number = np.rint(t)
        fresh[j] = np.int32(number)
        value[j] = x + gain * s if _is_certain(t, number, reach, LARGEST_ROW) else math.nan


@_fused
def _rounded(value, factor, limit):  # type: ignore[no-untyped-def]
    """⌊x f + ½⌋ in place, NaN where it is open; the number of these places."""
    reach = 0.5 - limit
    count = 0
    for j in range(value.size):
        t = value[j] * factor
        number = np.rint(t)
        certain = _is_certain(t, number, reach, LARGEST_INTEGER)
        value[j] = number + 0.0 if certain else math.nan  # 0, not −0
        count += 0 if certain else 1
    return count


@kernel
def _list(value, first, places):  # type: ignore[no-untyped-def]
    """List the open places of a part that begins at ``first``."""
    count = 0
    for j in range(value.size):
        if math.isnan(value[j]):
            places[count] = first + j
            count += 1


@_fused
def run_rows(x, memory, before, now, cascade, numbers, limits, factor, places):  # type: ignore[no-untyped-def]
    """Turn scaled draws into integers, and write the rows where all is certain; the number of open places.

    ``before`` and ``now`` are 16 bits of the dithers of the step that wrote the rows, and of this one.  ``numbers`` are
    decays, outputs, inputs, and the units of the rows that are read, 0 for new rows, and written.
    A ``cascade`` has the gaps of its poles for decays, and its gains for outputs.
    """
    decays, outputs, inputs, read, units = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    count = 0
    rows = units.size
    fresh = np.empty((rows, _BLOCK), np.int32)
    states = np.empty(_BLOCK)
    for first in range(0, x.size, _BLOCK):
        last = min(first + _BLOCK, x.size)
        size = last - first
        value = x[first:last]
        if not cascade:
            for i in range(rows):
                _add(value, memory[i, first:last], before[i, first:last], read[i], -outputs[i])
        for i in range(rows):
            row, old, own, new = memory[i, first:last], before[i, first:last], now[i, first:last], fresh[i, :size]
            if cascade:
                _pass(value, row, old, own, decays[i], outputs[i], read[i], 1.0 / units[i], limits[i + 1], new)
            else:
                state = states[:size]
                entry = inputs[i]
                for j in range(size):
                    state[j] = entry * value[j]
                _add(state, row, old, read[i], decays[i])
                _write(value, state, own, 1.0 / units[i], limits[i + 1], new)
        found = _rounded(value, factor, limits[0])
        if found > 0:
            listed = places[count : count + found]
            _list(value, first, listed)
            count += found
            for i in range(rows):
                for place in listed:
                    fresh[i, place - first] = memory[i, place]
        for i in range(rows):
            row, new = memory[i, first:last], fresh[i, :size]
            for j in range(size):  # several times as fast as ``row[:] = new``
                row[j] = new[j]
    return count


@_fused
def run_tree(x, memory, before, now, draw, weights, units, limits, factor, places):  # type: ignore[no-untyped-def]
    """Turn the draws of a step of a tree into integers, and write its row; the number of open places.

    ``weights`` are the estimates and δ of the rows below, and ``units`` those of these rows and of the one that is
    written.
    """
    count = 0
    height = units.size - 1
    states = np.empty(_BLOCK)
    for first in range(0, x.size, _BLOCK):
        last = min(first + _BLOCK, x.size)
        value = x[first:last]
        for j in range(value.size):
            value[j] *= draw
        for i in range(height):
            _add(value, memory[i, first:last], before[i, first:last], units[i], weights[0, i])
        node = states[: value.size]
        for j in range(value.size):
            node[j] = value[j]
        _write(value, node, now[0, first:last], 1.0 / units[height], limits[1], memory[height, first:last])
        for i in range(height):
            _add(value, memory[i, first:last], before[i, first:last], units[i], -weights[1, i])
        found = _rounded(value, factor, limits[0])
        if found > 0:
            _list(value, first, places[count : count + found])
            count += found
    return count


@_fused
def run_delays(x, ring, newest, coefficients, limit, factor, places):  # type: ignore[no-untyped-def]
    """Turn the draws of a step into integers; the earlier ones follow row ``newest`` of the ring."""
    count = 0
    for first in range(0, x.size, _BLOCK):
        value = x[first : min(first + _BLOCK, x.size)]
        size = value.size
        value *= coefficients[0]
        for age in range(1, coefficients.size):
            beta = coefficients[age]
            draw = ring[(newest + age) % len(ring), first : first + size]
            for j in range(size):
                value[j] += beta * draw[j]
        found = _rounded(value, factor, limit)
        if found > 0:
            _list(value, first, places[count : count + found])
            count += found
    return count


@_fused
def run_substitution(x, ring, step, entries, limit, factor, places):  # type: ignore[no-untyped-def]
    """Turn the draws of a step into integers; the integers of step s are row s mod (p − 1) of the ring."""
    count = 0
    for first in range(0, x.size, _BLOCK):
        value = x[first : min(first + _BLOCK, x.size)]
        size = value.size
        value *= factor
        for age in range(1, entries.size):
            entry = entries[age]
            made = ring[(step - age) % len(ring), first : first + size]
            for j in range(size):
                value[j] -= entry * made[j]
        for j in range(size):
            value[j] /= entries[0]
        found = _rounded(value, 1.0, limit)
        if found > 0:
            _list(value, first, places[count : count + found])
            count += found
    return count
