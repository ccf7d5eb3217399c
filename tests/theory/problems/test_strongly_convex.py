"""The closed forms of the strongly convex bound against raw matrices, mpmath quadrature and exact quadratics."""

import math

import mpmath as mp
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import CRITERIA, StronglyConvex, circle_multiplier, frequency_condition
from tests.strategies import log_uniform, noises

EPSILON = {"distance": 0.0, "objective": 1.0}


@st.composite
def rates(draw, least=1e-4):
    """(m, l) with 0 < m < l < 2, crowding at κ = 1, at 0 and at 2."""
    fast = draw(log_uniform(10 * least, 1.0) | log_uniform(1e-3, 1.0).map(lambda gap: 2 - gap))
    slow = fast * draw(log_uniform(least / fast, 1.0) | log_uniform(1e-3, 1.0).map(lambda gap: 1 - gap))
    return max(slow, least), fast


rates_apart = rates().filter(lambda pair: pair[0] < (1 - 1e-3) * pair[1])
frequencies = st.floats(1e-6, math.pi)
multipliers = st.tuples(log_uniform(1e-3, 1e6), st.floats(-1, 1)).map(lambda p: complex(p[0], p[0] * p[1]))


def at(slow, fast, omega, criterion):
    return frequency_condition(slow, fast, np.array([omega]), criterion)


# -- the record --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0, 1.0), "strong_convexity"),
        ((-1.0, 1.0, 1.0), "strong_convexity"),
        ((1.0, 0.5, 1.0), "smoothness"),
        ((1.0, math.inf, 1.0), "smoothness"),
        ((1.0, 1.0, 0.0), "learning_rate"),
        ((1e-200, 1.0, 1e-200), "learning_rate × strong_convexity"),
        ((1.0, 1e200, 1e200), "learning_rate × smoothness"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        StronglyConvex(*arguments)


def test_bad_keywords_are_named():
    with pytest.raises(ValueError, match="dimension"):
        StronglyConvex(0.1, 1, 1, dimension=0)
    with pytest.raises(TypeError, match="dimension"):
        StronglyConvex(0.1, 1, 1, dimension=1.5)
    with pytest.raises(ValueError, match="gradient_noise_std"):
        StronglyConvex(0.1, 1, 1, gradient_noise_std=-1)
    with pytest.raises(TypeError, match="smoothness"):
        StronglyConvex(0.1, "1", 1)


def test_unstable_learning_rates_have_infinite_bounds():
    problem = StronglyConvex(0.1, 1, 2)
    assert not problem.stable
    assert problem.independent_noise_upper_bound() == math.inf
    assert problem.worst_quadratic_error(NuFTRL(0.1)) == math.inf
    with pytest.raises(ValueError, match="learning_rate"):
        problem.frequency_condition([0.1])


def test_frequencies_and_criteria_are_checked():
    problem = StronglyConvex(0.1, 1, 1)
    with pytest.raises(ValueError, match="frequencies"):
        problem.frequency_condition([4.0])
    with pytest.raises(ValueError, match="criterion"):
        problem.frequency_condition([1.0], "distances")


# -- one frequency -----------------------------------------------------------------------------------------------------


def hermitian(slow, fast, omega, lam, criterion):
    """Matrix in (Θ, Y) of l|Θ|² − ε|Q|²/δ + (2/δ) Re(P*ΛQ), from P, Q and the recursion."""
    delta, d = fast - slow, 1 - np.exp(1j * omega)
    p = np.array([d - slow, -1])  # rows in (Θ, Y)
    q = np.array([fast - d, 1])
    theta = np.array([1, 0])

    def form(one, other):
        return np.outer(one.conj(), other)

    pq = lam * form(p, q)
    return fast * form(theta, theta) - EPSILON[criterion] * form(q, q) / delta + (pq + pq.conj().T) / delta


def largest_ratio(matrix):
    """max over (Θ, Y) of the form by |Y|²; inf where it is positive at Y = 0."""
    if matrix[0, 0].real >= 0:
        return math.inf
    return (matrix[1, 1] - abs(matrix[0, 1]) ** 2 / matrix[0, 0]).real


@given(rates_apart, frequencies, multipliers, st.sampled_from(CRITERIA))
def test_gain_is_the_largest_ratio_of_the_raw_form(pair, omega, lam, criterion):
    condition = at(*pair, omega, criterion)
    a, b = np.array([lam.real]), np.array([lam.imag])
    matrix = hermitian(*pair, omega, lam, criterion)
    slack = float(condition.slack(a, b)[0])
    scale = abs(lam) + pair[1]
    assert slack == pytest.approx(-matrix[0, 0].real * (pair[1] - pair[0]), abs=1e-13 * scale)
    if slack > 1e-6 * scale:
        size = np.abs(matrix).max() ** 2 / -matrix[0, 0].real
        assert float(condition.gain(a, b)[0]) == pytest.approx(largest_ratio(matrix), rel=1e-9, abs=1e-13 * size)
        wrong = largest_ratio(hermitian(*pair, omega, lam.conjugate(), criterion))
        if abs(math.sin(omega) * lam.imag) > 1e-3 * abs(lam):
            assert float(condition.gain(a, b)[0]) != pytest.approx(wrong, rel=1e-6)
    if slack < -1e-6 * scale:
        assert condition.gain(a, b)[0] == math.inf


@given(rates_apart, frequencies, multipliers, st.sampled_from(CRITERIA))
def test_cone_form(pair, omega, lam, criterion):
    condition = at(*pair, omega, criterion)
    a, b = np.array([lam.real]), np.array([lam.imag])
    u = condition.slack(a, b)
    if u[0] <= 1e-6 * (abs(lam) + 1):
        return
    v = condition.width * condition.gain(a, b) + 2 * a + condition.epsilon
    first, second = condition.cone(a, b)
    np.testing.assert_allclose(u * v, first**2 + second**2, rtol=1e-8)


@given(rates(), frequencies, multipliers, st.sampled_from(CRITERIA))
def test_envelope_is_the_worst_quadratic_and_below_every_gain(pair, omega, lam, criterion):
    condition = at(*pair, omega, criterion)
    envelope = float(condition.envelope()[0])
    h = np.linspace(*pair, 4001)
    distance = (h * math.cos(omega / 2)) ** 2 + ((2 - h) * math.sin(omega / 2)) ** 2
    brute = ((h if criterion == "objective" else pair[1]) / distance).max()
    assert brute <= envelope * (1 + 1e-12)
    if omega > 0.05 * pair[1]:
        assert envelope <= brute * 1.01
    assert condition.gain(np.array([lam.real]), np.array([lam.imag]))[0] >= envelope * (1 - 1e-9)


def test_distance_attains_the_envelope_pointwise():
    """The multipliers i/(δs) and its relatives, in the units of ``FrequencyCondition``: times δl."""
    m, ell = 0.1, 1.0
    for omega in (0.2, 0.7, 1.2, 2.0, 3.0):
        condition = at(m, ell, omega, "distance")
        x, s = condition.x[0], condition.s[0]
        if x < m:
            lam = -1 / ((ell - m) * (x - m + 1j * s))
        elif x <= ell:
            lam = 1j / ((ell - m) * s)
        else:
            lam = 1 / ((ell - m) * (x - ell - 1j * s))
        lam *= (ell - m) * ell
        gain = condition.gain(np.array([lam.real]), np.array([lam.imag]))[0]
        assert gain == pytest.approx(condition.envelope()[0], rel=1e-12)


@given(st.floats(0.01, 1.99), frequencies, log_uniform(1e-3, 1e3), st.sampled_from(CRITERIA))
def test_at_condition_number_one_every_multiplier_gives_the_quadratic(rate, omega, size, criterion):
    condition = at(rate, rate, omega, criterion)
    exact = rate / abs(1 - rate - np.exp(1j * omega)) ** 2
    assert condition.gain(np.array([size]), np.array([0.3 * size]))[0] == pytest.approx(exact, rel=1e-10)


# -- the circle criterion ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("pair", [(0.1, 1.0), (0.3, 1.7), (1e-3, 0.1), (0.9, 1.0), (0.5, 1.95)])
def test_circle_criterion_against_quadrature(pair, criterion):
    constant, mean = circle_multiplier(*pair, criterion)
    m, ell = (mp.mpf(rate) for rate in pair)
    delta, epsilon = ell - m, int(EPSILON[criterion])

    def gain(c, omega):
        x, s = 2 * mp.sin(omega / 2) ** 2, mp.sin(omega)
        u = 2 * (x * (2 - m - ell) + m * ell) * c + epsilon * ((x - ell) ** 2 + s**2) - ell * delta
        return (delta * c**2 + ell * (2 * c + epsilon)) / u

    def value(c):
        with mp.workdps(20):
            ladder = [0, m / 10, m, *(k for k in (4 * m, 16 * m) if k < 1), mp.pi / 2, 3, mp.pi]
            return mp.quad(lambda omega: gain(mp.mpf(c), omega), ladder) / mp.pi

    assert mean == pytest.approx(float(value(constant)), rel=1e-11)
    for factor in (0.99, 1.01):
        assert float(value(factor * constant)) > mean * (1 + 1e-9)


@given(
    rates(1e-9) | st.tuples(log_uniform(1e-15, 0.5), log_uniform(1e-9, 1.9)).map(lambda p: ((1 - p[0]) * p[1], p[1]))
)
def test_circle_criterion_at_40_digits(pair):
    """The closed mean at the constant found, and no smaller one beside it, also next to κ = 1."""
    with mp.workdps(40):
        m, ell = (mp.mpf(rate) for rate in pair)
        delta = ell - m

        def mean(c, epsilon):
            r = [x * (2 - m - ell) + m * ell for x in (0, 2)]
            offset = [epsilon * (ell**2 + 2 * x * (1 - ell)) - ell * delta for x in (0, 2)]
            u = [2 * r[k] * c + offset[k] for k in (0, 1)]
            return (delta * c**2 + ell * (2 * c + epsilon)) / mp.sqrt(u[0] * u[1]) if min(u) > 0 else mp.inf

        for criterion, epsilon in EPSILON.items():
            constant, found = circle_multiplier(*pair, criterion)
            beside = [mean(constant * (1 + mp.mpf(k) / 10**4), epsilon) for k in (-100, -1, 1, 100)]
            assert abs(found / mean(mp.mpf(constant), epsilon) - 1) < 1e-12 / (2 - pair[1])
            assert min(beside) > found * (1 - mp.mpf(10) ** -13)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_circle_criterion_at_condition_number_one_is_the_quadratic(criterion):
    assert circle_multiplier(0.5, 0.5, criterion)[1] == pytest.approx(1 / 1.5, rel=1e-15)
    exact = LinearRegression([2.0], 0.7, kurtosis=1.0).stationary_error(DPSGD())
    assert 0.7 / 2 * 0.5 * circle_multiplier(1.4, 1.4, criterion)[1] == pytest.approx(exact, rel=1e-14)  # (η/2) σ² ξ


# -- independent noise in one line -------------------------------------------------------------------------------------

problems = st.builds(
    lambda pair, eta, d, s: StronglyConvex(pair[0] / eta, pair[1] / eta, eta, dimension=d, gradient_noise_std=s),
    rates(),
    log_uniform(1e-2, 1e2),
    st.integers(1, 5),
    st.sampled_from([0.0, 1.0]),
).filter(lambda problem: problem.stable)


@given(problems)
def test_one_line_bound_is_the_worst_quadratic_from_eta_l_one_on(problem):
    bound, worst = problem.independent_noise_upper_bound(), problem.worst_quadratic_error(DPSGD())
    if problem.rates[1] >= 1:
        assert bound == pytest.approx(worst, rel=1e-12)
    assert worst <= bound * (1 + 1e-12)
    assert bound <= worst * (max(1.0, 2 - problem.rates[1]) + 1e-12)


@numba.njit
def squares_and_losses(noise, kinks, slopes, burn, repeat):
    """E θ² and E F of θ ← θ − g(θ) − noise with a piecewise linear g, g(0) = 0, whose slopes change at the kinks > 0.

    slopes[0] is that of θ < 0.
    """
    theta, square, loss, count = 0.0, 0.0, 0.0, 0
    for _ in range(repeat):
        for z in noise:
            count += 1
            g, value = 0.0, 0.0
            if theta < 0:
                g, value = slopes[0] * theta, slopes[0] * theta * theta / 2
            else:
                left = 0.0
                for k in range(len(kinks)):
                    right = min(theta, kinks[k])
                    if right > left:
                        value += g * (right - left) + slopes[k + 1] * (right - left) ** 2 / 2
                        g += slopes[k + 1] * (right - left)
                        left = right
            if count > burn:
                square += theta * theta
                loss += value
            theta -= g + z
    return square / (count - burn), loss / (count - burn)


LOSSES = [
    ([np.inf], [0.1, 1.0]),
    ([np.inf], [1.0, 1.0]),
    ([1.0, np.inf], [1.0, 1.0, 0.1]),
    ([0.5, 2.0, np.inf], [0.1, 0.1, 1.0, 0.1]),
]


# -- the worst quadratic -----------------------------------------------------------------------------------------------


@given(rates(1e-3), noises())
def test_worst_quadratic_is_the_worst_of_exact_errors(pair, noise):
    problem = StronglyConvex(*pair, 1.0)
    worst = problem.worst_quadratic_error(noise, budget=Budget(0.5, clip_norm=2))
    curvatures = np.geomspace(*pair, 60)
    exact = [
        LinearRegression([h], 1.0, kurtosis=1.0).stationary_error(noise, budget=Budget(0.5, clip_norm=2))
        for h in curvatures
    ]
    assert max(exact) <= worst * (1 + 1e-11)
    dense = np.linspace(*pair, 4001)
    shares = noise.averaged_variance(np.clip(dense, *pair)) / (2 - dense)
    assert worst <= 4 / 2 * noise.limiting_sensitivity() ** 2 / 0.5 / 2 * shares.max() * 1.02


def test_worst_quadratic_in_many_dimensions_has_the_gradient_noise_in_one():
    """Against all ways to place d curvatures and to split σ_sgd² on a grid."""
    problem = StronglyConvex(0.05, 1, 1, dimension=3, gradient_noise_std=0.8)
    noise = NuFTRL(0.3)
    h = np.geomspace(0.05, 1, 41)
    variance = noise.limiting_sensitivity() ** 2 / 2
    privacy, other = variance * noise.averaged_variance(h) / (2 - h) / 2, 1 / (2 - h) / 2
    best = 0.0
    for first in np.linspace(0, 0.64, 5):
        for second in np.linspace(0, 0.64 - first, 5):
            parts = (first, second, 0.64 - first - second)
            best = max(best, sum((privacy + part * other).max() for part in parts))
    assert best <= problem.worst_quadratic_error(noise) <= best * 1.001


@pytest.mark.parametrize("noise", [AntiPGD(0.0), NuFTRL(0.0), FiniteNoise([1, -2]), ProductNoise([0.0], [-0.5])])
@pytest.mark.parametrize("dimension", [1, 2])
def test_noise_without_finite_error(noise, dimension):
    """Diverging sensitivity, or a spectrum that is not integrable."""
    assert StronglyConvex(0.1, 1, 1, dimension=dimension).worst_quadratic_error(noise) == math.inf


# -- the sign of the multiplier ----------------------------------------------------------------------------------------


def test_dimensions_beyond_floats_are_refused():
    with pytest.raises(ValueError, match="dimension must be an integer in"):
        StronglyConvex(0.1, 1.0, 1.0, dimension=10**400)
    assert type(StronglyConvex(0.1, 1.0, 1.0, dimension=3).dimension) is int
