"""The draws in PyTorch, on any device: the same bits as those of ``draws`` on the host (the extra ``torch``).

``normals`` forms each coordinate by itself, of operations on tensors that IEEE 754 defines to the last bit.  Three
things keep its bits those of ``run/normals.py``, in eager and in compiled programs:

- A product that feeds a sum is formed as x·y + ν, where the tensor ν holds −0.0.  A compiler may turn this into one
  fused operation, which returns the rounded product, and cannot fuse the sum that follows.  It would leave out a
  constant.
- Products of two words of 32 bits wrap in int64; shifts are masked.
- The root of PyTorch is wrong in the last place on some processors, and gets one step of Newton's method, for which the
  square of the root is an exact sum of two floats (Dekker).

Devices without float64 are refused by PyTorch itself.  On CPUs ``fill`` uses the compiled code of the host, which takes
a twentieth of the time, on the memory of the tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run import normals as host
from corrnoise.simulations.run.spans import Spans

_LOW = 0xFFFFFFFF
_PAIRS = 1024
_AT_ONCE = 2**21  # coordinates whose intermediate results are kept
_MULTIPLIERS = tuple(int(each) for each in host._MULTIPLIERS)
_INCREMENTS = tuple(int(each) for each in host._INCREMENTS)
_ROOT_HALF = int(host._ROOT_HALF)
_ATANH, _SIN, _COS = (each.tolist() for each in (host._ATANH, host._SIN, host._COS))


def normals(seed: Any, index: Any, nu: Any) -> Any:
    """The standard normals of some coordinates, float64, of the shape of ``index``; may be compiled.

    Parameters
    ----------
    seed
        A row of ``draws.seeds``: four tensors, or a tensor of shape (4,), of int64.
    index
        The coordinates of the flattened model, from 0, int64.
    nu
        A tensor of float64 that holds −0.0, an argument of the compiled program.
    """
    place = index & (2 * _PAIRS - 1)
    radial, angular = _philox(seed, (index >> 11) * _PAIRS + (place & (_PAIRS - 1)))
    squared = _logarithms(radial, nu)
    return _turned(_root(squared, squared.sqrt(), nu), angular, place >= _PAIRS, nu)


def _philox(seed: Any, counter: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Two words of 64 bits of each counter, as halves (low, high)."""
    k0, k1, c2, c3 = seed[0], seed[1], seed[2], seed[3]
    c0, c1 = counter & _LOW, counter >> 32
    for _ in range(host._ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = _high(p1) ^ c1 ^ k0, p1 & _LOW, _high(p0) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _INCREMENTS[0]) & _LOW, (k1 + _INCREMENTS[1]) & _LOW
    return (c0, c1), (c2, c3)


def _high(product: Any) -> Any:
    """The upper 32 bits of a product that may have wrapped."""
    return (product >> 32) & _LOW


def _unit(low: Any, high: Any) -> Any:
    """(w + ½)/2⁶⁴, where the sum of the halves is rounded once."""
    return (high.double() * 2.0**32 + low.double() + 0.5) * 2.0**-64


def _logarithms(word: tuple[Any, Any], nu: Any) -> Any:
    """−2 log((w + ½)/2⁶⁴), as on the host."""
    low, high = word
    bits = _unit(low, high).view(low.dtype)
    power = (bits - _ROOT_HALF) >> 52
    fraction = (bits - (power << 52)).view(nu.dtype)
    exponent = power.double()
    missing = _unit(low ^ _LOW, high ^ _LOW)
    excess = (-missing).where(power == 0, fraction - 1.0)
    s = excess / (excess + 2.0)
    z = s * s
    tail = _ATANH[10]
    for k in range(9, 0, -1):
        tail = (z * tail + nu) + _ATANH[k]
    rest = (s * z * tail + nu) + (exponent * host._LOG2_LOW + nu)
    return -2.0 * (exponent * host._LOG2_HIGH + (2.0 * s + rest))  # both products are exact


def _root(x: Any, s: Any, nu: Any) -> Any:
    """The correctly rounded root of positive numbers x, from roots s with an error of a unit in the last place."""
    spread = s * (2.0**27 + 1) + nu
    high = spread - (spread - s)
    low = s - high
    square = s * s + nu
    error = ((high * high - square) + 2.0 * (high * low)) + low * low
    return s + ((x - square) - error) / (2.0 * s)


def _turned(radius: Any, word: tuple[Any, Any], sines: Any, nu: Any) -> Any:
    """The radius times the cosine of an angle, or its sine, as on the host."""
    low, high = word
    angle = low | (high << 32)
    quarter = ((angle + 2**61) >> 62) & 3
    x = (angle - (quarter << 62)).double() * host._TURN + nu
    z = x * x
    sine = _SIN[7]
    for k in range(6, 0, -1):
        sine = (z * sine + nu) + _SIN[k]
    sine = x + (x * z * sine + nu)
    cosine = _COS[8]
    for k in range(7, 1, -1):
        cosine = (z * cosine + nu) + _COS[k]
    cosine = 1.0 - (0.5 * z - (z * z * cosine + nu))
    swapped = (quarter & 1) != sines  # the cosine of an odd quarter turn is a sine
    negative = (quarter >> 1).where(sines, ((quarter + 1) >> 1) & 1)
    return radius * sine.where(swapped, cosine) * (1.0 - 2.0 * negative.double())


def fill(values: Any, seed: NDArray[np.uint32], spans: Spans, compiled: Any = None) -> None:
    """Fill a vector of float32 or float64 on any device with the normals of spans, one after the other.

    Parameters
    ----------
    values
        A contiguous tensor of shape (n,).
    seed
        A row of ``draws.seeds``.
    spans
        The n coordinates, rows (first, length).
    compiled
        ``torch.compile(normals, fullgraph=True)`` for devices other than CPUs; None for ``normals``, which is slower.
    """
    if values.device.type != "cpu":
        fill_by_elements(values, seed, spans, normals if compiled is None else compiled)
        return
    key, number = (np.uint64(int(seed[k]) | int(seed[k + 1]) << 32) for k in (0, 2))
    host.fill_spans(values.numpy(), key, number, spans)


def fill_by_elements(values: Any, seed: NDArray[np.uint32], spans: Spans, each: Any) -> None:
    """The same for all devices, where ``each`` is ``normals`` or its compiled program."""
    torch = extra_module("torch", "torch")
    words = torch.tensor(seed.tolist(), dtype=torch.int64, device=values.device)
    nu = torch.full((), -0.0, dtype=torch.float64, device=values.device)
    rows = torch.from_numpy(spans).to(values.device)
    ends = rows[:, 1].cumsum(0)
    shifts = rows.sum(1) - ends
    for first in range(0, len(values), _AT_ONCE):
        place = torch.arange(first, min(first + _AT_ONCE, len(values)), device=values.device)
        index = place + shifts[torch.searchsorted(ends, place, right=True)]
        values[first : first + len(place)] = each(words, index, nu)
