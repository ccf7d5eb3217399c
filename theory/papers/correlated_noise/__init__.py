"""Bounds and rates of the correlated-noise paper (Choquette-Choo et al., arXiv 2310.06771)."""
