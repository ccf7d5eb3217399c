"""Table 3 of arXiv 2310.06771, measured: what each variant of DP-FTRL costs, and what it is worth.

The table prints orders of magnitude.  Here a run of n steps in four epochs is made with each mechanism, on arrays of a
given size, and measured are

* generation: the time to find the noise and what a stream needs of it;
* a step: the mean time to draw one array of independent noise and to correlate it with what is kept;
* memory: the most that is held during the steps, in arrays of that size, matrices included;
* the error of prefix sums, computed exactly.

Streams do what the table counts.  A row of a matrix, or the coefficients of Toeplitz noise, are multiplied with all
earlier draws, in O(n); the tree merges nodes as a binary counter carries, in O(log n); bands and poles keep an array
each.
"""

from __future__ import annotations

import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from corrnoise.figures.publication import PAGE_WIDTH, Data, PaperFigure, Series
from corrnoise.simulations.noise_stream import NoiseStream
from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers
from corrnoise.solvers.matrix_factorisation.families import optimal_nu
from corrnoise.solvers.matrix_factorisation.fixed_epochs import optimal_fixed_epochs
from corrnoise.solvers.matrix_factorisation.toeplitz import optimal_toeplitz
from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.theory.mechanisms.base import Mechanism

from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree, fourier_mechanism, full_honaker
from corrnoise.theory.workloads import PrefixSums
from corrnoise.theory.numerics.checks import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS, EPOCHS, SIZE = 1024, 4, 4096
PANELS = {
    "generation": "seconds to find the noise and what a stream needs of it, the faster of two times",
    "step": "seconds a step, the draw of independent noise included",
    "memory": "most that is held during the steps, in arrays of the size of the gradient, matrices included",
    "error": "sensitivity times the root of the mean squared error of prefix sums at unit noise",
    "bounded": "1 if neither the noise nor its sensitivity for one participation outgrows a bound in longer runs",
}

Stream = Callable[[Mechanism, int, np.random.Generator], Iterator[Array]]


def row_stream(mechanism: Mechanism, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Each step is a row of N times all draws up to now."""
    matrix = mechanism.noising_matrix()

    def steps() -> Iterator[Array]:
        kept = np.empty((mechanism.steps, size))
        for t, row in enumerate(matrix):
            rng.standard_normal(out=kept[t])
            yield row[: t + 1] @ kept[: t + 1]

    return steps()


def coefficient_stream(mechanism: Mechanism, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Each step is the coefficients of Toeplitz noise times all draws up to now, the latest first."""
    assert isinstance(mechanism, ToeplitzMechanism)
    beta = mechanism.noise.coefficients(mechanism.steps)

    def steps() -> Iterator[Array]:
        kept = np.empty((mechanism.steps, size))
        for first in range(mechanism.steps - 1, -1, -1):
            rng.standard_normal(out=kept[first])
            yield beta[: mechanism.steps - first] @ kept[first:]

    return steps()


def band_stream(mechanism: Mechanism, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Each step solves C y = z for one row, with as many earlier steps kept as C has bands beside the diagonal."""
    count = mechanism.memory
    assert isinstance(mechanism, ToeplitzMechanism)
    strategy = mechanism.noise.inverse_coefficients(count + 1)

    def steps() -> Iterator[Array]:
        kept = np.zeros((count, size))
        slots = np.arange(count)
        for t in range(mechanism.steps):
            earlier = strategy[1 + (t - 1 - slots) % count] @ kept
            kept[t % count] = (rng.standard_normal(size) - earlier) / strategy[0]
            yield kept[t % count].copy()

    return steps()


def pole_stream(mechanism: Mechanism, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """One array for each pole."""
    assert isinstance(mechanism, ToeplitzMechanism)
    return NoiseStream(mechanism.noise, size, rng=rng, method="recurrence")


def independent_stream(_: Mechanism, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """The draws themselves."""
    while True:
        yield rng.standard_normal(size)


def tree_stream(mechanism: Mechanism, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """The online tree: kept are the estimates of the intervals that the binary digits of the step name."""
    kept: list[Array] = []
    released = np.zeros(size)
    for last in range(mechanism.steps):
        noise = rng.standard_normal(size)
        variance = 1.0
        merges = (~last & (last + 1)).bit_length() - 1  # intervals of more than one step that end here
        for _ in range(merges):
            variance = 2 * variance / (1 + 2 * variance)
            noise = variance * rng.standard_normal(size) + (1 - variance) * (kept.pop() + noise)
        kept.append(noise)
        total = np.sum(kept, axis=0)
        yield total - released
        released = total


def _multi_epoch(who: Participation) -> Mechanism:
    return optimal_fixed_epochs(PrefixSums(who.steps), who).mechanism()


def _nu(who: Participation) -> ToeplitzMechanism:
    return optimal_nu(who).mechanism


def _nu_of_poles(who: Participation) -> Mechanism:
    return rational_approximation(_nu(who).noise, 1e-6)


def _banded(who: Participation) -> Mechanism:
    return optimal_toeplitz(who, bands=who.period, certify=False).mechanism


class Variant(NamedTuple):
    """A row: what is printed of it, if it is in the paper, and how it is made."""

    printed: tuple[str, str, str]  # anytime, generation, step
    make: Callable[[Participation], Mechanism]
    stream: Stream


NOT_PRINTED = ("", "", "")
VARIANTS = {
    "DP-SGD": Variant(("yes", "O(1)", "O(1)"), lambda who: DPSGD(), independent_stream),
    "Honaker/TreeAgg": Variant(
        ("yes", "O(1)", "O(log T)"), lambda who: BinaryTree(who.steps, decoder="online"), tree_stream
    ),
    "Optimal CC": Variant(
        ("yes", "O(1)", "O(T)"), lambda who: NuFTRL(0), coefficient_stream
    ),
    "nu-DP-FTRL": Variant(("yes", "O(1)", "O(T)"), _nu, coefficient_stream),
    "FFT": Variant(("no", "O(1)", "O(T log^2 T)"), lambda who: MatrixNoise.fourier(who.steps), row_stream),
    "Full Honaker": Variant(("no", "O(T^2)", "O(T^2)"), lambda who: MatrixNoise.honaker(who.steps), row_stream),
    "Multi-Epoch (ME)": Variant(("no", "O(T^3)", "O(T^2)"), _multi_epoch, row_stream),
    "nu-DP-FTRL by poles": Variant(NOT_PRINTED, _nu_of_poles, pole_stream),
    "buffers": Variant(NOT_PRINTED, lambda who: optimal_buffers(who).mechanism, pole_stream),
    "best banded Toeplitz": Variant(NOT_PRINTED, _banded, band_stream),
}


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _exhaust(stream: Iterator[Array], steps: int) -> None:
    """Take so many steps and keep none."""
    deque((next(stream) for _ in range(steps)), maxlen=0)


def measured(variant: Variant, who: Participation, size: int) -> dict[str, float]:
    """The entries of a row by panel."""
    rng = np.random.default_rng(0)
    mechanism = variant.make(who)  # compiles what is not compiled yet
    generation = min(_seconds(lambda: variant.stream(variant.make(who), size, rng)) for _ in range(2))
    stream = variant.stream(mechanism, size, rng)
    step = _seconds(partial(_exhaust, stream, who.steps)) / who.steps
    tracemalloc.start()
    try:
        stream = variant.stream(mechanism, size, rng)
        tracemalloc.reset_peak()
        _exhaust(stream, who.steps)
        memory = tracemalloc.get_traced_memory()[1] / (8 * size)
    finally:
        tracemalloc.stop()
    values = (generation, step, memory, mechanism.mean_error(who), float(mechanism.anytime))
    return dict(zip(PANELS, values, strict=True))


def data(steps: int = STEPS, size: int = SIZE) -> Data:
    """The rows, measured now: no two calls return the same times."""
    who = Participation.fixed_epochs(steps, epochs=EPOCHS)
    rows = {name: measured(variant, who, size) for name, variant in VARIANTS.items()}
    return tuple(
        Series(panel, name, "computed" if panel in ("error", "bounded") else "measured", np.array([i]), np.array([y]))
        for panel in PANELS
        for i, (name, row) in enumerate(rows.items(), start=1)
        for y in [row[panel]]
    )


def duration(seconds: float) -> str:
    """Two or three digits with a unit."""
    unit, factor = next((pair for pair in (("s", 1.0), ("ms", 1e3)) if seconds * pair[1] >= 1), ("us", 1e6))
    value = seconds * factor
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"


HEADER = ("", "anytime", "generation", "step", "generation", "step", "memory", "error", "bounded")


def table(data: Data) -> list[tuple[str, ...]]:
    """The cells of the table, a row for each variant."""
    found = {(s.method, s.panel): float(s.y[0]) for s in data}
    return [
        (
            name,
            *variant.printed,
            duration(found[name, "generation"]),
            duration(found[name, "step"]),
            f"{found[name, 'memory']:.0f}",
            f"{found[name, 'error']:.3f}",
            "yes" if found[name, "bounded"] else "no",
        )
        for name, variant in VARIANTS.items()
    ]


NOTE = (
    "Memory in arrays of the size of the gradient, matrices included. Bounded: the noise level stays so in longer runs."
)
#: Right ends of the columns but the first, as shares of the width.
COLUMNS = (0.0, 0.285, 0.385, 0.5, 0.635, 0.735, 0.825, 0.905, 1.0)
FORMULAS = {"O(log T)": r"$O(\log T)$", "O(T log^2 T)": r"$O(T\,\log^2 T)$"}


def _typeset(cell: str) -> str:
    if cell.startswith("O("):
        return FORMULAS.get(cell, f"${cell}$")
    return cell.replace("nu-DP", r"$\nu$-DP").replace(" us", " \N{MICRO SIGN}s")


def draw(data: Data) -> Figure:
    """Draw the table."""
    from matplotlib.figure import Figure

    rows = table(data)
    height = 1 / (len(rows) + 3)
    figure = Figure(figsize=(PAGE_WIDTH, 0.2 * (len(rows) + 3)), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_axis_off()

    def write(row: int, cells: tuple[str, ...], weight: str = "normal") -> None:
        for x, cell in zip(COLUMNS, cells, strict=True):
            side = "left" if x == 0 else "right"
            ax.text(x, 1 - (row + 0.5) * height, _typeset(cell), ha=side, va="center_baseline", weight=weight)

    def rule(row: float, low: float = 0.0, high: float = 1.0) -> None:
        ax.plot([low, high], [1 - row * height] * 2, color="black", linewidth=0.6, clip_on=False)

    groups = (
        ("printed", COLUMNS[1] - 0.065, COLUMNS[3]),
        ("measured", COLUMNS[4] - 0.08, COLUMNS[6]),
        ("computed", COLUMNS[7] - 0.055, COLUMNS[8]),
    )
    for text, low, high in groups:
        ax.text((low + high) / 2, 1 - 0.5 * height, text, ha="center", va="center_baseline")
        rule(1, low, high)
    write(1, HEADER, "bold")
    rule(2)
    for i, row in enumerate(rows, start=2):
        write(i, row)
    rule(2 + sum(variant.printed != NOT_PRINTED for variant in VARIANTS.values()))
    rule(2 + len(rows))
    ax.text(0, height / 2, NOTE, ha="left", va="center_baseline")
    return figure


def report(data: Data) -> str:
    """The table as text, and where it departs from the printed one."""
    rows = [HEADER, *table(data)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "\n".join(
        [
            "Printed: anytime, generation, step. Measured: generation, step, memory. Computed: error, bounded.",
            "",
            *lines,
            "",
            "Where it differs from the paper:",
            "- A step of FFT, Full Honaker and ME is a row of a matrix times the draws kept, which takes O(T).",
            "- nu-DP-FTRL by poles is the same noise to 1e-6 and takes O(log T) a step.",
            "- Bounded: Optimal CC and trees can go on without an end, but their noise level grows with the run.",
            "- ME takes O(T k^2) an iteration for k epochs; O(T^3) is left for its matrix alone.",
        ]
    )


FIGURE = PaperFigure(
    name="table3",
    source="Table 3 of arXiv 2310.06771",
    title="variants of DP-FTRL: generation, time and memory a step, error, as measured",
    panels={name: f"x = row; y = {what}" for name, what in PANELS.items()},
    parameters=(
        f"n = {STEPS} steps, {EPOCHS} epochs in the same order, arrays of {SIZE} float64 numbers",
        f"memory: a matrix of n x n numbers counts as {STEPS**2 // SIZE} arrays",
        "times are those of this machine and differ from run to run",
    ),
    data=data,
    draw=draw,
    report=report,
)

FIGURES = {FIGURE.name: FIGURE}
