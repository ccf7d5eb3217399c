"""The summary of a run: its guarantee, its state and the next call."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from corrnoise.support.wording import buffers_in_words, bytes_in_words, summary_html, summary_text
from corrnoise.theory.mechanisms.program import TOTAL_VARIATION, Program
from corrnoise.theory.privacy import Budget

if TYPE_CHECKING:
    from corrnoise.theory.profile import Profile

_PROVED_WORDS = (
    "; releases are post-processing of the Gaussian mechanism with real normals, up to a total variation of 2^-256, if "
    "ChaCha20 cannot be told from random bits"
)
USUAL_DELTA = 1e-6  #: for the epsilon of a budget without a delta


def profile_of(program: Program, budget: Budget, multiplier: float, step: int | None) -> Profile:
    """The privacy profile of a run, which has the verified budget if it is sampled, or of its first steps."""
    from corrnoise.theory.profile import NearbyProfile, SampledProfile

    found = program.profile(multiplier, step=step, adjacency=budget.adjacency)
    if step in (None, program.participation.steps) and isinstance(found, SampledProfile) and budget.delta is not None:
        assert budget.epsilon is not None  # where the multiplier was verified
        delta = program.ideal_budget(budget).delta
        assert delta is not None
        found = replace(found, verified=(budget.epsilon, delta))
    return NearbyProfile(found, TOTAL_VARIATION) if program.dtype == "exact" else found


def summary_of(run: Any, next_call: str, *, html: bool = False) -> str:
    """The guarantee of a run, open or closed, in a sentence and the facts behind it; ``next_call`` is code."""
    budget, program, costs = run.budget, run.program, run.report()
    delta = budget.delta or USUAL_DELTA
    epsilon = _rounded_up(run.profile().epsilon_at(delta)) if budget.epsilon is None else budget.epsilon
    total = "any number of" if run.steps is None else f"{run.steps}"
    opening = f"The whole run of {total} steps is ({epsilon}, {delta:g})-differentially private."
    if run.participation.sampled:
        proof = "by the accountant of its sampling"
        if isinstance(costs["accountant"], dict):
            proof = f"by Monte Carlo, whose failure of {costs['accountant']['failure']:g} is a part of delta"
    else:
        near = "" if run.total_variation is None else "within 2^-256 of "
        proof = f"{near}{budget.gaussian_rho:.4g}-zCDP as one Gaussian mechanism"
    numbers = "exact numbers" if program.dtype == "exact" else program.dtype
    size = f"{bytes_in_words(costs['bytes of memory'])} for {run.size} parameters in {numbers}"
    if run.position == run.steps:
        next_call = "the run is finished; run.report() has its numbers"
    elif run.closed:
        next_call = "rerun the script to resume a run with a folder; another run has ended"
    facts = {
        "Privacy": f"{budget.in_words()}, clipping norm {budget.clip_norm:.4g}, {proof}",
        "Run": run.participation.summary(),
        "Batches": "made by the caller" if run.batches is None else run.batches.in_words(),
        "Steps": f"{run.position} of {total.removesuffix(' of')} done, {run.skipped} skipped after a crash",
        "Spent": f"ε = {_rounded_up(run.spent(delta))} at δ = {delta:g} by the steps done",
        "Noise": f"{type(program.mechanism).__name__}, {buffers_in_words(program.memory)}: {size}",
        "Multiplier": f"{run.multiplier!r}",
        "Arithmetic": f"{run.level}, sums of {costs['type of sums']}{_PROVED_WORDS if run.total_variation else ''}",
        "Next": next_call,
    }
    return summary_html(opening, facts) if html else summary_text(opening, facts)


def _rounded_up(epsilon: float) -> float:
    """To four decimals, upwards."""
    return epsilon if math.isinf(epsilon) else math.ceil(epsilon * 1e4) / 1e4
