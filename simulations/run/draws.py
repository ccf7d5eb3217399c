"""The draws: independent standard normals as a function of (key, step, draw, nonce, coordinate) and of nothing else.

The 128 bits BLAKE2b(``draws`` ‖ step ‖ draw ‖ nonce; key) are the key of Philox4x32-10 and the upper half of its
counter.  Coordinates stand in blocks of 2048, counted from the start of the flattened model: the pair r of block b,
0 <= r < 1024, comes from the counter 1024 b + r; its cosine is the coordinate r of the block, and its sine the
coordinate 1024 + r (``normals``).  So every cut of a model into spans, threads or machines gives the same numbers.

``draw`` counts the draws of a step, from 0.  ``nonce`` is the one that the journal of a run has for the step: 16 bytes
of the operating system, drawn when the step starts.  A step that starts again has another one, and other draws.  It
is empty where nothing is kept, and the key itself is new.

Who knows key and nonce can compute the noise and subtract it: they are as secret as the data.  The normals are
floating-point numbers, which are open to attacks on their discreteness (arXiv 2107.10138, 2112.05307).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from corrnoise.simulations.run.normals import fill, fill_spans, philox
from corrnoise.simulations.run.secret import Key, Secret
from corrnoise.theory.numerics import checks

Generator = Literal["Philox4x32-10", "ChaCha20"]  #: of random words; proved releases have the second one

KEY_BYTES = 32  #: of the key of a run
NONCE_BYTES = 16  #: of a nonce

_MIN_KEY_BYTES, _MAX_KEY_BYTES = 16, 64  # bytes of any key
_MAX_NUMBER = 2**62  # coordinates and steps


def fresh(size: int) -> bytes:
    """New bytes of the operating system: the one source of keys and nonces."""
    return secrets.token_bytes(size)


def _bytes_of(key: Key) -> bytes:
    return key.reveal() if isinstance(key, Secret) else key


def keyed(secret: Key, size: int, data: bytes = b"") -> hashlib.blake2b:
    """The keyed hash of data, which may be continued, of ``size`` bytes."""
    return hashlib.blake2b(data, key=_bytes_of(secret), digest_size=size, person=b"corrnoise")


def checked_key(name: str, key: object) -> Key:
    """Return a key of 16 to 64 bytes; ``ValueError`` for anything else."""
    if not isinstance(key, Key):
        raise ValueError(f"{name} must be {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} bytes, got {type(key).__name__}")
    if not _MIN_KEY_BYTES <= len(_bytes_of(key)) <= _MAX_KEY_BYTES:
        raise ValueError(f"{name} must be {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} bytes, got {len(_bytes_of(key))}")
    return key


def derived(secret: Key, purpose: bytes, *parts: bytes, size: int = 16) -> bytes:
    """A keyed hash of ``size`` bytes of ``parts``; none can take bytes of its neighbours."""
    text = purpose + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return keyed(secret, size, text).digest()


def seed_of(secret: Key, step: int, draw: int, nonce: bytes) -> bytes:
    """The key of Philox and the upper half of its counter, 16 bytes that give the draws: no frame keeps them."""
    place = step.to_bytes(8, "little") + draw.to_bytes(8, "little")
    return keyed(secret, 16, b"draws" + place + nonce).digest()


def halves_of(seed: bytes) -> tuple[np.uint64, np.uint64]:
    """The key of Philox, and the upper half of its counter."""
    low, high = np.frombuffer(seed, "<u8").astype(np.uint64)
    return low, high


def filler(secret: Key, step: int, spans: NDArray[np.int64], nonce: bytes = b"") -> Callable[..., None]:
    """A function of a vector and the number of a draw that fills it with normals of a step in spans (first, length)."""

    def draw(values: NDArray[Any], number: int = 0) -> None:
        fill_spans(values, *halves_of(seed_of(secret, step, number, nonce)), spans)

    return draw


def seeds(
    secret: Key, steps: Iterable[int], *, draw: int = 0, nonces: Sequence[bytes] | None = None
) -> NDArray[np.uint32]:
    """The table of seeds of compiled loops, shape (T, 4): key low, key high, number low, number high, for each step.

    The key is that of Philox, and the number the upper half of its counter.  The table is as secret as the key.
    """
    checked_key("secret", secret)
    places = [checks.integer("steps", step, 0, largest=_MAX_NUMBER) for step in steps]
    of_steps = [b""] * len(places) if nonces is None else nonces
    if len(of_steps) != len(places):
        raise ValueError(f"nonces must be one for each of the {len(places)} steps, got {len(of_steps)}")
    number = checks.integer("draw", draw, 0, largest=_MAX_NUMBER)
    table = b"".join(seed_of(secret, step, number, nonce) for step, nonce in zip(places, of_steps, strict=True))
    return np.frombuffer(table, "<u4").reshape(-1, 4).astype(np.uint32)


def normals(
    secret: Key,
    step: int,
    first: int,
    count: int,
    *,
    draw: int = 0,
    nonce: bytes = b"",
    dtype: DTypeLike = float,
) -> NDArray[Any]:
    """The draws of a span of coordinates, shape (count,).

    Parameters
    ----------
    secret : bytes or Secret
        The key, 16 to 64 bytes.
    step : int
        The step of the run, from 0.
    draw : int, default 0
        Which of the draws of the step, from 0.
    first, count : int
        The first coordinate of the flattened model, from 0, and how many.
    nonce : bytes, default b""
        Of the step, at most 64 bytes.
    dtype : DTypeLike, optional
        float64, or float32 for the same numbers rounded once.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> key = bytes(range(32))
    >>> normals(key, 3, 0, 2)
    array([-0.40277562,  0.92580522])
    >>> bool((normals(key, 3, 1000, 3000)[2000:] == normals(key, 3, 3000, 1000)).all())
    True
    """
    checked_key("secret", secret)
    if not isinstance(nonce, bytes) or len(nonce) > _MAX_KEY_BYTES:
        raise ValueError(f"nonce must be at most {_MAX_KEY_BYTES} bytes, got {type(nonce).__name__}")
    start = checks.integer("first", first, 0, largest=_MAX_NUMBER)
    values = np.empty(checks.integer("count", count, 0, largest=_MAX_NUMBER - start), dtype)
    if values.dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {values.dtype}")
    place = (checks.integer("step", step, 0, largest=_MAX_NUMBER), checks.integer("draw", draw, 0, largest=_MAX_NUMBER))
    fill(values, *halves_of(seed_of(secret, *place, nonce)), start)
    return values


def words(
    secret: Key, purpose: bytes, step: int, count: int, *, attempt: int = 0, generator: Generator = "Philox4x32-10"
) -> NDArray[np.uint64]:
    """Uniform integers of 64 bits of the first ``count`` examples at a step, for a purpose, bytes without a zero."""
    place = purpose + b"\0" + step.to_bytes(8, "little") + attempt.to_bytes(8, "little")
    if generator == "ChaCha20":
        from corrnoise.simulations.run.cipher import chacha20

        blocks = chacha20(keyed(secret, 32, place).digest(), 0, -(-count // 8))
        return (blocks[:, ::2] | (blocks[:, 1::2].astype(np.uint64) << np.uint64(32))).reshape(-1)[:count]
    halves = np.empty((2, -(-count // 2)), np.uint64)
    philox(*halves_of(keyed(secret, 16, place).digest()), np.uint64(0), halves[0], halves[1])
    return halves.T.reshape(-1)[:count].copy()
