"""One contract for all mechanisms, and the claimed multiplier against the sensitivity of the map that really runs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import ENGINES, engine, step_scale, streaming
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.stream import Stream
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Values = NDArray[np.float64]

N = 24
GROWING = np.linspace(1.0, 3.0, N)
FALLING = np.linspace(2.0, 0.5, N)
BANDS = [[1.0] * N, [-0.5] * (N - 1) + [0.0], [0.3] * (N - 2) + [0.0] * 2]
FULL = np.tril(np.random.default_rng(5).uniform(-0.3, 1.0, (N, N)), -1) / 6 + np.eye(N)
CASES: dict[str, Mechanism] = {
    "independent": DPSGD(),
    "anti-PGD": AntiPGD(0.1),
    "ν-DP-FTRL": NuFTRL(0.01),
    "poles": PoleNoise([0.01, 0.3], [0.1, 0.6]),
    "buffers": BufferNoise([0.9, 0.3], [0.2, 0.1]),
    "finite": FiniteNoise([1.0, -0.5, -0.1]),
    "banded strategy": BandedStrategyNoise([1.0, 0.5, 0.25]),
    "stand-in of a spectrum": rational(CepstralNoise([-0.4, -0.1]), 1e-6),
    "scaled steps": ScaledNoise(NuFTRL(0.02), step_scales=GROWING),
    "scaled draws": ScaledNoise(PoleNoise([0.02], [0.4]), draw_scales=GROWING),
    "scaled steps and draws": ScaledNoise(FiniteNoise([1.0, -0.5, -0.1]), FALLING, GROWING),
    "scaled bands": ScaledNoise(BandedStrategyNoise([1.0, 0.5]), FALLING, GROWING),
    "bands": BandedNoise(BANDS),
    "dense": MatrixNoise(FULL),
    "Honaker": MatrixNoise.honaker(N),
    "binary tree": BinaryTree(N, decoder="binary", decay=0.1),
    "online tree": BinaryTree(N, decay=0.2),
}
EACH = pytest.mark.parametrize("mechanism", CASES.values(), ids=CASES)
EPOCHS = Participation.fixed_epochs(N, epochs=3)


def really_made(program: Program, normals: Values) -> Values:
    """What the engine of a program makes of normals, shape (steps, size), with unit scale."""
    made = engine(program, normals.shape[1])
    rows = []
    for step, row in enumerate(normals):
        values = np.empty(row.size, program.dtype)
        made.step(lambda fresh, row=row: np.copyto(fresh, row, casting="same_kind"), values, step)
        rows.append(step_scale(program, 1.0, step) * values.astype(float))
    return np.array(rows)


def brute(strategy: NDArray[Any], who: Participation) -> float:
    """The largest |C u| over the patterns and all signs on their steps."""
    found = 0.0
    for pattern in who.worst.patterns():
        columns = strategy[:, pattern]
        gram = columns.T @ columns
        for signs in itertools.product((1.0, -1.0), repeat=len(pattern) - 1):
            u = np.array([1.0, *signs])
            found = max(found, float(u @ gram @ u))
    return math.sqrt(found)


@EACH
def test_matrices_agree(mechanism: Mechanism) -> None:
    strategy = mechanism.strategy(N)
    noising = mechanism.noising_matrix(N)
    assert strategy.shape == noising.shape == (N, N)
    np.testing.assert_allclose(strategy @ noising, np.eye(N), atol=1e-12)
    np.testing.assert_array_equal(np.triu(strategy, 1), 0)
    np.testing.assert_allclose(mechanism.column_norms(N), np.linalg.norm(strategy, axis=0), rtol=1e-12)
    assert not np.tril(strategy, -mechanism.bands(N)).any()


@EACH
def test_the_engine_makes_the_noise_of_the_program(mechanism: Mechanism) -> None:
    z = np.random.default_rng(2).standard_normal((N, 3))
    program = streaming(mechanism, EPOCHS, "float64")
    np.testing.assert_allclose(really_made(program, z), program.mechanism.noising(z), rtol=0, atol=1e-12)
    if mechanism.forms():
        np.testing.assert_allclose(program.mechanism.noising(z), mechanism.noising(z), rtol=0, atol=1e-12)


@EACH
def test_the_claim_covers_the_bracket_and_memory_is_as_stated(mechanism: Mechanism) -> None:
    for dtype in (None, "float64"):
        program = streaming(mechanism, EPOCHS, dtype)
        found = program.mechanism.bracket(EPOCHS)
        assert program.sensitivity >= found.upper >= found.value >= found.lower
        assert program.sensitivity <= found.upper * (1 + 1e-3)
        assert program.form in ENGINES
        rows = engine(program, 5).memory.shape
        assert rows == (program.memory + (program.form == "delay line"), 5)  # a ring has a place for the new draw
    if mechanism.steps is not None:
        with pytest.raises(ValueError, match=f"participation must have steps={N}"):
            streaming(mechanism, Participation.single(N + 1))


@EACH
def test_a_stream_is_white_with_its_correlation_undone(mechanism: Mechanism) -> None:
    """Each of the N² second moments at level 1e-8 a case; a lost correlation would be seen."""
    size = 40_000
    program = streaming(mechanism, EPOCHS)
    stream = Stream(program, (2, size // 2), budget=Budget(0.5, clip_norm=2.0), rng=np.random.default_rng(8))
    made = np.array(list(stream))
    assert made.shape == (N, 2, size // 2)
    assert made.dtype == program.dtype
    white = program.mechanism.strategy(N) @ made.reshape(N, size).astype(float) / stream.scale
    deviations = (white @ white.T / size - np.eye(N)) * math.sqrt(size)
    deviations[np.diag_indices(N)] /= math.sqrt(2)
    assert np.abs(deviations).max() < 6.8


@EACH
def test_a_run_and_a_stream_make_the_same_map(mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws enter a run and leave it as in the engine, factors of steps and draws included."""
    run = PrivateRun(Budget(0.5), EPOCHS, mechanism, N)
    rows = iter(np.eye(N))
    monkeypatch.setattr(draws, "filler", lambda *_: lambda values, *_: values.__setitem__(slice(None), next(rows)))
    made = np.array([run.add_noise(np.zeros(N)) for _ in run]) / run.scale
    np.testing.assert_allclose(made, really_made(run.program, np.eye(N)), rtol=1e-6, atol=1e-7)


def slow_tree(steps: int, decay: float, online: bool) -> Values:
    """What a tree with a draw for each node adds to each step, shape (steps, nodes)."""
    kept = 1 - decay
    heights = range(steps.bit_length())
    nodes = [(height, last) for height in heights for last in range(1 << height, steps + 1, 1 << height)]
    share = 1.0
    estimate: dict[tuple[int, int], Values] = {}
    for height in heights:
        left = kept ** (1 << max(height - 1, 0))
        if height and online:
            ratio = share * (1 + left**2)
            share = ratio / (1 + ratio)
        for place, (own, last) in enumerate(nodes):
            if own == height:
                estimate[own, last] = share * np.eye(len(nodes))[place]
                if height and online:
                    below = left * estimate[height - 1, last - (1 << height - 1)] + estimate[height - 1, last]
                    estimate[own, last] = estimate[own, last] + (1 - share) * below
    prefix = np.zeros((steps + 1, len(nodes)))
    for t in range(1, steps + 1):
        last = t
        while last:
            height = (last & -last).bit_length() - 1
            prefix[t] += kept ** (t - last) * estimate[height, last]
            last -= 1 << height
    return prefix[1:] - kept * prefix[:-1]


@pytest.mark.parametrize("decay", [0.0, 0.03, 0.4])
@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("steps", [1, 7, 24])
def test_the_engine_of_a_tree_has_the_law_of_a_draw_for_each_node(steps: int, online: bool, decay: float) -> None:
    tree = BinaryTree(steps, decoder="online" if online else "binary", decay=decay)
    made = really_made(tree.program(Participation.single(steps)), np.eye(steps))
    slow = slow_tree(steps, decay, online)
    np.testing.assert_allclose(made @ made.T, slow @ slow.T, atol=1e-13)


def test_golden_trees() -> None:
    once = Participation.single(64)
    for decoder, value in (("binary", 2.645751311065), ("online", 2.468002892526)):
        run = PrivateRun(Budget(0.5), once, BinaryTree(64, decoder=decoder), 1)  # type: ignore[arg-type]
        assert run.multiplier == pytest.approx(value, rel=3e-7)
    epochs = Participation.fixed_epochs(64, epochs=4)
    assert PrivateRun(Budget(0.5), epochs, BinaryTree(64), 1).multiplier == pytest.approx(6.448099983, rel=3e-7)


# -- the claimed multiplier against the map that runs ------------------------------------------------------------------


def random_participation(rng: np.random.Generator, n: int) -> Participation:
    period = int(rng.integers(2, n))
    count = int(rng.integers(1, 5))
    options: list[Participation] = [
        Participation.single(n),
        Participation.min_sep(n, max(period, n // 4), count),
        Participation.fixed_epochs(n, period=max(period, n // 5)),
        Participation.reshuffled(n, period=max(period, n // 3)),
        Participation.balls_in_bins(n, period=max(period, n // 5)),
        Participation.cyclic_poisson(n, period=max(period, n // 5), rate=0.3),
        Participation.poisson(n, 0.1) if n <= 6 else Participation.single(n),
    ]
    return options[rng.integers(len(options))].worst  # no accountant of sampling takes part here


def random_mechanism(rng: np.random.Generator, n: int) -> Mechanism:
    gaps = rng.uniform(0.01, 1.2, 4)
    scales = rng.uniform(0.5, 2.0, (2, n))
    toeplitz: list[Any] = [
        NuFTRL(float(rng.uniform(0.01, 1.5))),
        AntiPGD(float(rng.uniform(0.05, 1.5))),
        PoleNoise(gaps[:2], gaps[2:]),
        ProductNoise(gaps[:2], rng.uniform(-0.5, 0.5, 2)),
        FiniteNoise([1.0, *rng.uniform(-0.4, 0.3, 2)]),
        BandedStrategyNoise([1.0, *rng.uniform(-0.5, 0.5, 2)]),
    ]
    inner = toeplitz[rng.integers(len(toeplitz))]
    finite: list[Mechanism] = [
        ScaledNoise(inner, scales[0]),
        ScaledNoise(inner, draw_scales=scales[1]),
        ScaledNoise(inner, scales[0], scales[1]),
        MatrixNoise(np.tril(rng.uniform(-0.5, 0.8, (n, n)), -1) + np.diag(rng.uniform(0.5, 2, n))),
        BinaryTree(n, decoder="binary", decay=float(rng.uniform(0, 0.5))),
        BinaryTree(n, decay=float(rng.uniform(0, 0.5))),
    ]
    return finite[rng.integers(len(finite))] if rng.random() < 0.6 else inner


@pytest.mark.parametrize("seed", range(80))
def test_the_claim_is_at_least_what_the_map_needs(seed: int) -> None:
    """Fed with unit draws the engine shows its matrix; its inverse under the worst patterns needs the multiplier."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 13))
    who = random_participation(rng, n)
    mechanism = random_mechanism(rng, n)
    program = streaming(mechanism, who, "float64")
    real = brute(np.linalg.inv(really_made(program, np.eye(n))), who)
    factor = 2 if seed % 2 else 1
    budget = Budget(0.5, adjacency="replace-one" if seed % 2 else "zero-out")
    run = PrivateRun(budget, who, mechanism, 1)
    assert run.multiplier >= factor * real
    assert run.program.sensitivity >= real
    if who.once:
        assert run.multiplier <= factor * real * (1 + 2e-3)
