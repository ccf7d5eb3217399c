"""Learning curves of linear regression with the noise of a private run: the exact error, step by step.

The problem is Figure 2's of arXiv 2310.06771 at d = 128: Gaussian inputs, eigenvalues λ_k = 1/k, no residual
noise, G = ρ = 1.  A run starts at θ_0 − θ* = (1, …, 1) in the eigenbasis, with noise for T = 10⁵ steps, σ² = γ_T²/2.
For two learning rates, for Noisy-SGD and for ν-Noisy-FTRL with ν = ημ, the records hold at t <= T

* ``exact``: E F(θ_t) − F*;
* ``Theorem D.11``: the upper bound κ e^{−ημt} (F(θ_0) − F*) + F_∞, in its corrected form.

The initial error decays in the same way under any noise, and the two methods differ by what their noise adds: within
the first steps less with independent noise, whose σ is smaller, then less with correlated noise.

``simulate`` adds means over blocks of steps to the exact means of the same blocks (kind ``simulated``), with
standard errors from independent runs.

Source: Choquette-Choo et al., arXiv 2310.06771: Section 2.3, Theorem D.11.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.figures.correlated_noise.linear_regression import DIMENSION, FTRL, NOISES, SGD, problem
from corrnoise.figures.publication import (
    Axes,
    Data,
    Drawing,
    PaperFigure,
    Series,
    SimulatedSeries,
    legend_below,
    subplots_with_residuals,
)
from corrnoise.figures.simulation import Simulated, SimulationRun, agreement, counted, kept
from corrnoise.simulations.sweeps.running import told
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.correlated_noise.finite_time import theorem_d11_upper_bound
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression

STEPS = 100_000  #: T, the length of the noise of all runs
ONCE = Participation.single(STEPS)
INITIAL_OFFSET = 1.0
LEARNING_RATES = (0.02, 0.08)
PANELS = {f"eta = {eta:g}": eta for eta in LEARNING_RATES}

EXACT, BOUND, SIMULATED = "exact", "Theorem D.11", "simulated"


def _curve(p: LinearRegression, noise: ToeplitzNoise, steps: int = STEPS) -> Array:
    """E F(θ_t) − F*, t = 0, …, ``steps``, of a run with the noise for T steps."""
    return p.learning_curve(noise, steps, participation=ONCE, initial_offset=INITIAL_OFFSET)


def data(points: int = 160) -> Data:
    """Every curve, at about ``points`` steps 1 <= t <= T."""
    times = np.unique(np.geomspace(1, STEPS, checks.integer("points", points, 2)).round())
    series = []
    for panel, eta in PANELS.items():
        p = problem(learning_rate=eta)
        for method, noise in NOISES.items():
            curve = _curve(p, noise(p))
            bound = theorem_d11_upper_bound(p, noise(p), times, curve[0])
            series += [
                Series(panel, method, EXACT, times, curve[times.astype(int)]),
                Series(panel, method, BOUND, times, bound),
            ]
    return tuple(series)


# -- simulation --------------------------------------------------------------------------------------------------------

RUNS = 32  #: independent simulations of a curve
CHAINS = 2  #: of each
SIMULATED_STEPS = 10_000
BLOCKS_A_DECADE = 5
_RATIONAL_TOLERANCE = 1e-8  # of the noise by a rational one


def blocks(steps: int) -> NDArray[np.int64]:
    """First steps of blocks of steps 1 <= t < ``steps`` that grow with t, and the step after the last."""
    count = math.ceil(BLOCKS_A_DECADE * math.log10(steps))
    return np.unique(np.geomspace(1, steps, count + 1).round().astype(np.int64))


def block_means(curve: Array, starts: NDArray[np.int64]) -> Array:
    """Means of ``curve``, whose first entry belongs to t = 0, over the blocks."""
    return np.add.reduceat(curve[: starts[-1]], starts[:-1]) / np.diff(starts)


class _CurveRun(NamedTuple):
    """One simulation of one curve."""

    panel: str
    method: str
    problem: LinearRegression
    noise: ToeplitzNoise
    budget: Budget  # with γ_∞ it gives the σ² that ρ = 1 gives with γ_T
    seed: int

    def means(self, starts: NDArray[np.int64], directory: Path | None) -> Array | str:
        """Block means, shape (blocks,), or what went wrong."""
        from corrnoise.simulations.quadratic import simulate_learning_curve

        def compute() -> Array:
            steps = int(starts[-1])
            curve = simulate_learning_curve(
                self.problem,
                self.noise,
                steps,
                chains=CHAINS,
                points=steps,
                budget=self.budget,
                initial_offset=INITIAL_OFFSET,
                rng=self.seed,
                threads=1,
            )
            return block_means(curve.mean, starts)

        described = [*self._asdict().items(), CHAINS, INITIAL_OFFSET, starts.tolist()]
        try:
            return kept(directory, described, compute)
        except OSError:  # the folder cannot be written to
            raise
        except Exception as fault:
            return f"{self.method} at {self.panel}, seed {self.seed}: {told(fault)}"


def simulate(run: SimulationRun) -> Simulated:
    """Simulate the first steps of all curves, all steps for an effort of 10; what fails is left out."""
    from corrnoise.solvers.rational.stand_in import rational

    starts = blocks(min(STEPS, max(2, math.ceil(SIMULATED_STEPS * run.effort))))
    x = np.sqrt(starts[:-1] * (starts[1:] - 1))
    curves = [(panel, method) for panel in PANELS for method in NOISES]
    problems = {panel: problem(learning_rate=eta) for panel, eta in PANELS.items()}
    noises = {(panel, method): NOISES[method](problems[panel]) for panel, method in curves}
    settings = {}
    for curve, noise in noises.items():
        few = rational(noise, _RATIONAL_TOLERANCE)
        budget = Budget((few.limiting_sensitivity() / few.sensitivity(ONCE)) ** 2)
        settings[curve] = (*curve, problems[curve[0]], few, budget)
    tasks = [curve for _ in range(RUNS * run.repeats) for curve in curves]
    runs = [_CurveRun(*settings[curve], seed) for curve, seed in zip(tasks, run.seeds(len(tasks)), strict=True)]
    with ThreadPoolExecutor(os.cpu_count() if run.jobs == -1 else run.jobs) as pool:
        results = pool.map(lambda r: r.means(starts, run.directory), runs)
        found = list(counted(results, len(runs), run.progress))

    series = []
    for panel, method in curves:
        means = [
            m
            for r, m in zip(runs, found, strict=True)
            if (r.panel, r.method) == (panel, method) and not isinstance(m, str)
        ]
        if len(means) > 1:
            exact = block_means(_curve(problems[panel], noises[panel, method], int(starts[-1])), starts)
            error = np.std(means, axis=0, ddof=1) / math.sqrt(len(means))
            series.append(SimulatedSeries(panel, method, SIMULATED, x, np.mean(means, axis=0), error, exact))
    return Simulated(tuple(series), tuple(m for m in found if isinstance(m, str)))


# -- drawing -----------------------------------------------------------------------------------------------------------

STYLES: dict[tuple[str, str], dict[str, Any]] = {
    (SGD, EXACT): {"color": "C0", "linewidth": 2.0, "label": "Noisy-SGD, exact"},
    (FTRL, EXACT): {"color": "C1", "linewidth": 2.0, "label": r"$\nu$-Noisy-FTRL, exact"},
    (SGD, BOUND): {"color": "C0", "linestyle": "--", "linewidth": 1.0, "label": "Noisy-SGD, upper bound"},
    (FTRL, BOUND): {"color": "C1", "linestyle": "--", "linewidth": 1.0, "label": r"$\nu$-Noisy-FTRL, upper bound"},
}
MARKERS: dict[str, dict[str, Any]] = {
    SGD: {"marker": "o", "markersize": 3.6, "markerfacecolor": "white", "markeredgewidth": 0.9, "elinewidth": 0.9},
    FTRL: {"marker": "s", "markersize": 3.3, "markerfacecolor": "white", "markeredgewidth": 0.9, "elinewidth": 0.9},
}


def crossing(data: Data, panel: str) -> float:
    """The first of the steps at the end of the run where ν-Noisy-FTRL has the smaller error."""
    curves = {s.method: s for s in data if (s.panel, s.kind) == (panel, EXACT)}
    (behind,) = np.nonzero(curves[FTRL].y >= curves[SGD].y)
    return float(curves[FTRL].x[behind[-1] + 1 if behind.size else 0])


def draw(data: Data) -> Drawing:
    """Draw the two learning rates side by side; below them the residuals, if anything was simulated."""
    simulated = [s for s in data if isinstance(s, SimulatedSeries)]
    figure, rows = subplots_with_residuals(2.9, 2, residuals=bool(simulated), sharex=True)
    panels = dict(zip(PANELS, rows[0], strict=True))
    for (method, kind), style in STYLES.items():
        for s in data:
            if (s.method, s.kind) == (method, kind):
                panels[s.panel].loglog(s.x, s.y, **style)
    for s in simulated:
        _draw_simulated(panels[s.panel], rows[1, list(PANELS).index(s.panel)], s)
    for tag, (panel, eta) in zip("ab", PANELS.items(), strict=True):
        axes = panels[panel]
        first = crossing(data, panel)
        axes.set(title=rf"({tag})  $\eta = {eta:g}$")
        axes.axvline(first, color="0.4", linewidth=0.7, linestyle=":")
        axes.text(first * 1.12, 3e-3, rf"$\nu$-Noisy-FTRL ahead from $t = {first:g}$", color="0.25")
    rows[0, 0].set(
        ylabel=r"Suboptimality $\mathbb{E}\,F(\theta_t) - F^*$  [$G^2\!/\rho$]",
        xlim=(0.8, STEPS * 1.2),
        ylim=(2e-3, 1e3),
    )
    for axes in rows[-1]:
        axes.set(xlabel=r"Step $t$")
    if simulated:
        rows[1, 0].set(ylabel="Residual /\nst. error", ylim=(-4.8, 4.8), yticks=[-4, -2, 0, 2, 4])
        for axes in rows[1]:
            axes.axhline(0, color="black", linewidth=0.5, zorder=1)
    legend_below(figure, rows[0, 0])
    return figure


def _draw_simulated(above: Axes, below: Axes, series: SimulatedSeries) -> None:
    """Block means with 95 % intervals over the exact curve, and their residuals in standard errors."""
    look = {"color": STYLES[series.method, EXACT]["color"], "linestyle": "none"} | MARKERS[series.method]
    name = STYLES[series.method, EXACT]["label"].replace("exact", "simulated")
    above.errorbar(series.x, series.y, 1.96 * series.standard_error, label=name, **look)
    below.errorbar(series.x, series.z, **look)


def report(data: Data) -> str:
    """Where each method has the smaller error, and how far the bound is from it."""
    curves = {(s.panel, s.method, s.kind): s for s in data if not isinstance(s, SimulatedSeries)}
    shown = [1, 10, 100, 1000, 10_000, STEPS]

    def line(panel: str, method: str, kind: str) -> str:
        s = curves[panel, method, kind]
        values = [s.y[np.argmin(np.abs(s.x - t))] for t in shown]
        return f"  {panel:<11} {method:<14} {kind:<13}" + "".join(f"{v:>10.3g}" for v in values)

    table = "\n".join(line(panel, method, kind) for panel in PANELS for method in NOISES for kind in (EXACT, BOUND))
    judged = f"\n{agreement(data, RUNS - 1)}\n" if any(isinstance(s, SimulatedSeries) for s in data) else ""
    ahead = ", ".join(f"{crossing(data, panel):g} ({panel})" for panel in PANELS)
    return f"""\
E F(theta_t) - F* and its upper bound at the steps t = {", ".join(map(str, shown))}:

{table}
{judged}
- Noisy-SGD has the smaller error in the first steps, whatever the start.  nu-Noisy-FTRL has it from
  t = {ahead} on.
- Theorem D.11 keeps the factor kappa = {DIMENSION} in its transient, and is exact in the limit."""


FIGURE = PaperFigure(
    name="learning_curves",
    source="Beyond the figures of arXiv 2310.06771",
    title="learning curves of linear regression beside the upper bound of its Theorem D.11",
    panels={panel: f"x = step t; y = E F(theta_t) - F*; learning rate {eta:g}" for panel, eta in PANELS.items()},
    parameters=(
        "y with the factor 1/2 of F, in units of G^2/rho (G clip norm, rho zCDP budget)",
        f"Gaussian inputs, eigenvalues 1/k, d = {DIMENSION}, no residual noise; nu = eta mu, mu the least eigenvalue",
        f"noise for a run of T = {STEPS} steps; theta_0 - theta* = {INITIAL_OFFSET:g} in each eigendirection",
        "simulated: means over blocks of steps, x their geometric centre; exact: the exact mean over the same block;",
        "the blocks of a curve are correlated; z = (y - exact)/standard_error",
    ),
    data=data,
    draw=draw,
    report=report,
    simulate=simulate,
)
