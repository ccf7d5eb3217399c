"""Constants of tasks with public records: the assumptions of the convergence theorem on losses, records and schedule.

If the first n_d steps of an epoch use private records and the others public ones, the epoch follows a surrogate of the
objective, and H, the objective less the surrogate, has the gradient v_n/n with v_i as in ``dissimilarity``.  The
theorem takes constants C_i² >= sup E ‖v_i(z)‖² over the points z that it visits, and the smoothness of H.  These
points are random: averages of x* and of iterates at the starts of epochs.  Here E ‖z‖² <= r² is what bounds them.  The
supremum is that over the ball ‖z‖ <= r: the maxima of a quadratic over both have the same Lagrange dual, without a gap.

============  ====================================================================  ===================================
loss          dissimilarities for E ‖z‖² <= r²                                       smoothness of H
============  ====================================================================  ===================================
mean          exact: v_i does not depend on z                                       0
squares       exact: a convex quadratic, maximal where its multiplier λ solves      (c/n) max of the norms of AᵀA, or
              Σ β_k²/(λ − λ_k)² = r² (any λ >= max λ_k gives an upper bound)        exact if no private record is used
logistic      upper bound: gradients are shorter than c times the features          a quarter of that of squares
============  ====================================================================  ===================================

Source: Jiang, Sharma, Wu and Joshi, 2026: Assumptions 3.5 and 3.6, Section 5, Table 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants, RegulariserKind
from corrnoise.theory.papers.shuffled_gradients.dissimilarity import reshuffled_dissimilarity
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.task import Task
from corrnoise.theory.participation import FixedEpochs, Reshuffled

_RELATIVE_ROUNDING = 1e-9  #: relative, of norms
_OPTIMALITY_TOLERANCE = 1e-6  #: of a minimiser, relative to the gradients of single records


def quadratic_maximum(matrix: ArrayLike, vector: ArrayLike, radius: float) -> float:
    """Maximum of zᵀQz + 2bᵀz over ‖z‖ <= r for symmetric Q, never too small.

    Its dual, min over λ >= max(λ_k, 0) of λr² + Σ β_k²/(λ − λ_k) with β the coordinates of b in the eigenbasis of Q,
    has the same value, for convex and other Q.
    """
    r = checks.real("radius", radius, "[0, 1e100]")
    b = checks.reals("vector", vector, ndim=1)
    eigenvalues, basis = np.linalg.eigh(checks.symmetric("matrix", matrix, b.size))
    beta = basis.T @ b
    top = max(float(eigenvalues[-1]), 0.0)
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


def dissimilarities(
    task: Task, private_samples: int, *, radius: float, order: Literal["reshuffled", "given"] = "reshuffled"
) -> Array:
    """C_i² for i = n_d + 1, …, n: suprema of E ‖v_i(z)‖² over z with E ‖z‖² <= r² (see the module).

    Shape (n − n_d,), n_d = ``private_samples``.  The order is ``"reshuffled"``: over a fresh permutation, or
    ``"given"``: for the private records as they stand.
    """
    count = _public_steps(task, private_samples)
    order = checks.choice("order", order, ("reshuffled", "given"))
    r = checks.real("radius", radius, "[0, 1e100]")
    if count == 0:
        return np.empty(0)
    return _DISSIMILARITY_OF[task.loss.link](task, count, r, order == "reshuffled")


def _of_means(task: Task, count: int, radius: float, reshuffled: bool) -> Array:
    """Gradients c (z − a): v_i does not depend on z."""
    private, public = -task.loss.scale * task.features, -task.loss.scale * task.public_features[:count]
    if reshuffled:
        return reshuffled_dissimilarity(private, public)
    return np.asarray(np.square(np.cumsum(private[len(private) - count :] - public, axis=0)).sum(axis=1))


def _of_logistic_losses(task: Task, count: int, radius: float, reshuffled: bool) -> Array:
    """Gradients are shorter than c times the features; of a permutation the longest count."""
    lengths = task.loss.scale * np.linalg.norm(task.features, axis=1)
    private = np.sort(lengths)[::-1] if reshuffled else lengths[lengths.size - count :]
    public = task.loss.scale * np.linalg.norm(task.public_features[:count], axis=1)
    return np.asarray(np.square(np.cumsum(private[:count]) + np.cumsum(public)))


def _of_squares(task: Task, count: int, radius: float, reshuffled: bool) -> Array:
    """Gradients c a aᵀz − c y a: v_i is affine in z, and E ‖v_i‖² a quadratic."""
    moments = _reshuffled_squares if reshuffled else _given_squares
    return np.array(
        [
            quadratic_maximum((matrix + matrix.T) / 2, vector, radius) + constant
            for matrix, vector, constant in moments(task, count)
        ]
    )


def _public_squares(task: Task, count: int) -> Iterator[tuple[int, Array, Array]]:
    """m, and the sums of c a aᵀ and of c y a over the first m public records, for m = 1, …, ``count``."""
    a, y = task.public_features, task.public_targets
    c = task.loss.scale
    slope, offset = np.zeros((a.shape[1],) * 2), np.zeros(a.shape[1])
    for k in range(count):
        slope = slope + c * np.outer(a[k], a[k])
        offset = offset + c * y[k] * a[k]
        yield k + 1, slope, offset


def _given_squares(task: Task, count: int) -> Iterator[tuple[Array, Array, float]]:
    """Q, b and c of ‖v_i(z)‖² = zᵀQz + 2bᵀz + c, for the last ``count`` private records in their order."""
    a = task.features[-count:]
    y = task.targets[-count:]
    c = task.loss.scale
    for m, slope, offset in _public_squares(task, count):
        tilt, level = slope - c * a[:m].T @ a[:m], offset - c * a[:m].T @ y[:m]
        yield tilt.T @ tilt, -(tilt.T @ level), float(level @ level)


def _reshuffled_squares(task: Task, count: int) -> Iterator[tuple[Array, Array, float]]:
    """Q, b and c of E ‖v_i(z)‖² over a permutation: the bias, and m (n − m)/(n − 1) times the variance."""
    a = task.features
    y = task.targets
    n = len(task.features)
    c = task.loss.scale
    mean, shift = c / n * a.T @ a, c / n * a.T @ y
    squares = c**2 / n * np.square(a).sum(axis=1)
    variance = (a.T * squares) @ a - mean @ mean
    covariance = a.T @ (squares * y) - mean @ shift
    spread = float(squares @ y**2 - shift @ shift)
    for m, slope, offset in _public_squares(task, count):
        share = m * (n - m) / max(n - 1, 1)
        tilt, level = slope - m * mean, offset - m * shift
        yield (
            tilt.T @ tilt + share * variance,
            -(tilt.T @ level + share * covariance),
            float(level @ level) + share * spread,
        )


_DISSIMILARITY_OF = {"mean": _of_means, "squares": _of_squares, "logistic": _of_logistic_losses}


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
    if task.loss.link == "mean" or count == 0:
        return 0.0
    a = task.features
    p = task.public_features[:count]
    if task.loss.link == "squares" and count == n:
        return task.loss.curvature / n * float(np.linalg.norm(a.T @ a - p.T @ p, 2))
    largest = max(float(np.linalg.norm(rows, 2)) ** 2 for rows in (a, p))
    return task.loss.curvature / n * largest


def epoch_smoothness(task: Task, private_samples: int) -> tuple[float, float]:
    """The mean and the largest smoothness of an epoch's records, in the worst order."""
    count = _public_steps(task, private_samples)
    private = np.sort(task.loss.smoothness_of(task.features))[::-1][:private_samples]
    used = np.concatenate([private, task.loss.smoothness_of(task.public_features)[:count]])
    return float(used.mean()), float(used.max())


def convergence_constants(
    task: Task,
    run: ShuffledGradients,
    minimiser: ArrayLike,
    *,
    noise_std: float,
    radius: float,
    start: ArrayLike | None = None,
) -> ConvergenceConstants:
    """The constants of a run on a task, for the convergence theorem.

    β is the margin of the regulariser, μ_ψ − L_H; a regulariser that is a ball supplies its diameter instead.  The
    published theorem is the one for the regulariser: D.14, G.3 (lasso, with B = r + η n λ) or G.7 (ball).

    The optimality of x*, the ``minimiser``, is checked.  The ``radius`` r bounds ‖x*‖ and the root mean square norms of
    the iterates at the starts of epochs: Gaussian noise leaves every ball, so it is the mean square that counts.
    Within a regulariser's ball its strength is such a bound; otherwise it is an assumption of the caller for ridge
    losses with public records, and nothing depends on it for the other losses.  (Published G.3 uses r as a bound of E
    ‖x‖_∞.)

    Raises
    ------
    ValueError
        If an assumption of the theorem is not met, ``minimiser`` does not minimise, or ``radius`` is too small for x*,
        for x_1 or for the regulariser's ball.
    """
    schedule = checks.instance("run", run, ShuffledGradients).schedule
    checks.instance("task", task, Task).require_records(schedule)
    if schedule.placement not in ("every", "end"):
        raise ValueError(f"run must have its noise at every step or at the end, got {schedule.placement!r}")
    if run.public_learning_rate not in (None, run.learning_rate):
        raise ValueError(
            f"public_learning_rate must be learning_rate = {run.learning_rate!r}, got {run.public_learning_rate!r}"
        )
    if run.clipping != "none":
        raise ValueError(f"clipping must be 'none' for the theorem, got {run.clipping!r}")
    who = run.participation
    assert isinstance(who, FixedEpochs | Reshuffled)
    if who.secret and isinstance(who, FixedEpochs) and bool((schedule.private < schedule.samples).any()):
        raise ValueError(f"participation must be reshuffled, or fixed and not secret, with public records, got {who!r}")
    order: Literal["given", "reshuffled"] = "reshuffled" if who.secret or isinstance(who, Reshuffled) else "given"
    (n, d), psi, eta = task.features.shape, task.regulariser, run.learning_rate
    best = checks.shaped("minimiser", minimiser, (d,))
    x = np.zeros(d) if start is None else checks.shaped("start", start, (d,))
    r = checks.real("radius", radius, "[0, 1e100]")
    _require_minimiser(task, best)
    ball = psi.name == "ball"
    largest = max(float(np.linalg.norm(best)), float(np.linalg.norm(x)), psi.strength if ball else 0.0)
    if r < largest * (1 - _RELATIVE_ROUNDING):
        raise ValueError(f"radius must be at least {largest!r}, for x*, x_1 and a ball, got {r!r}")
    counts = schedule.private.tolist()
    kinds = {c: dissimilarities(task, c, radius=r, order=order) for c in set(counts)}
    smoothness = {c: epoch_smoothness(task, c) for c in kinds}
    spare = psi.strong_convexity - max(difference_smoothness(task, c) for c in kinds)
    total = np.array([float(np.sqrt(kinds[c][-1])) if c < n else 0.0 for c in counts])
    if total.any() and spare <= 0 and not ball:
        raise ValueError(
            f"task must have a regulariser that is more strongly convex than H is smooth, got a difference of {spare!r}"
        )
    if ball and task.loss.link == "squares" and order == "reshuffled" and any(0 < c < n for c in kinds):
        raise ValueError("order must be 'given' for ridge losses in a ball: the worst point depends on the permutation")
    gradients = task.loss.gradients(best, task.features, task.targets)
    return ConvergenceConstants(
        samples=n,
        epochs=schedule.epochs,
        dimension=d,
        learning_rate=eta,
        distance=float(np.linalg.norm(x - best)),
        deviation=float(np.sqrt(np.square(gradients).sum(axis=1).mean())),
        noise=np.where(schedule.private > 0, checks.real("noise_std", noise_std, "[0, 1e100]"), 0.0),
        smoothness=np.array([smoothness[c][0] for c in counts]),
        largest_smoothness=np.array([smoothness[c][1] for c in counts]),
        private_smoothness=float(task.loss.smoothness_of(task.features).mean()),
        end_noise=schedule.placement == "end",
        total_dissimilarity=total,
        partial_dissimilarity=np.array([float(kinds[c][:-1].sum()) / n for c in counts]),
        beta=max(spare, 0.0) if total.any() else 0.0,
        diameter=2 * psi.strength if ball else None,
        regulariser=_THEOREM_REGULARISERS.get(psi.name, "smooth"),
        size=r + eta * n * psi.strength if psi.name == "lasso" else 0.0,
    )


_THEOREM_REGULARISERS: dict[str, RegulariserKind] = {"lasso": "lasso", "ball": "projection"}


def _require_minimiser(task: Task, x: Array) -> None:
    """That x = prox(x − ∇F(x)) to 1e-6 of the gradients of single records."""
    gradients = task.loss.gradients(x, task.features, task.targets)
    residual = float(np.linalg.norm(x - task.regulariser.prox(x - gradients.mean(axis=0), 1.0)))
    scale = float(np.linalg.norm(gradients, axis=1).max()) + float(np.linalg.norm(x))
    if residual > _OPTIMALITY_TOLERANCE * scale:
        raise ValueError(
            "minimiser must minimise the objective of the task, got a point x where the norm of "
            f"x - prox(x - gradient) is {residual!r}"
        )
