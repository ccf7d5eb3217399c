"""Statements in Coq: a file with the theorem that a formula states, and a proof by interval arithmetic.

The theorem follows from the formula alone.  So a test that writes the file again and compares the bytes shows that
Coq proved the claim and nothing else.  Numbers are fractions, min and max are sums with |·|, and log1p and expm1 are ln
and exp.  An arithmetic-geometric mean is a new variable M with the hypothesis that M lies between the two means at every
step of the iteration.

A ``ProofPlan`` changes the proof only.  Interval's floating-point numbers are pairs of integers of Coq itself, so that the
proof rests on the axioms of the real numbers alone, and not on the processor's numbers.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, NamedTuple

from corrnoise.paper_checks.machinery.terms import Formula

_HEAD = """\
From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.
"""
_LOG_AXIS = """
Lemma log_axis : forall a b x : R, 0 < a -> a <= x <= b -> exists t : R, ln a <= t <= ln b /\\ x = exp t.
Proof.
  assert (rises : forall u v : R, 0 < u -> u <= v -> ln u <= ln v).
  { intros u v Hu [H | H]; [left; now apply ln_increasing | right; now rewrite H]. }
  intros a b x Ha [Hl Hh]. exists (ln x). repeat split.
  - now apply rises.
  - apply rises; lra.
  - rewrite exp_ln; lra.
Qed.
Ltac positive := match goal with
  | |- 0 < _ / _ => apply Rmult_lt_0_compat; [positive | apply Rinv_0_lt_compat; positive]
  | |- 0 < _ ^ _ => apply pow_lt; positive
  | |- _ => apply IZR_lt; reflexivity
  end.
"""
_MEANS = """
Fixpoint means (n : nat) (x y : R) : R * R :=
  match n with O => (x, y) | S n => means n ((x + y) / 2) (sqrt (x * y)) end.
Definition is_agm (x y m : R) : Prop := forall n : nat, snd (means (S n) x y) <= m <= fst (means (S n) x y).

Lemma between : forall g a m : R, g <= m <= a -> exists s : R, 0 <= s <= 1 /\\ m = g + s * (a - g).
Proof.
  intros g a m [Hl Hh]. destruct (Req_dec g a) as [E | E].
  - exists 0. lra.
  - exists ((m - g) / (a - g)). assert (0 < a - g) by lra. repeat split.
    + apply Rmult_le_pos; [lra | left; now apply Rinv_0_lt_compat].
    + apply (Rmult_le_reg_r (a - g)); [lra | field_simplify; lra].
    + field. lra.
Qed.
"""


class ProofPlan(NamedTuple):
    """How to prove a theorem."""

    log_axes: bool  #: whether variables on a log scale become exponentials
    option: str  #: of the tactic: how it bounds the sides on a box
    means: int  #: steps of the arithmetic-geometric mean


PLANS = tuple(
    ProofPlan(log_axes, option, means)
    for means in (2, 4)
    for option in ("autodiff", "taylor", "bisect")
    for log_axes in (True, False)
)


def theorem_name(identifier: str) -> str:
    """The name of the theorem of a claim.

    >>> theorem_name("corrnoise-conjecture-left-of-1-3")
    'corrnoise_conjecture_left_of_1_3'
    """
    return re.sub(r"\W", "_", identifier)


def _rational(number: Fraction) -> str:
    sign = "- " if number < 0 else ""
    top, bottom = abs(number.numerator), number.denominator
    size = f"{top}" if bottom == 1 else f"{top} / {_bottom(bottom)}"
    return f"({sign}{size})"


def _bottom(number: int) -> str:
    """A denominator, powers of ten as powers."""
    text = str(number)
    zeros = len(text) - len(text.rstrip("0"))
    return f"10 ^ {zeros}" if zeros > 18 and text.strip("0") == "1" else text


_TEXTS = {
    **{"neg": "(- {})", "abs": "Rabs {}", "log1p": "ln (1 + {})", "expm1": "(exp {} - 1)", "log": "ln {}"},
    **{name: name + " {}" for name in ("sqrt", "exp", "sin", "cos")},
    **{"add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})"},
    "min": "(({0} + {1} - Rabs ({0} - {1})) / 2)",
    "max": "(({0} + {1} + Rabs ({0} - {1})) / 2)",
}


def _sides(formula: Formula) -> tuple[list[str], list[str]]:
    """The text of each node, and the hypotheses about the arithmetic-geometric means in them."""
    texts: list[str] = []
    hypotheses: list[str] = []
    for operation, *operands in formula.nodes:
        if operation == "number":
            text = _rational(operands[0])
        elif operation == "variable":
            text = formula.ranges[operands[0]].name
        elif operation == "pi":
            text = "PI"
        elif operation == "power":
            text = f"({texts[operands[0]]} ^ {abs(operands[1])})"
            text = text if operands[1] >= 0 else f"(/ {text})"
        elif operation == "agm":
            text = f"M{len(hypotheses)}"
            hypotheses.append(f"is_agm {texts[operands[0]]} {texts[operands[1]]} {text}")
        else:
            inner = _TEXTS[operation].format(*(texts[k] for k in operands))
            text = inner if inner.startswith("(") else f"({inner})"
        texts.append(text)
    return texts, hypotheses


def theorem(formula: Formula, name: str, plan: ProofPlan = PLANS[0]) -> str:
    """The file with the theorem and its proof.

    Parameters
    ----------
    formula : Formula
        The statement.
    name : str
        The theorem's name.
    plan : ProofPlan, optional
        How to prove it.

    Returns
    -------
    str
    """
    texts, agms = _sides(formula)
    names = [one.name for one in formula.ranges]
    means = [f"M{k}" for k in range(len(agms))]
    ranges = [f"{_end(one.low)} <= {one.name} <= {_end(one.high)}" for one in formula.ranges]
    relation = "<" if formula.strict else "<="
    goal = f"{texts[formula.smaller]} {relation} {texts[formula.larger]}"
    premises = "".join(f"\n  {premise} ->" for premise in (*ranges, *agms))
    parts = [_HEAD, _LOG_AXIS if plan.log_axes and _logarithmic(formula) else "", _MEANS if agms else ""]
    bound = f" forall {' '.join((*names, *means))} : R,{premises}" if names else ""
    statement = f"\nTheorem {name} :{bound}\n  {goal}.\n"
    return "".join([*parts, statement, _proof(formula, len(agms), plan)])


def _end(end: Any) -> str:
    return end if isinstance(end, str) else _rational(end)


def _logarithmic(formula: Formula) -> list[str]:
    return [one.name for one in formula.ranges if one.scale == "log"]


def _proof(formula: Formula, means: int, plan: ProofPlan) -> str:
    names = [one.name for one in formula.ranges]
    logarithmic = _logarithmic(formula) if plan.log_axes else []
    hypotheses = [f"H{name}" for name in names] + [f"HM{k}" for k in range(means)]
    if not names:
        return "Proof.\n  interval with (i_prec 100).\nQed.\n"
    lines = [f"intros {' '.join((*names, *(f'M{k}' for k in range(means)), *hypotheses))}."]
    for k in range(means):
        lines.append(f"specialize (HM{k} {plan.means}%nat). cbn [means fst snd] in HM{k}.")
        lines.append(f"destruct (between _ _ _ HM{k}) as [s{k} [Hs{k} E{k}]]. clear HM{k}. subst M{k}.")
    for name in logarithmic:
        lines.append(f"apply log_axis in H{name}; [| positive].")
        lines.append(f"destruct H{name} as [t{name} [Ht{name} E{name}]]. subst {name}.")
    lines.append(f"apply {'Rminus_lt' if formula.strict else 'Rminus_le'}.{' rewrite ?ln_exp.' if logarithmic else ''}")
    variables = [f"t{name}" if name in logarithmic else name for name in names]  # the means are narrow
    chosen = [f"i_bisect {one}" for one in variables]
    chosen += [] if plan.option == "bisect" else [f"i_{plan.option} {variables[0]}"]
    lines.append(f"interval with ({', '.join((*chosen, 'i_depth 40', 'i_prec 50'))}).")
    return "\n  ".join(["Proof.", *lines]) + "\nQed.\n"
