"""The noise in a momentum at equal zCDP: the published tree, the tree with its exact sensitivity, and other mechanisms.

(a) Variance of the noise in every step, if all epochs have one order; (b) the same for a new order in every epoch.  The
dotted line is the certified least mean variance over the steps of any mechanism, for one order, which bounds any other
order too.  (c) Root mean square over the steps in four epochs of one order, over the certified least one.

Buffers and the best strategy with N bands are tuned for the momentum and one order in all epochs; a stream of buffers
keeps as many arrays as there are, the tree one for each level.
"""

import math
from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, legend_below, subplots
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.toeplitz import best_toeplitz
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.workloads import MomentumAverage
from corrnoise.theory.papers.momentum_aggregation.sensitivity import printed_node_count
from corrnoise.theory.papers.momentum_aggregation.trees import decoder_variance, levels
from corrnoise.theory.participation import Participation

EXAMPLES = 60
EPOCHS = 8
FEWER_EPOCHS = 4  #: of panel (c)
LOADS = (1.0, 2.0, 4.0, 8.0, 16.0)  #: N α in panel (c)
BUFFERS = 3
ORDERS = {"fixed": Participation.fixed_epochs, "reshuffled": Participation.reshuffled}  #: by the names of panels
FLOOR = "lower bound"
LOOKS: dict[str, dict[str, Any]] = {
    "published tree": {"color": "C3", "linestyle": "-"},
    "exact tree": {"color": "C1", "linestyle": "-"},
    "independent": {"color": "0.5", "linestyle": "--"},
    "square root": {"color": "C0", "linestyle": "-"},
    "buffers": {"color": "C4", "linestyle": "-."},
    "best bands": {"color": "C2", "linestyle": "--"},
    FLOOR: {"color": "black", "linestyle": ":"},
}


def toeplitz_noises(alpha: float, examples: int, epochs: int) -> dict[str, ToeplitzNoise]:
    """The noises that are added to gradients."""
    steps = examples * epochs
    root = NuFTRL(alpha)
    who = Participation.min_sep(steps, examples, epochs)
    objective = MomentumAverage(steps, alpha=alpha)
    return {
        "independent": DPSGD(),
        "square root": root,
        "buffers": best_buffers(objective, who, BUFFERS),
        "best bands": best_toeplitz(objective, who, examples, root),
    }


def tree_variances(alpha: float, participation: Participation) -> dict[str, Array]:
    """Variances at ρ = ½ and clipping norm 1 of the tree: with the published count of nodes, and with the exact one."""
    steps = participation.length
    decoded = alpha**2 * decoder_variance(steps, alpha)
    tree = BinaryTree(steps, decoder="binary", decay=alpha)
    return {
        "published tree": 4 * printed_node_count(steps, participation.worst.period, levels(steps)) * decoded,
        "exact tree": tree.sensitivity(participation) ** 2 * decoded,
    }


def variances(noises: dict[str, ToeplitzNoise], alpha: float, participation: Participation) -> dict[str, Array]:
    """The variance of the noise in the momentum of every step, at ρ = ½ and clipping norm 1."""
    found = tree_variances(alpha, participation)
    work = MomentumAverage(participation.length, alpha=alpha)
    for name, noise in noises.items():
        found[name] = noise.sensitivity_upper_bound(participation) ** 2 * noise.errors(work)
    return found


def least_error(alpha: float, examples: int, epochs: int) -> float:
    """A certified lower bound of the root mean square over the steps, of any mechanism for one order."""
    steps = examples * epochs
    work = MomentumAverage(steps, alpha=alpha)
    return fixed_epochs_bounds(work, Participation.fixed_epochs(steps, epochs=epochs), tolerance=1e-3).lower_bound


def data(
    examples: int = EXAMPLES, epochs: int = EPOCHS, fewer_epochs: int = FEWER_EPOCHS, loads: tuple[float, ...] = LOADS
) -> Data:
    """The curves of all panels."""
    alpha = 1 / examples
    steps = examples * epochs
    t = np.arange(1.0, steps + 1)
    noises = toeplitz_noises(alpha, examples, epochs)
    least = least_error(alpha, examples, epochs) ** 2
    series = []
    for order, participation in ORDERS.items():
        found = variances(noises, alpha, participation(steps, epochs=epochs))
        series += [Series(order, name, "exact", t, values) for name, values in found.items()]
        series.append(Series(order, FLOOR, "lower bound", t, np.full(steps, least)))
    ratios: dict[str, list[float]] = {}
    for load in loads:
        rate = load / examples
        floor = least_error(rate, examples, fewer_epochs)
        found = variances(
            toeplitz_noises(rate, examples, fewer_epochs),
            rate,
            Participation.fixed_epochs(examples * fewer_epochs, epochs=fewer_epochs),
        )
        for name, values in found.items():
            ratios.setdefault(name, []).append(math.sqrt(values.mean()) / floor)
    x = np.array(loads)
    series += [Series("ratio", name, "exact", x, np.array(values)) for name, values in ratios.items()]
    return (*series, Series("ratio", FLOOR, "lower bound", x, np.ones(x.size)))


def draw(data: Data) -> Drawing:
    """Draw the panels side by side."""
    figure, grid = subplots(2.9, 1, 3)
    axes = dict(zip((*ORDERS, "ratio"), grid, strict=True))
    for s in data:
        over_loads = s.panel == "ratio"
        marker = "." if over_loads and s.method != FLOOR else None
        width = 0.5 if not over_loads and s.method.endswith("tree") else 1.2
        plot = axes[s.panel].loglog if over_loads else axes[s.panel].semilogy
        plot(s.x, s.y, label=s.method, marker=marker, linewidth=width, **LOOKS[s.method])
    axes["fixed"].set(title="(a) one order", xlabel="Step $t$", ylabel="Variance of the noise")
    axes["reshuffled"].set(title="(b) reshuffled", xlabel="Step $t$")
    axes["reshuffled"].sharey(axes["fixed"])
    axes["ratio"].set(title="(c) one order", xlabel=r"$\alpha N$", ylabel="Standard deviation over least")
    axes["ratio"].set_yticks([1, 1.5, 2, 3, 4, 5], ["1", "1.5", "2", "3", "4", "5"])
    axes["ratio"].set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes["ratio"].minorticks_off()
    legend_below(figure, axes["ratio"], 4)
    return figure


def report(data: Data) -> str:
    """Mean variances, and the excess of the published noise over each."""
    curves = {(s.panel, s.method): s.y for s in data}
    lines = []
    for order in ORDERS:
        published = curves[order, "published tree"].mean()
        lines.append(f"  {order}:")
        for name in LOOKS:
            mean = curves[order, name].mean()
            lines.append(
                f"    {name:<16} {mean:.5f}   published noise: {math.sqrt(published / mean):.2f} times the std"
            )
    listed = "\n".join(lines)
    return f"""\
Mean over the steps of the variance of the noise in the momentum, at equal zCDP:

{listed}

- The published tree calibrates its noise to a bound of each node, the exact tree to the sum over the nodes it reads.
- The square root of momentum is nu-DP-FTRL, nu = alpha. Buffers keep at most {BUFFERS} arrays, the tree one a level.
- For reshuffled orders the sensitivities of the tree and of independent noise are exact. Those of the others are upper
  bounds, and the lower bound is that of one order."""


FIGURE = PaperFigure(
    name="momentum_noise",
    source="Beyond Tran and Cutkosky, arXiv 2210.06328",
    title="noise in a momentum: published tree, exact tree, square root, buffers, best bands, certified least",
    panels={
        "fixed": "x = step t; y = variance of each coordinate of the noise in the momentum, one order in all epochs",
        "reshuffled": "x = step t; y = the same, a new order in every epoch",
        "ratio": "x = alpha N; y = root mean square of the noise over the steps, over a certified lower bound",
    },
    parameters=(
        "rho = 1/2 (zCDP), gradients clipped to 1, zero-out adjacency",
        f"N = {EXAMPLES}; (a) and (b): T = {EXAMPLES * EPOCHS}, alpha = 1/N; (c): T = {EXAMPLES * FEWER_EPOCHS}",
        f"at most {BUFFERS} buffers, and N bands, tuned for one order",
    ),
    data=data,
    draw=draw,
    report=report,
)
