"""What every participation must satisfy: ``check`` for each class, a stranger's included."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Order, Participation, Sampled

N_KEYS = 2000
N_EXAMPLES = 8
SIGMAS = 5.0  # standard errors of a mean; a false alarm has the probability 6e-7


class KeyedWords:
    """The words of one key, without the memory of a run."""

    def __init__(self, key: int) -> None:
        self._key = key

    def __call__(self, purpose: bytes, step: int, count: int, attempt: int = 0) -> np.ndarray:
        start = hash((self._key, step, attempt, int.from_bytes(purpose, "little"))) & 2**64 - 1  # of integers: the same
        x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # splitmix64
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    def keep(self, key: Hashable, make: Callable[[], Any]) -> Any:
        return make()


def steps_of_examples(who: Sampled, keys: int = N_KEYS) -> np.ndarray:
    """Whether a key draws an example in a step, shape (keys, steps, examples)."""
    taken = np.zeros((keys, who.steps, N_EXAMPLES), dtype=bool)
    for key in range(keys):
        for step in range(who.steps):
            taken[key, step, who.batch(step, N_EXAMPLES, KeyedWords(key))] = True
    return taken


def check(who: Participation) -> None:
    """Raise an ``AssertionError`` where the participation breaks its contract.

    (a) the steps of each example lie in a pattern of ``worst``, (b) the mean share of a batch is ``sampling_rate``,
    (c) two examples are uncorrelated, (d) δ of the curve is at least a Monte Carlo estimate for independent noise,
    (e) ``arguments()`` rebuilds, (f) ``worst`` and the participation cover each other.
    """
    assert type(who)(**who.arguments()) == who
    assert isinstance(who.worst, Order)
    assert who.worst.worst == who.worst
    assert who.covered_by(who.worst)
    assert who.worst.covered_by(who)
    assert who.satisfies(who)
    assert 0 < who.sampling_rate <= 1
    if not isinstance(who, Sampled):
        return
    taken = steps_of_examples(who)
    patterns = [set(pattern.tolist()) for pattern in who.worst.patterns()]
    drawn = {tuple(np.flatnonzero(row)) for row in taken.transpose(0, 2, 1).reshape(-1, who.steps)}
    assert all(any(pattern.issuperset(steps) for pattern in patterns) for steps in drawn), "(a)"
    shares = taken.mean(axis=(1, 2))
    spread = float(shares.std()) / math.sqrt(N_KEYS) + 1e-12
    assert abs(float(shares.mean()) - who.sampling_rate) <= SIGMAS * spread, "(b)"
    for one, other in ((0, who.worst.period), (0, N_EXAMPLES - 1)):
        products = taken[:, :, one] * 1.0, taken[:, :, other % N_EXAMPLES] * 1.0
        centred = [part - part.mean(axis=0) for part in products]
        scores = (centred[0] * centred[1]).sum(axis=1)
        assert abs(float(scores.mean())) <= SIGMAS * float(scores.std()) / math.sqrt(N_KEYS) + 1e-12, "(c)"
    curve, sigma = who.covering(DPSGD()), 1.0
    random = np.random.default_rng(0)
    centres = taken[:, :, 0] / sigma
    for epsilon in (0.1, 0.5, 1.0):
        # δ = E (1 − e^{ε − L})₊ over outputs x = c + z of a run with the example, L = log mean_c e^{<c, x> − |c|²/2}
        outputs = centres + random.normal(size=centres.shape)
        logs = outputs @ centres.T - np.square(centres).sum(axis=1) / 2
        losses = np.logaddexp.reduce(logs, axis=1) - math.log(len(centres))
        values = np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)
        least = float(values.mean()) - SIGMAS * float(values.std()) / math.sqrt(N_KEYS)
        assert curve.delta(epsilon, sigma, "remove").upper >= least, "(d)"
