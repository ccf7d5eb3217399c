From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem shuffled_gradients_equation_21_refuted :
  ((((1 / 2) ^ 1) * (1)) / (2)) < ((((1 / 2) ^ 0) + ((1 / 2) ^ 1)) / (3)).
Proof.
  interval with (i_prec 100).
Qed.
