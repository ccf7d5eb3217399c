r"""
Noise that is small where it hurts
==================================

A model averages over many steps, so noise at low frequencies reaches it and noise at high frequencies does not. The
power spectrum :math:`|B(\omega)|^2` says how much noise there is at the frequency :math:`\omega`, in radians a step.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn

problem = cn.LinearRegression(1 / np.arange(1, 129), learning_rate=0.02)
mechanisms = {
    "independent": cn.mechanisms.DPSGD(),
    "anti-PGD": cn.mechanisms.AntiPGD(0.04),
    "ν-DP-FTRL": cn.mechanisms.NuFTRL(6.6e-4),
    "optimal": cn.papers.correlated_noise.optimal_noise(problem),
}
frequencies = np.geomspace(1e-5, np.pi, 400)
figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
for style, (name, noise) in zip(("-", ":", "--", "-."), mechanisms.items(), strict=True):
    axes.loglog(frequencies, noise.power_spectrum(frequencies), style, label=name)
axes.set(xlabel="frequency in radians a step", ylabel="power")
axes.legend(frameon=False)
plt.show()

# %%
# What this costs is sensitivity; what it gains is a smaller error of learning.

for name, noise in mechanisms.items():
    print(f"{name:12} γ = {noise.limiting_sensitivity():6.2f}   error {problem.stationary_error(noise):.5f}")
