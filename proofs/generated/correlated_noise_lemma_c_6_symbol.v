From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem correlated_noise_lemma_c_6_symbol : forall rate square : R,
  (1 / 10 ^ 300) <= rate <= (1) ->
  (0) <= square <= (1) ->
  ((99 / 100) * ((rate * rate) + ((((1) - rate) * (4)) * square))) <= (((2) - rate) * ((2) - rate)).
Proof.
  intros rate square Hrate Hsquare.
  apply Rminus_le.
  interval with (i_bisect rate, i_bisect square, i_autodiff rate, i_depth 40, i_prec 50).
Qed.
