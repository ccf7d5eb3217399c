"""Figures of momentum aggregation (Tran and Cutkosky, 2022)."""
