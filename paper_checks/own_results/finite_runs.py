"""Finite runs: sensitivity under participation, certificates, and the error of learning.

Proofs are in ``docs/finite-runs.md``, ``docs/toeplitz-mechanisms.md`` and ``docs/certified-optimum.md``.
"""

import math

import numpy as np
from scipy.linalg import toeplitz as toeplitz_matrix

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, noises, one_of, regressions, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.oracles import lower_triangular, square
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.worst_case import worst_case, worst_gradients
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import block_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.toeplitz_losses import squared_sensitivity, squared_sensitivity_bound
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.toeplitz_errors import Aggregate, error_weights, strategy_error
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.participation import Participation
from corrnoise.theory.participation.pattern_sums import best_pattern, row_bounds
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression

GRADIENTS = "docs/finite-runs-proofs.md#sensitivity-gradients-are-vectors"
PATTERNS = "docs/finite-runs-proofs.md#sensitivity-over-patterns"
LEARNING = "docs/finite-runs-proofs.md#the-learning-error-of-any-noise"
SCALES = "docs/finite-runs-proofs.md#scales-for-each-step"
TOEPLITZ = "docs/toeplitz-mechanisms.md#the-lower-bound-of-best_toeplitz"
EPOCHS = "docs/certified-optimum.md#fixed-epochs"

#: Runs of a few steps, so that brute force lists every pattern.
RUNS = {"steps": integers(2, 6), "min_sep": integers(1, "steps"), "most": integers(1, 4)}


def _by_brute_force(strategy: Array, who: Participation) -> float:
    """The squared sensitivity that some pattern and gradients attain."""
    return worst_case(strategy, who).value ** 2


def _lower(first_column: Array) -> Array:
    return np.asarray(toeplitz_matrix(first_column, 0 * first_column))


# -- gradients are vectors ---------------------------------------------------------------------------------------------


@PAPER.identity(
    "S3",
    printed=r"Let $X_{12} X_{13} X_{23} < 0$ and $a, b, c = |X_{12}|, |X_{13}|, |X_{23}|$. The squared sensitivity of three steps is $\mathrm{Tr}[X] + ab/c + ac/b + bc/a$ "
    r"if $1/a, 1/b, 1/c$ are the sides of a triangle, otherwise $\mathrm{Tr}[X] + 2 (a + b + c) - 4 \min\{a, b, c\}$",
    proof=GRADIENTS,
    domain={"a": log_scale(0.05, 1), "b": log_scale(0.05, 1), "c": log_scale(0.05, 1)},
    mutants=[{"collinear": True}],
    tolerance=1e-7,
    evaluations=32,
)
def s3(a: float, b: float, c: float, collinear: bool = False) -> Sides:
    """Compared with ascent over the gradients from several starts, and with what calibrations use.

    With collinear gradients, signs, the maximum is smaller.
    """
    block = 3 * np.eye(3) - np.array([[0, a, b], [a, 0, c], [b, c, 0]])
    if max(1 / a, 1 / b, 1 / c) < (1 / a + 1 / b + 1 / c) / 2 and not collinear:
        formula = 9 + a * b / c + a * c / b + b * c / a
    else:
        formula = 9 + 2 * (a + b + c) - 4 * min(a, b, c)
    return np.full(2, formula), np.array([worst_gradients(block)[0], block_sensitivity(block)[1]])


@PAPER.identity(
    "S3 (equal products)",
    printed=r"Three unit columns with inner products $-a$, $0 < a \le 1/2$, have the squared sensitivity $3 + 3a$",
    proof=GRADIENTS,
    domain={"a": log_scale(1e-3, 0.5)},
    mutants=[{"slope": 2.0}, {"slope": 6.0}],
    tolerance=1e-8,
    evaluations=32,
)
def s3_equal(a: float, slope: float = 3.0) -> Sides:
    """Collinear gradients give 3 + 2a, which is too small, and Σ|X_ij| is 3 + 6a."""
    return 3 + slope * a, worst_gradients((1 + a) * np.eye(3) - a)[0]


@PAPER.inequality(
    "S4",
    printed=r"$\max \{\langle X, R \rangle : R \succeq 0, R_{ii} = 1\} \le \sum_i y_i + k \max\{0, -\lambda_{\min}(\mathrm{diag}(y) - X)\}$ for every $y$ and every symmetric $k \times k$ matrix $X$",
    proof=GRADIENTS,
    domain={"entries": vector(linear(-1, 1), 10), "offsets": vector(linear(-2, 2), 4)},
    mutants=[{"times": 3.0}],
    tolerance=1e-9,
    evaluations=48,
)
def s4(entries: Array, offsets: Array, times: float = 4.0) -> Sides:
    """The left side is what ascent over the gradients attains, k = 4.  For X = 11ᵀ and y = 0 the two sides are equal."""
    block = np.zeros((4, 4))
    block[np.triu_indices(4)] = entries
    block = block + block.T
    pairs = ((block, offsets), (np.ones((4, 4)), np.zeros(4)))
    bounds = [float(y.sum()) + times * max(0.0, -float(np.linalg.eigvalsh(np.diag(y) - x)[0])) for x, y in pairs]
    return np.array([worst_gradients(x)[0] for x, _ in pairs]), np.array(bounds)


# -- over patterns -----------------------------------------------------------------------------------------------------


@PAPER.inequality(
    "P1",
    printed=r"$\|\sum_{j < k} S^{jb} c\| \le \gamma \le \|\sum_{j < k} S^{jb} \hat{c}\|$ for coefficients of any signs, $\hat{c}_t = |c_t|$ for $t < b$ and $\hat{c}_t = \max_{s \ge t} |c_s|$ for $t \ge b$",
    proof=PATTERNS,
    domain={**RUNS, "c": vector(linear(-1, 1), 6)},
    mutants=[{"low": 1.001}, {"high": 0.999}, {"majorant": False}],
    tolerance=1e-9,
    evaluations=96,
)
def p1(
    steps: int, min_sep: int, most: int, c: Array, low: float = 1.0, high: float = 1.0, majorant: bool = True
) -> Sides:
    """Compared with brute force.  The left end alone is too small: c = (1, −1), b = 1, k = n = 2 has γ² = 5 and not 1."""
    who = Participation.min_sep(steps, min_sep, most)
    column = c[:steps]
    formula, bound = squared_sensitivity(column, who)[0], squared_sensitivity_bound(column, who)[0]
    truth = _by_brute_force(_lower(column), who)
    return np.array([low * formula, truth]), np.array([truth, high * (bound if majorant else formula)])


@PAPER.identity(
    "P1 (exact)",
    printed=r"$\gamma = \|\sum_{j < k} S^{jb} c\|$ if $c \ge 0$ and $c_t \ge c_{t+1}$ for $t \ge b$",
    proof=PATTERNS,
    domain={**RUNS, "first": vector(linear(0, 1), 6), "ratios": vector(linear(0, 1), 6)},
    mutants=[{"rise": 3.0}],
    tolerance=1e-9,
    evaluations=96,
)
def p1_exact(steps: int, min_sep: int, most: int, first: Array, ratios: Array, rise: float = 1.0) -> Sides:
    """The first b coefficients may have any order, and the next one may be larger.  If the last one rises the formula is too small."""
    column = first[:steps].copy()
    if min_sep < steps:
        column[min_sep:] = np.cumprod(ratios[min_sep:steps])
    if min_sep < steps - 1:
        column[-1] *= rise
    who = Participation.min_sep(steps, min_sep, most)
    return squared_sensitivity(column, who)[0], _by_brute_force(_lower(column), who)


@PAPER.inequality(
    "P2",
    printed=r"$\gamma^2 \le \max_\pi \sum_{i \in \pi} v_i$, $v_i$ the largest $\sum_{j \in \pi} |X_{ij}|$ over patterns that contain $i$",
    proof=PATTERNS,
    domain={**RUNS, "entries": vector(linear(-1, 1), 21), "bands": integers(1, "steps")},
    mutants=[{"share": 0.999}, {"containing": False}],
    tolerance=1e-9,
    evaluations=96,
)
def p2(
    steps: int, min_sep: int, most: int, entries: Array, bands: int, share: float = 1.0, containing: bool = True
) -> Sides:
    """Compared with brute force.  With at most b bands the two sides are equal, for any signs; the other steps of the pattern count."""
    strategy = np.zeros((6, 6))
    strategy[np.tril_indices(6)] = entries
    strategy = np.triu(strategy, 1 - bands)[:steps, :steps] if bands < steps else strategy[:steps, :steps]
    who = Participation.min_sep(steps, min_sep, most)
    sizes = np.abs(strategy.T @ strategy)
    rows = row_bounds(sizes, who.period, who.count, who.saturated) if containing else np.diag(sizes).copy()
    bound = float(rows[best_pattern(rows, who.period, who.count)].sum())
    return _by_brute_force(strategy, who), share * bound


@PAPER.inequality(
    "P4",
    printed=r"If $C$ has at most $b$ bands and $X_{ii} = \delta_i + \dots + \delta_{i+b-1}$ for a probability vector $\delta$, then $\gamma \le 1$",
    proof=PATTERNS,
    rests_on=["P2"],
    domain={
        "steps": integers(2, 6),
        "min_sep": integers(1, "steps"),
        "entries": vector(linear(-1, 1), 36),
        "weights": vector(log_scale(1e-6, 1), 6),
    },
    mutants=[{"longer": 1}],
    tolerance=1e-9,
    evaluations=96,
)
def p4(steps: int, min_sep: int, entries: Array, weights: Array, longer: int = 0) -> Sides:
    """Compared with brute force over strategies of b bands and any signs.  Windows of b + 1 steps allow too much."""
    delta = np.append(weights[:steps] / weights[:steps].sum(), np.zeros(steps))
    norms = np.array([delta[i : i + min_sep + longer].sum() for i in range(steps)])
    bands = entries.reshape(6, 6)[:min_sep, :steps].copy()
    bands[0] += np.where(bands[0] < 0, -0.1, 0.1)
    bands = np.where(np.add.outer(np.arange(min_sep), np.arange(steps)) < steps, bands, 0.0)
    bands *= np.sqrt(norms) / np.linalg.norm(bands, axis=0)
    return _by_brute_force(BandedNoise(bands).strategy(), Participation.min_sep(steps, min_sep)), 1.0


@PAPER.inequality(
    "P5",
    printed=r"An error $\delta$ of the coefficients changes the upper end of P1 by at most $k \sqrt{n} \|\delta\|$, and the lower end by at most $k \|\delta\|$",
    proof=PATTERNS,
    rests_on=["P1"],
    domain={
        "steps": integers(2, 12),
        "min_sep": integers(1, "steps"),
        "most": one_of(2, 3, 4, 1),
        "c": vector(linear(-1, 1), 12),
        "size": log_scale(1e-6, 1),
        "error": vector(linear(-1, 1), 12),
        "last": integers(1, "steps"),
    },
    mutants=[{"root": 0.9}, {"times": 0.9}],
    tolerance=1e-9,
    evaluations=96,
)
def p5(
    steps: int,
    min_sep: int,
    most: int,
    c: Array,
    size: float,
    error: Array,
    last: int,
    root: float = 1.0,
    times: float = 1.0,
) -> Sides:
    """The root is needed: an error of the last coefficient alone becomes the error of all c_t, t >= b, in the majorant.

    Only the ``last`` coefficients may have an error, and of these the ones above 1/2.  For c = 0, b = 1, k = 2 and an error of
    the last of 12 coefficients the upper end changes by 0.924 k √n ‖δ‖.
    """
    who = Participation.min_sep(steps, min_sep, most)
    column = size * c[:steps]
    delta = np.where(np.abs(error) > 0.5, error, 0.0)[:steps]
    delta[: steps - last] = 0.0
    moved = []
    for end in (squared_sensitivity, squared_sensitivity_bound):
        before, after = (math.sqrt(end(values, who)[0]) for values in (column, column + delta))
        moved.append(abs(after - before))
    largest = who.count * float(np.linalg.norm(delta)) + 1e-12
    return np.array(moved), np.array([times * largest, root * math.sqrt(steps) * largest])


# -- certificates ------------------------------------------------------------------------------------------------------


@PAPER.inequality(
    "T1",
    printed=r"$\sum v_s x_s^2 \, E(x) \ge E(c)^2/\lambda$ for all strategies $x$ with as many bands as $c$, $\lambda$ the largest eigenvalue of $V^{-1/2} \Gamma V^{-1/2}$",
    proof=TOEPLITZ,
    domain={
        "steps": integers(3, 12),
        "bands": integers(2, 3),
        "c": vector(linear(-0.7, 0.7), 2),
        "x": vector(linear(-1.7, 1.7), 2),
        "same": one_of(True, False),
        "objective": one_of("mean", "max"),
    },
    mutants=[{"factor": 1.005}],
    tolerance=1e-9,
    evaluations=96,
)
def t1(steps: int, bands: int, c: Array, x: Array, same: bool, objective: Aggregate, factor: float = 1.0) -> Sides:
    """For the mean and for the largest squared error of prefix sums, one participation; x is any, or the ``same`` as c.

    The sides are equal where c = x is the best strategy: 1.66053 for n = 3, the mean and two bands, c = (1, 0.37600).
    """
    who = Participation.single(steps)
    here, there = (np.append(1.0, values[: bands - 1]) for values in (c, c if same else x))
    right = float(there @ there) * strategy_error(there, error_weights(steps, steps, objective))[0]
    return factor * toeplitz.lower_bound(here, who, objective), right


@PAPER.inequality(
    "Theorem 2",
    printed=r"In fixed epochs every strategy has $\gamma^2 \, \mathrm{Tr}[G X^{-1}] \ge \|A L\|_*^2/\sum_r \mu_r$ for all $R = L L^\top = \oplus_r R_r \succeq 0$ with $\mathrm{diag}\, R_r \le \mu_r$",
    proof=EPOCHS,
    domain={
        "steps": integers(1, 5),
        "min_sep": integers(1, "steps"),
        "strategy": lower_triangular(5),
        "dual": square(5),
    },
    mutants=[{"factor": 1.001}],
    tolerance=1e-9,
    evaluations=48,
)
def theorem_2(steps: int, min_sep: int, strategy: Array, dual: Array, factor: float = 1.0) -> Sides:
    """For prefix sums; γ² is what brute force over gradients attains.  For a single step the sides are equal."""
    who = Participation.fixed_epochs(steps, period=min_sep)
    strategy = strategy[:steps, :steps]
    factors = np.zeros((steps, steps))
    total = 0.0
    for members in who.residue_classes():
        block = dual[np.ix_(members, members)]
        factors[np.ix_(members, members)] = block
        total += float(np.square(block).sum(axis=1).max())
    norm = float(np.linalg.norm(PrefixSums(steps).matrix() @ factors, "nuc"))
    error = float(MatrixNoise(strategy).errors(PrefixSums(steps)).sum())
    return factor * norm**2 / total, _by_brute_force(strategy, who) * error


# -- learning ----------------------------------------------------------------------------------------------------------

LEARNERS = {
    "problem": regressions(most=3, kurtosis=(1, 10), residual_std=0.0),
    "steps": integers(1, 6),
    "batch_size": integers(1, 4),
    "last": integers(0, 1),
}


def _objective(problem: LinearRegression, steps: int, batch_size: int, last: int) -> LearningObjective:
    return LearningObjective(problem, steps, weights="last" if last else "second half", batch_size=batch_size)


@PAPER.identity(
    "L2",
    printed=r"$\sum_s \varpi_s E(F(\theta_s) - F_*) = \frac{1}{2} \eta^2 \sigma^2 \mathrm{Tr}[W N N^\top]$ from $\theta_0 = \theta_*$ without residuals, for every lower-triangular $N$",
    proof=LEARNING,
    independent="the left side runs the second moments of L1 forwards in time, the right side its adjoint backwards",
    domain={**LEARNERS, "entries": vector(linear(-1, 1), 21)},
    tolerance=1e-9,
    evaluations=32,
    mutants=[{"kurtosis": 3.001}],
)
def l2(
    problem: LinearRegression, steps: int, batch_size: int, last: int, entries: Array, kurtosis: float | None = None
) -> Sides:
    """Noise of any form: N is lower-triangular with random entries."""
    strategy = np.zeros((6, 6))
    strategy[np.tril_indices(6)] = entries
    run = MatrixNoise(strategy[:steps, :steps] + 1.5 * np.eye(steps))
    of = _objective(problem, steps, batch_size, last)
    other = (
        problem if kurtosis is None else LinearRegression(problem.eigenvalues, problem.learning_rate, kurtosis=kurtosis)
    )
    curve = _objective(other, steps, batch_size, last).privacy_curve(run, Participation.single(steps))
    return float(curve[1:] @ of.step_weights()), of.privacy_error(run, Participation.single(steps))


@PAPER.inequality(
    "L2 (sign)",
    printed=r"$W \succeq 0$ if all $k_j \ge 1$",
    proof=LEARNING,
    domain=LEARNERS,
    tolerance=1e-11,
    evaluations=48,
    mutants=[{"shift": 1e-3}],
)
def l2_sign(problem: LinearRegression, steps: int, batch_size: int, last: int, shift: float = 0.0) -> Sides:
    """The smallest eigenvalue, plus 1e-12 of the trace for rounding.  It tends to 0 for small learning rates."""
    weights = _objective(problem, steps, batch_size, last).weight_matrix()
    trace = float(np.trace(weights))
    return shift, float(np.linalg.eigvalsh(weights)[0]) / trace + 1e-12


@PAPER.identity(
    "S5",
    printed=r"If $X = T(c)^\top T(c) \ge 0$, the strategy $T(c)\, \mathrm{diag}(1/d)$ has in fixed epochs $\gamma^2 = \max_r \sum_{i, j \in r} X_{ij}/(d_i d_j)$",
    proof=SCALES,
    domain={
        "steps": integers(2, 6),
        "min_sep": integers(1, "steps"),
        "nu": log_scale(1e-3, 1),
        "scales": vector(log_scale(0.1, 10), 6),
    },
    mutants=[{"crossed": False}],
    tolerance=1e-9,
    evaluations=48,
)
def s5(steps: int, min_sep: int, nu: float, scales: Array, crossed: bool = True) -> Sides:
    """Compared with brute force, for ν-DP-FTRL with scales.  Without the terms i ≠ j it is too small."""
    run = ScaledNoise(NuFTRL(nu), scales[:steps])
    who = Participation.fixed_epochs(steps, period=min_sep)
    strategy = run.strategy()
    gram = strategy.T @ strategy
    if not crossed:
        gram = np.diag(np.diag(gram))
    formula = max(float(gram[np.ix_(members, members)].sum()) for members in who.residue_classes())
    return formula, _by_brute_force(strategy, who)


@PAPER.inequality(
    "S6",
    printed=r"$d^\top (W \circ K) d$ and $1/(d_i d_j)$ are convex functions of $d > 0$: at a midpoint they are at most the mean of both ends",
    proof=SCALES,
    domain={
        **LEARNERS,
        "noise": noises(),
        "one": vector(log_scale(0.01, 100), 6),
        "other": vector(log_scale(0.01, 100), 6),
    },
    mutants=[{"factor": 0.999}, {"schur": False}],
    tolerance=1e-9,
    evaluations=48,
)
def s6(
    problem: LinearRegression,
    steps: int,
    batch_size: int,
    last: int,
    noise: ToeplitzNoise,
    one: Array,
    other: Array,
    factor: float = 1.0,
    schur: bool = True,
) -> Sides:
    """W ∘ K is positive semidefinite by Schur's product theorem.  Minus it is not: the mean error of no noise is concave.

    Its diagonal is scaled to 1, which changes the units of d.
    """
    weights = _objective(problem, steps, batch_size, last).weight_matrix()
    noising = _lower(noise.coefficients(steps))
    inner = weights * (noising @ noising.T)
    roots = np.sqrt(np.diag(inner))
    inner *= (1.0 if schur else -1.0) / np.outer(roots, roots)
    ends = [one[:steps], other[:steps]]

    def values(d: Array) -> Array:
        return np.append((1 / np.outer(d, d)).ravel(), float(d @ inner @ d))

    return values((ends[0] + ends[1]) / 2), factor * (values(ends[0]) + values(ends[1])) / 2


@PAPER.identity(
    "Unit columns",
    printed=r"With $d_t = \|(c_0, \dots, c_{n-1-t})\|$ the noise $\mathrm{diag}(d)\, T(\beta)$ has a strategy with columns of norm 1",
    proof=SCALES,
    domain={"noise": noises(), "steps": integers(1, 40)},
    mutants=[{"whole": True}],
    tolerance=1e-9,
    evaluations=32,
)
def unit_columns(noise: ToeplitzNoise, steps: int, whole: bool = False) -> Sides:
    """So its sensitivity for one participation is 1, and d costs a stream one multiplication a step."""
    norms = noise.column_norms(steps)
    scales = np.full(steps, norms[0]) if whole else norms
    return np.linalg.norm(ScaledNoise(noise, scales).strategy(), axis=0), np.ones(steps)
