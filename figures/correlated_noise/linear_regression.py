"""Figure 2 of arXiv 2310.06771: linear regression against dimension, effective dimension and learning rate.

Inputs are Gaussian, the Hessian has the eigenvalues λ_k = k^{−α}, the residual noise is 0, and G = ρ = 1.  Around
d = 128, α = 1, η = 0.02 one quantity is varied at a time.  For Noisy-SGD and for ν-Noisy-FTRL with ν = ημ the records
hold

* ``exact``: F_∞ = lim E F(θ_t) − F*, with the factor ½ of F;
* ``linear part``: its value without the feedback of the error on itself, a lower bound;
* ``rate``: ηdG²/(4ρ) and η²G² Tr H/(4ρ), the rates of Theorem 2.2 without logarithms.  The first is an upper bound of
  Noisy-SGD for η R² <= 1, the second a lower bound of all noise;
* ``rate with logarithm``: η²G² Tr H log²(1/ν)/(4ρ), the rate of Theorem 2.2 for ν-Noisy-FTRL;

and, for all noise, the ``exact`` optimum.  The feedback multiplies the errors by 1/(1 − A), nearly, with
A = (η/2) Σ λ_j/(1 − η λ_j); the paper's slopes contain it.

``simulate`` adds simulated values of the exact ones at the settings of the panels, by two estimators:

* ``plain``: the mean of F(θ_t) − F*, which assumes nothing;
* ``delta``: the same with the linear part as control variate, whose mean is known; it has the smaller variance.

Source: Choquette-Choo et al., arXiv 2310.06771: Theorems 2.2 and C.18, Figure 2.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from corrnoise.figures.publication import (
    Axes,
    Data,
    Drawing,
    PaperFigure,
    Series,
    SimulatedSeries,
    subplots_with_residuals,
)
from corrnoise.figures.simulation import Simulated, SimulationRun, agreement
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression, power_law

DIMENSION = 128
EXPONENT = 1.0
LEARNING_RATE = 0.02

SGD, FTRL, OPTIMUM = "Noisy-SGD", "nu-Noisy-FTRL", "optimum"

#: The parameter of each panel, and its settings.  The paper gives the range of the exponent only.
SETTINGS = {
    "dimension": np.array([8, 16, 32, 64, 128]),
    "effective dimension": np.linspace(1.0, 0.4, 7),
    "learning rate": np.array([0.02, 0.04, 0.08, 0.16]),
}

#: The slopes stated in the caption.
PAPER_SLOPES = {
    ("dimension", SGD): 1.00,
    ("effective dimension", SGD): 0.18,
    ("effective dimension", FTRL): 0.94,
    ("learning rate", SGD): 1.27,
    ("learning rate", FTRL): 2.03,
}


def problem(
    dimension: int = DIMENSION, exponent: float = EXPONENT, learning_rate: float = LEARNING_RATE
) -> LinearRegression:
    """Linear regression with Gaussian inputs, eigenvalues k^{−α}, k = 1, …, d, and no residual noise."""
    return LinearRegression(power_law(dimension, exponent), learning_rate)


def _ftrl(p: LinearRegression) -> NuFTRL:
    return NuFTRL(p.learning_rate * p.eigenvalues.min())


NOISES: dict[str, Callable[[LinearRegression], ToeplitzNoise]] = {SGD: lambda p: DPSGD(), FTRL: _ftrl}

CURVES: dict[tuple[str, str], Callable[[LinearRegression], float]] = {
    (SGD, "exact"): lambda p: p.stationary_error(DPSGD()),
    (SGD, "linear part"): lambda p: p.lower_bound(DPSGD()),
    (SGD, "rate"): lambda p: p.learning_rate * p.eigenvalues.size / 4,
    (FTRL, "exact"): lambda p: p.stationary_error(_ftrl(p)),
    (FTRL, "linear part"): lambda p: p.lower_bound(_ftrl(p)),
    (FTRL, "rate"): lambda p: p.learning_rate**2 * float(p.eigenvalues.sum()) / 4,
    (FTRL, "rate with logarithm"): lambda p: (
        p.learning_rate**2 * float(p.eigenvalues.sum()) * np.log(_ftrl(p).nu) ** 2 / 4
    ),
    (OPTIMUM, "exact"): lambda p: p.optimal_error(),
    ("feedback", "exact"): lambda p: 1 / (1 - p.instability()),
}


def data(refine: int = 4) -> Data:
    """Every curve in every panel, with each interval between two settings divided into ``refine`` (1, 2, 4 or 8)."""
    if checks.integer("refine", refine, 1) not in (1, 2, 4, 8):
        raise ValueError(f"refine must be 1, 2, 4 or 8, got {refine!r}")
    series = []
    for panel, settings in SETTINGS.items():
        places = np.arange((settings.size - 1) * refine + 1) / refine
        x, problems = panel_problems(panel, np.interp(places, np.arange(settings.size), settings))
        for (method, kind), value in CURVES.items():
            series.append(Series(panel, method, kind, x, np.array([value(p) for p in problems])))
    return tuple(series)


def panel_problems(panel: str, settings: Array | None = None) -> tuple[Array, list[LinearRegression]]:
    """The horizontal axis of ``panel`` at ``settings`` (None: ``SETTINGS``) and the problems there."""
    settings = SETTINGS[panel] if settings is None else settings
    if panel == "dimension":
        return settings, [problem(dimension=int(d)) for d in settings]
    if panel == "effective dimension":
        problems = [problem(exponent=alpha) for alpha in settings]
        return np.array([p.effective_dimension() for p in problems]), problems
    return settings, [problem(learning_rate=eta) for eta in settings]


# -- simulation --------------------------------------------------------------------------------------------------------

ESTIMATORS = ("plain", "delta")
CHAINS = 8
#: Recorded steps a chain: so many relaxation times (the errors of Noisy-SGD need more), and never fewer than
#: so many steps divided by d.
RELAXATIONS = {SGD: 80, FTRL: 40}
LEAST_STEPS = 4_000_000


def simulate(run: SimulationRun) -> Simulated:
    """Simulate the exact values of both methods at the settings of all panels; points that fail are left out."""
    from corrnoise.simulations.sweeps.running import SweepPoint, sweep

    axes = {panel: panel_problems(panel) for panel in SETTINGS}
    places: dict[tuple[LinearRegression, str], str] = {}  # a point that panels share is simulated once
    for panel, (xs, problems) in axes.items():
        for x, p in zip(xs, problems, strict=True):
            for method in NOISES:
                places.setdefault((p, method), f"{method} at {panel} {x:.4g}")
    tasks = [(*place, label) for _ in range(run.repeats) for place, label in places.items()]
    seeds = run.seeds(len(tasks))
    points = [
        SweepPoint(p, NOISES[method](p), seed, {"steps": _steps(p, method, run.effort), "chains": CHAINS}, label)
        for (p, method, label), seed in zip(tasks, seeds, strict=True)
    ]
    outcomes = sweep(points, directory=run.directory, jobs=run.jobs, cluster=run.cluster, progress=run.progress)

    found: dict[tuple[LinearRegression, str], list[dict[str, tuple[float, float]]]] = {place: [] for place in places}
    for (p, method, _), outcome in zip(tasks, outcomes, strict=True):
        if outcome.simulation is not None:
            found[p, method].append(outcome.simulation.estimators)
    series = []
    for panel, (xs, problems) in axes.items():
        for method, noise in NOISES.items():
            kept = [(x, p) for x, p in zip(xs, problems, strict=True) if found[p, method]]
            for name in ESTIMATORS if kept else ():
                rows = [
                    (x, *_average([e[name] for e in found[p, method]]), p.stationary_error(noise(p))) for x, p in kept
                ]
                series.append(SimulatedSeries(panel, method, name, *np.array(rows).T))
    return Simulated(tuple(series), tuple(o.error for o in outcomes if o.error is not None))


def _average(estimates: list[tuple[float, float]]) -> tuple[float, float]:
    """The mean of independent estimates with standard errors, and its standard error."""
    means, errors = np.array(estimates).T
    return float(means.mean()), float(np.linalg.norm(errors) / errors.size)


def _steps(p: LinearRegression, method: str, effort: float) -> int:
    """Recorded steps a chain."""
    from corrnoise.simulations.quadratic import relaxation_rate

    return math.ceil(effort * max(RELAXATIONS[method] / relaxation_rate(p), LEAST_STEPS / p.eigenvalues.size))


# -- slopes ------------------------------------------------------------------------------------------------------------


def _slope_weights(series: Series) -> Array:
    """Weights of log y in ``slope``, shape (n,), 0 between the settings of the panel."""
    intervals = SETTINGS[series.panel].size - 1
    stride = (series.x.size - 1) // intervals
    if stride < 1 or stride * intervals + 1 != series.x.size:
        raise ValueError(f"series must hold the {intervals + 1} settings of its panel, got {series.x.size} points")
    weights = np.zeros(series.x.size)
    centred = np.log(series.x[::stride])
    centred -= centred.mean()
    weights[::stride] = centred / np.square(centred).sum()
    return weights


def slope(series: Series) -> float:
    """Least-squares slope of log y on log x at the settings of the panel; points between them do not count."""
    return float(_slope_weights(series) @ np.log(series.y))


def slope_error(series: SimulatedSeries) -> float:
    """Standard error of ``slope``, of independent y with small relative errors."""
    return float(np.linalg.norm(_slope_weights(series) * series.standard_error / series.y))


# -- drawing -----------------------------------------------------------------------------------------------------------

#: Colour says which noise, line style says which statement.
STYLES: dict[tuple[str, str], dict[str, Any]] = {
    (SGD, "exact"): {"color": "C0", "linewidth": 2.0, "label": "Noisy-SGD, exact"},
    (FTRL, "exact"): {"color": "C1", "linewidth": 2.0, "label": r"$\nu$-Noisy-FTRL, exact"},
    (SGD, "linear part"): {"color": "C0", "linestyle": ":", "label": "Noisy-SGD, lower bound"},
    (FTRL, "linear part"): {"color": "C1", "linestyle": ":", "label": r"$\nu$-Noisy-FTRL, lower bound"},
    (SGD, "rate"): {"color": "C0", "linestyle": "--", "linewidth": 1.0, "label": r"$\eta d\,G^2/4\rho$"},
    (FTRL, "rate"): {
        "color": "C1",
        "linestyle": "--",
        "linewidth": 1.0,
        "label": r"$\eta^2\,\mathrm{Tr}\,H\,G^2/4\rho$",
    },
    (OPTIMUM, "exact"): {"color": "black", "linewidth": 0.6, "label": "optimum over all noise"},
}

#: The horizontal axis of each panel: label and ticks.
AXES: dict[str, tuple[str, list[float]]] = {
    "dimension": (r"Dimension $d$", [8, 16, 32, 64, 128]),
    "effective dimension": (r"Effective dimension $\mathrm{Tr}\,H/\|H\|_2$", [6, 10, 15, 20, 30]),
    "learning rate": (r"Learning rate $\eta$", [0.02, 0.04, 0.08, 0.16]),
}

#: Open markers for what assumes nothing, small filled ones inside them with the control variate.
MARKERS: dict[str, dict[str, Any]] = {
    "plain": {"markersize": 4.8, "markerfacecolor": "white", "markeredgewidth": 1.0},
    "delta": {"markersize": 2.0, "markeredgewidth": 0.0},
}
MARKER_LABELS = {"plain": "simulated", "delta": "simulated, control variate"}


def draw(data: Data) -> Drawing:
    """Draw the three panels side by side, with the slopes of the exact curves.

    Simulated records become markers, and a second row of panels with their deviations and 95 % intervals.
    """
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    simulated = [s for s in data if isinstance(s, SimulatedSeries)]
    figure, rows = subplots_with_residuals(2.7, 3, residuals=bool(simulated), sharex="col")
    panels = dict(zip(AXES, rows[0], strict=True))
    for (method, kind), style in STYLES.items():
        for s in data:
            if (s.method, s.kind) == (method, kind):
                panels[s.panel].loglog(s.x, s.y, **style)
                if kind == "exact" and method != OPTIMUM:
                    _write_slope(panels[s.panel], s, above=method == FTRL, color=style["color"])
    for s in simulated:
        _draw_simulated(panels[s.panel], rows[1, list(AXES).index(s.panel)], s)

    for tag, lowest, (panel, (label, ticks)) in zip("abc", rows[-1], AXES.items(), strict=True):
        panels[panel].set(title=f"({tag})")
        lowest.set(xlabel=label)
        lowest.xaxis.set_major_locator(FixedLocator(ticks))
        lowest.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        lowest.xaxis.set_minor_locator(NullLocator())
    panels["dimension"].set(ylabel=r"Asymptotic suboptimality $F_\infty$  [$G^2\!/\rho$]", ylim=(2e-4, 1e1))
    entries = list(zip(*panels["dimension"].get_legend_handles_labels(), strict=True))
    if simulated:
        _finish_deviations(rows[1])
        markers = [
            (Line2D([], [], color="black", linestyle="none", marker="o", **MARKERS[kind]), name)
            for kind, name in MARKER_LABELS.items()
        ]
        entries = [*entries[:2], entries[6], *entries[2:4], markers[0], *entries[4:6], markers[1]]
    figure.legend(*zip(*entries, strict=True), loc="outside lower center", ncols=3 if simulated else 4)
    return figure


def _draw_simulated(above: Axes, below: Axes, series: SimulatedSeries) -> None:
    """Markers over the exact curve, and their deviations from it next to each other, with 95 % intervals."""
    look = {"color": STYLES[series.method, "exact"]["color"], "linestyle": "none", "marker": "o", "elinewidth": 0.9}
    look |= MARKERS[series.kind]
    above.errorbar(series.x, series.y, 1.96 * series.standard_error, **look)
    ranks = [(method, kind) for method in NOISES for kind in MARKERS]
    ticks = AXES[series.panel][1]
    shift = (ticks[-1] / ticks[0]) ** (0.026 * (ranks.index((series.method, series.kind)) - 1.5))
    percent = 100 / series.exact
    look["markersize"] = (
        0.6 * MARKERS["plain"]["markersize"] if series.kind == "plain" else MARKERS["delta"]["markersize"]
    )
    below.errorbar(
        series.x * shift, (series.y - series.exact) * percent, 1.96 * series.standard_error * percent, **look
    )


def _finish_deviations(row: Sequence[Axes]) -> None:
    """Symmetric limits, a line at 0, and the label of the second row."""
    from matplotlib.ticker import MaxNLocator

    height = 1.1 * max(abs(end) for end in row[0].get_ylim())
    row[0].set(ylim=(-height, height), ylabel="Simulated / exact\n" + r"$-\,1$  [%]")
    row[0].yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], symmetric=True))
    for axes in row:
        axes.axhline(0, color="black", linewidth=0.5, zorder=1)


def _write_slope(axes: Axes, series: Series, *, above: bool, color: str) -> None:
    """Write the slope of ``series`` next to the middle of its curve, on the free side of it."""
    middle = np.sqrt(series.x[0] * series.x[-1])
    height = np.exp(np.interp(np.log(middle), np.log(series.x), np.log(series.y)))
    axes.annotate(
        f"slope {slope(series):.2f}",
        (middle, height),
        xytext=(-4, 6) if above else (8, -13),
        textcoords="offset points",
        ha="right" if above else "left",
        color=color,
    )


def report(data: Data) -> str:
    """The caption's slopes next to the exact and the simulated ones, and their parts."""
    curves = {(s.panel, s.method, s.kind): s for s in data}
    fitted = {key: slope(s) for key, s in curves.items() if s.x.size >= SETTINGS[s.panel].size}
    simulated = any(isinstance(s, SimulatedSeries) for s in data)
    excess = [float(e) for p in SETTINGS for e in curves[p, FTRL, "exact"].y / curves[p, OPTIMUM, "exact"].y]

    def line(panel: str, method: str) -> str:
        paper = PAPER_SLOPES.get((panel, method))
        cells = ["-" if paper is None else f"{paper:.2f}"]
        own = [fitted.get((panel, method, kind)) for kind in ("exact", "linear part", "rate")]
        cells += ["-" if v is None else f"{v:.3f}" for v in own]
        if simulated:
            cells += [interval((panel, method, name)) for name in ESTIMATORS]
        widths = (6, 8, 8, 8, 18, 18)
        return f"  {panel:<20} {method:<14}" + "".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=False))

    def interval(key: tuple[str, str, str]) -> str:
        s = curves.get(key)
        if key not in fitted or not isinstance(s, SimulatedSeries):
            return "-"
        return f"{fitted[key]:.4f} +- {1.96 * slope_error(s):.4f}"

    def in_each_panel(method: str, kind: str) -> str:
        return ", ".join(f"{fitted[panel, method, kind]:.3f}" for panel in SETTINGS)

    table = "\n".join(line(panel, method) for panel in SETTINGS for method in (SGD, FTRL, OPTIMUM))
    largest = max(abs(fitted[panel, method, "exact"] - s) for (panel, method), s in PAPER_SLOPES.items())
    intervals, columns = ("; 95 % intervals", "   simulated, plain   simulated, delta") if simulated else ("", "")
    judged = f"\n{agreement(data)}\n" if simulated else ""
    return f"""\
Slopes on logarithmic axes (linear: without the feedback of the error; rate: eta d, and eta^2 Tr H{intervals}):

  against              of             paper   exact  linear    rate{columns}
{table}
{judged}
At these settings nu-Noisy-FTRL has {min(excess):.2f} to {max(excess):.2f} times the optimal error.

Where it differs from the paper:
- The curves are exact values of F_inf = lim E F - F*, with the factor 1/2 of F; the paper shows simulations.  It does
  not state nu, the residual variance or the settings of d and eta.  With nu = eta mu, no residual noise, d = 8, ...,
  128 and eta = 0.02, ..., 0.16 all five slopes agree with the caption to {largest:.3f}.
- The slopes contain the feedback factor 1/(1 - A), A = (eta/2) sum lambda/(1 - eta lambda), whose own slopes are
  {in_each_panel("feedback", "exact")}: it grows towards instability, A = 1.  Without it Noisy-SGD has the slopes
  {in_each_panel(SGD, "linear part")} and nu-Noisy-FTRL {in_each_panel(FTRL, "linear part")}.
- Close to the caption's slopes are the rates without logarithms.  The upper bound that Theorem 2.2 states for
  nu-Noisy-FTRL, eta^2 Tr H log^2(1/nu), has the slopes {in_each_panel(FTRL, "rate with logarithm")}."""


FIGURE = PaperFigure(
    name="linear_regression",
    source="Figure 2 of arXiv 2310.06771",
    title="stationary error of linear regression against dimension, effective dimension and learning rate",
    panels={
        "dimension": "x = dimension d; alpha = 1, eta = 0.02",
        "effective dimension": "x = Tr H/||H||_2, alpha from 1 to 0.4; d = 128, eta = 0.02",
        "learning rate": "x = learning rate eta, in units of 1/||H||_2; d = 128, alpha = 1",
    },
    parameters=(
        "y = F_inf = lim E F - F*, with the factor 1/2 of F, in units of G^2/rho (G clip norm, rho zCDP budget)",
        "y of the method feedback: 1/(1 - A), without units",
        "Gaussian inputs, eigenvalues k^(-alpha), no residual noise; nu = eta mu, mu the smallest eigenvalue",
        "linear part: the error without its feedback, a lower bound",
        "rates: eta d/4, eta^2 Tr H/4, eta^2 Tr H log^2(1/nu)/4",
        "plain: simulated; delta: simulated with the linear part as control variate; z = (y - exact)/standard_error",
        "slopes: least squares on logarithms at d = 8, 16, ..., 128; alpha = 1, 0.9, ..., 0.4; eta = 0.02, ..., 0.16",
    ),
    data=data,
    draw=draw,
    report=report,
    simulate=simulate,
    on_cluster=True,
)
