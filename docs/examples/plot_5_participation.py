"""
The participation decides the noise
===================================

The same noise needs another scale for other participations. More epochs cost more. Reshuffling every epoch costs more
than one order for all epochs.
"""

import matplotlib.pyplot as plt

import corrnoise as cn

budget = cn.Budget(epsilon=2.0, delta=1e-6)
noise = cn.mechanisms.rational(cn.mechanisms.NuFTRL(0.02), 1e-6)
steps = 240
counts = (1, 2, 3, 4, 6, 8)
promises = {
    "a new order in each epoch": cn.Participation.reshuffled,
    "one order in all epochs": cn.Participation.fixed_epochs,
}

figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
for style, (name, promise) in zip(("o--", "s-"), promises.items(), strict=True):
    multipliers = [noise.program(promise(steps, epochs=count)).multiplier(budget) for count in counts]
    axes.plot(counts, multipliers, style, label=name)
axes.set(xlabel="epochs in 240 steps", ylabel="noise multiplier")
axes.legend(frameon=False)
plt.show()
