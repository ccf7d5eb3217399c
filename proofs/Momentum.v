(** Finite combinatorics of momentum aggregation: binary nodes, Lemma 17 and its printed counterexample. *)

From Coq Require Import Arith Lia PeanoNat QArith Ring.

(** The number of nodes of a prefix is the number of ones among the binary digits of its length. *)
Fixpoint ones (p : positive) : nat :=
  match p with xH => 1 | xO q => ones q | xI q => S (ones q) end.

Lemma power_of_ones : forall p, (2 ^ ones p <= Pos.to_nat p + 1)%nat.
Proof.
  induction p as [q IH | q IH |]; cbn [ones].
  - rewrite Pos2Nat.inj_xI. rewrite Nat.pow_succ_r'. lia.
  - rewrite Pos2Nat.inj_xO. lia.
  - cbn. lia.
Qed.

(** Lemma 12's bound: a prefix of length t has at most log2 (t + 1) nodes. *)
Theorem nodes_of_a_prefix : forall p, (ones p <= Nat.log2 (Pos.to_nat p + 1))%nat.
Proof.
  intro p. apply Nat.log2_le_pow2; [lia | apply power_of_ones].
Qed.

(** The bound is attained at all lengths 2^k - 1. *)
Fixpoint all_ones (k : nat) : positive := match k with O => xH | S j => xI (all_ones j) end.

Theorem bound_attained : forall k, ones (all_ones k) = Nat.log2 (Pos.to_nat (all_ones k) + 1)%nat.
Proof.
  intro k.
  assert (H : (Pos.to_nat (all_ones k) + 1 = 2 ^ S k)%nat).
  { induction k as [| k IH]; [reflexivity |].
    cbn [all_ones]. rewrite Pos2Nat.inj_xI. rewrite (Nat.pow_succ_r' 2 (S k)). lia. }
  rewrite H, Nat.log2_pow2 by lia.
  clear H. induction k as [| k IH]; [reflexivity | cbn [all_ones ones]; now rewrite IH].
Qed.

(** Adding a leaf frees as many nodes as the length ends in ones, and makes one. *)
Fixpoint trailing (p : positive) : nat := match p with xI q => S (trailing q) | xO _ => 0 | xH => 1 end.

Theorem a_leaf_merges_its_trailing_ones : forall p, (ones (Pos.succ p) + trailing p = S (ones p))%nat.
Proof. induction p as [q IH | q IH |]; cbn [ones trailing Pos.succ]; lia. Qed.

Open Scope Q_scope.

(** One window sum of momentum: the value after steps is the decayed sum of the leaves. *)
Section Windows.
  Variable decay : Q.
  Variable leaf : nat -> Q.

  Fixpoint momentum (t : nat) : Q := match t with O => 0 | S s => decay * momentum s + leaf s end.
  Fixpoint power (k : nat) : Q := match k with O => 1 | S j => decay * power j end.

  (** The decayed sum of the leaves from [from] on. *)
  Fixpoint window (from length : nat) : Q :=
    match length with O => 0 | S l => decay * window from l + leaf (from + l)%nat end.

  (** A prefix is its earlier part, decayed, and the window after it. *)
  Theorem prefix_splits : forall s l, momentum (s + l) == power l * momentum s + window s l.
  Proof.
    intros s l; induction l as [| l IH].
    - rewrite Nat.add_0_r. cbn. ring.
    - rewrite Nat.add_succ_r. cbn [momentum power window]. rewrite IH. ring.
  Qed.
End Windows.

(** Lemma 17 as printed, for two examples of slopes 0 and 1 in the orders (1, 2) and (2, 1), T = 4, alpha = gamma = 1/2:
    q = 2, r = 0, so the right side is (1 - alpha)^4 G_[1,0] + ((1 - gamma) + (1 - alpha)^2) G_[1,2]
    + (1 - gamma) Delta_[3,4] + gamma G_[3,4], where G_[1,0] = 0 and Delta = 0.  It is 1, and the left side 3/4. *)
Definition orders (t : nat) : Q := match t with 1%nat => 1 | 2%nat => 1 | _ => 0 end.
Definition half : Q := 1 # 2.

Theorem lemma_17_left : momentum half orders 4 == 3 # 4.
Proof. reflexivity. Qed.

Theorem lemma_17_printed_right :
  (half + half * half) * window half orders 0 2 + (half * 0 + half * window half orders 2 2) == 1.
Proof. reflexivity. Qed.
