"""The evidence in the releases of a loop: each test of the table, the lower bound of μ, and bounds of ε."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.layout import AuditLayout
from corrnoise.simulations.auditing.lone import Lone
from corrnoise.simulations.auditing.plan import AuditPlan, Whitening
from corrnoise.simulations.auditing.scores import audit_scores
from corrnoise.theory.auditing import canaries as seen
from corrnoise.theory.auditing import noise_tests
from corrnoise.theory.auditing.epsilon import error_rate_bound
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.auditing.findings import TESTS
from corrnoise.theory.numerics.checks import Array

_MAX_LAGS = 20


def evidence(
    plan: AuditPlan,
    whitening: Whitening,
    layout: AuditLayout,
    releases: Array,
    coins: NDArray[np.bool_],
    lone: Lone | None,
    level: float,
) -> tuple[dict[str, Evidence], float, Array]:
    """Evidence of each test by its name, the lower bound of μ, and the scores of the canaries."""
    canaries = coins.shape[1]
    raw = releases / plan.scale
    white = whitening.of_runs(raw)
    found = dict(about_noise(plan, whitening, layout, releases, raw, white))
    lower = [0.0]
    scores = np.zeros(coins.shape)
    if found["noise of all coordinates, near 0"].p > level / len(TESTS):
        seen_white = layout.scores(white[:, :, :canaries])
        quiet = white[:, :, canaries:]
        filters = _Filters(plan, whitening, coins, level)
        scores = filters.matched(seen_white, quiet, found, lower)
        filters.learned(seen_white, quiet, found, lower)
        if lone is not None:
            noise = seen.spread(lone.idle)
            both = noise_tests.variance(noise.freedom * noise.size**2, noise.freedom)
            found["variance of lone runs, below"], found["variance of lone runs, above"] = both
            found["lone pairs"] = seen.separation(lone.inside, lone.outside, noise, plan.mu)
            lower.append(seen.separation_lower_bound(lone.inside, lone.outside, noise, level / len(TESTS)))
        found |= _about_gradients(plan, whitening, seen_white, coins)
    return found, max(lower), scores


def about_noise(
    plan: AuditPlan, whitening: Whitening, layout: AuditLayout, releases: Array, raw: Array, white: Array
) -> Iterator[tuple[str, Evidence]]:
    """The tests of the noise; canaries with steps of their own do not show it."""
    runs, steps, size = white.shape
    canaries = layout.canaries
    quiet = white[:, :, canaries:]
    yield "noise of all coordinates, near 0", (first := noise_tests.no_noise(quiet))
    mean_square = min(1.0, first.statistic)
    if first.p <= 1e-300:
        return

    # The gradients of canaries lie in one direction; its complement is noise.
    direction = whitening.signal / np.linalg.norm(whitening.signal)
    rest = white - direction[:, np.newaxis] * np.tensordot(direction, white, axes=(0, 1))[:, np.newaxis]
    places = layout.place
    energies = np.append((rest[:, :, :canaries] ** 2).sum(axis=(0, 1)), (quiet**2).sum(axis=(0, 1)))
    freedom = np.append(np.full(canaries, runs * (steps - 1)), np.full(plan.idle, runs * steps))
    idle_raw = raw[:, :, canaries:]
    flat = quiet.reshape(runs * steps, -1)
    if steps == 1 or plan.sampled:
        energies, freedom, places = energies[canaries:], freedom[canaries:], layout.idle_places
    yield (
        "noise of a coordinate, below a tenth",
        noise_tests.least_coordinate(energies, freedom, mean_square, places, absent=True),
    )
    across = _coordinates_of(direction)
    rotated = np.tensordot(across, white, axes=(0, 1)).transpose(1, 0, 2).reshape(-1, size)
    columns, columns_places = (flat, layout.idle_places) if plan.sampled else (rotated, layout.place)
    yield "difference of two coordinates, near 0", noise_tests.shared_noise(columns, mean_square, columns_places)
    yield "noise of a step, near 0", noise_tests.step_without_noise(idle_raw, whitening.covariance)
    yield "difference of two steps, near 0", noise_tests.repeated_step(idle_raw, whitening.covariance)
    centre = noise_tests.centred(quiet)
    factors = noise_tests.bartlett(centre)
    yield "noise of a step given others, near 0", noise_tests.singular(factors, runs * (plan.idle - 1), mean_square)
    yield (
        "difference of two steps of all runs, near 0",
        noise_tests.used_again((idle_raw, quiet), np.sqrt(np.diag(whitening.covariance))),
    )
    if runs > 1:
        again, related = noise_tests.repeated_runs(centre)
        yield "cosine of two runs, above 1/2", again
        yield "cosine of two runs", related
    smallest = plan.scale * math.sqrt(float(np.diag(whitening.covariance).min()))
    yield "pairs of equal values", noise_tests.equal_values(releases[:, :, canaries:], plan.grid / smallest)
    below, above = noise_tests.variance(float((centre**2).sum()), runs * steps * (plan.idle - 1))
    yield "variance, below", below
    yield "variance, above", above
    yield (
        "noise of a step, for one gradient",
        noise_tests.step_for_one_gradient(idle_raw, (plan.distance / plan.mu) ** 2),
    )
    yield (
        "variance of a coordinate, below",
        noise_tests.least_coordinate(energies, freedom, mean_square, places, absent=False),
    )

    yield (
        "noise of a coordinate, above tenfold",
        noise_tests.greatest_coordinate(flat, layout.idle_places, outlying=True),
    )
    yield "mean", noise_tests.offset(quiet, factors, whitening.drift)
    epochs = range(plan.who.period, plan.who.period * plan.who.count, plan.who.period)
    kinds = ("each lag", "all lags", "all pairs of steps", "largest pair of steps")
    tested = noise_tests.correlations(factors, runs * (plan.idle - 1), {*range(1, _MAX_LAGS + 1), *epochs})
    yield from ((f"correlation, {kind}", one) for kind, one in zip(kinds, tested, strict=True))
    drift = float(np.abs(whitening.drift).sum(axis=1).max())
    yield "distance from the normal distribution", noise_tests.normal_shape(quiet, drift)
    below, above = noise_tests.largest_value(quiet, drift)
    yield "largest value, below", below
    yield "largest value, above", above
    yield "shares of the steps", noise_tests.step_sizes(centre)
    yield "variance of a step, below", noise_tests.least_step(idle_raw, whitening.covariance)
    yield "neighbouring coordinates", noise_tests.neighbours(flat)
    yield "cosine of two coordinates", noise_tests.largest_cosine(flat)
    yield "variance of a coordinate, above", noise_tests.greatest_coordinate(flat, layout.idle_places, outlying=False)


def _coordinates_of(direction: Array) -> Array:
    """An orthonormal basis of the complement of a direction, shape (T, T − 1)."""
    whole = np.linalg.qr(np.column_stack([direction, np.eye(direction.size)]))[0]
    return whole[:, 1 : direction.size]


class _Filters:
    """Tests of the scores of canaries under filters."""

    def __init__(self, plan: AuditPlan, whitening: Whitening, coins: NDArray[np.bool_], level: float) -> None:
        self._mu = plan.mu
        self._level = level / len(TESTS)
        self._coins = coins
        self._whitening = whitening

    def matched(self, white: Array, quiet: Array, found: dict[str, Evidence], lower: list[float]) -> Array:
        """Under the filter of the claimed gradients; the scores, shape (runs, canaries)."""
        signal = self._whitening.signal
        scores = self._separated("matched", signal / np.linalg.norm(signal), white, quiet, self._coins, found, lower)
        noise = seen.spread(np.tensordot(signal / np.linalg.norm(signal), quiet, axes=(0, 1)))
        inside, outside = scores[self._coins], scores[~self._coins]
        found["canaries, largest score"] = seen.largest_score(inside, outside, noise, self._mu)
        return scores

    def learned(self, white: Array, quiet: Array, found: dict[str, Evidence], lower: list[float]) -> None:
        """Under a filter that the first half of the canaries shows, for the other half."""
        half = white.shape[2] // 2
        coins = self._coins[:, :half]
        if coins.all() or not coins.any():
            found["canaries, learned filter"] = Evidence(0.0, 1.0)
            return
        difference = _mean_difference(white[:, :, :half], coins)
        unit = seen.learned_filter(difference, self._whitening.basis)
        self._separated("learned", unit, white[:, :, half:], quiet, self._coins[:, half:], found, lower)

    def _separated(
        self,
        kind: str,
        unit: Array,
        white: Array,
        quiet: Array,
        coins: NDArray[np.bool_],
        found: dict[str, Evidence],
        lower: list[float],
    ) -> Array:
        scores = np.tensordot(unit, white, axes=(0, 1))
        noise = seen.spread(np.tensordot(unit, quiet, axes=(0, 1)))
        inside, outside = scores[coins], scores[~coins]
        found[f"canaries, {kind} filter"] = seen.separation(inside, outside, noise, self._mu)
        lower.append(seen.separation_lower_bound(inside, outside, noise, self._level))
        return scores


def _mean_difference(white: Array, coins: NDArray[np.bool_]) -> Array:
    """Mean with the canary less mean without, shape (T,)."""
    columns = white.transpose(1, 0, 2)
    return np.asarray(columns[:, coins].mean(axis=1) - columns[:, ~coins].mean(axis=1))


def _about_gradients(
    plan: AuditPlan, whitening: Whitening, white: Array, coins: NDArray[np.bool_]
) -> dict[str, Evidence]:
    """The tests of the gradients of canaries, which do not refute privacy."""
    inside, outside = int(coins.sum()), int((~coins).sum())
    effective = seen.effective_number(inside, outside)
    if not effective:
        return {}
    difference = _mean_difference(white, coins)
    columns = white.transpose(1, 0, 2)
    absent = columns[:, ~coins].mean(axis=1)
    replaced = plan.budget.adjacency == "replace-one"
    left = absent + columns[:, coins].mean(axis=1) if replaced else absent  # with the one sign and with the other
    return {
        "trace of absent canaries": seen.trace_of_absent(
            left, effective if replaced else outside, whitening.drift * (2 if replaced else 1)
        ),
        "gradients of canaries": seen.profile(difference, whitening.signal, effective),
        "gradients of canaries, each participation": seen.participations(
            difference, whitening.signal, whitening.single, effective
        ),
    }


def bounds(scores: Array, coins: NDArray[np.bool_], delta: float | None, level: float) -> Iterator[tuple[str, float]]:
    """Lower bounds of ε for any noise, from counts; the coins of every second run are those of the run before it."""
    if delta is None or not scores.any():
        return
    rates = error_rate_bound(scores.ravel(), coins.ravel(), delta=delta, level=level)
    yield "error rates, if coordinates have independent noise", rates
    yield "one run, for any noise", audit_scores(scores[0::2], coins[0::2], delta=delta, level=level).epsilon
