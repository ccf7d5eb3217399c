"""Sweeps: many simulations that are kept, found again and run in processes or on a cluster."""
