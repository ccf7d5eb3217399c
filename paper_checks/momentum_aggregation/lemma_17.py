"""Lemma 17 and Algorithm 4: a momentum from windows of one epoch."""

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.margins import sums
from corrnoise.paper_checks.momentum_aggregation.paper import PAPER
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.momentum_aggregation import reconstruction

EPOCHS = 4


def two_examples(gradients: Array, reversed_epochs: int) -> tuple[Array, Array, Array]:
    """The leaves G_t, D_t and δ_t of two examples over four epochs.

    ``gradients`` holds ∇f(u_e, x) by epoch and example; the binary digits of ``reversed_epochs`` say which epochs use
    the examples in reversed order.
    """
    by_epoch = gradients.reshape(EPOCHS, 2)
    order = np.array([[1, 0] if reversed_epochs >> e & 1 else [0, 1] for e in range(EPOCHS)])
    leaves = np.take_along_axis(by_epoch, order, axis=1)
    before = by_epoch[:-1]
    earlier = np.take_along_axis(before, order[1:], axis=1)  # ∇f(u_{e−1}, the example of this epoch)
    first = np.zeros((1, 2))
    differences = np.concatenate([first, leaves[1:] - earlier])
    changes = np.concatenate([first, earlier - leaves[:-1]])
    return leaves.ravel(), differences.ravel(), changes.ravel()


@PAPER.identity(
    "Lemma 17",
    theorem=("lemma_17", "f9db2ce3230fb700"),
    proof="docs/momentum-aggregation-proofs.md#the-identity-behind-algorithm-2",
    printed=r"Let T = qN + r where $q \in \mathbb{Z}$ is the quotient and $r \in [0, N - 1]$ is the remainder when dividing T by N. Then: $G_{[1,T]} = (1-\alpha)^{T-r} G_{[1,r]} + \sum_{i=0}^{q-1} (1-\alpha)^{Ni} (1-\gamma)^{q-(i+1)} G_{[r+1,r+N]} + \sum_{i=1}^{q-1} (\sum_{j=0}^{i-1} (1-\gamma)^j (1-\alpha)^{(i-1-j)N}) ((1-\gamma) \Delta_{[T-iN+1,T-(i-1)N]} + \gamma G_{[T-iN+1,T-(i-1)N]})$",
    reading=r"for a new order in every epoch; $K_i = \sum_{j < i} (1 - \gamma)^j (1 - \alpha)^{(i-1-j)N}$ and $W_i = [T - iN + 1, T - (i-1)N]$ below",
    repair=r"with $\sum_{i=1}^{q-1} (1 - \gamma) K_i \delta_{W_i}$ added, $\delta_t = \nabla f(u_{q_t - 1}, x_t) - \nabla f(u_{q_t - 1}, x_{t-N})$, "
    r"which is 0 if every epoch has the same order",
    domain={
        "gradients": vector(linear(-1, 1), 2 * EPOCHS),
        "reversed_epochs": integers(0, 2**EPOCHS - 1),
        "steps": integers(1, 2 * EPOCHS),
        "alpha": linear(0.01, 1),
        "gamma": linear(0, 1),
    },
    counterexample={
        "gradients": np.tile([0.0, 1.0], EPOCHS),
        "reversed_epochs": 2,
        "steps": 4,
        "alpha": 0.5,
        "gamma": 0.5,
    },
    as_printed={"defect": 0.0},
    mutants=[{"defect": 0.999}, {"defect": 0.0}],
    evaluations=128,
)
def lemma_17_identity(
    gradients: Array, reversed_epochs: int, steps: int, alpha: float, gamma: float, defect: float = 1.0
) -> Sides:
    r"""Two examples, four epochs, any gradients.  The proof uses $G_t = \Delta_t + G_{t-N}$, where step t − N has another example.

    Two linear losses with slopes 0 and 1, orders (1, 2), (2, 1), T = 4, $\alpha = \gamma = \frac{1}{2}$: left ¾, right 1 as printed (theorem
    ``lemma_17_printed``).
    The defect is $O(\sqrt{\alpha})$ (``defect_bound``), so the rate of Theorem 9 survives.
    """
    leaves, differences, changes = two_examples(gradients, reversed_epochs)
    right = reconstruction.lemma_17(leaves, differences, steps, examples=2, alpha=alpha, gamma=gamma)
    missing = reconstruction.lemma_17_defect(changes, steps, examples=2, alpha=alpha, gamma=gamma)
    left = reconstruction.weighted_sum(leaves, 1, steps, alpha)
    return sums([left, *gradients], [float(right), defect * float(missing), *gradients])


@PAPER.identity(
    "Algorithm 4",
    printed=r"for $i = 0 \ldots q - 1$ do",
    reading="this loop adds up the right side of Lemma 17",
    transcription="the sign += of its last line, which the published page has",
    domain={
        "leaves": vector(linear(-1, 1), 20),
        "steps": integers(1, 10),
        "examples": integers(1, 4),
        "alpha": linear(0.01, 1),
        "gamma": linear(0, 1),
    },
    mutants=[{"start": 1}],
    evaluations=48,
)
def algorithm_4(leaves: Array, steps: int, examples: int, alpha: float, gamma: float, start: int = 0) -> Sides:
    """The right side is a recursion over epochs, for any leaves G and D: it needs O(log N) nodes a step in place of O(T/N) windows.

    The window of i = 0 lies in the future and has the coefficient 0, so it must not be read; the base term needs i = 0.
    COMPOSE(1, 0) must be empty.
    """
    private, differences = leaves.reshape(2, 10)
    q, r = divmod(steps, examples)
    decay = (1 - alpha) ** examples
    total = decay**q * reconstruction.weighted_sum(private, 1, r, alpha)
    weights = reconstruction.window_weights(max(q, 1), epoch_decay=decay, gamma=gamma)
    combined = (1 - gamma) * differences + gamma * private
    for i in range(start, q):
        if i >= 1:
            last = steps - (i - 1) * examples
            total = total + weights[i] * reconstruction.weighted_sum(combined, last - examples + 1, last, alpha)
        base = reconstruction.weighted_sum(private, r + 1, r + examples, alpha)
        total = total + decay**i * (1 - gamma) ** (q - 1 - i) * base

    def windows(values: Array, times: range) -> Array:
        return np.array([reconstruction.weighted_sum(values, t - examples + 1, t, alpha) for t in times])

    found = reconstruction.momentum_sums(
        windows(private, range(examples, min(steps, 2 * examples - 1) + 1)),
        windows(combined, range(2 * examples, steps + 1)),
        np.array([reconstruction.weighted_sum(private, 1, t, alpha) for t in range(1, min(steps, examples - 1) + 1)]),
        examples=examples,
        alpha=alpha,
        gamma=gamma,
    )
    return sums([float(total), *leaves], [float(found[-1]), *leaves])
