"""Where the rate of Theorem 9 beats Theorem 6's, with constants, and where Algorithm 2 beats Algorithm 1.

Theorem 6 (Algorithm 1) bounds E ‖∇F(ŵ)‖ by about d^{1/4}/sqrt(ε N), Theorem 9 (Algorithm 2) by d^{1/3}/(ε N)^{2/3}.
Every gradient is at most G = 1 long, so that a bound above 1 says nothing.

(a) Both theorems with their own parameters, as published and corrected.  (b) The corrected lemmas with exactly
calibrated noise and the parameters that make the bound smallest, for at most 16, 1024 and 2^20 epochs.  These are upper
bounds: which algorithm is better on data is another question (``gradient_norms``).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.figures.simulation import in_processes
from corrnoise.solvers.papers.momentum_aggregation import ALGORITHMS, BestBound, best_momentum_bounds
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.momentum_aggregation.bounds import BoundedTask
from corrnoise.theory.papers.momentum_aggregation.run_bounds import DyadicTask
from corrnoise.theory.privacy import Budget

DIMENSION = 31
EPSILON = 1.0
DELTA = 1e-5
BUDGET = Budget(epsilon=EPSILON, delta=DELTA, adjacency="replace-one")
OWN, BEST = "own parameters", "best parameters"
EPOCHS = {f"2^{j} epochs": j for j in (4, 10, 20)}
LARGEST = 1e25  #: N of the first panel
THEOREMS: dict[str, Callable[..., float]] = {"Algorithm 1": BoundedTask.theorem_6, "Algorithm 2": BoundedTask.theorem_9}
COLOURS = {"Algorithm 1": "C1", "Algorithm 2": "C5"}
LINES: dict[str, Any] = {"published": ":", "corrected": "-", "2^4 epochs": ":", "2^10 epochs": "--", "2^20 epochs": "-"}


def theorem(algorithm: str, examples: float, *, published: bool) -> float:
    """The bound of Theorem 6 or 9 for G = L = R = 1."""
    return THEOREMS[algorithm](BoundedTask(round(examples), DIMENSION, BUDGET), published=published)


def best(algorithm: str, log2_examples: int, most_log2_epochs: int) -> tuple[BestBound, ...]:
    """The best bounds for each number of epochs."""
    task = DyadicTask(2**log2_examples, DIMENSION, BUDGET)
    return best_momentum_bounds(task, algorithm, most_log2_epochs=most_log2_epochs)  # type: ignore[arg-type]


def data(log2_examples: Sequence[int] = range(8, 31, 2), points: int = 61, jobs: int | None = None) -> Data:
    """The bounds; the best ones by so many processes; see ``in_processes``."""
    x = np.geomspace(1e3, LARGEST, points)
    series = [
        Series(OWN, algorithm, kind, x, np.array([theorem(algorithm, n, published=kind == "published") for n in x]))
        for algorithm in THEOREMS
        for kind in ("published", "corrected")
    ]
    most = max(EPOCHS.values())
    tasks = [(algorithm, k) for algorithm in ALGORITHMS for k in log2_examples]
    found = in_processes(best, [(algorithm, k, most) for algorithm, k in tasks], jobs)
    bounds = dict(zip(tasks, found, strict=True))
    n = np.exp2(np.array(log2_examples, dtype=float))
    for algorithm in ALGORITHMS:
        for kind, j in EPOCHS.items():
            y = [min(bound.value for bound in bounds[algorithm, k][: j + 1]) for k in log2_examples]
            series.append(Series(BEST, algorithm, kind, n, np.array(y)))
    return tuple(series)


def crossing(x: Array, first: Array, second: Array) -> float:
    """The x where the second curve falls below the first, by straight lines on logarithms; inf if never."""
    above = np.log(second) - np.log(first)
    (late,) = np.nonzero(above >= 0)
    if late.size == 0:
        return float(x[0])
    k = int(late[-1])
    if k == x.size - 1:
        return math.inf
    share = above[k] / (above[k] - above[k + 1])
    return float(x[k] * (x[k + 1] / x[k]) ** share)


def draw(data: Data) -> Drawing:
    """Draw both panels."""
    from matplotlib.lines import Line2D

    figure, grid = subplots(3.1, 1, 2)
    for axes, panel, title in zip(
        grid, (OWN, BEST), ("(a)  parameters of the theorems", "(b)  best parameters"), strict=True
    ):
        kinds = dict.fromkeys(s.kind for s in data if s.panel == panel)
        for s in data:
            if s.panel == panel:
                axes.loglog(s.x, s.y, color=COLOURS[s.method], linestyle=LINES[s.kind], linewidth=1.3)
        axes.axhline(1.0, color="0.4", linewidth=0.8)
        axes.set(title=title, xlabel=r"Number of examples $N$")
        names = {"2^4 epochs": "16 epochs", "2^10 epochs": "1024 epochs", "2^20 epochs": r"$2^{20}$ epochs"}
        handles = [Line2D([], [], color="0.3", linestyle=LINES[kind], label=names.get(kind, kind)) for kind in kinds]
        axes.legend(handles=handles, loc="lower left")
    figure.axes[0].text(LARGEST, 1.6, "every gradient is below", color="0.3", ha="right")
    figure.axes[0].set(ylabel=r"Bound of $\mathbb{E}\,\|\nabla F(\hat w)\|$  [$G$]")
    handles = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def report(data: Data) -> str:
    """From where Algorithm 2 has the smaller bound, and from where either says something."""
    curves = {(s.panel, s.method, s.kind): s for s in data}

    def told(value: float, end: float) -> str:
        return f"above {end:.1e}" if math.isinf(value) else f"{value:.1e}"

    lines = []
    for panel, kinds in ((OWN, ("published", "corrected")), (BEST, tuple(EPOCHS))):
        for kind in kinds:
            one, two = (curves[panel, algorithm, kind] for algorithm in ALGORITHMS)
            end = float(one.x[-1])
            useful = [told(crossing(s.x, np.ones(s.x.size), s.y), end) for s in (one, two)]
            ahead = told(crossing(one.x, one.y, two.y), end)
            lines.append(f"  {panel:<16} {kind:<12}" + "".join(f"{text:>16}" for text in (*useful, ahead)))
    table = "\n".join(lines)
    return f"""\
The number N of examples from which a bound is below G, and from which that of Algorithm 2 is below that of Algorithm 1
(d = {DIMENSION}, epsilon = {EPSILON:g}, delta = {DELTA:g}, G = L = R = 1):

  {"":<29}{"Algorithm 1":>16}{"Algorithm 2":>16}{"2 below 1":>16}
{table}

- Published, Theorem 6 is false (see the ledger); its corrected form has larger constants.
- The better rate of Theorem 9 shows with its published constants only beyond any data set.  With exact noise and the
  best parameters Algorithm 2 has the smaller bound for large data sets and hundreds of epochs, with three gradients a
  step.  With 16 epochs it has not.
- These are upper bounds.  On data Algorithm 2 has the larger gradients: corrnoise figures momentum_gradient_norms."""


FIGURE = PaperFigure(
    name="momentum_rates",
    source="Theorems 6 and 9 of Tran and Cutkosky, arXiv 2210.06328",
    title="bounds of the gradient norm over the number of examples, with constants",
    panels={
        OWN: "x = N; y = upper bound of the expected gradient norm in units of G, with the parameters of the theorem",
        BEST: "x = N; y = the smallest proved bound over alpha, eta, gamma and at most so many epochs",
    },
    parameters=(
        f"d = {DIMENSION}, epsilon = {EPSILON:g}, delta = {DELTA:g}, replace-one adjacency, G = L = R = 1",
        "best parameters: exactly calibrated tree noise, new random orders, N and the number of epochs powers of 2",
    ),
    data=data,
    draw=draw,
    report=report,
)
