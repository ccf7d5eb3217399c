r"""
The privacy of a run is a curve
===============================

A run is one Gaussian mechanism, so its :math:`(\varepsilon, \delta)` are known exactly, rounded to the safe side. The
usual conversion from zero-concentrated differential privacy is a bound that is larger.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn

budget = cn.Budget(epsilon=2.0, delta=1e-6)
run = cn.PrivateRun(budget, cn.Participation.fixed_epochs(40, epochs=4), cn.mechanisms.NuFTRL(0.1), size=3)
deltas = np.geomspace(1e-9, 1e-2, 15)
exact = [run.profile().epsilon_at(delta) for delta in deltas]
rho = budget.gaussian_rho
converted = rho + 2 * np.sqrt(rho * np.log(1 / deltas))

figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
axes.semilogx(deltas, converted, "--", label="ρ + 2 sqrt(ρ log(1/δ))")
axes.semilogx(deltas, exact, "o-", label="exact")
axes.set(xlabel="δ", ylabel="ε")
axes.legend(frameon=False)
plt.show()
