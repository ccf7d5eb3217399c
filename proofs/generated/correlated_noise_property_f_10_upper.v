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

Fixpoint means (n : nat) (x y : R) : R * R :=
  match n with O => (x, y) | S n => means n ((x + y) / 2) (sqrt (x * y)) end.
Definition is_agm (x y m : R) : Prop := forall n : nat, snd (means (S n) x y) <= m <= fst (means (S n) x y).

Lemma between : forall g a m : R, g <= m <= a -> exists s : R, 0 <= s <= 1 /\ m = g + s * (a - g).
Proof.
  intros g a m [Hl Hh]. destruct (Req_dec g a) as [E | E].
  - exists 0. lra.
  - exists ((m - g) / (a - g)). assert (0 < a - g) by lra. repeat split.
    + apply Rmult_le_pos; [lra | left; now apply Rinv_0_lt_compat].
    + apply (Rmult_le_reg_r (a - g)); [lra | field_simplify; lra].
    + field. lra.
Qed.

Theorem correlated_noise_property_f_10_upper : forall complement M0 : R,
  (1 / 10) <= complement <= (1) ->
  is_agm (1) complement M0 ->
  ((PI / (2)) / M0) <= ((((1 / 4) * (complement ^ 2)) + (1)) * ((ln (4)) - (ln complement))).
Proof.
  intros complement M0 Hcomplement HM0.
  specialize (HM0 2%nat). cbn [means fst snd] in HM0.
  destruct (between _ _ _ HM0) as [s0 [Hs0 E0]]. clear HM0. subst M0.
  apply log_axis in Hcomplement; [| positive].
  destruct Hcomplement as [tcomplement [Htcomplement Ecomplement]]. subst complement.
  apply Rminus_le. rewrite ?ln_exp.
  interval with (i_bisect tcomplement, i_autodiff tcomplement, i_depth 40, i_prec 50).
Qed.
