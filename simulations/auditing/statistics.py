"""The evidence in the releases of a loop: each test of the table, and the lower bound of μ."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.attribution import attributed, decades
from corrnoise.simulations.auditing.few import FewExamples
from corrnoise.simulations.auditing.piles import LENGTH_BINS, MEMBERS, OVERFLOW_BIN, Piles, PileScores
from corrnoise.simulations.auditing.plan import AuditPlan, Whitening
from corrnoise.theory.auditing import canaries as seen
from corrnoise.theory.auditing import noise_tests
from corrnoise.theory.auditing.epsilon import largest_refuted
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.auditing.findings import TESTS
from corrnoise.theory.numerics.checks import Array

_MAX_LAGS = 20
_PHASE_GROUPS = 12
_ALONE_FACTOR = 2.0  # times what piles show: then an example counts for more where it is alone


def evidence(
    plan: AuditPlan, whitening: Whitening, piles: Piles, few: FewExamples, releases: Array, level: float
) -> tuple[dict[str, Evidence], float, PileScores]:
    """Evidence of each test by its name, the lower bound of μ, and the scores of piles.

    ``releases`` has the steps that all runs have, with the two runs of piles first, shape (runs, steps, size).
    """
    each = level / len(TESTS)
    raw = releases / plan.scale
    white = whitening.of_runs(raw)
    scores = PileScores(piles, plan, whitening, white)
    found = dict(about_noise(plan, whitening, releases[:, :, piles.number :], piles.layout.idle_places, main_runs=2))
    if found["noise of all coordinates, near 0"].p <= each:
        return found, 0.0, scores
    found |= _about_coordinates(white, scores, few, found["noise of all coordinates, near 0"].statistic)
    both = noise_tests.variance(*_energy(white[2:, :, piles.number :]))
    found["variance of lone runs, below"], found["variance of lone runs, above"] = both
    few_lower = few.tests(whitening, raw[2:], found, each)
    lower = _about_piles(plan, piles, scores, each, found)
    _about_gradients(plan, whitening, piles, scores, found)
    return found, max(lower, few_lower), scores


def _energy(white: Array) -> tuple[float, int]:
    """The sum of squares of noise less its mean in each step, and its degrees of freedom."""
    return float((noise_tests.centred(white) ** 2).sum()), white.shape[0] * white.shape[1] * (white.shape[2] - 1)


def about_noise(
    plan: AuditPlan, whitening: Whitening, releases: Array, places: NDArray[np.intp], *, main_runs: int
) -> Iterator[tuple[str, Evidence]]:
    """The tests of noise in idle coordinates, shape (runs, steps, idle); size and shape are those of the main runs."""
    every = releases / plan.scale
    every_white = whitening.of_runs(every)
    yield "noise of all coordinates, near 0", (first := noise_tests.no_noise(every_white[:main_runs]))
    mean_square = min(1.0, first.statistic)
    if first.p <= 1e-300:
        return

    idle_raw, quiet = every[:main_runs], every_white[:main_runs]
    runs, steps, _ = quiet.shape
    flat = quiet.reshape(runs * steps, -1)
    yield "noise of a step, near 0", noise_tests.step_without_noise(every, whitening.covariance)
    yield "difference of two steps, near 0", noise_tests.repeated_step(every, whitening.covariance)
    centre = noise_tests.centred(quiet)
    factors = noise_tests.bartlett(centre)
    yield "noise of a step given others, near 0", noise_tests.singular(factors, runs * (plan.idle - 1), mean_square)
    yield (
        "difference of two steps of all runs, near 0",
        noise_tests.used_again((every, every_white), np.sqrt(np.diag(whitening.covariance))),
    )
    if len(every) > 1:
        again, related = noise_tests.repeated_runs(noise_tests.centred(every_white))
        yield "cosine of two runs, above 1/2", again
        yield "cosine of two runs", related
    smallest = plan.scale * math.sqrt(float(np.diag(whitening.covariance).min()))
    yield "pairs of equal values", noise_tests.equal_values(releases, plan.grid / smallest)
    below, above = noise_tests.variance(*_energy(quiet))
    yield "variance, below", below
    yield "variance, above", above
    yield "noise of a step, for one gradient", noise_tests.step_for_one_gradient(every, (plan.distance / plan.mu) ** 2)

    yield (
        "noise of a coordinate, above tenfold",
        noise_tests.greatest_coordinate(flat, places, outlying=True),
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
    yield "variance of a coordinate, above", noise_tests.greatest_coordinate(flat, places, outlying=False)
    yield "coordinates, sizes", noise_tests.coordinate_sizes(every_white)


def _about_coordinates(white: Array, scores: PileScores, few: FewExamples, mean_square: float) -> dict[str, Evidence]:
    """Coordinates without noise of their own: all idle ones, and those of piles without the direction of the phase."""
    layout, (runs, steps, _) = few.layout, white.shape
    quiet = white[:, :, layout.canaries :]
    energies, freedom = (quiet**2).sum(axis=(0, 1)), np.full(quiet.shape[2], float(runs * steps))
    places = layout.idle_places
    if steps > 1:
        rest, own = scores.noise_of_coordinates(white[:2, :, : layout.canaries])
        energies = np.append((rest**2).sum(axis=(0, 1)), energies)
        freedom = np.append(np.full(own.size, 2.0 * (steps - 1)), freedom)
        places = np.append(layout.place[own], places)
    columns = white[2:, :, few.unused].reshape(-1, few.unused.size)
    return about_coordinates(energies, freedom, places, columns, layout.place[few.unused], mean_square)


def about_coordinates(
    energies: Array,
    freedom: Array,
    places: NDArray[np.intp],
    columns: Array,
    columns_places: NDArray[np.intp],
    mean_square: float,
) -> dict[str, Evidence]:
    """Tests of sums of squares of coordinates with their degrees of freedom, and of columns of noise."""
    size = min(1.0, mean_square)
    return {
        "noise of a coordinate, below a tenth": noise_tests.least_coordinate(
            energies, freedom, size, places, absent=True
        ),
        "variance of a coordinate, below": noise_tests.least_coordinate(energies, freedom, size, places, absent=False),
        "difference of two coordinates, near 0": noise_tests.shared_noise(columns, size, columns_places),
    }


def _sets(plan: AuditPlan, piles: Piles, scores: PileScores) -> Iterator[tuple[str, list[NDArray[np.bool_]]]]:
    """The sets of piles of each test."""
    yield "piles, length", [piles.bins == number for number in range(LENGTH_BINS)]
    parts = np.array_split(np.arange(len(plan.phases)), min(_PHASE_GROUPS, len(plan.phases)))
    yield "piles, steps", [piles.long & np.isin(piles.phases, part) for part in parts]
    near = piles.layout.group(np.arange(piles.number)) < piles.layout.neighbouring
    yield "piles, place", [piles.long & near, piles.long & ~near]
    yield "piles, all", [piles.long & scores.strong]


def _about_piles(plan: AuditPlan, piles: Piles, scores: PileScores, each: float, found: dict[str, Evidence]) -> float:
    """The tests of piles, which refute; a lower bound of μ."""
    shown = scores.scores / (math.sqrt(2) * scores.spreads)
    freedom, lower = scores.freedom, [0.0]

    def tested(name: str, sets: list[Array]) -> None:
        sets = [one for one in sets if one.size]
        tests = [seen.group_of_piles(one, MEMBERS, freedom, plan.mu) for one in sets]
        least = min(range(len(sets)), key=lambda i: (tests[i].p, -tests[i].statistic))
        found[name] = tests[least].among(len(sets))
        bound = each / len(sets)
        lower.append(largest_refuted(lambda mu: seen.group_of_piles(sets[least], MEMBERS, freedom, mu).p <= bound))

    for name, members in _sets(plan, piles, scores):
        tested(name, [shown[one] for one in members])
    largest = int(np.argmax(shown))
    found["piles, largest"] = seen.group_of_piles(shown[[largest]], MEMBERS, freedom, plan.mu).among(shown.size)
    half = np.arange(piles.number) % 2 == 0
    learned = [shown_by for phase in range(scores.used.size) if (shown_by := scores.learned(phase, half)).size]
    if learned:
        tested("piles, learned filter", [np.concatenate(learned)])
    names = [name for name in found if name.startswith("piles")]
    if min(found[name].p for name in names) <= each:
        alone = "alone" in found and found["alone"].statistic > _ALONE_FACTOR * found["piles, largest"].statistic
        where = "an example that is alone in its batch" if alone else attributed(plan, piles, scores, shown)
        found.update({name: found[name]._replace(where=where) for name in names})
    return max(lower)


def _about_gradients(
    plan: AuditPlan, whitening: Whitening, piles: Piles, scores: PileScores, found: dict[str, Evidence]
) -> None:
    """The tests of what gradients add, against the claimed noise, which do not refute privacy."""
    claimed = piles.counted * scores.norm / math.sqrt(2)
    rest = scores.scores / math.sqrt(2) - claimed
    usual = piles.bins < OVERFLOW_BIN
    by_length = [
        seen.sums_as_claimed(
            rest[piles.bins == number],
            claimed[piles.bins == number],
            f"lengths of {decades(number, number)} clipping norms",
            above_alone=number == OVERFLOW_BIN,
        )
        for number in range(LENGTH_BINS)
    ]
    by_phase = [
        seen.sums_as_claimed(
            rest[usual & (piles.phases == phase)],
            claimed[usual & (piles.phases == phase)],
            f"steps {', '.join(str(step + 1) for step in plan.phases[phase][:3])}, …",
        )
        for phase in scores.used.tolist()
    ]
    one_by_one = [
        seen.sums_as_claimed(rest[[pile]], claimed[[pile]], "some examples") for pile in np.flatnonzero(usual).tolist()
    ]
    by_step = list(scores.each_step(usual, piles.counted))
    for name, tests in (
        ("size, length", by_length),
        ("size, steps", by_phase),
        ("size, largest", one_by_one),
        ("size, each step", by_step),
    ):
        found[name] = min(tests, key=lambda one: one.p).among(len(tests))
    replaced = plan.budget.adjacency == "replace-one"
    left = scores.sums if replaced else scores.absent
    found["trace of absent canaries"] = seen.trace_of_absent(
        left.mean(axis=1), piles.number / (2 if replaced else 1), whitening.drift * (2 if replaced else 1)
    )
