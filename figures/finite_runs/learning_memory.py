"""Mechanisms for finite runs judged by their cost in learning, on three spectra.

The mechanisms are the ones of ``error_memory``, tuned for prefix sums, and noise that is tuned for learning: buffers
with a scale for each step, and few bands.  All are judged by the exact error of SGD on linear regression that privacy
causes, F − F*, as the mean over the second half of the run.  It is a quadratic form of the noise, like the error of
prefix sums, so that its least value over all strategies is certified in the same way.

The eigenvalues are λ_k = k^{−a}, k <= 32, and the learning rate is 1/2 over Σ λ + 2 max λ.
"""

from collections.abc import Iterator

import numpy as np

from corrnoise.figures.finite_runs import error_memory
from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.solvers.families.banded import best_bands
from corrnoise.solvers.families.time_varying import best_time_varying
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.sensitivity import Sensitivity
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression

STEPS = 256
DIMENSION = 32
FEW_BUFFERS, FEW_BANDS = (1, 2, 4), (4, 16, 64)  #: of noise that is tuned for learning
SPECTRA = {"flat": 0, "1/k": 1, "1/k^2": 2}  #: exponents a


def objective(exponent: float, steps: int) -> LearningObjective:
    """The mean error over the second half of a run."""
    eigenvalues = np.arange(1.0, DIMENSION + 1) ** -exponent
    rate = 0.5 / float(eigenvalues.sum() + 2 * eigenvalues.max())
    return LearningObjective(LinearRegression(eigenvalues, learning_rate=rate), steps, weights="second half")


def privacy_error(of: LearningObjective, squared: float) -> float:
    """F − F* at ρ = 1 and clipping norm 1, from γ² tr(W N Nᵀ)."""
    return of.problem.learning_rate**2 / 4 * squared


def tuned(of: LearningObjective, who: Participation) -> Iterator[tuple[str, Mechanism, Sensitivity]]:
    """Mechanisms that are tuned for learning, as ``candidates`` has the others."""
    n = who.length
    separation = n if who.once else who.worst.period
    apart = Participation.min_sep(n, separation)
    for count in FEW_BUFFERS:
        buffers = best_time_varying(of, who, count)
        if buffers.memory(n) == count:
            yield error_memory.TIME_VARYING, buffers, buffers.bracket(who)
    for bands in FEW_BANDS:
        if bands <= separation:
            banded, _ = best_bands(of, apart, bands=bands, tolerance=1e-4)
            yield error_memory.ANY_BANDS, banded, banded.bracket(who)


def floor(of: LearningObjective, who: Participation) -> float:
    """The error that no strategy is below."""
    if who.once:
        return privacy_error(of, single_participation_bounds(of, tolerance=1e-6).lower_bound ** 2)
    same_order = Participation.fixed_epochs(who.length, epochs=who.worst.count)
    return privacy_error(of, fixed_epochs_bounds(of, same_order, tolerance=1e-6).lower_bound ** 2)


def data(steps: int = STEPS) -> Data:
    """The points of all panels."""
    series: list[Series] = []
    for epochs, who in error_memory.participations(steps).items():
        found = error_memory.candidates(who)
        for name, exponent in SPECTRA.items():
            of = objective(exponent, steps)

            def judge(mechanism: Mechanism, sensitivity: float, of: LearningObjective = of) -> float:
                return privacy_error(of, sensitivity**2 * mechanism.squared_error(of))

            series += error_memory.panel(f"{name}, {epochs}", [*found, *tuned(of, who)], judge, floor(of, who), steps)
    return tuple(series)


def draw(data: Data) -> Drawing:
    """A row for one epoch, and one for four."""
    figure, grid = subplots(5.6, 2, 3)
    names = dict.fromkeys(s.panel for s in data)
    for letter, name, ax in zip("abcdef", names, grid.flat, strict=True):
        error_memory.draw_panel(ax, [s for s in data if s.panel == name])
        ax.set_title(f"({letter}) {name}".replace("1/k^2", "$1/k^2$").replace("1/k,", "$1/k$,"))
    for ax in grid[1]:
        ax.set_xlabel("Memory: buffers")
    for ax in grid[:, 0]:
        ax.set_ylabel("Error above the lower bound [%]")
    error_memory.draw_legend(figure, data)
    return figure


def report(data: Data) -> str:
    """The mechanisms that no other one beats in both memory and error."""
    return "\n".join(
        [
            "Mechanisms that none with as little memory beats, by the error of learning:",
            *error_memory.unbeaten(data),
            "",
            "- Buffers with scales and any few bands are tuned for learning, all other mechanisms for prefix sums.",
            "- Optimal for prefix sums is not optimal for learning: the order of mechanisms is another one.",
        ]
    )


FIGURE = PaperFigure(
    name="learning_memory",
    source="Beyond Table 3 of arXiv 2310.06771",
    title=f"error of learning against memory of all mechanisms, n = {STEPS}",
    panels={
        f"{name}, {epochs}": f"x = memory in arrays of the size of the gradient; y = F - F* due to privacy, {what}"
        for epochs, what in (
            ("one epoch", "one participation"),
            ("four epochs", f"{error_memory.EPOCHS} participations at least n/{error_memory.EPOCHS} steps apart"),
        )
        for name in SPECTRA
    },
    parameters=(
        f"linear regression, Gaussian inputs, {DIMENSION} eigenvalues k^-a, learning rate 0.5/(sum + 2 max)",
        f"n = {STEPS} steps, mean over the second half; rho = 1, clip norm 1, zero-out",
        "upper bound, drawn hollow: of the sensitivity only a bound is known",
        "lower bound, from which the drawing measures: the certified optimum over all strategies",
    ),
    data=data,
    draw=draw,
    report=report,
)
