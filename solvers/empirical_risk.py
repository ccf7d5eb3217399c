"""Minimisers of regularised empirical risks, to rounding: what excess risks are measured from.

Means and squares have closed forms.  For the others accelerated proximal gradients find the support,
and Newton's method on it the minimiser; the optimality conditions are checked at the end.
"""

from __future__ import annotations

import numpy as np

from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.shuffled_gradients.task import Task

_MAX_STEPS = 50_000  # of gradient descent
_NEWTON_STEPS = 50
_RELATIVE_RESIDUAL = 1e-9  # of x = prox(x − ∇F(x)), over the largest gradient of a record


def empirical_risk_minimiser(task: Task) -> tuple[Array, float]:
    """The minimiser x* of G, shape (d,), and its value G*.

    Raises
    ------
    ArithmeticError
        If the optimality conditions are not met to 1e-9 of the size of the gradients; the objective has no minimiser or
        is too ill-conditioned.
    """
    name = checks.instance("task", task, Task).regulariser.name
    if task.loss.link == "mean" and name in ("none", "ball", "ridge"):
        mean = task.features.mean(axis=0)
        x = task.regulariser.prox(mean, 1 / task.loss.scale)
    elif task.loss.link == "squares" and name in ("none", "ridge"):
        a = task.features
        n = len(task.features)
        strength = task.regulariser.strong_convexity
        c = task.loss.scale
        normal = c / n * a.T @ a + strength * np.eye(a.shape[1])
        x = np.asarray(np.linalg.lstsq(normal, c / n * a.T @ task.targets, rcond=None)[0], dtype=np.float64)
    else:
        x = _newton(task, _accelerated(task))
    _require_optimal(task, x)
    return x, task.objective(x)


def _gradient(task: Task, x: Array) -> Array:
    return np.asarray(task.loss.gradients(x, task.features, task.targets).mean(axis=0))


def _accelerated(task: Task) -> Array:
    """FISTA with restarts."""
    a = task.features
    square = 1.0 if task.loss.link == "mean" else float(np.linalg.norm(a, 2)) ** 2 / len(a)
    step = 1 / (task.loss.curvature * square)
    x = y = np.zeros(a.shape[1])
    t = 1.0
    for _ in range(_MAX_STEPS):
        new = task.regulariser.prox(y - step * _gradient(task, y), step)
        if (y - new) @ (new - x) > 0:
            t = 1.0
            y = x
            continue
        if np.abs(new - x).max() <= 1e-13 * max(1.0, np.abs(new).max()) and t > 1:
            return new
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        x, y, t = new, new + (t - 1) / following * (new - x), following
    return x


def _curvatures(loss: LinearLoss, products: Array) -> Array:
    """Second derivatives of the losses in the products ⟨x, a⟩; 0 for a mean."""
    if loss.link == "squares":
        return np.full(products.size, loss.curvature)
    return loss.scale / (2 * np.cosh(products / 2)) ** 2 if loss.link == "logistic" else np.zeros(products.size)


def _newton(task: Task, x: Array) -> Array:
    """Newton steps on the support of a lasso solution, as long as they keep the signs."""
    if task.regulariser.name not in ("none", "lasso"):
        return x
    strength = task.regulariser.strength if task.regulariser.name == "lasso" else 0.0
    support = x != 0 if strength else np.ones(x.size, dtype=bool)
    signs = np.sign(x[support])
    a = task.features[:, support]
    for _ in range(_NEWTON_STEPS):
        gradient = _gradient(task, x)[support] + strength * signs
        weights = _curvatures(task.loss, task.features @ x)
        hessian = (a.T * weights) @ a / len(a) + task.loss.strong_convexity * np.eye(a.shape[1])
        candidate = x.copy()
        candidate[support] -= np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        if strength and (np.sign(candidate[support]) != signs).any():
            break
        moved = np.abs(candidate - x).max()
        x = candidate
        if moved <= 1e-15 * max(1.0, np.abs(x).max()):
            break
    return x


def _require_optimal(task: Task, x: Array) -> None:
    """That x = prox(x − ∇F(x)), relative to the gradients of single records; separable classes have no minimiser."""
    unregularised = task.loss.link == "logistic" and task.regulariser.name == "none"
    if unregularised and (task.targets * (task.features @ x) > 0).all():
        raise ArithmeticError("the minimiser was not found: the classes are separable, and the risk has none")
    residual = np.abs(x - task.regulariser.prox(x - _gradient(task, x), 1.0)).max()
    size = max(np.abs(task.loss.gradients(x, task.features, task.targets)).max(), 1e-300)
    if not residual <= _RELATIVE_RESIDUAL * size:
        raise ArithmeticError(f"the minimiser was not found: the optimality residual is {residual:.3g}")
