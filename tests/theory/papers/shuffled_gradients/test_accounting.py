"""Amplification by iteration and accountants: never below exact divergences, reference values, refusals."""

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import erfc, mp, mpf, workdps
from scipy.integrate import quad

from corrnoise.theory.papers.shuffled_gradients.accountants import (
    Accountant,
    published_epsilon,
    published_rho,
)
from corrnoise.theory.papers.shuffled_gradients.amplification import (
    StepFactors,
    amplification_sum,
    best_plan_cost,
    composed_amplification_sum,
    epoch_amplification_sums,
    reshuffled_amplification_sums,
    run_steps,
    worst_amplification_sum,
)
from corrnoise.theory.papers.shuffled_gradients.exact_runs import (
    gaussian_renyi_divergence,
    linear_run_separation,
    noise_variance,
    quadratic_run,
)
from corrnoise.theory.papers.shuffled_gradients.schedules import (
    PLACEMENTS,
    Schedule,
    dp_shuffled,
    interleaved,
    private_then_public,
    public_then_private,
)
from corrnoise.theory.privacy import gaussian_delta
from tests.theory.papers.shuffled_gradients.runs import described

DELTA = 1e-6
OTHER: Any = "other"  # is none of what is asked for

# -- the taut string ---------------------------------------------------------------------------------------------------


@st.composite
def iterations(draw, most=8):
    """Sensitivities, noise and contractions."""
    size = draw(st.integers(1, most))
    vector = lambda low, high: np.array(draw(st.lists(st.floats(low, high), min_size=size, max_size=size)))  # noqa: E731
    s, tau = vector(0, 2), vector(0.05, 2)
    return np.where(s < 0.3, 0, s), tau, vector(0.2, 1)


@given(iterations())
def test_no_linear_run_is_told_apart_more_easily_than_bounded(run):
    """The exact separation of linear maps, with any signs, is below the best plan's cost."""
    s, tau, c = run
    assert linear_run_separation(s, tau, c) <= best_plan_cost(s, tau, c) * (1 + 1e-12)
    assert linear_run_separation(s, tau, -c) <= best_plan_cost(s, tau, c) * (1 + 1e-12)


@given(iterations(most=5))
def test_the_best_plan_is_the_optimum_of_the_quadratic_program(run):
    s, tau, c = run
    weights = np.concatenate([np.cumprod(c[:0:-1])[::-1], [1.0]])
    sums = np.tril(np.ones((s.size, s.size))) * weights
    plan = cp.Variable(s.size)
    spent, arrived = sums @ plan, sums @ s
    program = cp.Problem(cp.Minimize(cp.sum_squares(plan / tau)), [spent <= arrived, spent[-1] == arrived[-1]])
    program.solve(solver=cp.CLARABEL)
    assert best_plan_cost(s, tau, c) == pytest.approx(program.value, rel=1e-5, abs=1e-7)


def test_a_plan_that_spends_too_little_would_be_caught():
    """The mutant: half the cost is below an exact separation."""
    s, tau, c = np.array([1.0, 0.0]), np.ones(2), np.ones(2)
    assert linear_run_separation(s, tau, c) == pytest.approx(best_plan_cost(s, tau, c))
    assert linear_run_separation(s, tau, c) > best_plan_cost(s, tau, c) / 2


def test_reference_values_of_the_taut_string():
    s = np.isin(np.arange(1, 13), [3, 7, 11]).astype(float)
    assert best_plan_cost(s, 1.0) == pytest.approx(1.0, abs=1e-14)
    assert best_plan_cost(s, 1.0, 0.9) == pytest.approx(0.7874403976158144, rel=1e-13)
    assert best_plan_cost([0.0, 0.0], 0.0) == 0
    assert best_plan_cost([1.0, 0.0], [0.0, 0.0]) == math.inf
    assert best_plan_cost([1.0, 0.0], [0.0, 1.0]) == 1
    assert best_plan_cost([1.0, 1.0], 1.0, [1.0, 0.0]) == 1  # the second map forgets the first


# -- schedules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("epochs", [1, 2, 9])
def test_closed_form_for_a_given_order(n, epochs):
    for j in range(1, n + 1):
        closed = (epochs - 1) / n + 1 / (n - j + 1)
        assert amplification_sum(dp_shuffled(n, epochs=epochs), j) == pytest.approx(closed, rel=1e-12)
    assert worst_amplification_sum(dp_shuffled(n, epochs=epochs)) == pytest.approx((epochs - 1) / n + 1, rel=1e-12)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("private", [1, 3, 6])
def test_the_last_private_step_is_the_worst(placement, private):
    schedule = interleaved(6, epochs=4, private_per_epoch=private, placement=placement)
    every = [amplification_sum(schedule, j, factors=StepFactors(prox=0.9)) for j in range(1, private + 1)]
    assert worst_amplification_sum(schedule, factors=StepFactors(prox=0.9)) == pytest.approx(max(every), rel=1e-12)


def test_amplification_within_an_epoch():
    """What noise where costs at the worst position: 1/6, 1, 1/6, 1 for 5 private steps of 10."""
    costs = [
        worst_amplification_sum(interleaved(10, epochs=1, private_per_epoch=5, placement=placement))
        for placement in PLACEMENTS
    ]
    assert costs == pytest.approx([1 / 6, 1, 1 / 6, 1], rel=1e-13)
    assert epoch_amplification_sums(interleaved(10, epochs=3, private_per_epoch=5)).max() == pytest.approx(3 / 6)


@pytest.mark.parametrize(("epochs", "value"), [(50, 5.719841715881781), (500, 20.469290264394676)])
def test_a_contractive_proximal_step_helps(epochs, value):
    assert worst_amplification_sum(dp_shuffled(10, epochs=epochs), factors=StepFactors(prox=1 / 1.01)) == pytest.approx(
        value, rel=1e-11
    )


def test_reshuffled_sums_are_attained_by_the_worst_earlier_positions_and_not_exceeded():
    n, epochs = 6, 3
    sums = reshuffled_amplification_sums(dp_shuffled(n, epochs=epochs))
    rng = np.random.default_rng(0)
    for last in range(1, n + 1):
        worst = amplification_sum(dp_shuffled(n, epochs=epochs), [n, n, last])
        assert worst == pytest.approx(sums[last - 1], rel=1e-12)
        for _ in range(40):
            positions = [*rng.integers(1, n + 1, epochs - 1), last]
            assert amplification_sum(dp_shuffled(n, epochs=epochs), positions) <= worst * (1 + 1e-12)
    assert reshuffled_amplification_sums(dp_shuffled(n, epochs=1)).tolist() == pytest.approx(
        [1 / m for m in range(n, 0, -1)]
    )


# -- exact Gaussian divergences ----------------------------------------------------------------------------------------


@st.composite
def mean_estimations(draw):
    """n, K, position, learning rate, order of the divergence, noise, schedule."""
    n, epochs = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["private", "private first", "public first", "interleaved"]))
    count = draw(st.integers(1, n))
    part = draw(st.integers(1, epochs))
    schedule = {
        "private": dp_shuffled(n, epochs=epochs),
        "private first": private_then_public(n, epochs=epochs, private_epochs=part),
        "public first": public_then_private(n, epochs=epochs, private_epochs=part),
        "interleaved": interleaved(
            n, epochs=epochs, private_per_epoch=count, placement=draw(st.sampled_from(["every", "tail", "end"]))
        ),
    }[kind]
    latest = int(schedule.private.max())
    ridge = draw(st.sampled_from([0.0, 0.3]))
    return schedule, draw(st.integers(1, latest)), draw(st.floats(1e-3, 2.0)), draw(st.floats(0.3, 5)), ridge


@given(mean_estimations(), st.floats(1.1, 20))
def test_no_accountant_claims_less_than_the_truth(case, order):
    """Mean estimation is Gaussian: the exact Rényi divergence of the last iterates is below every bound."""
    schedule, position, eta, sigma, ridge = case
    n, epochs = schedule.samples, schedule.epochs
    rng = np.random.default_rng(0)
    targets = rng.uniform(-1, 1, (epochs, n, 1))
    other = targets.copy()
    used = schedule.private >= position
    targets[used, position - 1], other[used, position - 1] = 1.0, -1.0  # 2G apart for G = 1
    hessians = np.ones((epochs, n, 1, 1))
    noise = np.array([sigma * schedule.noisy_steps(count) for count in schedule.private.tolist()])
    mean, covariance = quadratic_run(hessians, targets, noise, eta, ridge=ridge)
    shifted, _ = quadratic_run(hessians, other, noise, eta, ridge=ridge)
    if covariance[0, 0] < 1e-12:
        return
    exact = gaussian_renyi_divergence(order, mean, covariance, shifted, covariance)
    training = described(schedule, eta, 1.0, regulariser_convexity=ridge)
    for method in ("per-step", "per-epoch", "whole-run"):
        assert exact <= training.accountant(method).renyi_divergence(order, sigma) * (1 + 1e-9), method


def test_the_bound_is_attained_after_one_epoch():
    schedule = dp_shuffled(10, epochs=1)
    assert linear_run_separation(*np.array(run_steps(schedule, 10))[:2], np.zeros(10)) == pytest.approx(1.0)
    assert worst_amplification_sum(schedule) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("n", "epochs", "position", "eta", "exact", "bound"),
    [
        (10, 1, 10, 0.1, 0.865186477536, 4.0),
        (10, 1, 10, 1.0, 4.0, 4.0),
        (10, 50, 10, 0.1, 1.791524219, 23.6),
        (10, 50, 10, 1e-3, 19.7701572179, 23.6),
        (10, 50, 1, 1e-3, 19.41730315, 20.0),
        (100, 50, 100, 1.0, 4.0, 5.96),
        (1000, 50, 1000, 1e-3, 0.01999954599, 4.196),
    ],
)
def test_reference_values_of_exact_divergences(n, epochs, position, eta, exact, bound):
    """Order 2, σ = G, mean estimation with data 2G apart."""
    schedule = dp_shuffled(n, epochs=epochs)
    s, noise, _ = run_steps(schedule, position)
    assert linear_run_separation(2 * s, noise, np.full(s.size, 1 - eta)) == pytest.approx(exact, rel=1e-9)
    assert 4 * amplification_sum(schedule, position) == pytest.approx(bound, rel=1e-9)


def test_renyi_divergence_of_gaussians_by_quadrature():
    value = gaussian_renyi_divergence(3.0, [0.3], [[1.2]], [-0.2], [[0.9]])

    def log_density(x, mean, variance):
        return -((x - mean) ** 2) / (2 * variance) - math.log(2 * math.pi * variance) / 2

    def integrand(x):
        return math.exp(3 * log_density(x, 0.3, 1.2) - 2 * log_density(x, -0.2, 0.9))

    integral, _ = quad(integrand, -40, 40, epsabs=0, epsrel=1e-12, points=[0, 5])
    assert value == pytest.approx(math.log(integral) / 2, rel=1e-9)
    assert gaussian_renyi_divergence(5.0, [0.0], [[2.0]], [0.0], [[1.0]]) == math.inf


def test_shuffled_mixtures_bound_the_mixture_by_quadrature():
    """Mean estimation with n = 8 reshuffled: D_4 of the exact mixtures over positions, by quadrature (.02066)."""
    n, eta, sigma, alpha = 8, 0.8, 3.0, 4.0
    noise_variance = (eta * sigma) ** 2 * sum((1 - eta) ** (2 * t) for t in range(n))

    def mixture(x, value):
        means = [eta * value * (1 - eta) ** (n - j) for j in range(1, n + 1)]
        return np.mean([np.exp(-((x - m) ** 2) / (2 * noise_variance)) for m in means]) / np.sqrt(
            2 * np.pi * noise_variance
        )

    integral, _ = quad(
        lambda x: mixture(x, 1.0) ** alpha / mixture(x, -1.0) ** (alpha - 1), -30, 30, epsabs=0, epsrel=1e-11
    )
    exact = math.log(integral) / (alpha - 1)
    assert exact == pytest.approx(0.02066, abs=6e-6)
    training = described(dp_shuffled(n, epochs=1), eta, 1.0, order="reshuffled")
    assert exact <= training.accountant("epochs reshuffled").renyi_divergence(alpha, sigma)
    assert training.accountant("epochs reshuffled").renyi_divergence(alpha, sigma) == pytest.approx(0.42569, abs=6e-6)


# -- calibration -------------------------------------------------------------------------------------------------------

#: 50 epochs by the number of records, and how many of them are private: in each, in the first or in the last half.
SCHEDULES = {
    "all": dp_shuffled,
    "half": lambda n, epochs: interleaved(n, epochs=epochs, private_per_epoch=n // 2),
    "first": lambda n, epochs: private_then_public(n, epochs=epochs, private_epochs=25),
    "last": lambda n, epochs: public_then_private(n, epochs=epochs, private_epochs=25),
}
CALIBRATED = [
    (1000, "all", "per-epoch", "published", (75.66014, 16.10921, 8.59704)),
    (1000, "all", "per-epoch", "zcdp", (64.07628, 14.69532, 8.06012)),
    (1000, "all", "per-epoch", "gaussian", (59.74598, 13.85999, 7.65212)),
    (1000, "all", "epochs reshuffled", "zcdp", (10.31822, 2.54294, 1.46114)),
    (1000, "all", "epochs shuffled once", "zcdp", (43.13036, 10.77138, 6.20665)),
    (1000, "all", "whole-run", "gaussian", (8.65389, 2.00755, 1.10837)),
    (1000, "all", "whole-run reshuffled", "gaussian", (5.28641, 1.41329, 0.83179)),
    (1000, "all", "whole-run shuffled once", "gaussian", (5.28641, 1.41329, 0.83179)),
    (1000, "first", "per-epoch", "published", (53.49980, 11.39093, 6.07902)),
    (1000, "first", "whole-run reshuffled", "gaussian", (5.22100, 1.39629, 0.82182)),
    (1000, "last", "whole-run reshuffled", "gaussian", (5.22100, 1.39629, 0.82182)),
    (1000, "half", "per-epoch", "published", (3.38025, 0.71971, 0.38409)),
    (1000, "half", "whole-run", "gaussian", (1.90806, 0.44264, 0.24438)),
    (1000, "half", "whole-run reshuffled", "gaussian", (1.88393, 0.43720, 0.24144)),
    (2103, "all", "whole-run reshuffled", "gaussian", (4.79284,)),
    (2103, "half", "per-epoch", "published", (2.33159, 0.49643, 0.26493)),
    (200, "all", "whole-run reshuffled", "gaussian", (6.73103,)),
    (200, "half", "per-epoch", "published", (7.52847, 1.60293, 0.85544)),
    (159, "all", "whole-run reshuffled", "gaussian", (7.03770,)),
    (159, "half", "per-epoch", "published", (8.40668, 1.78991, 0.95523)),
]


@pytest.mark.parametrize(("samples", "private", "method", "conversion", "expected"), CALIBRATED)
def test_calibrated_noise(samples, private, method, conversion, expected):
    order = next((secret for secret in ("reshuffled", "shuffled once") if method.endswith(secret)), "given")
    found = described(SCHEDULES[private](samples, epochs=50), 0.1, 1.0, order=order).accountant(method)
    for epsilon, value in zip((1, 5, 10), expected, strict=False):
        z = found.noise_multiplier(epsilon=epsilon, delta=DELTA, conversion=conversion)
        assert z == pytest.approx(value, abs=6e-6)
        assert found.epsilon(DELTA, noise_multiplier=z, conversion=conversion) <= epsilon * (1 + 1e-12)
        assert found.epsilon(DELTA, noise_multiplier=z * (1 - 1e-6), conversion=conversion) > epsilon


def test_epsilon_of_the_published_accounting():
    found = described(dp_shuffled(1000, epochs=50), 0.1, 1.0).accountant("per-epoch")
    assert found.epsilon(DELTA, noise_multiplier=1.0, conversion="published") == pytest.approx(
        174.33844377699677, rel=1e-8
    )
    whole = described(dp_shuffled(1000, epochs=50), 0.1, 1.0).accountant("whole-run")
    assert whole.epsilon(DELTA, noise_multiplier=1.0) == pytest.approx(11.320137576077677, rel=1e-8)


@given(
    st.lists(st.floats(1e-6, 50.0), min_size=1, max_size=5),
    st.floats(0.0, 20.0),
    st.floats(0.05, 50.0),
)
def test_delta_of_a_mixture_never_errs_downwards(sums, epsilon, z):
    mixture = Accountant(np.array(sums), np.full(len(sums), 1 / len(sums)))
    with workdps(40):
        total = mpf(0)
        for a in sums:
            mu = mp.sqrt(4 * mpf(a)) / mpf(z)
            below = erfc((mpf(epsilon) / mu + mu / 2) / mp.sqrt(2)) / 2
            total += (erfc((mpf(epsilon) / mu - mu / 2) / mp.sqrt(2)) / 2 - mp.exp(epsilon) * below) / len(sums)
        assert mixture.delta(epsilon, noise_multiplier=z) >= total * (1 - mpf(10) ** -15)
        if total > 1e-250:
            assert mixture.delta(epsilon, noise_multiplier=z) <= total * (1 + mpf(10) ** -6) + mpf(10) ** -300


@pytest.mark.parametrize("z", [1e-100, 1e-9, 1e-3, 1e3, 1e100])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e9, 1e300])
def test_delta_at_the_ends_of_its_domain(z, epsilon):
    """Without a warning: 1 where the budget is far above ε, next to nothing where it is far below."""
    mixture = Accountant([1.0, 2.0], [0.5, 0.5])
    found, rho = mixture.delta(epsilon, noise_multiplier=z), mixture.zcdp(z)
    assert 0 < found <= 1
    if rho > 1e3 * max(epsilon, 1):
        assert found == 1.0
    if epsilon > 1e3 * max(rho, 1):
        assert found <= 1e-200


def renyi_conversion(mixture, delta, z):
    """The ε of Canonne, Kamath and Steinke, by 50 digits at orders 1 + e^u over 50 decades, refined three times."""
    with workdps(50):
        budgets = [2 * mpf(a) / mpf(z) ** 2 for a in mixture.sums]

        def at(u):
            a = mp.exp(u)
            spent = mp.log(
                sum(mpf(p) * mp.exp(a * (1 + a) * rho) for p, rho in zip(mixture.probabilities, budgets, strict=True))
            )
            return mixture.compositions * spent / a - mp.log1p(1 / a) - (mp.log(mpf(delta)) + mp.log1p(a)) / a

        middle, width = mpf(0), mpf(58)
        for _ in range(4):
            middle = min((middle + width * k / 100 for k in range(-100, 101)), key=at)
            width /= 50
        return max(at(middle), mpf(0))


@pytest.mark.parametrize("compositions", [1, 20])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.3])
@pytest.mark.parametrize("z", [1e-6, 0.1, 3.0, 1e3, 1e5, 2e6])
def test_conversion_by_renyi_divergences_finds_the_best_order(z, delta, compositions):
    """However large: for small budgets it is next to 1/δ."""
    mixture = Accountant([0.01, 1.0, 2.0], [0.9, 0.05, 0.05], compositions)
    found, least = mixture.epsilon(delta, noise_multiplier=z, conversion="zcdp"), renyi_conversion(mixture, delta, z)
    assert type(found) is float
    assert found >= least * (1 - mpf(10) ** -6)  # the oracle's grid is coarse, too
    assert found <= least * (1 + mpf(10) ** -6) + mpf(10) ** -15


@pytest.mark.parametrize("epsilon", [1e-200, 1e-9, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("conversion", ["gaussian", "zcdp"])
def test_noise_for_any_budget_is_no_more_than_needed(epsilon, conversion):
    for mixture in (Accountant([1.0, 2.0], [0.5, 0.5]), Accountant([1e-30, 1e6], [1 - 1e-9, 1e-9])):
        z = mixture.noise_multiplier(epsilon=epsilon, delta=DELTA, conversion=conversion)
        assert mixture.epsilon(DELTA, noise_multiplier=z, conversion=conversion) <= epsilon
        assert mixture.epsilon(DELTA, noise_multiplier=z * (1 - 1e-8), conversion=conversion) > epsilon


def test_a_budget_that_underflows_is_not_nothing():
    for found in (Accountant([1e-200], [1.0]), Accountant([1e-200, 0.0], [0.5, 0.5])):
        assert found.zcdp(1e100) > 0
        assert found.epsilon(DELTA, noise_multiplier=1e100, conversion="published") > 0
    assert Accountant([0.0], [1.0]).epsilon(DELTA, noise_multiplier=1e100, conversion="published") == 0


def test_one_position_is_one_gaussian_mechanism():
    assert Accountant(np.array([2.0]), np.ones(1)).delta(1.0, noise_multiplier=3.0) == pytest.approx(
        gaussian_delta(4 / 9, 1.0), rel=1e-12
    )


def test_composed_mixtures_convert_by_renyi_divergences_only():
    found = described(dp_shuffled(10, epochs=3), 0.1, 1.0, order="reshuffled").accountant("epochs reshuffled")
    for ask in (
        lambda: found.epsilon(DELTA, noise_multiplier=1.0),
        lambda: found.noise_multiplier(epsilon=1.0, delta=DELTA),
    ):
        with pytest.raises(ValueError, match="conversion must be 'zcdp' or 'published' for composed mixtures"):
            ask()
    with pytest.raises(ValueError, match="compositions must be 1 for the delta of a mixture, got 3"):
        found.delta(1.0, noise_multiplier=1.0)
    assert found.epsilon(DELTA, noise_multiplier=1.0, conversion="zcdp") < found.epsilon(
        DELTA, noise_multiplier=1.0, conversion="published"
    )


def test_one_mechanism_composed_with_itself_is_one_mechanism():
    """Also in its curve: reshuffling one sample is plain composition."""
    reshuffled = described(dp_shuffled(1, epochs=3), 1.0, 1.0, order="reshuffled").accountant("epochs reshuffled")
    assert reshuffled.compositions == 3
    for found in (reshuffled, Accountant([1.0], [1.0], 3)):
        assert found.delta(1.0, noise_multiplier=2.0) == pytest.approx(gaussian_delta(2 * 3 / 4, 1.0), rel=1e-9)
        assert found.epsilon(found.delta(1.0, noise_multiplier=2.0), noise_multiplier=2.0) == pytest.approx(
            1.0, rel=1e-9
        )


@given(st.floats(1e-8, 1e4), st.floats(1e-300, 1 - 1e-12))
def test_published_conversions_are_inverse_and_err_on_the_safe_side(rho, delta):
    with workdps(50):
        log = -mp.log(mpf(delta))
        exact = mpf(rho) + 2 * mp.sqrt(rho * log)
        epsilon = published_epsilon(rho, delta)
        assert exact <= epsilon <= exact * (1 + mpf(10) ** -11)
        exact = (mp.sqrt(log + epsilon) - mp.sqrt(log)) ** 2
        assert exact * (1 - mpf(10) ** -11) <= published_rho(epsilon, delta) <= exact
    assert published_rho(epsilon, delta) == pytest.approx(rho, rel=1e-9)


# -- what is refused ---------------------------------------------------------------------------------------------------

MIXED = interleaved(5, epochs=2, private_per_epoch=2)
END = dp_shuffled(5, epochs=2, placement="end")
ALONE = dp_shuffled(5, epochs=2)


@pytest.mark.parametrize(
    ("run", "method", "message"),
    [
        (described(ALONE, 2.1), "whole-run", "learning_rate must be at most 2/smoothness = 2.0, got 2.1: longer steps"),
        (described(MIXED, 2.1), "per-epoch", "of this run hold 'per-step'"),
        (described(MIXED, 1.0, public_learning_rate=2.1), "per-epoch", "public_learning_rate must be at most"),
        (described(MIXED, 0.1, math.inf), "whole-run", "learning_rate must be at most 2/smoothness = 0.0"),
        (described(MIXED, 0.1, convex=False), "per-epoch", "convex must be True, got False: .*'per-epoch'"),
        (described(ALONE, 0.1, convex=False), "whole-run", "may expand .*of this run hold 'per-step', 'per-epoch'"),
        (described(ALONE, clipping="general"), "whole-run", "clipping must be 'none' or 'cocoercive', got 'general'"),
        (described(END, clipping="general"), "per-epoch", "clipping must be"),
        (described(ALONE, released="every epoch"), "whole-run", "released must be 'last iterate', got 'every epoch'"),
        (described(ALONE, released="every iterate"), "per-epoch", "got 'every iterate'.*of this run hold 'per-step'"),
        (described(ALONE), "whole-run reshuffled", "participation must be reshuffled and secret, got"),
        (described(ALONE), "epochs reshuffled", "participation must be reshuffled and secret, got"),
    ],
)
def test_what_an_accountant_does_not_cover_is_refused(run, method, message):
    with pytest.raises(ValueError, match=message):
        run.accountant(method)
    assert method not in run.accountants()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (described(END, 2.1), "learning_rate must be at most"),
        (described(END, 0.1, convex=False), "convex must be True"),
        (described(END, clipping="general"), "clipping must be"),
        (described(interleaved(5, epochs=2, private_per_epoch=3, placement="tail"), 0.1, convex=False), "convex must"),
        (described(END, released="every iterate"), "released must be"),
    ],
)
def test_a_run_that_no_accountant_covers_is_refused(run, message):
    """Noise that does not stand at every private step needs steps that do not expand."""
    with pytest.raises(ValueError, match=message + ".*'per-step', which needs no such thing, needs noise at every"):
        run.noise_multiplier()
    with pytest.raises(ValueError, match=message):
        run.require_cover()


def test_plain_composition_needs_nothing():
    training = described(dp_shuffled(5, epochs=3), 100.0, 1.0, clipping="general", released="every epoch", convex=False)
    for method in ("per-step", "per-epoch"):
        assert training.accountant(method).zcdp(1.0) == pytest.approx(6.0)
    assert described(dp_shuffled(5, epochs=3, placement="end"), 1.0, 1.0).accountant("per-step").zcdp(1.0) == math.inf
    assert described(Schedule(5, [0, 0]), 1.0, 1.0).accountant("whole-run").epsilon(DELTA, noise_multiplier=1.0) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schedule(3, [4]), r"private must lie in \[0, samples\] = \[0, 3\], got 4 to 4"),
        (lambda: Schedule(0, [0]), "samples must be an integer >= 1, got 0"),
        (lambda: Schedule(3, [0.5]), "private must be a non-empty vector of integers"),
        (
            lambda: Schedule(3, [[1], [1, 2]]),
            r"private must be a non-empty vector of integers, got \[\[1\], \[1, 2\]\]",
        ),
        (lambda: Schedule(3, [1], OTHER), "placement must be one of"),
        (lambda: dp_shuffled(3, epochs=2).noisy_steps(4), r"private must lie in \[0, samples\] = \[0, 3\], got 4"),
        (
            lambda: described(dp_shuffled(3, epochs=2), 1.0, 1.0).accountant(OTHER),
            "accountant must be one of .*got 'other'",
        ),
        (lambda: private_then_public(3, epochs=2, private_epochs=3), r"private_epochs must lie in \[1, epochs\]"),
        (
            lambda: amplification_sum(dp_shuffled(3, epochs=2), 4),
            r"positions must lie in \[1, 3\], got 4.0",
        ),
        (lambda: amplification_sum(dp_shuffled(3, epochs=2), 1.5), r"positions must be integers in \[1, 3\], got 1.5"),
        (lambda: run_steps(dp_shuffled(3, epochs=2), [1, 2, 3]), r"positions must be a scalar or have shape \(2,\)"),
        (lambda: best_plan_cost([1.0, 1.0], [1.0] * 3), r"noise must be a scalar or have shape \(2,\)"),
        (lambda: best_plan_cost([1.0, 1.0], 1.0, [1.0]), r"contractions must be a scalar or have shape \(2,\)"),
        (lambda: Accountant([-1, 2], [0.5, 0.5]), r"sums must lie in \[0, inf\], got -1.0"),
        (lambda: Accountant([math.nan], [1.0]), r"sums must lie in \[0, inf\], got nan"),
        (lambda: Accountant([-math.inf], [1.0]), r"sums must lie in \[0, inf\], got -inf"),
        (lambda: Accountant([[1.0]], [1.0]), r"sums must be a vector of numbers in \[0, inf\], got shape \(1, 1\)"),
        (lambda: Accountant([1, 2], [3, 4]), r"probabilities must lie in \[0, 1\], got 3.0"),
        (lambda: Accountant([1, 2], [0.3, 0.6]), "probabilities must have the sum 1, got 0.8999999999999999"),
        (lambda: Accountant([1, 2], [1.0]), "sums and probabilities must have the same length, got 2 and 1"),
        (lambda: Accountant([], []), "probabilities must have the sum 1, got 0.0"),
        (lambda: Accountant([1.0], [1.0], 0), "compositions must be an integer >= 1, got 0"),
        (
            lambda: linear_run_separation([1.0, 0.0], [1.0], [1.0, 1.0]),
            r"noise must have shape \(2,\), got shape \(1,\)",
        ),
        (lambda: linear_run_separation([1.0], [1.0], [[1.0]]), r"contractions must have shape \(1,\)"),
        (
            lambda: gaussian_renyi_divergence(2.0, [0.0, 0.0], np.eye(2), [0.0], np.eye(2)),
            r"other_mean must have shape \(2,\), got shape \(1,\)",
        ),
        (
            lambda: gaussian_renyi_divergence(2.0, [0.0], np.eye(2), [0.0], np.eye(1)),
            r"covariance must have shape \(1, 1\), got shape \(2, 2\)",
        ),
        (
            lambda: gaussian_renyi_divergence(2.0, [0.0], [[1.0]], [0.0], [[0.0]]),
            r"other_covariance must be positive definite, with eigenvalues in \(0, inf\), got 0.0",
        ),
        (
            lambda: gaussian_renyi_divergence(2.0, [0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], [0.0, 0.0], np.eye(2)),
            "covariance must be symmetric, got entries that differ by 0.5",
        ),
        (lambda: quadratic_run([1.0], [1.0], [1.0], 0.1), r"targets must have shape \(K, n, d\)"),
        (
            lambda: quadratic_run(np.ones((2, 3, 1)), np.ones((2, 3, 1)), np.ones((2, 3)), 0.1),
            r"hessians must have shape \(2, 3, 1, 1\), got shape \(2, 3, 1\)",
        ),
        (
            lambda: quadratic_run(np.ones((2, 3, 1, 1)), np.ones((2, 3, 1)), 1.0, 0.1),
            r"noise must have shape \(2, 3\), got shape \(\)",
        ),
        (
            lambda: quadratic_run(np.ones((1, 2, 1, 1)), np.ones((1, 2, 1)), np.ones((3, 2)), 0.1),
            r"noise must have shape \(1, 2\), got shape \(3, 2\)",
        ),
        (
            lambda: gaussian_renyi_divergence(2.0, [0.0], [[-1.0]], [0.0], [[1.0]]),
            r"^covariance must be positive definite, with eigenvalues in \(0, inf\), got -1.0",
        ),
        (
            lambda: quadratic_run(np.ones((2, 3, 1, 1)), np.ones((2, 3, 1)), np.ones((2, 3)), 0.1, start=[0.0, 0.0]),
            r"start must have shape \(1,\), got shape \(2,\)",
        ),
        (lambda: noise_variance(2, 3, 0.5, 2.0), r"learning_rate \* curvature must lie in \[0, 1\), got 1.0"),
        (lambda: noise_variance(2, 0, 0.5, 1.0), "epochs must be an integer >= 1, got 0"),
        (lambda: best_plan_cost([-1.0], 1.0), r"sensitivities must lie in \[0, 1e100\]"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: described(dp_shuffled(3, epochs=2), 1.0, 1.0, convex=OTHER),
            "convex must be True or False, got 'other'",
        ),
        (lambda: amplification_sum(OTHER, 1), "schedule must be a Schedule, got 'other'"),
        (lambda: worst_amplification_sum(OTHER), "schedule must be a Schedule, got 'other'"),
        (lambda: composed_amplification_sum(OTHER), "schedule must be a Schedule, got 'other'"),
        (lambda: epoch_amplification_sums(OTHER), "schedule must be a Schedule, got 'other'"),
        (lambda: reshuffled_amplification_sums(OTHER), "schedule must be a Schedule, got 'other'"),
        (lambda: run_steps(OTHER, 1), "schedule must be a Schedule, got 'other'"),
        (lambda: dp_shuffled(3, epochs=2).noisy_steps(OTHER), "private must be an integer >= 0, got 'other'"),
        (lambda: Accountant(["a"], [1.0]), r"sums must hold real numbers in \[0, inf\], got \['a'\]"),
    ],
)
def test_what_is_of_the_wrong_type_is_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


# -- runs that show their noise only -----------------------------------------------------------------------------------


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.floats(1e-9, 0.99),
    st.one_of(st.just(0.0), st.floats(1e-12, 1.0)),
    st.sampled_from([0.0, 1e-9, 0.7]),
    st.integers(0, 3),
)
def test_noise_variance_is_that_of_the_run(n, epochs, eta, curvature, ridge, quiet):
    shape = (epochs + quiet, n)
    noise = np.repeat([1.0, 0.0], [epochs, quiet])[:, np.newaxis] * np.ones(n)
    hessians = np.full((*shape, 1, 1), curvature)
    _, covariance = quadratic_run(hessians, np.zeros((*shape, 1)), noise, eta, ridge=ridge)
    found = noise_variance(n, epochs, eta, curvature, ridge=ridge, quiet_epochs=quiet)
    assert found == pytest.approx(covariance[0, 0], rel=1e-11, abs=0)
    assert found * (1 + 1e-9) != pytest.approx(covariance[0, 0], rel=1e-11, abs=0)


def test_separations_beyond_the_range_of_floats_are_cut_off_below_the_truth():
    found = linear_run_separation([1e160], [1e-160], [1.0])  # in truth 1e640
    assert 1e307 < found < math.inf
    assert found == pytest.approx(math.exp(709), rel=1e-12)
    assert linear_run_separation([1e-160], [1e150], [1.0]) == 0.0


def test_a_run_without_private_records_tells_nothing():
    nothing = Accountant([0.0], [1.0])
    assert nothing.delta(0.0, noise_multiplier=1.0) == nothing.zcdp(1.0) == nothing.noise_multiplier_of_zcdp(1.0) == 0
