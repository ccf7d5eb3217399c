From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem momentum_aggregation_theorem_4_threshold_refuted :
  (10) < ((((10) ^ 2) / ((((3602879701896397 / 36028797018963968) * (1)) * (10)) * (8))) + ((sqrt ((((10) ^ 2) / ((((3602879701896397 / 36028797018963968) * (1)) * (10)) * (8))) * (((3602879701896397 / 36028797018963968) * (1)) * (10)))) * (2))).
Proof.
  interval with (i_prec 100).
Qed.
