"""The draws of the property-based tests: noise, spectra, learning rates.  Logarithmic scales, ends included."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree, Decoder
from corrnoise.theory.objectives.workloads import MatrixWorkload, MomentumAverage, MomentumSGD, PrefixSums, Workload
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    """Floats in [low, high], uniform on a logarithmic scale."""
    return st.floats(np.log(low), np.log(high)).map(lambda u: float(np.clip(np.exp(u), low, high)))


def gaps(low: float = 1e-12) -> st.SearchStrategy[float]:
    """Gaps 0 < a < 2 that crowd at both ends."""
    return st.one_of(log_uniform(low, 1.0), log_uniform(low, 1.0).map(lambda a: 2 - a).filter(lambda a: a < 2))


def rates(low: float = 1e-12) -> st.SearchStrategy[float]:
    """Rates 0 < x < 2 of exponential averages."""
    return gaps(low)


def exponents(largest: float = 1.5) -> st.SearchStrategy[float]:
    """Exponents of a product."""
    return st.sampled_from([0.5, -0.5, 1.0, -1.0]) | st.floats(-largest, largest)


def product_noises(low: float = 1e-6, most: int = 4) -> st.SearchStrategy[ProductNoise]:
    """Products of up to ``most`` factors."""
    factors = st.lists(st.tuples(gaps(low), exponents()), min_size=1, max_size=most)
    return factors.map(lambda fs: ProductNoise([a for a, _ in fs], [e for _, e in fs]))


def minimum_phase_coefficients(most: int = 6) -> st.SearchStrategy[np.ndarray]:
    """Coefficients with β_0 = 1 of polynomials whose zeros lie outside the unit circle, built from their zeros."""
    real = st.floats(-0.95, 0.95).map(lambda r: np.array([1.0, -r]))
    pair = st.tuples(st.floats(0.0, 0.95), st.floats(0.0, np.pi)).map(
        lambda p: np.array([1.0, -2 * p[0] * np.cos(p[1]), p[0] ** 2])
    )

    def multiply(factors: list[np.ndarray]) -> np.ndarray:
        product = np.ones(1)
        for factor in factors:
            product = np.convolve(product, factor)
        return product

    return st.lists(real | pair, min_size=1, max_size=max(most // 2, 1)).map(multiply)


def noises() -> st.SearchStrategy:
    """Every kind of correlated noise with finite limiting sensitivity."""
    return st.one_of(
        st.just(DPSGD()),
        gaps(1e-9).map(NuFTRL),
        gaps(1e-6).map(AntiPGD),
        product_noises(),
        minimum_phase_coefficients().map(FiniteNoise),
    )


@st.composite
def spectra(draw: st.DrawFn, most: int = 8, condition: float = 1e6) -> np.ndarray:
    """Eigenvalues with maximum 1: spread at random, all equal, or a power law."""
    d = draw(st.integers(1, most))
    kind = draw(st.sampled_from(["random", "equal", "power"]))
    if kind == "equal":
        return np.ones(d)
    if kind == "power":
        return np.arange(1, d + 1, dtype=float) ** -draw(st.floats(0.1, 3.0))
    return np.array([1.0] + [draw(log_uniform(1 / condition, 1.0)) for _ in range(d - 1)])


@st.composite
def regressions(
    draw: st.DrawFn, most: int = 8, largest: float = 0.99, kurtosis: float | None = 3.0
) -> LinearRegression:
    """Linear regression with 0 < η R² <= ``largest``, hence stable and inside every theorem of the paper."""
    from corrnoise.theory.problems.quadratic import LinearRegression

    eigenvalues = draw(spectra(most))
    k = kurtosis if kurtosis is not None else draw(st.sampled_from([1.0, 1.8, 3.0, 6.0]))
    r2 = eigenvalues.sum() + (k - 1) * eigenvalues.max()
    eta = draw(log_uniform(1e-4, 1.0)) * largest / r2
    return LinearRegression(eigenvalues, eta, draw(st.sampled_from([0.0, 0.1, 1.0, 10.0])), kurtosis=k)


def mean_estimations() -> st.SearchStrategy[MeanEstimation]:
    """Stable private mean estimation."""
    from corrnoise.theory.problems.quadratic import MeanEstimation

    return st.builds(MeanEstimation, gaps(1e-9).filter(lambda eta: eta < 1.999), st.sampled_from([0.0, 0.3, 2.0]))


@st.composite
def participations(
    draw: st.DrawFn, most: int = 8, kinds: tuple = ("min-sep", "fixed epochs", "reshuffled")
) -> Participation:
    """Worst cases of who takes part when, in runs of up to ``most`` steps."""
    n = draw(st.integers(1, most))
    b = draw(st.integers(1, n + 1))
    kind = draw(st.sampled_from(kinds))
    if kind == "fixed epochs":
        return Participation.fixed_epochs(n, period=b)
    door = Participation.min_sep if kind == "min-sep" else Participation.reshuffled
    return door(n, period=b, count=draw(st.integers(1, -(-n // b))))


@st.composite
def workloads(draw: st.DrawFn, most: int = 12, kinds: tuple = ("prefix", "momentum", "average", "matrix")) -> Workload:
    """Workloads of runs of up to ``most`` steps."""
    n = draw(st.integers(1, most))
    kind = draw(st.sampled_from(kinds))
    if kind == "prefix":
        return PrefixSums(n)
    if kind == "average":
        return MomentumAverage(n, alpha=draw(log_uniform(1e-2, 1.0)))
    if kind == "matrix":
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return MatrixWorkload(rng.normal(size=(draw(st.integers(1, most)), n)))
    rates = draw(st.none() | st.lists(log_uniform(1e-2, 1.0), min_size=n, max_size=n))
    return MomentumSGD(n, momentum=draw(st.floats(0, 0.95)), weight_decay=draw(st.floats(0, 0.9)), learning_rates=rates)


@st.composite
def toeplitz_strategies(draw: st.DrawFn, steps: int, min_sep: int) -> tuple[str, np.ndarray]:
    """First columns of Toeplitz strategies, by what is known of them.

    "any" has any signs; the sensitivity of the others is exact: "decaying" is non-negative and decays from ``min_sep``
    on, "alternating" is that with alternating signs, and "banded" has ``min_sep`` coefficients of any signs.
    """
    c = np.array(draw(st.lists(st.floats(-1, 1), min_size=steps, max_size=steps)))
    c[0] = 1.0
    kind = draw(st.sampled_from(["any", "decaying", "alternating", "banded"]))
    if kind == "banded":
        c[min_sep:] = 0.0
    elif kind != "any":
        c = np.abs(c)
        c[min_sep:] = np.sort(c[min_sep:])[::-1]
        if kind == "alternating":
            c *= (-1.0) ** np.arange(steps)
    return kind, c


@st.composite
def mechanisms(draw: st.DrawFn, steps: int | None = None) -> Mechanism:
    """Every kind of mechanism; of ``steps`` steps if it is finite."""
    n = draw(st.integers(1, 10)) if steps is None else steps
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(
        st.sampled_from(["toeplitz", "scaled", "matrix", "banded", "time-varying", "tree", "honaker", "fourier"])
    )
    if kind == "toeplitz":
        return draw(noises())
    if kind == "scaled":
        steps_too, draws_too = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
        scales = np.exp(rng.normal(size=(2, n)))
        return ScaledNoise(draw(noises()), scales[0] if steps_too else None, scales[1] if draws_too else None)
    if kind == "matrix":
        return MatrixNoise(np.tril(rng.normal(size=(n, n)), -1) + np.diag(np.exp(rng.normal(size=n))))
    if kind == "banded":
        bands = rng.normal(size=(draw(st.integers(1, n)), n))
        bands[0] = np.exp(bands[0])
        return BandedNoise(np.where(np.add.outer(np.arange(len(bands)), np.arange(n)) < n, bands, 0.0))
    if kind == "time-varying":
        d = draw(st.integers(1, 3))
        outputs, inputs = rng.uniform(0, 1, (2, n, d))
        return TimeVaryingBuffers(rng.uniform(0, 1, d), outputs, inputs, np.exp(rng.normal(size=n)))
    if kind == "tree":
        decoders: tuple[Decoder, ...] = ("binary", "online")
        return BinaryTree(n, decoder=draw(st.sampled_from(decoders)), decay=draw(st.just(0.0) | st.floats(0.01, 0.9)))
    return MatrixNoise.honaker(n) if kind == "honaker" else MatrixNoise.fourier(n)


# -- noise cancellation ------------------------------------------------------------------------------------------------


def loss_classes() -> st.SearchStrategy[LossClass]:
    """Losses from nearly linear to strongly curved."""
    from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass

    return st.builds(LossClass, log_uniform(1e-2, 1e2), log_uniform(1e-3, 1e2), log_uniform(1e-2, 1e2))


def prefix_noise(stds: list[float]) -> MatrixNoise:
    """Independent prefix noise with these standard deviations."""
    return MatrixNoise(np.tril(np.ones((len(stds), len(stds)))) / np.array(stds)[:, np.newaxis])


def machine_noises() -> st.SearchStrategy[Mechanism]:
    """Noise of a machine for at least 12 participations."""
    shares = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(1e-3, 1))
    return st.one_of(
        st.builds(lambda a, g: cancelling_noise(12, share=a, growth=g), shares, st.floats(0, 2)),
        st.sampled_from([NuFTRL(0), DPSGD(), AntiPGD(0), ProductNoise([0.0], [0.75])]),
        st.sampled_from([PoleNoise([0.01, 0.2], [0.1, 0.5]), FiniteNoise([1.0, -0.5, -0.2])]),
        st.sampled_from([BinaryTree(12), BinaryTree(12, decoder="binary")]),
        st.lists(st.floats(0.5, 2), min_size=12, max_size=12).map(prefix_noise),
    )


def rounds_of_a_machine(rounds: int, most: int) -> st.SearchStrategy[list[int]]:
    """The rounds of a machine, increasing, at least one and at most ``most`` of ``rounds``."""
    return st.sets(st.integers(1, rounds), min_size=1, max_size=most).map(sorted)


@st.composite
def interlacing_gaps(draw: st.DrawFn, most: int = 4, smallest: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
    """Zeros and poles of buffered noise: gaps g_1 < h_1 < g_2 < … < h_d < 1, at least 1 percent apart."""
    d = draw(st.integers(1, most))
    ratios = [draw(log_uniform(0.01, -np.log(smallest) / (2 * d))) for _ in range(2 * d)]
    gaps = np.exp(-np.cumsum(ratios))[::-1]
    return gaps[::2], gaps[1::2]
