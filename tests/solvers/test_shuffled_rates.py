"""The best number of epochs: a minimum, the slopes of the rates, and none for the published bound."""

import math

import pytest

from corrnoise.solvers.shuffled_rates import best_epochs
from corrnoise.theory.shuffled_gradients.rates import tuned_excess_risk

SLOPES = {
    ("DP-ShuffleG", "epochs composed"): -0.5,
    ("Priv-Pub", "epochs composed"): -0.5,
    ("Interleaved", "epochs composed"): -1.0,
    ("Noise at the end", "epochs composed"): -1.0,
    ("DP-ShuffleG", "whole run"): -1.0,
    ("Pub-Priv", "whole run"): -1.0,
    ("Interleaved", "whole run"): -1.0,
}


@pytest.mark.parametrize(("algorithm", "accounting"), SLOPES)
def test_the_bound_at_the_best_number_of_epochs_has_the_slope_of_the_rate(algorithm, accounting):
    """In n from 1e6 to 1e7, up to the logarithms, which take 0.02 to 0.04 off."""
    found = [best_epochs(algorithm, n, 10, 1.0, share=0.5, accounting=accounting) for n in (10**6, 10**7)]
    slope = math.log10(found[1][1] / found[0][1])
    assert SLOPES[algorithm, accounting] < slope < SLOPES[algorithm, accounting] + 0.06
    for n, (epochs, value) in zip((10**6, 10**7), found, strict=True):
        for other in (epochs / 2, epochs * 0.99, epochs * 1.01, epochs * 2):
            beside, _ = tuned_excess_risk(algorithm, n, 10, 1.0, other, share=0.5, accounting=accounting)
            assert beside >= value


def test_interleaving_saves_epochs_rather_than_risk():
    """With amplification over the whole run both reach √d/(nε); interleaving after fewer epochs."""
    alone, mixed = (best_epochs(a, 10_000, 10, 1.0, share=0.5) for a in ("DP-ShuffleG", "Interleaved"))
    assert alone[0] > 4 * mixed[0]
    assert 0.5 < mixed[1] / alone[1] < 2


def test_the_published_bound_has_no_best_number_of_epochs():
    with pytest.raises(ArithmeticError, match="accounting 'published' has no best number of epochs"):
        best_epochs("DP-ShuffleG", 100, 1000, 1.0, accounting="published")
