"""Noise for finite runs: strategies that minimise the error of a workload, with certificates."""
