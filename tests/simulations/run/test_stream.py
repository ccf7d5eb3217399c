"""Noise streams against explicit convolutions, exact covariances, and themselves after a restart."""

import copy
import io
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corrnoise.simulations.noise_stream import Method, NoiseStream, stream_sensitivity
from numpy.typing import NDArray
from scipy import linalg, stats

from corrnoise.simulations import noise_engines
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import (
    BandedNoise,
    MatrixNoise,
    ScaledNoise,
    ToeplitzMechanism,
    column_normalised,
)
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation

Values = NDArray[np.float64]

FINITE = FiniteNoise([1.0, -0.5, 0.25, -1e-3])
RATIONAL = [
    DPSGD(),
    AntiPGD(0.0),
    AntiPGD(0.3),
    NuFTRL(0.01),
    NuFTRL(1e-8),
    NuFTRL(1.99),
    ProductNoise([1e-6, 0.1, 1.7], [-0.5, 1.5, 0.5]),
    ProductNoise([1e-3], [-1]),
    PoleNoise([0.01, 0.3], [0.1]),
    PoleNoise([0.3], [1.5, 0.1, 1e-6]),
]
MODES: dict[str, Callable[..., NoiseStream]] = {
    "cascade": lambda shape=(3,), **options: NoiseStream(NuFTRL(0.01), shape, **options),
    "delay line": lambda shape=(3,), **options: NoiseStream(FINITE, shape, **options),
    "exact": lambda shape=(3,), **options: NoiseStream(NuFTRL(0.01), shape, steps=40, **options),
}
MODE = pytest.mark.parametrize("make", MODES.values(), ids=MODES)


def take(stream: NoiseStream, steps: int) -> NDArray[Any]:
    return np.array(list(islice(stream, steps)))


def draws(seed: int, steps: int, shape: tuple[int, ...]) -> Values:
    """The w that a stream of this seed takes."""
    return np.random.default_rng(seed).standard_normal((steps, *shape))


def convolved(beta: Values, w: Values) -> Values:
    """Σ β_τ w_{t−τ}, column by column."""
    return np.transpose([np.convolve(beta, column)[: len(w)] for column in w.T])


# -- the noise is the convolution --------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [*RATIONAL, FINITE, NuFTRL(0.0), FiniteNoise([1.0, -2.0])], ids=repr)
def test_exact_stream(noise):
    steps = 300
    matrix = linalg.toeplitz(noise.coefficients(steps), np.zeros(steps))
    made = take(NoiseStream(noise, 2, steps=steps, rng=7), steps)
    expected = matrix @ draws(7, steps, (2,))
    scale = np.abs(matrix).sum(axis=1).max()
    assert np.abs(made - expected).max() < 1e-13 * scale
    assert np.abs(made * (1 + 1e-11) - expected).max() > 1e-13 * scale


def test_long_exact_stream_of_many_columns():
    steps, columns, noise = 5000, 501, NuFTRL(1e-8)  # transformed in more than one part
    made, w = take(NoiseStream(noise, columns, steps=steps, rng=7), steps), draws(7, steps, (columns,))
    beta = noise.coefficients(steps)
    for t in (0, 1, 2500, 4999):
        assert np.abs(made[t] - beta[t::-1] @ w[: t + 1]).max() < 1e-12
        assert np.abs(made[t] * (1 + 1e-11) - beta[t::-1] @ w[: t + 1]).max() > 1e-12
    assert np.abs(made[:, [0, 500]] - convolved(beta, w[:, [0, 500]])).max() < 1e-12


@pytest.mark.parametrize("noise", RATIONAL, ids=repr)
def test_cascade(noise):
    steps = 4000
    stream = NoiseStream(noise, 2, rng=7, tolerance=1e-3)
    made, w = take(stream, steps), draws(7, steps, (2,))
    beta = stream.noise.coefficients(steps)
    assert isinstance(stream.noise, PoleNoise)
    assert np.abs(made - convolved(beta, w)).max() < 1e-10
    wrong = beta.copy()
    wrong[1] += 1e-10
    assert np.abs(made - convolved(wrong, w)).max() > 1e-10
    if isinstance(noise, NuFTRL):  # the approximation's coefficients, not those of the noise approximated
        assert np.abs(made - convolved(noise.coefficients(steps), w)).max() > 1e-6


def test_cascade_of_more_elements_than_a_block():
    stream = NoiseStream(NuFTRL(1e-4), 10_001, rng=7)
    made, w = take(stream, 20), draws(7, 20, (10_001,))
    expected = linalg.toeplitz(stream.noise.coefficients(20), np.zeros(20)) @ w
    assert np.abs(made - expected).max() < 1e-13


@pytest.mark.parametrize("noise", [FINITE, FiniteNoise([2.0]), FiniteNoise(np.linspace(1, -3, 11))], ids=repr)
@pytest.mark.parametrize("size", [3, 9000])
def test_delay_line_is_the_sum_in_the_order_of_the_coefficients(noise, size):
    stream, w = NoiseStream(noise, size, rng=7), draws(7, 30, (size,))
    assert stream.noise is noise
    for t, made in enumerate(islice(stream, 30)):
        expected = np.zeros(size)
        for age, beta in enumerate(noise.values[: t + 1]):
            expected += beta * w[t - age]
        np.testing.assert_array_equal(made, expected)
        assert (made != w[t]).any() or noise.values[0] == 1.0


def test_independent_noise_is_the_draws():
    np.testing.assert_array_equal(take(NoiseStream(DPSGD(), 5, rng=3), 50), draws(3, 50, (5,)))


def test_streams_of_one_seed_have_the_same_draws():
    noise, w = NuFTRL(0.01), draws(5, 200, (2,))
    for stream in (NoiseStream(noise, 2, rng=5), NoiseStream(noise, 2, rng=5, steps=200)):
        recovered = convolved(stream.noise.inverse_coefficients(200), take(stream, 200))
        np.testing.assert_allclose(recovered, w, atol=1e-12)


# -- the noise has the covariance it should have -----------------------------------------------------------------------

STEPS, ELEMENTS = 64, 100_000
FALSE_ALARM = 1e-7


def directions() -> Values:
    """What the noise is looked at through: single steps, sums over time, differences, a wave."""
    t = np.arange(STEPS)
    single = np.eye(STEPS)[[0, 1, 5, STEPS - 1]]
    sums = np.array([t < 4, t < 16, t >= 0, t >= 32], dtype=float)
    waves = np.array([(-1.0) ** t, np.cos(t), t - t.mean()])
    return np.concatenate([single, sums, waves])


def has_covariance_of(noise: ToeplitzNoise, made: Values) -> bool:
    """A test of made, shape (STEPS, ELEMENTS), that errs with a probability of at most FALSE_ALARM.

    For each direction v the Σ (v·y)² over the elements y is χ² with ELEMENTS degrees of freedom times ‖Bᵀ v‖²; over the
    sums of neighbouring elements, with half as many times twice that.  Two tails each, and the union bound.
    """
    matrix = linalg.toeplitz(noise.coefficients(STEPS), np.zeros(STEPS))
    v = directions()
    expected = np.square(v @ matrix).sum(axis=1)
    seen = v @ made
    neighbours = seen[:, ::2] + seen[:, 1::2]
    level = FALSE_ALARM / (4 * len(v))
    for values, variance in ((seen, expected), (neighbours, 2 * expected)):
        count = values.shape[1]
        statistic = np.square(values).sum(axis=1) / variance
        if not ((stats.chi2.ppf(level, count) < statistic) & (statistic < stats.chi2.isf(level, count))).all():
            return False
    return True


@pytest.mark.parametrize(
    ("noise", "options"),
    [
        (NuFTRL(0.2), {"tolerance": 1e-2}),
        (NuFTRL(0.2), {"steps": STEPS}),
        (FINITE, {}),
        (AntiPGD(0.1), {}),
        (ProductNoise([0.01, 0.3], [0.5, -0.5]), {"tolerance": 1e-3}),
    ],
    ids=repr,
)
def test_covariance(noise, options):
    stream = NoiseStream(noise, ELEMENTS, rng=np.random.Generator(np.random.SFC64(11)), **options)
    made = take(stream, STEPS)
    assert has_covariance_of(stream.noise, made)
    assert not has_covariance_of(DPSGD(), made)
    assert not has_covariance_of(stream.noise, made * 1.03)
    assert not has_covariance_of(stream.noise, made[::-1])  # a stream is not stationary
    made[:, 1::2] = made[:, ::2]
    assert not has_covariance_of(stream.noise, made)  # nor are its elements copies


@pytest.mark.parametrize("wrong", [0.2 * 1.05, 0.2 / 1.05])
@pytest.mark.parametrize("options", [{"steps": STEPS}, {"tolerance": 1e-9}], ids=repr)
def test_noise_of_a_slightly_different_damping_is_rejected(wrong, options):
    """The sum over time differs by 4.4 %, ten standard deviations; six are needed."""
    made = take(NoiseStream(NuFTRL(wrong), ELEMENTS, rng=np.random.Generator(np.random.SFC64(12)), **options), STEPS)
    assert has_covariance_of(NuFTRL(wrong), made)
    assert not has_covariance_of(NuFTRL(0.2), made)


def test_white_noise_is_rejected():
    made = np.random.default_rng(13).standard_normal((STEPS, ELEMENTS))
    assert has_covariance_of(DPSGD(), made)
    assert not has_covariance_of(NuFTRL(0.2), made)
    assert not has_covariance_of(NuFTRL(0.9), made)


# -- states ------------------------------------------------------------------------------------------------------------


def through_pickle(state: dict[str, Any]) -> dict[str, Any]:
    return dict(pickle.loads(pickle.dumps(state)))


def through_plain_files(state: dict[str, Any]) -> dict[str, Any]:
    """Arrays in an npz file, everything else in JSON."""
    arrays: dict[str, NDArray[Any]] = {}

    def without_arrays(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_arrays(entry) for key, entry in value.items()}
        if isinstance(value, np.ndarray):
            arrays[f"array{len(arrays)}"] = value
            return {"array": f"array{len(arrays) - 1}"}
        return value

    text, file = json.dumps(without_arrays(state), allow_nan=False), io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    file.seek(0)
    stored = np.load(file, allow_pickle=False)

    def with_arrays(value: Any) -> Any:
        if isinstance(value, dict):
            return stored[value["array"]] if set(value) == {"array"} else {k: with_arrays(v) for k, v in value.items()}
        return value

    return dict(with_arrays(json.loads(text)))


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    """Arrays as nested lists."""
    return dict(json.loads(json.dumps(state, default=lambda array: array.tolist(), allow_nan=False)))


JOURNEYS = pytest.mark.parametrize("journey", [copy.deepcopy, through_pickle, through_plain_files, through_json])
BITS = [np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64]


def is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(entry) for key, entry in value.items())
    if isinstance(value, list):
        return all(is_plain(entry) for entry in value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiu"
    return value is None or type(value) in (bool, int, float, str)


@MODE
@JOURNEYS
@pytest.mark.parametrize("position", [0, 1, 17, 39])
def test_restored_stream_continues_bit_for_bit(make, journey, position):
    whole = take(make(rng=3, scale=1.5), 40)
    stream = make(rng=3, scale=1.5)
    take(stream, position)
    state = stream.state()
    assert is_plain(state)
    restored = NoiseStream.restore(journey(state))
    assert restored.noise == stream.noise
    assert (restored.position, restored.shape, restored.scale, restored.steps, restored.dtype) == (
        (stream.position, stream.shape, stream.scale, stream.steps, stream.dtype)
    )
    np.testing.assert_array_equal(take(restored, 40 - position), whole[position:])
    np.testing.assert_array_equal(take(stream, 40 - position), whole[position:])
    assert (take(make(rng=4, scale=1.5), 40)[position:] != whole[position:]).all()


@MODE
@pytest.mark.parametrize("bits", BITS)
def test_every_generator_restores(make, bits):
    generator = np.random.Generator(bits(8))
    generator.standard_normal(700)  # MT19937 keeps 624 words, Philox four
    generator.integers(5, dtype=np.uint32)  # and half a word stays in the buffer
    stream = make(rng=generator)
    take(stream, 13)
    restored = NoiseStream.restore(through_plain_files(stream.state()))
    np.testing.assert_array_equal(take(restored, 27), take(stream, 27))


@MODE
@JOURNEYS
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_small_shapes_restore(make, journey, shape):
    stream = make(shape, rng=1)
    take(stream, 5)
    restored = NoiseStream.restore(journey(stream.state()))
    assert next(restored).shape == shape
    np.testing.assert_array_equal(next(restored), take(stream, 2)[1])


@pytest.mark.parametrize("noise", [DPSGD(), *RATIONAL, FINITE], ids=repr)
@pytest.mark.parametrize("steps", [None, 20])
def test_every_kind_of_noise_restores(noise, steps):
    stream = NoiseStream(noise, 2, rng=1, steps=steps, dtype=np.float32)
    take(stream, 7)
    restored = NoiseStream.restore(through_json(stream.state()))
    assert type(restored.noise) is type(stream.noise)
    assert restored.noise == stream.noise
    np.testing.assert_array_equal(take(restored, 13), take(stream, 13))


@MODE
def test_states_are_copies(make):
    stream = make(rng=np.random.Generator(np.random.MT19937(2)))
    take(stream, 5)
    state = stream.state()
    kept = copy.deepcopy(state)
    following = take(stream, 6)
    np.testing.assert_equal(state, kept)
    state["generator"]["state"]["key"][:] = 0
    state["shape"].append(9)
    if state["memory"] is not None:
        state["memory"][:] = 0
    after = take(stream, 6)
    np.testing.assert_array_equal(take(NoiseStream.restore(kept), 12), np.concatenate([following, after]))
    np.testing.assert_array_equal(take(NoiseStream.restore(stream.state()), 3), take(stream, 3))


@MODE
def test_states_are_read_not_kept(make):
    stream = make(rng=2)
    take(stream, 5)
    state = stream.state()
    kept = copy.deepcopy(state)
    restored = NoiseStream.restore(state)
    following = take(restored, 6)
    np.testing.assert_equal(state, kept)
    np.testing.assert_array_equal(take(NoiseStream.restore(state), 6), following)


@MODE
def test_position_and_memory_matter(make):
    stream = make(rng=2)
    take(stream, 5)
    state, following = stream.state(), take(stream, 3)
    earlier = {**state, "position": state["position"] - 1}
    if state["memory"] is None:
        assert (take(NoiseStream.restore(earlier), 3) != following).all()
    else:
        np.testing.assert_array_equal(take(NoiseStream.restore(earlier), 3), following)
        blank = {**state, "memory": np.zeros_like(state["memory"])}
        assert (take(NoiseStream.restore(blank), 3) != following).all()


def test_a_stream_that_shares_its_generator():
    generator = np.random.default_rng(6)
    first, second = NoiseStream(NuFTRL(0.01), 2, rng=generator), NoiseStream(FINITE, 2, rng=generator)
    for _ in range(4):
        next(first), next(second)
    state = first.state()
    np.testing.assert_array_equal(next(NoiseStream.restore(state)), next(first))
    generator.standard_normal(1)
    assert (next(NoiseStream.restore(state)) != next(first)).all()


def test_exact_stream_with_a_generator_that_has_been_used():
    generator = np.random.default_rng(6)
    before = generator.standard_normal(10)
    stream = NoiseStream(NuFTRL(0.01), 3, steps=9, rng=generator)
    used = generator.standard_normal(4)  # after the stream took all it needs
    whole = np.random.default_rng(6).standard_normal(10 + 27 + 4)
    np.testing.assert_array_equal(np.concatenate([before, used]), np.concatenate([whole[:10], whole[37:]]))
    take(stream, 4)
    np.testing.assert_array_equal(take(NoiseStream.restore(stream.state()), 5), take(stream, 5))


def test_an_exhausted_stream_stays_exhausted():
    stream = NoiseStream(NuFTRL(0.01), 3, steps=4, rng=0)
    assert len(list(stream)) == 4
    restored = NoiseStream.restore(through_json(stream.state()))
    for each in (stream, stream, restored):
        with pytest.raises(StopIteration):
            next(each)
    assert stream.position == restored.position == 4


def test_the_memory_of_a_state_is_that_of_the_poles():
    stream = NoiseStream(NuFTRL(1e-4), (5, 7), rng=0)
    take(stream, 1000)
    assert stream.state()["memory"].shape == (stream.noise.poles.size, 35)
    assert NoiseStream(FINITE, (5, 7), rng=0).state()["memory"].shape == (4, 35)
    assert MODES["exact"](rng=0).state()["memory"] is None


@pytest.mark.parametrize("noise", [NuFTRL(1e-4), FINITE], ids=repr)
def test_memory_does_not_grow_with_the_steps(noise):
    size = 2000
    stream = NoiseStream(noise, size, rng=0)
    next(stream)
    rows = stream.state()["memory"].shape[0]
    tracemalloc.start()
    try:
        for _ in stream:
            if stream.position == 400:
                break
        assert tracemalloc.get_traced_memory()[1] < 6 * size * 8 < 400 * size * 8
        tracemalloc.reset_peak()
        NoiseStream(noise, size, rng=0)
        assert tracemalloc.get_traced_memory()[1] < (rows + 6) * size * 8 + 10**6
    finally:
        tracemalloc.stop()


# -- states that are refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("foreign", [None, [], "state", {}, {"format": 1}, {"format": "corrnoise.NoiseStream 0"}])
def test_foreign_states_are_refused(foreign):
    with pytest.raises(ValueError, match=r"state must come from NoiseStream\.state\(\) of format"):
        NoiseStream.restore(foreign)


@MODE
def test_incomplete_states_are_refused(make):
    state = make(rng=0).state()
    for key in state:
        with pytest.raises(ValueError, match=r"state must come from NoiseStream\.state\(\)"):
            NoiseStream.restore({k: v for k, v in state.items() if k != key})
    with pytest.raises(ValueError, match=r"state must come from NoiseStream\.state\(\)"):
        NoiseStream.restore({**state, "more": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": {"kind": "Popen", "args": "true"}}, "kind must be one of 'DPSGD', .*, got 'Popen'"),
        ({"generator": {"bit_generator": "default_rng"}}, "bit_generator must be one of 'MT19937', .*'default_rng'"),
        ({"memory": np.zeros((99, 3))}, r"memory must have shape \(6, 3\), got \(99, 3\)"),
        ({"memory": np.zeros(1)}, r"memory must have shape \(6, 3\), got \(1,\)"),
        ({"memory": None}, r"memory must have shape \(6, 3\), got \(\)"),
        ({"position": -1}, "position must be an integer >= 0, got -1"),
        ({"scale": -1.0}, r"scale must lie in \(0, inf\)"),
        ({"shape": [3, -1]}, "shape must be an integer >= 0"),
        ({"noise": {"args": "true"}}, "a damaged one"),
        ({"noise": None}, "a damaged one"),
        ({"generator": {}}, "a damaged one"),
        ({"memory": [[1.0], [2.0, 3.0]]}, "a damaged one"),
        ({"shape": None}, "a damaged one"),
        ({"dtype": "what"}, "a damaged one"),
        ({"method": "fast"}, "method must be one of"),
        ({"method": "transform"}, "method must be 'recurrence' without steps"),
        ({"steps": 3, "position": 7}, r"position must lie in \[0, steps\] = \[0, 3\], got 7"),
    ],
)
def test_damaged_states_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        NoiseStream.restore({**MODES["cascade"](rng=0).state(), **change})


def test_noise_and_generators_of_the_users_own_have_no_state():
    class Loud(NuFTRL):
        def coefficients(self, steps: int) -> Values:
            return 2 * super().coefficients(steps)

    class Hardware(np.random.PCG64):
        pass

    stream = NoiseStream(Loud(0.1), 3, steps=20, rng=0)
    np.testing.assert_allclose(take(stream, 20), 2 * take(NoiseStream(NuFTRL(0.1), 3, steps=20, rng=0), 20), rtol=1e-12)
    with pytest.raises(TypeError, match=r"needs noise out of DPSGD, .* got Loud"):
        stream.state()
    stream = NoiseStream(NuFTRL(0.1), 3, rng=np.random.Generator(Hardware(0)))
    np.testing.assert_array_equal(next(stream), next(NoiseStream(NuFTRL(0.1), 3, rng=0)))
    with pytest.raises(TypeError, match=r"generator out of MT19937, .* got Hardware"):
        stream.state()


# -- a process that is killed ------------------------------------------------------------------------------------------

KILLED = """
import os, pickle, sys, time
from corrnoise import FiniteNoise, NoiseStream, NuFTRL
streams = [
    NoiseStream(NuFTRL(1e-4), (2, 3), rng=1),
    NoiseStream(FiniteNoise([1.0, -0.5, 0.25]), (2, 3), rng=2),
    NoiseStream(NuFTRL(1e-4), (2, 3), rng=3, steps=1000),
]
while streams[0].position < 700:
    for stream in streams:
        next(stream)
    if streams[0].position % 7 == 0:
        with open(sys.argv[1] + ".new", "wb") as file:
            pickle.dump([stream.state() for stream in streams], file)
        os.replace(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(1e-3)
time.sleep(3600)
"""
CONTINUED = """
import pickle, sys
from itertools import islice
from corrnoise import NoiseStream
with open(sys.argv[1], "rb") as file:
    streams = [NoiseStream.restore(state) for state in pickle.load(file)]
result = [(stream.position, [values.tobytes() for values in islice(stream, 50)]) for stream in streams]
sys.stdout.buffer.write(pickle.dumps(result))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_killed_process_continues_bit_for_bit(tmp_path):
    saved = tmp_path / "state"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(saved)])
    try:
        while not (saved.exists() and position_in(saved) >= 21):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run([sys.executable, "-c", CONTINUED, str(saved)], capture_output=True, check=True)
    uninterrupted = [
        NoiseStream(NuFTRL(1e-4), (2, 3), rng=1),
        NoiseStream(FiniteNoise([1.0, -0.5, 0.25]), (2, 3), rng=2),
        NoiseStream(NuFTRL(1e-4), (2, 3), rng=3, steps=1000),
    ]
    for stream, (position, continued) in zip(uninterrupted, pickle.loads(done.stdout), strict=True):
        assert position >= 21
        assert position % 7 == 0
        take(stream, position)
        assert [values.tobytes() for values in islice(stream, 50)] == continued
        assert next(stream).tobytes() != continued[-1]


def position_in(saved: Path) -> int:
    return int(pickle.loads(saved.read_bytes())[0]["position"])


# -- private runs ------------------------------------------------------------------------------------------------------

RUN: dict[str, Any] = {"rho": 0.5, "clip_norm": 3.0, "steps": 40, "max_participations": 1}


@pytest.mark.parametrize("noise", [*RATIONAL[2:7], FINITE, PoleNoise([0.01, 0.3], [0.1])], ids=repr)
@pytest.mark.parametrize("method", ["recurrence", "transform"])
def test_the_multiplier_covers_the_program_that_runs(noise, method, monkeypatch):
    steps = 40
    stream = NoiseStream.private(noise, steps, method=method, **RUN)
    size = stream.scale / RUN["clip_norm"]
    program = matrix_of_the_program(stream, monkeypatch)
    largest = np.linalg.norm(np.linalg.inv(program), axis=0).max()
    assert largest <= stream.sensitivity() <= largest * (1 + 1e-6)
    assert size == pytest.approx(stream.sensitivity(), rel=1e-14)  # rho = 1/2
    assert size >= stream.sensitivity() > stream.noise.sensitivity(steps)
    assert not largest <= stream.sensitivity() / (1 + 1e-6)


EPOCHS = [Participation.min_sep(40, 10, 4), Participation.min_sep(40, 1, 3)]


@pytest.mark.parametrize("run", EPOCHS, ids=repr)
@pytest.mark.parametrize(
    "noise", [NuFTRL(0.01), NuFTRL(1.99), FiniteNoise([1.0, -0.5, -0.1]), PoleNoise([0.01, 0.3], [0.1])], ids=repr
)
@pytest.mark.parametrize("method", ["recurrence", "transform"])
def test_several_participations_are_covered(noise, run, method, monkeypatch):
    """The inverse of the matrix that the program shows is its strategy; the multiplier of one participation fails."""
    several = {**RUN, "min_sep": run.min_sep, "max_participations": run.count}
    stream = NoiseStream.private(noise, run.steps, method=method, **several)
    program = matrix_of_the_program(stream, monkeypatch)
    truth = strategy_sensitivity(np.linalg.inv(program), run, error=1e-9)
    assert truth.exact
    assert truth.lower <= stream.scale / several["clip_norm"] <= truth.lower * (1 + 1e-6)  # rho = 1/2
    assert stream.sensitivity() < truth.lower


def matrix_of_the_program(stream: NoiseStream, monkeypatch: pytest.MonkeyPatch) -> Values:
    """Fed with unit vectors in place of random numbers the program, which is linear, shows its own matrix."""
    inputs = iter(np.eye(stream.steps or 0))
    monkeypatch.setattr(noise_engines, "fill", lambda rng, values: values.__setitem__(slice(None), next(inputs)))
    return take(NoiseStream(stream.noise, stream.shape, steps=stream.steps, method=stream.method), stream.steps or 0)


@pytest.mark.parametrize("clip_norm", [1e-60, 1e60])
def test_noise_that_float32_cannot_hold_is_refused(clip_norm):
    """It would be rounded to 0 or to infinity."""
    settings = {**RUN, "clip_norm": clip_norm}
    with pytest.raises(ValueError, match="dtype must be float64"):
        NoiseStream.private(AntiPGD(0.3), 3, dtype="float32", **settings)
    assert next(NoiseStream.private(AntiPGD(0.3), 3, **settings)).all()


def test_one_participation_is_the_default_of_sensitivity_and_of_min_sep():
    stream = NoiseStream.private(NuFTRL(0.01), 3, **RUN)
    assert stream.sensitivity() == stream.sensitivity(Participation(40))
    worst = NoiseStream.private(NuFTRL(0.01), 3, **{**RUN, "max_participations": 4})
    assert worst.scale > NoiseStream.private(NuFTRL(0.01), 3, **{**RUN, "max_participations": 4, "min_sep": 10}).scale
    for run in (Participation(39), Participation(41)):
        with pytest.raises(ValueError, match="participation must have steps=40 as the stream"):
            stream.sensitivity(run)
    with pytest.raises(TypeError, match="participation must be"):
        stream.sensitivity(Participation.single(40))


def test_a_private_stream_ends_with_the_run_also_after_a_restore():
    stream = NoiseStream.private(NuFTRL(1e-3), 3, **RUN)
    assert (stream.method, stream.steps) == ("recurrence", 40)
    take(stream, 30)
    restored = NoiseStream.restore(through_json(stream.state()))
    assert restored.scale == stream.scale
    for each in (stream, restored):
        assert len(take(each, 1000)) == 10
        with pytest.raises(StopIteration, match="the stream has made its 40 steps"):
            next(each)


def test_the_scale_of_a_private_stream_is_that_of_the_arrays():
    generators = [np.random.default_rng(9), np.random.default_rng(9)]
    stream = NoiseStream.private(NuFTRL(1e-3), 3, rng=generators[0], **RUN)
    plain = NoiseStream(NuFTRL(1e-3), 3, rng=generators[1])
    np.testing.assert_array_equal(take(stream, 40), stream.scale * take(plain, 40))
    double = NoiseStream.private(NuFTRL(1e-3), 3, adjacency="replace-one", **RUN)
    assert double.scale == pytest.approx(2 * stream.scale, rel=1e-14)
    endless = NoiseStream.private(NuFTRL(1e-3), 3, **{**RUN, "steps": None})
    assert endless.scale > stream.scale
    assert endless.scale == pytest.approx(3 * endless.noise.limiting_sensitivity(), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"rng": 3}, TypeError, "rng must be None or a Generator whose seed is secret in a private run, got int"),
        ({"rng": np.random.SeedSequence(1)}, TypeError, "rng must be None or a Generator"),
        ({"max_participations": 2, "steps": None}, ValueError, "steps must be given for several participations"),
        ({"max_participations": 3, "min_sep": 20}, ValueError, r"at most ceil\(steps/min_sep\) = 2, .*, got 3"),
        ({"max_participations": 41}, ValueError, r"at most ceil\(steps/min_sep\) = 40, .*, got 41"),
        ({"min_sep": 0}, ValueError, "min_sep must be an integer >= 1, got 0"),
        ({"min_sep": 0, "steps": None}, ValueError, "min_sep must be an integer >= 1, got 0"),
        ({"max_participations": None}, TypeError, "max_participations must be an integer"),
        ({"dtype": np.float16}, ValueError, "dtype must be a floating dtype of 32 bits or more"),
        ({"rho": 0.0}, ValueError, "rho must lie in"),
        ({"clip_norm": -1.0}, ValueError, "clip_norm must lie in"),
        ({"adjacency": "add-remove"}, ValueError, "adjacency must be one of"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1"),
    ],
)
def test_private_runs_that_are_not_covered_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        NoiseStream.private(NuFTRL(0.1), 3, **{**RUN, **changes})


def test_noise_of_infinite_sensitivity_is_refused():
    for noise in (PoleNoise([0.0], [0.5]), FiniteNoise([1.0, -2.0])):
        with pytest.raises(ValueError, match="noise must have a finite sensitivity for steps=None"):
            NoiseStream.private(noise, 3, **{**RUN, "steps": None})


@pytest.mark.parametrize("name", ["rho", "clip_norm", "steps", "max_participations"])
def test_what_privacy_rests_on_has_no_default(name):
    with pytest.raises(TypeError, match=f"'{name}'"):
        NoiseStream.private(NuFTRL(0.1), 3, **{key: value for key, value in RUN.items() if key != name})


@MODE
def test_states_of_the_first_format_are_read(make):
    stream = make(rng=3)
    take(stream, 5)
    first = {key: value for key, value in stream.state().items() if key != "method"}
    restored = NoiseStream.restore({**first, "format": "corrnoise.NoiseStream 1"})
    np.testing.assert_array_equal(take(restored, 9), take(stream, 9))


def test_a_recurrence_of_a_given_length():
    stream = NoiseStream(NuFTRL(0.01), 3, steps=30, method="recurrence", rng=4)
    endless = NoiseStream(NuFTRL(0.01), 3, rng=4)
    assert stream.noise == endless.noise != NuFTRL(0.01)
    np.testing.assert_array_equal(take(stream, 99), take(endless, 30))


# -- mechanisms of a finite run ----------------------------------------------------------------------------------------

MATRIX = np.tril(np.random.default_rng(5).uniform(0.1, 1.0, (24, 24)), 0) / 6 + np.eye(24)
BANDS = [[1.0] * 24, [-0.5] * 23 + [0.0], [0.3] * 22 + [0.0] * 2]
MECHANISMS: list[tuple[Mechanism, Method]] = [
    (NuFTRL(0.01), "transform"),
    (NuFTRL(0.01), "recurrence"),
    (column_normalised(NuFTRL(0.0), 24), "transform"),
    (column_normalised(NuFTRL(0.01), 24), "recurrence"),
    (column_normalised(FiniteNoise([1.0, -0.5, -0.1]), 24), "recurrence"),
    (BandedNoise(BANDS), "recurrence"),
    (BandedNoise([[2.0] * 24]), "recurrence"),
    (MatrixNoise(MATRIX), "recurrence"),
    (MatrixNoise.honaker(24), "recurrence"),
    *(
        (BinaryTree(steps, decoder=decoder), "recurrence")
        for steps in (1, 24, 31, 32)
        for decoder in ("binary", "online")
    ),
]
EACH_MECHANISM = pytest.mark.parametrize(("mechanism", "method"), MECHANISMS, ids=lambda value: repr(value)[:40])


@EACH_MECHANISM
def test_a_stream_of_a_mechanism_is_its_noise(mechanism, method):
    stream = NoiseStream(mechanism, (2, 3), method=method, rng=7)
    made = take(stream, 1000)
    assert (len(made), type(stream.noise)) == (mechanism.steps, type(mechanism))
    np.testing.assert_allclose(made, stream.noise.correlate(draws(7, mechanism.draws, (2, 3))), rtol=0, atol=1e-12)
    if method == "transform" or not isinstance(mechanism, ToeplitzMechanism | ScaledNoise):
        assert stream.noise == mechanism


@EACH_MECHANISM
def test_a_stream_of_a_mechanism_keeps_what_it_says(mechanism, method):
    memory = NoiseStream(mechanism, 5, method=method).state()["memory"]
    if method == "recurrence" and not isinstance(mechanism, ToeplitzMechanism | ScaledNoise):
        assert memory.shape == (mechanism.memory, 5)


@EACH_MECHANISM
@pytest.mark.parametrize("taken", [0, 7, 24])
def test_streams_of_mechanisms_are_restored(mechanism, method, taken):
    stream = NoiseStream(mechanism, 3, method=method, rng=2, scale=3.0)
    take(stream, taken)
    state = through_json(stream.state())
    following = take(stream, 99)
    np.testing.assert_array_equal(take(NoiseStream.restore(state), 99), following)


@EACH_MECHANISM
@pytest.mark.parametrize("count", [1, 3])
def test_private_streams_of_mechanisms_are_covered(mechanism, method, count, monkeypatch):
    """The covariance of the program, inverted, is the Gram matrix of the strategy that it really has."""
    steps = mechanism.steps
    run = Participation.min_sep(steps, 8, min(count, -(-steps // 8)))
    several = {**RUN, "steps": None, "max_participations": run.count, "min_sep": 8}
    stream = NoiseStream.private(mechanism, mechanism.draws, method=method, **several)
    inputs = iter(np.eye(mechanism.draws))
    monkeypatch.setattr(noise_engines, "fill", lambda rng, values: values.__setitem__(slice(None), next(inputs)))
    program = take(NoiseStream(stream.noise, stream.shape, method=method), steps)
    factor = np.linalg.cholesky(program @ program.T)
    truth = strategy_sensitivity(linalg.solve_triangular(factor, np.eye(steps), lower=True), run, error=1e-9)
    multiplier = stream.scale / several["clip_norm"]
    assert truth.lower <= multiplier
    assert multiplier == pytest.approx(stream.noise.sensitivity_upper_bound(run), rel=1e-6)  # rho = 1/2
    if not isinstance(mechanism, BinaryTree):  # whose decoders do not use all nodes
        assert multiplier <= truth.upper * (1 + 1e-6)
    if run.count > 1:
        assert not truth.lower <= stream.sensitivity()  # the multiplier of one participation


class Unknown(MatrixNoise):
    pass


class Own(Mechanism):
    steps, memory = 3, 2

    def correlate(self, draws):
        return np.asarray(draws)

    def strategy(self):
        return np.eye(3)


@pytest.mark.parametrize(
    ("mechanism", "options", "error", "message"),
    [
        (BandedNoise(BANDS), {"steps": 23}, ValueError, "steps must be 24 as the mechanism has, got 23"),
        (BandedNoise(BANDS), {"method": "transform"}, ValueError, "method must be 'recurrence' for BandedNoise"),
        (BinaryTree(3), {"method": "transform"}, ValueError, "method must be 'recurrence' for BinaryTree"),
        (Own(), {}, TypeError, "noise must be one of ToeplitzMechanism, ScaledNoise, .* or correlated noise"),
        (BinaryTree(3), {"scale": -1.0}, ValueError, "scale must lie in"),
    ],
)
def test_bad_arguments_for_mechanisms(mechanism, options, error, message):
    with pytest.raises(error, match=message):
        NoiseStream(mechanism, 3, **options)


def test_the_bound_of_a_mechanism_is_for_its_own_run():
    mechanism = NuFTRL(0.01)
    assert stream_sensitivity(mechanism, None, "transform") == stream_sensitivity(mechanism, 24, "transform")
    with pytest.raises(ValueError, match="run must have steps=24 as the mechanism has, got 23"):
        stream_sensitivity(mechanism, 23, "transform")


def test_a_mechanism_of_an_own_kind_has_no_state():
    with pytest.raises(TypeError, match=r"needs noise out of .*BinaryTree, got Unknown"):
        NoiseStream(Unknown(MATRIX), 3).state()


# -- shapes, dtypes, scales, generators --------------------------------------------------------------------------------


@MODE
@pytest.mark.parametrize(
    ("shape", "expected"), [((), ()), (0, (0,)), ((0,), (0,)), (4, (4,)), (np.int64(4), (4,)), ((2, 1, 3), (2, 1, 3))]
)
def test_shapes(make, shape, expected):
    stream = make(shape, rng=0)
    values = next(stream)
    assert stream.shape == values.shape == expected
    assert values.dtype == np.float64
    flat = next(make(math.prod(expected), rng=0))
    np.testing.assert_array_equal(values.ravel(), flat)


@MODE
def test_arrays_are_the_callers(make):
    stream, other = make(rng=0), make(rng=0)
    for _ in range(10):
        values, same = next(stream), next(other)
        np.testing.assert_array_equal(values, same)
        values[:] = 1e9


@MODE
@pytest.mark.parametrize("dtype", [np.float32, "float32", float, np.longdouble])
def test_dtypes(make, dtype):
    values, full = take(make(rng=0, dtype=dtype, scale=3.0), 30), take(make(rng=0, scale=3.0), 30)
    assert values.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(values, full.astype(dtype))


@MODE
def test_scale(make):
    np.testing.assert_array_equal(take(make(rng=0, scale=0.3), 30), 0.3 * take(make(rng=0), 30))
    assert (take(make(rng=0, scale=np.float32(2)), 30) == 2 * take(make(rng=0), 30)).all()


@MODE
def test_generators(make):
    values = take(make(rng=5), 10)
    for same in (np.random.SeedSequence(5), np.random.default_rng(5), np.int64(5)):
        np.testing.assert_array_equal(take(make(rng=same), 10), values)
    for other in (6, None, np.random.SeedSequence(5).spawn(1)[0], np.random.Generator(np.random.SFC64(5))):
        assert (take(make(rng=other), 10) != values).all()
    assert (take(make(), 10) != take(make(), 10)).all()


@MODE
def test_position_counts_and_the_stream_is_its_own_iterator(make):
    stream = make(rng=0)
    assert iter(stream) is stream
    for count in range(5):
        assert stream.position == count
        next(stream)


def test_the_noise_that_is_really_made():
    noise = NuFTRL(0.01)
    exact, rough = NoiseStream(noise, 1, steps=5), NoiseStream(noise, 1, tolerance=1e-2)
    assert exact.noise is noise
    assert isinstance(rough.noise, PoleNoise)
    assert rough.noise.noise_multiplier(1.0) != noise.noise_multiplier(1.0)
    rational = PoleNoise([0.1], [0.2])
    assert NoiseStream(rational, 1).noise is rational


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((None, 3), {}, TypeError, "noise must be correlated noise"),
        (([1.0, -0.5], 3), {}, TypeError, "noise must be correlated noise"),
        ((NuFTRL(0.1), -1), {}, ValueError, "shape must be an integer >= 0, got -1"),
        ((NuFTRL(0.1), 2.5), {}, TypeError, "shape must be an integer >= 0, got 2.5"),
        ((NuFTRL(0.1), (2, "3")), {}, TypeError, "shape must be an integer"),
        ((NuFTRL(0.1), [2, 3]), {}, TypeError, "shape must be an integer"),
        ((NuFTRL(0.1), 3), {"scale": 0.0}, ValueError, r"scale must lie in \(0, inf\)"),
        ((NuFTRL(0.1), 3), {"scale": math.nan}, ValueError, r"scale must lie in \(0, inf\)"),
        ((NuFTRL(0.1), 3), {"scale": "1"}, TypeError, "scale must be a real number"),
        ((NuFTRL(0.1), 3), {"steps": 0}, ValueError, "steps must be an integer >= 1, got 0"),
        ((NuFTRL(0.1), 3), {"steps": 1.0}, TypeError, "steps must be an integer"),
        ((NuFTRL(0.1), 3), {"dtype": int}, ValueError, "dtype must be a floating dtype"),
        ((NuFTRL(0.1), 3), {"dtype": complex}, ValueError, "dtype must be a floating dtype"),
        ((NuFTRL(0.1), 3), {"dtype": np.float16}, ValueError, "dtype must be a floating dtype of 32 bits or more"),
        ((NuFTRL(0.1), 3), {"dtype": "foo"}, TypeError, "dtype must be a floating dtype .* got 'foo'"),
        ((NuFTRL(0.1), 3), {"method": "fast"}, ValueError, "method must be one of 'recurrence', 'transform'"),
        ((NuFTRL(0.1), 3), {"method": "transform"}, ValueError, "method must be 'recurrence' without steps"),
        ((NuFTRL(0.1), 3), {"steps": 10**11}, ValueError, "steps must be smaller, got 100000000000, which takes"),
        ((NuFTRL(0.1), 10**13), {}, ValueError, "shape must be smaller, got 10000000000000, which takes"),
        ((NuFTRL(0.1), 3), {"tolerance": 0.0}, ValueError, r"tolerance must lie in \[1e-12, 1\)"),
        ((NuFTRL(0.1), 3), {"tolerance": math.nan, "steps": 5}, ValueError, r"tolerance must lie in \[1e-12, 1\)"),
        ((NuFTRL(0.0), 3), {}, ValueError, "no fractional zero"),
        ((ProductNoise([0.0], [-1.0]), 3), {}, ValueError, "no pole"),
        ((NuFTRL(0.1), 3), {"rng": -1}, ValueError, "rng must be an integer >= 0, .*, got -1"),
        ((NuFTRL(0.1), 3), {"rng": "seed"}, TypeError, "rng must be an integer >= 0, .*, got 'seed'"),
        ((NuFTRL(0.1), 3), {"rng": 1.5}, TypeError, "rng must be an integer >= 0, .*, got 1.5"),
        ((NuFTRL(0.1), 3), {"rng": True}, TypeError, "rng must be an integer >= 0, .*, got True"),
    ],
)
def test_bad_arguments(arguments, options, error, message):
    with pytest.raises(error, match=message):
        NoiseStream(*arguments, **options)
