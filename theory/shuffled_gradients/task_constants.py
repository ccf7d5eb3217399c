"""Constants of tasks with public records: what the convergence theorem asks of losses, records and schedule.

If the first n_d steps of an epoch use private records and the others public ones, the epoch follows a surrogate of the
objective, and H, the objective less the surrogate, has the gradient v_n/n with v_i as in ``dissimilarity``.  The
theorem takes constants C_i² >= sup E ‖v_i(z)‖² over the points z that it visits, here a ball ‖z‖ <= r, and the
smoothness of H.

============  ====================================================================  ===================================
loss          dissimilarities over the ball                                         smoothness of H
============  ====================================================================  ===================================
mean          exact: v_i does not depend on z                                       0
ridge         exact: a convex quadratic, maximal where its multiplier λ solves      (2/n) max of the norms of AᵀA, or
              Σ β_k²/(λ − λ_k)² = r² (any λ >= max λ_k gives an upper bound)        exact if no private record is used
logistic      upper bound: gradients are shorter than the features                  a quarter of that of squares
============  ====================================================================  ===================================

References
----------
Jiang, Sharma, Wu and Joshi, 2026: Assumptions 3.5 and 3.6, Section 5, Table 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.empirical_risk import Task
from corrnoise.theory.shuffled_gradients.convergence import ShuffledRun
from corrnoise.theory.shuffled_gradients.dissimilarity import reshuffled_dissimilarity
from corrnoise.theory.shuffled_gradients.schedules import Schedule


def quadratic_maximum(matrix: ArrayLike, vector: ArrayLike, radius: float) -> float:
    """Maximum of zᵀQz + 2bᵀz over ‖z‖ <= r for symmetric Q, never too small.

    Its dual, min over λ >= max(λ_k, 0) of λr² + Σ β_k²/(λ − λ_k) with β the coordinates of b in the eigenbasis of Q,
    has the same value, for convex and other Q.

    Parameters
    ----------
    matrix, vector
        Q and b, shapes (d, d) and (d,); Q symmetric.
    radius
        r >= 0.
    """
    r, b = checks.real("radius", radius, "[0, 1e100]"), checks.reals("vector", vector, ndim=1)
    eigenvalues, basis = np.linalg.eigh(checks.symmetric("matrix", matrix, b.size))
    beta, top = basis.T @ b, max(float(eigenvalues[-1]), 0.0)
    gaps = top - eigenvalues

    def dual(excess: float) -> float:
        terms = np.divide(beta**2, gaps + excess, out=np.zeros_like(beta), where=beta != 0)
        return float((top + excess) * r**2 + terms.sum())

    length = float(np.linalg.norm(beta))
    if length == 0 or r == 0:
        return top * r**2
    low, high = 0.0, length / r  # the multiplier less the largest eigenvalue
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        falls = np.sum(np.divide(beta, gaps + middle) ** 2) > r**2
        low, high = (middle, high) if falls else (low, middle)
    return dual(high) * (1 + 1e-13)


def dissimilarities(task: Task, private_samples: int, *, radius: float, order: str = "reshuffled") -> Array:
    """C_i² for i = n_d + 1, …, n: suprema of E ‖v_i(z)‖² over ‖z‖ <= r, exact or upper bounds (see the module).

    Parameters
    ----------
    task
        Losses and records; at least n − n_d public ones.
    private_samples
        n_d, steps of the epoch that use private records, 0 <= n_d <= n.
    radius
        r >= 0 of a ball that holds x* and the iterates.
    order
        ``"reshuffled"``: over a fresh permutation; ``"given"``: for the private records as they stand.

    Returns
    -------
    Shape (n − n_d,); empty for n_d = n.
    """
    count = _public_steps(task, private_samples)
    n = len(task.features)
    order = checks.choice("order", order, ("reshuffled", "given"))
    r = checks.real("radius", radius, "[0, 1e100]")
    if count == 0:
        return np.empty(0)
    a, y = task.features, task.targets
    p, q = task.public_features[:count], task.public_targets[:count]
    if task.loss.name == "mean":
        return _second_moments(-a, -p, order)
    if task.loss.name == "logistic":
        lengths, public = np.linalg.norm(a, axis=1), np.linalg.norm(p, axis=1)
        private = np.sort(lengths)[::-1] if order == "reshuffled" else lengths[n - count :]
        return np.square(np.cumsum(private[:count]) + np.cumsum(public))
    # Gradients 2 a aᵀz − 2 y a: v_i is affine in z, and E ‖v_i‖² a quadratic.
    private, public = a[n - count :], p
    mean, shift = 2 / n * a.T @ a, 2 / n * a.T @ y
    squares = 4 / n * np.square(a).sum(axis=1)
    spread = (
        (a.T * squares) @ a - mean @ mean,
        a.T @ (squares * y) - mean @ shift,
        float(squares @ y**2 - shift @ shift),
    )
    slope, offset = np.zeros_like(mean), np.zeros_like(shift)
    found = np.empty(count)
    for k in range(count):
        slope += 2 * np.outer(public[k], public[k])
        offset += 2 * q[k] * public[k]
        m, share = k + 1, 0.0
        if order == "reshuffled":
            tilt, level, share = slope - m * mean, offset - m * shift, m * (n - m) / max(n - 1, 1)
        else:
            rows = private[:m]
            tilt, level = slope - 2 * rows.T @ rows, offset - 2 * rows.T @ y[n - count : n - count + m]
        quadratic = tilt.T @ tilt + share * spread[0]
        quadratic = (quadratic + quadratic.T) / 2  # where it all but vanishes, rounding is all that is left
        found[k] = quadratic_maximum(quadratic, -(tilt.T @ level + share * spread[1]), r)
        found[k] += level @ level + share * spread[2]
    return found


def _second_moments(private: Array, public: Array, order: str) -> Array:
    """E ‖v_i‖² of gradients that do not depend on z."""
    if order == "reshuffled":
        return reshuffled_dissimilarity(private, public)
    return np.asarray(np.square(np.cumsum(private[len(private) - len(public) :] - public, axis=0)).sum(axis=1))


def _public_steps(task: Task, private_samples: int) -> int:
    n = len(checks.instance("task", task, Task).features)
    if checks.integer("private_samples", private_samples, 0) > n:
        raise ValueError(f"private_samples must lie in [0, samples] = [0, {n}], got {private_samples!r}")
    if n - private_samples > len(task.public_features):
        raise ValueError(
            f"public_features must have at least {n - private_samples} rows, got {len(task.public_features)}"
        )
    return n - private_samples


def difference_smoothness(task: Task, private_samples: int) -> float:
    """An upper bound L_H of the smoothness of H, whatever the order (exact: mean; ridge without private records).

    The published constant is the sum of the largest smoothness of both kinds; a difference of positive semidefinite
    matrices is no larger than the larger one.
    """
    count = _public_steps(task, private_samples)
    n = len(task.features)
    if task.loss.name == "mean" or count == 0:
        return 0.0
    a, p = task.features, task.public_features[:count]
    if task.loss.name == "ridge" and count == n:
        return task.loss.curvature / n * float(np.linalg.norm(a.T @ a - p.T @ p, 2))
    largest = max(float(np.linalg.norm(rows, 2)) ** 2 for rows in (a, p))
    return task.loss.curvature / n * largest


def epoch_smoothness(task: Task, private_samples: int) -> tuple[float, float]:
    """The mean and the largest smoothness of an epoch's records, in the worst order."""
    count = _public_steps(task, private_samples)
    private = np.sort(task.loss.smoothness(task.features))[::-1][:private_samples]
    used = np.concatenate([private, task.loss.smoothness(task.public_features)[:count]])
    return float(used.mean()), float(used.max())


def convergence_run(
    task: Task,
    schedule: Schedule,
    minimiser: ArrayLike,
    *,
    learning_rate: float,
    noise_std: float,
    radius: float,
    order: str = "reshuffled",
    start: ArrayLike | None = None,
) -> ShuffledRun:
    """The constants of a run on a task, for the convergence theorem.

    β is what the regulariser has to spare, μ_ψ − L_H; a regulariser that is a ball supplies its diameter instead.  The
    published theorem is the one for the regulariser: D.14, G.3 (lasso, with B = r + η n λ) or G.7 (ball).

    Parameters
    ----------
    task, schedule
        What is minimised, and how.  Noise is at every step or at the end of the epochs.
    minimiser
        x*, shape (d,).
    learning_rate, noise_std
        η > 0, and σ >= 0 of the noise that is added to gradients.
    radius
        r >= 0 of a ball around 0 that holds x* and the iterates.
    order
        ``"reshuffled"`` or ``"given"``.
    start
        x_1, shape (d,); zero if None.

    Raises
    ------
    ValueError
        Noise stands elsewhere, or nothing is left for β where the theorem needs it.
    """
    checks.instance("task", task, Task).require_records(schedule)
    if schedule.placement not in ("every", "end"):
        raise ValueError(f"schedule must have its noise at every step or at the end, got {schedule.placement!r}")
    (n, d), psi = task.features.shape, task.regulariser
    eta, r = checks.real("learning_rate", learning_rate, "(0, 1e100]"), checks.real("radius", radius, "[0, 1e100]")
    best = checks.shaped("minimiser", minimiser, (d,))
    x = np.zeros(d) if start is None else checks.shaped("start", start, (d,))
    counts = schedule.private.tolist()
    kinds = {c: dissimilarities(task, c, radius=r, order=order) for c in set(counts)}
    smoothness = {c: epoch_smoothness(task, c) for c in kinds}
    spare = psi.strong_convexity - max(difference_smoothness(task, c) for c in kinds)
    ball = psi.name == "ball"
    total = np.array([float(np.sqrt(kinds[c][-1])) if c < n else 0.0 for c in counts])
    if total.any() and spare <= 0 and not ball:
        raise ValueError(
            f"task must have a regulariser that is more strongly convex than H is smooth, got a difference of {spare!r}"
        )
    if ball and task.loss.name == "ridge" and order == "reshuffled" and any(0 < c < n for c in kinds):
        raise ValueError("order must be 'given' for ridge losses in a ball: the worst point depends on the permutation")
    gradients = task.loss.gradients(best, task.features, task.targets)
    return ShuffledRun(
        samples=n,
        epochs=schedule.epochs,
        dimension=d,
        learning_rate=eta,
        distance=float(np.linalg.norm(x - best)),
        deviation=float(np.sqrt(np.square(gradients).sum(axis=1).mean())),
        noise=np.where(schedule.private > 0, checks.real("noise_std", noise_std, "[0, 1e100]"), 0.0),
        smoothness=np.array([smoothness[c][0] for c in counts]),
        largest_smoothness=np.array([smoothness[c][1] for c in counts]),
        private_smoothness=float(task.loss.smoothness(task.features).mean()),
        end_noise=schedule.placement == "end",
        total_dissimilarity=total,
        partial_dissimilarity=np.array([float(kinds[c][:-1].sum()) / n for c in counts]),
        beta=max(spare, 0.0) if total.any() else 0.0,
        diameter=2 * psi.strength if ball else None,
        regulariser={"lasso": "lasso", "ball": "projection"}.get(psi.name, "smooth"),
        size=r + eta * n * psi.strength if psi.name == "lasso" else 0.0,
    )
