"""Objectives of finite runs: quadratic forms of the noise, and workloads."""
