"""The mechanisms of finite runs against jax-privacy, in one process: equal values, CPU times, ratios.

jax-privacy compiles its optimisers again in every call.  Its compiled code is kept in a cache, so that the call that is
timed finds the compiled code: the ratios leave compilation out. The time of the first call stands next to
its name.  Both sides run on one thread, and the slow side is timed once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.simulations.amplification import amplified
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.toeplitz import best_toeplitz, square_root
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.numerics.power_series import multiplied
from corrnoise.theory.objectives.toeplitz_errors import Aggregate
from corrnoise.theory.objectives.workloads import LargestError, PrefixSums
from corrnoise.theory.participation import Participation


class _Peer:
    """A call of jax-privacy that remembers the CPU time of its first run, which compiles."""

    def __init__(self, name: str, call: Callable[[], Any]) -> None:
        self.name = name
        self.call = call
        self.first: float | None = None

    def run(self) -> Any:
        start = time.process_time()
        result = np.asarray(self.call())
        self.first = time.process_time() - start if self.first is None else self.first
        return result


def _compared(setting: Setting, case: str, ours: Side, peer: _Peer, *, tolerance: float, in_norm: bool = False) -> Row:
    """One row: the peer runs twice, and the second run is timed."""
    row = setting.compare(
        case,
        ours,
        Side(peer.name, peer.run, ours.items),
        item="call",
        tolerance=tolerance,
        in_norm=in_norm,
        turns=1,
    )
    return replace(row, other=f"{peer.name} (first {peer.first:.0f} s)")


def _started() -> Any:
    """The package ``jax``, in float64, with a cache for compiled code."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if not getattr(jax.config, "jax_compilation_cache_dir", None):
        jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp(prefix="corrnoise-benchmark-"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return jax


@benchmark
def peer_toeplitz_product(setting: Setting) -> Iterator[Row]:
    """The product of two Toeplitz matrices of n steps; differences in the 2-norm."""
    jax = _started()
    from jax_privacy.matrix_factorization import toeplitz

    steps = setting.pick(10**5, 2000)
    c = NuFTRL(0.0).inverse_coefficients(steps)
    on_device = jax.numpy.asarray(c)
    ours = Side("multiplied", partial(multiplied, c, c), 1)
    peer = _Peer("multiply", lambda: toeplitz.multiply(on_device, on_device))
    yield _compared(setting, f"n = {steps:.0e}", ours, peer, tolerance=1e-9, in_norm=True)


@benchmark
def peer_banded_toeplitz(setting: Setting) -> Iterator[Row]:
    """The squared error of the best Toeplitz strategy with p bands after n steps, one participation."""
    _started()
    from jax_privacy.matrix_factorization import toeplitz

    for steps, bands in setting.pick([(10**4, 32), (10**5, 32)], [(200, 4)]):

        def ours(steps: int = steps, bands: int = bands) -> float:
            who = Participation.single(steps)
            return best_toeplitz(PrefixSums(steps), who, bands).mean_error(who) ** 2

        def theirs(steps: int = steps, bands: int = bands) -> Any:
            return toeplitz.loss(toeplitz.optimize_banded_toeplitz(steps, bands), steps)

        peer = _Peer("optimize_banded_toeplitz", theirs)
        yield _compared(setting, f"n = {steps:.0e}, p = {bands}", Side("best_toeplitz", ours, 1), peer, tolerance=1e-9)


@benchmark
def peer_buffers(setting: Setting) -> Iterator[Row]:
    """The squared error of the best mechanism with d buffers after n steps, one participation."""
    _started()
    from jax_privacy.matrix_factorization import buffered_toeplitz

    cases: list[tuple[int, int, Aggregate]] = setting.pick([(10**4, 4, "max"), (10**4, 3, "mean")], [(200, 1, "max")])
    for steps, count, objective in cases:
        loss = buffered_toeplitz.LossFn.build_min_sep(steps, objective, 1, 1).loss

        def ours(steps: int = steps, count: int = count, objective: Aggregate = objective) -> float:
            who = Participation.single(steps)
            noise = best_buffers(
                PrefixSums(steps) if objective == "mean" else LargestError(PrefixSums(steps)), who, count
            )
            return (noise.mean_error(who) if objective == "mean" else noise.max_error(who)) ** 2

        def theirs(
            steps: int = steps, count: int = count, objective: Aggregate = objective, loss: Callable[..., Any] = loss
        ) -> Any:
            return loss(buffered_toeplitz.optimize(n=steps, min_buffers=count, max_buffers=count, error=objective))

        peer = _Peer("buffered_toeplitz.optimize", theirs)
        case = f"n = {steps:.0e}, d = {count}, {objective}"
        yield _compared(setting, case, Side("best_buffers", ours, 1), peer, tolerance=1e-9)


@benchmark
def peer_mean_error_of_buffers(setting: Setting) -> Iterator[Row]:
    """Sensitivity times mean error, squared, of given buffers after n steps: one evaluation."""
    _started()
    from jax_privacy.matrix_factorization import buffered_toeplitz

    steps, count = setting.pick(10**4, 200), 3
    who = Participation.single(steps)
    noise = best_buffers(PrefixSums(steps), who, count)
    zeros, poles = buffered.interlacing(noise)
    scales = buffered.scales(zeros, poles)
    strategy = buffered_toeplitz.BufferedToeplitz.build((1 - zeros).tolist(), scales.tolist())
    loss = buffered_toeplitz.LossFn.build_min_sep(steps, "mean", 1, 1).loss

    def ours() -> float:
        square = buffered.squared_sensitivity(zeros, scales, who)
        return float(square * buffered.squared_error(zeros, poles, steps=steps, aggregate="mean"))

    yield _compared(
        setting,
        f"n = {steps:.0e}, d = {count}",
        Side("closed forms", ours, 1),
        _Peer("LossFn.loss", lambda: loss(strategy)),
        tolerance=1e-9,
    )


@benchmark
def peer_dense_optimum(setting: Setting) -> Iterator[Row]:
    """The least squared mean error of any strategy; ours to a certified gap, which the peer has not."""
    _started()
    from jax_privacy.matrix_factorization import dense

    for steps, epochs in setting.pick([(512, 1), (512, 4)], [(32, 1)]):

        def ours(steps: int = steps, epochs: int = epochs) -> float:
            if epochs == 1:
                return single_participation_bounds(PrefixSums(steps)).value ** 2
            return fixed_epochs_bounds(PrefixSums(steps), Participation.fixed_epochs(steps, epochs=epochs)).value ** 2

        def theirs(steps: int = steps, epochs: int = epochs) -> Any:
            return dense.per_query_error(strategy_matrix=dense.optimize(steps, epochs=epochs)).mean()

        peer = _Peer("dense.optimize", theirs)
        # The peer stops above the optimum, 0.1 to 0.2 percent in the square.
        yield _compared(setting, f"n = {steps}, k = {epochs}", Side("certified", ours, 1), peer, tolerance=5e-3)


@benchmark
def peer_bins_by_simulation(setting: Setting) -> Iterator[Row]:
    """δ of balls in bins with banded noise, by as many samples: an interval of weighted ones, against plain ones.

    The case says how wide the interval is at the confidence 1 − 10⁻⁶; the plain mean has none.
    """
    _started()
    from jax_privacy.batch_selection import BallsInBinsSampling
    from jax_privacy.experimental.monte_carlo import delta_calculation, sample_generation

    samples = setting.pick(24_000, 6_000)
    steps, period, bands = 256, 64, 8
    sigma, epsilon = 3.0, 0.5
    noise = square_root(bands)
    column = noise.inverse_coefficients(steps)[:bands]
    participation = Participation.balls_in_bins(steps, period=period)

    def ours() -> tuple[float, float]:
        found = amplified(noise, participation, noise_multiplier=sigma, epsilon=epsilon, samples=samples, rng=1)
        return found.remove.lower, found.remove.upper

    def theirs() -> float:
        strategy = BallsInBinsSampling(iterations=steps, cycle_length=period)
        losses, _ = sample_generation.get_privacy_loss_sample(strategy, sigma, column, 1, True, samples)
        return float(delta_calculation.delta_from_epsilon_and_samples(epsilon, losses))

    low, high = ours()
    yield _compared(
        setting,
        f"{period} bins, {samples} samples, δ in [{low:.2e}, {high:.2e}]",
        Side("bounded weights", lambda: sum(ours()) / 2, 1),
        _Peer("delta_from_epsilon_and_samples", theirs),
        tolerance=0.2,  # several standard errors of the plain mean
    )
