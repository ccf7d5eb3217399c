"""A design in words: the guarantee, the noise and its error, how to run it, and other noise."""

from __future__ import annotations

import numpy as np

from corrnoise.designs.alternatives import ComparedNoise, rows, tables
from corrnoise.designs.comparison import BOUND, INDEPENDENT, Comparison
from corrnoise.designs.design import Design
from corrnoise.designs.export import exports
from corrnoise.support.wording import listed, wrapped
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex


def report(design: Design, comparison: Comparison | None = None, parameters: int | None = None) -> str:
    """The text of ``report.txt``.

    Parameters
    ----------
    design : Design
        A design.
    comparison : Comparison, optional
        As from ``design.comparison``; None for none.
    parameters : int, optional
        The size of the model, for the bytes of memory; None where it is not known.
    """
    facts = {"Problem": _problem(design), **design.facts(parameters)}
    parts = [wrapped(design.recommendation, 0), listed(facts), *design.notes, how_to_run(design)]
    if design.alternatives:
        parts.append(choice_in_words(rows(design)))
    parts.append(for_other_libraries(design))
    if comparison is not None:
        parts.append(in_words(comparison))
    return "\n\n".join(parts) + "\n"


def _problem(design: Design) -> str:
    problem = design.problem
    if problem is None:
        return "no spectrum is known"
    if isinstance(problem, LinearRegression):
        return (
            f"linear regression, {problem.eigenvalues.size} eigenvalues from {problem.eigenvalues.min():.6g} to"
            f" {problem.eigenvalues.max():.6g}, residual std {problem.residual_std:g}, kurtosis"
            f" {problem.kurtosis if isinstance(problem.kurtosis, float) else 'of each direction'}, learning rate"
            f" {problem.learning_rate!r}{_batch(problem.batch_size)}"
        )
    if isinstance(problem, StronglyConvex):
        return (
            f"strongly convex losses, mu = {problem.strong_convexity:g}, L = {problem.smoothness:g},"
            f" dimension {problem.dimension}, gradient noise std {problem.gradient_noise_std:g},"
            f" learning rate {problem.learning_rate!r}"
        )
    return repr(problem)


def _batch(size: int) -> str:
    return "" if size == 1 else f", batches of {size} examples, the step is their mean gradient"


def how_to_run(design: Design) -> str:
    """The next step: how the noise is run, with its multiplier, and the duties of the loop."""
    program = design.program()
    multiplier = program.multiplier(design.budget)
    needed = "also batches=, folder=, carry="
    loop = "the loop may have any number of steps, and no example takes part twice"
    if design.participation.steps is not None:
        loop = f"the loop has at most {design.participation.steps} steps, and keeps the promise above"
    if design.participation.sampled:
        needed = "examples=, the size of the data; also folder=, carry="
        loop = "the loop takes every batch that the run draws, empty ones included, and releases its sum"
    return "\n".join(
        [
            "To run it, in Python, from the folder of this report:",
            "",
            "    design = cn.load(folder)",
            f"    run = design.run(size)  # size: the number of parameters; {needed}",
            "    for step in run:",
            "        noisy = run.add_noise(total)  # total: the SUM of the clipped gradients of the step",
            "",
            "or design.for_torch(model), design.for_opacus(model, optimizer, data, loss=..., batch_size=...)"
            + ("." if design.participation.sampled else ","),
            *([] if design.participation.sampled else ["design.for_jax()."]),
            f"They have the noise multiplier {multiplier!r} ({program.form} in {program.dtype}) and all factors",
            "inside.  A mean over B examples divides both by B"
            + (", the expected size of a batch and never its actual one." if design.participation.sampled else "."),
            "What remains to you:",
            f"{loop}.",
        ]
    )


# -- alternatives ------------------------------------------------------------------------------------------------------


def choice_in_words(compared: list[ComparedNoise]) -> str:
    """The alternatives, and what more memory would buy."""
    lines = [line for title, some in tables(compared).items() for line in (*_choices(title, some), "")]
    lines += [
        "Memory: arrays of the size of the gradient that a run keeps.  Errors are at this budget.  Batches are sampled",
        "only where the kind says so: independent noise alone is DP-SGD where sampling amplifies nothing.",
    ]
    if not all(row.optimum.exact for row in compared):
        lines.append(
            "<=: only a bound is known, of the sensitivity or of the accountant's curve; the multiplier covers it."
        )
    return "\n".join(lines)


def _choices(title: str, some: list[ComparedNoise]) -> list[str]:
    over = "" if all(row.over_floor is None for row in some) else f"{'over lower bound':>18}"
    lines = [f"  {title:<36}{'memory':>8}{'error':>18}{over}"]
    for row in some:
        one, ratio = row.optimum, "" if row.over_floor is None else f"{row.over_floor:>18.4f}"
        error = f"{'' if one.exact else '<= '}{row.error:.6g}"
        lines.append(f"  {one.label:<36}{one.memory:>8}{error:>18}{ratio}" + "  <- this design" * row.chosen)
    return lines


# -- other libraries ---------------------------------------------------------------------------------------------------


def for_other_libraries(design: Design) -> str:
    """The noise multiplier of each form that other programs run, and why others are not offered."""
    if design.participation.sampled:
        return "No other program is offered the numbers of this noise: the run itself draws the sampled batches."
    held = []
    refused = []
    for one in exports(design):
        if one.program is None:
            refused.append("  " + wrapped(one.reason).replace("\n", "\n  "))
        else:
            held.append(f"  {one.form:<22}{one.dtype:<10}{one.program.multiplier(design.budget)!r}")
    lines = [
        "Noise multipliers for other programs, each for its own numbers in its own arithmetic only:",
        "",
        *held,
        "",
    ]
    if not held:
        lines = ["No other program is offered the numbers of this noise."]
    else:
        lines += [
            "Buffers are in programs.json, columns in coefficients.csv.  The independent noise of a step has the",
            "standard deviation multiplier x clip norm.  Accelerators multiply float32 matrices in shorter types by",
            "default, which is not covered (JAX: set jax_default_matmul_precision to 'highest').",
        ]
    if getattr(design.mechanism, "step_scales", None) is not None and held:
        lines += [
            "",
            "This noise has a factor for each step, in scales.csv, without which no multiplier here is valid: divide",
            "the sum of the gradients by scale t before step t, and multiply what the program returns by it.",
        ]
    if refused:
        lines += ["", "Not offered:", "", *refused]
    return "\n".join(lines)


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
    return ["  " + f"{row[0]:<38}" + "".join(f"{cell:>18}" for cell in row[1:]) for row in rows]


def _stationary_in_words(comparison: Comparison) -> str:
    table = [["", "stationary error", "ratio"]]
    table += [
        [row.method, f"{row.stationary_error:.6g}", f"{row.ratio:.5g}"]
        for row in comparison.rows
        if row.stationary_error is not None
    ]
    limits = (
        [
            "budget.  Stationary errors are exact limits, with the sigma of gamma_inf.  The ratio is to the smallest",
            "error of any noise; the closed-form lower bound is below it, and no noise attains it.",
        ]
        if any(row.method == BOUND for row in comparison.rows)
        else [
            "budget.  Stationary errors are exact limits, with the sigma of this participation.  The ratio is to the",
            "error of the design, which is not the smallest of all noise.  Noise with a factor for each step has",
            "none.",
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
        "All errors above are at one learning rate; independent noise would choose a smaller one.  Each is compared"
    ]
    if comparison.steps is None:
        lines.append("at its own best rate only for a number of steps and an initial offset, which were not given.")
    elif not np.any(comparison.initial_offset):
        lines += [
            "at its own best rate only for an initial offset, which was not given: a run that starts at the minimum",
            "can only get worse, so that its error rises with the steps, and its best learning rate is 0.",
        ]
    else:
        lines += [
            "at its own best learning rate only where it improves on the start, which none does here.",
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
    if (comparison[INDEPENDENT].ratio or 1) < 1:
        lines += ["Independent noise has a bound of its own: here no correlated noise is proved to be better."]
    return "\n".join(lines)
