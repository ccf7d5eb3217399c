"""A design for other programs: every form of its recurrence, and tables of its numbers.

Each form in each type has a program with a multiplier of its own, or a reason why it is not offered.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from corrnoise.designs.design import Design
from corrnoise.support.csv_tables import table_text
from corrnoise.support.serialise import plain
from corrnoise.support.version import __version__
from corrnoise.theory.mechanisms.program import HANDED_OVER, Form, Program
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.numerics.rounding import DTYPES, Dtype
from corrnoise.theory.participation.legacy import stable_fields
from corrnoise.theory.privacy import gaussian_noise_multiplier

CONVENTIONS = {
    "multiplier": "standard deviation of the independent noise over the clip norm; the correlated noise made of it is "
    "added to the sum of the clipped gradients of a step",
    "step_scales": "the noise of step t is multiplied by entry t; the multiplier is valid with these factors only",
    "buf_decay, output_scale": "y = z - sum_i output_scale_i x_i, then x_i <- buf_decay_i x_i + y, from x = 0",
    "input_scale": "with it output_scale and input_scale have a row for each step, and x_i <- buf_decay_i x_i + "
    "input_scale_i y",
    "strategy_coef": "y_t = (z_t - sum_{k >= 1} c_k y_{t-k})/c_0",
    "noising_coef": "y_t = sum_k beta_k z_{t-k}",
    "dtype": "type of all numbers of the program; shorter types in products of matrices are not covered",
    "gaussian_noise_multiplier": "of the whole run as one Gaussian mechanism, for accountants; never to scale noise; "
    "none where batches are sampled",
}


_OWN_BATCHES = "sampled batches are drawn by the run itself, from its secret key; design.run does"


class Export(NamedTuple):
    """A form in a type: its program, or the reason why it is not offered."""

    form: Form
    dtype: Dtype
    program: Program | None
    reason: str = ""


def exports(design: Design) -> list[Export]:
    """Every form that other libraries run, in every type.

    Parameters
    ----------
    design : Design
        A design.
    """
    found = []
    varying = isinstance(design.mechanism, TimeVaryingBuffers)
    for form in design.mechanism.forms() if varying else HANDED_OVER:
        for dtype in DTYPES:
            if form == "replayed buffers":
                found.append(Export(form, dtype, None, f"{form}: needs draws of earlier steps"))
                continue
            if design.participation.sampled:
                found.append(Export(form, dtype, None, f"{form}: {_OWN_BATCHES}"))
                continue
            try:
                found.append(Export(form, dtype, design.program(form, dtype)))
            except ValueError as error:
                found.append(Export(form, dtype, None, str(error)))
    return found


def programs_as_json(design: Design) -> str:
    """The buffers of each type with their factors and multiplier, and why other forms are not offered, as JSON text.

    Columns of coefficients are in ``coefficients.csv``.

    Parameters
    ----------
    design : Design
        A design.
    """
    programs: list[dict[str, Any]] = []
    for one in exports(design):
        row: dict[str, Any] = {"form": one.form, "dtype": one.dtype}
        if one.program is None:
            row["refused"] = one.reason
        else:
            claims = one.program.record(design.budget)
            row |= {name: claims[name] for name in ("sensitivity", "multiplier", "scale", "memory")}
            row |= {name: v for name, v in claims["arrays"].items() if not name.endswith("_coef")}
        programs.append(row)
    described = {
        "corrnoise": __version__,
        "budget": design.budget,
        "participation": stable_fields(design.participation),
        "gaussian_noise_multiplier": None
        if design.participation.sampled
        else gaussian_noise_multiplier(design.budget.gaussian_rho),
        "family": design.optimum.label,
        "programs": programs,
        "conventions": CONVENTIONS,
    }
    return json.dumps(plain(described), indent=1, allow_nan=False) + "\n"


def tables(design: Design) -> dict[str, str]:
    """Coefficients, poles and factors as CSV, by name of the file.

    Parameters
    ----------
    design : Design
        A design.
    """
    found = {}
    columns = {
        one.dtype: one.program for one in exports(design) if one.form == "strategy column" and one.program is not None
    }
    noising = {one.dtype: one.program for one in exports(design) if one.form == "noising column" and one.program}
    if "float64" in columns and "float64" in noising:
        found["coefficients.csv"] = _coefficient_table(design, columns, noising)
    program = design.program()
    about = f"noise multiplier: {program.multiplier(design.budget)!r}, in {program.dtype}"
    arrays = program.arrays
    if program.form == "cascade":
        comments = ["sections of B(z) = prod (1 - (1 - zero_gap) z)/(1 - (1 - pole_gap) z)", about]
        rows = zip(arrays["zeros"].tolist(), arrays["poles"].tolist(), strict=True)
        found["poles.csv"] = table_text(["zero_gap", "pole_gap"], rows, comments)
    scales = getattr(design.mechanism, "step_scales", None)
    if scales is not None:
        comments = ["factors of the steps: the noise of step t is scale_t times the Toeplitz noise of step t", about]
        found["scales.csv"] = table_text(["t", "scale"], enumerate(scales.tolist()), comments)
    return found


def _coefficient_table(design: Design, strategy: dict[Dtype, Program], noising: dict[Dtype, Program]) -> str:
    comments = [
        "first columns of the noising matrix and of the strategy; beta is noising_coef",
        f"for {design.participation.steps} steps, {design.participation.summary()}",
    ]
    if getattr(design.mechanism, "step_scales", None) is not None:
        comments.append("the noise of step t is to be multiplied by scale t of scales.csv, or no multiplier is valid")
    for name, held in (("strategy_coef", strategy), ("noising_coef", noising)):
        multipliers = [f"{dtype} {program.multiplier(design.budget)!r}" for dtype, program in held.items()]
        comments.append(f"noise multiplier of {name}: {', '.join(multipliers)}")
    columns = (noising["float64"].arrays["noising_coef"], strategy["float64"].arrays["strategy_coef"])
    rows = zip(range(columns[0].size), *(column.tolist() for column in columns), strict=True)
    return table_text(["t", "noising_coef", "strategy_coef"], rows, comments)
