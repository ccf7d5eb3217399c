"""The figures of the paper on shuffled gradients (arXiv 2502.03652)."""
