From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem correlated_noise_property_d_2_67_to_69_refuted :
  (((1) * ((1) - ((1 / 2) * ((1) ^ 2)))) + (((((1 / 2) * (((1) * (0)) - ((1) * (0)))) * (1)) + (0)) * (1))) < (1).
Proof.
  interval with (i_prec 100).
Qed.
