(** Noise cancellation: Lemma A.7, for any signs. *)

From Coq Require Import Arith Lia Reals Lra.
Open Scope R_scope.

Fixpoint total (terms : nat) (f : nat -> R) : R :=
  match terms with O => 0 | S k => total k f + f k end.

Lemma total_at_most : forall k f b, (forall t, (t < k)%nat -> f t <= b) -> total k f <= INR k * b.
Proof.
  induction k as [| k IH]; intros f b H; [cbn; lra |].
  cbn [total]. rewrite S_INR. specialize (IH f b ltac:(auto)). specialize (H k ltac:(lia)). lra.
Qed.

Theorem lemma_a7 : forall (T : nat) (A : nat -> R) (B : R),
  (forall t, (t < T)%nat -> A t <= / (2 * INR T) * total T A + B) -> forall t, (t < T)%nat -> A t <= 2 * B.
Proof.
  intros T A B H t L. assert (P : 0 < INR T) by (apply lt_0_INR; lia).
  pose proof (total_at_most T A _ H) as S. specialize (H t L).
  replace (INR T * (/ (2 * INR T) * total T A + B)) with (total T A / 2 + INR T * B) in S by (field; lra).
  assert (M : / (2 * INR T) * total T A <= / (2 * INR T) * (2 * INR T * B)).
  { apply Rmult_le_compat_l; [apply Rlt_le, Rinv_0_lt_compat; lra | lra]. }
  rewrite <- Rmult_assoc, <- Rmult_assoc in M.
  replace (/ (2 * INR T) * 2 * INR T) with 1 in M by (field; lra). lra.
Qed.
