"""Private fits against plain re-implementations."""

import math
import sys

import numpy as np
import pytest
from scipy.linalg import toeplitz

from corrnoise.simulations import private_regression
from corrnoise.simulations.private_regression import private_linear_regression
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.privacy import gaussian_epsilon, gaussian_rho


def matrix(noise, steps):
    return toeplitz(noise.coefficients(steps), np.zeros(steps))


LOW, HIGH = np.array([-1.0, 0.0, 10.0]), np.array([1.0, 5.0, 30.0])


def made_up(n=60, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.uniform(LOW - 0.1 * (HIGH - LOW), HIGH, (n, 3))  # some below their bounds
    targets = 3 + features @ [2.0, -0.5, 0.1] + 0.5 * rng.standard_normal(n)
    return {"features": features, "targets": targets, "feature_bounds": (LOW, HIGH), "target_bounds": (0.0, 6.0)}


def plain_pass(data, eta, clip_norm, noise, noise_std, rng, steps):
    """One pass in plain loops: the same draws, the noise by an explicit matrix, the model by what it predicts."""
    rng = np.random.default_rng(rng)
    (low, high), (bottom, top), d = data["feature_bounds"], data["target_bounds"], LOW.size
    row = lambda x: np.append((2 * x - low - high) / (high - low), 1) / math.sqrt(d + 1)  # noqa: E731
    order = rng.permutation(len(data["targets"]))[:steps]
    correlated = noise_std * matrix(noise, steps) @ rng.standard_normal((steps, d + 1))
    theta, iterates = np.zeros(d + 1), []
    for t, i in enumerate(order):
        x = row(np.minimum(np.maximum(data["features"][i], low), high))
        y = (2 * min(max(data["targets"][i], bottom), top) - bottom - top) / (top - bottom)
        gradient = x * (x @ theta - y)
        gradient *= min(1, clip_norm / np.sqrt(gradient @ gradient))
        iterates.append(theta := theta - eta * (gradient + correlated[t]))
    mean = np.mean(iterates[steps // 2 :], axis=0)
    at = lambda x: (bottom + top) / 2 + (top - bottom) / 2 * (row(x) @ mean)  # noqa: E731
    return np.array([*(at(e) - at(np.zeros(d)) for e in np.eye(d)), at(np.zeros(d))])


def whole(model):
    return np.append(model.coefficients, model.intercept)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize("noise", [DPSGD(), NuFTRL(0.05), FiniteNoise([1.0, -0.7, 0.1])])
def test_noise_is_the_multiplier_times_the_clip_norm(noise, adjacency):
    data, steps, eta, clip_norm = made_up(), 31, 0.4, 0.2
    setting = {"noise": noise, "learning_rate": eta, "clip_norm": clip_norm, "steps": steps, "adjacency": adjacency}
    model = private_linear_regression(**data, epsilon=3.0, delta=1e-6, **setting, rng=11)
    inverse = np.linalg.inv(matrix(noise, steps))
    gamma = np.linalg.norm(inverse, axis=0).max() * (2 if adjacency == "replace-one" else 1)
    std = clip_norm * gamma / math.sqrt(2 * gaussian_rho(3.0, 1e-6))
    assert std <= model.noise_multiplier * clip_norm <= std * (1 + 1e-6)
    std = model.noise_multiplier * clip_norm
    np.testing.assert_allclose(whole(model), plain_pass(data, eta, clip_norm, noise, std, 11, steps), rtol=1e-9)
    less = plain_pass(data, eta, clip_norm, noise, std * (1 - 1e-6), 11, steps)
    assert not np.allclose(whole(model), less, rtol=1e-9)


def test_each_example_enters_exactly_once():
    # Example j alone has feature j.  With tiny steps and next to no noise coefficient j is its weight, the share of the
    # averaged iterates that come after it.
    n = 9
    setting = {"feature_bounds": (-1, 1), "target_bounds": (-1, 1), "epsilon": 1e9, "delta": 1e-9, "noise": DPSGD()}
    for steps in (n, 4):
        setting |= {"learning_rate": 1e-9, "clip_norm": 0.05, "steps": steps, "rng": 12}
        model = private_linear_regression(np.eye(n), np.ones(n), **setting)
        expected = np.append(np.zeros(n - steps), np.minimum(1, np.arange(1, steps + 1) / (steps - steps // 2)))
        each = model.coefficients * math.sqrt(n + 1) * math.sqrt(2) / (1e-9 * 0.05)
        np.testing.assert_allclose(np.sort(each), expected, atol=1e-3)
        assert model.clipped_fraction == 1


def test_large_budgets_approach_the_pass_without_privacy():
    data, setting = made_up(), {"learning_rate": 0.8, "clip_norm": 5.0, "noise": NuFTRL(0.02), "rng": 13}
    exact = plain_pass(data, 0.8, math.inf, NuFTRL(0.02), 0.0, 13, 60)
    models = [private_linear_regression(**data, epsilon=e, delta=1e-5, **setting) for e in (1e2, 1e4, 1e6)]
    errors = [np.abs(whole(m) - exact).max() for m in models]
    # The same draws without clipping: the distance is the noise multiplier times a constant.
    ratios = [e / m.noise_multiplier for e, m in zip(errors, models, strict=True)]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)
    assert errors[-1] < 0.02 < errors[0]
    assert models[0].clipped_fraction == 0


@pytest.mark.parametrize("noise", [DPSGD(), NuFTRL(0.05), AntiPGD(0.3)])
def test_one_example_moves_the_gradients_by_at_most_the_sensitivity(noise):
    # With iterates held fixed the query is the clipped gradients; independent noise must hide B⁻¹ times their change.
    rng, steps, clip_norm, moved, replaced = np.random.default_rng(14), 12, 0.3, [], []
    inverse, gamma = np.linalg.inv(matrix(noise, steps)), noise.sensitivity(steps)
    clipped_gradient = private_regression._clipped_gradient
    for _ in range(300):
        thetas, rows = rng.standard_normal((2, steps, 4))
        changed, target = rng.integers(steps), rng.standard_normal()
        pair = thetas[changed], rows[changed]
        one, other = (clipped_gradient(*pair, y, clip_norm)[0] for y in (target, -10 * target))
        for neighbour, distances in ((np.zeros(4), moved), (other, replaced)):
            difference = np.zeros((steps, 4))
            difference[changed] = one - neighbour
            distances.append(np.linalg.norm(inverse @ difference))
    assert max(moved) <= gamma * clip_norm * (1 + 1e-12)
    assert max(moved) > 0.999 * gamma * clip_norm  # attained by clipped gradients of the first step
    assert gamma * clip_norm * 1.5 < max(replaced) <= 2 * gamma * clip_norm * (1 + 1e-12)


def test_audit_of_a_single_step(monkeypatch):
    # One example, gradients clipped in opposite directions: N(±G, σ²) along the row, hence μ = 2G/σ, to be sqrt(2ρ).
    setting = {"feature_bounds": (-1, 1), "target_bounds": (-1, 1), "epsilon": 8.0, "delta": 1e-5}
    mu, runs = math.sqrt(2 * gaussian_rho(8.0, 1e-5)), 500
    monkeypatch.setattr(private_regression, "gaussian_rho", lambda *_: mu**2 / 2)  # it takes most of the time

    def measured(adjacency, seed):
        def fit(target, rng):
            return private_linear_regression([[0.0]], [target], **setting, adjacency=adjacency, rng=rng).intercept

        low, high = np.array([[fit(y, 2 * (seed + k) + (y > 0)) for k in range(runs)] for y in (-1.0, 1.0)])
        return (high.mean() - low.mean()) / math.sqrt((high.var(ddof=1) + low.var(ddof=1)) / 2)

    tolerance = 5 * math.sqrt(2 / runs + mu**2 / (4 * runs))
    assert abs(measured("replace-one", 0) - mu) < tolerance
    assert measured("zero-out", runs) - mu > tolerance  # which does not protect from replacement


def test_guarantee_says_what_it_is():
    model = private_linear_regression(**made_up(), epsilon=2, delta=1e-7, steps=50, adjacency="replace-one", rng=15)
    assert gaussian_epsilon(model.rho, 1e-7) <= 2.0
    ideal = NuFTRL(1 / 50).noise_multiplier(model.rho, 50, adjacency="replace-one")
    assert ideal <= model.noise_multiplier <= ideal * (1 + 1e-6)  # rounding errors of the stream
    assert model.noise == NuFTRL(1 / 50)
    for part in ("(2.0, 1e-07)", f"{model.rho}-zCDP", "replace-one", "50 gradients", "0.1", "Not covered", "Denisov"):
        assert part in model.guarantee
    assert not model.coefficients.flags.writeable


def test_defaults_do_not_look_at_the_data():
    budgets = [{"epsilon": e, "delta": 1e-5} for e in (0.1, 1.0, 10.0, 1e3)]
    one, two = ([private_linear_regression(**made_up(seed=k), **b).learning_rate for b in budgets] for k in (1, 2))
    assert one == two == sorted(one)
    assert one[0] < one[-1] == 1


BAD_FITS = {
    "features": [np.ones(60), np.ones((59, 3)), np.full((60, 3), math.nan), np.full((60, 3), "x")],
    "targets": [np.ones((60, 1)), np.full(60, math.inf)],
    "feature_bounds": [(1.0, 1.0), (np.zeros(2), np.ones(2)), (-math.inf, math.inf)],
    "target_bounds": [(2.0, 1.0), (np.zeros(3), np.ones(3)), 1.0, (1.0,)],
    "steps": [61, 0],
    "learning_rate": [0.0, 2.1, 100.0],
    "rng": [-1, 1.5, "a"],
    "adjacency": ["add-remove"],
    "noise": [0.1],
}


@pytest.mark.parametrize("name", BAD_FITS)
def test_bad_arguments_of_private_regression(name):
    for value in BAD_FITS[name]:
        with pytest.raises((TypeError, ValueError), match=name):
            private_linear_regression(**(made_up() | {"epsilon": 1.0, "delta": 1e-5, name: value}))


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'corrnoise\[data\]'"):
        private_regression.load_diabetes_problem()


def diabetes_r2(**setting):
    """The mean over seeds of 1 − training loss/variance."""
    data = private_regression.load_diabetes_problem()
    x, y = data["features"], data["targets"]
    models = [private_linear_regression(**data, delta=1e-5, rng=seed, **setting) for seed in range(8)]
    losses = [np.mean((y - x @ m.coefficients - m.intercept) ** 2) for m in models]
    return 1 - np.mean(losses) / y.var()


def test_diabetes_correlated_noise_fits_better_at_the_same_budget():
    pytest.importorskip("sklearn")
    data = private_regression.load_diabetes_problem()
    assert ((data["features"] >= data["feature_bounds"][0]) & (data["features"] <= data["feature_bounds"][1])).all()
    assert diabetes_r2(epsilon=1e6) > 0.48  # least squares: 0.518
    for epsilon, least in ((1.0, 0.25), (3.0, 0.4)):
        independent = max(diabetes_r2(epsilon=epsilon, noise=DPSGD(), learning_rate=2.0**-k) for k in (3, 4, 5))
        assert diabetes_r2(epsilon=epsilon) > max(independent + 0.15, least)
