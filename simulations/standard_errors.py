"""Standard errors of means of correlated series, honest also where there is little to estimate them from."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri, stdtrit

from corrnoise.theory.numerics.checks import Array


def inflation(freedom: float) -> float:
    """The factor that makes 1.96 standard errors with few degrees of freedom a 95 % interval (Student's t)."""
    return float(stdtrit(freedom, 0.975) / ndtri(0.975)) if freedom > 0 else math.inf


def long_run_error(sums: Array, lengths: Array) -> float:
    """Standard error of the mean, from sums over batches of these lengths, shape (chains, batches).

    Autocovariances pooled over the chains about the common mean, summed over lags by Geyer's initial monotone positive
    sequence.  A sum over lags has (chains × n)/w − 1 degrees of freedom, where lag k counts 1 − k/n in w, twice unless
    k = 0: chains − 1 with all lags, when it is the variance between chains.
    """
    chains, n = sums.shape
    centred = sums - lengths * (sums.sum() / (chains * lengths.sum()))
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum.sum(axis=0), size)[:n]  # the lag's 1 − k/n is in it
    pairs = covariance[: n - n % 2].reshape(-1, 2).sum(axis=1) if n > 1 else covariance
    positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else pairs.size
    kept = np.minimum.accumulate(pairs[:positive])
    variance = max(2 * kept.sum() - covariance[0], covariance[0] / 2)
    lags = np.arange(1, max(2 * positive, 1))
    freedom = chains * n / (1 + 2 * np.maximum(1 - lags / n, 0).sum()) - 1
    if freedom <= 0:
        return math.inf
    return math.sqrt(variance * (freedom + 1) / freedom) * inflation(freedom) / float(chains * lengths.sum())
