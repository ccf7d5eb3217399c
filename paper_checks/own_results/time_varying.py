"""Time-varying buffers: their class, and their sensitivity in fixed epochs and in other orders.

Proofs are in ``docs/time-varying-buffers.md``.
"""

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.oracles import buffered
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.solvers.worst_case import worst_case
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation

PROVED = "docs/time-varying-buffers.md#proofs"
STEPS, BUFFERS = 6, 2
#: Numbers of two buffers in six steps.
NUMBERS = {
    "decays": vector(linear(0.2, 0.9), BUFFERS),
    "outputs": vector(linear(0.1, 1), STEPS * BUFFERS),
    "inputs": vector(linear(0.1, 1), STEPS * BUFFERS),
    "columns": vector(linear(0.5, 2), STEPS),
}


@PAPER.inequality(
    "TV1",
    printed=r"For lower-triangular invertible $C$ of order $d$ the matrices $C^{-1}$, $C^\top C$ and $(C^\top C)^{-1}$ have order $d$",
    proof=PROVED,
    domain=NUMBERS,
    mutants=[{"order": 1}],
    independent="singular values of dense matrices against 0",
    tolerance=1e-9,
    evaluations=48,
)
def tv1(decays: Array, outputs: Array, inputs: Array, columns: Array, order: int = BUFFERS) -> Sides:
    """Singular values beyond the d-th of the middle block, relative to the first; with one fewer buffer they are not 0."""
    strategy = buffered(decays, outputs, inputs, columns).strategy()
    gram = strategy.T @ strategy
    matrices = (np.linalg.inv(strategy), gram, np.linalg.inv(gram))
    values = [np.linalg.svd(matrix[3:, :3], compute_uv=False) for matrix in matrices]
    return np.array([1 + v[order] / v[0] for v in values]), np.ones(len(values))


@PAPER.identity(
    "TV2",
    printed=r"In fixed epochs of $b$ steps the squared sensitivity of buffers with $\theta, o, i, c \ge 0$ is the largest $\sum_j c_j [c_j (1 + i_j^\top Q_{j+1} i_j) + 2 (o_j \cdot \sigma_j + (\theta \circ \sigma_j)^\top Q_{j+1} i_j)]$ over the classes",
    proof=PROVED,
    domain={**NUMBERS, "period": integers(1, STEPS - 1)},
    mutants=[{"late": 1}, {"seen": 0.0}, {"crossed": 1.0}],
    independent="a recursion in time against sums over the entries of the dense strategy",
    tolerance=1e-9,
    evaluations=64,
)
def tv2(
    decays: Array,
    outputs: Array,
    inputs: Array,
    columns: Array,
    period: int,
    late: int = 0,
    seen: float = 1.0,
    crossed: float = 2.0,
) -> Sides:
    """Compared with every class of the dense strategy.  The states wait b − 1 steps, ``late`` more in a mutant."""
    noise = buffered(decays, outputs, inputs, columns)
    o, i = noise.outputs, noise.inputs
    q = np.zeros((STEPS + 1, BUFFERS, BUFFERS))
    for t in range(STEPS - 1, -1, -1):
        q[t] = np.outer(o[t], o[t]) + np.outer(decays, decays) * q[t + 1]
    states, sums = np.zeros((STEPS + period, BUFFERS)), np.zeros(period)
    for t, (c, state) in enumerate(zip(columns, states, strict=False)):
        alone = c * (1 + i[t] @ q[t + 1] @ i[t])
        sums[t % period] += c * (alone + crossed * (seen * o[t] @ state + decays * state @ q[t + 1] @ i[t]))
        states[t + period] = decays ** (period - 1 + late) * (decays * state + c * i[t])
    return sums.max(), worst_case(noise.strategy(), Participation.fixed_epochs(STEPS, period=period)).value ** 2


@PAPER.inequality(
    "TV4",
    printed=r"If the gain of each step $t$ at the largest state that at most $k - 1$ participations leave is the sum of the weights of the windows of $b$ steps around $t$, and of a further weight over $k$, then the squared sensitivity to at most $k$ participations that are at least $b$ steps apart is at most the sum of the weights",
    proof=PROVED,
    rests_on=["TV2"],
    domain={
        **{name: NUMBERS[name] for name in ("decays", "outputs", "inputs")},
        "windows": vector(linear(0, 1), STEPS),
        "whole": linear(0.01, 1),
        "period": integers(1, STEPS - 1),
        "count": integers(1, 3),
    },
    mutants=[{"longer": 1}, {"seen": 0.0}, {"times": 1.5}],
    independent="levels in time against the largest sum over the patterns of the dense strategy",
    tolerance=1e-9,
    evaluations=64,
)
def tv4(
    decays: Array,
    outputs: Array,
    inputs: Array,
    windows: Array,
    whole: float,
    period: int,
    count: int,
    longer: int = 0,
    seen: float = 1.0,
    times: float = 1.0,
) -> Sides:
    """Window s has the steps s, …, s + b − 1; more in a mutant.  Columns solve the quadratic equations of the gains."""
    weights = windows + 1e-3
    levels = [weights[max(t - period - longer + 1, 0) : t + 1].sum() + times * whole / count for t in range(STEPS)]
    noise = buffered(decays, outputs, inputs, np.ones(STEPS))
    o, i = noise.outputs, noise.inputs
    q = np.zeros((STEPS + 1, BUFFERS, BUFFERS))
    for t in range(STEPS - 1, -1, -1):
        q[t] = np.outer(o[t], o[t]) + np.outer(decays, decays) * q[t + 1]
    columns = np.zeros(STEPS)
    states = np.zeros((count, STEPS + 1, BUFFERS))  # largest before a step, after at most 0, 1, … participations
    for t, level in enumerate(levels):
        for k in range(1, count):
            earlier = [0 * decays]
            for s in range(t - period + 1):
                earlier.append(decays ** (t - 1 - s) * (decays * states[k - 1, s] + columns[s] * i[s]))
            states[k, t] = np.max(earlier, axis=0)
        base, slope = 1 + i[t] @ q[t + 1] @ i[t], 2 * seen * (o[t] + decays * (q[t + 1] @ i[t])) @ states[-1, t]
        columns[t] = (np.sqrt(slope**2 + 4 * base * level) - slope) / (2 * base)
    strategy = buffered(decays, outputs, inputs, columns).strategy()
    found = worst_case(strategy, Participation.min_sep(STEPS, period, min(count, -(-STEPS // period)))).value
    return found**2, weights.sum() + whole
