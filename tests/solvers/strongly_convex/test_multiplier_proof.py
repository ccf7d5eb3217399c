"""Proofs by multipliers, against Arb's integration, closed forms and dense grids, and false claims without a proof."""

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from corrnoise.solvers.strongly_convex import multiplier_proof as module
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.strongly_convex.frequency_grid import graded_edges
from corrnoise.solvers.strongly_convex.multiplier_proof import Drive, prove
from corrnoise.solvers.strongly_convex.multipliers import Kernels, Multiplier, taps
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.spectra import spectrum_of
from corrnoise.theory.problems.strongly_convex import CRITERIA, StronglyConvex, circle_multiplier
from tests.strategies import log_uniform, noises

EDGES = graded_edges(0.1, 1.0)
WHITE = Drive(spectrum_of(DPSGD()), 1.0)


def constant(size, pair=(0.1, 1.0), criterion="distance"):
    return Multiplier(*pair, criterion, size, np.empty(0), Kernels.of([]))


def found(pair, noise, criterion="distance"):
    """The multiplier of the fast search."""
    return strongly_convex_certificate(StronglyConvex(*pair, 1), noise, criterion=criterion).multiplier


# -- the mean ----------------------------------------------------------------------------------------------------------


def enclosure(multiplier, noise):
    """(1/π) ∫ |B|² ξ dω over [0, π] as a ball, by Arb's adaptive integration of the raw formulas."""
    m, ell, epsilon = arb(multiplier.slow), arb(multiplier.fast), int(multiplier.criterion == "objective")
    k = multiplier.kernels
    rows = [
        (int(shift), int(step), arb(float(gap)), int(power), int(side), arb(float(weight)))
        for shift, step, gap, power, side, weight in zip(
            k.shifts, k.steps, k.gaps, k.powers, k.sides, multiplier.weights, strict=True
        )
    ]

    def lam(phase):
        total = acb(arb(multiplier.constant))
        for shift, step, gap, power, side, weight in rows:
            past = phase if side == 1 else 1 / phase
            total += weight * (1 - past**shift * (gap / (1 - (1 - gap) * past**step)) ** power)
        return total

    def integrand(omega, analytic):
        phase = (-acb(0, 1) * omega).exp()
        one, other = lam(phase), lam(1 / phase)
        a, b = (one + other) / 2, (one - other) / acb(0, 2)
        x, s = 1 - omega.cos(), omega.sin()
        u = 2 * ((x * (2 - m - ell) + m * ell) * a + (ell - m) * s * b) - ell * (ell - m)
        u += epsilon * ((x - ell) ** 2 + s**2)
        power = acb(1)
        for gap, exponent in zip(noise.gaps, noise.exponents, strict=True):
            gap = arb(float(gap))
            square = gap**2 + 4 * (1 - gap) * (omega / 2).sin() ** 2
            power *= square.sqrt(analytic=analytic) if exponent == 0.5 else square ** int(exponent)
        return power * ((ell - m) * one * other + ell * (2 * a + epsilon)) / u

    edges = [arb(0), *(arb(float(e)) for e in graded_edges(multiplier.slow, multiplier.fast)[1:-1]), arb.pi()]
    total = arb(0)
    for low, high in pairwise(edges):
        total += acb.integral(integrand, acb(low), acb(high), rel_tol=arb(1e-17), abs_tol=arb(1e-17)).real
    return total / arb.pi()


@pytest.mark.parametrize(
    ("pair", "noise", "criterion"),
    [
        ((0.1, 1.0), DPSGD(), "objective"),
        ((0.1, 1.0), NuFTRL(0.1), "distance"),
        ((0.3, 1.7), AntiPGD(0.05), "objective"),
        ((0.01, 0.1), NuFTRL(0.01), "distance"),
    ],
)
def test_mean_against_arb(pair, noise, criterion):
    """The bound exceeds Arb's enclosure, by no more than 1e-12; one that is lower by 1e-12 would be refuted."""
    multiplier = found(pair, noise, criterion).with_rates(*pair)
    proof = prove(multiplier, Drive(spectrum_of(noise), 1.0), graded_edges(*pair))
    with ctx.workprec(90):
        exact = enclosure(multiplier, noise)
    assert exact.rad() < 1e-14 * exact
    assert exact < proof.upper_bound
    assert exact * (1 + arb(1e-12)) > proof.upper_bound
    assert not exact < proof.upper_bound * (1 - 1e-12)
    assert proof.quadrature_error <= 1e-13 * proof.mean
    assert 0 < proof.rounding_error <= 1e-12 * proof.mean


@given(log_uniform(1e-6, 1.9), log_uniform(1e-3, 1.0), st.sampled_from(CRITERIA))
def test_constant_multipliers_against_the_closed_form(fast, ratio, criterion):
    """The mean gain of the circle criterion, known in closed form."""
    slow = max(fast * ratio, 1e-9)
    size, mean = circle_multiplier(slow, fast, criterion)
    proof = prove(constant(size, (slow, fast), criterion), WHITE, graded_edges(slow, fast))
    tolerance = 1e-12 / (2 - fast)
    assert mean * (1 - tolerance) <= proof.upper_bound <= mean * (1 + 2 * tolerance)
    assert proof.mean == pytest.approx(mean, rel=tolerance)


@given(noises(), log_uniform(1e-4, 1.0))
def test_the_drive_against_averaged_variances(noise, rate):
    """At κ = 1 the gain of Λ = 1 is l/|1 − l − e^{iω}|², and its mean with |B|² is b(l)/(2 − l)."""
    drive = Drive(spectrum_of(noise), 3.0, 0.5)
    proof = prove(constant(1.0, (rate, rate)), drive, graded_edges(rate, rate))
    exact = (3.0 * float(noise.averaged_variance(rate)) + 0.5) / (2 - rate)
    assert exact * (1 - 1e-13) <= proof.upper_bound <= exact * (1 + 3e-8)


@pytest.mark.parametrize(
    "noise",
    [
        NuFTRL(1e-12),
        AntiPGD(1e-9),
        ProductNoise([1e-6], [-1.0]),
        ProductNoise([1.99999], [-1.0]),
        ProductNoise([0.0], [-0.25]),
        ProductNoise([0.0, 1e-3], [-0.45, 0.3]),
        ProductNoise([2.0], [-0.25]),
        ProductNoise([2.0, 0.0], [0.25, 0.25]),
        NuFTRL(2 - 1e-14),
        AntiPGD(2 - 1e-12),
        FiniteNoise(np.append(1.0, 0.05 * np.cos(0.5 * np.arange(1, 400)))),
        CepstralNoise(0.9 ** np.arange(1, 200) / np.arange(1, 200), 0.9),
    ],
    ids=[
        "nu12",
        "anti9",
        "peak",
        "peak at pi",
        "singular",
        "both",
        "pi",
        "zeros",
        "nu at pi",
        "anti at pi",
        "line",
        "cepstrum",
    ],
)
def test_narrow_and_singular_features_against_averaged_variances(noise):
    """The panels find them by themselves; one of the features is worth more than the tolerance."""
    for rate in (0.02, 1.0, 1.7):
        proof = prove(constant(1.0, (rate, rate)), Drive(spectrum_of(noise), 1.0), graded_edges(rate, rate))
        exact = float(noise.averaged_variance(rate)) / (2 - rate)
        assert exact * (1 - 1e-12) <= proof.upper_bound <= exact * (1 + 2e-8)


def test_parts_add_up_panel_by_panel():
    proof = prove(constant(20.0), WHITE, EDGES)
    assert proof.edges.size == proof.parts.size + 1
    assert proof.mean == pytest.approx(proof.parts.sum(), rel=1e-15)
    omega = np.linspace(proof.edges[3], proof.edges[4], 2001)
    part = trapezoid(constant(20.0).gain(omega), omega) / math.pi
    assert proof.parts[3] == pytest.approx(part, rel=1e-6)
    assert set(EDGES) <= set(proof.edges)


# -- the slack ---------------------------------------------------------------------------------------------------------

rows = st.tuples(
    st.integers(1, 9), st.integers(1, 3), log_uniform(0.01, 1.0), st.integers(0, 6), st.sampled_from([1, -1])
)


def test_least_slack_of_constants():
    """The slack is affine in cos ω: u(0) = 2mlc − lδ."""
    for size in (4.51, 5.0, 100.0):
        exact = 2 * 0.1 * size - 0.9
        assert exact / 2 <= prove(constant(size), WHITE, EDGES).least_slack <= exact * (1 + 1e-12)
    for size in (4.5, 4.49, 0.0):
        nothing = prove(constant(size), WHITE, EDGES)
        assert nothing.least_slack == -math.inf
        assert nothing.upper_bound == math.inf


@given(st.lists(st.tuples(rows, log_uniform(1e-3, 3.0)), min_size=1, max_size=4), log_uniform(4.6, 20.0))
def test_least_slack_is_a_lower_bound(several, size):
    kernels = Kernels.of([row for row, _ in several])
    multiplier = Multiplier(0.1, 1.0, "distance", size, np.array([weight for _, weight in several]), kernels)
    omega = np.linspace(0, math.pi, 20_001)
    smallest = float(multiplier.condition(omega).slack(*multiplier.at(omega)).min())
    proved = prove(multiplier, WHITE, EDGES).least_slack
    if smallest <= 0:
        assert proved == -math.inf
    else:
        assert proved <= smallest * (1 + 1e-9)
    if smallest > 1e-3:
        assert proved >= smallest / 4


def hidden(edges):
    """A lag of 64 has a whole number of periods on each of 32 panels: at all ends and middles it vanishes."""
    multiplier = Multiplier(0.1, 1.0, "distance", 5.0, np.array([1e3]), Kernels.of([(64, 1, 1, 0, -1)]))
    for places in (edges, (edges[:-1] + edges[1:]) / 2):
        assert multiplier.condition(places).slack(*multiplier.at(places)).min() > 0.05
    return multiplier


def test_the_slack_is_proved_between_the_nodes():
    edges = np.linspace(0, math.pi, 33)
    assert prove(hidden(edges), WHITE, edges).least_slack == -math.inf


def test_without_the_discs_a_hidden_zero_would_go_unnoticed(monkeypatch):
    """The bounds on discs are what the proof rests on: put values at the middles in their place, and it is wrong."""
    edges = np.linspace(0, math.pi, 33)
    multiplier = hidden(edges)
    right = Multiplier.on_discs

    def careless(self, frequencies, radii):
        found = right(self, frequencies, radii)
        return found._replace(largest_gain=found.gain, least_slack=found.slack)

    monkeypatch.setattr(Multiplier, "on_discs", careless)
    assert prove(multiplier, WHITE, edges).least_slack > 0


def test_without_the_discs_a_narrow_peak_would_be_missed(monkeypatch):
    noise = ProductNoise([1e-6], [-1.0])
    drive = Drive(spectrum_of(noise), 1.0)
    exact = float(noise.averaged_variance(0.5)) / 1.5
    right = type(drive.spectrum).on_discs

    def careless(self, frequencies, radii):
        values, _ = right(self, frequencies, radii)
        return values, values

    monkeypatch.setattr(type(drive.spectrum), "on_discs", careless)
    assert prove(constant(1.0, (0.5, 0.5)), drive, graded_edges(0.5, 0.5)).upper_bound < exact / 2


def test_rates_are_rounded_outwards():
    """The class that is proved about contains the one asked for: its bound is a little larger."""
    wider = prove(constant(20.0, (0.1, 1.0)), WHITE, EDGES)
    steps = prove(constant(20.0, (math.nextafter(0.1, 1), math.nextafter(1.0, 0))), WHITE, EDGES)
    assert wider.mean >= steps.mean
    with mp.workdps(40):
        m, ell = mp.mpf(0.1), mp.mpf(1)
        exact = ((ell - m) * 20**2 + ell * 40) / mp.sqrt(
            (2 * m * ell * 20 - ell * (ell - m)) * (2 * (2 - m) * (2 - ell) * 20 - ell * (ell - m))
        )
        assert exact < wider.upper_bound < exact * (1 + mp.mpf(10) ** -12)


# -- what proves nothing -----------------------------------------------------------------------------------------------


def test_negative_coefficients_are_refused():
    """A multiplier of the printed class is one of ours with negative weights, 1 + e^{−iω} = 2 − (1 − e^{−iω})."""
    printed = Multiplier(0.1, 1.0, "distance", 30.0, np.array([-5.0, 0.0]), taps(1))
    assert (printed.condition(EDGES).slack(*printed.at(EDGES)) > 0).all()
    with pytest.raises(ValueError, match="coefficients >= 0"):
        prove(printed, WHITE, EDGES)


def test_what_no_panels_resolve_is_not_proved(monkeypatch):
    monkeypatch.setattr(module, "MAX_PANELS", 100)
    line = FiniteNoise(np.append(1.0, 0.05 * np.cos(0.5 * np.arange(1, 400))))
    nothing = prove(constant(20.0), Drive(spectrum_of(line), 1.0), EDGES)
    assert nothing.upper_bound == math.inf
    assert nothing.least_slack == -math.inf
