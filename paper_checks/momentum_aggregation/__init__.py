"""Claims about private momentum with tree aggregation (Tran and Cutkosky, NeurIPS 2022)."""
