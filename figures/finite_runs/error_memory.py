"""The cost in error of a stream of little memory: every mechanism for finite runs, and a lower bound.

The error is the root mean squared error of prefix sums at ρ = 1/2 and clip norm 1; the memory is the number of arrays
of the size of the gradient that a stream keeps from step to step.  One panel is for one epoch, the other for four,
where two participations of an example are at least n/4 steps apart.  The floor is the certified optimum over all
strategies.  In four epochs it holds for data in the same order in every epoch, which bounds any other order too.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from corrnoise.figures.memory_axes import HOLLOW, MEMORY_LABEL, hollow_marker, scale_errors, scale_memory
from corrnoise.figures.publication import Axes, Data, Drawing, PaperFigure, Series, subplots
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.time_varying import time_varying_buffers
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import Sensitivity
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.participation import Participation

STEPS = 1024
EPOCHS = 4
LONG_RUN = 100_000
LARGEST_MATRIX = 4096  #: most steps of mechanisms that are matrices
FEW_COEFFICIENTS = (2, 3, 4, 8, 16, 32, 64)  #: of noise with few coefficients
MOST_BUFFERS = 6
VARYING_BUFFERS = (1, 2, 4)
FLOOR = "lower bound"
TIME_VARYING, ANY_BANDS = "time-varying buffers, for learning", "any few bands, for learning"
#: Lines for families, points for single mechanisms.
LOOKS: dict[str, dict[str, Any]] = {
    "independent noise": {"color": "black", "marker": "o"},
    "lambda-CGD": {"color": "C3", "marker": "D"},
    "BISR": {"color": "C5", "marker": ".", "linestyle": ":"},
    "damped root": {"color": "C3", "marker": ".", "linestyle": "-."},
    "banded inverse": {"color": "C2", "marker": "."},
    "BSR": {"color": "C4", "marker": ".", "linestyle": ":"},
    "best Toeplitz": {"color": "C4", "marker": ".", "linestyle": "--"},
    "best Toeplitz, unit columns": {"color": "C4", "marker": "*"},
    "buffers": {"color": "C0", "marker": "."},
    "buffers, unit columns": {"color": "C1", "marker": ".", "linestyle": "--"},
    "time-varying buffers": {"color": "C5", "marker": "d"},
    "nu-DP-FTRL": {"color": "C0", "marker": "s"},
    "square root, unit columns": {"color": "C1", "marker": "^"},
    "binary tree": {"color": "C2", "marker": "v"},
    "binary tree, online": {"color": "C2", "marker": "^"},
    "binary tree, full Honaker": {"color": "C2", "marker": "<"},
    "Fourier": {"color": "C3", "marker": "P"},
}
#: Looks of the mechanisms that ``learning_memory`` draws as well.
LOOKS_FOR_LEARNING: dict[str, dict[str, Any]] = {
    TIME_VARYING: {"color": "black", "marker": "."},
    ANY_BANDS: {"color": "black", "marker": ".", "linestyle": "--"},
}
NAMES = {"lambda-CGD": r"$\lambda$-CGD", "nu-DP-FTRL": r"$\nu$-DP-FTRL"}


def participations(steps: int) -> dict[str, Participation]:
    """The participation of each panel."""
    separation = -(-steps // EPOCHS)
    return {"one epoch": Participation.single(steps), "four epochs": Participation.min_sep(steps, separation, EPOCHS)}


def mechanisms(who: Participation) -> Iterator[tuple[str, Mechanism]]:
    """Every mechanism with the name of its family; members of a family follow each other with growing memory."""
    steps = who.length
    sums = PrefixSums(who.length)
    most_bands = toeplitz.most_bands(who)
    few = [count for count in FEW_COEFFICIENTS if count < steps]
    bands = [count for count in (2**i for i in range(2, 20)) if count < most_bands] + [most_bands]
    yield "independent noise", DPSGD()
    yield "lambda-CGD", toeplitz.anti_pgd(sums, who)
    for count in few:
        yield "BISR", toeplitz.inverse_root(count)
    for count in few:
        yield "damped root", toeplitz.damped_root(sums, who, count)
    for count in few:
        yield "banded inverse", toeplitz.banded_inverse(sums, who, count)
    for count in bands:
        yield "BSR", toeplitz.square_root(count)
    for count in bands:
        yield "best Toeplitz", (best := toeplitz.best_toeplitz(sums, who, count))
    buffered = [best_buffers(sums, who, count) for count in range(1, MOST_BUFFERS + 1)]
    distinct = [noise for i, noise in enumerate(buffered, start=1) if noise.memory(steps) == i]
    for noise in distinct:
        yield "buffers", noise
    yield "nu-DP-FTRL", toeplitz.nu_ftrl(sums, who)
    if steps > LARGEST_MATRIX:
        return
    yield "best Toeplitz, unit columns", ScaledNoise.normalised(best, who)
    for noise in distinct:
        yield "buffers, unit columns", ScaledNoise.normalised(noise, who)
    for varying in time_varying_buffers(sums, who, VARYING_BUFFERS):
        yield "time-varying buffers", varying
    yield "square root, unit columns", ScaledNoise.normalised(NuFTRL(0), who)
    yield "binary tree", BinaryTree(steps, decoder="binary")
    yield "binary tree, online", BinaryTree(steps, decoder="online")
    yield "binary tree, full Honaker", MatrixNoise.honaker(steps)
    yield "Fourier", MatrixNoise.fourier(steps)


def floor(who: Participation) -> float:
    """The error that no strategy is below, with at most ``EPOCHS`` participations that are an epoch apart."""
    workload = PrefixSums(who.length)
    if who.once:
        return single_participation_bounds(workload).lower_bound
    same_order = Participation.fixed_epochs(who.length, epochs=who.worst.count)
    tolerance = 1e-6 if who.length <= LARGEST_MATRIX else 1e-4
    return fixed_epochs_bounds(workload, same_order, tolerance=tolerance).lower_bound


def candidates(who: Participation) -> list[tuple[str, Mechanism, Sensitivity]]:
    """Every mechanism with the name of its family and the kind of its sensitivity."""
    return [(family, mechanism, mechanism.bracket(who)) for family, mechanism in mechanisms(who)]


def panel(
    name: str,
    found: list[tuple[str, Mechanism, Sensitivity]],
    judge: Callable[[Mechanism, float], float],
    least: float,
    steps: int,
) -> Iterator[Series]:
    """The points of the panel ``name``, and its floor, the ``least`` error.

    ``found`` are the ``candidates`` of its participation.  ``judge`` gives the error of a mechanism at a sensitivity,
    which is an upper bound where that is one.
    """
    for (family, exact), group in groupby(found, key=lambda one: (one[0], one[2].exact)):
        points = [(float(mechanism.memory(steps)), judge(mechanism, known.upper)) for _, mechanism, known in group]
        memory, errors = np.array(points).T
        yield Series(name, family, "exact" if exact else "upper bound", memory, errors)
    most = max(mechanism.memory(steps) for _, mechanism, _ in found)
    yield Series(name, FLOOR, "lower bound", np.array([0.0, float(most)]), np.full(2, least))


def prefix_error(mechanism: Mechanism, sensitivity: float, steps: int) -> float:
    """The root mean squared error of prefix sums."""
    return sensitivity * math.sqrt(float(mechanism.errors(PrefixSums(steps)).mean()))


def data(steps: int = STEPS) -> Data:
    """The points of both panels for a run of ``steps`` steps, a multiple of four."""
    return tuple(
        series
        for name, who in participations(steps).items()
        for series in panel(name, candidates(who), partial(prefix_error, steps=steps), floor(who), steps)
    )


def floors(data: Data) -> dict[str, float]:
    """The floor of each panel."""
    return {s.panel: float(s.y[0]) for s in data if s.method == FLOOR}


def draw_panel(ax: Axes, series: list[Series]) -> None:
    """Draw the points of one panel by their excess over its lower bound."""
    (least,) = floors(tuple(series)).values()
    for method in dict.fromkeys(s.method for s in series if s.method != FLOOR):
        members = [s for s in series if s.method == method]
        x = np.concatenate([s.x for s in members])
        y = 100 * (np.concatenate([s.y for s in members]) / least - 1)
        hollow = np.concatenate([np.full(s.x.size, s.kind == "upper bound") for s in members])
        look: dict[str, Any] = {"linestyle": "-" if x.size > 1 else "none", **(LOOKS | LOOKS_FOR_LEARNING)[method]}
        look["markersize"] = 6.5 if look["marker"] == "*" else 4.5
        ax.plot(x, y, label=method, **look)
        if hollow.any():
            ax.plot(x[hollow], y[hollow], **(look | {"linestyle": "none", "markerfacecolor": "white"}))
    scale_memory(ax, max(s.x.max() for s in series))
    scale_errors(ax)


def draw_legend(figure: Drawing, data: Data) -> None:
    """One legend below all panels; it explains hollow markers if the data have upper bounds."""
    shown: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    if any(s.kind == "upper bound" for s in data):
        shown[HOLLOW] = hollow_marker()
    names = [NAMES.get(label, label) for label in shown]
    figure.legend(list(shown.values()), names, loc="outside lower center", ncols=4)


def draw(data: Data) -> Drawing:
    """Draw the panels side by side."""
    figure, grid = subplots(4.2, 1, 2)
    for letter, (name, least), ax in zip("ab", floors(data).items(), grid, strict=True):
        draw_panel(ax, [s for s in data if s.panel == name])
        ax.set(
            title=f"({letter}) {name}, lower bound {least:.4f}",
            xlabel=MEMORY_LABEL,
            ylabel="Error above the lower bound [%]",
        )
    draw_legend(figure, data)
    return figure


def unbeaten(data: Data) -> list[str]:
    """For each panel the mechanisms that no other one beats in both memory and error, a line each."""
    lines = []
    for name, least in floors(data).items():
        lines += ["", f"{name[0].upper()}{name[1:]}: memory, error, excess over the lower bound of {least:.6g}", ""]
        points = [
            (memory, error, s.method)
            for s in data
            if s.panel == name and s.method != FLOOR
            for memory, error in zip(s.x, s.y, strict=True)
        ]
        best = math.inf
        for memory, error, method in sorted(points):
            if error < best:
                lines.append(f"  {memory:6.0f}  {error:10.6g}  {100 * (error / least - 1):8.2f} %   {method}")
                best = error
    return lines


#: Families whose search starts at a member of another family.
STARTS = {"best Toeplitz": "BSR", "banded inverse": "damped root"}


def unmoved(data: Data) -> list[str]:
    """Points where a search returned its start: a better one of that family may exist."""
    found = {(s.panel, s.method, x): y for s in data for x, y in zip(s.x, s.y, strict=True)}
    return [
        f"- {panel}, memory {memory:.0f}: the search of {method} did not leave its start."
        for (panel, method, memory), error in found.items()
        if memory > 1 and method in STARTS
        if math.isclose(error, found.get((panel, STARTS[method], memory), math.nan), rel_tol=1e-9)
    ]


def report(data: Data) -> str:
    """The mechanisms that no other one beats in both memory and error, and where a search failed."""
    return "\n".join(
        [
            "Mechanisms that none with as little memory beats:",
            *unbeaten(data),
            "",
            "- The floor of four epochs is that of data in the same order in every epoch; it holds for any order.",
            "- Unit columns cost a stream nothing but a factor for each step; they need the length of the run.",
            *unmoved(data),
        ]
    )


def _entry(name: str, steps: int) -> PaperFigure:
    left_out = "" if steps <= LARGEST_MATRIX else "; matrices, unit columns and time-varying buffers are left out"
    return PaperFigure(
        name=name,
        source="Beyond Table 3 of arXiv 2310.06771",
        title=f"error against memory of all mechanisms, n = {steps}",
        panels={
            "one epoch": "x = memory of a stream in arrays of the size of the gradient; y = error, one participation",
            "four epochs": f"x = memory; y = error, {EPOCHS} participations at least n/{EPOCHS} steps apart",
        },
        parameters=(
            "error: sensitivity times the root of the mean squared error of prefix sums at unit noise (rho = 1/2, "
            "clip norm 1, zero-out)",
            f"n = {steps} steps{left_out}",
            "upper bound, drawn hollow: of the sensitivity only a bound is known",
            "lower bound, from which the drawing measures: the certified optimum over all strategies",
        ),
        data=partial(data, steps),
        draw=draw,
        report=report,
    )


FIGURES = {name: _entry(name, steps) for name, steps in {"error_memory": STEPS, "error_memory_long": LONG_RUN}.items()}
