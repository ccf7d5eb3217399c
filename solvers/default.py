"""The noise of a run that names none: time-varying buffers for prefix sums, with few arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.families.registry import TIME_VARYING
from corrnoise.solvers.families.time_varying_family import buffer_counts
from corrnoise.solvers.optimise import choose, optimise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

DEFAULT_MEMORY = 2  #: arrays of the model's size that the default noise may keep


@usual_float_errors
def default_noise(
    participation: Participation, budget: Budget | None = None, *, replays: int | Literal["auto"] = 0
) -> Mechanism:
    """The default noise of a private run, which keeps at most two arrays of the model's size.

    It is the mechanism of ``cn.optimise(cn.SGD(), participation, memory=2, budget=budget)``: time-varying buffers with
    the smallest root mean squared error of prefix sums.  The search leaves out the families with larger errors, and the
    lower bound.  A run of one step has independent noise.

    It makes no earlier draws again by default, because accelerators, federated participants and other libraries do not,
    and each takes the time of a draw.  ``functools.partial(cn.default_noise, replays="auto")`` is the choice of runs on
    the host in fixed epochs: about 4 percent less error in four epochs.

    Parameters
    ----------
    participation : Participation
        The steps of each example, in a run with a number of steps.
    budget : Budget, optional
        The privacy budget by ε and δ, which sampled batches need.  The noise for other batches does not depend on it.
    replays : int or {"auto"}, default 0
        As for ``cn.optimise``.

    Returns
    -------
    Mechanism
        The noise.  The last 16 results are kept in the process.

    Raises
    ------
    TypeError
        An argument has another type.
    ValueError
        The run has no number of steps, or batches are sampled and the budget has no ε and δ.

    Examples
    --------
    >>> import corrnoise as cn
    >>> epochs = cn.Participation.fixed_epochs(20, epochs=2)
    >>> noise = cn.default_noise(epochs)
    >>> type(noise).__name__, noise.memory(20)
    ('TimeVaryingBuffers', 2)
    >>> f"{noise.mean_error(epochs):.4f}"
    '2.5307'
    """
    checks.instance("participation", participation, Participation)
    if budget is not None:
        checks.instance("budget", budget, Budget)
    return best_of_few(participation, budget if participation.sampled else None, replays)


@lru_cache(maxsize=16)
def best_of_few(participation: Participation, budget: Budget | None, replays: int | Literal["auto"] = 0) -> Mechanism:
    """The best noise of few arrays; the budget is None unless batches are sampled."""
    if not participation.sampled and not replays:
        run = Problem(SGD(), participation)
        if counts := buffer_counts(run, DEFAULT_MEMORY):
            members = TIME_VARYING.members(run, counts, lambda _: None)
            found = [run.evaluate(one, TIME_VARYING.name) for one in members]
            return choose(((one.error, one) for one in found), DEFAULT_MEMORY).mechanism
    return optimise(SGD(), participation, memory=DEFAULT_MEMORY, replays=replays, budget=budget).mechanism
