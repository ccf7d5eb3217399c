From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem shuffled_gradients_lemma_d_10_as_stated_refuted :
  (((((10) / (1)) ^ 2) * (4)) * (1)) < (((((10) / (1)) * ((((((((1) - (((10) / (1)) * (1))) * ((1) - (((10) / (1)) * (1)))) * ((1) - (((10) / (1)) * (1)))) + (((1) - (((10) / (1)) * (1))) * ((1) - (((10) / (1)) * (1))))) + ((1) - (((10) / (1)) * (1)))) + (1)) / (4))) / (((((10) / (1)) * (4)) * (0)) + (1))) * (- 1)).
Proof.
  interval with (i_prec 100).
Qed.
