"""The noise that cancellation leaves at the server, its distance from the least possible, and the bounds.

(a) The variance of the noise in q̃_t, exact, for M = 100 machines, 20 of them in each of 400 rounds.
(b) The mean variance of the noise that a machine leaves over its n participations, and (c) its regret energy J/n², each
with the certified least of any noise. (d) Upper bounds of the excess loss over M/m, at M d/m = 1000: Theorem 5.2 as
published, where it is proved and beyond, and the corrected bounds. All at equal privacy.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.optimise import optimise
from corrnoise.solvers.papers.noise_cancellation import best_share
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives.workloads import PrefixSums, Workload
from corrnoise.theory.papers.noise_cancellation.bounds import FederatedRun
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise, regret_workload
from corrnoise.theory.papers.noise_cancellation.privacy import calibrated_scale, published_scale
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

FAMILY = LossClass(1.0, 1.0, 1.0)
MACHINES = 100
PARTICIPANTS = 20
ROUNDS = 400
BUDGET = Budget(0.5, adjacency="replace-one")
HORIZON = 1000  #: rounds of panel (c)
LOOKS: dict[str, dict[str, Any]] = {
    "published": {"color": "C0", "linestyle": "-"},
    "published, beyond its proof": {"color": "C0", "linestyle": ":"},
    "constant": {"color": "C1", "linestyle": "-"},
    "no cancellation": {"color": "C4", "linestyle": "-."},
    "best share": {"color": "C2", "linestyle": "-"},
    "two buffers": {"color": "C5", "linestyle": "-"},
    "binary tree": {"color": "0.5", "linestyle": "-."},
    "square root": {"color": "C3", "linestyle": "--"},
    "least possible": {"color": "black", "linestyle": ":"},
}


def noises(participations: int) -> dict[str, Mechanism]:
    """The noises that are compared, for a machine with that many participations."""
    once, regret = Participation.single(participations), regret_workload(participations)
    return {
        "published": cancelling_noise(participations, growth=1),
        "constant": cancelling_noise(participations),
        "no cancellation": cancelling_noise(participations, share=0),
        "best share": best_share(once, regret),
        "two buffers": best_buffers(regret, once, 2),
        "binary tree": BinaryTree(participations),
        "square root": NuFTRL(0),
    }


def energy(participations: int, workload: Workload, error: float) -> float:
    """The mean variance, or the regret energy over n², whose root mean squared error is ``error``."""
    scale = 1.0 if isinstance(workload, PrefixSums) else (participations + 1) / participations**2
    return scale * error**2


def server_panel(rounds: int) -> list[Series]:
    """Panel (a): every noise at half-sensitivity R and with a cap of pT + 4 sqrt(pT(1 − p)) participations."""
    run = FederatedRun(BUDGET, FAMILY, MACHINES, PARTICIPANTS, rounds, 1)
    cap = run.participation_cap()
    t = np.arange(1.0, rounds + 1)
    series = []
    for name, noise in noises(cap).items():
        scale = calibrated_scale(noise, BUDGET, cap, FAMILY, losses="convex")
        variances = run.server_variances(noise, scale, cap=cap)
        if name == "published":  # for any schedule, without a cap
            scale = published_scale(BUDGET, FAMILY, rounds) * FAMILY.radius / FAMILY.published_norm
            variances = run.server_variances(cancelling_noise(rounds, growth=1), scale)
        series.append(Series("server", name, "exact", t, variances))
    return series


def machine_panels(counts: tuple[int, ...]) -> list[Series]:
    """Panels (b) and (c): the best share and the buffers are tuned for the regret energy in both."""
    n = np.array(counts, dtype=float)
    held = [noises(count) for count in counts]
    series = []
    panels: tuple[tuple[str, Callable[[int], Workload]], ...] = (("variance", PrefixSums), ("machine", regret_workload))
    for panel, judged in panels:
        whats = [(Participation.single(count), judged(count)) for count in counts]
        for name in held[0]:
            errors = [made[name].mean_error(*what) for made, what in zip(held, whats, strict=True)]
            values = [energy(who.length, what, error) for (who, what), error in zip(whats, errors, strict=True)]
            series.append(Series(panel, name, "exact", n, np.array(values)))
        floors = [optimise(what, who, family="dense").lower_bound for who, what in whats]
        least = [energy(who.length, what, floor or 0.0) for (who, what), floor in zip(whats, floors, strict=True)]
        series.append(Series(panel, "least possible", "lower bound", n, np.array(least)))
    return series


def bound_panel(ratios: tuple[int, ...]) -> list[Series]:
    """Panel (d), in the worst case of the losses."""
    runs = [FederatedRun(BUDGET, FAMILY, 10 * ratio, 10, HORIZON, max(1, 1000 // ratio)) for ratio in ratios]
    x = np.array(ratios, dtype=float)
    proved = np.array([run.published_is_proved() for run in runs])
    published = np.array([run.published_upper_bound().total for run in runs])
    constant = [
        run.upper_bound(cancelling_noise(1), losses="convex", cap=run.participation_cap(5)).total for run in runs
    ]
    root = NuFTRL(0)
    square_root = [
        run.upper_bound(root, losses="convex", cap=run.participation_cap(5), method="cauchy-schwarz").total
        for run in runs
    ]
    return [
        Series("bound", "published", "upper bound", x[proved], published[proved]),
        Series("bound", "published, beyond its proof", "unproved", x[~proved], published[~proved]),
        Series("bound", "constant", "upper bound", x, np.array(constant)),
        Series("bound", "square root", "upper bound", x, np.array(square_root)),
    ]


def data(
    rounds: int = ROUNDS,
    counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64),
    ratios: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
) -> Data:
    """The curves of all panels."""
    return (*server_panel(rounds), *machine_panels(counts), *bound_panel(ratios))


def draw(data: Data) -> Drawing:
    """Draw the panels."""
    figure, grid = subplots(5.4, 2, 2)
    axes = dict(zip(("server", "variance", "machine", "bound"), grid.flat, strict=True))
    for s in data:
        axes[s.panel].loglog(s.x, s.y, label=s.method, **LOOKS[s.method])
    axes["server"].set(title="(a)", xlabel="Round $t$", ylabel=r"Variance of the noise in $\tilde{q}_t$")
    axes["variance"].set(title="(b)", xlabel="Participations $n$", ylabel="Mean variance of a machine's noise")
    axes["machine"].set(title="(c)", xlabel="Participations $n$", ylabel=r"Regret energy $J/n^2$")
    axes["bound"].set(title="(d)", xlabel="$M/m$", ylabel="Bound of the excess loss")
    handles, labels = axes["machine"].get_legend_handles_labels()
    more = [pair for pair in zip(*axes["bound"].get_legend_handles_labels(), strict=True) if pair[1] not in labels]
    handles, labels = [*handles, *(h for h, _ in more)], [*labels, *(name for _, name in more)]
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def report(data: Data) -> str:
    """The values at the last round, and at the largest number of participations."""
    curves = {(s.panel, s.method): s for s in data}
    published = curves["server", "published"].y[-1]
    least = curves["machine", "least possible"]
    count = int(least.x[-1])
    lines = "\n".join(
        f"  {name:<20} {noise.memory(count):>7} {last:10.2f}  ({published / last:6.1f}x less)"
        f"   J/n^2 = {curves['machine', name].y[-1]:.3f}"
        for name, noise in noises(count).items()
        for last in [curves["server", name].y[-1]]
    )
    return f"""\
Variance of the noise in the server's estimate after {int(curves["server", "published"].x[-1])} rounds, and J/n^2 after
{count} participations, at equal privacy; a machine keeps so many vectors over the latter:

  {"":<20} vectors
{lines}
  {"least possible":<20} {"":>7} {"":10}  {"":15} J/n^2 >= {least.y[-1]:.3f}

- Taking back a part of the last noise keeps one vector a machine, as published; two buffers keep two.
- The published bound is drawn dotted where its proof fails and no other is known; it is not refuted there."""


FIGURE = PaperFigure(
    name="noise_cancellation",
    source="Beyond Reshef and Levy, ICML 2025",
    title="noise cancellation: noise at the server over time, distance from the least possible, bounds",
    panels={
        "server": "x = round t; y = variance of each coordinate of the noise in the server's estimate",
        "variance": "x = participations n of a machine; y = mean variance of its prefix noise at largest energy 1",
        "machine": "x = participations n of a machine; y = J/n^2, J = 1'Sigma 1 + tr Sigma at largest energy 1",
        "bound": "x = M/m; y = upper bound of the excess loss",
    },
    parameters=(
        f"G = L = D = 1, rho = {BUDGET.rho:g} (zCDP, replace-one), convex losses",
        f"server: M = {MACHINES}, m = {PARTICIPANTS}, T = {ROUNDS}, cap of participations pT + 4 sqrt(pT(1 - p))",
        f"bound: m = 10, T = {HORIZON}, dimension about 1000 m/M, worst-case variances, cap pT + 5 sqrt(pT(1 - p))",
    ),
    data=data,
    draw=draw,
    report=report,
)
