"""Table 3 of arXiv 2310.06771, measured: the cost and the error of each variant of DP-FTRL.

The table prints orders of magnitude.  Here a run of n steps in four epochs is made with each mechanism, on arrays of a
given size, and measured are

* generation: the time to find the noise and the state of its stream;
* a step: the mean time to draw one array of independent noise and to correlate it with the state;
* memory: the most that is held during the steps, in arrays of that size, matrices included;
* the error of prefix sums, computed exactly.

Streams come from this package.  A matrix is inverted row by row, and the coefficients of Toeplitz noise are
multiplied with all earlier draws, in O(n); the tree merges nodes as a binary counter carries, in O(log n); bands and
poles keep an array each.
"""

import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.simulations.random_numbers import Seed
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.stream import Stream
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds, fixed_epochs_strategy
from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.participation import Participation

STEPS = 1024
EPOCHS = 4
SIZE = 4096
PANELS = {
    "generation": "seconds to find the noise and what a stream needs of it, the faster of two times",
    "step": "seconds a step, the draw of independent noise included",
    "memory": "most that is held during the steps, in arrays of the size of the gradient, matrices included",
    "error": "sensitivity times the root of the mean squared error of prefix sums at unit noise",
    "bounded": "1 if neither the noise nor its sensitivity for one participation outgrows a bound in longer runs",
}


def _multi_epoch(who: Participation) -> Mechanism:
    workload = PrefixSums(who.length)
    return fixed_epochs_strategy(workload, who, fixed_epochs_bounds(workload, who))


def _nu(who: Participation) -> NuFTRL:
    return toeplitz.nu_ftrl(PrefixSums(who.length), who)


def _buffers(who: Participation) -> Mechanism:
    return best_buffers(PrefixSums(who.length), who, 4)


def _banded(who: Participation) -> Mechanism:
    return toeplitz.best_toeplitz(PrefixSums(who.length), who, who.worst.period)


def _all_coefficients(noise: Mechanism, who: Participation) -> Mechanism:
    """Noise that a stream makes from all its coefficients."""
    assert isinstance(noise, ToeplitzNoise)
    return FiniteNoise(noise.coefficients(who.length))


class Variant(NamedTuple):
    """A row: its printed values, if any, its construction, and the noise that a stream runs in its place."""

    printed: tuple[str, str, str]  # anytime, generation, step
    make: Callable[[Participation], Mechanism]
    run: Callable[[Mechanism, Participation], Mechanism] = lambda noise, _: noise

    def stream(self, mechanism: Mechanism, who: Participation, size: int, rng: Seed) -> Stream:
        """The noise of the mechanism, an array a step."""
        return Stream(streaming(self.run(mechanism, who), who, "float64"), size, rng=rng)


NOT_PRINTED = ("", "", "")
VARIANTS = {
    "DP-SGD": Variant(("yes", "O(1)", "O(1)"), lambda who: DPSGD()),
    "Honaker/TreeAgg": Variant(("yes", "O(1)", "O(log T)"), lambda who: BinaryTree(who.length)),
    "Optimal CC": Variant(("yes", "O(1)", "O(T)"), lambda who: NuFTRL(0), _all_coefficients),
    "nu-DP-FTRL": Variant(("yes", "O(1)", "O(T)"), _nu, _all_coefficients),
    "FFT": Variant(("no", "O(1)", "O(T log^2 T)"), lambda who: MatrixNoise.fourier(who.length)),
    "Full Honaker": Variant(("no", "O(T^2)", "O(T^2)"), lambda who: MatrixNoise.honaker(who.length)),
    "Multi-Epoch (ME)": Variant(("no", "O(T^3)", "O(T^2)"), _multi_epoch),
    "nu-DP-FTRL by poles": Variant(NOT_PRINTED, lambda who: rational(_nu(who), 1e-6)),
    "buffers": Variant(NOT_PRINTED, _buffers),
    "best banded Toeplitz": Variant(NOT_PRINTED, _banded),
}


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _exhaust(stream: Stream, steps: int) -> None:
    """Take so many steps and keep none."""
    deque((next(stream) for _ in range(steps)), maxlen=0)


def measured(variant: Variant, who: Participation, size: int) -> dict[str, float]:
    """The entries of a row by panel."""
    n = who.length
    mechanism = variant.make(who)  # compiles the kernels
    generation = min(_seconds(lambda: variant.stream(variant.make(who), who, size, 0)) for _ in range(2))
    stream = variant.stream(mechanism, who, size, 0)
    step = _seconds(partial(_exhaust, stream, n)) / n
    tracemalloc.start()
    try:
        stream = variant.stream(mechanism, who, size, 0)
        tracemalloc.reset_peak()
        _exhaust(stream, n)
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


def draw(data: Data) -> Drawing:
    """Draw the table."""
    rows = table(data)
    height = 1 / (len(rows) + 3)
    figure, ax = subplots(0.2 * (len(rows) + 3))
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
