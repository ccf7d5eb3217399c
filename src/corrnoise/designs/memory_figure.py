"""The picture of the alternatives of a design.

(a) The error of every mechanism that was compared over its memory, with the lower bound of those whose batches are not
    sampled, and with DP-SGD with Poisson batches as a line.
(b) For problems: the excess loss that privacy adds at every step, for the design, for independent noise, and for the
    optimum for long runs.  A design that is best on average or at the end need not be best at every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.designs.alternatives import rows
from corrnoise.designs.design import Design
from corrnoise.designs.figure import LONGEST_CURVE
from corrnoise.designs.report import choice_in_words
from corrnoise.figures.memory_axes import MEMORY_LABEL, hollow_marker, scale_errors, scale_memory
from corrnoise.figures.publication import PAGE_WIDTH, Data, PaperFigure, Series, write_figure
from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.registry import BY_NAME
from corrnoise.solvers.learning import STATIONARY
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.optimum import INDEPENDENT, Optimum
from corrnoise.solvers.sampled import DPSGD_POISSON
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = "memory"
CURVE = "curve"
FLOOR = "lower bound without sampling"
DESIGN = "this design"
#: The colours of samplers, and the lines and markers of variants and samplers.
_SAMPLER_COLOURS = {
    "Poisson batches": "crimson",
    "cyclic Poisson batches": "rebeccapurple",
    "balls in bins": "saddlebrown",
    "redrawn bins": "darkgoldenrod",
}
_VARIANT_LINES: dict[str, tuple[Any, str]] = {
    "": ("-", "s"),
    "unit columns": ("--", "o"),
    "epoch weights": ("-.", "*"),
    "Poisson batches": ("-", "X"),
    "cyclic Poisson batches": ((0, (1, 3)), "^"),
    "balls in bins": ((0, (4, 1, 1, 1)), "v"),
    "redrawn bins": ((0, (4, 1)), "P"),
}
_REPLAY_MARKERS = ("d", "<", ">", "D")  #: of noise that makes 1, 2, 3 and more earlier draws again
NAMES = {"nu-DP-FTRL": r"$\nu$-DP-FTRL", "lambda-CGD": r"$\lambda$-CGD", "gamma-BIFR": r"$\gamma$-BIFR"}


def _look(one: Optimum) -> dict[str, Any]:
    """The colour of the family or of the sampler, with the line and the marker of variant, replays or sampler."""
    family = BY_NAME.get(one.family.casefold(), Family)
    line, marker = _VARIANT_LINES[one.sampler or one.variant]
    if one.replays:
        line, marker = "--", _REPLAY_MARKERS[min(one.replays, len(_REPLAY_MARKERS)) - 1]
    return {"color": _SAMPLER_COLOURS.get(one.sampler, family.look), "linestyle": line, "marker": marker}


_CURVE_LOOKS: dict[str, dict[str, Any]] = {
    INDEPENDENT: {"color": "C0", "linestyle": "-."},
    STATIONARY: {"color": "C3", "linestyle": "--"},
    DESIGN: {"color": "black"},
}


def alternatives_data(design: Design) -> Data:
    """The alternatives by family, the design, and the lower bound."""
    compared = sorted(rows(design), key=lambda row: row.optimum.memory)
    series = []
    for name in dict.fromkeys(one.label for one in (design.optimum, *design.alternatives)):
        some = [row for row in compared if row.optimum.label == name]
        exact = all(row.optimum.exact for row in some)
        memory = np.array([float(row.optimum.memory) for row in some])
        errors = np.array([row.error for row in some])
        series.append(Series(PANEL, name, "exact" if exact else "upper bound", memory, errors))
    kind = "exact" if design.optimum.exact else "upper bound"
    series.append(Series(PANEL, DESIGN, kind, np.array([float(design.memory)]), np.array([design.error])))
    if design.lower_bound is not None:
        most = float(compared[-1].optimum.memory)
        series.append(
            Series(PANEL, FLOOR, "lower bound", np.array([0.0, max(most, 1.0)]), np.full(2, design.lower_bound))
        )
    return tuple(series)


def curve_data(design: Design, points: int = 120) -> Data:
    """The cost of privacy at some steps; nothing for long runs, or without a problem."""
    problem = design.problem
    who = design.participation
    if not isinstance(problem, QuadraticProblem) or who.steps is None or who.steps > LONGEST_CURVE:
        return ()
    objective = LearningObjective(problem, who.steps)
    noises: dict[str, Mechanism] = {
        INDEPENDENT: DPSGD(),
        STATIONARY: optimal_noise(problem),
        DESIGN: design.mechanism,
    }
    shown = np.unique(np.geomspace(1, who.steps, points).round()).astype(np.int64)
    return tuple(
        Series(CURVE, name, "exact", shown.astype(float), objective.privacy_curve(noise, who, design.budget)[shown])
        for name, noise in noises.items()
    )


def draw(data: Data, looks: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Errors over memory with the looks of the labels, both on logarithmic scales; next to them errors over steps."""
    from matplotlib.figure import Figure

    curves = [s for s in data if s.panel == CURVE]
    data = tuple(s for s in data if s.panel == PANEL)
    figure = Figure(figsize=(PAGE_WIDTH, 3.6), layout="constrained")
    ax, *others = figure.subplots(1, 2 if curves else 1, squeeze=False)[0]
    for s in curves:
        others[0].loglog(s.x, s.y, **_CURVE_LOOKS[s.method], label=s.method)
    for axes in others:
        axes.set(title="(b)", xlabel=r"Step $t$", ylabel=r"Privacy part of $\mathrm{E}\,F(\theta_t) - F_*$")
        axes.legend()
        ax.set(title="(a)")
    for s in data:
        if s.method == FLOOR:
            ax.plot(s.x, s.y, color="black", linewidth=0.8, linestyle="--", label=FLOOR)
        elif s.method == DESIGN:
            ax.plot(
                s.x, s.y, color="black", marker="o", markersize=11, fillstyle="none", linestyle="none", label=DESIGN
            )
        else:
            look = {**looks[s.method]} | ({"linestyle": "none"} if s.x.size == 1 else {})
            look |= {"markerfacecolor": "white"} if s.kind == "upper bound" else {}
            ax.plot(s.x, s.y, markersize=4.5, label=NAMES.get(s.method, s.method), **look)
        if s.method == DPSGD_POISSON:
            ax.axhline(s.y[0], color=looks[s.method]["color"], linewidth=0.8, linestyle=":")
    scale_memory(ax, max(float(s.x.max()) for s in data))
    scale_errors(ax)
    ax.set(xlabel=MEMORY_LABEL, ylabel="Error at this budget (log scale)")
    handles = ax.get_legend_handles_labels()[0]
    handles += [hollow_marker()] if any(s.kind == "upper bound" for s in data) else []
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def memory_picture(design: Design) -> PaperFigure:
    """The figure of the alternatives of one design."""
    return PaperFigure(
        name="memory",
        source="corrnoise design",
        title="error of every mechanism that was compared over the memory of its run",
        panels={
            CURVE: "x = step t; y = what privacy adds to E F(theta_t) - F*",
            PANEL: f"x = buffers of the size of the model; y = {design.error_in_words}",
        },
        parameters=(
            *design.setting.values(),
            "upper bound, drawn hollow: of the sensitivity or of the accountant's curve",
        ),
        data=lambda: alternatives_data(design) + curve_data(design),
        draw=lambda data: draw(data, {one.label: _look(one) for one in (design.optimum, *design.alternatives)}),
        report=lambda data: choice_in_words(rows(design)),
    )


def write_memory_picture(design: Design, folder: Path) -> None:
    """Write the picture to ``folder`` as PDF and PNG, and its data as CSV."""
    figure = memory_picture(design)
    write_figure(figure, figure.data(), folder)
