"""Privacy of sampled batches: curves between (ε, δ) and the noise multiplier, and the accountant of each sampling."""
