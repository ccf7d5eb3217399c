"""
Machines that cancel their own noise
====================================

In federated learning each machine takes the noise of its last message back. How much of the noise stays in the
server's estimate depends on how the machine draws it. All curves have the same privacy.
"""

import matplotlib.pyplot as plt

from corrnoise import Participation
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise

counts = (5, 10, 20, 50, 100, 200)
noises = {
    "variance grows (published)": lambda n: cancelling_noise(n, growth=1),
    "constant variance": lambda n: cancelling_noise(n),
    "takes a share back": lambda n: cancelling_noise(n, share=n**-0.5),
}

figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
for style, (name, make) in zip(("o--", "s:", "^-"), noises.items(), strict=True):
    variances = [make(n).mean_error(Participation.single(n)) ** 2 for n in counts]
    axes.loglog(counts, variances, style, label=name)
axes.set(xlabel="participations of a machine", ylabel="mean variance at equal privacy")
axes.legend(frameon=False)
plt.show()
