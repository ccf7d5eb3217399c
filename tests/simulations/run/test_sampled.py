"""Sampled batches: their distribution, the secret behind them, their sizes, and the runs that draw them."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr, chdtr, chdtrc, ndtr

from corrnoise.simulations.amplification import amplified
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import Batches, batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sampled import SampledBatches
from corrnoise.solvers.default import default_noise
from corrnoise.theory import profile
from corrnoise.theory.amplification import curve
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import BallsInBins, Participation, RedrawnBins
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import worst_case

BUDGET = Budget(epsilon=4.0, delta=1e-5)
LEVEL = 1e-9  #: probability of a false alarm of each test, up to the normal limit of counts of hundreds
KINDS = [
    Participation.poisson(12, 0.2),
    Participation.cyclic_poisson(12, period=4, rate=0.5),
    Participation.balls_in_bins(12, period=4),
    Participation.redrawn_bins(12, period=4),
]


def taken(made: Any) -> np.ndarray:
    """The steps of each example, shape (steps, examples)."""
    found = np.zeros((made.steps, made.examples), dtype=bool)
    for step in range(made.steps):
        found[step, made.batch(step)] = True
    return found


def key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def uniform(counts: np.ndarray) -> float:
    """The p-value, two-sided, of Pearson's chi-square of counts of equally probable cells."""
    square = float(((counts - counts.mean()) ** 2).sum() / counts.mean())
    return float(2 * min(chdtrc(counts.size - 1, square), chdtr(counts.size - 1, square)))


# -- the draws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [2, 3, 7, 10])
def test_bins_are_uniform_and_independent_of_each_other(bins: int) -> None:
    made = SampledBatches(Participation.redrawn_bins(3 * bins, period=bins), 60_000).bound(key(bins))
    places = taken(made).reshape(3, bins, -1).argmax(axis=1)
    for place in places:
        assert uniform(np.bincount(place, minlength=bins)) > LEVEL
        assert uniform(np.bincount(place[::2] * bins + place[1::2], minlength=bins**2)) > LEVEL  # neighbours
    assert uniform(np.bincount(places[0] * bins + places[1], minlength=bins**2)) > LEVEL  # epochs
    again = places[0] * bins + places[0]  # a mutant: bins that are not drawn again
    assert uniform(np.bincount(again, minlength=bins**2)) < LEVEL


def test_fixed_bins_are_drawn_once() -> None:
    where = taken(SampledBatches(Participation.balls_in_bins(14, period=4), 1000).bound(key(0)))
    assert np.array_equal(where[:4], where[4:8])
    assert np.array_equal(where[:2], where[12:])
    assert np.array_equal(where[:4].sum(axis=0), np.ones(1000))
    redrawn = taken(SampledBatches(Participation.redrawn_bins(14, period=4), 1000).bound(key(0)))
    assert np.array_equal(redrawn[4:8].sum(axis=0), np.ones(1000))
    assert not np.array_equal(redrawn[:4], redrawn[4:8])


@pytest.mark.parametrize(
    ("who", "chance"),
    [
        (Participation.poisson(400, 0.3), 0.3),
        (Participation.balls_in_bins(400, period=400), 1 / 400),
        (Participation.redrawn_bins(400, period=5), 1 / 5),
    ],
    ids=["poisson", "balls in bins", "redrawn bins"],
)
def test_sizes_of_batches_have_their_distribution(who: Participation, chance: float) -> None:
    """Sizes are binomial, those of one epoch multinomial: Σ (size − Nq)²/(Nq) is χ² up to a factor and the count."""
    number = 4000
    sizes = taken(SampledBatches(who, number).bound(key(5))).sum(axis=1)
    square = ((sizes - number * chance) ** 2).sum() / (number * chance)
    if isinstance(who, BallsInBins | RedrawnBins):
        freedom = who.worst.count * (who.worst.period - 1)
    else:
        freedom, square = who.length, square / (1 - chance)
    assert 2 * min(chdtr(freedom, square), chdtrc(freedom, square)) > LEVEL
    assert chdtr(freedom, 0.0) < LEVEL  # mutants: equal sizes, and the sizes of twice the examples
    assert chdtrc(freedom, 2 * square) < LEVEL


def test_poisson_batches_are_independent_over_steps_and_examples() -> None:
    where = taken(SampledBatches(Participation.poisson(200, 0.25), 2000).bound(key(1)))
    for both, count in (
        ((where[1:] & where[:-1]).sum(), 199 * 2000),
        ((where[:, 1:] & where[:, :-1]).sum(), 200 * 1999),
    ):
        mean = count / 16
        assert abs(both - mean) < 6.2 * np.sqrt(mean * 2)  # pairs that share an entry at most double the variance
        assert abs(4 * mean - mean) > 6.2 * np.sqrt(mean * 2)  # a mutant: the same batch again


def test_cyclic_batches_are_of_the_group_whose_turn_it_is() -> None:
    where = taken(SampledBatches(Participation.cyclic_poisson(90, period=3, rate=0.4), 1001).bound(key(2)))
    assert all(set(np.flatnonzero(row) % 3) == {step % 3} for step, row in enumerate(where))
    hits = int(where.sum())
    chances = [float(bdtr(hits, 30 * 1001, rate)) for rate in (0.4, 0.8, 0.2)]
    assert LEVEL < chances[0] < 1 - LEVEL
    assert chances[1] < LEVEL  # mutants: twice and half the rate
    assert chances[2] > 1 - LEVEL


@pytest.mark.parametrize(("period", "rate"), [(4, 0.15), (3, 1 / 3), (1, 0.3)])
def test_b_min_sep_is_a_stationary_renewal_process(period: int, rate: float) -> None:
    number, steps = 20_000, 3 * period + 2
    who = Participation.b_min_sep(steps, period=period, rate=rate)
    where = taken(SampledBatches(who, number).bound(key(3)))
    wait, chance = np.zeros(number, dtype=int), rate / (1 - (period - 1) * rate)

    def usual(hits: int, trials: int, probability: float) -> bool:
        return abs(hits - trials * probability) <= 6.2 * math.sqrt(trials * probability * (1 - probability)) + 1e-6

    for step, row in enumerate(where):
        assert usual(int(row.sum()), number, rate)  # also of the first step
        assert not row[wait > 0].any()
        known = wait == 0 if step >= period else np.zeros(number, dtype=bool)
        assert usual(int(row[known].sum()), int(known.sum()), min(chance, 1.0))
        wait = np.where(row, period - 1, np.maximum(wait - 1, 0))
    assert usual(int((where[0, 1:] & where[0, :-1]).sum()), number - 1, rate**2)  # neighbours are independent
    if period > 1:  # mutants: examples that start without a wait, and p for the rate
        assert not usual(int(where[0].sum()), number, min(chance, 1.0))
    again = SampledBatches(who, number).bound(key(3))  # of a run that resumes, in any order
    for step in (period + 1, 2, steps - 1):
        assert np.array_equal(again.batch(step), np.flatnonzero(where[step]))


@given(st.floats(1e-12, 1.0))
def test_a_rate_is_never_exceeded(rate: float) -> None:
    """Exactly ⌊rate · 2⁶⁴⌋ of the 2⁶⁴ words are taken."""
    top, bottom = rate.as_integer_ratio()
    threshold = top * 2**64 // bottom
    words = np.array([max(threshold - 1, 0), min(threshold, 2**64 - 1), 2**64 - 1], dtype=np.uint64)
    made = Participation.poisson(1, rate).batch(0, 3, lambda *_: words)
    assert made.tolist() == [number for number, word in enumerate(words.tolist()) if word < threshold]


def test_words_of_an_incomplete_multiple_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """2⁶⁴ = 3 · m + 1: the last word would favour the bin 0."""
    made = SampledBatches(Participation.balls_in_bins(3, period=3), 2).bound(key(0))
    attempts = iter([[2**64 - 1, 2**64 - 2], [1, 0]])
    monkeypatch.setattr(draws, "words", lambda *_, **__: np.array(next(attempts), dtype=np.uint64))
    assert [made.batch(step).tolist() for step in range(3)] == [[], [0], [1]]


# -- sizes, capacity, names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", KINDS, ids=lambda who: who.label)
def test_a_capacity_is_never_exceeded_and_cuts_nothing_else(who: Participation) -> None:
    cut = type(who)(**(who.arguments() | {"capacity": 6, "examples": 50}))
    whole, made = (SampledBatches(each, 50).bound(key(3)) for each in (who, cut))
    sizes = []
    for step in range(12):
        all_, kept = whole.batch(step), made.batch(step)
        assert kept.size == min(6, all_.size)
        assert set(kept.tolist()) <= set(all_.tolist())
        sizes.append(all_.size)
    assert max(sizes) > 6


def slot_counts(kept: list[int], slots: Callable[[SampledBatches, int], np.ndarray]) -> np.ndarray:
    """How often each example of ``kept`` has each slot, shape (examples, 6), over the batches of many keys."""
    who = Participation.poisson(1, 0.5, capacity=6, examples=4)
    found = np.zeros((4, 6))
    for number in range(3000):
        made = SampledBatches(who, 4).bound(number.to_bytes(16, "big"))
        batch = made.batch(0)
        if batch.tolist() == kept:
            places = slots(made, batch.size)
            assert np.unique(places).size == batch.size
            found[batch, places] += 1
    return found[kept]


@pytest.mark.parametrize(
    ("slots", "uniform"),
    [
        (lambda made, _: made.slots(0), True),
        (lambda _, size: np.arange(size), False),  # a mutant: an absent example moves the others
        (lambda made, size: np.sort(made.slots(0)), False),
    ],
)
def test_slots_are_a_uniform_injection(slots: Callable[[SampledBatches, int], np.ndarray], uniform: bool) -> None:
    """Example 1 is in one of two batches, and changes no law of the others.  Keys are fixed; 5 standard errors."""
    worst = 0.0
    for kept in ([0, 3], [0, 1, 3]):
        counts = slot_counts(kept, slots)
        mean = counts.sum(axis=1, keepdims=True) / 6
        assert mean.min() > 15
        worst = max(worst, float(np.abs((counts - mean) / np.sqrt(mean * 5 / 6)).max()))
    assert (worst < 5) == uniform


def test_slots_need_a_capacity() -> None:
    made = SampledBatches(Participation.poisson(3, 0.5), 8).bound(key(1))
    with pytest.raises(ValueError, match="participation must have a capacity for slots, got None"):
        made.slots(0)


@pytest.mark.parametrize("who", KINDS, ids=lambda who: who.label)
def test_batches_follow_from_the_secret_alone(who: Participation) -> None:
    free = SampledBatches(who, 50)
    with pytest.raises(RuntimeError, match="drawn from the secret of a run"):
        free.batch(0)
    one, same, other = free.bound(key(1)), free.bound(key(1)), free.bound(key(2))
    for step in (11, 0, 5):
        assert np.array_equal(one.batch(step), same.batch(step))
        assert np.array_equal(one.batch(step), pickle.loads(pickle.dumps(free)).bound(key(1)).batch(step))
    with pytest.raises(TypeError, match="a secret must not be copied or pickled"):
        pickle.dumps(one)
    assert not np.array_equal(taken(one), taken(other))
    assert key(1).hex() not in repr(one)
    assert one == free
    assert one.identity == free.identity != SampledBatches(who, 51).identity
    assert one.in_words() == f"batches of {free.batch_size:.6g} of 50 examples on average, drawn from the run's secret"


def test_the_constant_by_which_sums_are_divided() -> None:
    assert [SampledBatches(who, 50).batch_size for who in KINDS] == [10.0, 6.25, 12.5, 12.5]
    assert batches(KINDS[2], 50, 13).batch_size == 13
    for size in (11, 14):
        with pytest.raises(ValueError, match=r"batch_size must be 12.5, the expected size .* got "):
            batches(KINDS[2], 50, size)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"rng must be None .* must stay secret \(H4\)"):
        batches(KINDS[0], 50, rng=1)
    with pytest.raises(ValueError, match="participation must be sampled, got Single"):
        SampledBatches(Participation.single(4), 3)
    with pytest.raises(ValueError, match="examples must be the 40 of the participation, got 50"):
        batches(Participation.poisson(4, 0.5, examples=40), 50)
    with pytest.raises(ValueError, match="step must be"):
        SampledBatches(KINDS[0], 50).bound(key(0)).batch(12)


# -- runs --------------------------------------------------------------------------------------------------------------


def run_of(who: Participation, **options: Any) -> PrivateRun:
    mechanism = DPSGD() if not isinstance(who, BallsInBins) else NuFTRL(0.1)
    given_ = options.pop("batches") if "batches" in options else batches(who, 50)
    with worst_case():
        return PrivateRun(BUDGET, who, mechanism, 3, batches=given_, **options)


@pytest.mark.parametrize("who", KINDS, ids=lambda who: who.label)
def test_a_sampled_run_draws_its_own_batches(who: Participation) -> None:
    one, other = run_of(who), run_of(who)
    shown = [list(map(np.ndarray.tolist, map(np.asarray, _drive(run)))) for run in (one, other)]
    assert shown[0] != shown[1]
    assert "on average" in one.summary()


def _drive(run: PrivateRun) -> list[np.ndarray]:
    found = []
    for batch in run:
        found.append(batch)
        assert np.isfinite(run.add_noise(np.zeros(3))).all()
    return found


@pytest.mark.parametrize("who", KINDS, ids=lambda who: who.label)
def test_what_sampling_does_not_cover_is_refused(who: Participation) -> None:
    cuts = Batches(
        Participation.reshuffled(12, period=4), [np.random.default_rng(e).permutation(48) for e in range(3)], 12
    )
    with pytest.raises(ValueError, match=r"equal-size random batches are not covered.*\(H2\); participation.worst"):
        run_of(who, batches=cuts)
    with pytest.raises(ValueError, match=r"the sampler's secret is the run's own \(H4\)"):
        run_of(who, batches=None)
    for other in KINDS:
        if other != who:
            with pytest.raises(ValueError, match="batches must have exactly the participation of the run"):
                run_of(who, batches=batches(other, 50))
    with pytest.raises(TypeError, match="batches must be a Batches"):
        run_of(who, batches=list(range(12)))
    for given_ in (None, batches(who, 50)):
        assert run_of(who.worst, batches=given_).participation == who.worst


@pytest.mark.slow
def test_the_epsilon_of_a_sampled_run() -> None:
    """Below the worst case, within the budget, and never below the accountant's."""
    who = Participation.poisson(12, 0.1)
    run = PrivateRun(BUDGET, who, DPSGD(), 3, batches=batches(who, 50))
    fixed = PrivateRun(BUDGET, who.worst, DPSGD(), 3, batches=batches(who, 50))
    assert run.multiplier < fixed.multiplier / 2
    assert 4.0 * (1 - 1e-8) <= run.profile().epsilon_at(1e-5) <= 4.0
    assert 0 < run.profile().epsilon_at(1e-4) < 4.0 < run.profile().epsilon_at(1e-6)
    exact = amplified(DPSGD(), who, noise_multiplier=run.multiplier, delta=1e-6)
    assert exact.lower <= run.profile().epsilon_at(1e-6) <= exact.upper
    assert run.summary().startswith("The whole run of 12 steps is (4.0, 1e-05)-differentially private.")
    assert "by the accountant of its sampling" in run.summary()
    assert "zCDP" not in run.summary()
    cut = Participation.poisson(12, 0.1, capacity=20, examples=50)
    assert PrivateRun(BUDGET, cut, DPSGD(), 3, batches=batches(cut, 50)).multiplier > run.multiplier
    for budget in (Budget(0.5), Budget(epsilon=4.0, delta=1e-5, adjacency="replace-one")):
        with pytest.raises(ValueError, match="budget must"):
            PrivateRun(budget, who, DPSGD(), 3, batches=batches(who, 50))


@pytest.mark.slow
def test_the_default_noise_of_sampled_batches_is_covered_by_their_accountant() -> None:
    bands = []
    for who in (KINDS[0], KINDS[1], Participation.cyclic_poisson(12, period=2, rate=0.5)):
        run = PrivateRun(BUDGET, who, default_noise, 3, batches=batches(who, 50))
        noise = run.program.mechanism
        assert run.multiplier < PrivateRun(BUDGET, who.worst, noise, 3, batches=batches(who, 50)).multiplier
        bands.append(noise.bands(12))
    assert bands == [1, 3, 2]


def test_a_capacity_whose_price_exceeds_delta_is_refused() -> None:
    who = Participation.poisson(12, 0.5, capacity=26, examples=50)
    with pytest.raises(ValueError, match=r"capacity must be larger, got 26: .* and delta=1e-05"):
        PrivateRun(BUDGET, who, DPSGD(), 3, batches=batches(who, 50))


def test_epsilon_of_the_worst_case_pays_for_cut_batches() -> None:
    """δ of the Gaussian mechanism and the overflow is at most the δ that was asked for; below the overflow ε is inf."""
    who = Participation.poisson(3, 0.5, capacity=90, examples=128)
    run = PrivateRun(Budget(epsilon=1.0, delta=1e-5), who, DPSGD(), 3, batches=batches(who, 128))
    delta = 1.5 * who.overflow
    with mock.patch.object(profile, "epsilon_of", return_value=mock.Mock(upper=math.inf)):
        epsilon = run.profile().epsilon_at(delta)
        assert run.profile().epsilon_at(0.9 * who.overflow) == math.inf
    mu = math.sqrt(3) / run.multiplier
    gaussian = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert 0.99 * delta < who.overflow + (1 - who.overflow) * gaussian <= delta
    assert gaussian < 0.4 * delta  # without the overflow it would be all of δ


def test_an_empty_batch_gets_noise() -> None:
    who = Participation.poisson(40, 0.02)
    run = run_of(who, batches=batches(who, 20))
    sizes = []
    for batch in run:
        assert batch.dtype == np.int64
        noisy = run.add_noise(np.zeros(3))
        assert (noisy != 0).all()
        sizes.append(batch.size)
    assert 0 in sizes


def test_sums_are_checked_by_the_actual_batch() -> None:
    run = run_of(KINDS[0])
    batch = run.next_batch()
    for total in ([2.0 * batch.size, 0, 0], [batch.size + 1.0, 0, 0]):
        with pytest.raises(ValueError, match="total must have a norm of at most"):
            run.add_noise(np.array(total))
    with pytest.raises(ValueError, match="examples must be the"):
        run.add_noise(np.zeros(3), examples=batch.size + 1)
    run.add_noise(np.array([float(batch.size), 0, 0]))
    constant = float(
        batches(KINDS[0], 50).batch_size
    )  # a mean over the batch times the constant is too long where the batch is small
    while (batch := run.next_batch()).size >= constant:
        run.add_noise(np.zeros(3))
    with pytest.raises(ValueError, match="total must have a norm of at most"):
        run.add_noise(np.array([constant, 0.0, 0.0]))


@pytest.mark.parametrize("who", KINDS, ids=lambda who: who.label)
def test_a_run_that_goes_on_draws_the_same_batches(who: Participation, tmp_path: Path) -> None:
    """Killed after each step, with and without a clean end: one sampler, no matter how often it began."""

    def begun() -> PrivateRun:
        return run_of(who, folder=Folder(tmp_path / "run", keep_releases=False))

    seen: dict[int, list[int]] = {}
    coming: list[list[int]] = []
    for number in range(14):
        run = begun()
        assert run.batches is not None
        ahead = [run.batches.batch(step).tolist() for step in range(12)]
        coming.append(ahead)
        if run.position == 12:
            break
        batch = run.next_batch()
        assert batch.tolist() == ahead[run.position]
        assert run.position not in seen
        seen[run.position] = batch.tolist()
        run.add_noise(np.zeros(3))
        if number % 3 == 2:
            run.close()
        else:
            run.__exit__(RuntimeError)  # of the loop: no checkpoint is written
    assert sorted(seen) == list(range(12))
    assert all(each == coming[0] for each in coming)
    for changed in (batches(who, 51), batches(who.worst, 48, 12) if who.worst.period == 4 else batches(who, 49)):
        with pytest.raises(ValueError, match=r"the settings must be those|batches must be"):
            run_of(who, folder=tmp_path / "run", batches=changed)


def test_the_multiplier_of_a_folder_is_verified_and_not_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that the accountant does not verify is computed again, and refused if it is larger."""
    who = Participation.poisson(12, 0.1)

    def begun(budget: Budget = BUDGET) -> PrivateRun:
        return PrivateRun(budget, who, DPSGD(), 3, batches=batches(who, 50), folder=tmp_path / "run")

    with begun() as run:
        multiplier = run.multiplier
    search = mock.Mock(side_effect=curve.noise_multiplier_of)
    monkeypatch.setattr(curve, "noise_multiplier_of", search)
    with begun() as run:
        assert run.multiplier == multiplier
    search.assert_not_called()
    with pytest.raises(ValueError, match=r"epsilon was 4.0, is 5.0"):
        begun(Budget(epsilon=5.0, delta=1e-5))
    exact = curve.delta_of
    monkeypatch.setattr(curve, "delta_of", lambda one, epsilon, sigma: exact(one, epsilon, sigma / 2))
    with begun() as run:
        assert run.multiplier == multiplier
    search.assert_called()


def test_the_noise_and_the_batches_have_different_words() -> None:
    """The same key, step and counter for another purpose are other words."""
    secret: Callable[[bytes], bytes] = lambda purpose: draws.derived(key(1), purpose, size=32)  # noqa: E731
    found = [draws.words(secret(b"batches"), purpose, 3, 8) for purpose in (b"take", b"bin", b"keep")]
    found += [draws.words(secret(b"batches"), b"take", 4, 8), draws.words(secret(b"batches"), b"take", 3, 8, attempt=1)]
    assert len({each.tobytes() for each in found}) == len(found)
    assert np.array_equal(draws.words(secret(b"batches"), b"take", 3, 5), found[0][:5])
