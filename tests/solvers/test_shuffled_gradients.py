"""The best number of epochs: a minimum, the slopes of the rates, and none for the published bound."""

import math

import pytest

from corrnoise.solvers.shuffled_gradients import best_epochs
from corrnoise.theory.shuffled_gradients.table_rates import bound_coefficients

SLOPES = {
    ("DP-ShuffleG", "per-epoch"): -0.5,
    ("Priv-Pub", "per-epoch"): -0.5,
    ("Interleaved", "per-epoch"): -1.0,
    ("Noise at the end", "per-epoch"): -1.0,
    ("DP-ShuffleG", "whole-run"): -1.0,
    ("Pub-Priv", "whole-run"): -1.0,
    ("Interleaved", "whole-run"): -1.0,
}


def coefficients(algorithm, samples, accounting="whole-run"):
    run = {"dimension": 10, "epsilon": 1.0, "private_share": 0.5, "accounting": accounting}
    return lambda epochs: bound_coefficients(algorithm, samples=samples, epochs=epochs, **run)


def bound(algorithm, samples, epochs, accounting="whole-run"):
    return coefficients(algorithm, samples, accounting)(epochs).best().excess_risk_upper_bound


@pytest.mark.parametrize(("algorithm", "accounting"), SLOPES)
def test_the_bound_at_the_best_number_of_epochs_has_the_slope_of_the_rate(algorithm, accounting):
    """In n from 1e6 to 1e7, up to the logarithms, which take 0.02 to 0.04 off."""
    least = []
    for n in (10**6, 10**7):
        epochs = best_epochs(coefficients(algorithm, n, accounting))
        least.append(bound(algorithm, n, epochs, accounting))
        for other in (epochs / 2, epochs * 0.99, epochs * 1.01, epochs * 2):
            assert bound(algorithm, n, other, accounting) >= least[-1]
    assert SLOPES[algorithm, accounting] < math.log10(least[1] / least[0]) < SLOPES[algorithm, accounting] + 0.06


def test_interleaving_saves_epochs_rather_than_risk():
    """With amplification over the whole run both reach √d/(nε); interleaving after fewer epochs."""
    names = ("DP-ShuffleG", "Interleaved")
    alone, mixed = (best_epochs(coefficients(name, 10_000)) for name in names)
    assert alone > 4 * mixed
    assert 0.5 < bound(names[1], 10_000, mixed) / bound(names[0], 10_000, alone) < 2


def test_the_published_bound_has_no_best_number_of_epochs():
    with pytest.raises(ArithmeticError, match="bound must have a best number of epochs"):
        best_epochs(coefficients("DP-ShuffleG", 100, "published"))
    with pytest.raises(ValueError, match="accounting must be 'per-epoch' or 'whole-run' for noise at the end"):
        best_epochs(coefficients("Noise at the end", 100, "published"))
