"""
What an audit finds
===================

An audit runs a training loop with canaries and gives one verdict. A loop whose noise is half as large as claimed is
refuted. The picture shows how likely it is that a clip norm that is too large is found.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn
from corrnoise.simulations.run.stream import Stream

budget = cn.Budget(epsilon=5.0, delta=1e-5, clip_norm=1.0)
program = cn.mechanisms.NuFTRL(0.02).program(cn.Participation.min_sep(24, 6), form="transform")


def loop(batches, share=1.0):
    """Clip the gradients of the examples of each step, and add the noise to their sums."""
    stream = Stream(program, batches[0].shape[1], budget=budget)
    batches = [b[np.isfinite(b).all(axis=1)] for b in batches]
    sums = [(b / np.maximum(1, np.linalg.norm(b, axis=1, keepdims=True))).sum(axis=0) for b in batches]
    return np.array([total + share * added for total, added in zip(sums, stream, strict=True)])


found = cn.audit(loop, (budget, program), rng=3)
halved = cn.audit(lambda batches: loop(batches, share=0.5), (budget, program), rng=3)
print(found.verdict)
print(halved.verdict, "-", halved.cause)

# %%
# The power is exact.

factors = np.linspace(1, 1.2, 41)
figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
axes.plot(factors, [found.power(factor) for factor in factors])
axes.set(xlabel="clip norm over the claimed one", ylabel="probability that it is found", ylim=(0, 1.02))
plt.show()
