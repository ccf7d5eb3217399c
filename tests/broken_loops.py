"""Training loops for the audit: correct ones, and broken ones with the cause that an audit must name.

The small run: ν-DP-FTRL of 24 steps, an example at most every sixth step, ε = 5 at δ = 1e-5.
"""

import functools
import zlib
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
Release = Callable[[Sequence[np.ndarray], np.random.Generator], np.ndarray]

NONE = ""
SMALL = "the noise is smaller than claimed"
NO_NOISE = "the loop adds no noise"
NO_STEP = "a step gets no noise"
NO_COORDINATE = "a coordinate gets no noise, or almost none"
SHARED = "two coordinates get the same noise, up to the sign"
AGAIN = "the noise of a step is used again at another step"
FOLLOWS = "the noise of a step follows from that of other steps"
ONE = "a step has too little noise for the gradient of one example"
FEW = "the noise of a batch of few examples is smaller than claimed"
ANOTHER_RUN = "the noise of a run is used again in another run"
BITS = "the noise has too few bits"
MORE_THAN_CLAIMED = "gradients count for more than claimed"
ALONE = "an example that is alone in its batch counts for more: is the sum divided by their number?"
INFLUENCE = "an example changes what the others contribute"
NOT_FINITE = "a gradient that is not finite is not dropped"
SIZES = "the noise of different coordinates has different sizes"
WHOLE = "a batch is clipped as a whole, not each example"
CORRELATED = "the noise has other correlations, or sizes, over the steps than claimed"
SHAPE = "the noise is not normal"
LESS_THAN_CLAIMED = "gradients count for less than claimed, or come at other steps"
LARGE = "the noise is larger than claimed"
MEAN = "the noise has a mean that is not 0"
TRACE = "examples that do not take part leave a trace"
LESS = "a coordinate gets less noise than claimed"


def clipped(batch: np.ndarray, norm: float = 1.0) -> np.ndarray:
    """The sum of the gradients of a batch, each clipped."""
    batch = batch[np.isfinite(batch).all(axis=1)]
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


def _by_coordinate(batches: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([np.clip(batch, -1, 1).sum(axis=0) for batch in batches])


def _by_layers(batches: Sequence[np.ndarray]) -> np.ndarray:
    """Two layers, each clipped to the whole norm."""
    half = batches[0].shape[1] // 2
    return np.concatenate([sums([batch[:, part] for batch in batches]) for part in (np.s_[:half], np.s_[half:])], 1)


def _at_median(batches: Sequence[np.ndarray]) -> np.ndarray:
    norms = [np.linalg.norm(batch, axis=1) for batch in batches]
    return np.array(
        [clipped(batch, np.median(norm) if norm.size else 1.0) for batch, norm in zip(batches, norms, strict=True)]
    )


def _by_square(batches: Sequence[np.ndarray]) -> np.ndarray:
    return rescaled(lambda norms: norms / np.maximum(1.0, norms**2))(batches)


def _of_two(batches: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of each two examples is clipped."""
    return np.array(
        [clipped((np.append(b, 0 * b[: len(b) % 2], 0).reshape(-1, 2, b.shape[1])).mean(1)) for b in batches]
    )


def _momentum(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    for step in range(1, STEPS):
        found[step] += 0.9 * found[step - 1]
    return found


def _another_step(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    found[3] += found[0]
    return found


def _first_step_unclipped(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    found[0] = batches[0].sum(axis=0)
    return found


class _NeverReset:
    """A part of the sums of a run is there in the next one."""

    def __init__(self) -> None:
        self.left = np.zeros((STEPS, 0))

    def __call__(self, batches: Sequence[np.ndarray]) -> np.ndarray:
        own = sums(batches)
        before, self.left = self.left, own
        return own + 0.1 * before if before.shape == own.shape else own


def _opposite_halves(made: np.ndarray) -> None:
    half = made.shape[1] // 2
    made[:, half : 2 * half] = -made[:, :half]


def _taken_off_again(made: np.ndarray) -> None:
    made[13] = -made[12]


def _zero_in_each_epoch(made: np.ndarray) -> None:
    for last in range(PERIOD - 1, STEPS, PERIOD):
        made[last] = -made[last - PERIOD + 1 : last].sum(axis=0)


def _other_order(rng: np.random.Generator, size: int) -> np.ndarray:
    """The coordinates lie in another order at each step."""
    return np.array([rng.permutation(row) for row in noise(rng, size)])


def _of_few_seeds(rng: np.random.Generator, size: int) -> np.ndarray:
    return matrix(0.02) @ [np.random.default_rng(seed).standard_normal(size) for seed in rng.integers(100, size=STEPS)]


class _SeedOfStepAndRun:
    """The seed of a step is the sum of its number and that of the run."""

    run = 0

    def __call__(self, rng: np.random.Generator, size: int) -> np.ndarray:
        type(self).run += 1
        seeds = 7 * self.run + np.arange(STEPS)
        return np.asarray(matrix(0.02) @ [np.random.default_rng(seed).standard_normal(size) for seed in seeds])


def _without_tails(draws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(np.abs(draws) > 3, 0.3 * draws, draws) / 0.98765


def off_pattern(total: Callable[[np.ndarray], np.ndarray]) -> Sums:
    """Another sum in the steps that are not 1, 7, 13, 19."""
    return lambda batches: np.array(
        [clipped(batch) if step % PERIOD == 0 else total(batch) for step, batch in enumerate(batches)]
    )


def rescaled(change: Callable[[np.ndarray], np.ndarray]) -> Sums:
    """Each gradient gets a norm that is a function of its norm; the others are clipped."""

    def total(batch: np.ndarray) -> np.ndarray:
        batch = batch[np.isfinite(batch).all(axis=1)]
        norms = np.linalg.norm(batch, axis=1)
        return np.asarray((change(norms) / np.maximum(norms, 1e-300)) @ batch)

    return lambda batches: np.array([total(batch) for batch in batches])


def outside_the_norm(share: float) -> Sums:
    """The last coordinates are left out of the norm."""

    def total(batch: np.ndarray) -> np.ndarray:
        batch = batch[np.isfinite(batch).all(axis=1)]
        inside = batch[:, : batch.shape[1] - round(share * batch.shape[1])]
        return np.asarray((1 / np.maximum(1.0, np.linalg.norm(inside, axis=1))) @ batch)

    return lambda batches: np.array([total(batch) for batch in batches])


def _by_many_layers(batches: Sequence[np.ndarray]) -> np.ndarray:
    """Fifty layers, each clipped to the whole norm."""
    parts = np.array_split(np.arange(batches[0].shape[1]), 50)
    return np.concatenate([sums([batch[:, part] for batch in batches]) for part in parts], axis=1)


def seeded_by_data(modulus: int) -> Release:
    """Noise from a checksum of the sums."""

    def released(batches: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        found = sums(batches)
        seed = zlib.crc32(found.tobytes()) % modulus
        return found + SCALE * noise(np.random.default_rng(seed), found.shape[1])

    return released


def _by_mean_norm(batches: Sequence[np.ndarray]) -> np.ndarray:
    """Gradients are divided by the mean norm of their batch before they are clipped."""
    found = []
    for batch in batches:
        kept = batch[np.isfinite(batch).all(axis=1)]
        mean = np.linalg.norm(kept, axis=1).mean() if len(kept) else 1.0
        found.append(clipped(kept / mean))
    return np.array(found)


def _mean_of_batch(batches: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over the batch times its usual size."""
    return np.array([clipped(batch) * 416 / max(len(batch), 1) for batch in batches])


def changed_examples(which: slice, weight: float = 1.0, *, unclipped: bool = False) -> Sums:
    """Some examples of each batch count once more with a weight, or are not clipped."""

    def total(batch: np.ndarray) -> np.ndarray:
        batch = batch[np.isfinite(batch).all(axis=1)]
        extra = batch[which].sum(axis=0) - clipped(batch[which]) if unclipped else weight * clipped(batch[which])
        return np.asarray(clipped(batch) + extra)

    return lambda batches: np.array([total(batch) for batch in batches])


def _not_finite_passes(batches: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([(1 / np.maximum(1.0, np.linalg.norm(batch, axis=1))) @ batch for batch in batches])


def _next_batch_too(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    return found + 0.1 * np.roll(found, -1, axis=0)


def _alternating(made: np.ndarray) -> None:
    made[:, ::2] *= 0.97
    made[:, 1::2] *= 1.03


def by_batch(share: Callable[[int], float], after: Callable[[int], float] = lambda number: 1.0) -> Release:
    """Noise times a share that depends on the number of examples of the step; ``after`` multiplies the release."""

    def released(batches: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        shares = np.array([[share(len(batch))] for batch in batches])
        return np.array([[after(len(batch))] for batch in batches]) * (
            sums(batches) + shares * SCALE * noise(rng, batches[0].shape[1])
        )

    return released


def _clipped_after(batches: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    found = np.array([batch.sum(axis=0) for batch in batches]) + SCALE * noise(rng, batches[0].shape[1])
    return found / np.maximum(1.0, np.linalg.norm(found, axis=1, keepdims=True))


def _number_shown(batches: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    found = sums(batches) + SCALE * noise(rng, batches[0].shape[1])
    found[:, -1] = [len(batch) for batch in batches]
    return found


def _where_gradients_are(batches: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Noise for rows of an embedding that some example of the run uses."""
    found = sums(batches)
    return found + SCALE * noise(rng, found.shape[1]) * np.any(found, axis=0)


class Loop:
    """A loop that adds noise of the claimed scale to sums, and may round what it releases; ``made`` is another loop."""

    def __init__(
        self,
        seed: int,
        total: Sums = sums,
        drawn: Drawn = noise,
        kind: Any = float,
        fixed: bool = False,
        made: Release | None = None,
    ):
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.parts = total, drawn, kind
        self.fixed = fixed
        self.made = made

    def __call__(self, batches: Sequence[np.ndarray]) -> np.ndarray:
        if self.made is not None:
            return self.made(batches, self.rng)
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
    "no clipping": ({"total": lambda batches: sums(batches, 1e9)}, MORE_THAN_CLAIMED, True),
    "twice the clip norm": ({"total": lambda batches: sums(batches, 2.0)}, MORE_THAN_CLAIMED, True),
    "1.5 times the clip norm": ({"total": lambda batches: sums(batches, 1.5)}, MORE_THAN_CLAIMED, True),
    "previous batch again": ({"total": _previous_again}, MORE_THAN_CLAIMED, True),
    "batches twice": ({"total": lambda batches: 2 * sums(batches)}, MORE_THAN_CLAIMED, True),
    "one example not clipped": ({"total": _one_unclipped}, MORE_THAN_CLAIMED, True),
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
    "mean for the sum": ({"total": lambda batches: sums(batches) / 500}, LESS_THAN_CLAIMED, False),
    "one step late": ({"total": _late}, LESS_THAN_CLAIMED, False),
    "last epoch dropped": ({"total": _last_epoch_dropped}, LESS_THAN_CLAIMED, False),
    "noise x 1.1": ({"drawn": times(1.1)}, LARGE, False),
    "an offset": ({"total": lambda batches: sums(batches) + 0.5}, MEAN, False),
    "a tenth of the sums of the run before": ({"total": _NeverReset()}, TRACE, False),
    "step 13 with more": ({"drawn": changed(lambda m: m[12].__imul__(1.25))}, CORRELATED, False),
    "a coordinate with less": ({"drawn": changed(lambda m: m[:, -7].__imul__(0.42))}, LESS, False),
    "noise / sqrt(batch size)": ({"drawn": times(500**-0.5)}, SMALL, True),
    "noise and sum / examples": ({"made": by_batch(lambda n: 1.0, lambda n: 500 / max(n, 1))}, CORRELATED, False),
    "no noise without examples": ({"made": by_batch(lambda n: n > 0)}, NO_STEP, True),
    "half the noise of small batches": ({"made": by_batch(lambda n: 0.5 if 0 < n < 9 else 1.0)}, FEW, True),
    "a tenth of the noise of step 13": ({"drawn": changed(lambda m: m[12].__imul__(0.1))}, ONE, True),
    "the last epoch without": ({"drawn": changed(lambda m: m[-PERIOD:].fill(0.0))}, NO_STEP, True),
    "every second step without": ({"drawn": changed(lambda m: m[::2].fill(0.0))}, NO_STEP, True),
    "noise of used rows": ({"made": _where_gradients_are}, NO_NOISE, True),
    "noise clipped, too": ({"made": _clipped_after}, NO_NOISE, True),
    "opposite noise of halves": ({"drawn": changed(_opposite_halves)}, SHARED, True),
    "noise taken off again": ({"drawn": changed(_taken_off_again)}, AGAIN, True),
    "noise of the sum 0 in each epoch": ({"drawn": changed(_zero_in_each_epoch)}, FOLLOWS, True),
    "a hundred seeds": ({"drawn": _of_few_seeds}, AGAIN, True),
    "seed of step and run": ({"drawn": _SeedOfStepAndRun()}, AGAIN, True),
    "noise of two values": ({"drawn": of_draws(lambda draws, _: np.sign(draws))}, BITS, True),
    "1.2 times the clip norm": ({"total": lambda batches: sums(batches, 1.2)}, MORE_THAN_CLAIMED, True),
    "1.1 times the clip norm": ({"total": lambda batches: sums(batches, 1.1)}, MORE_THAN_CLAIMED, True),
    "clipped by coordinate": ({"total": _by_coordinate}, MORE_THAN_CLAIMED, True),
    "clipped by layer": ({"total": _by_layers}, MORE_THAN_CLAIMED, True),
    "clipped to the median": ({"total": _at_median}, MORE_THAN_CLAIMED, True),
    "first step not clipped": ({"total": _first_step_unclipped}, MORE_THAN_CLAIMED, True),
    "momentum before the noise": ({"total": _momentum}, MORE_THAN_CLAIMED, True),
    "batch 1 at step 4, too": ({"total": _another_step}, MORE_THAN_CLAIMED, True),
    "each two clipped together": ({"total": _of_two}, WHOLE, True),
    "1.5 times the clip norm off steps 1, 7, …": (
        {"total": off_pattern(lambda b: clipped(b, 1.5))},
        MORE_THAN_CLAIMED,
        True,
    ),
    "twice the clip norm off steps 1, 7, …": (
        {"total": off_pattern(lambda b: clipped(b, 2.0))},
        MORE_THAN_CLAIMED,
        True,
    ),
    "no clipping off steps 1, 7, …": ({"total": off_pattern(lambda b: clipped(b, 1e9))}, MORE_THAN_CLAIMED, True),
    "gradients twice off steps 1, 7, …": ({"total": off_pattern(lambda b: 2 * clipped(b))}, MORE_THAN_CLAIMED, True),
    "last step of an epoch not clipped": (
        {
            "total": lambda batches: np.array(
                [clipped(b, 1e9 if i % PERIOD == PERIOD - 1 else 1.0) for i, b in enumerate(batches)]
            )
        },
        MORE_THAN_CLAIMED,
        True,
    ),
    "not clipped above 100": (
        {"total": rescaled(lambda n: np.where(n > 100, n, np.minimum(n, 1)))},
        MORE_THAN_CLAIMED,
        True,
    ),
    "not clipped above 1e19": (
        {"total": rescaled(lambda n: np.where(n > 1e19, n, np.minimum(n, 1)))},
        MORE_THAN_CLAIMED,
        True,
    ),
    "below 1e-3 times 1e6": (
        {"total": rescaled(lambda n: np.where(n < 1e-3, 1e6 * n, np.minimum(n, 1)))},
        MORE_THAN_CLAIMED,
        True,
    ),
    "2 below 8": ({"total": rescaled(lambda n: np.where(n < 8, 2.0, 1.0) * (n > 0))}, MORE_THAN_CLAIMED, True),
    "the last 1 % outside the norm": ({"total": outside_the_norm(0.01)}, MORE_THAN_CLAIMED, True),
    "the last 10 % outside the norm": ({"total": outside_the_norm(0.1)}, MORE_THAN_CLAIMED, True),
    "the last 25 % outside the norm": ({"total": outside_the_norm(0.25)}, MORE_THAN_CLAIMED, True),
    "clipped by 50 layers": ({"total": _by_many_layers}, MORE_THAN_CLAIMED, True),
    "1.15 times the clip norm": ({"total": lambda batches: sums(batches, 1.15)}, MORE_THAN_CLAIMED, True),
    "1.3 times the clip norm": ({"total": lambda batches: sums(batches, 1.3)}, MORE_THAN_CLAIMED, True),
    "last example not clipped": (
        {"total": changed_examples(np.s_[-1:], unclipped=True)},
        MORE_THAN_CLAIMED,
        True,
    ),
    "from number 256 on twice": ({"total": changed_examples(np.s_[256:])}, MORE_THAN_CLAIMED, True),
    "first example twice": ({"total": changed_examples(np.s_[:1])}, ALONE, True),
    "the seed is a checksum of the sums": ({"made": seeded_by_data(2**32)}, ANOTHER_RUN, True),
    "the seed has 4 bits": ({"made": seeded_by_data(16)}, ANOTHER_RUN, True),
    "divided by the mean norm": ({"total": _by_mean_norm}, INFLUENCE, True),
    "the mean of the batch": ({"total": _mean_of_batch}, MORE_THAN_CLAIMED, True),
    "a gradient that is not finite passes": ({"total": _not_finite_passes}, NOT_FINITE, True),
    "dropped off steps 1, 7, …": ({"total": off_pattern(lambda b: 0 * clipped(b))}, LESS_THAN_CLAIMED, False),
    "last batch dropped": (
        {"total": lambda batches: sums(batches) * np.append(np.ones(STEPS - 1), 0.0)[:, np.newaxis]},
        LESS_THAN_CLAIMED,
        False,
    ),
    "the next batch at a tenth": ({"total": _next_batch_too}, MORE_THAN_CLAIMED, True),
    "noise x 0.97 and 1.03 in turn": ({"drawn": changed(_alternating)}, SIZES, False),
    "clipped by the square": ({"total": _by_square}, LESS_THAN_CLAIMED, False),
    "sum / examples": ({"total": lambda bs: sums(bs) / [[max(len(b), 1)] for b in bs]}, LESS_THAN_CLAIMED, False),
    "another order of coordinates": ({"drawn": _other_order}, CORRELATED, False),
    "steps in reverse": ({"drawn": lambda rng, size: noise(rng, size)[::-1]}, CORRELATED, False),
    "noise without tails": ({"drawn": of_draws(_without_tails)}, SHAPE, False),
    "number of examples shown": ({"made": _number_shown}, MORE_THAN_CLAIMED, True),
    "loss in the mean": ({"total": lambda bs: sums(bs) + [[0.002 * len(b)] for b in bs]}, MEAN, False),
}

#: The gradients that an audit must name, of some loops.
PLACES = {
    "1.5 times the clip norm off steps 1, 7, …": "some steps: 2, 3, 4, 5, 6, 8, …",
    "no clipping off steps 1, 7, …": "some steps: 2, 3, 4, 5, 6, 8, …",
    "last step of an epoch not clipped": "some steps: 6, 12, 18, 24",
    "not clipped above 100": "some lengths: 1e2 to 1e20 clipping norms",
    "not clipped above 1e19": "some lengths: 1e18 to 1e20 clipping norms",
    "below 1e-3 times 1e6": "some lengths: 1e-6 to 1e-2 clipping norms",
    "the last 1 % outside the norm": "some gradients, as in coordinates 1308, 1309, 1310, 1311",
    "the last 10 % outside the norm": "some places: 8 of the eighths of the coordinates",
    "1.2 times the clip norm": "all gradients",
    "momentum before the noise": "all gradients",
    "the mean of the batch": "an example that is alone in its batch",
}
