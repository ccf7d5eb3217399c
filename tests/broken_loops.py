"""Training loops for the audit: correct ones, and broken ones with the cause that an audit must name.

The small run: ν-DP-FTRL of 24 steps, an example at most every sixth step, ε = 5 at δ = 1e-5.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

STEPS, PERIOD = 24, 6
BUDGET = Budget(epsilon=5.0, delta=1e-5)
RUN = Participation.min_sep(STEPS, PERIOD)
NOISE = NuFTRL(0.02)
PROGRAM = NOISE.program(RUN, form="transform")
CLAIM = (BUDGET, PROGRAM)
SCALE = PROGRAM.scale(BUDGET)

Sums = Callable[[Sequence[np.ndarray]], np.ndarray]
Drawn = Callable[[np.random.Generator, int], np.ndarray]

NONE = ""
SMALL = "the noise is smaller than claimed"
NO_NOISE = "the loop adds no noise"
NO_STEP = "a step gets no noise"
NO_COORDINATE = "a coordinate gets no noise, or almost none"
SHARED = "two coordinates get the same noise"
AGAIN = "the noise of a step is used again at another step"
ANOTHER_RUN = "the noise of a run is used again in another run"
BITS = "the noise has too few bits"
SEEN = "an example is seen more clearly than claimed: it is clipped, or takes part, otherwise"
WHOLE = "a batch is clipped as a whole, not each example"
CORRELATED = "the noise is correlated over the steps otherwise than claimed"
SHAPE = "the noise is not normal"
OTHER = "the gradients of an example come at other steps, or are longer or shorter, than claimed"
LARGE = "the noise is larger than claimed"
MEAN = "the noise has a mean that is not 0"
TRACE = "examples that do not take part leave a trace"
LESS = "a coordinate gets less noise than claimed"


def clipped(batch: np.ndarray, norm: float = 1.0) -> np.ndarray:
    """The sum of the gradients of a batch, each clipped."""
    norms = np.linalg.norm(batch, axis=1)
    return np.asarray(np.minimum(1.0, norm / np.maximum(norms, norm)) @ batch)


def sums(batches: Sequence[np.ndarray], norm: float = 1.0) -> np.ndarray:
    return np.array([clipped(batch, norm) for batch in batches])


def noise(rng: np.random.Generator, size: int, nu: float = 0.02) -> np.ndarray:
    """Correlated noise of unit scale."""
    return np.asarray(matrix(nu) @ rng.standard_normal((STEPS, size)))


@functools.cache
def matrix(nu: float) -> np.ndarray:
    return NuFTRL(nu).noising_matrix(STEPS)


def of_draws(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Drawn:
    """Noise of independent draws that were changed."""
    return lambda rng, size: matrix(0.02) @ change(rng.standard_normal((STEPS, size)), rng)


def times(factor: float) -> Drawn:
    return lambda rng, size: factor * noise(rng, size)


def changed(change: Callable[[np.ndarray], object]) -> Drawn:
    """Finished noise that is changed in place."""

    def drawn(rng: np.random.Generator, size: int) -> np.ndarray:
        made = noise(rng, size)
        change(made)
        return made

    return drawn


def without_step(step: int) -> Drawn:
    return changed(lambda made: made[step].fill(0.0))


def _repeat_step(made: np.ndarray) -> None:
    made[12] = made[11]


def _equal_halves(made: np.ndarray) -> None:
    half = made.shape[1] // 2
    made[:, half : 2 * half] = made[:, :half]


def _forgetful(rng: np.random.Generator, size: int) -> np.ndarray:
    draws = rng.standard_normal((STEPS, size))
    return np.concatenate([matrix(0.02)[:PERIOD, :PERIOD] @ draws[i : i + PERIOD] for i in range(0, STEPS, PERIOD)])


def _rounded(kind: Any) -> Drawn:
    return lambda rng, size: (SCALE * noise(rng, size)).astype(kind).astype(float) / SCALE


def _bfloat16(rng: np.random.Generator, size: int) -> np.ndarray:
    made = (SCALE * noise(rng, size)).astype(np.float32)
    return ((made.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) / SCALE).astype(float)


def _one_unclipped(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    for total, batch in zip(found, batches, strict=True):
        if len(batch):
            total += batch[0] - clipped(batch[:1])
    return found


def _late(batches: Sequence[np.ndarray]) -> np.ndarray:
    return np.roll(sums(batches), 1, axis=0)


def _previous_again(batches: Sequence[np.ndarray]) -> np.ndarray:
    return sums(batches) + _late(batches)


def _last_epoch_dropped(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    found[-PERIOD:] = 0
    return found


def _whole(batches: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([clipped(batch.sum(axis=0, keepdims=True)) for batch in batches])


def _of_absent(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    return found + 0.3 * np.any(found, axis=0)


class Loop:
    """A loop that adds noise of the claimed scale to sums, and may round what it releases."""

    def __init__(self, seed: int, total: Sums = sums, drawn: Drawn = noise, kind: Any = float, fixed: bool = False):
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.parts = total, drawn, kind
        self.fixed = fixed

    def __call__(self, batches: Sequence[np.ndarray]) -> np.ndarray:
        total, drawn, kind = self.parts
        rng = np.random.default_rng(self.seed) if self.fixed else self.rng
        return np.asarray((total(batches) + SCALE * drawn(rng, batches[0].shape[1])).astype(kind))


ONE_EPOCH = NOISE.program(Participation.single(STEPS), form="transform").scale(BUDGET) / SCALE
FORGOTTEN = 1 / PROGRAM.sensitivity

#: Loops that are as claimed.
CORRECT: dict[str, dict[str, Any]] = {
    "float64": {},
    "float32": {"kind": np.float32},
    "clipped to slightly less": {"total": lambda batches: sums(batches, 1 - 1e-4)},
}

#: Broken loops, their cause, and whether it refutes the privacy.
BROKEN: dict[str, tuple[dict[str, Any], str, bool]] = {
    "half the noise": ({"drawn": times(0.5)}, SMALL, True),
    "noise x 0.9": ({"drawn": times(0.9)}, SMALL, True),
    "noise x 0.97": ({"drawn": times(0.97)}, SMALL, True),
    "the multiplier of one epoch": ({"drawn": times(ONE_EPOCH)}, SMALL, True),
    "the sensitivity forgotten": ({"drawn": times(FORGOTTEN)}, SMALL, True),
    "the noise of the mean": ({"drawn": times(1 / 500)}, SMALL, True),
    "no noise": ({"drawn": times(0.0)}, NO_NOISE, True),
    "step 1 without": ({"drawn": without_step(0)}, NO_STEP, True),
    "step 13 without": ({"drawn": without_step(12)}, NO_STEP, True),
    "step 24 without": ({"drawn": without_step(23)}, NO_STEP, True),
    "one idle coordinate without": ({"drawn": changed(lambda m: m[:, -7].fill(0.0))}, NO_COORDINATE, True),
    "one canary without": ({"drawn": changed(lambda m: m[:, 5].fill(0.0))}, NO_COORDINATE, True),
    "5 % of coordinates without": ({"drawn": changed(lambda m: m[:, ::20].fill(0.0))}, NO_COORDINATE, True),
    "one draw for all": ({"drawn": lambda rng, size: np.tile(noise(rng, 1), size)}, SHARED, True),
    "two equal halves": ({"drawn": changed(_equal_halves)}, SHARED, True),
    "draws again in each epoch": (
        {"drawn": of_draws(lambda draws, _: np.tile(draws[:PERIOD], (STEPS // PERIOD, 1)))},
        AGAIN,
        True,
    ),
    "step 13 with the noise of 12": ({"drawn": changed(_repeat_step)}, AGAIN, True),
    "one seed in all runs": ({"fixed": True}, ANOTHER_RUN, True),
    "noise in float16": ({"drawn": _rounded(np.float16)}, BITS, True),
    "noise in bfloat16": ({"drawn": _bfloat16}, BITS, True),
    "release in float16": ({"kind": np.float16}, BITS, True),
    "noise rounded to 1/256": ({"drawn": lambda rng, size: np.round(256 * noise(rng, size)) / 256}, BITS, True),
    "no clipping": ({"total": lambda batches: sums(batches, 1e9)}, SEEN, True),
    "twice the clip norm": ({"total": lambda batches: sums(batches, 2.0)}, SEEN, True),
    "1.5 times the clip norm": ({"total": lambda batches: sums(batches, 1.5)}, SEEN, True),
    "previous batch again": ({"total": _previous_again}, SEEN, True),
    "batches twice": ({"total": lambda batches: 2 * sums(batches)}, SEEN, True),
    "one example not clipped": ({"total": _one_unclipped}, SEEN, True),
    "batch clipped as a whole": ({"total": _whole}, WHOLE, True),
    "independent noise": ({"drawn": lambda rng, size: rng.standard_normal((STEPS, size))}, CORRELATED, False),
    "memory lost each epoch": ({"drawn": _forgetful}, CORRELATED, False),
    "nu 0.05 for 0.02": ({"drawn": lambda rng, size: noise(rng, size, 0.05)}, CORRELATED, False),
    "Laplace": (
        {"drawn": of_draws(lambda draws, rng: rng.laplace(scale=0.5**0.5, size=draws.shape))},
        SHAPE,
        False,
    ),
    "uniform": (
        {"drawn": of_draws(lambda draws, rng: rng.uniform(-(3**0.5), 3**0.5, draws.shape))},
        SHAPE,
        False,
    ),
    "mean for the sum": ({"total": lambda batches: sums(batches) / 500}, OTHER, False),
    "one step late": ({"total": _late}, OTHER, False),
    "last epoch dropped": ({"total": _last_epoch_dropped}, OTHER, False),
    "noise x 1.1": ({"drawn": times(1.1)}, LARGE, False),
    "an offset": ({"total": lambda batches: sums(batches) + 0.5}, MEAN, False),
    "a trace of the absent": ({"total": _of_absent}, TRACE, False),
    "step 13 with more": ({"drawn": changed(lambda m: m[12].__imul__(1.25))}, CORRELATED, False),
    "a coordinate with less": ({"drawn": changed(lambda m: m[:, -7].__imul__(0.42))}, LESS, False),
}
