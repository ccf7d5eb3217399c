"""Mechanisms of finite runs: their views agree, known errors, and sensitivities against the worst case."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.solvers.worst_case import worst_case
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise, causal_strategy
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.participation import ANY_LENGTH, Participation
from tests.strategies import mechanisms, participations, workloads


@given(mechanisms(), st.integers(0, 2**32 - 1))
def test_the_views_of_a_mechanism_agree(run, seed):
    """N C = 1; a run makes N z; column norms and bands are those of C."""
    n = run.steps or 7
    noising, strategy = run.noising_matrix(n), run.strategy(n)
    assert noising.shape == strategy.shape == (n, n)
    size = np.abs(noising) @ np.abs(strategy)
    np.testing.assert_allclose(noising @ strategy, np.eye(n), atol=1e-12 * size.max())
    draws = np.random.default_rng(seed).normal(size=(n, 2, 3))
    np.testing.assert_allclose(run.noising(draws), np.tensordot(noising, draws, 1), atol=1e-11 * np.abs(noising).sum())
    np.testing.assert_allclose(run.column_norms(n), np.linalg.norm(strategy, axis=0), rtol=1e-12)
    assert not np.triu(strategy, 1).any()
    assert not np.tril(strategy, -run.bands(n)).any()
    if run.steps is not None:
        np.testing.assert_array_equal(strategy, run.strategy())
        assert run.memory() == run.memory(n)


@given(st.data())
def test_errors_of_a_workload(data):
    work = data.draw(workloads())
    run = data.draw(mechanisms(work.steps))
    noising = run.noising_matrix(work.steps)
    exact = np.square(work.matrix() @ noising).sum(axis=1)
    tolerance = 1e-11 * (np.abs(work.matrix()) @ np.abs(noising)).sum() ** 2
    np.testing.assert_allclose(run.errors(work), exact, rtol=1e-9, atol=tolerance)
    who = Participation.single(work.steps)
    gamma = run.sensitivity_upper_bound(who)
    assert run.mean_error(who, work) == pytest.approx(gamma * np.sqrt(run.errors(work).mean()), rel=1e-14)
    assert run.max_error(who, work) == pytest.approx(gamma * np.sqrt(run.errors(work).max()), rel=1e-14)


@given(participations(), st.data())
def test_no_mechanism_understates_its_sensitivity(who, data):
    run = data.draw(mechanisms(who.steps))
    truth = worst_case(run.strategy(who.steps), who)
    found = run.bracket(who)
    assert found.lower <= truth.upper * (1 + 1e-12)
    assert truth.value <= found.upper * (1 + 1e-12 * (run.strategy_error(who.steps) > 0))
    if found.exact:
        assert run.sensitivity(who) == pytest.approx(truth.value, rel=2e-9)
    else:
        with pytest.raises(ValueError, match="is only known to lie in"):
            run.sensitivity(who)


@given(participations(most=7), participations(most=7), st.data())
def test_sensitivities_are_ordered_as_promises_are(given_, promised, data):
    """For promises on the same steps; the order itself is tested with ``Participation``."""
    promised = type(promised)(given_.steps, period=promised.period)
    run = data.draw(mechanisms(given_.steps))
    if given_.covered_by(promised):
        assert run.bracket(given_).lower <= run.sensitivity_upper_bound(promised) * (1 + 1e-12)


SINGLE = {  # name: run, mean error at n = 64 and 256, largest error at the same
    "independent": (lambda n: DPSGD(), (5.700877125, 11.335784049), (8.0, 16.0)),
    "square root": (
        lambda n: NuFTRL(0.0),
        (2.229676472, 2.668782331),
        (2.388848108, 2.831049932),
    ),
    "normalised square root": (
        lambda n: ScaledNoise.normalised(NuFTRL(0.0), Participation.single(n)),
        (2.127701744, 2.557264512),
        (2.211768943, 2.644960742),
    ),
    "tree": (lambda n: BinaryTree(n, decoder="binary"), (4.594493987, 6.002928973), None),
    "online Honaker": (BinaryTree, (3.406935703, 4.323094147), None),
    "full Honaker": (MatrixNoise.honaker, (2.517806089, 3.102237272), None),
    "Fourier": (MatrixNoise.fourier, (2.200363551, 2.655408471), None),
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
        assert run.mean_error(Participation.single(n)) == pytest.approx(means[place], abs=1e-9)
        if largest is not None:
            assert run.max_error(Participation.single(n)) == pytest.approx(largest[place], abs=6e-10)
        if name in FOUR_EPOCHS:
            assert run.mean_error(Participation.fixed_epochs(n, epochs=4)) == pytest.approx(
                FOUR_EPOCHS[name][place], abs=6e-10
            )
        # No mechanism is better than the optimum over all strategies; one that seems so has too small a sensitivity.
        assert run.mean_error(Participation.single(n)) > (2.099856472, 2.524414416)[place]
        assert run.mean_error(Participation.fixed_epochs(n, epochs=4)) > (4.407853385, 5.211944649)[place]


def test_the_fourier_mechanism_with_its_own_decoder():
    """Its sensitivity squared, and its error, is X_00 = [n + Σ_{j odd < 2n} 1/sin(πj/2n)]/(2n)."""
    n = 64
    odd = np.arange(1, 2 * n, 2)
    known = (n + (1 / np.sin(np.pi * odd / (2 * n))).sum()) / (2 * n)
    assert MatrixNoise.fourier(n).sensitivity(Participation.single(n)) ** 2 == pytest.approx(known, rel=1e-12)
    assert known == pytest.approx(2.305080340, abs=6e-10)


def test_cost():
    assert DPSGD().memory() == 0
    assert AntiPGD(0.1).memory() == 1
    assert NuFTRL(0.1).memory(9) == MatrixNoise(np.tril(np.ones((9, 9)))).memory() == 8
    assert PoleNoise([0.1], [0.2, 0.3]).memory() == 2
    assert FiniteNoise([1, 0.5, 0.1]).memory(9) == 2
    assert FiniteNoise([1, 0.5, 0.1]).memory(2) == 1
    assert BandedNoise(np.ones((1, 9))).memory() == 0
    assert BinaryTree(9).memory() == 4
    assert NuFTRL(0.1).anytime
    assert not NuFTRL(0.0).anytime
    assert not BinaryTree(9).anytime


def test_long_runs():
    """No matrix is formed where none is needed; above 4096 steps the norms of columns bound the sensitivity."""
    n = 100_000
    run = NuFTRL(1e-3)
    who = Participation.min_sep(n, n // 4, 4)
    assert run.mean_error(who) > run.sensitivity(who)
    scaled = ScaledNoise.normalised(PoleNoise([], [0.5]), Participation.single(n))
    assert scaled.sensitivity(who) == pytest.approx(2, rel=1e-12)
    loose = ScaledNoise.normalised(NuFTRL(1e-3), Participation.single(n)).bracket(who)
    assert not loose.exact
    assert (loose.value, loose.upper) == (pytest.approx(2), pytest.approx(4))


def test_the_first_steps_are_a_mechanism_of_their_own():
    rng = np.random.default_rng(1)
    rows = np.array([[4.0] * 7, [0.5, 1, 2, 3, 2, 1, 0], [1, 2, 3, 2, 1, 0, 0]])
    matrix = np.tril(rng.standard_normal((7, 7))) + 3 * np.eye(7)
    scales = np.linspace(1, 2, 7)
    varying = TimeVaryingBuffers([0.5, 0.9], rng.uniform(0, 1, (7, 2)), rng.uniform(0, 1, (7, 2)), scales)
    noises = (
        BandedNoise(rows),
        MatrixNoise(matrix),
        ScaledNoise(NuFTRL(0.1), scales, scales[::-1]),
        BinaryTree(7),
        BinaryTree(7, decoder="binary", decay=0.1),
        varying,
    )
    for noise in noises:
        for n in (1, 2, 5):
            first = noise.leading(n)
            np.testing.assert_allclose(first.strategy(), noise.strategy()[:n, :n], rtol=1e-12, atol=1e-15)
            assert type(first) is type(noise)
        assert noise.leading(7) == noise
        with pytest.raises(ValueError, match=r"n must be in \[1, 7\], the steps of the mechanism, got 8"):
            noise.leading(8)
    assert NuFTRL(0.1).leading(8) == NuFTRL(0.1)
    with pytest.raises(ValueError, match="n must be an integer >= 1, got 0"):
        NuFTRL(0.1).leading(0)


@pytest.mark.parametrize(
    "noise",
    [AntiPGD(0.0), DPSGD(), PoleNoise([0.0], [0.3]), PoleNoise([0.1], [0.5]), FiniteNoise([1.0, -0.5, -0.2])],
)
def test_scaled_draws_take_no_matrix(noise):
    """Column norms and errors of prefix sums by convolutions, whose first factor may end with a constant."""
    draws = np.random.default_rng(2).uniform(0.5, 2.0, 50)
    scaled = ScaledNoise(noise, draw_scales=draws)
    norms = np.linalg.norm(np.linalg.inv(scaled.noising_matrix()), axis=0)
    np.testing.assert_allclose(scaled.column_norms(), norms, rtol=1e-12)
    sums = np.square(np.cumsum(scaled.noising_matrix(), axis=0)).sum(axis=1)
    np.testing.assert_allclose(scaled.errors(PrefixSums(50)), sums, rtol=1e-12)


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
        (lambda: MatrixNoise(np.eye(4)).noising(np.ones(5)), r"draws must have shape \(4, …\), got \(5,\)"),
        (lambda: MatrixNoise(np.eye(4)).sensitivity(Participation.single(5)), "participation must have steps=4"),
        (lambda: MatrixNoise(np.eye(4)).sensitivity(ANY_LENGTH), "participation must have steps=4"),
        (lambda: MatrixNoise(np.eye(4)).errors(PrefixSums(5)), "number of steps must be 4 as the mechanism has, got 5"),
        (lambda: MatrixNoise(np.eye(4)).strategy(5), "number of steps must be 4 as the mechanism has, got 5"),
        (
            lambda: MatrixNoise(np.eye(4)).mean_error(Participation.single(4), PrefixSums(5)),
            "workload must have steps=4",
        ),
        (lambda: NuFTRL(0.1).strategy(), "number of steps must be given for NuFTRL, got None"),
        (lambda: NuFTRL(0.1).mean_error(ANY_LENGTH), "participation must have a number of steps"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
