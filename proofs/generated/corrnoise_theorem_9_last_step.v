From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem corrnoise_theorem_9_last_step : forall root : R,
  (0) <= root <= (8909 / 10000) ->
  ((((2) / (sqrt ((2) - (((root * root) * root) * ((root * root) * root))))) + (((((3419 / 10000) * root) * (2)) * ((3419 / 10000) * root)) * ((root * root) * root))) + (((sqrt (((2) / ((1) - (((root * root) * root) * ((root * root) * root)))) / ((2) - (((root * root) * root) * ((root * root) * root))))) * (2)) * ((439 / 200) + (((1141 / 1000) * ((3419 / 10000) * root)) * ((root * root) * root))))) <= ((1161 / 200) + (((25 / 4) * root) * ((root * root) * root))).
Proof.
  intros root Hroot.
  apply Rminus_le.
  interval with (i_bisect root, i_autodiff root, i_depth 40, i_prec 50).
Qed.
