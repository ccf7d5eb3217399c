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

Theorem correlated_noise_remark_f_7_sum : forall logarithm root : R,
  (109861228866811 / 100000000000000) <= logarithm <= (1000000000) ->
  (0) <= root <= (1) ->
  ((((root * (2)) * (sqrt logarithm)) + (1)) + (((root * (2)) * root) * logarithm)) <= ((3) * ((sqrt logarithm) + ((root * root) * logarithm))).
Proof.
  intros logarithm root Hlogarithm Hroot.
  apply log_axis in Hlogarithm; [| positive].
  destruct Hlogarithm as [tlogarithm [Htlogarithm Elogarithm]]. subst logarithm.
  apply Rminus_le. rewrite ?ln_exp.
  interval with (i_bisect tlogarithm, i_bisect root, i_autodiff tlogarithm, i_depth 40, i_prec 50).
Qed.
