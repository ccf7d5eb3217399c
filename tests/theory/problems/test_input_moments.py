"""Moments of inputs, the recursion of the fourth moments of iterates, and where it converges.

The oracles enumerate discrete inputs: five-point laws that have the first nine moments of the continuous ones.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import gamma

from corrnoise.theory.problems import input_moments as moments
from corrnoise.theory.problems.input_moments import InputMoments, change_of, fourth_moments_are_finite, inflow_of
from corrnoise.theory.problems.quadratic import LinearRegression

FREEDOM = 9.5
INPUTS = {
    "gaussian": InputMoments.gaussian(),
    "uniform": InputMoments.uniform(),
    "signs": InputMoments.signs(),
    "student-t": InputMoments.student_t(FREEDOM),
}
NORMAL, UNIFORM = stats.norm(), stats.uniform(-math.sqrt(3), 2 * math.sqrt(3))


def moment(name, n):
    """E zⁿ for even n, from the density."""
    if name == "student-t":
        factor = (FREEDOM - 2) ** (n / 2) * gamma((n + 1) / 2) * gamma((FREEDOM - n) / 2)
        return factor / (math.sqrt(math.pi) * gamma(FREEDOM / 2))
    return 1.0 if name == "signs" else {"gaussian": NORMAL, "uniform": UNIFORM}[name].moment(n)


def gauss_rule(name):
    """Values and probabilities of a discrete law with the moments 1, …, 9 of standardised inputs (Golub and Welsch)."""
    if name == "signs":
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    m = [moment(name, n) if n % 2 == 0 else 0.0 for n in range(10)]
    # eigenvalues of multiplication by z in the orthonormal polynomials of degree below 5
    hankel, shifted = (np.array([[m[i + j + s] for j in range(5)] for i in range(5)]) for s in (0, 1))
    root = np.linalg.inv(np.linalg.cholesky(hankel))
    values, vectors = np.linalg.eigh(root @ shifted @ root.T)
    return values, vectors[0] ** 2


def fourth_moment_step(moments, rates, inputs):
    """One step of M_ij = E φ_i² φ_j² without any source, as the fixed point takes it to be."""
    change = change_of(rates, inputs)
    return (1 - change.decay) * moments + inflow_of(change, np.diag(moments), moments.sum(axis=1))


def enumerated(name, d):
    """All inputs z of shape (d,), with their probabilities."""
    values, probabilities = gauss_rule(name)
    for choice in itertools.product(range(values.size), repeat=d):
        yield probabilities[list(choice)].prod(), values[list(choice)]


def explicit_matrix(rates, inputs):
    """The recursion as a matrix that acts on the entries i <= j of M."""
    d = rates.size
    entries = [(i, j) for i in range(d) for j in range(i, d)]
    columns = []
    for i, j in entries:
        unit = np.zeros((d, d))
        unit[i, j] = unit[j, i] = 1
        after = fourth_moment_step(unit, rates, inputs)
        np.testing.assert_allclose(after, after.T, atol=1e-14)
        columns.append([after[e] for e in entries])
    return np.array(columns).T


def spectral_radius(matrix):
    return np.abs(np.linalg.eigvals(matrix)).max()


@pytest.mark.parametrize("name", INPUTS)
def test_moments_are_those_of_the_standardised_law(name):
    found = INPUTS[name]
    assert moment(name, 2) == pytest.approx(1, rel=1e-12)
    exact = [moment(name, n) for n in (4, 6, 8)]
    np.testing.assert_allclose([found.fourth, found.sixth, found.eighth], exact, 1e-12)


@pytest.mark.parametrize(("freedom", "finite"), [(4, 0), (4.1, 1), (6, 1), (6.1, 2), (8, 2), (8.1, 3)])
def test_moments_of_student_t_are_infinite_from_its_degrees_of_freedom_on(freedom, finite):
    found = InputMoments.student_t(freedom)
    assert np.isfinite([found.fourth, found.sixth, found.eighth]).tolist() == [n < finite for n in range(3)]


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_a_step_of_the_fourth_moments_is_the_mean_over_all_inputs(name, d):
    rng = np.random.default_rng(d)
    rates = rng.uniform(0.05, 0.8, d)
    before, after = np.zeros((d, d)), np.zeros((d, d))
    for _ in range(3):  # iterates are any law; here three vectors
        phi = rng.normal(size=d)
        before += np.outer(phi**2, phi**2)
        for p, z in enumerated(name, d):
            moved = phi - rates * z * (z @ phi)
            after += p * np.outer(moved**2, moved**2)
    np.testing.assert_allclose(fourth_moment_step(before, rates, INPUTS[name]), after, rtol=1e-10)


@pytest.mark.parametrize("moment", ["fourth", "sixth", "eighth"])
def test_a_step_depends_on_every_moment(moment):
    """Mutants: with one moment off by 1e-6 the enumeration is missed."""
    rates, phi = np.array([0.4, 0.7]), np.array([1.0, -0.6])
    wrong = {m: getattr(INPUTS["gaussian"], m) * (1 + 1e-6 * (m == moment)) for m in ("fourth", "sixth", "eighth")}
    step = fourth_moment_step(np.outer(phi**2, phi**2), rates, InputMoments(**wrong, code=0))
    moved = [(p, phi - rates * z * (z @ phi)) for p, z in enumerated("gaussian", 2)]
    exact = sum(p * np.outer(m**2, m**2) for p, m in moved)
    assert np.abs(step / exact - 1).max() > 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_convergence_in_two_dimensions_against_the_fourth_tensor_power(name):
    """E (I − x z zᵀ)^{⊗4}, a 16 × 16 matrix, contracts exactly where the answer is yes."""
    rng = np.random.default_rng(1)
    answers = []
    for _ in range(200):
        rates = rng.uniform(0.05, 1, 2) * rng.choice([0.1, 0.6, 1.2])
        if not LinearRegression(rates, 1.0, kurtosis=INPUTS[name].fourth).instability() < 1:
            continue
        power = np.zeros((16, 16))
        for p, z in enumerated(name, 2):
            step = np.eye(2) - np.outer(rates * z, z)
            twice = np.kron(step, step)
            power += p * np.kron(twice, twice)
        answers.append(fourth_moments_are_finite(rates, INPUTS[name]))
        assert answers[-1] == (spectral_radius(power) < 1), rates
    assert sum(answers) > 10  # both answers occur …
    assert name == "signs" or sum(not a for a in answers) > 10  # … but for signs, whose steps never lengthen θ


@pytest.mark.parametrize("name", INPUTS)
def test_convergence_in_more_dimensions_against_the_eigenvalues_of_the_recursion(name):
    rng = np.random.default_rng(2)
    inputs, answers = INPUTS[name], []
    while len(answers) < 120:
        rates = rng.exponential(size=rng.integers(1, 7)) ** 2
        rates *= rng.uniform(0.01, 2) / rates.sum()
        if LinearRegression(rates, 1.0, kurtosis=inputs.fourth).instability() < 1:
            matrix = explicit_matrix(rates, inputs)
            answers.append(fourth_moments_are_finite(rates, inputs))
            assert answers[-1] == (spectral_radius(matrix) < 1), rates
            assert name == "signs" or matrix.min() >= 0  # which the argument for the criterion rests on
    assert sum(answers) > 20


@pytest.mark.parametrize(("exponent", "threshold"), [(1.0, 0.3171), (0.7, 0.1657), (0.5, 0.0919), (0.4, 0.0662)])
def test_thresholds_of_power_law_spectra_in_128_dimensions(exponent, threshold):
    eigenvalues = np.arange(1, 129) ** -exponent
    finite = [
        fourth_moments_are_finite(f * eigenvalues, INPUTS["gaussian"]) for f in (threshold - 1e-4, threshold + 1e-4)
    ]
    assert finite == [True, False]


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("d", [1, 2, 128, 300, 5000])
def test_stable_problems_of_any_size_and_any_rate(d, exponent):
    """From tiny rates up to 0.97 (one or two dimensions: 0.5) of the limit of second moments, and not beyond it."""
    eigenvalues = np.arange(1, d + 1) ** -exponent
    limit = brentq(lambda e: (e * eigenvalues / (1 - e * eigenvalues)).sum() / 2 - 1, 1e-9, 0.999)
    for rate in (1e-300, 1e-100, 1e-20, 1e-8, 1e-3 * limit, limit * (0.97 if d > 2 else 0.5)):
        assert fourth_moments_are_finite(rate * eigenvalues, INPUTS["gaussian"]), rate
    assert not fourth_moments_are_finite(1.001 * limit * eigenvalues, INPUTS["gaussian"])


def test_lumping_rates_errs_on_the_side_of_divergence(monkeypatch):
    rng = np.random.default_rng(3)
    spectra = rng.exponential(size=(100, 8))
    spectra *= rng.uniform(0.5, 1, (100, 1)) / spectra.sum(axis=1, keepdims=True)
    exact = np.array([fourth_moments_are_finite(x, INPUTS["gaussian"]) for x in spectra])
    monkeypatch.setattr(moments, "LARGEST_DIMENSION", 4)
    lumped = np.array([fourth_moments_are_finite(x, INPUTS["gaussian"]) for x in spectra])
    assert not (lumped & ~exact).any()
    assert (exact & ~lumped).sum() in range(1, 20)  # it does err, seldom
    assert lumped.sum() > 20


def test_inputs_without_eighth_moments_never_have_finite_fourth_moments():
    assert not fourth_moments_are_finite(np.array([1e-6]), InputMoments.student_t(8))
    assert fourth_moments_are_finite(np.array([1e-6]), InputMoments.student_t(8.5))


@pytest.mark.parametrize(("largest", "finite"), [(0.38, True), (0.39, False)])
def test_rates_of_all_magnitudes_at_once(largest, finite):
    """E (1 − x z²)⁴ < 1 up to x = 0.3834: what the largest rate decides by itself."""
    rates = np.array([1e-300, largest, 1e-60, 1e-20, 1e-8, 1e-4])
    assert fourth_moments_are_finite(rates, INPUTS["gaussian"]) == finite
