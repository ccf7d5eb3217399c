"""Whatever searches, factorises or optimises; solvers find numbers and return classes of ``corrnoise.theory``."""
