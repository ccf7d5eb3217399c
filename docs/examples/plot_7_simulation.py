"""
Formulas and simulations agree
==============================

The stationary error of ν-DP-FTRL as a function of its parameter, by a formula and by independent simulations with
bars of two standard errors.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn

problem = cn.LinearRegression(1 / np.arange(1, 9), learning_rate=0.1)
grid = np.geomspace(1e-3, 1, 60)
points = np.geomspace(3e-3, 0.8, 6)
runs = [cn.simulate(problem, cn.mechanisms.NuFTRL(nu), steps=10_000, chains=8, rng=1) for nu in points]

figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
axes.loglog(grid, [problem.stationary_error(cn.mechanisms.NuFTRL(nu)) for nu in grid], label="formula")
bars = [2 * run.standard_error for run in runs]
axes.errorbar(points, [run.mean for run in runs], bars, fmt="o", ms=4, capsize=3, label="simulation")
axes.set(xlabel="ν", ylabel="stationary error, ρ = 1")
axes.legend(frameon=False)
plt.show()
