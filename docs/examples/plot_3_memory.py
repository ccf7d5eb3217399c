"""
How much memory does good noise need?
=====================================

A run keeps some arrays of the size of the model to cancel its own noise. One or two are almost enough: the error is
compared with the lower bound of the error of all noise for this order of the data, without sampling.
"""

import matplotlib.pyplot as plt

import corrnoise as cn

budget = cn.Budget(epsilon=2.0, delta=1e-6)
epochs = cn.Participation.fixed_epochs(200, epochs=4)
designs = [cn.design(budget, epochs, memory=memory) for memory in (0, 1, 2)]

# %%
# The alternatives that the designs were compared with are drawn, too.

figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
for one in designs[-1].alternatives:
    axes.plot(one.memory, designs[-1].error_of(one) / designs[-1].lower_bound, "o", color="0.7", ms=4)
axes.plot(
    [design.memory for design in designs], [1 + design.optimality_gap for design in designs], "o-", color="#0072B2"
)
axes.axhline(1, color="black", lw=0.8)
axes.annotate("lower bound", (7.5, 1.06))
axes.set(xlabel="arrays of the size of the model", ylabel="error over the lower bound", xlim=(-0.3, 9), ylim=(0.8, 4.2))
plt.show()

for design in designs:
    print(f"{design.memory} arrays: {1 + design.optimality_gap:.3f} times the lower bound, {design.family}")
