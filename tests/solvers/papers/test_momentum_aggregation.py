"""The best proved gradient norm: true for the parameters found, and no grid finds a much smaller one."""

import itertools

import pytest

from corrnoise.solvers.papers.momentum_aggregation import best_momentum_bounds
from corrnoise.theory.papers.momentum_aggregation.run_bounds import DyadicTask
from corrnoise.theory.privacy import Budget

TASK = DyadicTask(2**14, dimension=31, budget=Budget(0.04, adjacency="replace-one"))


@pytest.mark.parametrize("algorithm", ["Algorithm 1", "Algorithm 2"])
def test_no_grid_is_better(algorithm):
    found = best_momentum_bounds(TASK, algorithm, most_log2_epochs=4)
    assert [bound.log2_epochs for bound in found] == [0, 1, 2, 3, 4]
    best = found[-1]
    fields = {"log2_epochs": best.log2_epochs, "alpha": best.alpha, "learning_rate": best.learning_rate}
    gammas = [best.gamma]
    if algorithm == "Algorithm 2":
        assert TASK.algorithm_2(**fields, gamma=best.gamma) == pytest.approx(best.value, rel=1e-12)
        gammas = [0.01, 0.03, 0.1, 0.2, 0.4, 0.8]
    else:
        assert TASK.algorithm_1(**fields) == pytest.approx(best.value, rel=1e-12)
        assert best.gamma == 1.0
    least = min(
        TASK.algorithm_1(log2_epochs=4, alpha=a / 2**14, learning_rate=p / 2**18)
        if algorithm == "Algorithm 1"
        else TASK.algorithm_2(log2_epochs=4, alpha=a / 2**14, learning_rate=p / 2**18, gamma=g)
        for a, p, g in itertools.product((0.1, 0.3, 1.0, 3.0, 10.0), (0.3, 1.0, 2.0, 4.0, 10.0), gammas)
    )
    assert best.value <= least * 1.01


def test_bad_arguments():
    with pytest.raises(ValueError, match="algorithm must be one of 'Algorithm 1', 'Algorithm 2', got 'SGD'"):
        best_momentum_bounds(TASK, "SGD")
    with pytest.raises(ValueError, match="most_log2_epochs must be an integer >= 0"):
        best_momentum_bounds(TASK, "Algorithm 1", most_log2_epochs=-1)
