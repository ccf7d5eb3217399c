"""A design in words: the problem, the budget, what to run with which multiplier, and the comparison."""

from __future__ import annotations

import numpy as np

from corrnoise.designs import choice as choices
from corrnoise.designs.comparison import BOUND, SGD, Comparison
from corrnoise.designs.covered_noise import CoveredNoise
from corrnoise.designs.description import stream_memory
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex

_PLACES = {
    "buffers": "buffers in design.json",
    "strategy_coef": "coefficients.csv, strategy",
    "noising_coef": "coefficients.csv, noising",
}
_USES = {
    "buffers": "libraries that run BLT strategies",
    "strategy_coef": "libraries that invert a Toeplitz strategy",
    "noising_coef": "a convolution",
}


def report(design: CoveredNoise, comparison: Comparison | None) -> str:
    """The text of ``report.txt``."""
    parts = [heading(design), *design.notes]
    if design.choice is not None:
        parts.append(choices.in_words(design.choice))
    parts.append(what_to_run(design))
    if comparison is not None:
        parts.append(in_words(comparison))
    return "\n\n".join(parts) + "\n"


def heading(design: CoveredNoise) -> str:
    """The problem and the budget."""
    pair = [f"{name} = {design.metadata[name]!r}" for name in ("epsilon", "delta") if name in design.metadata]
    promised = f" ({', '.join(pair)})" if pair else ""
    length = "any number of steps" if design.steps is None else f"{design.steps} steps"
    return "\n".join(
        [
            f"Problem:  {_problem(design)}",
            f"Privacy:  rho = {design.rho!r} of zCDP{promised}, clip norm {design.clip_norm!r}, {design.adjacency},",
            f"          for {length}, {design.participation_in_words}",
        ]
    )


def _problem(design: CoveredNoise) -> str:
    problem = design.problem
    if problem is None:
        return "no spectrum is known"
    if isinstance(problem, LinearRegression):
        return (
            f"linear regression, {problem.eigenvalues.size} eigenvalues from {problem.eigenvalues.min():.6g} to"
            f" {problem.eigenvalues.max():.6g},\n          residual std {problem.residual_std:g}, kurtosis"
            f" {problem.kurtosis if isinstance(problem.kurtosis, float) else 'of each direction'}, learning rate"
            f" {problem.learning_rate!r}{_batch(problem.batch_size)}"
        )
    if isinstance(problem, StronglyConvex):
        return (
            f"strongly convex losses, mu = {problem.strong_convexity:g}, L = {problem.smoothness:g},"
            f" dimension {problem.dimension},\n          gradient noise std {problem.gradient_noise_std:g},"
            f" learning rate {problem.learning_rate!r}"
        )
    return repr(problem)


def _batch(size: int) -> str:
    return "" if size == 1 else f",\n          batches of {size} examples, the step is their mean gradient"


def what_to_run(design: CoveredNoise) -> str:
    """The noise multipliers, each beside the numbers and the arithmetic that it belongs to, and what is refused."""
    rows = []
    if design.stream is not None:
        rows.append((*_place_of_stream(design), design.stream_multiplier, _use_of_stream(design)))
    for form, place in _PLACES.items():
        rows += [(place, dtype, value, _USES[form]) for dtype, value in design.multipliers(form).items()]
    lines = [f"  {place:<28}{dtype:<9}{value!r:<22}{use}" for place, dtype, value, use in rows if value is not None]
    refused = _refused(design)
    lines = [
        "Noise multipliers, each for its own numbers in its own arithmetic only:",
        "",
        *lines,
        "",
        "The independent noise of a step has the standard deviation multiplier x clip norm.  The correlated noise made",
        "of it is added to the SUM of the clipped gradients of the step; a mean over B examples divides both by B.",
        "float64 and float32 are the type of all numbers of the program.  Accelerators multiply float32 matrices in",
        "shorter types by default, which is not covered (JAX: set jax_default_matmul_precision to 'highest').",
    ]
    if design.scales is not None:
        lines += [
            "",
            "This noise has a factor for each step, in scales.csv.  The stream applies it.  With other programs divide",
            "the sum of the gradients by scale t before step t, and multiply what they return by it.",
            "(scales=False or --no-scales finds noise without factors, with a larger error.)",
            *_without_comparison(design),
        ]
    if refused:
        lines += ["", "Not offered:", "", *refused]
    return "\n".join(lines)


def _without_comparison(design: CoveredNoise) -> list[str]:
    if design.problem is None:
        return []
    return [
        "Stationary errors, and errors at the best learning rate of each noise, are compared for noise without factors",
        "only.",
    ]


def _place_of_stream(design: CoveredNoise) -> tuple[str, str]:
    stream = design.stream
    if isinstance(stream, ScaledNoise | BandedNoise):
        return "stream in design.npz", "float64"
    return "poles.csv" if isinstance(stream, PoleNoise) else "stream.csv", "float64"


def _use_of_stream(design: CoveredNoise) -> str:
    stream = design.stream
    if isinstance(stream, PoleNoise):
        return f"{stream.poles.size} poles, NoiseStream"
    if isinstance(stream, ScaledNoise | BandedNoise):
        scaled = ", a factor for each step" if design.scales is not None else ""
        return f"{stream_memory(design)} arrays{scaled}, NoiseStream"
    return "a delay line, NoiseStream"


def _refused(design: CoveredNoise) -> list[str]:
    """A line for every form that is not offered, with the reason."""
    rows = [(_PLACES[one.form], one.dtype, one.reason) for one in design.handover if one.reason]
    if design.steps is None:
        rows = [row for row in rows if row[0] == _PLACES["buffers"]]
        rows.append(("coefficients", "", "they need a number of steps"))
    return [f"  {place:<28}{dtype:<9}{reason}" for place, dtype, reason in rows]


# -- the comparison --------------------------------------------------------------------------------------------------


def in_words(comparison: Comparison) -> str:
    """The errors as tables, and their meaning."""
    if not comparison.exact:
        return _bounds_in_words(comparison)
    parts = [_stationary_in_words(comparison)]
    if comparison.steps is not None:
        parts.insert(0, _final_in_words(comparison))
    if not comparison.tuned:
        parts.append(_why_not_tuned(comparison))
    return "\n\n".join(parts)


def _table(rows: list[list[str]]) -> list[str]:
    return ["  " + f"{row[0]:<26}" + "".join(f"{cell:>22}" for cell in row[1:]) for row in rows]


def _stationary_in_words(comparison: Comparison) -> str:
    table = [["", "stationary error", "ratio"]]
    table += [[row.method, f"{row.stationary_error:.6g}", f"{row.ratio:.5g}"] for row in comparison.rows]
    limits = (
        [
            "budget.  Stationary errors are exact limits, with the sigma of gamma_inf.  The ratio is to the smallest",
            "error of any noise; the closed-form lower bound is below it, and no noise attains it.",
        ]
        if any(row.method == BOUND for row in comparison.rows)
        else [
            "budget.  Stationary errors are exact limits, with the sigma of this participation.  The ratio is to the",
            "error of the design, which is not the smallest of all noise.",
        ]
    )
    return "\n".join(
        [
            f"Stationary errors, all at the learning rate {comparison.learning_rate:.6g}:",
            "",
            *_table(table),
            "",
            "Errors are F - F*, with the factor 1/2 of F, for the batches of the problem, without clipping, at this",
            *limits,
        ]
    )


def _final_in_words(comparison: Comparison) -> str:
    head = ["", "at this rate", "best rate", "at its best rate", "over the design"]
    width = 5 if comparison.tuned else 2
    table = [head[:width]]
    for row in comparison.rows:
        if row.final_error is not None:
            cells = [row.final_error, row.best_learning_rate, row.best_error, row.best_ratio]
            table.append([row.method, *("-" if cell is None else f"{cell:.6g}" for cell in cells)][:width])
    lines = [
        f"Errors after {comparison.steps} steps:",
        "",
        *_table(table),
        "",
        "These are exact, with the sigma of this run, and contain the bias of the start.",
    ]
    if comparison.tuned:
        lines += [
            "At its best rate: each noise at the learning rate with the smallest error after these steps, with nu and",
            "damping tuned anew at every learning rate.",
        ]
    return "\n".join(lines)


def _why_not_tuned(comparison: Comparison) -> str:
    lines = [
        "All errors above are at one learning rate; DP-SGD would choose a smaller one.  Each noise is compared at its"
    ]
    if comparison.steps is None:
        lines.append("own best learning rate only for a number of steps and an initial offset, which were not given.")
    elif not np.any(comparison.initial_offset):
        lines += [
            "own best learning rate only for an initial offset, which was not given: a run that starts at the minimum",
            "can only get worse, so that its error rises with the steps, and its best learning rate is 0.",
        ]
    else:
        lines += [
            "own best learning rate only where it improves on the start, which none does for this offset and budget.",
        ]
    return "\n".join(lines)


def _bounds_in_words(comparison: Comparison) -> str:
    table = [["", "bound", "over the design"]]
    table += [[row.method, f"{row.stationary_error:.6g}", f"{row.ratio:.5g}"] for row in comparison.rows]
    lines = [
        f"Bounds of the error, all at the learning rate {comparison.learning_rate:.6g}:",
        "",
        *_table(table),
        "",
        "Upper bounds of F - F* for every loss of the class whose gradients the clip norm bounds, at this budget.",
        "They hold in the limit, with the sigma of gamma_inf.  The last row is the error of the design on the worst",
        "quadratic loss of the class, which no upper bound for it can undercut.  A smaller learning rate has smaller",
        "bounds, so that no learning rate is best for them.",
    ]
    if comparison[SGD].ratio < 1:
        lines += [
            "DP-SGD has a bound of its own, for independent noise: here no correlated noise is proved to be better."
        ]
    return "\n".join(lines)
