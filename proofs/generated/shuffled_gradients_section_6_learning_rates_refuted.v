From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem shuffled_gradients_section_6_learning_rates_refuted :
  ((1 / 1000000000000) + (1)) < (Rabs ((1) - (((1) * (1 / 2)) * ((9) * (2))))).
Proof.
  interval with (i_prec 100).
Qed.
