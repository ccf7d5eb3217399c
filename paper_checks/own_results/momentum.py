"""Noise in a momentum: the square root mechanism is as good as any in long runs, and what the tree adds."""

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, log_scale
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.theory.mechanisms.matrix import ToeplitzMechanism
from corrnoise.theory.mechanisms.participation import Participation, fixed_epochs
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.workloads import MomentumAverage
from corrnoise.theory.momentum_aggregation.least_noise import noise_limit, noise_lower_bound, square_root_upper_bound
from corrnoise.theory.momentum_aggregation.sensitivity import printed_node_count
from corrnoise.theory.momentum_aggregation.trees import decoder_variance, levels

PROOF = "docs/momentum-aggregation.md#the-least-noise-of-a-momentum"


@PAPER.inequality(
    "M1",
    part="(upper)",
    evidence="proved",
    proof=PROOF,
    printed=r"Momentum with the noise of ν-DP-FTRL, ν = α, has a standard deviation of at most $S = \frac{\alpha}{\mathrm{agm}(1, "
    r"\sqrt{\alpha (2 - \alpha)})}$ in every step, for one participation, $\rho = \frac{1}{2}$ and clip norm 1",
    domain={"alpha": log_scale(1e-4, 1), "steps": integers(1, 5000, log=True)},
    sharp="factor",
    mutants=[{"factor": 0.99}],
    evaluations=128,
)
def m1_upper(alpha: float, steps: int, factor: float = 1.0) -> Sides:
    r"""$S = \frac{\alpha}{\pi} (\log \frac{8}{\alpha} + o(1))$ does not grow with T, and the limit $T \to \infty$ attains it.

    The noise of the tree as published grows with $\log_2 T$ at fixed α.
    """
    square_root = ToeplitzMechanism(NuFTRL(alpha), steps)
    return square_root.max_error(Participation(steps), MomentumAverage(steps, alpha=alpha)), float(
        factor
    ) * noise_limit(alpha)


@PAPER.inequality(
    "M1",
    part="(lower)",
    evidence="proved",
    proof=PROOF,
    printed=r"No mechanism has a smaller root mean square over T steps than $S - \frac{1 - \alpha}{(2 - \alpha) T}$",
    domain={"alpha": log_scale(1e-2, 0.9), "steps": integers(1, 60, log=True)},
    sharp="deduction",
    mutants=[{"deduction": 0.2}],
    evaluations=128,
)
def m1_lower(alpha: float, steps: int, deduction: float = 1.0) -> Sides:
    r"""The larger side is $\frac{\|A\|_*}{T}$, a bound of every factorisation.  With M1 (upper) the square root is optimal up to a relative
    $O(\frac{1}{\alpha T})$.
    """
    limit = noise_limit(alpha)
    bound = limit - float(deduction) * (1 - alpha) / ((2 - alpha) * steps)
    return bound, np.linalg.svd(MomentumAverage(steps, alpha=alpha).matrix(), compute_uv=False).sum() / steps


@PAPER.inequality(
    "M2",
    part="(upper)",
    evidence="proved",
    proof=PROOF,
    printed=r"In E epochs of N steps of one order the same noise has at most $S \sqrt{E \frac{1 + a}{1 - a}}$, $a = (1 - \alpha)^N$",
    domain={
        "examples": integers(1, 300, log=True),
        "load": log_scale(0.1, "examples"),
        "epochs": integers(1, 32, log=True),
    },
    sharp="factor",
    mutants=[{"factor": 0.95}],
    evaluations=128,
)
def m2_upper(examples: int, load: float, epochs: int, factor: float = 1.0) -> Sides:
    r"""At $\alpha \ge \frac{1}{N}$ the factor is at most $\sqrt{\frac{e + 1}{e - 1}} = 1.471$: so close is the square root to the optimum of
    M2 (lower) in long runs.
    """
    alpha = load / examples
    steps = examples * epochs
    square_root = ToeplitzMechanism(NuFTRL(alpha), steps)
    who = fixed_epochs(steps, epochs=epochs)
    error = square_root.max_error(who, MomentumAverage(steps, alpha=alpha))
    return error, float(factor) * square_root_upper_bound(alpha, examples=examples, epochs=epochs)


@PAPER.inequality(
    "M2",
    part="(lower)",
    evidence="proved",
    rests_on=("M1 (lower)",),
    proof=PROOF,
    printed=r"In $E = \frac{T}{N}$ epochs no mechanism has less than $\sqrt{E} (S - \frac{1 - \alpha}{(2 - \alpha) T})$, for one order or any",
    domain={
        "examples": integers(1, 16),
        "load": log_scale(0.3, "examples"),
        "epochs": integers(1, 4),
        "power": log_scale(0.1, 2),
    },
    sharp="factor",
    mutants=[{"factor": 1.3}],
    evaluations=128,
)
def m2_lower(examples: int, load: float, epochs: int, power: float, factor: float = 1.0) -> Sides:
    """The larger side is the error of the square root with other damping, ν = α ``power``."""
    alpha = load / examples
    steps = examples * epochs
    mechanism = ToeplitzMechanism(NuFTRL(min(alpha * power, 1.0)), steps)
    error = mechanism.mean_error(fixed_epochs(steps, epochs=epochs), MomentumAverage(steps, alpha=alpha))
    return float(factor) * noise_lower_bound(alpha, steps=steps, epochs=epochs), error


@PAPER.inequality(
    "M3",
    proof=PROOF,
    printed=r"The published noise of Algorithm 1 (Tran and Cutkosky) has at least 4 times the mean variance of the square root, for one order in "
    r"all epochs and $\alpha \ge \frac{1}{N}$",
    domain={
        "examples": integers(1, 200, log=True),
        "load": log_scale(1, "examples"),
        "epochs": integers(1, 32, log=True),
    },
    conjecture=True,
    sharp="factor",
    mutants=[{"factor": 4.1}],
    evaluations=128,
)
def m3(examples: int, load: float, epochs: int, factor: float = 4.0) -> Sides:
    r"""4 at N = 1.  At $\alpha = \frac{1}{N}$ it is 21.3 for N = 64, T = 1024, and grows without limit with T at fixed α in one epoch."""
    alpha = load / examples
    steps = examples * epochs
    square_root = ToeplitzMechanism(NuFTRL(alpha), steps)
    variance = square_root.mean_error(fixed_epochs(steps, epochs=epochs), MomentumAverage(steps, alpha=alpha)) ** 2
    nodes = printed_node_count(steps, examples, levels(steps))
    return float(factor) * variance, 4 * alpha**2 * nodes * float(decoder_variance(steps, alpha).mean())
