"""
Noise for the spectrum of a small network
=========================================

Noise can be designed for the eigenvalues of a network, which are estimated on public data, or for running sums, which
need no data. Both are trained here in a fixed order of the digits, next to independent noise in this order and DP-SGD
with Poisson batches. All have ε = 2, 20 epochs, and the same grid of learning rates; 20 seeds give bars of two standard
errors.
"""

import matplotlib.pyplot as plt
import numpy as np

import corrnoise as cn
from corrnoise.simulations.run.batches import batches

SEEDS, RATES = range(20), (0.06, 0.12, 0.25, 0.5, 1.0)
HIDDEN, BATCH, STEPS = 16, 64, 400

table = cn.datasets.load("digits")
inputs = (table.features / 16).astype(np.float32)
targets = np.eye(10, dtype=np.float32)[table.targets]
public, private, test = np.split(np.random.default_rng(0).permutation(len(inputs)), [197, 1477])

# %%
# The network: 64 inputs, 16 hidden units with tanh, 10 outputs. All runs of one seed are trained together.


def initial(rng):
    """Normal weights of variance 1/inputs and biases 0."""
    layers = [
        np.append(rng.standard_normal((a, b)) / a**0.5, np.zeros((1, b))) for a, b in ((64, HIDDEN), (HIDDEN, 10))
    ]
    return np.concatenate(layers).astype(np.float32)


def forward(parameters, rows):
    """Inputs and hidden units with a constant 1 appended, the second layer, and the outputs, by run."""
    first, second = np.split(parameters, [65 * HIDDEN], axis=1)
    first, second = first.reshape(-1, 65, HIDDEN), second.reshape(-1, HIDDEN + 1, 10)
    x = np.append(inputs[rows], np.ones((len(rows), 1), np.float32), axis=1)
    hidden = np.tanh(x @ first)
    hidden = np.append(hidden, np.ones_like(hidden[..., :1]), axis=2)
    return x, hidden, second, hidden @ second


def softmax(outputs):
    """Probabilities of the classes."""
    p = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def clipped_sum(parameters, rows):
    """The sum of the gradients of these examples, each clipped to the norm 1, by run."""
    x, hidden, second, outputs = forward(parameters, rows)
    residuals = softmax(outputs) - targets[rows]
    back = (residuals @ second[:, :-1].transpose(0, 2, 1)) * (1 - hidden[..., :-1] ** 2)
    squares = (x**2).sum(axis=1) * (back**2).sum(axis=2) + (hidden**2).sum(axis=2) * (residuals**2).sum(axis=2)
    factors = np.minimum(1, (1 - 1e-6) / np.sqrt(np.maximum(squares, 1e-30)))[..., np.newaxis]  # less for rounding
    parts = x.T @ (factors * back), hidden.transpose(0, 2, 1) @ (factors * residuals)
    return np.concatenate([part.reshape(len(parameters), -1) for part in parts], axis=1)


# %%
# The spectrum: eigenvalues of the Gauss-Newton matrix of the initial network on 197 public digits, times the mean
# clipping factor of their gradients.


def spectrum(parameters):
    """Forty quantiles of the eigenvalues, and the mean factor of clipping."""
    x, hidden, second, outputs = (part.squeeze() for part in forward(parameters[np.newaxis], public))
    slopes = 1 - hidden[:, :-1] ** 2
    p = softmax(outputs)
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


eigenvalues, clipped = spectrum(initial(np.random.default_rng(1)).astype(float))
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
    *_, outputs = forward(parameters, test)
    return -(np.log(softmax(outputs.astype(float))) * targets[test]).sum(axis=2).mean(axis=1)


def runs(seed, who, noises):
    """The losses of one method at all learning rates."""
    rng = np.random.default_rng(seed)
    start = initial(rng)
    draws = rng.standard_normal((STEPS, start.size))
    if who.sampled:
        order = [private[rng.random(len(private)) < who.rate] for _ in range(STEPS)]
    else:
        given = batches(who, len(private), BATCH, rng)
        order = [private[given.batch(step)] for step in range(STEPS)]
    kinds = list({id(noise): noise for noise in noises}.values())
    scales = np.array([noise.program(who).scale(budget) for noise in noises], np.float32)[:, np.newaxis]
    added = np.array([noise.noising_matrix(STEPS) @ draws for noise in kinds], np.float32)
    added = added[[kinds.index(noise) for noise in noises]]
    steps = np.array(RATES, np.float32)[:, np.newaxis] / np.float32(BATCH)
    parameters = np.tile(start, (len(RATES), 1))
    for step, rows in enumerate(order):
        parameters -= steps * (clipped_sum(parameters, rows) + scales * added[:, step])
    return losses(parameters)


figure, axes = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
for style, (name, method) in zip("o^sD", methods.items(), strict=True):
    found = np.array([runs(seed, *method) for seed in SEEDS])
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    axes.errorbar(RATES, means, 2 * errors, fmt=f"{style}-", ms=4, capsize=3, label=name)
    print(f"{name}: {means.min():.3f} ± {errors[means.argmin()]:.3f} at the learning rate {RATES[means.argmin()]}")
axes.set(xscale="log", xlabel="learning rate", ylabel="cross entropy on test data", ylim=(0, 1.6))
axes.legend(frameon=False, loc="lower left")
plt.show()
