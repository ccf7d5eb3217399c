"""Correlated noise: what may be asked of any mechanism, and the kinds of noise there are."""
