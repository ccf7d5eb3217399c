"""Sensitivities and errors of time-varying buffers with replayed draws, and their gradients, in O(n), compiled.

A replay adds earlier draws of the same class {q, q + b, …} before the buffers: u_t = z_t + Σ_e a_et z_{t−eb} = (M z)_t.
So N = diag(δ) N⁰ M and C = M⁻¹ C⁰ diag(1/δ), and M does not couple classes.  All arrays of pairs have a row for each
step i and a column for each epoch e, which stand for the steps i and j = i mod b + e b of a class: shape (n, k).

*Sensitivity* (proof in docs/time-varying-buffers.md).  Let G = M⁻ᵀM⁻¹.  For unit scales

    X_ij = G_ij + i_j·H_ij + i_i·H_ji + i_iᵀ T_ij i_j,        H_{i,j−b} = θ^{b−1}∘(G_ij o_j + θ∘H_ij),
    T_{i−1,j−1} = θθᵀ∘T_ij + o_i G_ij o_jᵀ + o_i (θ∘H_ij)ᵀ + (θ∘H_ji) o_jᵀ,

with H = 0 in the last epoch and T = 0 at the last step.

*Errors.*  A group has the state ξ = (s, v), which moves by Ψ_t ξ + β_t u_t.  With c_et = Cov(u_t, u_{t−eb}) and the
response h_et of ξ_t to u_{t−eb} its covariance P moves by

    P ← ΨPΨᵀ + Ψg βᵀ + β (Ψg)ᵀ + c_0 ββᵀ,        g = Σ_{e>=1} c_e h_e.

The response is the product F of the Ψ since the epoch began, times its value there (``borders``), which follows from
the value an epoch earlier.  No argument is checked.
"""

from __future__ import annotations

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.inlined import copy, dot, inlined

# -- sensitivity -------------------------------------------------------------------------------------------------------


@kernel
def noise(replays, period, draws):  # type: ignore[no-untyped-def]
    """Turn draws, shape (n, size), into M z, in place."""
    for t in range(draws.shape[0] - 1, period - 1, -1):
        for e in range(1, min(replays.shape[0], t // period) + 1):
            draws[t] += replays[e - 1, t] * draws[t - e * period]


@kernel
def solved(replays, period, values):  # type: ignore[no-untyped-def]
    """Turn values, shape (n, size), into M⁻¹ of them, in place, by forward substitution."""
    for t in range(period, values.shape[0]):
        for e in range(1, min(replays.shape[0], t // period) + 1):
            values[t] -= replays[e - 1, t] * values[t - e * period]


@kernel
def inverses(replays, period, inverse, gram):  # type: ignore[no-untyped-def]
    """Fill M⁻¹, by forward substitution, and G, from MᵀG = M⁻¹."""
    n, k = inverse.shape
    r = replays.shape[0]
    inverse[:] = 0.0
    for t in range(n):
        own = t // period
        inverse[t, own] = 1.0
        for e in range(1, min(r, own) + 1):
            for f in range(own - e + 1):
                inverse[t, f] -= replays[e - 1, t] * inverse[t - e * period, f]
    copy(inverse, gram)
    for t in range(n - 1, -1, -1):
        for e in range(1, r + 1):
            later = t + e * period
            if later < n:
                for f in range(k):
                    gram[t, f] -= replays[e - 1, later] * gram[later, f]


@inlined
def _earlier(theta, first, second, entry, one, other, later, result):  # type: ignore[no-untyped-def]
    """Fill T_{i−1,j−1} from T_ij, in place or not, with o_i, o_j, G_ij, H_ij and H_ji."""
    for a in range(theta.size):
        for c in range(theta.size):
            entered = first[a] * (entry * second[c] + theta[c] * one[c]) + theta[a] * other[a] * second[c]
            result[a, c] = theta[a] * theta[c] * later[a, c] + entered


@kernel
def class_grams(theta, outputs, inputs, period, gram, responses, products):  # type: ignore[no-untyped-def]
    """Fill H, shape (n, k, d), and X for unit scales from G; pairs without a step get 0."""
    n, d = outputs.shape
    k = gram.shape[1]
    waited = theta ** (period - 1)
    responses[:] = 0.0
    products[:] = 0.0
    for t in range(n):
        q = t % period
        for e in range((n - 1 - q) // period, 0, -1):
            j = q + e * period
            for a in range(d):
                responses[t, e - 1, a] = waited[a] * (gram[t, e] * outputs[j, a] + theta[a] * responses[t, e, a])
    crossed = np.zeros((d, d))
    for lag in range(k):
        crossed[:] = 0.0
        for j in range(n - 1, lag * period - 1, -1):
            i = j - lag * period
            f = j // period
            e = f - lag
            total = gram[i, f]
            for a in range(d):
                inner = responses[j, e, a]
                for c in range(d):
                    inner += crossed[a, c] * inputs[j, c]
                total += inputs[i, a] * inner + inputs[j, a] * responses[i, f, a]
            products[i, f] = total
            products[j, e] = total
            _earlier(theta, outputs[i], outputs[j], gram[i, f], responses[i, f], responses[j, e], crossed, crossed)


@kernel
def class_grams_gradient(mine, period, found, of_products, gradients):  # type: ignore[no-untyped-def]
    """Add the gradients of Σ_{i<=j} of_products_ij X_ij to those in θ, o, i and a.

    ``mine`` is (θ, o, i, a) and ``found`` (M⁻¹, G, H).
    """
    theta, outputs, _, replays = mine
    inverse, gram, responses = found
    n, d = outputs.shape
    k = gram.shape[1]
    states = np.empty((n, d, d))
    of_gram, of_responses = np.zeros((n, k)), np.zeros((n, k, d))
    for lag in range(k):
        first = lag * period
        states[n - 1] = 0.0  # T at the later step
        for j in range(n - 1, first, -1):
            i, f = j - first, j // period
            pair = responses[i, f], responses[j, f - lag]
            _earlier(theta, outputs[i], outputs[j], gram[i, f], pair[0], pair[1], states[j], states[j - 1])
        _lag_gradient(mine, lag, period, found, states, of_products, gradients, of_gram, of_responses)
    _responses_gradient(theta, outputs, period, gram, responses, of_responses, gradients, of_gram)
    _inverse_gradient(replays, period, inverse, gram, of_gram, gradients[3])


@kernel
def _lag_gradient(mine, lag, period, found, states, of_products, gradients, of_gram, of_responses):  # type: ignore[no-untyped-def]
    """The part of the pairs of one lag; ``bar`` is the adjoint of T before the steps."""
    theta, outputs, inputs, _ = mine
    _, gram, responses = found
    of_theta, of_outputs, of_inputs, _ = gradients
    n, d = outputs.shape
    bar, moved = np.zeros((d, d)), np.empty((4, d))
    for j in range(lag * period, n):
        i, f = j - lag * period, j // period
        e = f - lag
        x = of_products[i, f]
        of_gram[i, f] += x
        moved[:] = 0.0
        for a in range(d):
            for c in range(d):
                moved[0, a] += bar[a, c] * outputs[j, c]
                moved[1, a] += bar[c, a] * outputs[i, c]
                moved[2, a] += states[j, a, c] * inputs[j, c]
                moved[3, a] += states[j, c, a] * inputs[i, c]
                of_outputs[i, a] += bar[a, c] * theta[c] * responses[i, f, c]
                of_outputs[j, a] += bar[c, a] * theta[c] * responses[j, e, c]
                of_theta[a] += (bar[a, c] * states[j, a, c] + bar[c, a] * states[j, c, a]) * theta[c]
        for a in range(d):
            of_gram[i, f] += outputs[i, a] * moved[0, a]
            of_responses[i, f, a] += x * inputs[j, a] + theta[a] * moved[1, a]
            of_responses[j, e, a] += x * inputs[i, a] + theta[a] * moved[0, a]
            of_theta[a] += moved[1, a] * responses[i, f, a] + moved[0, a] * responses[j, e, a]
            of_inputs[i, a] += x * (responses[j, e, a] + moved[2, a])
            of_inputs[j, a] += x * (responses[i, f, a] + moved[3, a])
            of_outputs[i, a] += gram[i, f] * moved[0, a]
            of_outputs[j, a] += gram[i, f] * moved[1, a]
        for a in range(d):
            for c in range(d):
                bar[a, c] = theta[a] * theta[c] * bar[a, c] + x * inputs[i, a] * inputs[j, c]


@kernel
def _responses_gradient(theta, outputs, period, gram, responses, of_responses, gradients, of_gram):  # type: ignore[no-untyped-def]
    """The part of H, whose adjoint is overwritten."""
    n, d = outputs.shape
    waited, slower = theta ** (period - 1), (period - 1) * theta ** max(period - 2, 0)
    for t in range(n):
        q = t % period
        for e in range(1, (n - 1 - q) // period + 1):
            j = q + e * period
            for a in range(d):
                share, known = of_responses[t, e - 1, a], gram[t, e] * outputs[j, a] + theta[a] * responses[t, e, a]
                gradients[0][a] += share * (slower[a] * known + waited[a] * responses[t, e, a])
                gradients[1][j, a] += share * waited[a] * gram[t, e]
                of_gram[t, e] += share * waited[a] * outputs[j, a]
                of_responses[t, e, a] += share * waited[a] * theta[a]


@kernel
def _inverse_gradient(replays, period, inverse, gram, of_gram, of_replays):  # type: ignore[no-untyped-def]
    """The gradient in M is −G (Ḡ + Ḡᵀ) M⁻ᵀ, class by class."""
    n, k = gram.shape
    lower, both = np.empty(k), np.empty((k, k))
    for q in range(min(period, n)):
        count = (n - 1 - q) // period + 1
        for e in range(count):
            for f in range(count):
                both[e, f] = of_gram[q + e * period, f] + of_gram[q + f * period, e]
        for f in range(count):
            for e in range(count):
                lower[e] = 0.0
                for c in range(f + 1):
                    lower[e] += both[e, c] * inverse[q + f * period, c]
            for e in range(1, min(replays.shape[0], count - 1 - f) + 1):
                t = q + (f + e) * period
                for c in range(count):
                    of_replays[e - 1, t] -= gram[t, c] * lower[c]


# -- errors ------------------------------------------------------------------------------------------------------------


@inlined
def _identity(result):  # type: ignore[no-untyped-def]
    """Fill ``result`` with 1 on the diagonal and 0 elsewhere."""
    for x in range(result.shape[0]):
        for y in range(result.shape[1]):
            result[x, y] = 1.0 if x == y else 0.0


@inlined
def _product(one, other, result):  # type: ignore[no-untyped-def]
    """Fill ``result`` with the product of two matrices."""
    for x in range(one.shape[0]):
        for y in range(other.shape[1]):
            total = 0.0
            for z in range(one.shape[1]):
                total += one[x, z] * other[z, y]
            result[x, y] = total


@inlined
def _applied(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Fill ``result`` with the product of a matrix and a vector."""
    for x in range(matrix.shape[0]):
        total = 0.0
        for y in range(matrix.shape[1]):
            total += matrix[x, y] * vector[y]
        result[x] = total


@inlined
def _system(phi, gamma, theta, o, i, delta, psi, beta):  # type: ignore[no-untyped-def]
    """Fill Ψ and β of a step."""
    d = theta.size
    for a in range(d):
        beta[a] = i[a]
        for c in range(d):
            psi[a, c] = -i[a] * o[c]
        psi[a, a] += theta[a]
        for x in range(gamma.size):
            psi[a, d + x] = 0.0
    for x in range(gamma.size):
        beta[d + x] = delta * gamma[x]
        for c in range(d):
            psi[d + x, c] = -delta * gamma[x] * o[c]
        for y in range(gamma.size):
            psi[d + x, d + y] = phi[x, y]


@kernel
def covariances_of_draws(replays, period, found):  # type: ignore[no-untyped-def]
    """Fill c, shape (r + 1, n); factors of draws before the first step are not read."""
    r, n = replays.shape
    found[:] = 0.0
    for t in range(n):
        for e in range(min(r, t // period) + 1):
            total = 1.0 if e == 0 else replays[e - 1, t]  # the term of the earlier draw itself
            for f in range(1, min(r, t // period) - e + 1):
                total += replays[e + f - 1, t] * replays[f - 1, t - e * period]
            found[e, t] = total


@kernel
def group_errors(phi, gamma, mine, period, shared, covariances, products, borders, errors):  # type: ignore[no-untyped-def]
    """Fill ``errors`` with E (v)_0² of a group after each step.

    ``mine`` is (θ, o, i, δ), ``shared`` the covariances of draws.  With rows for all steps ``covariances`` and
    ``products`` keep P and F before each step, shape (n, D, D); otherwise they have one.  ``borders`` keeps the
    responses at the first steps of epochs, shape (r, n, D), or (r, b, D).
    """
    theta, outputs, inputs, scales = mine
    n, d = outputs.shape
    size = d + gamma.shape[1]
    r, places = borders.shape[0], borders.shape[1]
    keeps = covariances.shape[0] > 1
    p, f, psi, one = np.zeros((4, size, size))
    beta, g, y, h = np.zeros((4, size))
    for start in range(0, n, period):
        end = min(start + period, n)
        known = min(r, start // period)
        _identity(f)
        for t in range(start, end):
            at = t % phi.shape[0], t % gamma.shape[0], t % places
            _system(phi[at[0]], gamma[at[1]], theta, outputs[t], inputs[t], scales[t], psi, beta)
            if keeps:
                copy(p, covariances[t])
                copy(f, products[t])
            _replayed(f, borders, at[2], shared, t, known, h, g)
            _applied(psi, g, y)
            _product(psi, p, one)
            _product(one, psi.T, p)
            for x in range(size):
                for z in range(size):
                    p[x, z] += y[x] * beta[z] + beta[x] * y[z] + shared[0, t] * beta[x] * beta[z]
            errors[t] = p[d, d]
            _product(psi, f, one)
            copy(one, f)
        if end < n:
            _next_borders(phi, gamma, mine, period, start, f, borders)


@inlined
def _replayed(f, borders, place, shared, t, known, h, g):  # type: ignore[no-untyped-def]
    """Fill g = Σ_e c_et h_et, with the responses from the start of the epoch; h is overwritten."""
    for x in range(g.size):
        g[x] = 0.0
    for e in range(1, known + 1):
        _applied(f, borders[e - 1, place], h)
        for x in range(g.size):
            g[x] += shared[e, t] * h[x]


@kernel
def _next_borders(phi, gamma, mine, period, start, whole, borders):  # type: ignore[no-untyped-def]
    """Fill the responses at the end of the epoch from ``start`` on, whose product is ``whole``."""
    theta, outputs, inputs, scales = mine
    r, places = borders.shape[0], borders.shape[1]
    size = whole.shape[0]
    psi, one, two = np.empty((3, size, size))
    beta = np.empty(size)
    _identity(one)
    for t in range(start + period - 1, start - 1, -1):
        at = t % phi.shape[0], t % gamma.shape[0], t % places, (t + period) % places
        if t + period < outputs.shape[0]:
            for e in range(min(start // period + 1, r), 1, -1):
                _applied(whole, borders[e - 2, at[2]], borders[e - 1, at[3]])
        _system(phi[at[0]], gamma[at[1]], theta, outputs[t], inputs[t], scales[t], psi, beta)
        if t + period < outputs.shape[0]:
            _applied(one, beta, borders[0, at[3]])
        _product(one, psi, two)
        copy(two, one)


@kernel
def group_gradient(phi, gamma, mine, period, shared, found, slopes, gradients, of_shared):  # type: ignore[no-untyped-def]
    """Add the gradients of Σ_t slopes_t errors_t of a group to those in θ, o, i, δ and c.

    ``found`` is (covariances, products, borders) of ``group_errors``, with rows for all steps.
    """
    theta, outputs, inputs, scales = mine
    covariances, products, borders = found
    n, d = outputs.shape
    size = d + gamma.shape[1]
    psi, bar_p, bar_f, bar_psi, one, two = np.zeros((6, size, size))
    beta, g, y, h, bar_y, bar_g, bar_beta = np.zeros((7, size))
    of_borders = np.zeros(borders.shape)
    of_psi, of_beta = np.zeros((period, size, size)), np.zeros((period, size))  # by the responses of the next epoch
    for start in range((n - 1) // period * period, -1, -period):
        end = min(start + period, n)
        known = min(borders.shape[0], start // period)
        if end < n:
            _borders_gradient(phi, gamma, mine, period, start, borders, of_borders, of_psi, of_beta, bar_f)
        for t in range(end - 1, start - 1, -1):
            at = t % phi.shape[0], t % gamma.shape[0]
            _system(phi[at[0]], gamma[at[1]], theta, outputs[t], inputs[t], scales[t], psi, beta)
            p, f = covariances[t], products[t]
            bar_p[d, d] += slopes[t]
            _replayed(f, borders, t, shared, t, known, h, g)
            _applied(psi, g, y)
            _applied(bar_p, beta, bar_y)
            of_shared[0, t] += dot(beta, bar_y)
            _applied(bar_p, y, bar_beta)
            for x in range(size):
                bar_beta[x] = 2 * (bar_beta[x] + shared[0, t] * bar_y[x]) + of_beta[t - start, x]
                bar_y[x] *= 2
            _applied(psi.T, bar_y, bar_g)
            _product(bar_p, psi, one)
            _product(one, p, bar_psi)
            _product(psi.T, one, bar_p)
            _product(bar_f, f.T, two)
            for x in range(size):
                for z in range(size):
                    bar_psi[x, z] = 2 * bar_psi[x, z] + bar_y[x] * g[z] + two[x, z] + of_psi[t - start, x, z]
            _product(psi.T, bar_f, two)
            copy(two, bar_f)
            for e in range(1, known + 1):
                _applied(f, borders[e - 1, t], h)
                of_shared[e, t] += dot(bar_g, h)
                _applied(f.T, bar_g, h)
                for x in range(size):
                    of_borders[e - 1, t, x] += shared[e, t] * h[x]
                _add_outer(shared[e, t], bar_g, borders[e - 1, t], bar_f)
            _system_gradient(t, gamma[at[1]], outputs, inputs, beta, bar_psi, bar_beta, gradients)


@inlined
def _add_outer(factor, one, other, result):  # type: ignore[no-untyped-def]
    """Add a multiple of the outer product."""
    for x in range(one.size):
        for z in range(other.size):
            result[x, z] += factor * one[x] * other[z]


@inlined
def _system_gradient(t, gamma, outputs, inputs, beta, bar_psi, bar_beta, gradients):  # type: ignore[no-untyped-def]
    """Add the gradients of a step from those in Ψ and β."""
    of_theta, of_outputs, of_inputs, of_scales = gradients
    d = outputs.shape[1]
    for a in range(d):
        of_theta[a] += bar_psi[a, a]
        of_inputs[t, a] += bar_beta[a]
        for c in range(d):
            of_inputs[t, a] -= bar_psi[a, c] * outputs[t, c]
            of_outputs[t, a] -= bar_psi[c, a] * inputs[t, c]
        for x in range(gamma.size):
            of_outputs[t, a] -= bar_psi[d + x, a] * beta[d + x]
            of_scales[t] -= bar_psi[d + x, a] * gamma[x] * outputs[t, a]
    for x in range(gamma.size):
        of_scales[t] += bar_beta[d + x] * gamma[x]


@kernel
def _borders_gradient(phi, gamma, mine, period, start, borders, of_borders, of_psi, of_beta, of_whole):  # type: ignore[no-untyped-def]
    """The adjoint of ``_next_borders``: fill the gradients in Ψ and β of the epoch, and in its product."""
    theta, outputs, inputs, scales = mine
    n, size = outputs.shape[0], of_whole.shape[0]
    psi, one, two, bar = np.zeros((4, size, size))
    beta, h = np.empty((2, size))
    after = np.empty((period, size, size))  # products of Ψ from the following step to the end of the epoch
    copy(bar, of_whole)
    copy(np.zeros((period, size)), of_beta)
    _identity(one)
    for t in range(start + period - 1, start - 1, -1):
        at = t % phi.shape[0], t % gamma.shape[0]
        _system(phi[at[0]], gamma[at[1]], theta, outputs[t], inputs[t], scales[t], psi, beta)
        copy(one, after[t - start])
        _product(one, psi, two)
        copy(two, one)
    for t in range(start, start + period):
        at = t % phi.shape[0], t % gamma.shape[0]
        _system(phi[at[0]], gamma[at[1]], theta, outputs[t], inputs[t], scales[t], psi, beta)
        _product(after[t - start].T, bar, of_psi[t - start])
        _product(bar, psi.T, two)
        copy(two, bar)
        if t + period < n:
            _applied(after[t - start].T, of_borders[0, t + period], of_beta[t - start])
            _add_outer(1.0, of_borders[0, t + period], beta, bar)
            for e in range(2, min(start // period + 1, borders.shape[0]) + 1):
                _applied(one.T, of_borders[e - 1, t + period], h)
                for x in range(size):
                    of_borders[e - 2, t, x] += h[x]
                _add_outer(1.0, of_borders[e - 1, t + period], borders[e - 2, t], of_whole)


@kernel
def draws_gradient(replays, period, of_shared, of_replays):  # type: ignore[no-untyped-def]
    """Add the gradient in a from that in c."""
    r, n = replays.shape
    for t in range(n):
        for e in range(min(r, t // period) + 1):
            share = of_shared[e, t]
            if e:
                of_replays[e - 1, t] += share
            for f in range(1, min(r, t // period) - e + 1):
                of_replays[e + f - 1, t] += share * replays[f - 1, t - e * period]
                of_replays[f - 1, t - e * period] += share * replays[e + f - 1, t]
