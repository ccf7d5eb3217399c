From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem correlated_noise_lemma_f_20_equality_refuted :
  (2) < (((3 / 2) / (1)) + ((exp ((3 / 2) - ((1) * ((3 / 2) / (1))))) / (1))).
Proof.
  interval with (i_prec 100).
Qed.
