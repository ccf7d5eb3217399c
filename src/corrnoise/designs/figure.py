"""The picture of a design: its errors, the errors of other noise, its coefficients, its learning curve.

The panels show the numbers of ``corrnoise.designs.comparison``:

(a) The errors of each noise divided by the errors of the design: stationary errors at the learning rate of the design,
and,
    if the design has them, errors after T steps with each noise at its own best learning rate.  For strongly convex
    losses there are upper bounds instead of errors, and below them the error of the design on the worst quadratic.
(b) The coefficients, as t^{3/2} |β_t|, which is 1/(2 sqrt(π)) for large t at ν = 0 and falls where the memory ends.
(c) For quadratic problems with a horizon the exact learning curves: at the learning rate of the design, of independent
    noise at its own best learning rate, and of a run without privacy noise, which no correlation can improve (down to
    a tenth of the lowest error).  Otherwise the moduli |B(ω)|.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.designs.comparison import (
    ANTI,
    BEST_FTRL,
    BOUND,
    DESIGN,
    FTRL,
    INDEPENDENT,
    WORST,
    Comparison,
)
from corrnoise.designs.design import Design, Problem
from corrnoise.designs.report import report
from corrnoise.figures.publication import PAGE_WIDTH, Data, PaperFigure, Series, write_figure
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import QuadraticProblem

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


NOTHING = "no privacy noise"
TUNED = "independent noise, its best learning rate"
LAST_STEP = 100_000  #: last step of the coefficients without a horizon
LONGEST_CURVE = 2048  #: the most steps with a curve of noise with a factor for each step, at O(n³)
SMALLEST_COEFFICIENT = 1e-3  #: smaller coefficients, times t^{3/2}, are left out
_UNLIMITED_BUDGET = Budget(1e100)  # of a run without privacy noise


# -- data --------------------------------------------------------------------------------------------------------------


def picture_data(design: Design, comparison: Comparison, points: int = 160) -> Data:
    """The records of all panels.

    Parameters
    ----------
    design
        A design that knows its problem.
    comparison
        Its comparison with other noise.
    points
        Approximate number of points of a curve.
    """
    points = checks.integer("points", points, 2)
    drawn = {
        row.method: row.noise for row in comparison.rows if isinstance(row.noise, ToeplitzNoise) and row.method != ANTI
    }
    series = _errors(comparison)
    series += _coefficients(drawn, design.participation.steps or LAST_STEP, points)
    problem = design.problem
    if isinstance(problem, QuadraticProblem) and design.participation.steps is not None:
        return tuple(series + _learning(design, problem, comparison, drawn, points))
    assert problem is not None
    return tuple(series + _spectra(problem, drawn, points))


def _errors(comparison: Comparison) -> list[Series]:
    series = []
    for row in comparison.rows:
        if row.stationary_error is not None and row.ratio is not None:
            error = np.array([row.stationary_error])
            series.append(Series("error", row.method, row.kind, error, np.array([row.ratio])))
    for row in comparison.rows:
        if row.best_learning_rate is not None and row.best_ratio is not None:
            rate = np.array([row.best_learning_rate])
            series.append(Series("tuned", row.method, "exact", rate, np.array([row.best_ratio])))
    return series


def _steps(last: int, points: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.unique(np.geomspace(1, last, points).round()).astype(np.int64)


def _coefficients(noises: dict[str, ToeplitzNoise], last: int, points: int) -> list[Series]:
    steps = _steps(last, points)
    steps = steps[steps < last]
    series = []
    for name, noise in noises.items():
        beta = np.abs(noise.coefficients(last)[steps]) * steps**1.5
        kept = beta >= SMALLEST_COEFFICIENT
        if kept.any():
            series.append(Series("coefficients", name, "exact", steps[kept].astype(float), beta[kept]))
    return series


def _learning(
    design: Design,
    problem: QuadraticProblem,
    comparison: Comparison,
    noises: dict[str, ToeplitzNoise],
    points: int,
) -> list[Series]:
    who = design.participation
    shown = _steps(who.length, points)

    def curve(name: str, tuned: QuadraticProblem, noise: ToeplitzNoise, budget: Budget) -> Series:
        run: dict[str, Any] = {"participation": who, "initial_offset": comparison.initial_offset}
        errors = tuned.learning_curve(noise, who.length, budget=budget, **run)
        return Series("learning", name, "exact", shown.astype(float), errors[shown])

    series = [curve(name, problem, noise, design.budget) for name, noise in noises.items()]
    plain = curve(NOTHING, problem, DPSGD(), _UNLIMITED_BUDGET)
    if DESIGN not in noises and who.length <= LONGEST_CURVE:
        privacy = LearningObjective(problem, who.length).privacy_curve(design.mechanism, who, design.budget)
        series.append(Series("learning", DESIGN, "exact", plain.x, plain.y + privacy[shown]))
    best = comparison[INDEPENDENT].best_learning_rate
    if best is not None:
        tuned = type(problem)(**{**problem.arguments(), "learning_rate": best})
        series.append(curve(TUNED, tuned, DPSGD(), design.budget))
    lowest = min(float(one.y.min()) for one in series)
    kept = plain.y >= lowest / 10
    if kept.any():
        series.append(Series("learning", NOTHING, "exact", plain.x[kept], plain.y[kept]))
    return series


def _spectra(problem: Problem, noises: dict[str, ToeplitzNoise], points: int) -> list[Series]:
    frequencies = np.geomspace(min(float(np.min(problem.rates)), 0.1) / 30, math.pi, points)
    return [
        Series("spectrum", name, "exact", frequencies, np.sqrt(noise.power_spectrum(frequencies)))
        for name, noise in noises.items()
    ]


# -- drawing -----------------------------------------------------------------------------------------------------------

STYLES: dict[str, dict[str, Any]] = {
    INDEPENDENT: {"color": "C0", "linestyle": "-."},
    TUNED: {"color": "C0", "linestyle": "-", "linewidth": 1.0},
    ANTI: {"color": "C3", "linestyle": ":"},
    FTRL: {"color": "C1", "linestyle": "--"},
    BEST_FTRL: {"color": "C2", "linestyle": (0, (3, 1, 1, 1, 1, 1))},
    DESIGN: {"color": "black", "linestyle": "-"},
    WORST: {"color": "0.45"},
    NOTHING: {"color": "0.45", "linestyle": "-", "linewidth": 0.8},
}
LABELS = {
    INDEPENDENT: "independent noise,\nwithout sampling",
    TUNED: "independent noise, its best learning rate",
    ANTI: "anti-PGD",
    FTRL: r"$\nu$-DP-FTRL, $\nu = \eta\mu$",
    BEST_FTRL: r"$\nu$-DP-FTRL, best $\nu$",
    DESIGN: "this design",
    WORST: "this design, exactly,\non the worst quadratic",
    NOTHING: "no privacy noise",
}
FILLED = r"(a) after all steps, each at its best $\eta$"
OPEN = r"(a) stationary, all at one $\eta$ (in brackets)"


def draw(data: Data) -> Figure:
    """Draw errors, coefficients, and learning curves or spectra side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE_WIDTH, 2.9), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    _draw_errors(first, data)
    for s in data:
        if s.panel in ("coefficients", "learning", "spectrum"):
            axes = second if s.panel == "coefficients" else third
            axes.loglog(s.x, s.y, **STYLES[s.method], label=LABELS[s.method])
    second.set(title="(b)", xlabel=r"Step $t$", ylabel=r"Noise coefficient $t^{3/2}\,|\beta_t|$")
    if any(s.panel == "learning" for s in data):
        third.set(title="(c)", xlabel=r"Step $t$", ylabel=r"Error $\mathrm{E}\,F(\theta_t) - F_*$")
        if _starts_at_the_minimum(data):
            third.text(
                0.96, 0.04, "starts at the minimum,\nso noise can only add error", ha="right", transform=third.transAxes
            )
    else:
        third.set(title="(c)", xlabel=r"Frequency $\omega$ [rad/step]", ylabel=r"Modulus $|B(\omega)|$")
    for axes in (second, third):
        _label(axes.yaxis)
    lines = {line.get_label(): line for axes in (second, third) for line in axes.lines}
    entries = [lines[label] for label in LABELS.values() if label in lines]
    entries += _marks() if any(s.panel == "tuned" for s in data) else []
    columns = 3 if len(entries) > 5 else len(entries)
    figure.legend(handles=entries, loc="outside lower center", ncols=columns)
    return figure


def _marks() -> list[Artist]:
    """The two marks of panel (a), for the legend."""
    from matplotlib.lines import Line2D

    mark: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 5, "linestyle": "none"}
    return [
        Line2D([], [], **mark, label=FILLED),
        Line2D([], [], **mark, markerfacecolor="white", label=OPEN),
    ]


def _starts_at_the_minimum(data: Data) -> bool:
    """Whether the learning curve of the design rises from its first point on."""
    return any(s.panel == "learning" and s.method == DESIGN and bool(s.y[0] <= s.y.min()) for s in data)


def _label(axis: Axis) -> None:
    """Label a logarithmic axis at powers of ten, a short one at 1, 2 and 5 times these, too."""
    from matplotlib.ticker import LogFormatterMathtext, LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    short = high < 100 * low
    if short:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        decimal = (
            StrMethodFormatter("{x:g}") if low > 1e-3 and high < 1e3 else LogFormatterMathtext(minor_thresholds=(9, 9))
        )
        axis.set_major_formatter(decimal)
    axis.set_minor_formatter(NullFormatter())


def _draw_errors(axes: Axes, data: Data) -> None:
    """A row for each method: its stationary error, and its error at its own best learning rate, over the design's."""
    from matplotlib.ticker import NullLocator

    stationary = {s.method: float(s.y[0]) for s in data if s.panel == "error" and s.method != BOUND}
    tuned = {s.method: float(s.y[0]) for s in data if s.panel == "tuned"}
    exact = any(s.panel == "error" and s.kind == "exact" for s in data)
    _set_range(axes, [*stationary.values(), *tuned.values()])
    axes.axvline(1, color="black", linewidth=0.6, zorder=1)
    rows = np.arange(len(stationary))[::-1]
    for row, (method, ratio) in zip(rows.tolist(), stationary.items(), strict=True):
        color = STYLES[method]["color"]
        main = tuned.get(method, ratio)
        marks = [(ratio, "|" if method == WORST else "o", "white" if tuned else color)]
        if method in tuned:
            marks.append((main, "o", color))
        axes.plot([1, max(ratio, main, key=lambda one: abs(math.log(one)))], [row, row], color=color, linewidth=1.0)
        for place, marker, face in marks:
            axes.plot(
                place, row, color=color, marker=marker, markerfacecolor=face, markersize=5, linestyle="none", zorder=3
            )
        text = f"{_shown(main)}  ({_shown(ratio)})" if method in tuned else _shown(ratio)
        text = f"({text})" if tuned and method not in tuned else text
        axes.annotate(
            text, (max(ratio, main, 1), row), xytext=(5, 0), textcoords="offset points", va="center", color=color
        )
    axes.set_yticks(rows, [LABELS[method] for method in stationary])
    axes.tick_params(axis="y", length=0)
    axes.yaxis.grid(False)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.spines["left"].set_visible(False)
    if tuned:
        label = "Error / error of this design"
    elif exact:
        label = "Stationary error / smallest\nof any noise, all at one $\\eta$"
    else:
        label = "Bound / bound of this design,\nall at one $\\eta$"
    axes.set(title="(a)", xlabel=label, ylim=(-0.6, len(stationary) - 0.4))


def _set_range(axes: Axes, ratios: list[float]) -> None:
    """Room for all ratios and for the numbers next to them; logarithmic where they differ by more than a factor 4."""
    lowest = min(*ratios, 1.0)
    highest = max(*ratios, 1.0)
    if highest > 4 * min(lowest, 1):
        axes.set_xscale("log")
        axes.set_xlim(lowest / (highest / lowest) ** 0.08, highest * (highest / lowest) ** 0.7)
    else:
        axes.set_xlim(lowest - 0.1 * (highest - lowest + 0.1), highest + 0.5 * (highest - lowest + 0.1))


def _shown(ratio: float) -> str:
    """Three digits of ``ratio``, for mathtext."""
    if ratio < 1000:
        return f"{ratio:#.3g}".rstrip(".")
    digits, _, power = f"{ratio:.2e}".partition("e")
    return rf"${digits} \times 10^{{{int(power)}}}$"


# -- files -------------------------------------------------------------------------------------------------------------


def picture(design: Design, comparison: Comparison) -> PaperFigure:
    """The figure of one design."""
    assert design.problem is not None
    return PaperFigure(
        name="comparison",
        source="corrnoise design",
        title="errors of a design beside those of other noise, its coefficients, learning curves or spectra",
        panels={
            "error": "x = stationary error, or its bound, in units of F; y = x over that of the optimum",
            "tuned": "x = learning rate with the smallest error after all steps; y = that error over the design's",
            "coefficients": "x = step t >= 1; y = t^(3/2) |beta_t|",
            "learning": "x = step t; y = E F(theta_t) - F*, sigma from gamma_T",
            "spectrum": "x = frequency omega in radians a step; y = |B(omega)|",
        },
        parameters=(
            *design.setting.values(),
            f"learning rate = {design.problem.learning_rate!r}",
            f"initial offset = {np.ravel(comparison.initial_offset).tolist()}",
        ),
        data=lambda: picture_data(design, comparison),
        draw=draw,
        report=lambda data: report(design, comparison),
    )


def write_picture(design: Design, comparison: Comparison, folder: Path) -> None:
    """Write the picture to ``folder`` as PDF and PNG, and its data as CSV."""
    figure = picture(design, comparison)
    write_figure(figure, figure.data(), folder)
