"""Forms for other libraries against explicit Toeplitz matrices, partial sums at 60 digits and published numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from corrnoise.solvers.rational.exchange import (
    BufferForm,
    Matrix,
    buffer_form,
    noise_from_buffers,
    noise_from_strategy,
    toeplitz_form,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.rational.approximation import rational
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.rounding import DTYPES
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.problems.quadratic import LinearRegression
from tests import oracles
from tests.strategies import gaps, log_uniform

APPROXIMATED: list[ToeplitzNoise] = [
    DPSGD(),
    AntiPGD(0.1),
    NuFTRL(1e-2),
    NuFTRL(1e-4),
    NuFTRL(1e-8),
    NuFTRL(1.7),
    optimal_noise(LinearRegression(1 / np.arange(1.0, 33), 0.03)),
]


@st.composite
def pole_noises(draw: st.DrawFn, most: int = 4) -> PoleNoise:
    """Rational noise with simple zeros and poles, not too close to each other or to gap 1, and as many of both."""
    count = draw(st.integers(1, most))
    places = np.sort(draw(st.lists(gaps(1e-4), min_size=2 * count, max_size=2 * count, unique=True)))
    near = np.minimum(places, 2 - places)
    assume((np.diff(places) > 1e-3 * np.maximum(near[1:], near[:-1])).all() and (np.abs(places - 1) > 1e-3).all())
    shuffled = draw(st.permutations(places.tolist()))
    return PoleNoise(shuffled[:count], shuffled[count:])


# -- all coefficients --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", APPROXIMATED, ids=repr)
def test_columns_are_inverse_to_each_other_as_explicit_matrices(noise: ToeplitzNoise) -> None:
    form = toeplitz_form(noise, 12)
    inverse = oracles.inverse(oracles.toeplitz(form.noising_coef.tolist(), 12))
    column = [float(row[0]) for row in inverse]
    assert form.strategy_coef == pytest.approx(column, rel=1e-13)
    if form.strategy_coef[1] != 0:
        assert form.noising_coef != pytest.approx(column, rel=1e-13)
    assert not form.noising_coef.flags.writeable
    assert not form.strategy_coef.flags.writeable


@given(gaps(1e-9), st.integers(1, 40), log_uniform(1e-3, 1e3))
def test_sensitivity_of_coefficients_covers_noise_and_both_columns(nu: float, steps: int, rho: float) -> None:
    form = toeplitz_form(NuFTRL(nu), steps)
    with workdps(40):
        series = [oracles.binomial_coefficient(nu, Fraction(-1, 2), t) for t in range(steps)]
        exact = [oracles.norm(series), oracles.norm(form.strategy_coef)]
        exact.append(oracles.norm(oracles.reciprocal(form.noising_coef.tolist(), steps)))
        assert mpf(form.sensitivity) >= max(exact)
        assert mpf(form.sensitivity) <= max(exact) * (1 + mpf(10) ** -13)
        multiplier = mpf(form.noise_multiplier(rho, matrix="strategy", adjacency="replace-one"))
        assert multiplier >= 2 * max(exact) / mp.sqrt(2 * mpf(rho))


def test_long_columns_have_the_sensitivity_of_the_noise() -> None:
    noise, steps = NuFTRL(1e-4), 100_000
    assert 1 <= toeplitz_form(noise, steps).sensitivity / noise.sensitivity(steps) < 1 + 1e-8


def test_a_wild_noise_has_no_sensitivity_to_rely_on() -> None:
    # γ_T = 1e4^{T−1}, beyond what rounding of the noising column leaves of it.
    form = toeplitz_form(FiniteNoise([1.0, -1e4]), 60)
    assert form.sensitivity >= 1e4**59


def test_banded_strategies_are_read() -> None:
    strategy = [2.0, 1.0, 0.25]
    noise = noise_from_strategy(strategy, 9)
    explicit = oracles.inverse(oracles.toeplitz([Fraction(c) for c in strategy], 9))
    assert noise.coefficients(9) == pytest.approx([float(row[0]) for row in explicit], rel=1e-15)
    assert noise.sensitivity(Participation.single(9)) == pytest.approx(math.sqrt(4 + 1 + 1 / 16), rel=1e-14)
    assert noise.sensitivity(Participation.single(1)) == 2
    assert noise_from_strategy(noise.inverse_coefficients(9), 9).coefficients(9) == pytest.approx(noise.coefficients(9))


# -- buffers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", APPROXIMATED, ids=repr)
def test_buffers_reproduce_the_coefficients(noise: ToeplitzNoise) -> None:
    rational, steps = rational(noise, 1e-6), 20_000
    assert isinstance(rational, PoleNoise)
    strategy, noising = buffer_form(rational), buffer_form(rational, "noising")
    assert strategy.coefficients(steps) == pytest.approx(rational.inverse_coefficients(steps), rel=1e-10, abs=1e-16)
    assert noising.coefficients(steps) == pytest.approx(rational.coefficients(steps), rel=1e-10, abs=1e-16)
    assert (np.diff(strategy.buf_decay) < 0).all()
    if strategy.buf_decay.size:
        late = BufferForm(strategy.buf_decay, strategy.output_scale * strategy.buf_decay)  # Σ ω θᵗ, one step late
        assert late.coefficients(20) != pytest.approx(rational.inverse_coefficients(20), rel=1e-10, abs=1e-16)
        assert strategy.coefficients(20) != pytest.approx(rational.coefficients(20), rel=1e-10, abs=1e-16)


@given(pole_noises())
def test_buffers_of_any_rational_noise_are_inverse_matrices(noise: PoleNoise) -> None:
    forms, steps = [buffer_form(noise, matrix) for matrix in ("strategy", "noising")], 30
    strategy, noising = (form.coefficients(steps) for form in forms)
    sizes = [np.append(1.0, np.abs(f.output_scale) @ np.abs(f.buf_decay[:, None]) ** np.arange(29)) for f in forms]
    assert (np.abs(noising - noise.coefficients(steps)) <= 1e-12 * sizes[1] + 1e-30).all()
    assert (np.abs(np.convolve(strategy, noising)[1:steps]) <= 1e-11 * np.convolve(sizes[0], sizes[1])[1:steps]).all()


@given(pole_noises())
@settings(max_examples=30)
def test_buffers_are_read_back(noise: PoleNoise) -> None:
    for matrix in ("strategy", "noising"):
        form = buffer_form(noise, matrix)
        # Decays are rounded to 1e-16, which moves gaps by more where scales of both signs nearly cancel.
        error = 1e-14 * (1 + np.abs(form.output_scale).max()) ** 2 * 1e4
        try:
            read = noise_from_buffers(form)
        except ValueError:
            if error <= 1:  # beyond, rounding may make two close zeros complex, or move them anywhere
                raise
            with pytest.raises(ValueError, match=r"form must (have real zeros|be of stable)"):
                noise_from_buffers(form)
            continue
        assert read.zeros == pytest.approx(noise.zeros, rel=1e-9, abs=error)
        assert read.poles == pytest.approx(noise.poles, rel=1e-9, abs=error)


@given(gaps(1e-8))
@settings(max_examples=20)
def test_buffers_of_approximations_are_read_back_to_rounding(nu: float) -> None:
    rational = rational(NuFTRL(nu), 1e-6)
    assert isinstance(rational, PoleNoise)
    for matrix in ("strategy", "noising"):
        read = noise_from_buffers(buffer_form(rational, matrix))
        assert read.zeros == pytest.approx(rational.zeros, rel=1e-9, abs=1e-15)
        assert read.poles == pytest.approx(rational.poles, rel=1e-9, abs=1e-15)


def direct_norm(form: BufferForm, steps: int) -> mpf:
    """‖c‖ of the floats of ``form``, by adding up ``steps`` terms."""
    powers = [mpf(s) for s in form.output_scale.tolist()]
    total = mpf(1)
    for _ in range(steps - 1):
        total += mp.fsum(powers) ** 2
        powers = [p * mpf(d) for p, d in zip(powers, form.buf_decay.tolist(), strict=True)]
    return mp.sqrt(total)


@given(
    st.lists(st.tuples(st.floats(-0.9, 0.9), st.floats(-2, 2)), max_size=4), st.integers(1, 50), log_uniform(1e-3, 1e3)
)
def test_sensitivity_of_buffers_is_that_of_the_floats_handed_over(
    pairs: list[tuple[float, float]], steps: int, rho: float
) -> None:
    form = BufferForm(np.array([d for d, _ in pairs]), np.array([s for _, s in pairs]))
    with workdps(60):
        for length, terms in ((steps, steps), (None, 1200)):  # 0.9^2400 < 1e-109
            exact = direct_norm(form, terms)
            bound = mpf(form.sensitivity_upper_bound(length))
            assert exact * (1 - mpf(10) ** -55) <= bound <= exact * (1 + mpf(10) ** -15)
            assert mpf(form.noise_multiplier(rho, length)) >= exact * (1 - mpf(10) ** -55) / mp.sqrt(2 * mpf(rho))


def test_decays_that_are_rounded_to_one_have_no_limit_but_a_horizon() -> None:
    form = buffer_form(PoleNoise([1e-20, 0.3], [0.1, 0.5]))
    assert form.buf_decay[0] == 1
    assert form.sensitivity_upper_bound() == math.inf
    assert form.noise_multiplier(1.0) == math.inf
    with workdps(60):
        assert float(direct_norm(form, 100)) <= form.sensitivity_upper_bound(Participation.single(100)) <= float(direct_norm(form, 101))
    assert BufferForm([1.0], [0.0]).sensitivity_upper_bound() == pytest.approx(1)


def test_slow_buffers_have_a_sensitivity_of_their_own() -> None:
    # At ν = 1e-8 rounding of the decays moves γ_∞ by 3e-11, which is more than rounding of γ_∞ itself.
    rational = rational(NuFTRL(1e-8), 1e-6)
    assert isinstance(rational, PoleNoise)
    form = buffer_form(rational)
    ratio = form.sensitivity_upper_bound() / rational.limiting_sensitivity()
    assert 1e-13 < abs(ratio - 1) < 1e-9
    assert noise_from_buffers(form).limiting_sensitivity() == pytest.approx(form.sensitivity_upper_bound(), rel=1e-13)


def test_published_buffers_have_the_published_privacy() -> None:
    """Two participations 50 steps apart in 100 steps with unit noise: ρ = 3.17226586, in federated-compute's tests."""
    form = BufferForm(
        [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778],
        [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734],
    )

    def privacy(column: np.ndarray) -> float:
        return float(np.square(column + np.concatenate([np.zeros(50), column[:50]])).sum() / 2)

    assert privacy(form.coefficients(100)) == pytest.approx(3.17226586, rel=1e-8)
    assert privacy(noise_from_buffers(form).inverse_coefficients(100)) == pytest.approx(3.17226586, rel=1e-8)
    late = np.append(1.0, form.coefficients(101)[2:])
    assert privacy(late) != pytest.approx(3.17226586, rel=1e-3)


def test_noising_matrices_have_no_sensitivity() -> None:
    form = buffer_form(PoleNoise([0.1], [0.3]), "noising")
    with pytest.raises(ValueError, match="matrix must be 'strategy'"):
        form.sensitivity_upper_bound(Participation.single(10))
    with pytest.raises(ValueError, match="matrix must be 'strategy'"):
        form.noise_multiplier(1.0)


@pytest.mark.parametrize(
    ("zeros", "poles", "matrix"),
    [
        ([0.1, 0.1], [0.3, 0.4], "strategy"),  # equal decays
        ([0.3, 0.4], [0.1, 0.1], "noising"),
        ([0.1, 0.2, 0.3], [0.4], "noising"),  # β_2 is not of this form
        ([0.4], [0.1, 0.2, 0.3], "strategy"),
    ],
)
def test_noise_without_buffers_is_refused(zeros: list[float], poles: list[float], matrix: Matrix) -> None:
    with pytest.raises(ValueError, match="noise must have distinct"):
        buffer_form(PoleNoise(zeros, poles), matrix)


def test_one_step_more_is_a_buffer_that_forgets_at_once() -> None:
    form = buffer_form(PoleNoise([0.1, 0.3], [0.5]), "noising")
    assert form.buf_decay.tolist() == [0.5, 0.0]
    assert form.coefficients(9) == pytest.approx(PoleNoise([0.1, 0.3], [0.5]).coefficients(9), rel=1e-14)


@pytest.mark.parametrize(
    ("decay", "scale", "message"),
    [
        ([0.5, 0.4], [1.0, -1.0], "real zeros"),
        ([0.5], [3.0], "stable, minimum-phase noise"),  # a zero of the strategy inside the unit circle
    ],
)
def test_buffers_of_other_noise_are_refused(decay: list[float], scale: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        noise_from_buffers(BufferForm(decay, scale))


def test_arguments_of_forms_are_checked() -> None:
    with pytest.raises(ValueError, match=r"buf_decay must lie in \[-1, 1\], got 1.5"):
        BufferForm([1.5], [1.0])
    with pytest.raises(ValueError, match="the same length, got 1 and 2"):
        BufferForm([0.5], [1.0, 2.0])
    with pytest.raises(ValueError, match="buf_decay must be a vector"):
        BufferForm([[0.5]], [[1.0]])
    with pytest.raises(ValueError, match="matrix must be one of 'strategy', 'noising', got 'decoder'"):
        buffer_form(PoleNoise([0.1], [0.3]), "decoder")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="noise must be PoleNoise"):
        buffer_form(NuFTRL(0.1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        toeplitz_form(NuFTRL(0.1), 0)
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        BufferForm([0.5], [1.0]).sensitivity_upper_bound(Participation.single(0))


# -- as they are run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", APPROXIMATED, ids=repr)
def test_recurrences_make_the_noise_of_the_buffers(noise: ToeplitzNoise) -> None:
    rational = rational(noise, 1e-6)
    assert isinstance(rational, PoleNoise)
    form = buffer_form(rational)
    z = np.random.default_rng(0).standard_normal(2000)
    exact = np.convolve(z, rational.coefficients(2000))[:2000]
    assert form.noise_as_run(z, dtype="float64") == pytest.approx(exact, rel=1e-10, abs=1e-10)
    coarse = form.noise_as_run(z, dtype="float32")
    assert coarse == pytest.approx(exact, rel=1e-3, abs=1e-4)
    if form.buf_decay.size:
        assert coarse != pytest.approx(exact, rel=1e-10, abs=1e-10)
        assert form.noise_as_run(z, dtype="float64") != pytest.approx(z, rel=1e-3)


@given(pole_noises(), st.integers(1, 60), log_uniform(1e-3, 1e3))
@settings(max_examples=40)
def test_multipliers_of_runs_cover_those_of_exact_arithmetic(noise: PoleNoise, steps: int, rho: float) -> None:
    form = buffer_form(noise)
    for length in (steps, None):
        exact = form.sensitivity_upper_bound(length)
        run = [form.sensitivity_as_run(length, dtype=dtype) for dtype in DTYPES]
        assert exact <= run[0]
        assert form.stored_as("float32").sensitivity_upper_bound(length) <= run[1]
        for dtype, gamma in zip(DTYPES, run, strict=True):
            assert form.noise_multiplier(rho, length, dtype=dtype) >= gamma / math.sqrt(2 * rho) * (1 - 1e-15)
    columns = toeplitz_form(noise, steps)
    for matrix in ("strategy", "noising"):
        gammas = [columns.sensitivity_as_run(matrix=matrix, dtype=dtype) for dtype in DTYPES]
        assert noise.sensitivity(steps) * (1 - 1e-12) <= gammas[0] <= gammas[1] * (1 + 1e-6)
        for dtype, gamma in zip(DTYPES, gammas, strict=True):
            assert columns.noise_multiplier(rho, matrix=matrix, dtype=dtype) >= gamma / math.sqrt(2 * rho) * (1 - 1e-15)


def test_what_cannot_be_run_is_named() -> None:
    form = buffer_form(PoleNoise([0.1], [0.3]))
    with pytest.raises(ValueError, match="dtype must be one of 'float64', 'float32', got 'bfloat16'"):
        form.noise_as_run([1.0], dtype="bfloat16")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype must be one of"):
        form.noise_multiplier(1.0, dtype="float16")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="matrix must be one of 'strategy', 'noising', got 'decoder'"):
        toeplitz_form(NuFTRL(0.1), 3).noise_multiplier(1.0, matrix="decoder")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="matrix must be 'strategy'"):
        buffer_form(PoleNoise([0.1], [0.3]), "noising").noise_as_run([1.0], dtype="float64")
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        form.sensitivity_as_run(0, dtype="float64")
    with pytest.raises(ValueError, match="output_scale must lie in"):
        BufferForm([0.5], [1e300]).stored_as("float32")


def test_scales_beyond_the_range_of_floats_are_refused() -> None:
    crowded = PoleNoise(0.5 + np.arange(40) * 1e-15, np.linspace(0.6, 0.9, 40))
    with pytest.raises(ValueError, match=r"further apart for scales within floats|distinct zeros"):
        buffer_form(crowded)
    with pytest.raises(ValueError, match="noise must have distinct zeros"):
        buffer_form(PoleNoise([1e-18, 2e-18], [0.1, 0.2]))  # both decays are 1


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0.0, 1.0], r"strategy_coef\[0\] must not be 0"),
        ([], "strategy_coef must be a non-empty vector"),
        ([1.0, math.nan], "strategy_coef must lie in"),
    ],
)
def test_strategies_that_are_none_are_named(column: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        noise_from_strategy(column, 5)


def test_strategies_without_an_inverse_in_the_range_of_floats_are_named() -> None:
    with pytest.raises(
        OverflowError, match="strategy_coef must have an inverse within the range of floats for 5 steps"
    ):
        noise_from_strategy([1e-300, 1.0], 5)


def test_what_is_no_noise_and_no_form_is_named() -> None:
    with pytest.raises(TypeError, match="noise must be correlated noise"):
        toeplitz_form(None, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="form must be BufferForm"):
        noise_from_buffers(None)  # type: ignore[arg-type]
