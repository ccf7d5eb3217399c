From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem momentum_aggregation_theorem_8_later_epochs_refuted :
  (((((4) * (10)) / (1000)) * (ln (1000))) / (ln (2))) < (4).
Proof.
  interval with (i_prec 100).
Qed.
