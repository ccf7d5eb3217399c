"""When noise that is optimal for learning uses its privacy budget, and what that does to the whole run.

A run of four epochs in the same order, judged by the mean of F − F* over its second half.  Noise that is optimal for
learning is drawn next to noise that is optimal for prefix sums: the best strategy of any form, and the best buffers.
Panel (a) shows the budget of each step, its part of the squared sensitivity: the sum over an example's steps is 1 where
the example is one with the largest sensitivity.  Panel (b) shows the noise of each step, panel (c) the cost of privacy
after each step.  Panel (d) judges mechanisms by prefix sums and by learning, above the lower bound of each.

The eigenvalues are 1/k, k <= 32, and the learning rate is 1/2 over Σ λ + 2 max λ.
"""

import math

import numpy as np

from corrnoise.figures.finite_runs.learning_memory import DIMENSION, objective, privacy_error
from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds, fixed_epochs_strategy
from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.time_varying import best_time_varying
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective

STEPS = 256
EPOCHS = 4
BUFFERS = 2
EXPONENT = 1.0
BUDGET, NOISE, CURVE, BOTH = "budget", "noise", "curve", "prefix sums and learning"
ANY_LEARNING, VARYING_LEARNING = "any strategy, for learning", "time-varying buffers, for learning"
ANY_PREFIX, VARYING_PREFIX = "any strategy, for prefix sums", "time-varying buffers, for prefix sums"
PLAIN = "buffers, for prefix sums"
LOOKS = {
    ANY_LEARNING: {"color": "C3", "marker": "o"},
    VARYING_LEARNING: {"color": "C1", "marker": "s"},
    ANY_PREFIX: {"color": "C0", "marker": "o"},
    VARYING_PREFIX: {"color": "C0", "marker": "s"},
    PLAIN: {"color": "C2", "marker": "^"},
    "best Toeplitz, n/4 bands": {"color": "C4", "marker": "D"},
    "nu-DP-FTRL": {"color": "C5", "marker": "v"},
    "independent noise": {"color": "black", "marker": "x"},
}
DRAWN_BY_STEP = (ANY_LEARNING, VARYING_LEARNING, ANY_PREFIX, PLAIN)


def mechanisms(who: Participation, of: LearningObjective) -> dict[str, Mechanism]:
    """The mechanisms by name, for fixed epochs."""
    sums = PrefixSums(who.length)

    def any_strategy(objective: Objective) -> Mechanism:
        return fixed_epochs_strategy(objective, who, fixed_epochs_bounds(objective, who, tolerance=1e-5))

    return {
        ANY_LEARNING: any_strategy(of),
        VARYING_LEARNING: best_time_varying(of, who, BUFFERS),
        ANY_PREFIX: any_strategy(sums),
        VARYING_PREFIX: best_time_varying(sums, who, BUFFERS),
        PLAIN: best_buffers(sums, who, BUFFERS),
        "best Toeplitz, n/4 bands": toeplitz.best_toeplitz(sums, who, who.worst.period),
        "nu-DP-FTRL": toeplitz.nu_ftrl(sums, who),
        "independent noise": DPSGD(),
    }


def budget(run: Mechanism, who: Participation) -> Array:
    """The part of each step in γ², Σ_j |X_ij| over the steps of the same example, in units of γ²; shape (steps,)."""
    strategy = run.strategy(who.length)
    same = np.equal.outer(np.arange(who.length) % who.worst.period, np.arange(who.length) % who.worst.period)
    return np.asarray(np.abs(strategy.T @ strategy * same).sum(axis=1) / run.sensitivity_upper_bound(who) ** 2)


def errors(run: Mechanism, who: Participation, of: LearningObjective) -> tuple[float, float]:
    """The root mean squared error of prefix sums, and the error of learning."""
    return run.mean_error(who), of.privacy_error(run, who)


def floors(who: Participation, of: LearningObjective) -> tuple[float, float]:
    """The floors of all strategies in fixed epochs, by prefix sums and by learning."""

    def bound(objective: Objective) -> float:
        return fixed_epochs_bounds(objective, who, tolerance=1e-5).lower_bound

    return bound(PrefixSums(who.length)), privacy_error(of, bound(of) ** 2)


def data(steps: int = STEPS) -> Data:
    """The curves over the steps, and the two errors of each mechanism; ``steps`` is a multiple of four."""
    who = Participation.fixed_epochs(steps, epochs=EPOCHS)
    of = objective(EXPONENT, steps)
    found = mechanisms(who, of)
    series: list[Series] = []
    times = np.arange(1.0, steps + 1)
    for method in DRAWN_BY_STEP:
        run = found[method]
        noise = run.sensitivity_upper_bound(who) * np.linalg.norm(run.noising_matrix(steps), axis=1)
        series.append(Series(BUDGET, method, "exact", times, budget(run, who)))
        series.append(Series(NOISE, method, "exact", times, noise))
        series.append(Series(CURVE, method, "exact", times, of.privacy_curve(run, who)[1:]))
    for method, run in found.items():
        x, y = errors(run, who, of)
        series.append(Series(BOTH, method, "exact", np.array([x]), np.array([y])))
    x, y = floors(who, of)
    series.append(Series(BOTH, "floor", "lower bound", np.array([x]), np.array([y])))
    return tuple(series)


def _excess(data: Data) -> dict[str, tuple[float, float, float, float]]:
    """Both errors of each mechanism, and by how much they exceed their floors, in percent."""
    (x, y) = next((float(s.x[0]), float(s.y[0])) for s in data if s.panel == BOTH and s.method == "floor")
    points = {s.method: (float(s.x[0]), float(s.y[0])) for s in data if s.panel == BOTH and s.method != "floor"}
    return {name: (p, q, 100 * (p / x - 1), 100 * (math.sqrt(q / y) - 1)) for name, (p, q) in points.items()}


def draw(data: Data) -> Drawing:
    """Four panels with one legend."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure, grid = subplots(5.8, 2, 2)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08))
    labels = {
        BUDGET: "Part of the squared sensitivity",
        NOISE: "Standard deviation of the noise",
        CURVE: r"$F - F_*$ that privacy causes",
    }
    for letter, (panel, label), ax in zip("abc", labels.items(), grid.flat, strict=False):
        for s in data:
            if s.panel == panel:
                ax.plot(s.x, s.y, label=s.method, color=LOOKS[s.method]["color"])
        ax.set(title=f"({letter})", xlabel="Step", ylabel=label, ylim=(0, None))
    ax = grid[1, 1]
    for method, (_, _, prefix, learning) in _excess(data).items():
        ax.plot([prefix], [learning], linestyle="none", label=method, **LOOKS[method])
    ticks = [0, 1, 3, 10, 30, 100, 300]
    for axis in (ax.set_xscale, ax.set_yscale):
        axis("symlog", linthresh=3, linscale=0.5)
    ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
    ax.set_yticks(ticks, [f"{tick}" for tick in ticks])
    ax.minorticks_off()
    ax.set_title("(d)")
    ax.set(xlabel="Prefix sums: error above the lower bound [%]", ylabel="Learning: root above it [%]")
    shown = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=2)
    return figure


def report(data: Data) -> str:
    """The table of both errors, and the budget of each epoch."""
    lines = [
        "Root mean squared error of prefix sums at rho = 1/2, and F - F* due to privacy at rho = 1. The first and the",
        "square root of the second exceed what any strategy must have by so many percent:",
        "",
        f"  {'':38} {'prefix':>9} {'learning':>9} {'%':>8} {'%':>8}",
    ]
    for method, (prefix, learning, more_prefix, more_learning) in _excess(data).items():
        lines.append(f"  {method:38} {prefix:9.4f} {learning:9.4f} {more_prefix:8.2f} {more_learning:8.2f}")
    lines += ["", "Mean part of the squared sensitivity by epoch:", ""]
    for s in data:
        if s.panel == BUDGET:
            shares = " ".join(f"{share:6.3f}" for share in s.y.reshape(EPOCHS, -1).mean(axis=1))
            lines.append(f"  {s.method:38} {shares}")
    return "\n".join([*lines, "", "- Noise for learning is large in the first epochs: F - F* is larger there, too."])


FIGURE = PaperFigure(
    name="learning_budget",
    source="Beyond Table 3 of arXiv 2310.06771",
    title=f"when noise that is optimal for learning uses its budget, n = {STEPS}, {EPOCHS} epochs",
    panels={
        BUDGET: "x = step; y = part of the squared sensitivity, in units of the largest of an example",
        NOISE: "x = step; y = standard deviation of the noise at rho = 1/2 and clip norm 1",
        CURVE: "x = step; y = F - F* due to privacy at rho = 1 and clip norm 1",
        BOTH: "x = root mean squared error of prefix sums at rho = 1/2; y = F - F* due to privacy at rho = 1, the mean "
        "over the second half",
    },
    parameters=(
        f"linear regression, Gaussian inputs, {DIMENSION} eigenvalues 1/k, learning rate 0.5/(sum + 2 max)",
        f"n = {STEPS} steps, {EPOCHS} epochs in the same order; zero-out adjacency",
        f"buffers: at most {BUFFERS} arrays of memory; any strategy: all steps are kept",
        "lower bound: the certified optimum over all strategies, from which panel (d) of the drawing measures",
    ),
    data=data,
    draw=draw,
    report=report,
)
