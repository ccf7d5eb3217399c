(** Momentum aggregation: the nodes of Algorithm 3, Lemma 12 (count), Propositions 16 and 18, and Lemma 17. *)

From Coq Require Import Arith Bool Lia List PeanoNat Reals Lra Ring.
Import ListNotations.

(** Algorithm 3, COMPOSE.  The largest k up to [k] with a = 1 mod 2^k and a + 2^k - 1 <= b. *)
Fixpoint largest (k a b : nat) : nat :=
  match k with
  | O => 0
  | S j => if ((a - 1) mod 2 ^ k =? 0) && (a + 2 ^ k - 1 <=? b) then k else largest j a b
  end.

(** The nodes, by their first and last steps; each has a step at least, so [steps] calls are enough. *)
Fixpoint composed (steps a b : nat) : list (nat * nat) :=
  match steps with
  | O => []
  | S others => if b <? a then [] else
      let size := 2 ^ largest b a b in (a, a + size - 1) :: composed others (a + size) b
  end.
Definition compose (a b : nat) : list (nat * nat) := composed (b + 1 - a) a b.

Lemma power_positive : forall k, 1 <= 2 ^ k.
Proof. intro k. pose proof (Nat.pow_nonzero 2 k). lia. Qed.

Lemma largest_fits : forall k a b, 1 <= a <= b ->
  (a - 1) mod 2 ^ largest k a b = 0 /\ a + 2 ^ largest k a b <= b + 1.
Proof.
  induction k as [| k IH]; intros a b H; cbn [largest].
  - cbn. split; [reflexivity | lia].
  - destruct (((a - 1) mod 2 ^ S k =? 0) && (a + 2 ^ S k - 1 <=? b)) eqn:E; [| now apply IH].
    apply andb_prop in E as [E F]. apply Nat.eqb_eq in E. apply Nat.leb_le in F.
    pose proof (power_positive (S k)). split; [assumption | lia].
Qed.

Lemma largest_is_largest : forall K a b k,
  k <= K -> (a - 1) mod 2 ^ k = 0 -> a + 2 ^ k <= b + 1 -> k <= largest K a b.
Proof.
  induction K as [| K IH]; intros a b k H D F; cbn [largest]; [lia |].
  destruct (((a - 1) mod 2 ^ S K =? 0) && (a + 2 ^ S K - 1 <=? b)) eqn:E; [assumption |].
  destruct (Nat.eq_dec k (S K)) as [-> |]; [| apply IH; [lia | assumption..]].
  apply andb_false_iff in E as [E | E]; [apply Nat.eqb_neq in E | apply Nat.leb_gt in E]; lia.
Qed.

Lemma below_power : forall k, k < 2 ^ k.
Proof. intro k. apply Nat.pow_gt_lin_r. lia. Qed.

(** Where the first step is aligned to 2^m and the interval is shorter, the room decides about every node. *)
Lemma aligned : forall steps a b m, 1 <= a -> (a - 1) mod 2 ^ m = 0 -> b + 1 < a + 2 ^ m ->
  length (composed steps a b) <= m /\ (a <= b + 1 -> 2 ^ length (composed steps a b) <= b + 2 - a).
Proof.
  induction steps as [| steps IH]; intros a b m H D F; [cbn; lia |]. cbn [composed].
  destruct (b <? a) eqn:E; [cbn; lia |]. apply Nat.ltb_ge in E.
  set (k := largest b a b). destruct (largest_fits b a b) as [Dk Fk]; [lia |]. fold k in Dk, Fk.
  assert (K : k < m). { apply (Nat.pow_lt_mono_r_iff 2); lia. }
  assert (R : b + 1 < a + 2 ^ S k).
  { destruct (Nat.lt_ge_cases (b + 1) (a + 2 ^ S k)) as [| G]; [assumption |]. exfalso.
    assert (S k <= k); [| lia]. apply largest_is_largest; [pose proof (below_power (S k)); lia | | lia].
    apply Nat.mod_divide; [apply Nat.pow_nonzero; lia |]. apply Nat.mod_divide in D; [| apply Nat.pow_nonzero; lia].
    apply Nat.divide_trans with (2 ^ m); [| assumption]. exists (2 ^ (m - S k)).
    rewrite <- Nat.pow_add_r. f_equal. lia. }
  rewrite Nat.pow_succ_r' in R.
  destruct (IH (a + 2 ^ k) b k) as [L P]; [lia | | lia |].
  - replace (a + 2 ^ k - 1) with (a - 1 + 1 * 2 ^ k) by lia.
    rewrite Nat.mod_add by (apply Nat.pow_nonzero; lia). assumption.
  - cbn [length]. specialize (P ltac:(lia)). split; [lia |].
    rewrite Nat.pow_succ_r'. pose proof (Nat.pow_le_mono_r 2 _ _ ltac:(lia) L). lia.
Qed.

Theorem nodes_of_a_prefix : forall t, length (compose 1 t) <= Nat.log2 (t + 1).
Proof.
  intro t. apply Nat.log2_le_pow2; [lia |]. unfold compose.
  destruct (aligned (t + 1 - 1) 1 t t) as [_ P].
  - lia.
  - apply Nat.mod_0_l, Nat.pow_nonzero. lia.
  - pose proof (below_power t). lia.
  - specialize (P ltac:(lia)). lia.
Qed.

Theorem proposition_18_prefixes : forall b, 1 <= b -> length (compose 1 b) <= 1 + Nat.log2 b.
Proof.
  intros b H. pose proof (nodes_of_a_prefix b). pose proof (Nat.log2_succ_le b).
  rewrite Nat.add_1_r in *. lia.
Qed.

(** Otherwise the alignment doubles at least until the room decides. *)
Lemma unaligned : forall steps a b j m, 1 <= a -> (a - 1) mod 2 ^ j = 0 -> j <= m -> b + 1 < a + 2 ^ m ->
  length (composed steps a b) <= (m - j) + m.
Proof.
  induction steps as [| steps IH]; intros a b j m H D J F; [cbn; lia |].
  destruct (Nat.lt_ge_cases (b + 1) (a + 2 ^ j)) as [G | G].
  { pose proof (aligned (S steps) a b j H D G). lia. }
  cbn [composed]. destruct (b <? a) eqn:E; [cbn; lia |]. apply Nat.ltb_ge in E.
  set (k := largest b a b). destruct (largest_fits b a b) as [Dk Fk]; [lia |]. fold k in Dk, Fk.
  assert (j <= k). { apply largest_is_largest; [pose proof (below_power j); lia | assumption | lia]. }
  assert (k < m). { apply (Nat.pow_lt_mono_r_iff 2); lia. }
  assert (Z : 2 ^ k <> 0) by (apply Nat.pow_nonzero; lia).
  assert (N : (a + 2 ^ k - 1) mod 2 ^ k = 0).
  { replace (a + 2 ^ k - 1) with (a - 1 + 1 * 2 ^ k) by lia. now rewrite Nat.mod_add. }
  cbn [length]. destruct ((a - 1) mod 2 ^ S k) eqn:A.
  - assert (R : b + 1 < a + 2 ^ S k).
    { destruct (Nat.lt_ge_cases (b + 1) (a + 2 ^ S k)) as [| W]; [assumption |]. exfalso.
      assert (S k <= k); [| lia]. apply largest_is_largest; [pose proof (below_power (S k)); lia | assumption | lia]. }
    rewrite Nat.pow_succ_r' in R. destruct (aligned steps (a + 2 ^ k) b k) as [L _]; [lia | assumption | lia |]. lia.
  - assert (M : (a + 2 ^ k - 1) mod 2 ^ S k = 0).
    { apply Nat.mod_divide in Dk; [| assumption]. destruct Dk as [c C].
      rewrite Nat.pow_succ_r' in *. destruct (Nat.Even_or_Odd c) as [[e P] | [e P]]; subst c.
      - rewrite C in A. replace (2 * e * 2 ^ k) with (e * (2 * 2 ^ k)) in A by lia.
        rewrite Nat.mod_mul in A by lia. lia.
      - replace (a + 2 ^ k - 1) with ((e + 1) * (2 * 2 ^ k)) by lia. apply Nat.mod_mul. lia. }
    pose proof (IH (a + 2 ^ k) b (S k) m ltac:(lia) M ltac:(lia) ltac:(lia)). lia.
Qed.

Theorem proposition_18 : forall a b, 1 <= a <= b -> length (compose a b) <= 2 * (1 + Nat.log2 (b - a + 1)).
Proof.
  intros a b H. pose proof (unaligned (b + 1 - a) a b 0 (S (Nat.log2 (b - a + 1)))) as U. unfold compose.
  destruct (Nat.log2_spec (b - a + 1) ltac:(lia)) as [_ L].
  specialize (U ltac:(lia) eq_refl ltac:(lia) ltac:(lia)). lia.
Qed.

(** The nodes are dyadic, and their steps, one node after the other, are those of the interval, each once. *)
Definition steps_of (node : nat * nat) : list nat := seq (fst node) (snd node + 1 - fst node).
Definition dyadic (node : nat * nat) : Prop := exists q k, node = (q * 2 ^ k + 1, (q + 1) * 2 ^ k).

Theorem proposition_18_cover : forall a b, 1 <= a <= b ->
  Forall dyadic (compose a b) /\ flat_map steps_of (compose a b) = seq a (b + 1 - a).
Proof.
  intros a b H. unfold compose. assert (G : b + 1 - a <= b + 1 - a) by lia. revert G.
  generalize (b + 1 - a) at 2 3 4 as steps. intro steps.
  assert (A : 1 <= a <= b + 1) by lia. clear H. revert a A.
  induction steps as [| steps IH]; intros a A G; cbn [composed flat_map].
  - replace (b + 1 - a) with 0 by lia. now split.
  - destruct (b <? a) eqn:E; [apply Nat.ltb_lt in E | apply Nat.ltb_ge in E].
    { replace (b + 1 - a) with 0 by lia. now split. }
    set (k := largest b a b). destruct (largest_fits b a b) as [D F]; [lia |]. fold k in D, F.
    pose proof (power_positive k). destruct (IH (a + 2 ^ k)) as [S T]; [lia | lia |]. split.
    + constructor; [| assumption]. apply Nat.mod_divide in D; [| lia]. destruct D as [q Q].
      exists q, k. f_equal; lia.
    + cbn [flat_map]. rewrite T. unfold steps_of. cbn [fst snd].
      replace (a + 2 ^ k - 1 + 1 - a) with (2 ^ k) by lia.
      rewrite <- seq_app. f_equal. lia.
Qed.

(** The printed number of nodes of Lemma 12, for N examples, T = N E steps and any height R of the tree. *)
Fixpoint sum_of (terms : nat) (f : nat -> nat) : nat := match terms with O => 0 | S k => sum_of k f + f k end.

Definition printed_count (N E R : nat) : nat :=
  (Nat.min R (Nat.log2 N) + 1) * E + sum_of (R - Nat.log2 N) (fun j => N * E / 2 ^ (Nat.log2 N + 1 + j)).

Lemma sum_of_first : forall k f, sum_of (S k) f = f 0 + sum_of k (fun i => f (S i)).
Proof.
  induction k as [| k IH]; intro f; [cbn; lia |].
  change (sum_of (S (S k)) f) with (sum_of (S k) f + f (S k)). rewrite IH. cbn. lia.
Qed.

Lemma sum_of_equal : forall k f g, (forall i, f i = g i) -> sum_of k f = sum_of k g.
Proof. induction k as [| k IH]; intros f g H; [reflexivity |]. cbn. now rewrite (IH f g), H. Qed.

Lemma halves : forall k x, sum_of k (fun j => x / 2 ^ (1 + j)) <= x.
Proof.
  induction k as [| k IH]; intro x; [cbn; lia |]. rewrite sum_of_first.
  rewrite (sum_of_equal k _ (fun j => x / 2 / 2 ^ (1 + j))).
  - specialize (IH (x / 2)). cbn [Nat.add Nat.pow] in *. rewrite Nat.mul_1_r.
    pose proof (Nat.div_mod x 2). lia.
  - intro i. replace (1 + S i) with (1 + (1 + i)) by lia.
    rewrite (Nat.pow_add_r 2 1), Nat.div_div; [reflexivity | lia |].
    apply Nat.pow_nonzero. lia.
Qed.

Theorem lemma_12_count : forall N E R, 2 <= N * E -> printed_count N E R <= 4 * E * Nat.log2 (N * E).
Proof.
  intros N E R H. unfold printed_count. set (l := Nat.log2 N).
  assert (P : 1 <= N /\ 1 <= E) by (split; [destruct N | destruct E]; lia). destruct P as [P Q].
  destruct (Nat.log2_spec N ltac:(lia)) as [_ B]. fold l in B. rewrite Nat.pow_succ_r' in B.
  rewrite (sum_of_equal _ _ (fun j => N * E / 2 ^ l / 2 ^ (1 + j))).
  2: { intro j. rewrite Nat.div_div by (apply Nat.pow_nonzero; lia). rewrite <- Nat.pow_add_r. f_equal. f_equal. lia. }
  pose proof (halves (R - l) (N * E / 2 ^ l)) as S.
  assert (X : N * E / 2 ^ l <= 2 * E).
  { apply Nat.div_le_upper_bound; [apply Nat.pow_nonzero; lia |]. nia. }
  pose proof (Nat.le_min_r R l).
  assert (L : l <= Nat.log2 (N * E)) by (apply Nat.log2_le_mono; nia).
  assert (G : 1 <= Nat.log2 (N * E)) by (change 1 with (Nat.log2 2); apply Nat.log2_le_mono; assumption).
  destruct (Nat.eq_dec l 0) as [Z | Z]; [| nia].
  assert (N = 1) by (rewrite Z in B; cbn in B; lia). subst N. rewrite Z in *. cbn [Nat.pow] in *.
  rewrite Nat.mul_1_l in *. rewrite Nat.div_1_r in *. nia.
Qed.

(** Proposition 16, for whole numbers below 2^(R + 1) and their binary digits. *)
Open Scope R_scope.

Fixpoint total (terms : nat) (f : nat -> R) : R :=
  match terms with O => 0 | S k => total k f + f k end.

Lemma total_first : forall k f, total (S k) f = f O + total k (fun i => f (S i)).
Proof.
  induction k as [| k IH]; intro f; [cbn; ring |].
  change (total (S (S k)) f) with (total (S k) f + f (S k)). rewrite IH. cbn. ring.
Qed.

Lemma total_equal : forall k f g, (forall i, (i < k)%nat -> f i = g i) -> total k f = total k g.
Proof. induction k as [| k IH]; intros f g H; [reflexivity |]. cbn. rewrite (IH f g), H; auto. Qed.

Lemma total_times : forall k c f, total k (fun i => c * f i) = c * total k f.
Proof. induction k as [| k IH]; intros c f; cbn; [ring | rewrite IH; ring]. Qed.

Lemma total_positive : forall k f, (forall i, 0 <= f i) -> 0 <= total k f.
Proof. induction k as [| k IH]; intros f H; cbn; [lra |]. specialize (IH f H). specialize (H k). lra. Qed.

Theorem proposition_16 : forall gamma R s, 0 < gamma < 1 -> (s < 2 ^ (R + 1))%nat ->
  total (R + 1) (fun i => if Nat.testbit s i then gamma ^ (2 * (s mod 2 ^ i)) else 0)
  <= 1 + total R (fun i => gamma ^ (2 ^ (i + 1))).
Proof.
  intros gamma R s. rewrite Nat.add_1_r. revert gamma s.
  induction R as [| R IH]; intros gamma s G B.
  - cbn [total]. rewrite Nat.mod_1_r. destruct (Nat.testbit s 0); cbn; lra.
  - set (q := (s / 2)%nat). assert (Q : (q < 2 ^ S R)%nat).
    { apply Nat.div_lt_upper_bound; [lia |]. rewrite Nat.pow_succ_r' in B. lia. }
    assert (G2 : 0 < gamma * gamma < 1) by nra.
    specialize (IH (gamma * gamma) q G2 Q).
    set (bit := if Nat.testbit s 0 then 1%nat else 0%nat).
    assert (P : (s = 2 * q + bit)%nat).
    { unfold q, bit. rewrite (Nat.div_mod s 2) at 1 by lia. rewrite <- Nat.bit0_mod. now destruct (Nat.testbit s 0). }
    rewrite (total_first (S R)), (total_first R (fun i => gamma ^ (2 ^ (i + 1)))).
    rewrite (total_equal _ _ (fun i => (gamma * gamma) ^ bit *
      (if Nat.testbit q i then (gamma * gamma) ^ (2 * (q mod 2 ^ i)) else 0))).
    2: { intros i _. cbv beta. assert (T : Nat.testbit s (S i) = Nat.testbit q i).
         { unfold q. rewrite <- Nat.div2_div. cbn [Nat.testbit]. reflexivity. }
         rewrite T. destruct (Nat.testbit q i); [| ring].
         rewrite <- pow_add. replace (gamma * gamma) with (gamma ^ 2) by ring. rewrite <- pow_mult. f_equal.
         rewrite Nat.pow_succ_r', P. rewrite Nat.mod_mul_r.
         2, 3: apply Nat.pow_nonzero || idtac; lia.
         rewrite (Nat.add_comm (2 * q)), (Nat.mul_comm 2 q), Nat.mod_add, Nat.div_add by lia.
         unfold bit. destruct (Nat.testbit s 0); cbn; lia. }
    rewrite total_times.
    rewrite (total_equal R (fun i => gamma ^ (2 ^ (S i + 1))) (fun i => (gamma * gamma) ^ (2 ^ (i + 1)))).
    2: { intros i _. cbv beta. replace (gamma * gamma) with (gamma ^ 2) by ring. rewrite <- pow_mult. f_equal. }
    assert (Z : 0 <= total R (fun i => (gamma * gamma) ^ (2 ^ (i + 1)))).
    { apply total_positive. intro i. apply pow_le. lra. }
    replace (gamma ^ 2 ^ (0 + 1)) with (gamma * gamma) by (cbn; ring).
    replace (s mod 2 ^ 0)%nat with 0%nat by (rewrite Nat.pow_0_r, Nat.mod_1_r; reflexivity).
    revert IH Z.
    generalize (total (S R) (fun i => if Nat.testbit q i then (gamma * gamma) ^ (2 * (q mod 2 ^ i)) else 0)).
    generalize (total R (fun i => (gamma * gamma) ^ (2 ^ (i + 1)))). intros right left IH Z.
    unfold bit. destruct (Nat.testbit s 0); cbn [pow Nat.mul Nat.add]; [| lra].
    assert (gamma * gamma * left <= gamma * gamma * (1 + right)) by (apply Rmult_le_compat_l; lra).
    assert (gamma * gamma * right <= 1 * right) by (apply Rmult_le_compat_r; lra). lra.
Qed.
Close Scope R_scope.

(** Lemma 17 in any commutative ring.  Step t of the paper is number t - 1 here, because leaves are counted from 0. *)
Section Lemma17.
  Variables (A : Type) (zero one : A) (add mul sub : A -> A -> A) (opp : A -> A).
  Hypothesis laws : ring_theory zero one add mul sub opp eq.
  Add Ring scalars : laws.
  Notation "0" := zero. Notation "1" := one. Infix "+" := add. Infix "*" := mul. Infix "-" := sub.

  Fixpoint power (x : A) (k : nat) : A := match k with O => 1 | S j => x * power x j end.
  Fixpoint sum (terms : nat) (f : nat -> A) : A := match terms with O => 0 | S k => sum k f + f k end.

  (** The decayed sum of [length] leaves from number [from] on. *)
  Fixpoint window (decay : A) (leaf : nat -> A) (from length : nat) : A :=
    match length with O => 0 | S l => decay * window decay leaf from l + leaf (from + l)%nat end.

  Lemma power_add : forall x j k, power x (j + k) = power x j * power x k.
  Proof. induction j as [| j IH]; intro k; cbn; [ring | rewrite IH; ring]. Qed.

  Lemma power_mul : forall x j k, power x (j * k) = power (power x j) k.
  Proof.
    intros x j; induction k as [| k IH]; [now rewrite Nat.mul_0_r |].
    rewrite Nat.mul_succ_r, Nat.add_comm, power_add, IH. reflexivity.
  Qed.

  Lemma sum_equal : forall k f g, (forall i, i < k -> f i = g i) -> sum k f = sum k g.
  Proof. induction k as [| k IH]; intros f g H; [reflexivity |]. cbn. rewrite (IH f g), H; auto. Qed.

  Lemma sum_plus : forall k f g, sum k (fun i => f i + g i) = sum k f + sum k g.
  Proof. induction k as [| k IH]; intros f g; cbn; [ring | rewrite IH; ring]. Qed.

  Lemma sum_times : forall k c f, sum k (fun i => c * f i) = c * sum k f.
  Proof. induction k as [| k IH]; intros c f; cbn; [ring | rewrite IH; ring]. Qed.

  Lemma sum_first : forall k f, sum (S k) f = f O + sum k (fun i => f (S i)).
  Proof.
    induction k as [| k IH]; intro f; [cbn; ring |].
    change (sum (S (S k)) f) with (sum (S k) f + f (S k)). rewrite IH. cbn. ring.
  Qed.

  Lemma sum_reversed : forall k f, sum k (fun i => f (k - 1 - i)%nat) = sum k f.
  Proof.
    induction k as [| k IH]; intro f; [reflexivity |]. rewrite (sum_first k f).
    cbn [sum]. replace (S k - 1 - k)%nat with O by lia. rewrite <- (IH (fun i => f (S i))).
    rewrite (sum_equal k _ (fun i => f (S (k - 1 - i)))); [ring |]. intros i H. f_equal. lia.
  Qed.

  Lemma window_splits : forall decay leaf from k l,
    window decay leaf from (k + l) = power decay l * window decay leaf from k + window decay leaf (from + k) l.
  Proof.
    intros decay leaf from k l. induction l as [| l IH]; [rewrite Nat.add_0_r; cbn; ring |].
    rewrite Nat.add_succ_r. cbn [window power]. rewrite IH, Nat.add_assoc. ring.
  Qed.

  Variables (alpha gamma : A) (examples : nat) (G D defect : nat -> A).
  Hypothesis leaves : forall t, G (t + examples) = D (t + examples) + defect (t + examples) + G t.

  Let decay := 1 - alpha.
  Definition weight (i : nat) : A :=
    sum i (fun j => power (1 - gamma) j * power (1 - alpha) ((i - 1 - j) * examples)).

  Lemma weight_next : forall i, weight (S i) = power decay examples * weight i + power (1 - gamma) i.
  Proof.
    intro i. unfold weight. cbn [sum]. rewrite <- sum_times. replace (S i - 1 - i)%nat with O by lia.
    cbn [Nat.mul power].
    rewrite (sum_equal i (fun j => power (1 - gamma) j * power (1 - alpha) ((S i - 1 - j) * examples))
      (fun j => power decay examples * (power (1 - gamma) j * power (1 - alpha) ((i - 1 - j) * examples)))); [ring |].
    intros j H. replace ((S i - 1 - j) * examples)%nat with (examples + (i - 1 - j) * examples)%nat.
    - rewrite power_add. fold decay. ring.
    - replace (S i - 1 - j)%nat with (S (i - 1 - j)) by lia. reflexivity.
  Qed.

  Lemma window_of_leaves : forall from length, window decay G (from + examples) length =
    window decay D (from + examples) length + window decay defect (from + examples) length + window decay G from length.
  Proof.
    intros from length. induction length as [| l IH]; cbn [window]; [ring |].
    rewrite IH. replace (from + examples + l)%nat with (from + l + examples)%nat by lia. rewrite leaves. ring.
  Qed.

  (** The window number j after the first r leaves. *)
  Let V (r j : nat) : A := window decay G (r + j * examples) examples.
  Let step (r j : nat) : A := V r (S j) - (1 - gamma) * V r j.

  Lemma telescope : forall r q,
    sum q (fun j => power (1 - gamma) (q - 1 - j) * step r j) = V r q - power (1 - gamma) q * V r 0.
  Proof.
    intros r q. induction q as [| q IH]; [cbn; ring |]. cbn [sum].
    rewrite (sum_equal q _ (fun j => (1 - gamma) * (power (1 - gamma) (q - 1 - j) * step r j))).
    - rewrite sum_times, IH. replace (S q - 1 - q)%nat with O by lia. unfold step. cbn [power]. ring.
    - intros j H. replace (S q - 1 - j)%nat with (S (q - 1 - j)) by lia. cbn [power]. ring.
  Qed.

  Lemma reordered : forall r q, window decay G 0 (q * examples + r) =
    power (power decay examples) q * window decay G 0 r + weight q * V r 0
    + sum (q - 1) (fun j => weight (q - 1 - j) * step r j).
  Proof.
    intros r q. induction q as [| q IH]; [cbn; ring |].
    replace (S q * examples + r)%nat with (q * examples + r + examples)%nat by lia.
    rewrite window_splits, IH. replace (0 + (q * examples + r))%nat with (r + q * examples)%nat by lia. fold (V r q).
    rewrite weight_next. replace (S q - 1)%nat with q by lia. cbn [power].
    rewrite (sum_equal q (fun j => weight (q - j) * step r j) (fun j =>
      power decay examples * (weight (q - 1 - j) * step r j) + power (1 - gamma) (q - 1 - j) * step r j)).
    2: { intros j H. replace (q - j)%nat with (S (q - 1 - j)) by lia. rewrite weight_next. ring. }
    rewrite sum_plus, sum_times, telescope.
    assert (L : sum q (fun j => weight (q - 1 - j) * step r j) = sum (q - 1) (fun j => weight (q - 1 - j) * step r j)).
    { destruct q as [| q]; [reflexivity |]. cbn [sum]. replace (S q - 1)%nat with q by lia. rewrite Nat.sub_diag.
      unfold weight at 2. cbn. ring. }
    rewrite L. ring.
  Qed.

  (** With T = q N + r the window W_i begins at number T - i N. *)
  Theorem lemma_17 : forall q r T, T = (q * examples + r)%nat ->
    window (1 - alpha) G 0 T =
      power (1 - alpha) (T - r) * window (1 - alpha) G 0 r
      + sum q (fun i => power (1 - alpha) (examples * i) * power (1 - gamma) (q - (i + 1)))
        * window (1 - alpha) G r examples
      + sum (q - 1) (fun i => weight (i + 1) *
          ((1 - gamma) * (window (1 - alpha) D (T - (i + 1) * examples) examples
                          + window (1 - alpha) defect (T - (i + 1) * examples) examples)
           + gamma * window (1 - alpha) G (T - (i + 1) * examples) examples)).
  Proof.
    intros q r T ->. fold decay. rewrite reordered.
    replace (q * examples + r - r)%nat with (examples * q)%nat by lia. rewrite power_mul. f_equal; [f_equal |].
    - unfold V. replace (r + 0 * examples)%nat with r by lia. f_equal. unfold weight. rewrite <- sum_reversed.
      apply sum_equal. intros i H. rewrite (Nat.mul_comm examples). fold decay.
      replace (q - 1 - (q - 1 - i))%nat with i by lia. replace (q - (i + 1))%nat with (q - 1 - i)%nat by lia. ring.
    - rewrite <- (sum_reversed (q - 1) (fun j => weight (q - 1 - j) * step r j)). apply sum_equal. intros i H.
      replace (q - 1 - (q - 1 - 1 - i))%nat with (i + 1)%nat by lia. f_equal. unfold step, V.
      replace (q * examples + r - (i + 1) * examples)%nat with (r + (q - 1 - 1 - i) * examples + examples)%nat by nia.
      replace (r + S (q - 1 - 1 - i) * examples)%nat with (r + (q - 1 - 1 - i) * examples + examples)%nat by lia.
      rewrite window_of_leaves. ring.
  Qed.
End Lemma17.

(** Lemma 17 as printed, without the last sum, for two examples of slopes 0 and 1 in the orders (1, 2) and (2, 1),
    T = 4, alpha = gamma = 1/2, q = 2 and r = 0: D is 0, the left side 3/4 and the right side 1. *)
Open Scope R_scope.
Definition orders (t : nat) : R := match t with 1%nat => 1 | 2%nat => 1 | _ => 0 end.

Theorem lemma_17_printed : let G := window R 0 Rplus Rmult (1 / 2) orders in
  G 0%nat 4%nat = 3 / 4 /\ (1 / 2 + (1 / 2) ^ 2) * G 0%nat 2%nat + 1 / 2 * G 2%nat 2%nat = 1.
Proof. cbn. lra. Qed.
