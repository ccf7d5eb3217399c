"""How much noise a momentum needs: the square root mechanism, and a lower bound for all mechanisms.

A momentum shows the noise of gradients through the workload A_ts = α (1 − α)^{t−s} (``MomentumAverage``).  Its square
root is ν-DP-FTRL with ν = α, and what decides about the noise is

    S = (1/2π) ∫ |α/(1 − (1 − α) e^{iω})| dω = α/agm(1, sqrt(α (2 − α))) = (α/π) (log(8/α) + o(1)).

At ρ = ½ and clip norm 1, every step of the square root has noise of standard deviation at most S if each example takes
part once, in a run of any length; no mechanism has a smaller root mean square over T steps than
S − (1 − α)/((2 − α) T).  In E epochs both are multiplied by sqrt(E), and the square root by at most
sqrt((1 + a)/(1 − a)) more, a = (1 − α)^N, for one order in all epochs.  Proofs: docs/momentum-aggregation-proofs.md.
"""

from __future__ import annotations

import math

from corrnoise.theory.mechanisms.tree_orders import power
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.elliptic import agm
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.participation import FixedEpochs, MinSep, Participation


def noise_limit(alpha: float) -> float:
    """S, the standard deviation of the least noise in a momentum of a long run at ρ = ½ and clip norm 1, 0 < α <= 1.

    Relative error below 1e-14.  The square root mechanism ``NuFTRL(alpha)`` attains it if examples are used once.
    """
    alpha = checks.real("alpha", alpha, "(0, 1]")
    return float(alpha / agm(1.0, math.sqrt(alpha * (2 - alpha))))


@usual_float_errors
def noise_lower_bound(alpha: float, *, steps: int, epochs: float = 1.0) -> float:
    """Lower bound of the root mean square of any noise in a momentum, at ρ = ½ and clipping norm 1.

    It is sqrt(E) (S − (1 − α)/((2 − α) T)), or 0 where this is negative.

    Parameters
    ----------
    alpha : float
        The momentum, in (0, 1].
    steps : int
        T, at least 1.
    epochs : float, default 1.0
        E = T/N >= 1, the number of steps of each example, in any order of each epoch.

    Returns
    -------
    float
    """
    steps = checks.integer("steps", steps, 1)
    epochs = checks.real("epochs", epochs, "[1, inf)")
    limit = noise_limit(alpha)
    return math.sqrt(epochs) * max(limit - (1 - alpha) / ((2 - alpha) * steps), 0.0)


def square_root_upper_bound(alpha: float, participation: Participation) -> float:
    """The noise of the square root mechanism in a momentum is at most this in every step.

    Returns sqrt(E) S for one epoch, or single participation.  For more, with a = (1 − α)^N,
    sqrt(E (1 + a)/(1 − a)) S for one order, and sqrt(E (1 + 2 (1 − α)/(1 − a))) S for any.
    """
    limit = noise_limit(alpha)
    who = checks.instance("participation", participation, Participation).worst
    if who.once:
        return limit
    if isinstance(who, MinSep):
        raise ValueError(f"participation must be single, of fixed epochs or reshuffled, got {who!r}")
    kept = power(alpha, who.period)
    forgotten = 1.0 if alpha == 1.0 else -math.expm1(who.period * math.log1p(-alpha))
    pairs = kept if isinstance(who, FixedEpochs) else 1 - alpha
    return limit * math.sqrt(who.count * (1 + 2 * pairs / forgotten))
