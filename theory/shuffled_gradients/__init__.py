"""Shuffled private gradient methods with public data (Jiang, Sharma, Wu and Joshi, 2026): privacy and convergence."""
