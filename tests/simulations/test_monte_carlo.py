"""The Monte Carlo accountant: covered multipliers, evidence, attempts and mutants."""

import json
import subprocess
import sys

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.amplification import addition_weights, interval, removal_weights
from corrnoise.simulations.monte_carlo import MonteCarlo, MonteCarloCertificate
from corrnoise.theory.amplification.bins import BinsCurve
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from tests.simulations.run.test_ranks import CUTS, SIZE, together

DIRECTIONS = ("remove", "add")
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
    from corrnoise.simulations import monte_carlo

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
        monkeypatch.setattr(monte_carlo, name, spied(make))
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
