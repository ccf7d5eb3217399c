(** Shuffled gradients: Lemma D.6, the step (19) to (21) of its printed proof, and the condition of Table 1. *)

From Coq Require Import Arith Lia Reals Lra.
Open Scope R_scope.

Fixpoint total (terms : nat) (f : nat -> R) : R :=
  match terms with O => 0 | S k => total k f + f k end.

(** 1 + x + ... + x^n. *)
Fixpoint geometric (n : nat) (x : R) : R :=
  match n with O => 1 | S k => geometric k x + x ^ n end.

Lemma total_below : forall k f g, (forall i, (i < k)%nat -> f i <= g i) -> total k f <= total k g.
Proof. induction k as [| k IH]; intros f g H; cbn; [lra |]. specialize (IH f g). apply Rplus_le_compat; auto. Qed.

Lemma total_times : forall k c f, total k (fun i => c * f i) = c * total k f.
Proof. induction k as [| k IH]; intros c f; cbn; [ring | rewrite IH; ring]. Qed.

Lemma total_plus : forall k f g, total k (fun i => f i + g i) = total k f + total k g.
Proof. induction k as [| k IH]; intros f g; cbn; [ring | rewrite IH; ring]. Qed.

Lemma total_first : forall k f, total (S k) f = f O + total k (fun i => f (S i)).
Proof.
  induction k as [| k IH]; intro f; [cbn; ring |].
  change (total (S (S k)) f) with (total (S k) f + f (S k)). rewrite IH. cbn. ring.
Qed.

Lemma geometric_next : forall n x, geometric (S n) x = 1 + x * geometric n x.
Proof.
  induction n as [| n IH]; intro x; [cbn; ring |].
  change (geometric (S (S n)) x) with (geometric (S n) x + x ^ S (S n)). rewrite IH at 1. cbn. ring.
Qed.

Lemma geometric_positive : forall n x, 0 <= x -> 1 <= geometric n x.
Proof.
  induction n as [| n IH]; intros x H; cbn [geometric]; [lra |].
  specialize (IH x H). pose proof (pow_le x (S n) H). lra.
Qed.

Lemma geometric_rises : forall n x y, 0 <= x <= y -> geometric n x <= geometric n y.
Proof.
  induction n as [| n IH]; intros x y H; cbn [geometric]; [lra |].
  specialize (IH x y H). pose proof (pow_incr x y (S n) H). lra.
Qed.

Lemma geometric_grows : forall k n x, 0 <= x -> (k <= n)%nat -> geometric k x <= geometric n x.
Proof.
  intros k n x H L. induction L as [| n L IH]; [lra |]. cbn [geometric]. pose proof (pow_le x (S n) H). lra.
Qed.

Lemma positive : forall n, 0 < INR (S n).
Proof. intro n. apply lt_0_INR. lia. Qed.

Lemma ln_below : forall z, 0 < z -> ln z <= z - 1.
Proof.
  intros z H. rewrite <- (ln_exp (z - 1)). pose proof (exp_ineq1_le (z - 1)).
  destruct (Rle_lt_or_eq_dec z (exp (z - 1))) as [L | E]; [lra | |].
  - apply Rlt_le, ln_increasing; assumption.
  - rewrite <- E. lra.
Qed.

Lemma ln_rises : forall x y, 0 < x <= y -> ln x <= ln y.
Proof.
  intros x y H. destruct (Rle_lt_or_eq_dec x y) as [L | E]; [lra | |].
  - apply Rlt_le, ln_increasing; lra.
  - rewrite E. lra.
Qed.

Lemma ln_positive : forall n, 0 <= ln (INR (S n)).
Proof. intro n. rewrite <- ln_1. apply ln_rises. rewrite S_INR. pose proof (pos_INR n). lra. Qed.

(** One term of the harmonic sum. *)
Lemma harmonic_term : forall n, / INR (S (S n)) <= ln (INR (S (S n))) - ln (INR (S n)).
Proof.
  intro n. pose proof (positive n) as P. pose proof (positive (S n)) as Q.
  assert (E : INR (S n) = INR (S (S n)) - 1) by (rewrite (S_INR (S n)); ring).
  pose proof (ln_below (INR (S n) * / INR (S (S n)))) as L.
  rewrite ln_mult, ln_Rinv in L; [| assumption | assumption | now apply Rinv_0_lt_compat].
  assert (0 < INR (S n) * / INR (S (S n))) by (apply Rmult_lt_0_compat; [assumption | now apply Rinv_0_lt_compat]).
  specialize (L H). replace (INR (S n) * / INR (S (S n)) - 1) with (- / INR (S (S n))) in L.
  - lra.
  - rewrite E at 1. field. lra.
Qed.

Lemma harmonic : forall n, total (S n) (fun i => / INR (S i)) <= 1 + ln (INR (S n)).
Proof.
  induction n as [| n IH].
  - cbn. rewrite ln_1, Rinv_1. lra.
  - change (total (S (S n)) (fun i => / INR (S i))) with (total (S n) (fun i => / INR (S i)) + / INR (S (S n))).
    pose proof (harmonic_term n). lra.
Qed.

Lemma harmonic_backwards : forall n, total n (fun i => / INR (n + 1 - i)) <= ln (INR (S n)).
Proof.
  induction n as [| n IH].
  - cbn. rewrite ln_1. lra.
  - rewrite total_first. replace (S n + 1 - 0)%nat with (S (S n)) by lia.
    assert (E : total n (fun i => / INR (S n + 1 - S i)) <= total n (fun i => / INR (n + 1 - i))).
    { apply total_below. intros i H. replace (S n + 1 - S i)%nat with (n + 1 - i)%nat by lia. lra. }
    pose proof (harmonic_term n). lra.
Qed.

Lemma harmonic_forwards : forall n, total n (fun i => / INR (S i)) <= 1 + ln (INR (S n)).
Proof.
  intro n. pose proof (harmonic n) as H. cbn [total] in H. pose proof (Rinv_0_lt_compat _ (positive n)). lra.
Qed.

(** Partial fractions. *)
Lemma fractions : forall n, total n (fun i => / (INR (S i) * INR (n + 1 - i))) <=
  2 * (1 + ln (INR (S n))) / INR (S n).
Proof.
  intro n. apply Rle_trans with (/ INR (S n) * total n (fun i => / INR (S i) + / INR (n + 1 - i))).
  - rewrite <- total_times. apply total_below. intros i H.
    pose proof (positive i) as P. pose proof (positive n) as N.
    assert (Q : 0 < INR (n + 1 - i)) by (apply lt_0_INR; lia).
    assert (E : INR (S i) + INR (n + 1 - i) = INR (S n) + 1).
    { rewrite <- plus_INR. replace (S i + (n + 1 - i))%nat with (S (S n)) by lia. apply S_INR. }
    assert (F : / (INR (S i) * INR (n + 1 - i)) = / (INR (S n) + 1) * (/ INR (S i) + / INR (n + 1 - i))).
    { rewrite <- E. field. lra. }
    rewrite F. apply Rmult_le_compat_r.
    + apply Rplus_le_le_0_compat; apply Rlt_le, Rinv_0_lt_compat; assumption.
    + apply Rinv_le_contravar; lra.
  - rewrite total_plus. pose proof (harmonic_forwards n). pose proof (harmonic_backwards n). pose proof (ln_positive n).
    unfold Rdiv. rewrite Rmult_comm. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, positive | lra].
Qed.

(** The sum of the e^(l)/(k - l + 1) over l = 1, ..., k = n + 1. *)
Definition seen (e : nat -> R) (n : nat) : R := total (S n) (fun i => e (S i) / INR (S n - i)).

Lemma seen_positive : forall e n, (forall l, 0 <= e l) -> 0 <= seen e n.
Proof.
  intros e n H. unfold seen. apply Rle_trans with (total (S n) (fun _ => 0)).
  - induction (S n) as [| k IH]; cbn; lra.
  - apply total_below. intros i I. apply Rmult_le_pos; [apply H |]. apply Rlt_le, Rinv_0_lt_compat, lt_0_INR. lia.
Qed.

(** D k is the paper's d^(k + 1), and k = n + 1. *)
Theorem lemma_d6 : forall (K : nat) (a b c M : R) (D e : nat -> R),
  0 <= a -> 0 <= b -> 0 <= c -> (forall l, 0 <= e l) -> (forall n, (n < K)%nat -> seen e n <= M) ->
  (forall n, (n < K)%nat -> D (S n) <= a / INR (S n) + b * (1 + ln (INR (S n)))
    + c * total n (fun i => D (S i) / INR (n + 1 - i)) + seen e n) ->
  forall n, (n < K)%nat ->
    D (S n) <= (a / INR (S n) + b * (1 + ln (INR (S n))) + M) * geometric n (2 * c * (1 + ln (INR (S n)))).
Proof.
  intros K a b c M D e A B C E N H n. induction n as [n IH] using lt_wf_ind. intro Kn.
  specialize (H n Kn). specialize (N n Kn). pose proof (seen_positive e n E) as P. assert (0 <= M) by lra. clear E.
  revert H N P. generalize (seen e n). intros noise H N P. destruct n as [| n].
  { cbn [total geometric] in *. lra. }
  set (s := 1 + ln (INR (S (S n)))) in *. set (x := 2 * c * s). set (g := geometric n x).
  pose proof (ln_positive (S n)) as L. assert (s1 : 1 <= s) by (unfold s; lra).
  assert (X : 0 <= x) by (unfold x; apply Rmult_le_pos; lra).
  assert (G : 1 <= g) by (apply geometric_positive; assumption).
  assert (T : total (S n) (fun i => D (S i) / INR (S n + 1 - i)) <=
    g * (a * (2 * s / INR (S (S n))) + (b * s + M) * (s - 1))).
  { apply Rle_trans with (total (S n) (fun i => g * (a * / (INR (S i) * INR (S n + 1 - i))
      + (b * s + M) * / INR (S n + 1 - i)))).
    - apply total_below. intros i I. assert (Q : 0 < INR (S n + 1 - i)) by (apply lt_0_INR; lia).
      pose proof (positive i) as R. unfold Rdiv.
      replace (g * (a * / (INR (S i) * INR (S n + 1 - i)) + (b * s + M) * / INR (S n + 1 - i)))
        with (g * (a / INR (S i) + b * s + M) * / INR (S n + 1 - i)) by (field; lra).
      apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; assumption |].
      pose proof (IH i ltac:(lia) ltac:(lia)) as Di. pose proof (ln_positive i) as Li.
      assert (Si : 1 + ln (INR (S i)) <= s).
      { unfold s. apply Rplus_le_compat_l, ln_rises. split; [assumption | apply le_INR; lia]. }
      assert (Gi : geometric i (2 * c * (1 + ln (INR (S i)))) <= g).
      { apply Rle_trans with (geometric i x).
        - apply geometric_rises. split; [apply Rmult_le_pos; lra | unfold x; apply Rmult_le_compat_l; lra].
        - apply geometric_grows; [assumption | lia]. }
      assert (0 <= a / INR (S i)) by (apply Rmult_le_pos; [assumption | apply Rlt_le, Rinv_0_lt_compat; assumption]).
      assert (b * (1 + ln (INR (S i))) <= b * s) by (apply Rmult_le_compat_l; assumption).
      assert (0 <= b * (1 + ln (INR (S i)))) by (apply Rmult_le_pos; lra).
      apply Rle_trans with (1 := Di). rewrite (Rmult_comm g). apply Rmult_le_compat; try lra.
      pose proof (geometric_positive i (2 * c * (1 + ln (INR (S i)))) ltac:(apply Rmult_le_pos; lra)). lra.
    - rewrite total_times. apply Rmult_le_compat_l; [lra |]. rewrite total_plus, total_times, total_times.
      apply Rplus_le_compat; apply Rmult_le_compat_l; try lra.
      + apply fractions.
      + apply Rplus_le_le_0_compat; [apply Rmult_le_pos; lra | assumption].
      + pose proof (harmonic_backwards (S n)). unfold s. lra. }
  rewrite geometric_next. fold x g. fold s in H.
  assert (F : 0 <= a / INR (S (S n))) by (apply Rmult_le_pos; [assumption | apply Rlt_le, Rinv_0_lt_compat, positive]).
  assert (U : c * total (S n) (fun i => D (S i) / INR (S n + 1 - i)) <=
    c * (g * (a * (2 * s / INR (S (S n))) + (b * s + M) * (s - 1)))) by (apply Rmult_le_compat_l; assumption).
  assert (V : c * (g * (a * (2 * s / INR (S (S n))) + (b * s + M) * (s - 1))) <=
    (a / INR (S (S n)) + b * s + M) * (x * g)).
  { pose proof (positive (S n)).
    replace (a * (2 * s / INR (S (S n)))) with (2 * s * (a / INR (S (S n)))) by (field; lra).
    set (f := a / INR (S (S n))) in *. unfold x.
    assert (W : 0 <= b * s + M) by (apply Rplus_le_le_0_compat; [apply Rmult_le_pos; lra | assumption]).
    replace (c * (g * (2 * s * f + (b * s + M) * (s - 1)))) with (c * g * (2 * s * f + (b * s + M) * (s - 1))) by ring.
    replace ((f + b * s + M) * (2 * c * s * g)) with (c * g * (2 * s * f + (b * s + M) * (2 * s))) by ring.
    apply Rmult_le_compat_l; [apply Rmult_le_pos; lra |]. apply Rplus_le_compat_l, Rmult_le_compat_l; lra. }
  lra.
Qed.

(** Sums over i = 1, ..., k - 1 of powers of x = 2 c (1 + log k). *)
Theorem equation_21 : forall (k : nat) (x : R), (1 <= k)%nat -> 0 <= x ->
  total (k - 1) (fun i => x ^ (i + 1)) / INR (k + 1) <= total (k - 1) (fun i => x ^ (i + 1)) / INR k.
Proof.
  intros k x H X. apply Rmult_le_compat_l.
  - apply Rle_trans with (total (k - 1) (fun _ => 0)).
    + induction (k - 1)%nat as [| j IH]; cbn; lra.
    + apply total_below. intros i _. now apply pow_le.
  - apply Rinv_le_contravar; [apply lt_0_INR; lia | apply le_INR; lia].
Qed.

(** The condition under which Table 1 compares two columns, of which the printed one is 1/n <= p. *)
Theorem table_1_condition : forall n p : R, 1 <= n -> / n <= p <= 1 ->
  Rpower (/ (n * ((1 - p) * n + 1))) (2 / 3) <= Rpower (p / n) (2 / 3).
Proof.
  intros n p N [P Q]. assert (I : 0 < / n) by (apply Rinv_0_lt_compat; lra).
  assert (E : 1 <= p * n). { rewrite <- (Rinv_l n) by lra. apply Rmult_le_compat_r; lra. }
  assert (G : 0 <= (1 - p) * n) by (apply Rmult_le_pos; lra).
  apply Rle_Rpower_l; [lra |]. split.
  - apply Rinv_0_lt_compat, Rmult_lt_0_compat; lra.
  - rewrite Rinv_mult. unfold Rdiv. rewrite (Rmult_comm p). apply Rmult_le_compat_l; [lra |].
    apply Rmult_le_reg_r with ((1 - p) * n + 1); [lra |]. rewrite Rinv_l by lra.
    assert (0 <= (1 - p) * (p * n - 1)) by (apply Rmult_le_pos; lra). lra.
Qed.
