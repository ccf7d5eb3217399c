"""What a design gains: its error beside those of DP-SGD and ν-DP-FTRL, its coefficients, its learning curve.

Errors are F − F* with the factor ½, for the budget ρ, clip norm G and adjacency of the design.  ``error`` holds

* of quadratic problems the exact stationary errors, with σ of γ_∞, in units of F and divided by the smallest that any
  noise can have (formula E3), and a lower bound over all noise (Theorem C.18, corrected, and N2);
* of strongly convex ones certified upper bounds of F − F* (criterion ``"objective"``; for independent noise also the
  bound that holds for it alone, if that is smaller), divided by the bound of the design, and the exact error of the
  design on the worst quadratic, which no upper bound for it can undercut.

With a horizon T the ``learning`` curves of quadratic problems are exact, too, with σ of γ_T; that of a run without
privacy noise shows what no correlation can improve (down to a tenth of the design's lowest error).  ``coefficients``
holds t^{3/2} |β_t|, for large t 1/(2 sqrt(π)) for noise that never forgets (ν = 0): it shows where noise forgets.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Theorems 2.2, 3.1 and C.18.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.figures.publication import PAGE_WIDTH, Data, PaperFigure, Series
from corrnoise.solvers.designs import Design
from corrnoise.theory import checks
from corrnoise.theory.checks import ArrayLike
from corrnoise.theory.problems import QuadraticProblem
from corrnoise.theory.product_noise import DPSGD, NuFTRL
from corrnoise.theory.strongly_convex import StronglyConvex
from corrnoise.theory.toeplitz_noise import ToeplitzNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SGD, FTRL, BEST_FTRL = "DP-SGD", "nu-DP-FTRL, nu = eta mu", "nu-DP-FTRL, best nu"
DESIGN, STREAM, NOTHING = "design", "design, streamed", "no privacy noise"
BOUND, WORST = "lower bound", "design, worst quadratic"
LAST_STEP = 100_000  #: of coefficients without a horizon
SMALLEST_COEFFICIENT = 1e-3  #: smaller ones, times t^{3/2}, are left out
_UNLIMITED = 1e100  # ρ of a run without privacy noise


def _problem(design: Design) -> QuadraticProblem | StronglyConvex:
    if not isinstance(design, Design) or design.problem is None:
        raise TypeError(f"design must be a Design with a problem, got {design!r}")
    return design.problem


def rivals(design: Design) -> dict[str, ToeplitzNoise]:
    """The noises that are compared, by name."""
    from corrnoise.solvers.tuning import best_nu

    problem = _problem(design)
    noises: dict[str, ToeplitzNoise] = {
        SGD: DPSGD(),
        FTRL: NuFTRL(float(np.min(problem.rates))),
        BEST_FTRL: NuFTRL(best_nu(problem, **design.budget, criterion="objective")),
        DESIGN: design.noise,
    }
    if design.stream is not None:
        noises[STREAM] = design.stream
    return noises


def errors(design: Design) -> dict[str, tuple[float, float]]:
    """By method the stationary error (or its upper bound) in units of F, and its ratio to the smallest."""
    problem, budget = _problem(design), design.budget
    if isinstance(problem, QuadraticProblem):
        found = {name: problem.stationary_error(noise, **budget) for name, noise in rivals(design).items()}
        unit, found[BOUND] = problem.optimal_error(**budget), problem.lower_bound(**budget)
    else:
        from corrnoise.solvers.strongly_convex_bound import strongly_convex_bound

        certified: dict[str, Any] = {**budget, "criterion": "objective"}
        found = {name: strongly_convex_bound(problem, noise, **certified) for name, noise in rivals(design).items()}
        found[SGD] = min(found[SGD], problem.independent_noise_upper_bound(**budget))
        unit, found[WORST] = found[DESIGN], problem.worst_quadratic_error(design.noise, **budget)
    return {name: (value, value / unit) for name, value in found.items()}


def data(design: Design, initial_offset: ArrayLike = 0.0, points: int = 160) -> Data:
    """The records of all panels.

    Parameters
    ----------
    design
        A design that knows its problem.
    initial_offset
        θ_0 − θ* in the eigenbasis, a scalar or shape (d,): where the learning curves start.
    points
        About so many points a curve.
    """
    problem, noises = _problem(design), rivals(design)
    quadratic = isinstance(problem, QuadraticProblem)
    kind = "exact" if quadratic else "upper bound"
    series = [
        Series("error", name, "lower bound" if name in (BOUND, WORST) else kind, np.array([error]), np.array([ratio]))
        for name, (error, ratio) in errors(design).items()
    ]
    last = design.steps or LAST_STEP
    shown = np.unique(np.geomspace(1, last, checks.integer("points", points, 2)).round()).astype(int)
    steps = shown[shown < last]
    for name, noise in noises.items():
        beta = np.abs(noise.coefficients(last)[steps]) * steps**1.5
        kept = beta >= SMALLEST_COEFFICIENT
        if kept.any():
            series.append(Series("coefficients", name, "exact", steps[kept].astype(float), beta[kept]))
    noises.pop(STREAM, None)  # its other curves are the design's
    if isinstance(problem, QuadraticProblem) and design.steps is not None:
        start: dict[str, Any] = {"horizon": last, "initial_offset": initial_offset}
        for name, noise in noises.items():
            curve = problem.learning_curve(noise, last, **start, **design.budget)[shown]
            series.append(Series("learning", name, "exact", shown.astype(float), curve))
        lowest = float(curve.min())
        curve = problem.learning_curve(DPSGD(), last, **start, rho=_UNLIMITED)[shown]
        if (kept := curve >= lowest / 10).any():
            series.append(Series("learning", NOTHING, "exact", shown[kept].astype(float), curve[kept]))
    else:
        frequencies = np.geomspace(min(float(np.min(problem.rates)), 0.1) / 30, math.pi, points)
        for name, noise in noises.items():
            modulus = np.sqrt(noise.power_spectrum(frequencies))
            series.append(Series("spectrum", name, "exact", frequencies, modulus))
    return tuple(series)


# -- drawing -----------------------------------------------------------------------------------------------------------

STYLES: dict[str, dict[str, Any]] = {
    SGD: {"color": "C0", "linestyle": "-."},
    FTRL: {"color": "C1", "linestyle": "--"},
    BEST_FTRL: {"color": "C2", "linestyle": (0, (3, 1, 1, 1, 1, 1))},
    DESIGN: {"color": "black", "linestyle": "-"},
    STREAM: {"color": "C4", "linestyle": ":", "linewidth": 1.8},
    BOUND: {"color": "0.45"},
    WORST: {"color": "0.45"},
    NOTHING: {"color": "0.45", "linestyle": "-", "linewidth": 0.8},
}
LABELS = {
    SGD: "DP-SGD",
    FTRL: r"$\nu$-DP-FTRL, $\nu = \eta\mu$",
    BEST_FTRL: r"$\nu$-DP-FTRL, best $\nu$",
    DESIGN: "this design",
    STREAM: "this design, streamed",
    BOUND: "lower bound",
    WORST: "worst quadratic",
    NOTHING: "no privacy noise",
}


def draw(data: Data) -> Figure:
    """Draw errors, coefficients, and learning curves or spectra side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE_WIDTH, 2.7), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    _draw_errors(first, [s for s in data if s.panel == "error"])
    for s in data:
        if s.panel != "error":
            axes = second if s.panel == "coefficients" else third
            axes.loglog(s.x, s.y, **STYLES[s.method], label=LABELS[s.method])
    second.set(title="(b)", xlabel=r"Step $t$", ylabel=r"Noise coefficient $t^{3/2}\,|\beta_t|$")
    if any(s.panel == "learning" for s in data):
        third.set(title="(c)", xlabel=r"Step $t$", ylabel=r"Error $\mathrm{E}\,F(\theta_t) - F_*$")
    else:
        third.set(title="(c)", xlabel=r"Frequency $\omega$ [rad/step]", ylabel=r"Modulus $|B(\omega)|$")
    for axes in (second, third):
        _label(axes.yaxis)
    lines = {line.get_label(): line for axes in (second, third) for line in axes.lines}
    labels = [label for label in LABELS.values() if label in lines]
    figure.legend(
        [lines[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=3 if len(labels) > 5 else len(labels),
    )
    return figure


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


def _draw_errors(axes: Axes, series: list[Series]) -> None:
    """A row for each method, with its error in units of the smallest."""
    from matplotlib.ticker import NullLocator

    ratios = {s.method: float(s.y[0]) for s in series}
    rows = np.arange(len(ratios))[::-1]
    lowest, highest = min(ratios.values()), max(ratios.values())
    if highest > 4:
        axes.set_xscale("log")
        axes.set_xlim(lowest / (highest / lowest) ** 0.08, highest * (highest / lowest) ** 0.35)
    else:
        axes.set_xlim(lowest - 0.1 * (highest - lowest + 0.1), highest + 0.35 * (highest - lowest + 0.1))
    axes.axvline(1, color="black", linewidth=0.6, zorder=1)
    for row, (method, ratio) in zip(rows, ratios.items(), strict=True):
        color = STYLES[method]["color"]
        axes.plot([1, ratio], [row, row], color=color, linewidth=1.0)
        axes.plot(
            ratio, row, color=color, marker="|" if method in (BOUND, WORST) else "o", markersize=5, linestyle="none"
        )
        axes.annotate(
            _shown(ratio), (max(ratio, 1), row), xytext=(5, 0), textcoords="offset points", va="center", color=color
        )
    axes.set_yticks(rows, [LABELS[method] for method in ratios])
    axes.tick_params(axis="y", length=0)
    axes.yaxis.grid(False)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.spines["left"].set_visible(False)
    exact = any(s.kind == "exact" for s in series)
    label = "Error / smallest error of any noise" if exact else "Bound / bound of this design"
    axes.set(title="(a)", xlabel=label, ylim=(-0.6, len(ratios) - 0.4))


def _shown(ratio: float) -> str:
    """Three digits of ``ratio``, for mathtext."""
    if ratio < 1000:
        return f"{ratio:#.3g}".rstrip(".")
    digits, _, power = f"{ratio:.2e}".partition("e")
    return rf"${digits} \times 10^{{{int(power)}}}$"


# -- words -------------------------------------------------------------------------------------------------------------


def report(data: Data) -> str:
    """The errors as a table, and what they mean."""
    ends = {s.method: (s.x[-1], s.y[-1]) for s in data if s.panel == "learning"}
    if NOTHING in ends and ends[NOTHING][0] < ends[DESIGN][0]:
        del ends[NOTHING]
    rows = [s for s in data if s.panel == "error"]
    exact = any(s.kind == "exact" for s in rows)
    table = [["", "stationary error" if exact else "bound", "ratio"]]
    table += [[s.method, f"{s.x[0]:.6g}", f"{s.y[0]:.5g}"] for s in rows]
    if ends:
        table[0].append(f"after {ends[DESIGN][0]:.0f} steps")
        for row in table[1:]:
            row.append(f"{ends[row[0]][1]:.6g}" if row[0] in ends else "-")
    if NOTHING in ends:
        table.append([NOTHING, "-", "-", f"{ends[NOTHING][1]:.6g}"])
    lines = ["  " + f"{row[0]:<26}" + "".join(f"{cell:>20}" for cell in row[1:]) for row in table]
    notes = [
        "Errors are F - F*, with the factor 1/2 of F, of steps with one example each, without clipping, at this budget."
        if exact
        else "Upper bounds of F - F* for every loss of the class whose gradients the clip norm bounds, at this budget.",
        "Stationary errors are exact limits, with the sigma of gamma_inf; ratio: to the smallest of any noise."
        if exact
        else "They hold in the limit, with the sigma of gamma_inf; ratio: to that of the design.",
    ]
    notes += [
        "Errors after so many steps are exact, with the sigma of gamma_T, and contain the bias of the start."
    ] * bool(ends)
    if not exact and any(s.method == SGD and s.y[0] < 1 for s in rows):
        notes.append(
            "DP-SGD has a bound of its own, for independent noise: here no correlated noise is proved to be better."
        )
    return "\n".join([*lines, "", *notes])


def design_figure(design: Design, initial_offset: ArrayLike = 0.0) -> PaperFigure:
    """The figure of one design, for ``publish``; arguments as of ``data``."""
    privacy = f"rho = {design.rho!r}, clip norm = {design.clip_norm!r}, adjacency {design.adjacency}"
    return PaperFigure(
        name="comparison",
        source="corrnoise design",
        title="errors of a design beside those of other noise, its coefficients, learning curves or spectra",
        panels={
            "error": "x = stationary error, or its bound, in units of F; y = x over that of the optimum",
            "coefficients": "x = step t >= 1; y = t^(3/2) |beta_t|",
            "learning": "x = step t; y = E F(theta_t) - F*, sigma from gamma_T",
            "spectrum": "x = frequency omega in radians a step; y = |B(omega)|",
        },
        parameters=(privacy, f"steps = {design.steps}, initial offset = {np.ravel(initial_offset).tolist()}"),
        data=partial(data, design, initial_offset),
        draw=draw,
        report=report,
    )
