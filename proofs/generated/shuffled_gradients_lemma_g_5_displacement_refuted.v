From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem shuffled_gradients_lemma_g_5_displacement_refuted :
  (((((((((((((((1) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) / (10)) * (10)) * (((((((((((1) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) / (10))) * ((1) ^ 2)) / (2)) < ((((((((((((1) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) + (1)) * (1)) ^ 2).
Proof.
  interval with (i_prec 100).
Qed.
