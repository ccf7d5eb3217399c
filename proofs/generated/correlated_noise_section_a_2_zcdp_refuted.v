From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem correlated_noise_section_a_2_zcdp_refuted :
  ((((1 / 2) * (1)) * (1)) * (((1) / ((exp (- (1))) + (1))) - ((1) - ((1) / ((exp (- (1))) + (1)))))) < ((ln (((sqrt ((1) / ((exp (- (1))) + (1)))) * (exp (((1) - (1 / 2)) * (ln ((1) - ((1) / ((exp (- (1))) + (1)))))))) + ((sqrt ((1) - ((1) / ((exp (- (1))) + (1))))) * (exp (((1) - (1 / 2)) * (ln ((1) / ((exp (- (1))) + (1))))))))) / ((1 / 2) - (1))).
Proof.
  interval with (i_prec 100).
Qed.
