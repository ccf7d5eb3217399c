"""Shuffled gradient runs: incremental (given order), shuffle-once and random reshuffling, private and public records.

``shuffled_run`` simulates a ``ShuffledGradients`` with the noise that its accountants ask for, and refuses records that
do not meet its statements.  ``trajectory`` is the algorithm alone, for studies of convergence.

A run follows ``theory.papers.shuffled_gradients.schedules``: in epoch k the first n_k steps use private records in the
order π (the given one, one random permutation for all epochs, or a fresh one each), the others public ones in their own
order; gradients are clipped, noise N(0, σ² I) is added where the schedule says so, and each epoch ends with a proximal
step.

    x ← x − η (clip(∇f) + noise),    x ← prox_{nηψ}(x).

Kernels are compiled and draw their normals as they go; a run of K epochs of n steps in d dimensions costs about
n K d (3 ns for a normal + 1 ns).  The generator is an ordinary one and arithmetic is idealised: nothing here is a
floating-point-safe release.

Source: Jiang, Sharma, Wu and Joshi, 2026: Algorithms 1 to 5, Section 6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.kernels import kernel
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.schedules import ORDERS, Schedule
from corrnoise.theory.papers.shuffled_gradients.task import TASK_LINKS, Task
from corrnoise.theory.participation import FixedEpochs, Participation, Reshuffled

_RELATIVE_ROUNDING = 1e-12  #: relative, of constants of records


@kernel
def _weight(link, product, target):  # type: ignore[no-untyped-def]
    """The gradient of squares (1) and logistic losses (2) is this times the features."""
    if link == 1:
        return product - target
    margin = target * product
    if margin > 0:
        small = math.exp(-margin)
        return -target * small / (1 + small)
    return -target / (1 + math.exp(margin))


@kernel
def _gradient(loss, x, row, target, clip, gradient):  # type: ignore[no-untyped-def]
    """Fill ``gradient`` with that of one record, clipped to the norm ``clip``; ``loss`` is a link and a scale."""
    link, scale = loss
    d = x.size
    square = 0.0
    if link == 0:
        for j in range(d):
            gradient[j] = scale * (x[j] - row[j])
            square += gradient[j] * gradient[j]
    else:
        product = 0.0
        for j in range(d):
            product += x[j] * row[j]
        weight = scale * _weight(link, product, target)
        for j in range(d):
            gradient[j] = weight * row[j]
            square += gradient[j] * gradient[j]
    norm = math.sqrt(square)
    if norm > clip:
        for j in range(d):
            gradient[j] *= clip / norm


@kernel
def _epoch(rng, loss, x, order, private, records, public_records, rates, clip, sigma, noisy):  # type: ignore[no-untyped-def]
    """One epoch of steps on x, in place; records are features and targets, and rates those of both kinds of steps."""
    d = x.size
    gradient = np.empty(d)
    for i in range(order.size):
        if i < private:
            record = order[i]
            step = rates[0]
            _gradient(loss, x, records[0][record], records[1][record], clip, gradient)
        else:
            record = i - private
            step = rates[1]
            _gradient(loss, x, public_records[0][record], public_records[1][record], clip, gradient)
        if noisy[i]:
            for j in range(d):
                x[j] -= step * (gradient[j] + sigma * rng.standard_normal())
        else:
            for j in range(d):
                x[j] -= step * gradient[j]


@record
class SimulatedRun(Record):
    """The iterates and the releases of one run."""

    #: x at the starts of the epochs and at the end, shape (K + 1, d): for study only, unless they are released
    iterates: Array
    # : the iterates that the accountants of the run cover: the last one, shape (d,), or the iterates of all epochs,
    # shape (K + 1, : d)
    released: Array


@usual_float_errors
def shuffled_run(
    task: Task,
    run: ShuffledGradients,
    *,
    noise_multiplier: float | None = None,
    start: Array | None = None,
    rng: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> SimulatedRun:
    """Simulate a run with noise N(0, (z G)² I) added to gradients that are clipped to the norm G of the budget.

    For a run without clipping G bounds the gradients of all admissible records, and nothing is clipped.

    Parameters
    ----------
    task : {"classification", "regression"}
        Losses, regulariser and records; as many private ones as the run has samples.
    run : ShuffledGradients
        The run, with the facts that its privacy rests on.
    noise_multiplier : float, optional
        z >= 0; None for ``run.noise_multiplier()``, which keeps to the budget.  With 0 nothing is private.
    start : array of float, optional
        x_1, shape (d,); zero if None.  It must not depend on private records.
    rng : int, SeedSequence or Generator, optional
        As ``numpy.random.default_rng`` takes it.  A permutation is drawn before the noise of its epoch.

    Returns
    -------
    SimulatedRun

    Raises
    ------
    ValueError
        If a record is not as the run states (smoothness, strong convexity, gradients without clipping), the regulariser
        is less convex than stated, or no accountant covers the run.
    """
    checks.instance("task", task, Task).require_records(checks.instance("run", run, ShuffledGradients).schedule)
    given = run.noise_multiplier() if noise_multiplier is None else noise_multiplier
    z = checks.real("noise_multiplier", given, "[0, inf)")
    bound = run.budget.clip_norm
    if z > 0:
        _require_admissible_records(task, run, bound)
        run.require_cover()
    iterates = trajectory(
        task,
        run.schedule,
        run.participation,
        learning_rate=run.learning_rate,
        public_learning_rate=run.public_learning_rate,
        noise_std=z * bound,
        clipped_to=math.inf if run.clipping == "none" else bound,
        start=start,
        rng=rng,
    )
    return SimulatedRun(iterates, iterates[-1] if run.released == "last iterate" else iterates)


def _require_admissible_records(task: Task, run: ShuffledGradients, bound: float) -> None:
    """Refuse losses, records and regularisers that contradict the run."""
    if type(task.loss) is not LinearLoss:  # whose constants follow from its link, which is all that the kernels take
        raise ValueError(f"loss must be a LinearLoss itself, got {type(task.loss).__name__}, which may state others")
    largest = task.largest_smoothness()
    if largest > run.smoothness * (1 + _RELATIVE_ROUNDING):
        raise ValueError(f"smoothness must bound that of every record, {largest!r} here, got {run.smoothness!r}")
    least = task.loss.strong_convexity
    if run.strong_convexity > least:
        raise ValueError(
            f"strong_convexity must be at most {least!r} for the loss {task.loss.link!r}, got {run.strong_convexity!r}"
        )
    if run.regulariser_convexity > task.regulariser.strong_convexity:
        raise ValueError(
            f"regulariser_convexity must be at most {task.regulariser.strong_convexity!r} for the task's regulariser, "
            f"got {run.regulariser_convexity!r}"
        )
    if run.clipping != "none":
        return
    if task.loss.link == "squares":
        raise ValueError("clipping must not be 'none' for squares, whose gradients have no bound, got 'none'")
    longest = task.loss.scale * float(np.linalg.norm(task.features, axis=1).max())
    if longest > bound * (1 + _RELATIVE_ROUNDING):
        raise ValueError(
            f"clip_norm must be at least {longest!r}, by the longest private features without clipping, got {bound!r}"
        )


def trajectory(
    task: Task,
    schedule: Schedule,
    participation: Participation | None = None,
    *,
    learning_rate: float,
    noise_std: float,
    public_learning_rate: float | None = None,
    clipped_to: float = math.inf,
    start: Array | None = None,
    rng: int | np.random.SeedSequence | np.random.Generator | None = None,
) -> Array:
    """The iterates of the algorithm at the starts of the epochs and at the end, with any noise, without privacy.

    Returns the shape (K + 1, d).  There are as many private records as the schedule has steps an epoch.  Their order is
    ``fixed_epochs`` (incremental gradients in the order of the records), the same with ``secret=True`` (one
    permutation), or ``reshuffled``, which None stands for; a permutation is drawn before the noise of its epoch.  The
    proximal step of an epoch uses the learning rate of its last step.  Noise of ``noise_std`` is added to gradients
    that are ``clipped_to`` a norm, and x_1 is ``start``; None for 0.
    """
    checks.instance("task", task, Task).require_records(schedule)
    n, d = task.features.shape
    eta = checks.real("learning_rate", learning_rate, "(0, inf)")
    public = (
        eta if public_learning_rate is None else checks.real("public_learning_rate", public_learning_rate, "(0, inf)")
    )
    sigma = checks.real("noise_std", noise_std, "[0, inf)")
    who = ORDERS["reshuffled"](n, schedule.epochs) if participation is None else participation
    if not isinstance(who, FixedEpochs | Reshuffled) or (who.length, who.period) != (n * schedule.epochs, n):
        raise ValueError(f"participation must be in {schedule.epochs} epochs of {n} steps, got {who!r}")
    clip = math.inf if clipped_to == math.inf else checks.real("clipped_to", clipped_to, "(0, inf)")
    x = np.zeros(d) if start is None else np.array(checks.shaped("start", start, (d,)))
    generator = np.random.default_rng(rng)
    permutation: NDArray[np.int64] = np.arange(n)
    if isinstance(who, FixedEpochs) and who.secret:
        permutation = generator.permutation(n)
    iterates = np.empty((schedule.epochs + 1, d))
    iterates[0] = x
    for k, count in enumerate(schedule.private.tolist()):
        if isinstance(who, Reshuffled):
            permutation = generator.permutation(n)
        _epoch(
            generator,
            (TASK_LINKS.index(task.loss.link), task.loss.scale),
            x,
            permutation,
            count,
            (task.features, task.targets),
            (task.public_features, task.public_targets),
            (eta, public),
            clip,
            sigma,
            schedule.noisy_steps(count) if sigma > 0 else np.zeros(n, dtype=bool),
        )
        x[:] = task.regulariser.prox(x, n * (eta if count == n else public))
        iterates[k + 1] = x
    return iterates
