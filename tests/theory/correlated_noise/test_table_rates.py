"""Tables 1, 2 and 4: rates against exact errors, printed rows against what they follow from."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from corrnoise.theory.correlated_noise import published_bounds as bounds
from corrnoise.theory.correlated_noise import table_rates as rates
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.strategies import log_uniform, regressions

ISOTROPIC_SLOW = LinearRegression([1.0], 1e-6)
ISOTROPIC_FAST = LinearRegression(np.ones(3), 0.2)  # η R² = 1
DECAYING = LinearRegression(np.arange(1.0, 1025) ** -2, 0.1)


def whole(problem: LinearRegression) -> NuFTRL:
    return NuFTRL(problem.rates.min())


# -- Table 1 -----------------------------------------------------------------------------------------------------------


@given(regressions(), log_uniform(1e-3, 1e3), log_uniform(1e-3, 1e3))
def test_noisy_sgd_is_within_its_constants(problem, rho, clip_norm):
    budget = {"budget": Budget(rho, clip_norm=clip_norm)}
    private = LinearRegression(problem.eigenvalues, problem.learning_rate)
    ratio = private.stationary_error(DPSGD(), **budget) / rates.stationary_error_rate(problem, DPSGD(), **budget)
    assert ratio * (1 + 1e-12) >= 1 / 8
    assert ratio <= 1 / 4 * (1 + 1e-9)


def test_the_constants_of_noisy_sgd_are_sharp():
    slow = ISOTROPIC_SLOW.stationary_error(DPSGD()) / rates.stationary_error_rate(ISOTROPIC_SLOW, DPSGD())
    fast = ISOTROPIC_FAST.stationary_error(DPSGD()) / rates.stationary_error_rate(ISOTROPIC_FAST, DPSGD())
    assert slow < 0.12501
    assert fast > 0.24999


@given(regressions())
def test_nu_noisy_ftrl_is_below_its_constant(problem):
    noise = whole(problem)
    private = LinearRegression(problem.eigenvalues, problem.learning_rate)
    assert private.stationary_error(noise) <= 0.1157 * rates.stationary_error_rate(problem, noise)


def test_nu_noisy_ftrl_needs_its_logarithm():
    """Mutant: one logarithm instead of two."""
    spread = [LinearRegression([1.0], eta) for eta in np.geomspace(1e-2, 1e-140, 6)]
    error = np.array([p.stationary_error(whole(p)) for p in spread])
    two = error / [rates.stationary_error_rate(p, whole(p)) for p in spread]
    one = two * [math.log(8 / p.rates.min()) for p in spread]
    assert two.max() < 1.5 * two.min()
    assert one.max() > 20 * one.min()


@given(regressions())
def test_no_noise_beats_a_quarter_of_the_lower_bound_rate(problem):
    private = LinearRegression(problem.eigenvalues, problem.learning_rate)
    assert private.optimal_error(budget=Budget(2.0)) >= rates.lower_bound_rate(problem, budget=Budget(2.0)) / 4


def test_the_lower_bound_has_the_effective_dimension():
    """Mutant: with the dimension in place of Tr H it is false."""
    rate = rates.lower_bound_rate(DECAYING)
    assert rate == pytest.approx(0.01 * DECAYING.effective_dimension(), rel=1e-12, abs=0)
    assert DECAYING.optimal_error() < rate / DECAYING.effective_dimension() * DECAYING.eigenvalues.size / 4


def test_ratios_of_table_1():
    problem = LinearRegression([1.0, 0.5, 0.01], 0.1)
    d_eff, nu = 1.51, 0.001

    def ratio(p, noise):
        return rates.stationary_error_rate(p, noise) / rates.lower_bound_rate(p)

    assert ratio(problem, DPSGD()) == pytest.approx(3 / (0.1 * d_eff), rel=1e-14, abs=0)
    assert ratio(problem, NuFTRL(nu)) == pytest.approx(math.log(8 / nu) ** 2, rel=1e-14, abs=0)


def test_a_learning_rate_of_at_most_one_does_not_suffice():
    """H = I_128 with η = 1/65: inside the caption of Table 1, and divergent."""
    problem = LinearRegression(np.ones(128), 1 / 65)
    assert problem.stationary_error(DPSGD()) == math.inf
    for noise in (DPSGD(), whole(problem), AntiPGD(0.1)):
        assert rates.stationary_error_rate(problem, noise) == math.inf
    assert rates.lower_bound_rate(problem) == rates.balanced_anti_pgd_rate(problem) == math.inf
    assert math.isfinite(rates.stationary_error_rate(LinearRegression(np.ones(128), 1 / 66), DPSGD()))


@given(st.integers(1, 200), log_uniform(1e-3, 1e3))
def test_stability_needs_a_trace_below_two_over_the_learning_rate(d, scale):
    eigenvalues = scale * np.arange(1.0, d + 1) ** -1
    assert rates.lower_bound_rate(LinearRegression(eigenvalues, 2 / eigenvalues.sum() * (1 + 1e-12))) == math.inf


# -- Table 2 -----------------------------------------------------------------------------------------------------------


@given(regressions(), log_uniform(1e-6, 1.0))
def test_damped_anti_pgd_is_within_its_constants(problem, nu):
    private = LinearRegression(problem.eigenvalues, problem.learning_rate)
    ratio = private.stationary_error(AntiPGD(nu)) / rates.stationary_error_rate(problem, AntiPGD(nu))
    assert ratio * (1 + 1e-9) >= 1 / 16
    assert ratio <= 1 / 4 * (1 + 1e-9)


def test_damped_anti_pgd_needs_both_terms():
    """Mutants: either term alone."""
    first, second = [], []
    for nu in np.geomspace(1e-6, 1, 13):
        error = DECAYING.stationary_error(AntiPGD(nu))
        first.append(error / (0.1 * nu * DECAYING.eigenvalues.size))
        second.append(error / (0.1 * 0.1 * DECAYING.eigenvalues.sum() / nu))
    assert max(first) > 1
    assert max(second) > 1


@given(regressions(), st.floats(-3, 3))
def test_the_balanced_damping_minimises(problem, shift):
    nu = rates.balanced_damping(problem)
    least = rates.stationary_error_rate(problem, AntiPGD(nu))
    other = rates.stationary_error_rate(problem, AntiPGD(min(nu * math.exp(shift), 1.0)))
    assert least <= other * (1 + 1e-14)
    assert rates.balanced_anti_pgd_rate(problem) == pytest.approx(least / 2, rel=1e-13, abs=0)


def test_last_row_of_table_2():
    problem = LinearRegression([1.0, 0.5, 0.01], 0.1)
    expected = 0.1**1.5 * 4 * math.sqrt(3 * 1.51) / 5
    assert rates.balanced_anti_pgd_rate(problem, budget=Budget(5.0, clip_norm=2.0)) == pytest.approx(
        expected, rel=1e-14, abs=0
    )
    assert rates.balanced_anti_pgd_rate(problem, budget=Budget(5.0, clip_norm=2.0)) != pytest.approx(
        0.1**1.5 * 4 * 3 * 1.51 / 5, rel=0.5
    )


def test_undamped_noise_has_no_stationary_error():
    for noise in (NuFTRL(0), AntiPGD(0)):
        assert rates.stationary_error_rate(DECAYING, noise) == math.inf
        assert DECAYING.stationary_error(noise) == math.inf


@pytest.mark.parametrize("nu", [0.0, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.9, 1.0])
def test_sensitivity_rates_are_within_their_constants(nu):
    for steps in (1, 2, 3, 5, 10, 30, 100, 1000, 10**4, 10**5):
        ftrl = NuFTRL(nu).sensitivity(Participation.single(steps)) ** 2 / rates.squared_sensitivity_rate(
            NuFTRL(nu), steps
        )
        anti = AntiPGD(nu).sensitivity(Participation.single(steps)) ** 2 / rates.squared_sensitivity_rate(
            AntiPGD(nu), steps
        )
        assert 0.31 < ftrl < 0.481
        assert 0.43 < anti < 1 + 1e-12
    assert rates.squared_sensitivity_rate(DPSGD(), 7) == 1


def test_anti_pgd_has_the_sensitivity_root_t():
    """Mutant: γ_T = T, the sentence in Section C.5."""
    assert AntiPGD(0).sensitivity(Participation.single(400)) == pytest.approx(20, rel=1e-14, abs=0)
    assert rates.squared_sensitivity_rate(AntiPGD(0), 400) == 400
    assert AntiPGD(0).sensitivity(Participation.single(400)) != pytest.approx(400, rel=0.5, abs=0)


def test_landau_expansion():
    """γ_T² at ν = 0 is Σ (C(2t, t)/4^t)²; what is left is between 5/(192π T²) and 0.0134/T²."""
    with mp.workdps(40):
        total, coefficient = mp.mpf(0), mp.mpf(1)
        for steps in range(1, 3001):
            total += coefficient**2
            coefficient *= mp.mpf(2 * steps - 1) / (2 * steps)
            if steps in (1, 2, 3, 10, 100, 1000, 3000):
                left = float((total - mp.mpf(rates.squared_sensitivity_expansion(NuFTRL(0), steps))) * steps**2)
                assert 5 / (192 * math.pi) * (1 - 1e-6) < left < 0.0134
                assert left + steps / (4 * math.pi) > 0.0134  # mutant: without the term 1/(4πT)


@pytest.mark.parametrize("nu", [1e-3, 0.05, 0.5, 1.0, 1.7])
def test_expansions_of_damped_noise(nu):
    gap = min(nu, 2 - nu)
    for steps in (1, 2, 7, 50, 3000):
        anti = rates.squared_sensitivity_expansion(AntiPGD(nu), steps)
        assert anti == pytest.approx(AntiPGD(nu).sensitivity(Participation.single(steps)) ** 2, rel=1e-12, abs=0)
        left = (
            rates.squared_sensitivity_expansion(NuFTRL(nu), steps)
            - NuFTRL(nu).sensitivity(Participation.single(steps)) ** 2
        )
        assert -1e-13 <= left <= (1 - gap) ** (2 * steps) / (math.pi * steps * gap * (2 - gap)) + 1e-13
    assert rates.squared_sensitivity_expansion(AntiPGD(0), 9) == 9
    assert rates.squared_sensitivity_expansion(DPSGD(), 9) == 1


# -- Table 4 -----------------------------------------------------------------------------------------------------------

EXPONENTS = [0, 0.25, 0.5, 0.95, 0.999, 1, 1.001, 1.2, 2, 5, 16]


def decaying(exponent: float, d: int, eta: float, largest: float = 1.0) -> LinearRegression:
    """λ_k = k^{−a} with η capped so that η R² <= ``largest``."""
    eigenvalues = np.arange(1.0, d + 1) ** -exponent
    return LinearRegression(eigenvalues, min(eta, largest / (eigenvalues.sum() + 2)))


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("d", [1, 2, 7, 64, 4096])
def test_one_expression_holds_for_all_decays(exponent, d):
    for eta in (1.0, 1e-2, 1e-8):
        problem = decaying(exponent, d, eta)
        row = rates.decay_rates(exponent, d, problem.learning_rate, budget=Budget(3.0))
        assert 1 / 2 <= problem.effective_dimension() / row.effective_dimension <= 1 + 1e-12
        assert problem.stationary_error(DPSGD(), budget=Budget(3.0)) / row.noisy_sgd * (1 + 1e-9) >= 1 / 8
        assert problem.stationary_error(DPSGD(), budget=Budget(3.0)) <= row.noisy_sgd / 4 * (1 + 1e-9)
        assert 0.008 < problem.stationary_error(whole(problem), budget=Budget(3.0)) / row.noisy_ftrl < 0.1473
        assert row.ratio == pytest.approx(row.noisy_ftrl / row.noisy_sgd, rel=1e-14, abs=0)


def test_one_expression_by_hand():
    """d = 16, η = 1/8: powers of two, log(8 d^a/η)/log 2 = 6 + 4a."""
    unit = math.log(2) ** 2
    for exponent, d_eff, logs in ((0, 16, 36), (0.5, 7, 64), (1, 1 + math.log(16), 100), (2, 2 - 1 / 16, 140)):
        row = rates.decay_rates(exponent, 16, 1 / 8, budget=Budget(2.0))
        shown = (row.effective_dimension, row.noisy_sgd, row.noisy_ftrl, row.ratio)
        expected = (d_eff, 1, d_eff * logs * unit / 128, d_eff * logs * unit / 128)
        assert shown == pytest.approx(expected, rel=1e-13, abs=0)


def test_the_published_effective_dimensions_have_poles():
    """Mutant: d^{1−a}/(1−a) and a/(a−1) near a = 1 are far from Tr H."""
    for exponent in (0.999, 1.001):
        true = decaying(exponent, 64, 1e-3).effective_dimension()
        assert rates.decay_rates(exponent, 64, 1e-3, printed=True).effective_dimension > 100 * true


def test_printed_rows():
    d, eta, rho = 100, 0.01, 2.0
    log, sgd = math.log(d / eta), eta * d / rho
    expected = {
        0: (d, eta**2 * d / rho * math.log(1 / eta) ** 2, eta * math.log(1 / eta) ** 2),
        0.5: (10, eta**2 * 10 / rho * log**2, eta / 10 * log**2),
        0.75: (4 * d**0.25, 4 * eta**2 * d**0.25 / rho * log**2, 4 * eta / d**0.75 * log**2),
        1: (math.log(d), eta**2 / rho * log**3, eta / d * log**3),
        2: (1, eta**2 / rho * log**2, eta / d * log**3),
        3: (1.5, 4.5 * eta**2 / rho * log**2, 4.5 * eta / d * log**2),
    }
    for exponent, (d_eff, ftrl, ratio) in expected.items():
        row = rates.decay_rates(exponent, d, eta, budget=Budget(rho), printed=True)
        shown = (row.effective_dimension, row.noisy_sgd, row.noisy_ftrl, row.ratio)
        assert shown == pytest.approx((d_eff, sgd, ftrl, ratio), rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("exponent", "low", "high"),
    [
        (0, 0.289, 0.355),
        (0.25, 0.111, 0.162),
        (0.5, 0.269, 0.339),
        (0.95, 0.045, 0.067),
        (1, 0.077, 0.125),
        (1.2, 0.108, 0.125),
        (5, 0.060, 0.075),
    ],
)
def test_printed_ratios_are_bounded(exponent, low, high):
    for d in (2**6, 2**8, 2**10, 2**12):
        for eta in (1e-2, 1e-4):
            problem = decaying(exponent, d, min(eta, 0.1 / (np.arange(1.0, d + 1) ** -exponent).sum()))
            exact = problem.stationary_error(whole(problem)) / problem.stationary_error(DPSGD())
            row = rates.decay_rates(exponent, d, problem.learning_rate, printed=True)
            assert low < exact / row.ratio < high


def quadratic_decay(d: int, eta: float) -> np.ndarray:
    """λ_k = 1/k²: the exact ratio over that of the published columns, over the published one, and over ours."""
    problem = decaying(2, d, eta)
    exact = problem.stationary_error(whole(problem)) / problem.stationary_error(DPSGD())
    printed, ours = (rates.decay_rates(2, d, eta, printed=p) for p in (True, False))
    return exact / np.array([printed.noisy_ftrl / printed.noisy_sgd, printed.ratio, ours.ratio])


def test_the_printed_ratio_of_the_quadratic_decay_has_a_logarithm_too_many():
    columns, printed, _ = np.transpose([quadratic_decay(2**k, 1e-2) for k in (6, 8, 10, 12)])
    assert columns == pytest.approx([0.4581, 0.4108, 0.3693, 0.3345], abs=1e-4)
    assert printed[[0, -1]] == pytest.approx([0.0523, 0.0259], abs=5e-5)
    columns, printed, ours = quadratic_decay(64, 1e-140) / quadratic_decay(64, 1e-2)
    assert 0.5 < columns < 2
    assert 0.5 < ours < 2
    assert printed < 0.05  # mutant: the published ratio


def test_the_row_of_fast_decay_needs_the_bound_with_one_logarithm():
    """Theorem 2.2 is a/(a−1) log²(d^a/η), that is up to a³/(a−1); N3 gives the published a²/(a−1)."""
    by_theorem, by_n3 = [], []
    for exponent in (4, 8, 16, 32):
        problem = decaying(exponent, 128, 0.01)
        row = rates.decay_rates(exponent, 128, 0.01, printed=True)
        theorem = problem.learning_rate**2 * problem.trace * math.log(1 / problem.rates.min()) ** 2
        by_theorem.append(theorem / row.noisy_ftrl)
        by_n3.append(bounds.nu_ftrl_upper_bound(problem, problem.rates.min()) / row.noisy_ftrl)
    assert by_theorem == pytest.approx([1.308, 2.315, 4.431, 8.651], abs=5e-3)
    assert max(by_n3) < 0.1


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"nu must lie in \[0, learning_rate × smallest eigenvalue\]"):
        rates.stationary_error_rate(DECAYING, NuFTRL(0.5))
    with pytest.raises(ValueError, match=r"damping must lie in \[0, 1\]"):
        rates.stationary_error_rate(DECAYING, AntiPGD(1.5))
    for function in (rates.squared_sensitivity_rate, rates.squared_sensitivity_expansion):
        with pytest.raises(TypeError, match="noise must be DPSGD, NuFTRL or AntiPGD, for which"):
            function(FiniteNoise([1.0, 0.5]), 3)
        with pytest.raises(ValueError, match="steps must be an integer >= 1"):
            function(DPSGD(), 0)
    with pytest.raises(TypeError, match="noise must be DPSGD, NuFTRL or AntiPGD, for which"):
        rates.stationary_error_rate(DECAYING, FiniteNoise([1.0, 0.5]))
    for bad in ((-1.0, 3, 0.1), (1.0, 0, 0.1), (1.0, 3, 1.0), (1.0, 3, 0.0)):
        with pytest.raises(ValueError, match="must"):
            rates.decay_rates(*bad)
