"""Errors and sensitivities of time-varying buffers with their gradients, in O(n), compiled.  No argument is checked.

A run of n steps keeps d buffers s, from 0, with decays θ, outputs o_t, inputs i_t and scales δ_t = 1/c_t:

    y⁰_t = z_t − o_t·s,    s ← θ∘s + i_t y⁰_t,    y_t = δ_t y⁰_t.

*Errors.*  ``covariances`` carries P = Cov(s), R_g = Cov(s, v_g) and Q_g = Cov(v_g) through a recursion
(``theory.recursion``); ``error_gradient`` is its adjoint.

*Sensitivity.*  The strategy and its Gram matrix X are non-negative, so that the largest squared sum over unit vectors
is Σ X_ij over the steps of a pattern.  With Q_t = o_t o_tᵀ + θθᵀ∘Q_{t+1}, Q_n = 0, and the state σ at step j of the
system that is fed c in the earlier steps of the pattern, the step j adds its *gain*

    c_j (c_j base_j + slope_j·σ),    base_j = 1 + i_jᵀQ_{j+1}i_j,    slope_j = 2 (o_j + θ∘Q_{j+1}i_j).

All terms are >= 0: no subtraction, and a relative error of (6n + 8d + 40) units at most.  All compiled functions of
this subject live in this file, because numba's cache does not notice a change of a callee in another one.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")
#: For small functions that take views of arrays: a call counts references to them, which takes longer than the work.
_inlined = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
SEGMENT = 256  #: steps between two states that are kept for the gradient


def writable(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """The arrays, copied where they are read-only: numba compiles a function once more for such arrays."""
    return [np.require(each, requirements=("C", "W")) for each in arrays]


# -- noise and errors --------------------------------------------------------------------------------------------------


@_jit
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


@_inlined
def _times(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Fill ``result`` with the product."""
    for x in range(matrix.shape[0]):
        total = 0.0
        for y in range(matrix.shape[1]):
            total += matrix[x, y] * vector[y]
        result[x] = total


@_inlined
def _transposed_times(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Fill ``result`` with the product of the transposed matrix."""
    for y in range(matrix.shape[1]):
        total = 0.0
        for x in range(matrix.shape[0]):
            total += matrix[x, y] * vector[x]
        result[y] = total


@_inlined
def _dot(one, other):  # type: ignore[no-untyped-def]
    total = 0.0
    for x in range(one.size):
        total += one[x] * other[x]
    return total


@_inlined
def _advance(theta, o, i, delta, phi, gamma, p, r, next_p, next_r, work):  # type: ignore[no-untyped-def]
    """One step of P, shape (d, d), and R, shape (G, d, m), which may be in place."""
    d = theta.size
    groups, m = gamma.shape
    po, ro, u, moved = work[0, :d], work[1, :m], work[2, :m], work[3, :m]
    _times(p, o, po)
    variance = 1 + _dot(o, po)
    for g in range(groups):
        _transposed_times(r[g], o, ro)
        _times(phi[g], ro, u)
        for a in range(d):
            _times(phi[g], r[g, a], moved)
            entered = delta * (variance * i[a] - theta[a] * po[a])
            for x in range(m):
                next_r[g, a, x] = theta[a] * moved[x] - i[a] * u[x] + entered * gamma[g, x]
    for a in range(d):
        for b in range(d):
            crossed = theta[a] * po[a] * i[b] + i[a] * theta[b] * po[b]
            next_p[a, b] = theta[a] * theta[b] * p[a, b] - crossed + variance * i[a] * i[b]


@_inlined
def _observe(o, delta, phi, gamma, p, r, q, work):  # type: ignore[no-untyped-def]
    """One step of Q, shape (G, m, m), in place, from P and R before the step."""
    groups, m = gamma.shape
    po, ro, u, moved = work[0, : o.size], work[1, :m], work[2, :m], work[3:, :m]
    _times(p, o, po)
    variance = 1 + _dot(o, po)
    for g in range(groups):
        _transposed_times(r[g], o, ro)
        _times(phi[g], ro, u)
        for x in range(m):
            _times(phi[g], q[g, x], moved[x])  # the rows of Q Φᵀ, as Q is symmetric
        for x in range(m):
            for y in range(m):
                total = -delta * (u[x] * gamma[g, y] + gamma[g, x] * u[y])
                total += delta * delta * variance * gamma[g, x] * gamma[g, y]
                for z in range(m):
                    total += phi[g, x, z] * moved[z, y]
                q[g, x, y] = total


@_jit
def covariances(phi, gamma, weights, theta, outputs, inputs, scales, errors, kept_p, kept_r):  # type: ignore[no-untyped-def]
    """Fill ``errors``, shape (n,), with Σ_g w_tg E (v_g)_0², and keep P and R before every ``SEGMENT``-th step.

    ``kept_p`` has the shape (segments, d, d), ``kept_r`` (segments, G, d, m); both are empty where none are kept.
    """
    n, d = outputs.shape
    groups, m = gamma.shape[1:]
    p, r, q = np.zeros((d, d)), np.zeros((groups, d, m)), np.zeros((groups, m, m))
    work = np.empty((3 + max(m, 1), max(d, m)))
    for t in range(n):
        if t % SEGMENT == 0 and kept_p.shape[0]:
            kept_p[t // SEGMENT] = p
            kept_r[t // SEGMENT] = r
        f, c = phi[t if phi.shape[0] > 1 else 0], gamma[t if gamma.shape[0] > 1 else 0]
        _observe(outputs[t], scales[t], f, c, p, r, q, work)
        _advance(theta, outputs[t], inputs[t], scales[t], f, c, p, r, p, r, work)
        errors[t] = _dot(weights[t], q[:, 0, 0])


@_jit
def error_gradient(system, mine, slopes, kept, gradients):  # type: ignore[no-untyped-def]
    """Fill the gradients of Σ_t slopes_t errors_t in θ, o, i and δ, from what ``covariances`` has kept.

    ``system`` is (Φ, γ, w), ``mine`` (θ, o, i, δ).  Adjoints of P, R, … are called bar_p, bar_r, ….
    """
    phi, gamma, weights = system
    theta, outputs, inputs, scales = mine
    of_theta, of_outputs, of_inputs, of_scales = gradients
    n, d = outputs.shape
    groups, m = gamma.shape[1:]
    of_theta[:] = 0.0
    bar_p, bar_r, bar_q = np.zeros((d, d)), np.zeros((groups, d, m)), np.zeros((groups, m, m))
    ps, rs = np.empty((SEGMENT, d, d)), np.empty((SEGMENT, groups, d, m))
    work = np.empty((12, max(d, m)))
    for segment in range(kept[0].shape[0] - 1, -1, -1):
        first = segment * SEGMENT
        last = min(first + SEGMENT, n)
        ps[0], rs[0] = kept[0][segment], kept[1][segment]
        for t in range(first, last - 1):
            at = t - first
            f, c = phi[t if phi.shape[0] > 1 else 0], gamma[t if gamma.shape[0] > 1 else 0]
            _advance(theta, outputs[t], inputs[t], scales[t], f, c, ps[at], rs[at], ps[at + 1], rs[at + 1], work)
        for t in range(last - 1, first - 1, -1):
            for g in range(groups):
                bar_q[g, 0, 0] += slopes[t] * weights[t, g]
            f, c = phi[t if phi.shape[0] > 1 else 0], gamma[t if gamma.shape[0] > 1 else 0]
            of_scales[t] = _retreat(
                theta,
                outputs[t],
                inputs[t],
                scales[t],
                f,
                c,
                ps[t - first],
                rs[t - first],
                bar_p,
                bar_r,
                bar_q,
                of_theta,
                of_outputs[t],
                of_inputs[t],
                work,
            )


@_inlined
def _retreat(theta, o, i, delta, phi, gamma, p, r, bar_p, bar_r, bar_q, of_theta, of_o, of_i, work):  # type: ignore[no-untyped-def]
    """The adjoint of one step: adjoints after it become those before it.  Returns the gradient in δ."""
    d = theta.size
    po, later, bar_pi, bar_pa, bar_a = work[0, :d], work[1, :d], work[2, :d], work[3, :d], work[4, :d]
    _times(p, o, po)
    for a in range(d):
        later[a] = theta[a] * po[a]
    variance = 1 + _dot(o, po)
    _times(bar_p, i, bar_pi)
    _times(bar_p, later, bar_pa)
    bar_variance = _dot(i, bar_pi)
    for a in range(d):
        bar_a[a] = -2 * bar_pi[a]
        of_i[a] = 2 * (variance * bar_pi[a] - bar_pa[a])
        of_o[a] = 0.0
        for b in range(d):
            of_theta[a] += 2 * bar_p[a, b] * p[a, b] * theta[b]
    bar_delta = 0.0
    for g in range(gamma.shape[0]):
        moved = _retreat_group(
            theta,
            o,
            i,
            delta,
            phi[g],
            gamma[g],
            variance,
            later,
            r[g],
            bar_r[g],
            bar_q[g],
            bar_a,
            of_theta,
            of_o,
            of_i,
            work[5:],
        )
        bar_variance += moved[0]
        bar_delta += moved[1]
    for a in range(d):
        of_theta[a] += bar_a[a] * po[a]
        bar_a[a] = theta[a] * bar_a[a] + bar_variance * o[a]  # the adjoint of P o from here on
    for a in range(d):
        of_o[a] += bar_variance * po[a] + _dot(p[a], bar_a)
        for b in range(d):
            bar_p[a, b] = theta[a] * theta[b] * bar_p[a, b] + (bar_a[a] * o[b] + o[a] * bar_a[b]) / 2
    return bar_delta


@_inlined
def _retreat_group(theta, o, i, delta, phi, gamma, variance, later, r, bar_r, bar_q, bar_a, of_theta, of_o, of_i, work):  # type: ignore[no-untyped-def]
    """The part of a group in this; returns the adjoints of the variance of y⁰ and of δ."""
    d, m = r.shape
    ro, u, qc, bar_u, bar_ro = work[0, :m], work[1, :m], work[2, :m], work[3, :m], work[4, :m]
    moved, row = work[5, :m], work[6, :m]
    _transposed_times(r, o, ro)
    _times(phi, ro, u)
    _times(bar_q, gamma, qc)
    seen = _dot(gamma, qc)
    bar_variance = delta * delta * seen
    bar_delta = 2 * delta * variance * seen - 2 * _dot(u, qc)
    _transposed_times(bar_r, i, bar_u)
    for x in range(m):
        bar_u[x] = -bar_u[x] - 2 * delta * qc[x]
    _transposed_times(phi, bar_u, bar_ro)
    for a in range(d):
        entered = _dot(bar_r[a], gamma)
        _times(phi, r[a], moved)
        of_theta[a] += _dot(bar_r[a], moved)
        bar_variance += delta * i[a] * entered
        bar_delta += (variance * i[a] - later[a]) * entered
        bar_a[a] -= delta * entered
        of_i[a] += delta * variance * entered - _dot(bar_r[a], u)
        of_o[a] += _dot(r[a], bar_ro)
        _transposed_times(phi, bar_r[a], row)
        for x in range(m):
            bar_r[a, x] = theta[a] * row[x] + o[a] * bar_ro[x]
    for x in range(m):  # Q̄ Φ, by rows; then Φᵀ Q̄ Φ, by columns
        _transposed_times(phi, bar_q[x], row)
        bar_q[x] = row
    for y in range(m):
        _transposed_times(phi, bar_q[:, y], row)
        bar_q[:, y] = row
    return bar_variance, bar_delta


# -- sensitivity -------------------------------------------------------------------------------------------------------


@_inlined
def _earlier(theta, o, later, q):  # type: ignore[no-untyped-def]
    """Fill Q_t, which may be in place of Q_{t+1}."""
    for a in range(theta.size):
        for b in range(theta.size):
            q[a, b] = theta[a] * theta[b] * later[a, b] + o[a] * o[b]


@_jit
def gains(theta, outputs, inputs, bases, slopes):  # type: ignore[no-untyped-def]
    """Fill the bases, shape (n,), and the slopes, shape (n, d), of the gains of all steps."""
    n, d = outputs.shape
    q = np.zeros((d, d))
    for t in range(n - 1, -1, -1):
        bases[t] = 1.0
        for a in range(d):
            qi = 0.0
            for b in range(d):
                qi += q[a, b] * inputs[t, b]
            bases[t] += inputs[t, a] * qi
            slopes[t, a] = 2 * (outputs[t, a] + theta[a] * qi)
        _earlier(theta, outputs[t], q, q)


@_jit
def class_sums(theta, inputs, columns, bases, slopes, period, states, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with Σ X_ij over each class {r, r + b, …}, and ``states``, shape (n, d), with σ before a step."""
    n, d = inputs.shape
    waited = theta ** (period - 1)
    sums[:] = 0.0
    for t in range(n):
        total = columns[t] * bases[t]
        for a in range(d):
            before = 0.0
            if t >= period:
                s = t - period
                before = waited[a] * (theta[a] * states[s, a] + columns[s] * inputs[s, a])
            states[t, a] = before
            total += slopes[t, a] * before
        sums[t % period] += columns[t] * total


@_jit
def pattern_sum(theta, inputs, columns, bases, slopes, pattern):  # type: ignore[no-untyped-def]
    """Σ X_ij over the steps of a pattern, in ascending order."""
    state = np.zeros(theta.size)
    total = 0.0
    earlier = 0
    for t in pattern:
        gain = columns[t] * bases[t]
        for a in range(theta.size):
            if t > pattern[0]:
                state[a] = theta[a] ** (t - earlier - 1) * (theta[a] * state[a] + columns[earlier] * inputs[earlier, a])
            gain += slopes[t, a] * state[a]
        total += columns[t] * gain
        earlier = t
    return total


@_jit
def min_sep_bound(theta, inputs, columns, bases, slopes, period, count, saturated):  # type: ignore[no-untyped-def]
    """An upper bound of Σ X_ij over patterns of at most ``count`` steps that are at least ``period`` apart.

    The largest gain of step t is that of the largest state, component by component, which earlier participations can
    leave; the states of at most j participations bound the gain of participation j + 1.  The pattern with the largest
    sum of these gains bounds all.  Where the separation alone limits the number (``saturated``) it is not counted.
    """
    n, d = inputs.shape
    waited = theta ** (period - 1)
    states = np.zeros((n, d))  # before step t, from participations up to t − period
    best = np.zeros(n + period)  # the largest sum of the participations up to t − period
    rounds = 1 if saturated else count
    for _ in range(rounds):
        following = states if saturated else np.zeros((n, d))
        sums = best if saturated else np.zeros(n + period)
        for t in range(n + period):
            if t > 0:
                sums[t] = sums[t - 1]
                if t < n:
                    for a in range(d):
                        following[t, a] = theta[a] * following[t - 1, a]
            s = t - period
            if s >= 0:
                gain = columns[s] * bases[s]
                for a in range(d):
                    gain += slopes[s, a] * states[s, a]
                    if t < n:
                        entered = waited[a] * (theta[a] * states[s, a] + columns[s] * inputs[s, a])
                        following[t, a] = max(following[t, a], entered)
                sums[t] = max(sums[t], best[s] + columns[s] * gain)
        states, best = following, sums
    return best[n + period - 1]


@_jit
def reshuffled_bound(theta, inputs, columns, bases, slopes, period, count):  # type: ignore[no-untyped-def]
    """An upper bound of Σ X_ij over patterns of at most one step in each epoch, and ``count`` in all.

    The largest gain of an epoch is one at the largest state that earlier epochs can leave, component by component.
    """
    n, d = inputs.shape
    state = np.zeros(d)  # at the first step of the epoch
    entered = np.zeros(d)  # the largest state at step t with a participation in this epoch
    epochs = (n + period - 1) // period
    most = np.zeros(epochs)
    before = np.zeros(d)
    for t in range(n):
        if t % period == 0:
            for a in range(d):
                state[a] = max(state[a], entered[a])
                before[a] = state[a]
                entered[a] = 0.0
        gain = columns[t] * bases[t]
        for a in range(d):
            gain += slopes[t, a] * before[a]
            entered[a] = max(theta[a] * entered[a], theta[a] * before[a] + columns[t] * inputs[t, a])
            before[a] *= theta[a]
            if t % period == period - 1:
                state[a] = before[a]
        most[t // period] = max(most[t // period], columns[t] * gain)
    return np.sort(most)[epochs - min(count, epochs) :].sum()


@_jit
def level(theta, inputs, bases, slopes, gains, period, reshuffled, columns, states, sources):  # type: ignore[no-untyped-def]
    """Fill ``columns`` so that the gain of step t at the largest state that it can meet is ``gains[t]``.

    Earlier participations are at least ``period`` steps before, or in earlier epochs where batches are ``reshuffled``.
    ``states``, shape (k, n, d), are the largest states before a step after at most 0, 1, …, k − 1 participations,
    component by component; or after any number, for k = 1.  ``sources`` are the participations that leave them, or −1.
    """
    layers, n, d = states.shape
    waited = theta ** (period - 1)
    state, entered = np.zeros((layers, d)), np.zeros((layers, d))
    source, entering = np.full((layers, d), -1), np.full((layers, d), -1)
    for t in range(n):
        enters = not reshuffled or t % period == 0
        s = t - 1 if reshuffled else t - period
        for k in range(layers):
            below = k if layers == 1 else k - 1
            for a in range(d):
                state[k, a] *= theta[a]
                entered[k, a] *= theta[a]
                if s >= 0 and below >= 0:
                    left = theta[a] * states[below, s, a] + columns[s] * inputs[s, a]
                    if not reshuffled:
                        left *= waited[a]
                    if not reshuffled or left >= entered[k, a]:
                        entered[k, a], entering[k, a] = left, s
                    if enters and entered[k, a] >= state[k, a]:
                        state[k, a], source[k, a] = entered[k, a], entering[k, a]
                    if enters:
                        entered[k, a] = 0.0
                states[k, t, a], sources[k, t, a] = state[k, a], source[k, a]
        total = _dot(slopes[t], states[layers - 1, t])
        columns[t] = 2 * gains[t] / (total + math.sqrt(total * total + 4 * bases[t] * gains[t]))


@_jit
def level_gradient(mine, found, of_columns, of_gains, gradients):  # type: ignore[no-untyped-def]
    """Turn the gradient in the columns that ``level`` fills into those in the gains, and in θ, o and i.

    ``mine`` is (θ, o, i, c), ``found`` bases, slopes, states and sources.
    """
    theta, outputs, inputs, columns = mine
    bases, slopes, states, sources = found
    of_theta, _, of_inputs = gradients
    layers, n, d = states.shape
    of_bases, of_slopes = np.empty(n), np.empty((n, d))
    of_left = np.zeros((layers, n, d))  # in the states after a step
    of_theta[:] = 0.0
    for t in range(n - 1, -1, -1):
        c = columns[t]
        share = of_columns[t]
        for k in range(layers):
            share += _dot(inputs[t], of_left[k, t])
        share /= 2 * bases[t] * c + _dot(slopes[t], states[layers - 1, t])
        of_gains[t] = share
        of_bases[t] = -share * c * c
        for a in range(d):
            of_slopes[t, a] = -share * c * states[layers - 1, t, a]
            of_inputs[t, a] = 0.0
            for k in range(layers):
                of_inputs[t, a] += c * of_left[k, t, a]
                of_theta[a] += states[k, t, a] * of_left[k, t, a]
                s = sources[k, t, a]
                if s >= 0:
                    below = k if layers == 1 else k - 1
                    of_state = theta[a] * of_left[k, t, a]
                    if k == layers - 1:
                        of_state -= share * c * slopes[t, a]
                    lag = t - 1 - s
                    of_left[below, s, a] += theta[a] ** lag * of_state
                    left = theta[a] * states[below, s, a] + columns[s] * inputs[s, a]
                    of_theta[a] += lag * theta[a] ** max(lag - 1, 0) * of_state * left
    _gains_gradient(theta, outputs, inputs, of_bases, of_slopes, gradients)


@_jit
def class_gradient(mine, found, period, of_sums, gradients):  # type: ignore[no-untyped-def]
    """Fill the gradients of Σ_r of_sums_r g_r in θ, o, i and c, with g of ``class_sums``.

    ``mine`` is (θ, o, i, c), ``found`` bases, slopes and the states of ``class_sums``.
    """
    theta, outputs, inputs, columns = mine
    bases, slopes, states = found
    of_theta, of_outputs, of_inputs, of_columns = gradients
    n, d = outputs.shape
    of_bases, of_slopes = np.empty(n), np.empty((n, d))
    of_states = np.empty((n, d))
    of_theta[:] = 0.0
    waited = theta ** (period - 1)
    slower = (period - 1) * theta ** max(period - 2, 0)
    for t in range(n - 1, -1, -1):
        share, c = of_sums[t % period], columns[t]
        of_bases[t] = share * c * c
        of_columns[t] = share * (2 * c * bases[t] + _dot(slopes[t], states[t]))
        for a in range(d):
            of_slopes[t, a] = share * c * states[t, a]
            of_states[t, a] = share * c * slopes[t, a]
            of_inputs[t, a] = 0.0
            if t + period < n:
                later = of_states[t + period, a]
                of_states[t, a] += waited[a] * later * theta[a]
                of_columns[t] += waited[a] * later * inputs[t, a]
                of_inputs[t, a] = waited[a] * later * c
                of_theta[a] += later * (
                    waited[a] * states[t, a] + slower[a] * (theta[a] * states[t, a] + c * inputs[t, a])
                )
    _gains_gradient(theta, outputs, inputs, of_bases, of_slopes, (of_theta, of_outputs, of_inputs))


@_jit
def _gains_gradient(theta, outputs, inputs, of_bases, of_slopes, gradients):  # type: ignore[no-untyped-def]
    """Fill the gradient in o, and add to those in θ and i, from the gradients in bases and slopes."""
    of_theta, of_outputs, of_inputs = gradients
    n, d = outputs.shape
    segments = (n + SEGMENT - 1) // SEGMENT
    kept = np.zeros((segments, d, d))  # Q after the last step of a segment
    for t in range(n - 1, SEGMENT - 1, -1):
        here = t // SEGMENT - 1
        if t % SEGMENT == SEGMENT - 1:
            kept[here] = kept[here + 1]
        _earlier(theta, outputs[t], kept[here], kept[here])
    q = np.empty((SEGMENT + 1, d, d))
    of_q = np.zeros((d, d))
    qi, fed, moved = np.empty(d), np.empty(d), np.empty(d)
    for segment in range(segments):
        first = segment * SEGMENT
        last = min(first + SEGMENT, n)
        q[last - first] = kept[segment]
        for t in range(last - 1, first - 1, -1):
            _earlier(theta, outputs[t], q[t + 1 - first], q[t - first])
        for t in range(first, last):
            o, i, later = outputs[t], inputs[t], q[t + 1 - first]
            _times(of_q, o, moved)
            _times(later, i, qi)
            for a in range(d):
                of_outputs[t, a] = 2 * (moved[a] + of_slopes[t, a])
                of_theta[a] += 2 * of_slopes[t, a] * qi[a]
                fed[a] = theta[a] * of_slopes[t, a]
            _times(later, fed, moved)
            for a in range(d):
                of_inputs[t, a] += 2 * (of_bases[t] * qi[a] + moved[a])
                for b in range(d):
                    of_theta[a] += 2 * of_q[a, b] * later[a, b] * theta[b]
                    entered = of_bases[t] * i[a] * i[b] + fed[a] * i[b] + i[a] * fed[b]
                    of_q[a, b] = theta[a] * theta[b] * of_q[a, b] + entered
