"""Noise and errors of time-varying buffers with their gradients, in O(n), compiled.  No argument is checked.

A run of n steps keeps d buffers s, from 0, with decays θ, outputs o_t, inputs i_t and scales δ_t:

    y⁰_t = z_t − o_t·s,    s ← θ∘s + i_t y⁰_t,    y_t = δ_t y⁰_t.

``covariances`` carries P = Cov(s), R_g = Cov(s, v_g) and Q_g = Cov(v_g) through a recursion (``theory.recursion``);
``error_gradient`` is its adjoint.  Both are compiled for each number m of states of a group, which a tuple of so many
items tells them: a system is (Φ, γ, w, states), with read-only arrays.
"""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.inlined import dot, inlined, sized_times, times

SEGMENT = 256  #: steps between two states that are kept for the gradient


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


@inlined
def _advance(mine, step, p, r, next_p, next_r, work, m):  # type: ignore[no-untyped-def]
    """One step of P, shape (d, d), and R, shape (G, d, m), which may be in place.

    ``mine`` is (θ, o, i, δ) and ``step`` (Φ, γ), both at the step, here and below.
    """
    theta, o, i, delta = mine
    phi, gamma = step
    d = theta.size
    po, ro, u, moved = work[0, :d], work[1, :m], work[2, :m], work[3, :m]
    times(p, o, po)
    variance = 1 + dot(o, po)
    for g in range(gamma.shape[0]):
        sized_times(r[g].T, o, ro, m, o.size)
        sized_times(phi[g], ro, u, m, m)
        for a in range(d):
            sized_times(phi[g], r[g, a], moved, m, m)
            entered = delta * (variance * i[a] - theta[a] * po[a])
            for x in range(m):
                next_r[g, a, x] = theta[a] * moved[x] - i[a] * u[x] + entered * gamma[g, x]
    for a in range(d):
        for b in range(d):
            crossed = theta[a] * po[a] * i[b] + i[a] * theta[b] * po[b]
            next_p[a, b] = theta[a] * theta[b] * p[a, b] - crossed + variance * i[a] * i[b]


@inlined
def _observe(mine, step, p, r, q, work, m):  # type: ignore[no-untyped-def]
    """One step of Q, shape (G, m, m), in place, from P and R before the step."""
    _, o, _, delta = mine
    phi, gamma = step
    po, ro, u, moved = work[0, : o.size], work[1, :m], work[2, :m], work[3:, :m]
    times(p, o, po)
    variance = 1 + dot(o, po)
    for g in range(gamma.shape[0]):
        sized_times(r[g].T, o, ro, m, o.size)
        sized_times(phi[g], ro, u, m, m)
        for x in range(m):
            sized_times(phi[g], q[g, x], moved[x], m, m)  # the rows of Q Φᵀ, as Q is symmetric
        for x in range(m):
            for y in range(m):
                total = -delta * (u[x] * gamma[g, y] + gamma[g, x] * u[y])
                total += delta * delta * variance * gamma[g, x] * gamma[g, y]
                for z in range(m):
                    total += phi[g, x, z] * moved[z, y]
                q[g, x, y] = total


@kernel
def covariances(phi, gamma, weights, states, theta, outputs, inputs, scales, errors, kept_p, kept_r):  # type: ignore[no-untyped-def]
    """Fill ``errors``, shape (n,), with Σ_g w_tg E (v_g)_0², and keep P and R before every ``SEGMENT``-th step.

    ``kept_p`` has the shape (segments, d, d), ``kept_r`` (segments, G, d, m); both are empty where none are kept.
    """
    n, d = outputs.shape
    groups, m = gamma.shape[1], len(states)
    p, r, q = np.zeros((d, d)), np.zeros((groups, d, m)), np.zeros((groups, m, m))
    work = np.empty((3 + max(m, 1), max(d, m)))
    for t in range(n):
        if t % SEGMENT == 0 and kept_p.shape[0]:
            kept_p[t // SEGMENT] = p
            kept_r[t // SEGMENT] = r
        mine = theta, outputs[t], inputs[t], scales[t]
        step = phi[t if phi.shape[0] > 1 else 0], gamma[t if gamma.shape[0] > 1 else 0]
        _observe(mine, step, p, r, q, work, m)
        _advance(mine, step, p, r, p, r, work, m)
        errors[t] = dot(weights[t], q[:, 0, 0])


@kernel
def error_gradient(system, mine, slopes, kept, gradients):  # type: ignore[no-untyped-def]
    """Fill the gradients of Σ_t slopes_t errors_t in θ, o, i and δ, from what ``covariances`` has kept.

    ``system`` is (Φ, γ, w, states), ``mine`` (θ, o, i, δ).  Adjoints of P, R, … are called bar_p, bar_r, …, and those
    of P, R and Q are ``bars``.
    """
    phi, gamma, weights, states = system
    theta, outputs, inputs, scales = mine
    of_theta, of_outputs, of_inputs, of_scales = gradients
    n, d = outputs.shape
    groups, m = gamma.shape[1], len(states)
    of_theta[:] = 0.0
    bars = np.zeros((d, d)), np.zeros((groups, d, m)), np.zeros((groups, m, m))
    ps, rs = np.empty((SEGMENT, d, d)), np.empty((SEGMENT, groups, d, m))
    work = np.empty((12, max(d, m)))
    for segment in range(kept[0].shape[0] - 1, -1, -1):
        first = segment * SEGMENT
        last = min(first + SEGMENT, n)
        ps[0], rs[0] = kept[0][segment], kept[1][segment]
        for t in range(first, last - 1):
            at = t - first
            here = theta, outputs[t], inputs[t], scales[t]
            step = phi[t if phi.shape[0] > 1 else 0], gamma[t if gamma.shape[0] > 1 else 0]
            _advance(here, step, ps[at], rs[at], ps[at + 1], rs[at + 1], work, m)
        for t in range(last - 1, first - 1, -1):
            for g in range(groups):
                bars[2][g, 0, 0] += slopes[t] * weights[t, g]
            here = theta, outputs[t], inputs[t], scales[t]
            step = phi[t if phi.shape[0] > 1 else 0], gamma[t if gamma.shape[0] > 1 else 0]
            state = ps[t - first], rs[t - first]
            of_scales[t] = _retreat(here, step, state, bars, (of_theta, of_outputs[t], of_inputs[t]), work, m)


@inlined
def _retreat(mine, step, state, bars, gradients, work, m):  # type: ignore[no-untyped-def]
    """The adjoint of one step: adjoints after it become those before it.  Returns the gradient in δ.

    ``state`` is (P, R) before the step, ``gradients`` are those in θ, to which is added, o and i.
    """
    theta, o, i, _ = mine
    phi, gamma = step
    p, r = state
    bar_p, bar_r, bar_q = bars
    of_theta, of_o, of_i = gradients
    d = theta.size
    po, later, bar_pi, bar_pa, bar_a = work[0, :d], work[1, :d], work[2, :d], work[3, :d], work[4, :d]
    times(p, o, po)
    for a in range(d):
        later[a] = theta[a] * po[a]
    variance = 1 + dot(o, po)
    times(bar_p, i, bar_pi)
    times(bar_p, later, bar_pa)
    bar_variance = dot(i, bar_pi)
    for a in range(d):
        bar_a[a] = -2 * bar_pi[a]
        of_i[a] = 2 * (variance * bar_pi[a] - bar_pa[a])
        of_o[a] = 0.0
        for b in range(d):
            of_theta[a] += 2 * bar_p[a, b] * p[a, b] * theta[b]
    bar_delta = 0.0
    for g in range(gamma.shape[0]):
        one, adjoints = (phi[g], gamma[g]), (bar_r[g], bar_q[g], bar_a)
        moved = _retreat_group(mine, one, variance, later, r[g], adjoints, gradients, work[5:], m)
        bar_variance += moved[0]
        bar_delta += moved[1]
    for a in range(d):
        of_theta[a] += bar_a[a] * po[a]
        bar_a[a] = theta[a] * bar_a[a] + bar_variance * o[a]  # the adjoint of P o from here on
    for a in range(d):
        of_o[a] += bar_variance * po[a] + dot(p[a], bar_a)
        for b in range(d):
            bar_p[a, b] = theta[a] * theta[b] * bar_p[a, b] + (bar_a[a] * o[b] + o[a] * bar_a[b]) / 2
    return bar_delta


@inlined
def _retreat_group(mine, step, variance, later, r, bars, gradients, work, m):  # type: ignore[no-untyped-def]
    """The part of a group in this; returns the adjoints of the variance of y⁰ and of δ.

    ``later`` is θ∘P o, ``bars`` are the adjoints of R, Q and P o.
    """
    theta, o, i, delta = mine
    phi, gamma = step
    bar_r, bar_q, bar_a = bars
    of_theta, of_o, of_i = gradients
    d = r.shape[0]
    ro, u, qc, bar_u, bar_ro = work[0, :m], work[1, :m], work[2, :m], work[3, :m], work[4, :m]
    moved, row = work[5, :m], work[6, :m]
    sized_times(r.T, o, ro, m, o.size)
    sized_times(phi, ro, u, m, m)
    sized_times(bar_q, gamma, qc, m, m)
    seen = dot(gamma, qc)
    bar_variance = delta * delta * seen
    bar_delta = 2 * delta * variance * seen - 2 * dot(u, qc)
    sized_times(bar_r.T, i, bar_u, m, o.size)
    for x in range(m):
        bar_u[x] = -bar_u[x] - 2 * delta * qc[x]
    sized_times(phi.T, bar_u, bar_ro, m, m)
    for a in range(d):
        entered = dot(bar_r[a], gamma)
        sized_times(phi, r[a], moved, m, m)
        of_theta[a] += dot(bar_r[a], moved)
        bar_variance += delta * i[a] * entered
        bar_delta += (variance * i[a] - later[a]) * entered
        bar_a[a] -= delta * entered
        of_i[a] += delta * variance * entered - dot(bar_r[a], u)
        of_o[a] += dot(r[a], bar_ro)
        sized_times(phi.T, bar_r[a], row, m, m)
        for x in range(m):
            bar_r[a, x] = theta[a] * row[x] + o[a] * bar_ro[x]
    for x in range(m):  # Q̄ Φ, by rows; then Φᵀ Q̄ Φ, by columns
        sized_times(phi.T, bar_q[x], row, m, m)
        bar_q[x] = row
    for y in range(m):
        sized_times(phi.T, bar_q[:, y], row, m, m)
        bar_q[:, y] = row
    return bar_variance, bar_delta
