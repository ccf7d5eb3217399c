"""The audit: every broken loop is found with its cause, correct loops pass, and nothing a loop does is a traceback.

A correct loop gets another verdict with probability 1e-3 at most; the seeds here are fixed.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, kstest

from benchmarks import audit as corpus
from corrnoise.simulations.audit import audit, stream_release
from corrnoise.simulations.run.engines import streaming
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.auditing.findings import TESTS, Audit, judged
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Adjacency, Budget
from tests.broken_loops import (
    BROKEN,
    BUDGET,
    CLAIM,
    CORRECT,
    MORE_THAN_CLAIMED,
    NOISE,
    PERIOD,
    PLACES,
    PROGRAM,
    RUN,
    SCALE,
    STEPS,
    Loop,
    clipped,
    matrix,
    sums,
    times,
)

FEW: dict[str, Any] = {"idle": 200}
BANDS = np.array([np.ones(STEPS), np.append(np.full(STEPS - 1, 0.4), 0.0)])
NOISES = (NOISE, DPSGD(), FiniteNoise([1.0, -0.5]), BandedNoise(BANDS), BinaryTree(STEPS))
REFUSED = "a gradient that is not finite is not refused"
ADJACENCIES: tuple[Adjacency, ...] = ("zero-out", "replace-one")


def named(found: Audit) -> str:
    """The cause without the place."""
    return found.cause.split(" (")[0]


#: One loop of each kind; the others are slow.
QUICK = (
    "half the noise",
    "the seed is a checksum of the sums",
    "1.2 times the clip norm",
    "1.5 times the clip norm off steps 1, 7, …",
    "not clipped above 100",
    "the last 1 % outside the norm",
    "the mean of the batch",
    "batch clipped as a whole",
    "divided by the mean norm",
    "a gradient that is not finite passes",
    "dropped off steps 1, 7, …",
    "noise x 0.97 and 1.03 in turn",
)


# -- the table of power ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_loop_passes(name: str) -> None:
    found = audit(Loop(5, **CORRECT[name]), CLAIM, rng=3)
    assert (found.verdict, found.cause) == ("nothing found", ""), found.report()
    assert 0.9 * found.mu < found.mu_lower_bound < found.mu == pytest.approx(1.121242, rel=1e-6)
    assert len(found.tests) == len(TESTS) == 48
    assert found.piles == 312
    assert found.not_finite == "dropped"
    assert found.power(1.1) > 0.99 > found.power(1.05) > found.power(1.0)
    assert found.power(1.0) <= 1e-3 / 48  # the mean signal of the strong phases is less than μ


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in BROKEN]
)
def test_a_broken_loop_is_found_with_its_cause(name: str) -> None:
    arguments, cause, refuted = BROKEN[name]
    found = audit(Loop(100, **arguments), CLAIM, rng=0)
    assert named(found) == cause, found.report()
    assert PLACES.get(name, "") in found.cause
    assert found.verdict == ("not private as claimed" if refuted else "noise not as claimed")
    assert found.report().startswith(f"verdict: {found.verdict}\ncause: {found.cause}\n")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "every"), [(10, PERIOD), (100, PERIOD), (311, 1)])
def test_a_fault_of_any_coordinate_or_step_is_found(number: int, every: int) -> None:
    """Gradients are twice as long from this coordinate on, in one step of an epoch or, the last four, in all steps."""

    def total(batches: Sequence[np.ndarray]) -> np.ndarray:
        found = sums(batches)
        found[number % every :: every, number * found.shape[1] // 312 :] *= 2
        return found

    assert named(audit(Loop(5, total), CLAIM, rng=3)) == MORE_THAN_CLAIMED


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_other_noise_that_is_as_claimed_passes(noise: Any, adjacency: Any) -> None:
    budget = Budget(epsilon=5.0, delta=1e-5, clip_norm=2.0, adjacency=adjacency)
    program = streaming(noise, RUN)
    loop = stream_release(budget, program, rng=np.random.default_rng(5))
    found = audit(loop, (budget, program), rng=3, **FEW)
    assert found.verdict == "nothing found", found.report()
    assert ("lone pairs" in [test.name for test in found.tests]) == (adjacency == "zero-out")
    assert "influence, long" in [test.name for test in found.tests]


@pytest.mark.parametrize(("norm", "cause"), [(1.0, ""), (3.0, MORE_THAN_CLAIMED)])
def test_replace_one(norm: float, cause: str) -> None:
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency="replace-one")
    scale = PROGRAM.scale(budget)
    loop = Loop(5, lambda batches: sums(batches, norm), times(scale / SCALE))
    assert named(audit(loop, (budget, PROGRAM), rng=3)) == cause


@pytest.mark.parametrize(
    "participation",
    [
        Participation.single(3),
        Participation.single(1),
        Participation.min_sep(8, 1),
        Participation.reshuffled(12, epochs=3),
        Participation.fixed_epochs(12, epochs=3, unit="user", members=3),
        Participation.poisson(6, 0.1).worst,
    ],
    ids=repr,
)
def test_other_participations(participation: Participation) -> None:
    budget = Budget(rho=1.0)
    program = FiniteNoise([1.0, -0.5]).program(participation)
    claim = budget, program
    right = stream_release(budget, program, rng=np.random.default_rng(5))
    assert audit(right, claim, rng=3, **FEW).verdict == "nothing found"
    found = audit(lambda batches: right(batches) / 2, claim, rng=3, **FEW)
    assert named(found) == "the noise is smaller than claimed"
    unclipped = stream_release(Budget(rho=4.0, clip_norm=2.0), program, rng=np.random.default_rng(5))
    found = audit(unclipped, claim, rng=3, idle=200)
    assert named(found) == MORE_THAN_CLAIMED


def test_a_release_on_a_grid() -> None:
    """Coarse values have the right to be equal if the grid is claimed, floors to have their mean, and no other."""
    grid = SCALE / 100

    class Floored(Loop):
        def __call__(self, batches: Sequence[np.ndarray]) -> np.ndarray:
            return np.floor(super().__call__(batches) / grid) * grid

    assert audit(Floored(5), CLAIM, grid=grid, rng=3).verdict == "nothing found"
    assert named(audit(Floored(5), CLAIM, rng=3)) == "the noise has too few bits"


# -- errors of loops --------------------------------------------------------------------------------------------------


def _nan(batches: Sequence[np.ndarray]) -> np.ndarray:
    found = sums(batches)
    found[2, 3] = math.nan
    return found


def _divides(batches: Sequence[np.ndarray]) -> float:
    return 1 / (len(batches) - STEPS)


@pytest.mark.parametrize(
    ("loop", "verdict", "cause"),
    [
        (lambda b: sums(b)[1:], "could not be audited", r"returned the shape (23, 512), not (24, 512) (run 1)"),
        (lambda b: None, "could not be audited", "did not return an array of numbers: an array of object"),
        (lambda b: [[1.0], [1.0, 2.0]], "could not be audited", "did not return an array of numbers"),
        (lambda b: "nothing", "could not be audited", "did not return an array of numbers"),
        (_divides, "could not be audited", "raised ZeroDivisionError: division by zero (test_audit.py, line"),
        (_nan, "not private as claimed", "a release is not finite (run 1)"),
        (lambda b: sums(b) * 0, "not private as claimed", "the loop adds no noise"),
        (lambda b: sums(b), "not private as claimed", "the loop adds no noise"),
        (lambda b: sums(b) + 1e300, "not private as claimed", ""),
        (lambda b: np.ones((STEPS, 512), dtype=int), "not private as claimed", "two coordinates get the same noise"),
    ],
)
def test_whatever_a_loop_does_is_a_verdict(loop: Any, verdict: str, cause: str) -> None:
    found = audit(loop, CLAIM, rng=1, **FEW)
    assert found.verdict == verdict
    assert cause in found.cause
    assert verdict in found.report()


def test_interrupts_are_not_verdicts() -> None:
    def loop(batches: Sequence[np.ndarray]) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit(loop, CLAIM, **FEW)


def test_a_loop_may_overwrite_its_gradients() -> None:
    def total(batches: Sequence[np.ndarray]) -> np.ndarray:
        found = np.array([clipped(batch) for batch in batches if batch.__imul__(1.0) is not None])
        for batch in batches:
            batch.fill(1e9)
        assert np.array_equal(batches[-PERIOD], batches[1:][-PERIOD], equal_nan=True)
        return found

    assert audit(Loop(5, total), CLAIM, rng=3, **FEW).verdict == "nothing found"


@pytest.mark.parametrize(("not_finite", "cause"), [("dropped", ""), ("refused", REFUSED)])
def test_a_gradient_that_is_not_finite(not_finite: Any, cause: str) -> None:
    """An exception passes in both cases."""

    def refuses(batches: Sequence[np.ndarray]) -> np.ndarray:
        if not all(np.isfinite(batch).all() for batch in batches):
            raise ArithmeticError("not finite")
        return sums(batches)

    assert audit(Loop(5), CLAIM, not_finite=not_finite, rng=3, **FEW).cause == cause
    found = audit(Loop(5, refuses), CLAIM, not_finite=not_finite, rng=3, **FEW)
    assert found.cause == ""
    assert found.not_finite.startswith("the loop raised ArithmeticError: not finite")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"idle": 3}, "idle must be an integer >= 16"),
        ({"level": 1.5}, "level must lie"),
        ({"factor": 1.0}, "factor must lie in"),
        ({"grid": 1.0}, "grid must be at most"),
        ({"not_finite": "kept"}, "not_finite must be one of 'dropped', 'refused'"),
        ({"restarts": (12,)}, "restarts must be"),
        ({"claim": (BUDGET, DPSGD().program(Participation.single()))}, "any length"),
        ({"claim": (BUDGET, DPSGD().program(Participation.single(5000)))}, "at most 4096 steps"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    claim = options.pop("claim", CLAIM)
    with pytest.raises(ValueError, match=message):
        audit(Loop(5), claim, **options)


def test_what_is_no_loop_and_no_claim() -> None:
    with pytest.raises(TypeError, match=r"loop must be a function .* or a class with the methods begin"):
        audit(None, CLAIM)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loop must be a function"):
        audit(dict, CLAIM)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="claim must be a design, a private run, or a pair"):
        audit(Loop(5), None)
    with pytest.raises(TypeError, match="the budget of claim must be a Budget"):
        audit(Loop(5), (1.0, PROGRAM))


# -- restarts ----------------------------------------------------------------------------------------------------------


class Durable:
    """A loop that notes its position in its folder; the class attribute ``after`` says how it restarts."""

    after = "skip"
    seed = 0
    first: tuple[np.ndarray, dict[int, np.ndarray]]

    def begin(self, folder: Path) -> int:
        self.folder = folder
        type(self).seed += 1
        crashed = folder.exists()
        self.position = int(folder.read_text()) if crashed else 0
        if crashed and self.after in ("same noise", "other noise"):
            self.position -= 1
        if crashed and self.after in ("skip", "memory without the skipped"):
            self.position += 1
        draws = np.random.default_rng(self.seed).standard_normal((STEPS, 1012))
        self.noise = SCALE * matrix(0.02) @ draws
        if self.position and self.after == "memory lost":
            left = STEPS - self.position
            self.noise[self.position :] = SCALE * matrix(0.02)[:left, :left] @ draws[self.position :]
        if not crashed:
            type(self).first = draws, {}
        else:
            self._go_on(draws)
        return self.position

    def _go_on(self, draws: np.ndarray) -> None:
        earlier = type(self).first[0]
        if self.after == "memory lost":
            return
        cut = self.position + (self.after == "kept")
        lost = cut - 1 if self.after == "memory without the skipped" else cut
        both = np.concatenate([earlier[:cut], draws[cut:]])
        if self.after == "memory without the skipped":
            both[lost:cut] = 0
        if self.after == "same noise":
            both[cut] = earlier[cut]
        self.noise = SCALE * matrix(0.02) @ both

    def step(self, gradients: np.ndarray) -> np.ndarray:
        kept = type(self).first[1]
        if self.after == "kept" and self.position in kept:
            release = kept[self.position]
        else:
            release = clipped(gradients) + self.noise[self.position, : gradients.shape[1]]
        kept[self.position] = release
        self.position += 1
        self.folder.write_text(str(self.position - (self.after == "kept")))
        return np.asarray(release)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "verdict", "cause"),
    [
        ("go on", "nothing found", ""),
        ("skip", "nothing found", ""),
        ("kept", "nothing found", ""),
        (
            "memory lost",
            "noise not as claimed",
            "the noise has other correlations, or sizes, over the steps than claimed",
        ),
        (
            "memory without the skipped",
            "noise not as claimed",
            "the noise has other correlations, or sizes, over the steps than claimed",
        ),
        ("same noise", "not private as claimed", "a step is released twice, with the same noise (step 12)"),
        ("other noise", "not private as claimed", "a step is released twice, with other noise (step 12)"),
    ],
)
def test_a_crash_and_a_restart(after: str, verdict: str, cause: str) -> None:
    loop = type("Loop", (Durable,), {"after": after, "seed": 3})
    found = audit(loop, CLAIM, restarts=(12,), idle=700, rng=1)
    assert (found.verdict, named(found) if "step" not in cause[:8] else found.cause) == (verdict, cause)
    assert found.skipped == (after in ("skip", "memory without the skipped"))


def test_begin_must_name_the_next_step() -> None:
    class Lost(Durable):
        def begin(self, folder: Path) -> Any:
            return None

    class Jumps(Durable):
        def begin(self, folder: Path) -> int:
            super().begin(folder)
            return 20

    assert "begin must return the number of the next step" in audit(Lost, CLAIM, **FEW).cause
    assert audit(Jumps, CLAIM, **FEW).cause == "the loop released 4 of 24 steps in all runs"


# -- false alarms ------------------------------------------------------------------------------------------------------


def test_false_alarms_are_rare() -> None:
    assert corpus.alarms(range(3), 1e-9) == []


@pytest.mark.slow
def test_correct_loops_fail_with_probability_level_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of ``python -m benchmarks.audit``; as a mutant, loops with half of the release."""
    numbers = [each for each in range(42) if corpus.KINDS[each % len(corpus.KINDS)] in ("stream", "floats")]
    most = int(binom.isf(1e-9, len(numbers), corpus.LEVEL))
    assert len(corpus.alarms(numbers)) <= most < 0.75 * len(numbers)

    def halved(number: int, correct: Any = corpus.correct) -> Any:
        loop, claim = correct(number)
        return lambda batches: loop(batches) / 2, claim

    monkeypatch.setattr(corpus, "correct", halved)
    assert len(corpus.alarms(range(2), 1e-6)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_p_values_of_correct_loops_are_uniform_or_larger(noise: Any, adjacency: Any) -> None:
    """The exact ones agree with the uniform distribution; the others are not below it.  A mutant is far below."""
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=adjacency)
    program = streaming(noise, RUN)
    exact = ("variance, below", "mean", "correlation, all lags", "coordinates, sizes")
    values: dict[str, list[float]] = {name: [] for name in TESTS}
    for seed in range(40):
        loop = stream_release(budget, program, rng=np.random.default_rng((8, seed)))
        for test in audit(loop, (budget, program), rng=seed, idle=80).tests:
            values[test.name].append(test.p)
    for name, p in values.items():
        assert not p or kstest(p, "uniform", alternative="greater").pvalue > 1e-5, name
    assert all(kstest(values[name], "uniform").pvalue > 1e-5 for name in exact)
    assert kstest(np.power(values["mean"], 4), "uniform", alternative="greater").pvalue < 1e-5


# -- mutants of the report ---------------------------------------------------------------------------------------------


def test_the_first_failed_test_names_the_cause() -> None:
    """In the reversed order of causes a loop without noise at a step would be called by its correlation."""
    found = audit(Loop(5, **BROKEN["step 13 without"][0]), CLAIM, rng=3, idle=700)
    failed = [test for test in found.tests if test.failed]
    assert failed[0].cause == "a step gets no noise"
    assert failed[-1].cause != failed[0].cause
    refuting = [row.refutes for row in TESTS.values()]
    assert refuting == sorted(refuting, reverse=True)


def test_the_level_is_divided() -> None:
    found = audit(Loop(5), CLAIM, rng=3, **FEW)
    assert {test.level for test in found.tests} == {1e-3 / len(TESTS)}
    assert judged({"mean": Evidence(1.0, 1e-3 / 2)}, 1e-3)[0] == "nothing found"
    assert judged({"mean": Evidence(1.0, 1e-3 / 49)}, 1e-3)[0] == "noise not as claimed"


def test_the_same_seeds_give_the_same_audit() -> None:
    assert audit(Loop(5), CLAIM, rng=3, **FEW) == audit(Loop(5), CLAIM, rng=3, **FEW)
