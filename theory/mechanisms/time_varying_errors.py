"""Noise and errors of time-varying buffers with their gradients, in O(n), compiled.  No argument is checked.

A run of n steps keeps d buffers s, from 0, with decays θ, outputs o_t, inputs i_t and scales δ_t:

    y⁰_t = z_t − o_t·s,    s ← θ∘s + i_t y⁰_t,    y_t = δ_t y⁰_t.

``covariances`` carries P = Cov(s), R_g = Cov(s, v_g) and Q_g = Cov(v_g) through a recursion (``theory.recursion``);
``error_gradient`` is its adjoint.  The compiled functions read and write single numbers: numba takes seconds to
compile as many views of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.recursion import Recursion

_SEGMENT_STEPS = 512  # steps between two states that are kept for the gradient


@kernel
def noise(decays, outputs, inputs, scales, draws):  # type: ignore[no-untyped-def]
    """Turn draws, shape (n, size), into the noise, in place."""
    n, d = outputs.shape
    states = np.zeros((d, draws.shape[1]))
    for t in range(n):
        for j in range(draws.shape[1]):
            made = draws[t, j]
            for a in range(d):
                made -= outputs[t, a] * states[a, j]
            for a in range(d):
                states[a, j] = decays[a] * states[a, j] + inputs[t, a] * made
            draws[t, j] = scales[t] * made


def covariances(system: Recursion, mine: Sequence[Array], errors: Array, keeps: bool) -> list[tuple[Array, Array]]:
    """Fill ``errors``, shape (n,), with Σ_g w_tg E (v_g)_0², and return P and R before the first step of each segment.

    ``mine`` is (θ, o, i, δ).  The list is empty unless the function ``keeps`` these states.
    """
    p, r, q = _states(system, mine[0].size)
    kept = []
    for first in range(0, errors.size, _SEGMENT_STEPS):
        last = min(first + _SEGMENT_STEPS, errors.size)
        if keeps:
            kept.append((p[0].copy(), r[0].copy()))
        _advance(system.parts, tuple(mine), first, last, p, r, q, errors)
        p[0], r[0] = p[last - first], r[last - first]
    return kept


def error_gradient(
    system: Recursion, mine: Sequence[Array], slopes: Array, kept: Sequence[tuple[Array, Array]]
) -> list[Array]:
    """The gradients of Σ_t slopes_t errors_t in θ, o, i and δ, from the states that ``covariances`` has kept."""
    found = [np.zeros_like(each) for each in mine]
    p, r, bar_q = _states(system, mine[0].size)
    bar_p, bar_r = np.zeros_like(p[0]), np.zeros_like(r[0])
    unused = np.empty((0, 0, 0)), slopes
    for segment in range(len(kept) - 1, -1, -1):
        first, last = segment * _SEGMENT_STEPS, min((segment + 1) * _SEGMENT_STEPS, slopes.size)
        p[0], r[0] = kept[segment]
        _advance(system.parts, tuple(mine), first, last, p, r, *unused)
        _retreat(system.parts, tuple(mine), slopes, first, last, (p, r), (bar_p, bar_r, bar_q), tuple(found))
    return found


def _states(system: Recursion, buffers: int) -> tuple[Array, Array, Array]:
    """P and R before each step of a segment, and Q, all 0."""
    groups, m = system.input.shape[1:]
    rows = min(_SEGMENT_STEPS, system.steps) + 1
    return np.zeros((rows, buffers, buffers)), np.zeros((rows, groups, buffers, m)), np.zeros((groups, m, m))


@kernel
def _advance(parts, mine, first, last, p, r, q, errors):  # type: ignore[no-untyped-def]  # noqa: C901
    """Fill P and R before the steps from ``first`` to ``last``, from those in the first row.

    Q and ``errors`` advance with them, unless Q is empty.
    """
    phi, gamma, weights = parts
    theta, outputs, inputs, scales = mine
    d, groups, m = theta.size, gamma.shape[1], gamma.shape[2]
    po, ro, u, moved = np.empty(d), np.empty(m), np.empty(m), np.empty((m, m))
    for t in range(first, last):
        at = t - first
        f, c = t if phi.shape[0] > 1 else 0, t if gamma.shape[0] > 1 else 0
        delta = scales[t]
        variance, seen = 0.0, 0.0
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += p[at, a, b] * outputs[t, b]
            po[a] = total
            variance += outputs[t, a] * total
        variance += 1
        for g in range(groups):
            for x in range(m):
                total = 0.0
                for a in range(d):
                    total += r[at, g, a, x] * outputs[t, a]
                ro[x] = total
            for x in range(m):
                total = 0.0
                for y in range(m):
                    total += phi[f, g, x, y] * ro[y]
                u[x] = total
            for a in range(d):
                entered = delta * (variance * inputs[t, a] - theta[a] * po[a])
                for x in range(m):
                    total = 0.0
                    for y in range(m):
                        total += phi[f, g, x, y] * r[at, g, a, y]
                    r[at + 1, g, a, x] = theta[a] * total - inputs[t, a] * u[x] + entered * gamma[c, g, x]
            if q.shape[0] == 0:
                continue
            for x in range(m):
                for y in range(m):
                    total = 0.0
                    for z in range(m):
                        total += phi[f, g, y, z] * q[g, x, z]
                    moved[x, y] = total  # Q Φᵀ, as Q is symmetric
            for x in range(m):
                for y in range(m):
                    total = -delta * (u[x] * gamma[c, g, y] + gamma[c, g, x] * u[y])
                    total += delta * delta * variance * gamma[c, g, x] * gamma[c, g, y]
                    for z in range(m):
                        total += phi[f, g, x, z] * moved[z, y]
                    q[g, x, y] = total
            seen += weights[t, g] * q[g, 0, 0]
        if q.shape[0] > 0:
            errors[t] = seen
        for a in range(d):
            for b in range(d):
                crossed = theta[a] * po[a] * inputs[t, b] + inputs[t, a] * theta[b] * po[b]
                entered = variance * inputs[t, a] * inputs[t, b]
                p[at + 1, a, b] = theta[a] * theta[b] * p[at, a, b] - crossed + entered


@kernel
def _retreat(parts, mine, slopes, first, last, states, adjoints, gradients):  # type: ignore[no-untyped-def]  # noqa: C901
    """The adjoint of a segment: adjoints of P, R and Q after it become those before it, and gradients are filled.

    ``_advance`` has filled the ``states`` P and R.  Gradients in θ are added.
    """
    phi, gamma, weights = parts
    theta, outputs, inputs, scales = mine
    p, r = states
    bar_p, bar_r, bar_q = adjoints
    of_theta, of_outputs, of_inputs, of_scales = gradients
    d, groups, m = theta.size, gamma.shape[1], gamma.shape[2]
    po, later, bar_a = np.empty(d), np.empty(d), np.empty(d)
    u, qc, bar_u, bar_ro, row = np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    for t in range(last - 1, first - 1, -1):
        at = t - first
        f, c = t if phi.shape[0] > 1 else 0, t if gamma.shape[0] > 1 else 0
        delta = scales[t]
        variance = 0.0
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += p[at, a, b] * outputs[t, b]
            po[a], later[a] = total, theta[a] * total
            variance += outputs[t, a] * total
        variance += 1
        bar_variance, bar_delta = 0.0, 0.0
        for a in range(d):
            bar_pi, bar_pa = 0.0, 0.0
            for b in range(d):
                bar_pi += bar_p[a, b] * inputs[t, b]
                bar_pa += bar_p[a, b] * later[b]
                of_theta[a] += 2 * bar_p[a, b] * p[at, a, b] * theta[b]
            bar_variance += inputs[t, a] * bar_pi
            bar_a[a] = -2 * bar_pi
            of_inputs[t, a] = 2 * (variance * bar_pi - bar_pa)
        for g in range(groups):
            bar_q[g, 0, 0] += slopes[t] * weights[t, g]
            for x in range(m):
                total = 0.0
                for a in range(d):
                    total += r[at, g, a, x] * outputs[t, a]
                row[x] = total
            for x in range(m):
                u[x], qc[x] = 0.0, 0.0
                for y in range(m):
                    u[x] += phi[f, g, x, y] * row[y]
                    qc[x] += bar_q[g, x, y] * gamma[c, g, y]
            seen, crossed = 0.0, 0.0
            for x in range(m):
                seen += gamma[c, g, x] * qc[x]
                crossed += u[x] * qc[x]
                total = 0.0
                for a in range(d):
                    total += bar_r[g, a, x] * inputs[t, a]
                bar_u[x] = -total - 2 * delta * qc[x]
            of_variance = delta * delta * seen
            of_delta = 2 * delta * variance * seen - 2 * crossed
            for x in range(m):
                total = 0.0
                for y in range(m):
                    total += phi[f, g, y, x] * bar_u[y]
                bar_ro[x] = total
            for a in range(d):
                entered, moved, seen, left = 0.0, 0.0, 0.0, 0.0
                for x in range(m):
                    total = 0.0
                    for y in range(m):
                        total += phi[f, g, x, y] * r[at, g, a, y]
                    entered += bar_r[g, a, x] * gamma[c, g, x]
                    moved += bar_r[g, a, x] * total
                    seen += bar_r[g, a, x] * u[x]
                    left += r[at, g, a, x] * bar_ro[x]
                of_theta[a] += moved
                of_variance += delta * inputs[t, a] * entered
                of_delta += (variance * inputs[t, a] - later[a]) * entered
                bar_a[a] -= delta * entered
                of_inputs[t, a] += delta * variance * entered - seen
                of_outputs[t, a] += left
                for x in range(m):
                    row[x] = 0.0
                    for y in range(m):
                        row[x] += phi[f, g, y, x] * bar_r[g, a, y]
                for x in range(m):
                    bar_r[g, a, x] = theta[a] * row[x] + outputs[t, a] * bar_ro[x]
            for x in range(m):  # Q̄ Φ, by rows; then Φᵀ Q̄ Φ, by columns
                for y in range(m):
                    row[y] = 0.0
                    for z in range(m):
                        row[y] += phi[f, g, z, y] * bar_q[g, x, z]
                for y in range(m):
                    bar_q[g, x, y] = row[y]
            for y in range(m):
                for x in range(m):
                    row[x] = 0.0
                    for z in range(m):
                        row[x] += phi[f, g, z, x] * bar_q[g, z, y]
                for x in range(m):
                    bar_q[g, x, y] = row[x]
            bar_variance += of_variance
            bar_delta += of_delta
        for a in range(d):
            of_theta[a] += bar_a[a] * po[a]
            bar_a[a] = theta[a] * bar_a[a] + bar_variance * outputs[t, a]  # the adjoint of P o from here on
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += p[at, a, b] * bar_a[b]
            of_outputs[t, a] += bar_variance * po[a] + total
            for b in range(d):
                entered = (bar_a[a] * outputs[t, b] + outputs[t, a] * bar_a[b]) / 2
                bar_p[a, b] = theta[a] * theta[b] * bar_p[a, b] + entered
        of_scales[t] = bar_delta
