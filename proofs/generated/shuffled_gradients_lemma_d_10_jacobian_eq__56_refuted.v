From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem shuffled_gradients_lemma_d_10_jacobian_eq__56_refuted :
  (((((3602879701896397 / 72057594037927936) / (1)) ^ 2) * (4)) * (1)) < ((((3602879701896397 / 72057594037927936) / (1)) * (1)) / (((((3602879701896397 / 72057594037927936) / (1)) * (4)) * (0)) + (1))).
Proof.
  interval with (i_prec 100).
Qed.
