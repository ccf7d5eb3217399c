"""A design in words: the promise, the noise and its error, how to run it, and other noise beside it."""

from __future__ import annotations

import math

import numpy as np

from corrnoise.designs.comparison import BOUND, INDEPENDENT, Comparison
from corrnoise.designs.design import Design
from corrnoise.designs.export import exports
from corrnoise.solvers.optimum import Optimum
from corrnoise.solvers.sampled import DPSGD_POISSON, EPSILON_RANGE
from corrnoise.theory.amplification.curve import delta_of
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex

_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_LINE_WIDTH = 112


def report(design: Design, comparison: Comparison | None = None, parameters: int | None = None) -> str:
    """The text of ``report.txt``.

    Parameters
    ----------
    design
        A design.
    comparison
        As from ``design.comparison``; None for none.
    parameters
        The size of the model, for the bytes of memory; None where it is not known.
    """
    parts = [heading(design), *design.notes, result(design, parameters)]
    if design.dpsgd is not None:
        parts.append(beside_dpsgd(design))
    parts.append(how_to_run(design))
    if design.alternatives:
        parts.append(choice_in_words(design))
    parts.append(for_other_libraries(design))
    if comparison is not None:
        parts.append(in_words(comparison))
    return "\n\n".join(parts) + "\n"


def run_in_words(design: Design) -> tuple[str, ...]:
    """The budget and the promise."""
    length = "any number of steps" if design.participation.steps is None else f"{design.participation.steps} steps"
    return (
        f"{design.budget.in_words()}, clip norm {design.budget.clip_norm:g}",
        f"{length}, {design.participation.in_words()}",
    )


def heading(design: Design) -> str:
    """The problem, the budget and the promise."""
    privacy, run = run_in_words(design)
    return f"Problem:  {_problem(design)}\nPrivacy:  {privacy}\nRun:      {run}"


def _problem(design: Design) -> str:
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


def result(design: Design, parameters: int | None) -> str:
    """The noise, its memory, its error, and the floor with its condition."""
    ratio = "" if design.ratio is None else f", {design.ratio:.4f} times the floor"
    lines = [
        f"Noise:    {design.optimum.label}, which keeps {_arrays(design.memory)}{_bytes(design, parameters)}",
        f"Error:    {design.error:.6g}{ratio}: {design.error_in_words}",
        f"Floor:    {design.floor_in_words}.",
    ]
    if design.participation.sampled:
        lines.append(_bracket(design))
    return "\n".join(_wrapped(line) for line in lines)


def _bracket(design: Design) -> str:
    """How near the accountant's noise multiplier is to the least one: the two ends of δ."""
    program, budget = design.program(), design.budget
    assert budget.epsilon is not None
    assert budget.delta is not None
    found = delta_of(program.curve, budget.epsilon, program.multiplier(budget))
    reached = "; some gradients reach the lower end" if found.attained else ""
    upper = min(found.upper, budget.delta)
    return f"Delta:    of this noise in [{found.lower:.5g}, {upper:.5g}] at epsilon = {budget.epsilon:g}{reached}."


def beside_dpsgd(design: Design) -> str:
    """Which of the two to take at this budget, and the ε at which the answer changes."""
    poisson = design.dpsgd
    limit = design.crossover
    assert poisson is not None
    error = design.error_of(poisson)
    own = design.optimum.label == DPSGD_POISSON
    what = "the best correlated noise below" if own else "this design"
    if own:
        answer = "No correlated noise that was tried has a smaller error at this budget."
    elif design.beaten:
        answer = f"Take DP-SGD with Poisson batches: this design has {design.error / error:.3g} times its error."
    else:
        answer = f"This design has {design.error / error:.3g} times its error."
    if limit is not None:
        further = f"Below epsilon = {limit:.2g} take DP-SGD with Poisson batches, above it {what}."
    else:
        better = "DP-SGD" if own or design.beaten else "this design"
        low, high = EPSILON_RANGE
        further = f"At this delta {better} has the smaller error both at epsilon = {low:g} and at {high:g}."
    rate = poisson.participation.rate
    return _wrapped(f"DP-SGD:   {error:.6g}, with Poisson batches at the rate {rate:.6g}. {answer} {further}")


def _bytes(design: Design, parameters: int | None) -> str:
    if parameters is None:
        return " of the size of the model" if design.memory else ""
    dtype = design.program().dtype
    size = design.memory * parameters * np.dtype(dtype).itemsize
    return f": {bytes_in_words(size)} for {parameters} parameters in {dtype}"


def bytes_in_words(size: int) -> str:
    """A number of bytes in the unit in which it is below 1024."""
    power = min(max(0, size.bit_length() - 1) // 10, len(_BYTE_UNITS) - 1)
    return f"{size / 1024**power:.3g} {_BYTE_UNITS[power]}"


def _wrapped(line: str) -> str:
    """The line in several ones, which begin below its first word."""
    lines = [""]
    for word in line.split(" "):
        if len(lines[-1]) + len(word) > _LINE_WIDTH and word:
            lines.append(" " * 9)
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def how_to_run(design: Design) -> str:
    """The next step: how the noise is run, with its multiplier, and what the loop must keep."""
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


def everything(design: Design) -> list[Optimum]:
    """All mechanisms that were compared, the chosen one first."""
    return [design.optimum, *design.alternatives]


def best_of_families(design: Design) -> list[Optimum]:
    """The mechanism with the least error of each family, the best first."""
    best: dict[str, Optimum] = {}
    for one in everything(design):
        known = best.get(one.label)
        if known is None or design.error_of(one) < design.error_of(known):
            best[one.label] = one
    return sorted(best.values(), key=design.error_of)


def gains(design: Design) -> list[Optimum]:
    """With growing memory, each mechanism whose error is below that of all with less memory: what memory buys."""
    found: list[Optimum] = []
    least = math.inf
    for one in sorted(everything(design), key=lambda one: (one.memory, design.error_of(one))):
        if design.error_of(one) < least:
            found.append(one)
            least = design.error_of(one)
    return found


def choice_in_words(design: Design) -> str:
    """The alternatives, and what more memory would buy."""
    chosen = design.optimum
    bought = gains(design)
    if chosen not in bought:
        bought.append(chosen)
    lines = [
        *_choices(design, "what memory buys", sorted(bought, key=lambda one: one.memory)),
        "",
        *_choices(design, "the best of each kind", best_of_families(design)),
        "",
        "Memory: arrays of the size of the gradient that a run keeps.  Errors are at this budget.  Batches are sampled",
        "only where the kind says so: independent noise alone is DP-SGD where sampling amplifies nothing.",
    ]
    if not all(one.exact for one in everything(design)):
        lines.append(
            "<=: only a bound is known, of the sensitivity or of the accountant's curve; the multiplier covers it."
        )
    return "\n".join(lines)


def _arrays(count: int) -> str:
    return "no array" if count == 0 else "1 array" if count == 1 else f"{count} arrays"


def _choices(design: Design, title: str, rows: list[Optimum]) -> list[str]:
    floor = design.floor
    over = "" if floor is None else f"{'over the floor':>18}"
    lines = [f"  {title:<36}{'memory':>8}{'error':>18}{over}"]
    for one in rows:
        value = design.error_of(one)
        error = f"{'' if one.exact else '<= '}{value:.6g}"
        ratio = "" if floor is None else f"{value / floor:>18.4f}"
        mark = "  <- this design" if one is design.optimum else ""
        lines.append(f"  {one.label:<36}{one.memory:>8}{error:>18}{ratio}{mark}")
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
            refused.append("  " + _wrapped(one.reason).replace("\n", "\n  "))
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
