"""Tables 1, 2 and 4: rates by hand and their expansions.  The ledger compares them with exact errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.papers.correlated_noise import table_rates as rates
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.strategies import regressions

DECAYING = LinearRegression(np.arange(1.0, 1025) ** -2, 0.1)


# -- Table 1 -----------------------------------------------------------------------------------------------------------


def test_ratios_of_table_1():
    problem = LinearRegression([1.0, 0.5, 0.01], 0.1)
    d_eff, nu = 1.51, 0.001

    def ratio(p, noise):
        return rates.stationary_error_rate(p, noise) / rates.lower_bound_rate(p)

    assert ratio(problem, DPSGD()) == pytest.approx(3 / (0.1 * d_eff), rel=1e-14, abs=0)
    assert ratio(problem, NuFTRL(nu)) == pytest.approx(math.log(8 / nu) ** 2, rel=1e-14, abs=0)


# -- Table 2 -----------------------------------------------------------------------------------------------------------


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


def test_one_expression_by_hand():
    """d = 16, η = 1/8: powers of two, log(8 d^a/η)/log 2 = 6 + 4a."""
    unit = math.log(2) ** 2
    for exponent, d_eff, logs in ((0, 16, 36), (0.5, 7, 64), (1, 1 + math.log(16), 100), (2, 2 - 1 / 16, 140)):
        row = rates.decay_rates(exponent, 16, 1 / 8, budget=Budget(2.0))
        shown = (row.effective_dimension, row.noisy_sgd, row.noisy_ftrl, row.ratio)
        expected = (d_eff, 1, d_eff * logs * unit / 128, d_eff * logs * unit / 128)
        assert shown == pytest.approx(expected, rel=1e-13, abs=0)


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


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"nu must lie in \[0, learning_rate × smallest eigenvalue\]"):
        rates.stationary_error_rate(DECAYING, NuFTRL(0.5))
    with pytest.raises(ValueError, match=r"damping must lie in \[0, 1\]"):
        rates.stationary_error_rate(DECAYING, AntiPGD(1.5))
    for function in (rates.squared_sensitivity_rate, rates.squared_sensitivity_expansion):
        with pytest.raises(TypeError, match=r"AntiPGD, whose (rates|expansions) are known"):
            function(FiniteNoise([1.0, 0.5]), 3)
        with pytest.raises(ValueError, match="steps must be an integer >= 1"):
            function(DPSGD(), 0)
    with pytest.raises(TypeError, match="noise must be DPSGD, NuFTRL or AntiPGD, whose rates are known"):
        rates.stationary_error_rate(DECAYING, FiniteNoise([1.0, 0.5]))
    for bad in ((-1.0, 3, 0.1), (1.0, 0, 0.1), (1.0, 3, 1.0), (1.0, 3, 0.0)):
        with pytest.raises(ValueError, match="must"):
            rates.decay_rates(*bad)
