"""
Noise for the spectrum of a small network
=========================================

Noise can be designed for the eigenvalues of a network, which are estimated on public data, or for running sums, which
need no data. Both are trained here in a fixed order of the digits, beside independent noise in this order and DP-SGD
with Poisson batches. All have ε = 2, 20 epochs, and the same grid of learning rates; 20 seeds give bars of two standard
errors.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn
from corrnoise.simulations.private_training.networks import Network, Runs, trained
from corrnoise.simulations.run.batches import batches

SEEDS, RATES = range(20), (0.06, 0.12, 0.25, 0.5, 1.0)
HIDDEN, BATCH, STEPS = 16, 64, 400

table = cn.datasets.load("digits")
inputs = (table.features / 16).astype(np.float32)
targets = np.eye(10, dtype=np.float32)[table.targets]
public, private, test = np.split(np.random.default_rng(0).permutation(len(inputs)), [197, 1477])
network = Network((64, HIDDEN, 10))

# %%
# The spectrum: eigenvalues of the Gauss-Newton matrix of the initial network on 197 public digits, times the mean
# factor by which their gradients are clipped.


def spectrum(parameters):
    """Forty quantiles of the eigenvalues, and the mean factor of clipping."""
    first, second = parameters[: 65 * HIDDEN].reshape(65, HIDDEN), parameters[65 * HIDDEN :].reshape(-1, 10)
    x = np.append(inputs[public], np.ones((len(public), 1)), axis=1)
    hidden = np.append(np.tanh(x @ first), np.ones((len(x), 1)), axis=1)
    slopes = 1 - hidden[:, :-1] ** 2
    p = np.exp(hidden @ second)
    p /= p.sum(axis=1, keepdims=True)
    root = np.sqrt(p)[:, :, None] * np.eye(10) - p[:, :, None] * np.sqrt(p)[:, None, :]  # of diag(p) − p pᵀ
    back = np.einsum("nkl,jk->nlj", root, second[:-1]) * slopes[:, None, :]
    parts = np.einsum("ni,nlj->nlij", x, back), np.einsum("ni,nkl->nlik", hidden, root)
    jacobian = np.concatenate([part.reshape(10 * len(x), -1) for part in parts], axis=1)
    found = np.linalg.svd(jacobian / np.sqrt(len(x)), compute_uv=False) ** 2
    residuals = p - targets[public]
    of_first = (x**2).sum(axis=1) * ((residuals @ second[:-1].T * slopes) ** 2).sum(axis=1)
    squares = of_first + (hidden**2).sum(axis=1) * (residuals**2).sum(axis=1)
    kept = found[found > 1e-3 * found[0]]
    return np.array([np.median(part) for part in np.array_split(kept, 40)]), np.minimum(1, squares**-0.5).mean()


eigenvalues, clipped = spectrum(network.initial(np.random.default_rng(1)).astype(float))
print(f"eigenvalues from {eigenvalues.min():.2g} to {eigenvalues.max():.2g}, clipped to {clipped:.2f} of their length")

# %%
# The noise of two arrays, once for each learning rate, and once for running sums.

budget = cn.Budget(epsilon=2.0, delta=1e-5)
fixed = cn.Participation.fixed_epochs(STEPS, epochs=20)
poisson = cn.Participation.poisson(STEPS, BATCH / 1280)


def designed(rate):
    """Noise for learning with this spectrum."""
    problem = cn.LinearRegression(clipped * eigenvalues, learning_rate=rate)
    return cn.optimise(problem, fixed, memory=2, family="time-varying buffers").mechanism


sums, independent = cn.optimise(None, fixed, memory=2).mechanism, cn.mechanisms.DPSGD()
methods = {
    "for the spectrum": (fixed, [designed(rate) for rate in RATES]),
    "for running sums": (fixed, [sums] * len(RATES)),
    "independent": (fixed, [independent] * len(RATES)),
    "DP-SGD, Poisson batches": (poisson, [independent] * len(RATES)),
}

# %%
# Training: runs of one seed share the initial network, the independent draws and, in the fixed order, the batches.


def losses(parameters):
    """The cross entropy on the test data, by run."""
    outputs = network.outputs(parameters, inputs[test])
    shifted = outputs - outputs.max(axis=2, keepdims=True)
    return -((shifted - np.log(np.exp(shifted).sum(axis=2, keepdims=True))) * targets[test]).sum(axis=2).mean(axis=1)


def runs(seed, who, noises):
    """The losses of one method at all learning rates."""
    rng = np.random.default_rng(seed)
    start, draws = network.initial(rng), rng.standard_normal((STEPS, network.parameters))
    if who.sampled:
        order = [private[rng.random(len(private)) < who.rate] for _ in range(STEPS)]
    else:
        given = batches(who, len(private), BATCH, rng)
        order = [private[given.batch(step)] for step in range(STEPS)]
    kinds = list({id(noise): noise for noise in noises}.values())
    found = trained(
        network,
        inputs,
        targets,
        order,
        Runs(
            np.array([kinds.index(noise) for noise in noises]),
            np.array([noise.program(who).scale(budget) for noise in noises]),
            np.array(RATES),
            np.zeros(len(RATES)),
        ),
        start=start,
        noise=np.array([noise.noising_matrix(STEPS) @ draws for noise in kinds], np.float32),
        schedule=np.ones(STEPS),
        batch_size=BATCH,
        clip_norm=budget.clip_norm,
    )
    return losses(found)


figure, axes = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
for style, (name, method) in zip("o^sD", methods.items(), strict=True):
    found = np.array([runs(seed, *method) for seed in SEEDS])
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    axes.errorbar(RATES, means, 2 * errors, fmt=f"{style}-", ms=4, capsize=3, label=name)
    print(f"{name}: {means.min():.3f} ± {errors[means.argmin()]:.3f} at the learning rate {RATES[means.argmin()]}")
axes.set(xscale="log", xlabel="learning rate", ylabel="cross entropy on test data", ylim=(0, 1.6))
axes.legend(frameon=False, loc="lower left")
plt.show()
