"""
Exact learning curves
=====================

For quadratic losses the expected error after every step is known exactly, noise and gradients included. Each noise
has its own best learning rate here, so that the comparison is a fair one.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn

steps = 2000
budget = cn.Budget(epsilon=2.0, delta=1e-6)
once = cn.Participation.single(steps)
problem = cn.LinearRegression(1 / np.arange(1, 33), learning_rate=0.02)

figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
for style, (name, noise) in zip(
    ("--", "-"),
    {"independent": cn.mechanisms.DPSGD(), "optimal": cn.papers.correlated_noise.optimal_noise}.items(),
    strict=True,
):
    best = cn.papers.correlated_noise.best_learning_rate(problem, once, noise, initial_offset=0.3, budget=budget)
    tuned = cn.LinearRegression(problem.eigenvalues, learning_rate=best.learning_rate)
    chosen = noise(tuned) if callable(noise) else noise
    curve = tuned.learning_curve(chosen, steps, participation=once, budget=budget, initial_offset=0.3)
    axes.semilogy(curve, style, label=f"{name}, learning rate {best.learning_rate:.2g}")
axes.set(xlabel="step", ylabel="expected error F − F*")
axes.legend(frameon=False)
plt.show()
