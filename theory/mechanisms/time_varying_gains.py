"""Sensitivities of time-varying buffers by the gains of steps, with their gradients, in O(n), compiled.

The strategy (``time_varying_errors``, with columns c_t = 1/δ_t) and its Gram matrix X are non-negative, so that the
largest squared sum over unit vectors is Σ X_ij over the steps of a pattern.  With Q_t = o_t o_tᵀ + θθᵀ∘Q_{t+1},
Q_n = 0, and the state σ at step j of the system that is fed c in the earlier steps of the pattern, the step j adds its
*gain*

    c_j (c_j base_j + slope_j·σ),    base_j = 1 + i_jᵀQ_{j+1}i_j,    slope_j = 2 (o_j + θ∘Q_{j+1}i_j).

All terms are >= 0: no subtraction, and a relative error of (6n + 8d + 40) units at most.  No argument is checked.
Compiled functions read and write single numbers: numba takes seconds to compile as many views of arrays.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.support.kernels import kernel

_SEGMENT_STEPS = 256  # steps between two states that are kept for a gradient


@kernel
def powers(theta, exponent):  # type: ignore[no-untyped-def]
    """The powers of the decays."""
    found = np.empty(theta.size)
    for a in range(theta.size):
        found[a] = theta[a] ** exponent
    return found


@kernel
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
        for a in range(d):
            for b in range(d):
                q[a, b] = theta[a] * theta[b] * q[a, b] + outputs[t, a] * outputs[t, b]


@kernel
def class_sums(theta, inputs, columns, bases, slopes, period, states, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` with Σ X_ij over each class {r, r + b, …}, and ``states``, shape (n, d), with σ before a step."""
    n, d = inputs.shape
    waited = powers(theta, period - 1)
    for r in range(sums.size):
        sums[r] = 0.0
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


@kernel
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


@kernel
def min_sep_bound(theta, inputs, columns, bases, slopes, period, count, saturated):  # type: ignore[no-untyped-def]
    """An upper bound of Σ X_ij over patterns of at most ``count`` steps that are at least ``period`` apart.

    The largest state that earlier participations can leave, component by component, gives the largest gain of step t;
    the states of at most j participations bound the gain of participation j + 1.  The pattern with the largest
    sum of these gains bounds all.  Where the separation alone limits the number (``saturated``) it is not counted.
    """
    n, d = inputs.shape
    waited = powers(theta, period - 1)
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


@kernel
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


@kernel
def level(theta, inputs, bases, slopes, gains, period, reshuffled, columns, states, sources):  # type: ignore[no-untyped-def]
    """Fill ``columns`` so that the gain of step t at the largest state that it can meet is ``gains[t]``.

    Earlier participations are at least ``period`` steps before, or in earlier epochs where batches are ``reshuffled``.
    ``states``, shape (k, n, d), are the largest states before a step after at most 0, 1, …, k − 1 participations,
    component by component; or after any number, for k = 1.  ``sources`` are the participations that leave them, or −1.
    """
    layers, n, d = states.shape
    waited = powers(theta, period - 1)
    state, entered = np.zeros((layers, d)), np.zeros((layers, d))
    source, entering = np.zeros((layers, d), dtype=np.int64), np.zeros((layers, d), dtype=np.int64)
    for k in range(layers):
        for a in range(d):
            source[k, a] = entering[k, a] = -1
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
        total = 0.0
        for a in range(d):
            total += slopes[t, a] * states[layers - 1, t, a]
        columns[t] = 2 * gains[t] / (total + math.sqrt(total * total + 4 * bases[t] * gains[t]))


@kernel
def level_gradient(mine, found, of_columns, of_gains, gradients):  # type: ignore[no-untyped-def]
    """Turn the gradient in the columns that ``level`` fills into that in the gains, and add to those in θ, o and i.

    ``mine`` is (θ, o, i, c), ``found`` bases, slopes, states and sources.
    """
    theta, outputs, inputs, columns = mine
    bases, slopes, states, sources = found
    of_theta, _, of_inputs = gradients
    layers, n, d = states.shape
    of_bases, of_slopes = np.empty(n), np.empty((n, d))
    of_left = np.zeros((layers, n, d))  # in the states after a step
    for t in range(n - 1, -1, -1):
        c = columns[t]
        share, slope = of_columns[t], 0.0
        for k in range(layers):
            left = 0.0
            for a in range(d):
                left += inputs[t, a] * of_left[k, t, a]
            share += left
        for a in range(d):
            slope += slopes[t, a] * states[layers - 1, t, a]
        share /= 2 * bases[t] * c + slope
        of_gains[t] = share
        of_bases[t] = -share * c * c
        for a in range(d):
            of_slopes[t, a] = -share * c * states[layers - 1, t, a]
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


@kernel
def class_gradient(mine, found, period, of_sums, gradients):  # type: ignore[no-untyped-def]
    """Add the gradients of Σ_r of_sums_r g_r to those in θ, o, i and c, with g of ``class_sums``.

    ``mine`` is (θ, o, i, c), ``found`` bases, slopes and the states of ``class_sums``, which the gradients in them
    overwrite: a long run does not have memory for both.
    """
    theta, outputs, inputs, columns = mine
    bases, slopes, states = found
    of_bases, of_slopes, of_states = bases, states, slopes  # each is read last at the step that writes it
    of_theta, of_outputs, of_inputs, of_columns = gradients
    n, d = outputs.shape
    waited = powers(theta, period - 1)
    slower = powers(theta, max(period - 2, 0))
    for t in range(n - 1, -1, -1):
        share, c = of_sums[t % period], columns[t]
        slope = 0.0
        for a in range(d):
            slope += slopes[t, a] * states[t, a]
        of_columns[t] += share * (2 * c * bases[t] + slope)
        of_bases[t] = share * c * c
        for a in range(d):
            state = states[t, a]
            of_slopes[t, a] = share * c * state
            of_states[t, a] = share * c * slopes[t, a]
            if t + period < n:
                later = of_states[t + period, a]
                of_states[t, a] += waited[a] * later * theta[a]
                of_columns[t] += waited[a] * later * inputs[t, a]
                of_inputs[t, a] += waited[a] * later * c
                of_theta[a] += later * (
                    waited[a] * state + (period - 1) * slower[a] * (theta[a] * state + c * inputs[t, a])
                )
    _gains_gradient(theta, outputs, inputs, of_bases, of_slopes, (of_theta, of_outputs, of_inputs))


@kernel
def _gains_gradient(theta, outputs, inputs, of_bases, of_slopes, gradients):  # type: ignore[no-untyped-def]  # noqa: C901
    """Add to the gradients in θ, o and i, from those in bases and slopes."""
    of_theta, of_outputs, of_inputs = gradients
    n, d = outputs.shape
    segments = (n + _SEGMENT_STEPS - 1) // _SEGMENT_STEPS
    kept = np.zeros((segments, d, d))  # Q after the last step of a segment
    for t in range(n - 1, _SEGMENT_STEPS - 1, -1):
        here = t // _SEGMENT_STEPS - 1
        later = here + 1 if t % _SEGMENT_STEPS == _SEGMENT_STEPS - 1 else here
        for a in range(d):
            for b in range(d):
                kept[here, a, b] = theta[a] * theta[b] * kept[later, a, b] + outputs[t, a] * outputs[t, b]
    q = np.empty((_SEGMENT_STEPS + 1, d, d))
    of_q = np.zeros((d, d))
    qi, fed = np.empty(d), np.empty(d)
    for segment in range(segments):
        first = segment * _SEGMENT_STEPS
        last = min(first + _SEGMENT_STEPS, n)
        for a in range(d):
            for b in range(d):
                q[last - first, a, b] = kept[segment, a, b]
        for t in range(last - 1, first - 1, -1):
            at = t - first
            for a in range(d):
                for b in range(d):
                    q[at, a, b] = theta[a] * theta[b] * q[at + 1, a, b] + outputs[t, a] * outputs[t, b]
        for t in range(first, last):
            at = t + 1 - first
            for a in range(d):
                moved, total = 0.0, 0.0
                for b in range(d):
                    moved += of_q[a, b] * outputs[t, b]
                    total += q[at, a, b] * inputs[t, b]
                qi[a], fed[a] = total, theta[a] * of_slopes[t, a]
                of_outputs[t, a] += 2 * (moved + of_slopes[t, a])
                of_theta[a] += 2 * of_slopes[t, a] * total
            for a in range(d):
                moved = 0.0
                for b in range(d):
                    moved += q[at, a, b] * fed[b]
                of_inputs[t, a] += 2 * (of_bases[t] * qi[a] + moved)
                for b in range(d):
                    of_theta[a] += 2 * of_q[a, b] * q[at, a, b] * theta[b]
                    entered = of_bases[t] * inputs[t, a] * inputs[t, b] + fed[a] * inputs[t, b] + inputs[t, a] * fed[b]
                    of_q[a, b] = theta[a] * theta[b] * of_q[a, b] + entered
