"""Ten thousand machines that send messages and keep states, against the same run as a bare loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import simulate_federation, split_examples
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics.checks import Array

_EACH = 4
_FEATURES = 20


@benchmark
def federation(setting: Setting) -> Iterator[Row]:
    """Messages, guards and states of machines against a loop that has none of them: what the simulator costs."""
    machines = setting.pick(10_000, 200)
    rounds = setting.pick(20, 4)
    participants = machines // 10
    loss = LinearLoss("squares", _FEATURES, 1.0, 1.0)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((machines * _EACH, _FEATURES))
    a /= np.linalg.norm(a, axis=1)[:, np.newaxis]
    y = np.clip(a[:, 0], -1, 1)
    protocol = Protocol("bench", loss, 2.0, machines, participants, rounds, 1e-4, budget=None, cap=_EACH)
    examples = split_examples(a, y, machines)

    def loop() -> Array:
        draws = Server(protocol, seed=[0, 0])
        used = np.zeros(machines, dtype=int)
        w = x = before = np.zeros(_FEATURES)
        estimate = np.zeros(_FEATURES)
        for t in range(1, rounds + 1):
            total = np.zeros(_FEATURES)
            for i in draws.requests():
                if used[i] < _EACH:
                    row = examples[i][0][used[i]]
                    target = float(examples[i][1][used[i]])
                    total += t * loss.gradients(x, row, target) - (t - 1) * loss.gradients(before, row, target)
                    used[i] += 1
            draws.round += 1
            estimate = estimate + total / participants
            w = w - 1e-4 * estimate
            w = w / max(1.0, float(np.linalg.norm(w)))
            if t < rounds:
                before = x
                x = x + 2 / (t + 2) * (w - x)
        return x

    items = participants * rounds
    yield setting.compare(
        f"M = {machines}, m = {participants}, T = {rounds}",
        Side("simulate_federation", lambda: simulate_federation(protocol, examples, seed=0).point, items),
        Side("bare loop", loop, items),
        item="message",
        tolerance=1e-9,
        in_norm=True,
    )
