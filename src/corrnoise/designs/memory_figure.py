"""The picture of a choice: the error of every mechanism that was compared over its memory, with the floor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.designs.choice import Choice, in_words
from corrnoise.designs.covered_noise import CoveredNoise
from corrnoise.figures.finite_runs.error_memory import LOOKS, NAMES
from corrnoise.figures.publication import PAGE_WIDTH, Data, PaperFigure, Series, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = "memory"
FLOOR = "no mechanism is below"
DESIGN = "this design"
#: Of forms that ``error_memory`` does not draw; with weights or unit columns a family keeps its marker.
_SCALED: dict[str, dict[str, Any]] = {
    "buffers, epoch weights": {"color": "C0", "marker": "*", "linestyle": "-."},
    "best Toeplitz, epoch weights": {"color": "C4", "marker": "*", "linestyle": "-."},
    "optimum for long runs": {"color": "C6", "marker": "h"},
}


def choice_data(choice: Choice) -> Data:
    """The alternatives by family, the design, and the floor."""
    series = []
    for family in dict.fromkeys(one.family for one in choice.alternatives):
        rows = sorted((one for one in choice.alternatives if one.family == family), key=lambda one: one.memory)
        exact = all(one.exact for one in rows)
        memory, errors = (np.array(v, dtype=float) for v in zip(*((r.memory, r.error) for r in rows), strict=True))
        series.append(Series(PANEL, family, "exact" if exact else "upper bound", memory, errors))
    chosen = choice.chosen
    kind = "exact" if chosen.exact else "upper bound"
    series.append(Series(PANEL, DESIGN, kind, np.array([float(chosen.memory)]), np.array([chosen.error])))
    if choice.floor is not None:
        most = float(max(one.memory for one in choice.alternatives))
        series.append(Series(PANEL, FLOOR, "lower bound", np.array([0.0, max(most, 1.0)]), np.full(2, choice.floor)))
    return tuple(series)


def draw(data: Data) -> Figure:
    """Errors over memory, both on logarithmic scales, memory 0 included."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    figure = Figure(figsize=(PAGE_WIDTH, 3.6), layout="constrained")
    ax = figure.subplots()
    for s in data:
        if s.method == FLOOR:
            ax.plot(s.x, s.y, color="black", linewidth=0.8, linestyle="--", label=FLOOR)
        elif s.method == DESIGN:
            ax.plot(
                s.x, s.y, color="black", marker="o", markersize=11, fillstyle="none", linestyle="none", label=DESIGN
            )
        else:
            look: dict[str, Any] = {
                "linestyle": "-" if s.x.size > 1 else "none",
                "marker": ".",
                **LOOKS.get(s.method, {}),
            }
            look |= _SCALED.get(s.method, {})
            look |= {"markerfacecolor": "white"} if s.kind == "upper bound" else {}
            ax.plot(s.x, s.y, markersize=4.5, label=NAMES.get(s.method, s.method), **look)
    most = max(float(s.x.max()) for s in data)
    ax.set_xscale("symlog", linthresh=1, linscale=0.4)
    ax.set_xlim(-0.25, 1.7 * max(most, 1.0))
    ticks = [0, *(10**i for i in range(7) if 10**i <= 1.2 * most)]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high < 1000 * low else LogLocator())
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="Memory: arrays of the size of the gradient that a stream keeps", ylabel="Error at this budget")
    figure.legend(loc="outside right upper")
    return figure


def memory_picture(design: CoveredNoise, choice: Choice) -> PaperFigure:
    """The figure of the alternatives of one design."""
    return PaperFigure(
        name="memory",
        source="corrnoise design",
        title="error of every mechanism that was compared over the memory of its stream",
        panels={PANEL: f"x = arrays of the size of the gradient; y = {' '.join(choice.judged.split())}"},
        parameters=(
            f"rho = {design.rho!r}, clip norm = {design.clip_norm!r}, adjacency {design.adjacency}",
            f"steps = {design.steps}, {design.participation_in_words}",
            "upper bound, drawn hollow: of the sensitivity only a bound is known",
        ),
        data=lambda: choice_data(choice),
        draw=draw,
        report=lambda data: in_words(choice),
    )


def write_memory_picture(design: CoveredNoise, choice: Choice, folder: Path) -> None:
    """Write the picture to ``folder`` as PDF and PNG, and its data as CSV."""
    figure = memory_picture(design, choice)
    write_figure(figure, figure.data(), folder)
