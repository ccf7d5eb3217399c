"""Mechanisms of finite runs: their views agree, known errors, and sensitivities against the worst case."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.solvers.worst_case import worst_case
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import (
    BandedNoise,
    MatrixNoise,
    ScaledNoise,
    causal_strategy,
    column_normalised,
)
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree, fourier_mechanism, full_honaker
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import MomentumSGD, PrefixSums
from tests.strategies import mechanisms, participations, workloads


@given(mechanisms(), st.integers(0, 2**32 - 1))
def test_the_views_of_a_mechanism_agree(run, seed):
    """N C = 1; a stream makes N z; column norms and bands are those of C."""
    noising, strategy = run.noising_matrix(), run.strategy()
    assert noising.shape == (run.steps, run.draws) == strategy.shape[::-1]
    size = np.abs(noising) @ np.abs(strategy)
    np.testing.assert_allclose(noising @ strategy, np.eye(run.steps), atol=1e-12 * size.max())
    draws = np.random.default_rng(seed).normal(size=(run.draws, 2, 3))
    made = run.correlate(draws)
    np.testing.assert_allclose(made, np.tensordot(noising, draws, 1), atol=1e-11 * np.abs(noising).sum())
    np.testing.assert_allclose(run.column_norms(), np.linalg.norm(strategy, axis=0), rtol=1e-12)
    if run.draws == run.steps:
        assert not np.triu(strategy, 1).any()
        assert not np.tril(strategy, -run.bands).any()


@given(st.data())
def test_errors_of_a_workload(data):
    work = data.draw(workloads())
    run = data.draw(mechanisms(work.steps))
    product = work.matrix() @ run.noising_matrix()
    exact = (product**2).sum(axis=1)
    tolerance = 1e-11 * (np.abs(work.matrix()) @ np.abs(run.noising_matrix())).sum() ** 2
    np.testing.assert_allclose(run.errors(work), exact, rtol=1e-9, atol=tolerance)
    who = Participation(run.steps)
    gamma = run.sensitivity_upper_bound(who)
    assert run.mean_error(who, work) == pytest.approx(gamma * np.sqrt(run.errors(work).mean()), rel=1e-14)
    assert run.max_error(who, work) == pytest.approx(gamma * np.sqrt(run.errors(work).max()), rel=1e-14)


@settings(max_examples=80)
@given(participations(), st.data())
def test_no_mechanism_understates_its_sensitivity(who, data):
    run = data.draw(mechanisms(who.steps))
    truth = worst_case(run.strategy(), who)
    found = run.bracket(who)
    assert found.lower <= truth.upper * (1 + 1e-12)
    assert truth.value <= found.upper * (1 + 1e-12 * (run.strategy_error > 0))
    if found.exact:
        assert run.sensitivity(who) == pytest.approx(truth.value, rel=1e-9)
    else:
        with pytest.raises(ValueError, match="is only known to lie in"):
            run.sensitivity(who)
    assert run.noise_multiplier(0.5, who) >= run.sensitivity_upper_bound(who)
    assert run.noise_multiplier(0.5, who, adjacency="replace-one") == pytest.approx(2 * run.noise_multiplier(0.5, who))


SINGLE = {  # name: run, mean error at n = 64 and 256, largest error at the same
    "independent": (lambda n: DPSGD(), (5.700877125, 11.335784049), (8.0, 16.0)),
    "square root": (
        lambda n: NuFTRL(0.0),
        (2.229676472, 2.668782331),
        (2.388848108, 2.831049932),
    ),
    "normalised square root": (
        lambda n: column_normalised(NuFTRL(0.0), n),
        (2.127701744, 2.557264512),
        (2.211768943, 2.644960742),
    ),
    "tree": (BinaryTree, (4.594493987, 6.002928973), None),
    "online Honaker": (lambda n: BinaryTree(n, decoder="online"), (3.652307147, 4.650147964), None),
    "full Honaker": (full_honaker, (2.517806089, 3.102237272), None),
    "Fourier": (fourier_mechanism, (2.200363551, 2.655408471), None),
}
FOUR_EPOCHS = {
    "independent": (11.401754251, 22.671568098),
    "square root": (5.713612570, 6.631610896),
    "normalised square root": (5.676693127, 6.571780489),
    "full Honaker": (6.312473933, 7.456850368),
    "Fourier": (5.858798144, 6.818420938),
}


@pytest.mark.parametrize("name", SINGLE)
def test_known_errors(name):
    """Prefix sums; the values come from two independent programs."""
    made, means, largest = SINGLE[name]
    for place, n in enumerate((64, 256)):
        run = made(n)
        assert run.mean_error(Participation(n)) == pytest.approx(means[place], abs=1e-9)
        if largest is not None:
            assert run.max_error(Participation(n)) == pytest.approx(largest[place], abs=6e-10)
        if name in FOUR_EPOCHS:
            assert run.mean_error(Participation.fixed_epochs(n, epochs=4)) == pytest.approx(FOUR_EPOCHS[name][place], abs=6e-10)
        # No mechanism is better than the optimum over all strategies; one that seems so has too small a sensitivity.
        assert run.mean_error(Participation(n)) > (2.099856472, 2.524414416)[place]
        assert run.mean_error(Participation.fixed_epochs(n, epochs=4)) > (4.407853385, 5.211944649)[place]


def test_the_fourier_mechanism_with_its_own_decoder():
    """Its sensitivity squared, and its error, is X_00 = [n + Σ_{j odd < 2n} 1/sin(πj/2n)]/(2n)."""
    n = 64
    odd = np.arange(1, 2 * n, 2)
    known = (n + (1 / np.sin(np.pi * odd / (2 * n))).sum()) / (2 * n)
    assert MatrixNoise.fourier(n).sensitivity(Participation(n)) ** 2 == pytest.approx(known, rel=1e-12)
    assert known == pytest.approx(2.305080340, abs=6e-10)


def test_trees():
    assert BinaryTree(64).sensitivity(Participation(64)) ** 2 == pytest.approx(7, rel=1e-14)
    assert BinaryTree(64).draws == BinaryTree(64).strategy().shape[0] == 127
    digits = [bin(t + 1).count("1") for t in range(11)]
    np.testing.assert_allclose(BinaryTree(11).errors(), digits, rtol=1e-14)
    assert np.all(BinaryTree(11, decoder="online").errors() <= BinaryTree(11).errors() * (1 + 1e-14))


@pytest.mark.parametrize(("steps", "min_sep", "rho"), [(4, 2, 4.0), (5, 2, 4.5), (7, 2, 5.5), (7, 3, 4.5)])
def test_trees_under_participation(steps, min_sep, rho):
    """The zCDP budgets at unit noise that the accountant of federated-compute has for trees without restarts."""
    who = Participation.min_sep(steps, min_sep)
    assert BinaryTree(steps).sensitivity(who) ** 2 / 2 == pytest.approx(rho, rel=1e-14)


def test_schedules_and_momentum_at_64_steps():
    run, who = NuFTRL(0.0), Participation(64)
    cooled = MomentumSGD(64, momentum=0.0, learning_rates=np.minimum(1, np.arange(64, 0, -1) / 16))
    assert run.mean_error(who, MomentumSGD(64, momentum=0.9)) == pytest.approx(13.62787316, abs=6e-9)
    assert run.mean_error(who, cooled) == pytest.approx(2.14360406, abs=6e-9)
    decayed = MomentumSGD(64, momentum=0.9, weight_decay=0.01)
    assert run.mean_error(who, decayed) == pytest.approx(11.58070816, abs=6e-9)


def test_normalised_columns_and_epoch_weights():
    """Unit columns; with at most b bands, the squared norms of an example's columns add up to 1."""
    n, b = 24, 6
    banded = FiniteNoise([1.0, 0.4, 0.1])
    inverse = BandedNoise(np.array([np.ones(n), [0.3] * (n - 1) + [0]]))
    np.testing.assert_allclose(np.linalg.norm(column_normalised(banded, n).strategy(), axis=0), 1, rtol=1e-14)
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    weighted = column_normalised(PoleNoise([], [0.7]), n, min_sep=b, epoch_weights=weights)
    assert weighted.bands == 2
    for who in (Participation.min_sep(n, b, 4), Participation.fixed_epochs(n, epochs=4)):
        assert weighted.sensitivity(who) == pytest.approx(1, rel=1e-14)
        assert inverse.sensitivity(who) == worst_case(inverse.strategy(), who).value
    with pytest.raises(ValueError, match="epoch_weights must have the sum 1"):
        column_normalised(banded, n, min_sep=b, epoch_weights=weights * 1.1)
    with pytest.raises(ValueError, match="min_sep must be given"):
        column_normalised(banded, n, epoch_weights=weights)


def test_cost():
    assert DPSGD().memory == 0
    assert AntiPGD(0.1).memory == 1
    assert NuFTRL(0.1).memory == MatrixNoise(np.tril(np.ones((9, 9)))).memory == 8
    assert PoleNoise([0.1], [0.2, 0.3]).memory == 2
    assert FiniteNoise([1, 0.5, 0.1]).memory == 2
    assert BandedNoise(np.ones((1, 9))).memory == 0
    assert BinaryTree(9).memory == 4
    assert NuFTRL(0.1).anytime
    assert not NuFTRL(0.0).anytime
    assert not BinaryTree(9).anytime


def test_long_runs():
    """No matrix is formed where none is needed; above 4096 steps the norms of columns bound the sensitivity."""
    n = 100_000
    run = NuFTRL(1e-3)
    who = Participation.min_sep(n, n // 4, 4)
    assert run.mean_error(who) > run.sensitivity(who)
    scaled = column_normalised(PoleNoise([], [0.5]), n)
    assert scaled.sensitivity(who) == pytest.approx(2, rel=1e-12)
    loose = column_normalised(NuFTRL(1e-3), n).bracket(who)
    assert not loose.exact
    assert (loose.value, loose.upper) == (pytest.approx(2), pytest.approx(4))


def test_causal_strategy():
    root = np.random.default_rng(3).normal(size=(9, 6))
    causal = causal_strategy(root.T @ root)
    np.testing.assert_allclose(causal.T @ causal, root.T @ root, atol=1e-12)
    assert not np.triu(causal, 1).any()
    assert (np.diag(causal) > 0).all()
    with pytest.raises(ValueError, match="gram must be positive definite"):
        causal_strategy(-np.eye(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MatrixNoise([[1.0, 1.0], [0.0, 1.0]]), "strategy must be lower-triangular"),
        (
            lambda: MatrixNoise([[1.0, 0.0], [1.0, 0.0]]),
            "strategy must not have a 0 on its diagonal, .* step 1",
        ),
        (lambda: MatrixNoise([[1.0, np.nan], [0.0, 1.0]]), "strategy must lie in"),
        (lambda: MatrixNoise([1.0]), "strategy must be a square matrix"),
        (lambda: BandedNoise([[1.0, 1.0], [1.0, 1.0]]), r"diagonals\[1\] must end with 1 zeros"),
        (lambda: BandedNoise([[1.0, 0.0]]), r"diagonals\[0\] must not hold a 0, got one at step 1"),
        (lambda: BandedNoise([[1.0], [0.0]]), "diagonals must have shape"),
        (lambda: ScaledNoise(DPSGD(), [1.0, 0.0]), "scales must lie in"),
        (lambda: BinaryTree(4, decoder="full"), "decoder must be one of"),  # type: ignore[arg-type]
        (lambda: BinaryTree(4).correlate(np.ones(4)), r"draws must have shape \(7, …\), got \(4,\)"),
        (lambda: BinaryTree(4).sensitivity(Participation(5)), "participation must have steps=4"),
        (lambda: BinaryTree(4).errors(PrefixSums(5)), "workload must have steps=4"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
