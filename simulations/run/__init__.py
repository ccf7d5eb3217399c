"""Runs: the batches of each step, the noise of each step from a secret key, and what makes it."""
