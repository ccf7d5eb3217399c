r"""
The noise that reaches the model
================================

A model moves by the running sum of the noisy gradients. Independent noise adds up like a random walk. Correlated
noise cancels part of what was added before. Both runs below have the same privacy, :math:`\varepsilon = 2` and
:math:`\delta = 10^{-6}`, in four epochs of 100 steps in the same order.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn

budget = cn.Budget(epsilon=2.0, delta=1e-6)
epochs = cn.Participation.fixed_epochs(400, epochs=4)
mechanisms = {
    "independent noise": cn.mechanisms.DPSGD(),
    "correlated noise": cn.design(budget, epochs, memory=4).mechanism,
}

# %%
# The scale of the independent draws is that of the program that runs. The draws are the same for both.

figure, axes = plt.subplots(figsize=(6.0, 2.8), layout="constrained")
rng = np.random.default_rng(4)
draws = rng.normal(size=(400, 3))
for colour, (name, mechanism) in zip(("#D55E00", "#0072B2"), mechanisms.items(), strict=True):
    scale = mechanism.program(epochs).multiplier(budget)
    sums = scale * np.cumsum(mechanism.noising(draws), axis=0)
    axes.plot(np.arange(1, 401, 2), sums[::2], color=colour, lw=1.1, label=[name, None, None])
axes.set(xlabel="step", ylabel="sum of the noise so far", xlim=(0, 400))
axes.legend(frameon=False, loc="upper left")
plt.show()
