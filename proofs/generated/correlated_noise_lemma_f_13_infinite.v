From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Lemma log_axis : forall a b x : R, 0 < a -> a <= x <= b -> exists t : R, ln a <= t <= ln b /\ x = exp t.
Proof.
  assert (rises : forall u v : R, 0 < u -> u <= v -> ln u <= ln v).
  { intros u v Hu [H | H]; [left; now apply ln_increasing | right; now rewrite H]. }
  intros a b x Ha [Hl Hh]. exists (ln x). repeat split.
  - now apply rises.
  - apply rises; lra.
  - rewrite exp_ln; lra.
Qed.
Ltac positive := match goal with
  | |- 0 < _ / _ => apply Rmult_lt_0_compat; [positive | apply Rinv_0_lt_compat; positive]
  | |- 0 < _ ^ _ => apply pow_lt; positive
  | |- _ => apply IZR_lt; reflexivity
  end.

Theorem correlated_noise_lemma_f_13_infinite : forall cut : R,
  (1 / 10 ^ 300) <= cut <= (1) ->
  (18 / 5) <= ((((cut / (2)) * (cos (cut / (2)))) / (sin (cut / (2)))) * (4)).
Proof.
  intros cut Hcut.
  apply log_axis in Hcut; [| positive].
  destruct Hcut as [tcut [Htcut Ecut]]. subst cut.
  apply Rminus_le. rewrite ?ln_exp.
  interval with (i_bisect tcut, i_autodiff tcut, i_depth 40, i_prec 50).
Qed.
