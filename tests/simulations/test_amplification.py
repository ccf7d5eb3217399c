"""Monte Carlo of balls in bins: unbiased weights below their bound, coverage, and draws that certify nothing."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.amplification import (
    MonteCarlo,
    MonteCarloCertificate,
    addition_weights,
    amplified,
    interval,
    mixture_weights,
    ordered_weights,
    removal_weights,
    sampled_bound,
    sampled_delta,
)
from corrnoise.theory.amplification.bins import BinsCurve, bins_curve
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from tests.simulations.run.test_ranks import CUTS, SIZE, together
from tests.theory.amplification.bins_oracle import MANY, PAIR, PAIR_REFERENCES, REFERENCES

DIRECTIONS = ("remove", "add")
CASES = (
    [(v * np.eye(2), epsilon, *values) for v, epsilon, *values in REFERENCES]
    + [(PAIR, *values) for values in PAIR_REFERENCES]
    + [(v * np.eye(b), epsilon, *values) for v, b, epsilon, *values in MANY]
)


def samplers(gram, epsilon, direction):
    pilot = np.random.default_rng(1)
    if direction == "add":
        return [addition_weights(gram, epsilon, pilot)]
    return [mixture_weights(gram, epsilon, pilot), *(ordered_weights(gram, epsilon, order) for order in (2, 5))]


@pytest.mark.parametrize(("gram", "epsilon", "remove", "add"), CASES)
def test_weights_have_the_mean_and_stay_below_their_bound(gram, epsilon, remove, add):
    """Each of about 80 comparisons has a false alarm with probability 6e-7, at five standard errors."""
    for direction, truth in (("remove", remove), ("add", add)):
        for sample, bound in samplers(gram, epsilon, direction):
            weights = sample(np.random.default_rng(2), 20_000)
            assert 0 <= weights.min() <= weights.max() <= bound
            assert abs(weights.mean() - truth) <= 5 * weights.std() / math.sqrt(weights.size) + 1e-4 * bound


def test_wrong_weights_have_another_mean():
    """A Gram matrix that is a tenth too large is noticed."""
    gram, epsilon, truth, other = PAIR, 1.0, 0.0381722418306279, 0.0378182498178309
    sample, _ = ordered_weights(gram, epsilon, 3)
    weights = sample(np.random.default_rng(3), 20_000)
    error = 5 * weights.std() / math.sqrt(weights.size)
    assert abs(weights.mean() - truth) <= error
    assert abs(ordered_weights(gram * 1.1, epsilon, 3)[0](np.random.default_rng(3), 20_000).mean() - truth) > error
    sample, _ = addition_weights(gram, epsilon, np.random.default_rng(4))
    weights = sample(np.random.default_rng(5), 20_000)
    assert abs(weights.mean() - other) <= 5 * weights.std() / math.sqrt(weights.size)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_coverage(direction):
    """400 intervals at β = .05 miss the truth of two bins 40 times at most: false alarm below 1e-4."""
    truth = dict(zip(DIRECTIONS, (0.0592065010858927, 0.0501976623694882), strict=True))[direction]
    make = removal_weights if direction == "remove" else addition_weights
    sample, bound = make(np.eye(2), 1.0, np.random.default_rng(0))
    deviation = float(sample(np.random.default_rng(6), 2000).std())
    found = [interval(sample(np.random.default_rng((7, seed)), 500), bound, 0.05, deviation) for seed in range(400)]
    assert sum(not low <= truth <= high for low, high in found) <= 40
    assert np.mean([high - low for low, high in found]) < truth  # and they say something


def test_an_interval_is_the_edge_of_a_fixed_bet():
    """Each end solves Σ ln(1 ± λ (m − w)) = ln(2/β), with λ by the guess of the deviation and at most 0.9/B."""
    weights, bound, beta = np.random.default_rng(6).random(1000), 1.5, 0.01
    log = math.log(2 / beta)
    for deviation, bet in ((0.3, math.sqrt(2 * log / 1000) / 0.3), (1e-9, 0.9 / 1.5)):
        low, high = interval(weights, bound, beta, deviation)
        assert math.isclose(np.log1p(bet * (high - weights)).sum(), log, rel_tol=1e-6)
        assert math.isclose(np.log1p(bet * (weights - low)).sum(), log, rel_tol=1e-6)
    constant = interval(np.full(1000, 0.2), 1.0, beta, 0.0)
    assert constant[1] - 0.2 < 1.1 * log / 900  # the least that any bound can be: B ln(2/β)/n
    with pytest.raises(RuntimeError, match="weights must lie"):
        interval(np.full(10, 2.0), 1.5, beta, 0.3)


def test_the_draws_of_the_search_do_not_certify():
    with pytest.raises(ValueError, match="pilot must be another seed"):
        sampled_delta(np.eye(2), 1.0, "remove", samples=1000, pilot=3, rng=3, beta=0.01)
    low, high = sampled_delta(np.eye(2), 1.0, "remove", samples=4000, pilot=3, rng=4, beta=0.01)
    assert low <= 0.0592065010858927 <= high


def test_each_attempt_takes_fresh_draws_and_a_smaller_share(monkeypatch):
    from corrnoise.simulations import amplification

    calls = []

    def spy(gram, epsilon, direction, *, samples, pilot, rng, beta):
        calls.append((pilot, rng, beta))
        return (0.0, 1.0) if epsilon < 1.5 else (0.0, 1e-4 if len(calls) % 3 == 0 else 2e-3)

    monkeypatch.setattr(amplification, "sampled_delta", spy)
    amplification.sampled_bound(
        BinsCurve(np.eye(2), np.eye(2), True), 1.0, "remove", delta=1e-3, samples=1000, rng=1, beta=0.1
    )
    seeds = [seed for call in calls for seed in call[:2]]
    assert len(set(seeds)) == len(seeds)
    assert min(beta for *_, beta in calls) < 0.1 / 2
    assert max(beta for *_, beta in calls) <= 0.1 / 2


@pytest.mark.parametrize("seed", [1, 2])
def test_the_face(seed):
    participation = cn.Participation.balls_in_bins(2, period=2)
    found = cn.privacy.amplified(
        DPSGD(), participation, noise_multiplier=1.0, epsilon=1.0, samples=4000, rng=seed, beta=1e-3
    )
    assert found.quantity == "delta"
    assert found.kind == "confidence 1 - 0.001"
    assert found.remove.lower <= 0.0592065010858927 <= found.remove.upper
    assert found.add.lower <= 0.0501976623694882 <= found.add.upper
    again = amplified(DPSGD(), participation, noise_multiplier=1.0, epsilon=1.0, samples=4000, rng=seed, beta=1e-3)
    assert again == found
    certified = cn.privacy.amplified(DPSGD(), participation, noise_multiplier=1.0, epsilon=1.0)
    assert certified.kind == "certified"
    assert certified.upper <= found.upper


@pytest.mark.slow
def test_an_interval_of_epsilon():
    curve = bins_curve(DPSGD(), 16, 16)
    found = sampled_bound(curve, 1.0, "remove", delta=1e-3, samples=4000, rng=1, beta=1e-3)
    assert curve.delta(found.upper, 1.0, "remove").upper <= 1.01e-3
    assert curve.delta(found.lower, 1.0, "remove").lower >= 0.99e-3
    assert found.upper < 1.2 * found.lower


def test_bad_arguments_are_named():
    bins = cn.Participation.balls_in_bins(4, period=2)
    arguments = {"noise_multiplier": 1.0, "epsilon": 1.0, "samples": 2000}
    with pytest.raises(ValueError, match="samples must be None except for balls in bins"):
        amplified(DPSGD(), cn.Participation.poisson(4, 0.5), **arguments)
    with pytest.raises(ValueError, match="beta must lie in"):
        amplified(DPSGD(), bins, **arguments, beta=0.0)
    with pytest.raises(ValueError, match="samples must be an integer >= 1000"):
        amplified(DPSGD(), bins, **{**arguments, "samples": 10})
    with pytest.raises(ValueError, match="delta or epsilon must be given"):
        amplified(DPSGD(), bins, **arguments, delta=1e-5)


@pytest.mark.slow
def test_correlated_noise_within_the_certified_bracket():
    curve = bins_curve(NuFTRL(1 / 16), 64, 16)
    for direction in DIRECTIONS:
        certified = curve.delta(1.0, 2.5, direction)
        found = sampled_bound(curve, 2.5, direction, epsilon=1.0, samples=24_000, rng=3, beta=1e-6)
        assert found.lower <= certified.upper
        assert certified.lower <= found.upper < certified.upper


# -- the accountant ----------------------------------------------------------------------------------------------------

TWO_BINS = cn.Participation.balls_in_bins(2, period=2)
BUDGET = cn.Budget(epsilon=1.0, delta=1e-2)
QUICK = MonteCarlo(samples=2000, failure=1e-3)


def exact_multiplier(delta: float) -> float:
    return DPSGD().program(TWO_BINS).multiplier(cn.Budget(epsilon=1.0, delta=delta))


@pytest.mark.slow
def test_the_multiplier_of_the_accountant_covers_delta_less_its_failure():
    """Of two bins, whose bracket is narrow: three certificates cover, with a false alarm below 3e-12."""
    program = DPSGD().program(TWO_BINS)
    sure = MonteCarlo(samples=4000, failure=1e-12)
    least = exact_multiplier(1e-2 - 1e-12)
    found = [sure.multiplier(program, BUDGET) for _ in range(3)]
    assert min(found) >= least * (1 - 1e-9)
    assert max(found) < 1.15 * least
    assert program.multiplier(BUDGET, accountant=QUICK) > exact_multiplier(1.2e-2)


@pytest.mark.slow
def test_a_failure_is_a_part_of_delta():
    program = DPSGD().program(TWO_BINS)
    found = QUICK.certificate(program, BUDGET)
    assert found.delta <= 1e-2 - 1e-3
    cut = cn.Participation.balls_in_bins(2, period=2, capacity=30, examples=40)
    assert 0 < cut.overflow < 5e-3
    inner = QUICK.certificate(DPSGD().program(cut), BUDGET)
    assert (1 - cut.overflow) * inner.delta + cut.overflow + 1e-3 <= 1e-2
    with pytest.raises(ValueError, match="failure must be below"):
        MonteCarlo(failure=0.1).multiplier(program, BUDGET)


def test_a_certificate_is_checked_by_its_own_draws():
    program = DPSGD().program(TWO_BINS)
    found = QUICK.certificate(program, BUDGET)
    assert found.delta <= 1e-2 - 1e-3  # β is a part of δ
    assert QUICK.verified(program, BUDGET, found.arguments()) == found
    assert QUICK.certificate(program, BUDGET).seed != found.seed
    for change, word in (
        ({"noise_multiplier": found.noise_multiplier * 0.8}, "verified by its draws"),
        ({"failure": 1e-2}, "certificate must be for"),
        ({"delta": 2e-2}, "certificate must be for"),
        ({"epsilon": 2.0}, "certificate must be for"),
    ):
        with pytest.raises(ValueError, match=word):
            QUICK.verified(program, BUDGET, {**found.arguments(), **change})


def test_all_attempts_together_fail_as_rarely_as_stated(monkeypatch):
    """Each attempt has new draws, counts the earlier ones, and fails with probability β/2^k in both directions."""
    from corrnoise.simulations import amplification

    tried, shares = [], []

    def refused_twice(self, curve):
        tried.append(self)
        return len(tried) == 3

    def spy(weights, largest, beta, deviation):
        if weights.size == 1000:
            shares.append(beta / 2)  # of the upper end
        return interval(weights, largest, beta, deviation)

    monkeypatch.setattr(MonteCarloCertificate, "holds", refused_twice)
    found = QUICK.certificate(DPSGD().program(TWO_BINS), BUDGET)
    assert [each.attempt for each in tried] == [1, 2, 3]
    assert found == tried[-1]
    assert len({each.seed for each in tried}) == 3
    assert tried[0].noise_multiplier < tried[1].noise_multiplier < tried[2].noise_multiplier
    monkeypatch.setattr(amplification, "interval", spy)
    curve = BinsCurve(np.eye(2), np.eye(2), True)
    for attempt in range(1, 12):
        for direction in DIRECTIONS:
            MonteCarloCertificate(2.0, 1.0, 1e-2, 1000, 1e-3, seed=5, attempt=attempt).upper(curve, direction)
    assert 0.9e-3 < sum(shares) <= 1e-3


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_draws_of_the_pilot_certify_nothing(direction, monkeypatch):
    """The weights that count come from another stream than the choice of the sampler and of the bet."""
    from corrnoise.simulations import amplification

    choosing, drawing = set(), []

    def spied(make):
        def chosen(gram, epsilon, pilot):
            choosing.add(pilot.bit_generator.seed_seq.spawn_key)
            sample, largest = make(gram, epsilon, pilot)

            def drawn(rng, size):
                drawing.append((size, rng.bit_generator.seed_seq.spawn_key))
                return sample(rng, size)

            return drawn, largest

        return chosen

    for name, make in (("removal_weights", removal_weights), ("addition_weights", addition_weights)):
        monkeypatch.setattr(amplification, name, spied(make))
    curve = BinsCurve(np.eye(2), np.eye(2), True)
    MonteCarloCertificate(2.0, 1.0, 1e-2, 4321, 1e-3, seed=5, attempt=1).upper(curve, direction)
    certifying = {key for size, key in drawing if size == 4321}
    assert len(certifying) == len(choosing) == 1
    assert not certifying & choosing
    assert {key for size, key in drawing if size != 4321} == choosing


@pytest.mark.parametrize(
    ("who", "word"),
    [
        (cn.Participation.poisson(4, 0.5), "balls in bins"),
        (cn.Participation.fixed_epochs(4, epochs=2), "not sampled"),
    ],
)
def test_other_batches_have_no_such_accountant(who, word):
    with pytest.raises(ValueError, match=word):
        DPSGD().program(who).multiplier(BUDGET, accountant=QUICK)


def test_a_run_keeps_its_evidence(tmp_path):
    def opened(accountant):
        order = cn.batches(TWO_BINS, 20)
        where = cn.Folder(tmp_path / "run", marks=tmp_path / "marks")
        return cn.PrivateRun(BUDGET, TWO_BINS, DPSGD(), 3, batches=order, folder=where, accountant=accountant)

    with opened(QUICK) as run:
        assert run.multiplier < exact_multiplier(1e-2) * 1.3
        assert run.report()["accountant"] == {"kind": "MonteCarlo", "samples": 2000, "failure": 1e-3}
        assert "failure of 0.001" in str(run)
        assert run.profile().delta_at(1.0) <= 1e-2
        certificate = json.loads((tmp_path / "run" / "settings.json").read_text())["certificate"]
    with opened(QUICK) as again:
        assert again.multiplier == run.multiplier
        assert json.loads((tmp_path / "run" / "settings.json").read_text())["certificate"] == certificate
    for other in (None, MonteCarlo(samples=2000, failure=1e-4)):
        with pytest.raises(ValueError, match="accountant was"):
            opened(other)
    path = tmp_path / "run" / "settings.json"
    settings = json.loads(path.read_text())
    settings["certificate"]["noise_multiplier"] *= 0.8
    settings["multiplier"] *= 0.8
    path.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="verified by its draws"):
        opened(QUICK)


def test_processes_share_a_random_multiplier():
    """Each process would find another one; a mutant without the sharing has two."""

    def job(ranks):
        return cn.PrivateRun(
            BUDGET, TWO_BINS, DPSGD(), SIZE, batches=cn.batches(TWO_BINS, 20), ranks=ranks, accountant=QUICK
        ).multiplier

    first, second = together(job, CUTS[2])
    assert first == second
    assert len({QUICK.multiplier(DPSGD().program(TWO_BINS), BUDGET) for _ in range(3)}) > 1


@pytest.mark.slow
def test_another_process_opens_the_folder_with_the_same_multiplier(tmp_path):
    """Two processes are started for one new folder: one begins it, and both have its multiplier."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, time, corrnoise as cn\n"
        "who = cn.Participation.balls_in_bins(2, period=2)\n"
        "for attempt in range(600):\n"
        "    try:\n"
        "        with cn.PrivateRun(cn.Budget(epsilon=1.0, delta=1e-2), who, cn.mechanisms.DPSGD(), 3,\n"
        "                           batches=cn.batches(who, 20), accountant=cn.privacy.MonteCarlo(2000, 1e-3),\n"
        "                           folder=cn.Folder(sys.argv[1], marks=sys.argv[2])) as run:\n"
        "            print(repr(run.multiplier))\n"
        "        break\n"
        "    except (BlockingIOError, RuntimeError) as error:\n"
        "        if isinstance(error, RuntimeError) and 'start again to resume it' not in str(error):\n"
        "            raise\n"
        "        time.sleep(0.1)\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "run"), str(tmp_path / "marks")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert said[0] == said[1] != ""


@pytest.mark.slow
def test_correlated_noise_needs_less_noise_than_the_certified_bound():
    program = NuFTRL(1 / 16).program(cn.Participation.balls_in_bins(64, period=16), form="transform")
    budget = cn.Budget(epsilon=2.0, delta=1e-5)
    certified = program.multiplier(budget)
    found = program.multiplier(budget, accountant=MonteCarlo(samples=20_000))
    assert 0.7 * certified < found <= certified
