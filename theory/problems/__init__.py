"""Optimisation problems: quadratic losses, strongly convex losses, and empirical risks."""
