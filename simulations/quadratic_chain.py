"""One chain of a simulated quadratic problem, compiled: draw inputs and noise, record the error, advance.

In the eigenbasis of the Hessian, with φ_j = sqrt(λ_j) (θ_j − θ*_j) and inputs x_j = sqrt(λ_j) z_j, a step is

    φ_j ← φ_j − η λ_j z_j (⟨z, φ⟩ − ξ) c − η σ sqrt(λ_j) w̃_j,    F − F* = ½ ‖φ‖²,

with c = 1, or with clipping the factor that brings the gradient's norm |⟨z, φ⟩ − ξ| sqrt(Σ λ_j z_j²) down to G.  With
batches of m examples the first term is the mean over m draws of (z, ξ, c), and σ is divided by m.  The noise w̃ is
rational: a delay line, then sections of one pole each.

Beside φ runs its linear part φ⁰, in which z zᵀ is replaced by its mean, and the next term φ¹ of the same expansion.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.checks import Array

_jit = kernel(fastmath={"reassoc", "contract", "nsz"})


class Inputs(NamedTuple):
    """The law of the inputs' coordinates: the ``code`` of ``InputMoments``, and the degrees of freedom."""

    code: int
    freedom: float


class Filter(NamedTuple):
    """Rational noise: coefficients of a delay line, then sections with these gains and poles."""

    head: Array
    gains: Array
    poles: Array


class Memory(NamedTuple):
    """Memory of the filter: the last draws, shape (coefficients, d), and the state of each section, (sections, d)."""

    ring: Array
    states: Array


class Dynamics(NamedTuple):
    """A step: x_j = η λ_j and sqrt(λ_j), shape (d,); standard deviations of ξ and η w/m; G or ``inf``; m."""

    rates: Array
    roots: Array
    residual: float
    step_noise: float
    clip_norm: float
    batch_size: int


class _Iterates(NamedTuple):
    """φ, its linear part φ⁰, and the next term φ¹, shape (d,) each."""

    phi: Array
    linear: Array
    second: Array


class _Products(NamedTuple):
    """⟨z, φ⟩, ⟨z, φ⁰⟩, ‖φ‖², ‖φ − φ⁰‖² and ‖φ − φ⁰ − φ¹‖² at one step."""

    seen: float
    seen_linear: float
    energy: float
    delta: float
    delta1: float


@_jit
def _draw_inputs(rng, inputs, z):  # type: ignore[no-untyped-def]
    """Fill ``z`` with independent coordinates of mean 0 and variance 1."""
    freedom = inputs.freedom
    if inputs.code == 0:
        for j in range(z.size):
            z[j] = rng.standard_normal()
    elif inputs.code == 1:
        width = math.sqrt(12.0)
        for j in range(z.size):
            z[j] = width * (rng.random() - 0.5)
    elif inputs.code == 2:
        for j in range(z.size):
            z[j] = 1.0 if rng.random() < 0.5 else -1.0
    else:
        spread = math.sqrt((freedom - 2) / freedom)
        for j in range(z.size):
            z[j] = spread * rng.standard_normal() / math.sqrt(rng.chisquare(freedom) / freedom)


@_jit
def empty_memory(rational, d):  # type: ignore[no-untyped-def]
    """The memory of a filter before the first of its steps, for noise of d coordinates."""
    return Memory(np.zeros((rational.head.size, d)), np.zeros((rational.poles.size, d)))


@_jit
def draw_noise(rng, rational, memory, newest, n):  # type: ignore[no-untyped-def]
    """Fill ``n`` with the next correlated noise; return the row of the newest draw in the ring."""
    head, gains, poles = rational
    ring, states = memory
    taps = head.size
    if taps == 1:
        first = head[0]
        for j in range(n.size):
            n[j] = first * rng.standard_normal()
    else:
        newest = (newest + taps - 1) % taps
        for j in range(n.size):
            ring[newest, j] = rng.standard_normal()
            n[j] = 0.0
        for k in range(taps):
            row = (newest + k) % taps
            beta = head[k]
            for j in range(n.size):
                n[j] += beta * ring[row, j]
    for i in range(poles.size):
        gain = gains[i]
        pole = poles[i]
        for j in range(n.size):
            x = n[j]
            u = states[i, j]
            n[j] = x + gain * u
            states[i, j] = u + (x - pole * u)
    return newest


@_jit
def _products(z, iterates, controls):  # type: ignore[no-untyped-def]
    """The inner products and squares that a step needs; without ``controls`` only those of φ."""
    phi, linear, second = iterates
    seen, seen_linear, energy, delta, delta1 = 0.0, 0.0, 0.0, 0.0, 0.0
    if controls:
        for j in range(z.size):
            rest = phi[j] - linear[j]
            left = rest - second[j]
            seen += z[j] * phi[j]
            seen_linear += z[j] * linear[j]
            energy += phi[j] * phi[j]
            delta += rest * rest
            delta1 += left * left
    else:
        for j in range(z.size):
            seen += z[j] * phi[j]
            energy += phi[j] * phi[j]
    return _Products(seen, seen_linear, energy, delta, delta1)


@_jit
def _clipping_factor(z, dynamics, error):  # type: ignore[no-untyped-def]
    """The factor min(1, G/norm) of the gradient z_j sqrt(λ_j) ``error``."""
    if not math.isfinite(dynamics.clip_norm):
        return 1.0
    roots = dynamics.roots
    length = 0.0
    for j in range(z.size):
        length += roots[j] * roots[j] * z[j] * z[j]
    norm = abs(error) * math.sqrt(length)
    return dynamics.clip_norm / norm if norm > dynamics.clip_norm else 1.0


@_jit
def _advance(z, n, xi, error, seen_linear, dynamics, iterates, controls):  # type: ignore[no-untyped-def]
    """One step of φ with the clipped ``error``; with ``controls`` also of φ⁰ and φ¹."""
    rates, roots, step_noise = dynamics.rates, dynamics.roots, dynamics.step_noise
    phi, linear, second = iterates
    if controls:
        for j in range(z.size):
            x = rates[j]
            drive = step_noise * roots[j] * n[j]
            second[j] += x * (linear[j] - second[j] - z[j] * seen_linear)
            linear[j] += x * (z[j] * xi - linear[j]) - drive
            phi[j] -= x * z[j] * error + drive
    else:
        for j in range(z.size):
            phi[j] -= rates[j] * z[j] * error + step_noise * roots[j] * n[j]


@_jit
def _advance_by_batch(rng, inputs, n, first, dynamics, iterates, controls, z, sums):  # type: ignore[no-untyped-def]
    """As ``_advance``, for a batch whose ``first`` example, the gradient (z, ξ) before clipping, is drawn already.

    ``z`` holds the inputs of the first example, ``sums`` (3, d) the means of the gradients at φ, at φ⁰ and of ξ z.
    Returns how many gradients were clipped.
    """
    rates, roots, step_noise, m = dynamics.rates, dynamics.roots, dynamics.step_noise, dynamics.batch_size
    phi, linear, second = iterates
    sums[:] = 0.0
    clipped = 0
    for example in range(m):
        xi = first
        if example > 0:
            _draw_inputs(rng, inputs, z)
            xi = dynamics.residual * rng.standard_normal() if dynamics.residual > 0 else 0.0
        seen, seen_linear = 0.0, 0.0
        for j in range(z.size):
            seen += z[j] * phi[j]
            seen_linear += z[j] * linear[j]
        factor = _clipping_factor(z, dynamics, seen - xi)
        clipped += factor < 1
        for j in range(z.size):
            sums[0, j] += z[j] * (factor * (seen - xi)) / m
            sums[1, j] += z[j] * seen_linear / m
            sums[2, j] += z[j] * xi / m
    for j in range(z.size):
        x = rates[j]
        drive = step_noise * roots[j] * n[j]
        if controls:
            second[j] += x * (linear[j] - second[j] - sums[1, j])
            linear[j] += x * (sums[2, j] - linear[j]) - drive
        phi[j] -= x * sums[0, j] + drive
    return clipped


@_jit
def run_chain(rng, inputs, rational, dynamics, start, controls, burn_in, edges, sums, stopped):  # type: ignore[no-untyped-def]
    """Run one chain; add ‖φ‖² and, with ``controls``, ‖φ − φ⁰‖², ‖φ − φ⁰ − φ¹‖² to ``sums`` (batches, 3).

    Batch b holds the steps from ``edges[b]`` to ``edges[b + 1]``.  Returns the sum of ‖φ‖⁴ and the number of clipped
    gradients over the recorded steps.  Sums are ``inf`` once φ exceeds the range of floats.  ``stopped`` ends the run.
    """
    d = start.size
    z, n, gradients = np.empty(d), np.empty(d), np.empty((3, d))
    iterates = _Iterates(start.copy(), start.copy(), np.zeros(d))
    memory = empty_memory(rational, d)
    newest, batch, clipped = 0, 0, 0
    fourth_powers = 0.0
    for t in range(-burn_in, edges[-1]):
        _draw_inputs(rng, inputs, z)
        xi = dynamics.residual * rng.standard_normal() if dynamics.residual > 0 else 0.0
        newest = draw_noise(rng, rational, memory, newest, n)
        found = _products(z, iterates, controls)
        if t >= edges[batch + 1]:
            batch += 1
        if not found.energy < 1e300:
            sums[batch:] = math.inf
            return math.inf, clipped
        if stopped[0]:
            return fourth_powers, clipped
        if t >= 0:
            sums[batch, 0] += found.energy
            sums[batch, 1] += found.delta
            sums[batch, 2] += found.delta1
            fourth_powers += found.energy * found.energy
        if dynamics.batch_size == 1:
            factor = _clipping_factor(z, dynamics, found.seen - xi)
            new = int(factor < 1)
            _advance(z, n, xi, factor * (found.seen - xi), found.seen_linear, dynamics, iterates, controls)
        else:
            new = _advance_by_batch(rng, inputs, n, xi, dynamics, iterates, controls, z, gradients)
        if t >= 0:
            clipped += new
    return fourth_powers, clipped
