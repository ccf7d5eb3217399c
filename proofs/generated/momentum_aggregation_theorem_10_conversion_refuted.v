From Coq Require Import Reals Lra.
From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
Module Floats := SpecificFloat StdZRadix2.
Module Tactics := IntervalTactic Floats.
Import Tactics.
Open Scope R_scope.

Theorem momentum_aggregation_theorem_10_conversion_refuted :
  ((((1) * (1)) * (((4247338813012463 / 144115188075855872) * (sqrt ((1620300213562007 / 140737488355328) / (1)))) ^ 2)) + (((1) * ((4247338813012463 / 144115188075855872) * (sqrt ((1620300213562007 / 140737488355328) / (1))))) * (sqrt ((1620300213562007 / 140737488355328) * (1))))) < (((((((sqrt ((1620300213562007 / 140737488355328) / (1))) / ((4247338813012463 / 144115188075855872) * (sqrt ((1620300213562007 / 140737488355328) / (1))))) + (1)) * (1)) * (((4247338813012463 / 144115188075855872) * (sqrt ((1620300213562007 / 140737488355328) / (1)))) ^ 2)) / (2)) + ((1620300213562007 / 140737488355328) / ((((sqrt ((1620300213562007 / 140737488355328) / (1))) / ((4247338813012463 / 144115188075855872) * (sqrt ((1620300213562007 / 140737488355328) / (1))))) + (1)) - (1)))).
Proof.
  interval with (i_prec 100).
Qed.
