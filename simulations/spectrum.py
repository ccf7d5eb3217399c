"""The spectrum of a Hessian by random probes: estimated quantiles with exact confidence intervals.

Let H be symmetric of size d with the eigenvalues λ_i, and F(x) the share of eigenvalues up to x.  A standard
normal probe g has the weights g_i² along the eigenvectors, and k steps of Lanczos from g give their Gauss quadrature:
nodes θ_1 < … < θ_k and weights τ_j with the sum |g|².  By the inequality of Chebyshev, Markov and Stieltjes

    Σ_{j: θ_{j+1} <= x} τ_j <= Σ_{i: λ_i <= x} g_i² <= Σ_{j: θ_{j−1} < x} τ_j,        θ_0 = −∞, θ_{k+1} = ∞.

Over p probes the share of the weights Σ_{λ_i <= x} g_i² in all weights has the law Beta(p m/2, p (d − m)/2) with
m = d F(x), because it is a share of a sum of squares of p d normals.  This law grows with m.  So, with the quantiles β
of Beta(p d q/2, p d (1 − q)/2), the q-quantile of the eigenvalues is at least the first x where the upper share
reaches β(α/2), and at most the first x where the lower share exceeds β(1 − α/2), each with probability 1 − α/2.
Nothing but rounding errors of the products H g is left out.

Sources: G. Golub and G. Meurant, Matrices, Moments and Quadrature, 2010 (Lanczos and Gauss quadrature); Ubaru, Chen and
Saad, SIAM J. Matrix Anal. Appl. 2017 (stochastic Lanczos quadrature).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.stats import beta

from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.support.memory import fits_into_memory
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record

_VANISHING_SHARE = 1e-7  # of a new direction relative to the matrix: it holds rounding errors of float32 products alone
_MIN_EIGENVALUE = 1e-9  # of eigenvalues of a design, relative to the largest


@record
class HessianSpectrum(Record):
    """The estimated distribution of the eigenvalues of a symmetric matrix; ``hessian_spectrum`` makes it.

    Parameters
    ----------
    size : int
        d, the size of the matrix.
    nodes : array of float
        Shape (probes, steps), increasing along the last axis; inf where a probe has fewer.
    weights : array of float
        Shape (probes, steps), >= 0; the weights of a probe add up to its squared norm.
    """

    size: int
    nodes: Array
    weights: Array

    @property
    def largest(self) -> float:
        """The largest node, which no largest eigenvalue is below."""
        return float(self.nodes[np.isfinite(self.nodes)].max())

    def quantiles(self, levels: ArrayLike, *, confidence: float = 0.95) -> tuple[Array, Array, Array]:
        """Quantiles of the eigenvalues: estimates, and the ends of a confidence interval for each.

        Parameters
        ----------
        levels : array_like
            q in (0, 1), shape (m,).
        confidence : float, default 0.95
            Of each interval, in (0, 1).

        Returns
        -------
        (array of float, array of float, array of float)
            Three arrays of shape (m,).  Ends are −inf or inf where the probes say nothing.
        """
        wanted = checks.reals("levels", levels, "(0, 1)", ndim=1)
        alpha = 1 - checks.real("confidence", confidence, "(0, 1)")
        half = len(self.nodes) * self.size / 2
        low = self._first(beta.ppf(alpha / 2, half * wanted, half * (1 - wanted)), -1)
        high = self._first(beta.isf(alpha / 2, half * wanted, half * (1 - wanted)), 1)
        return self._first(wanted, 0), low, high

    def _first(self, shares: Array, shift: Literal[-1, 0, 1]) -> Array:
        """The first x that reaches weights of each share; each counts from its node on, or a neighbour's."""
        ends = np.full((len(self.nodes), 1), math.inf)
        padded = np.concatenate([-ends, self.nodes, ends], axis=1)
        places = padded[:, 1 + shift : 1 + shift + self.nodes.shape[1]].ravel()
        order = np.argsort(places, kind="stable")
        sums = np.cumsum(self.weights.ravel()[order]) / self.weights.sum()
        where = np.searchsorted(sums, shares * (1 - 1e-12), side="right" if shift == 1 else "left")
        return np.where(where < order.size, places[order[np.minimum(where, order.size - 1)]], math.inf)

    def eigenvalues(self, count: int | None = None) -> Array:
        """Positive numbers that stand for the spectrum in a design, in increasing order, shape (count,).

        They are the quantiles at (j − ½)/count, the last one the largest node.  Values below 10⁻⁹ of it, negative ones
        too, become this: learning is as slow along all these directions.

        Parameters
        ----------
        count : int, optional
            None for the size of the matrix, but at most 10 000.
        """
        number = min(self.size, 10_000) if count is None else checks.integer("count", count, 1)
        if self.largest <= 0:
            raise ValueError(f"the matrix must have a positive eigenvalue, got at most {self.largest}")
        found = self._first((np.arange(number) + 0.5) / number, 0)
        found[-1] = self.largest
        return np.maximum(found, _MIN_EIGENVALUE * self.largest)


def spectrum_of(
    product: Callable[[Array], ArrayLike], size: int, *, probes: int = 8, steps: int = 64, rng: Seed = None
) -> HessianSpectrum:
    """The spectrum of a symmetric matrix that is known by products with vectors.

    The Lanczos vectors of a probe, ``steps`` vectors of ``size`` numbers, are kept and made orthogonal twice.

    Parameters
    ----------
    product : callable
        Of a vector of shape (size,) with the matrix.
    size : int
        d >= 1.
    probes : int, default 8
        p >= 1 and k >= 2.
    steps : int, default 64
        p >= 1 and k >= 2.
    rng : int, SeedSequence or Generator, optional
        Of the probes.

    Raises
    ------
    ValueError
        An argument is out of its range, or a product is not finite.

    Examples
    --------
    >>> found = spectrum_of(lambda v: np.arange(1, 101) * v, 100, probes=20, steps=100, rng=0)
    >>> [float(each[0].round()) for each in found.quantiles([0.5])]
    [52.0, 48.0, 57.0]
    """
    d = checks.integer("size", size, 1)
    count, most = checks.integer("probes", probes, 1), min(checks.integer("steps", steps, 2), d)
    fits_into_memory("steps", most, 8 * most * d)
    random = generator(rng)
    nodes = np.full((count, most), np.inf)
    weights = np.zeros((count, most))
    for number in range(count):
        probe = random.standard_normal(d)
        diagonal, others = _lanczos(product, probe, most)
        values, vectors = eigh_tridiagonal(diagonal, others)
        nodes[number, : values.size] = values
        weights[number, : values.size] = vectors[0] ** 2 * float(probe @ probe)
    return HessianSpectrum(d, nodes, weights)


def _lanczos(product: Callable[[Array], ArrayLike], probe: Array, steps: int) -> tuple[Array, Array]:
    """The tridiagonal matrix of at most ``steps`` steps; fewer where the Krylov space of the probe ends."""
    basis = np.empty((steps, probe.size))
    basis[0] = probe / np.linalg.norm(probe)
    diagonal: list[float] = []
    others: list[float] = []
    largest = 0.0
    for k in range(steps):
        image = np.array(product(basis[k]), dtype=float)
        if image.shape != probe.shape or not np.isfinite(image).all():
            raise ValueError(f"product must return {probe.size} finite numbers, got shape {image.shape}")
        largest = max(largest, float(np.linalg.norm(image)))
        diagonal.append(float(basis[k] @ image))
        for _ in range(2):
            image -= basis[: k + 1].T @ (basis[: k + 1] @ image)
        length = float(np.linalg.norm(image))
        if k + 1 == steps or length <= _VANISHING_SHARE * largest:
            break
        others.append(length)
        basis[k + 1] = image / length
    return np.array(diagonal), np.array(others)


@usual_float_errors
def hessian_spectrum(
    model: Any,
    loss: Callable[..., Any],
    data: tuple[Any, ...],
    *,
    public: bool,
    probes: int = 8,
    steps: int = 64,
    chunk_size: int | None = None,
    rng: Seed = None,
) -> HessianSpectrum:
    """The spectrum of the Hessian of the mean loss over data that are public or synthetic.

    Nothing of it is private: a spectrum of private data would need a budget of its own.

    Parameters
    ----------
    model : object
        A ``torch.nn.Module``, whose trained parameters count; or parameters of JAX, a tree of arrays.
    loss : callable
        For PyTorch a function of outputs and targets that returns the mean over examples; for JAX a function of the
        parameters and the parts of one example.
    data : tuple
        Inputs and targets; arrays with the examples along the first axis.
    public : bool
        True says that the data are public or synthetic; it must be given.
    probes : int, default 8
        p and k: p k products with the Hessian are formed, and k vectors of the size of the model are kept.
    steps : int, default 64
        p and k: p k products with the Hessian are formed, and k vectors of the size of the model are kept.
    chunk_size : int, optional
        How many examples are in memory at once; None for all.
    rng : int, SeedSequence or Generator, optional
        Of the probes.

    Returns
    -------
    HessianSpectrum
        The spectrum: ``.eigenvalues(count)`` for ``cn.LinearRegression``, and ``.quantiles(levels)`` with error bars.

    Raises
    ------
    ValueError
        The data are not said to be public, or an argument is out of its range.

    Examples
    --------
    The page docs/hessian-spectrum.md has a network.  Who does not say that the data are public gets nothing:

    >>> import corrnoise as cn
    >>> cn.hessian_spectrum({"weights": [1.0]}, lambda at, x: at["weights"][0] * x, ([2.0],), public=False)
    Traceback (most recent call last):
    ValueError: public must be True: a spectrum of private data is not private, got False
    """
    if public is not True:
        raise ValueError(f"public must be True: a spectrum of private data is not private, got {public!r}")
    if not isinstance(data, tuple) or not data or len({len(each) for each in data}) != 1 or not len(data[0]):
        raise ValueError("data must be a tuple of arrays with the same number of examples, at least one")
    examples = len(data[0])
    size = examples if chunk_size is None else checks.integer("chunk_size", chunk_size, 1)
    chunks = [tuple(each[first : first + size] for each in data) for first in range(0, examples, size)]
    shares = [len(chunk[0]) / examples for chunk in chunks]
    from corrnoise.simulations.adapters import curvature

    of_torch = hasattr(model, "named_parameters")
    product_of, d = (curvature.of_torch if of_torch else curvature.of_jax)(model, loss)

    def product(vector: Array) -> Array:
        return np.asarray(sum(share * product_of(vector, chunk) for share, chunk in zip(shares, chunks, strict=True)))

    return spectrum_of(product, d, probes=probes, steps=steps, rng=rng)
