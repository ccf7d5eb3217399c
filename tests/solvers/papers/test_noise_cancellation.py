"""The least noise of a machine: certified, below every other noise, and above its bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.optimise import optimise
from corrnoise.solvers.papers.noise_cancellation import best_share
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise, regret_workload
from corrnoise.theory.participation import Participation
from tests.strategies import machine_noises

JUDGED = (PrefixSums, regret_workload)


@given(machine_noises(), st.integers(1, 12), st.sampled_from(JUDGED))
def test_no_noise_is_below_the_lower_bound(noise, n, judged):
    once = Participation.single(n)
    floor = optimise(judged(n), once, family="dense").lower_bound
    assert floor <= noise.leading(n).mean_error(once, judged(n)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("judged", "n", "value"),
    [
        (PrefixSums, 10, 2.42158),
        (regret_workload, 10, 127.597),
        (PrefixSums, 100, 4.99744),
        (regret_workload, 100, 10746.83),
    ],
)
def test_the_optimum_is_certified(judged, n, value):
    """The mean variance of the prefix noise, and the regret energy."""
    once = Participation.single(n)
    rows = 1 if judged is PrefixSums else n + 1
    found = optimise(judged(n), once, family="dense")
    assert found.rigorous
    assert found.lower_bound <= found.error <= found.lower_bound * (1 + 1e-5)
    assert not found.error <= found.lower_bound * (1 - 1e-9)
    assert rows * found.error**2 == pytest.approx(value, rel=3e-5)
    np.testing.assert_allclose(found.mechanism.column_norms(n), 1, rtol=5e-3)
    one_vector = best_share(once, regret_workload(n)).mean_error(once, judged(n))
    assert found.error < one_vector < cancelling_noise(n).mean_error(once, judged(n))


@pytest.mark.parametrize(("n", "one", "two"), [(10, 138.18, 138.18), (100, 11882.0, 11819.4)])
def test_one_or_two_vectors_are_near_the_optimum(n, one, two):
    once = Participation.single(n)
    regret = regret_workload(n)
    buffered = [best_buffers(regret, once, count) for count in (1, 2)]
    found = [(n + 1) * noise.mean_error(once, regret) ** 2 for noise in buffered]
    assert found == pytest.approx([one, two], rel=1e-4)
    share = (n + 1) * best_share(once, regret).mean_error(once, regret) ** 2
    least = (n + 1) * optimise(regret, once, family="dense").lower_bound ** 2
    assert least < found[1] <= found[0] * (1 + 1e-6) < share


@pytest.mark.parametrize(
    ("passes", "share", "variance"), [((34, 1), 0.143918, 5.793812), ((13, 4), 0.084830, 42.748559)]
)
def test_the_best_share_of_batches_and_passes(passes, share, variance):
    length, epochs = passes
    who = Participation.fixed_epochs(length * epochs, epochs=epochs)
    best = best_share(who)
    assert float(best.poles[0]) == pytest.approx(share, rel=1e-4)
    assert best.mean_error(who) ** 2 == pytest.approx(variance, rel=1e-6)
    for other in (0.9 * share, 1.1 * share):
        assert PoleNoise([0.0], [other]).mean_error(who) > best.mean_error(who)


def test_nothing_is_taken_back_where_every_message_may_move():
    """Theorem 4 of federated clients: cancellation is the wrong noise at client level."""
    assert best_share(Participation.min_sep(10, 1)) == DPSGD()
