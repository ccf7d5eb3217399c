"""How the discretised program of the strongly convex bound converges: value and time over frequencies and lags.

The paper solves the program on k = 1000 uniform frequencies with few lags.  For η L = 1, κ = 10, 100 and 1000 and
independent noise, the figure shows the value of the cone program over k (at lags 50) and over the largest lag (at
k = 1000), relative to the certified bound of the fast solver, and the times that both take.
"""

import time

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, legend_below, subplots
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.strongly_convex.cone_program import compiled
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.problems.strongly_convex import StronglyConvex

CONDITION_NUMBERS = (10.0, 100.0, 1000.0)
COUNTS = (200, 400, 700, 1000, 1400, 2000)
LAGS = (2, 5, 10, 20, 50, 100)
FEW_LAGS = 50
MANY = 1000
REPEATS = 10  #: of the fast solver, to time it
PANELS = ("frequencies", "lags", "time")


def solved(kappa: float, count: int, lags: int) -> tuple[float, float]:
    """Value of the cone program, and the seconds that its first solution and its certificate take, once compiled."""
    problem = StronglyConvex(1 / kappa, 1.0, 1.0)
    compiled(*problem.rates, "distance", count, lags)
    start = time.perf_counter()
    value = strongly_convex_certificate(problem, DPSGD(), method="socp", frequencies=count, lags=lags).value
    return value, time.perf_counter() - start


def fast(kappa: float) -> tuple[float, float]:
    """The certified bound, and the seconds that it takes."""
    problem = StronglyConvex(1 / kappa, 1.0, 1.0)
    strongly_convex_certificate(problem, DPSGD())
    start = time.perf_counter()
    for _ in range(REPEATS):
        value = strongly_convex_certificate(problem, DPSGD()).value
    return value, (time.perf_counter() - start) / REPEATS


def data(counts: tuple[int, ...] = COUNTS, lags: tuple[int, ...] = LAGS, many: int = MANY) -> Data:
    """Relative excess of the cone program over the certified bound, and times."""
    series = []
    for kappa in CONDITION_NUMBERS:
        name = f"kappa = {kappa:g}"
        certified, seconds = fast(kappa)
        values_by_count = [solved(kappa, count, FEW_LAGS)[0] for count in counts]
        by_lag = [solved(kappa, many, largest) for largest in lags]
        excess_by_count = [abs(value / certified - 1) for value in values_by_count]
        excess_by_lag = [abs(value / certified - 1) for value, _ in by_lag]
        floor = 1e-12  # the difference of two equal numbers on a logarithmic axis
        series += [
            Series("frequencies", name, "cone program", np.array(counts, float), np.maximum(excess_by_count, floor)),
            Series("lags", name, "cone program", np.array(lags, float), np.maximum(excess_by_lag, floor)),
            Series("time", name, "cone program", np.array(lags, float), np.array([s for _, s in by_lag])),
            Series("time", name, "fast", np.array(lags, float), np.full(len(lags), seconds)),
        ]
    return tuple(series)


def draw(data: Data) -> Drawing:
    """Draw the three panels side by side."""
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    figure, grid = subplots(2.6, 1, 3)
    panels = dict(zip(PANELS, grid, strict=True))
    markers = dict(zip((f"kappa = {kappa:g}" for kappa in CONDITION_NUMBERS), ("o", "s", "^"), strict=True))
    colours = {name: f"C{k}" for k, name in enumerate(markers)}
    for s in data:
        kappa = s.method.partition(" = ")[2]
        if s.kind == "fast":
            panels[s.panel].loglog(s.x, s.y, ":", color=colours[s.method], label=rf"fast, $\kappa = {kappa}$")
        else:
            panels[s.panel].loglog(
                s.x, s.y, marker=markers[s.method], color=colours[s.method], label=rf"cone program, $\kappa = {kappa}$"
            )
    panels["frequencies"].set(title="(a)", xlabel="Frequencies $k$", ylabel="|Value / certified bound − 1|")
    panels["lags"].set(title="(b)", xlabel="Largest lag", ylabel="|Value / certified bound − 1|")
    panels["time"].set(title="(c)", xlabel="Largest lag", ylabel="Time [s]")
    for name, places in (("frequencies", [200, 500, 1000, 2000]), ("lags", LAGS), ("time", LAGS)):
        panels[name].xaxis.set_major_locator(FixedLocator(places))
        panels[name].xaxis.set_major_formatter(ScalarFormatter())
        panels[name].xaxis.set_minor_locator(NullLocator())
    legend_below(figure, panels["time"], 3)
    return figure


def report(data: Data) -> str:
    """Excess and times, and their ratio at the largest lag."""
    curves = {(s.panel, s.method, s.kind): s for s in data}
    lines = []
    for kappa in CONDITION_NUMBERS:
        name = f"kappa = {kappa:g}"
        s = curves["lags", name, "cone program"]
        slow = curves["time", name, "cone program"].y[-1]
        quick = curves["time", name, "fast"].y[-1]
        times = f"{slow:.2f} s, {slow / quick:.0f} times the fast solver"
        lines.append(f"  {name:<14} lags {s.x[-1]:g}: excess {s.y[-1]:.2e}, {times}")
    table = "\n".join(lines)
    return f"""\
The cone program on k = {MANY} uniform frequencies against the certified bound (infinitely many lags):

{table}

- k = 1000 is adequate for condition numbers up to about 100 at eta L = 1: the peak at frequency 0 is 1/kappa wide."""


FIGURE = PaperFigure(
    name="strongly_convex_convergence",
    source="Beyond the figures of arXiv 2310.06771",
    title="convergence of the discretised program of Theorem 3.1 in frequencies and lags, and the time it takes",
    panels={
        "frequencies": f"x = number of uniform frequencies; y = |value/certified bound - 1| at lags {FEW_LAGS}",
        "lags": f"x = largest lag; y = |value/certified bound - 1| at k = {MANY}",
        "time": f"x = largest lag; y = seconds at k = {MANY}, measured in this run",
    },
    parameters=("independent noise, eta L = 1", "differences below 1e-12 are shown as 1e-12"),
    data=data,
    draw=draw,
    report=report,
)
