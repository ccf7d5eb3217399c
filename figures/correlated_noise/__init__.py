"""The figures of the correlated-noise paper (arXiv 2310.06771)."""
