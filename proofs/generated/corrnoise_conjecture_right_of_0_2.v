From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

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

Theorem corrnoise_conjecture_right_of_0_2 : forall x M0 : R,
  (1 / 5) <= x <= (1667 / 5000) ->
  is_agm x ((2) - x) M0 ->
  ((((1) / ((1) - x)) + (1)) * ((1) / M0)) <= ((289 / 100) + (x * (0))).
Proof.
  intros x M0 Hx HM0.
  specialize (HM0 2%nat). cbn [means fst snd] in HM0.
  destruct (between _ _ _ HM0) as [s0 [Hs0 E0]]. clear HM0. subst M0.
  apply Rminus_le.
  interval with (i_bisect x, i_autodiff x, i_depth 40, i_prec 50).
Qed.
