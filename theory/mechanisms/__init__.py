"""Correlated noise: the interface of all mechanisms, and the kinds of noise."""
