"""Suggestions for misspelt words, in the errors of all choices."""

from collections.abc import Callable

import pytest

import corrnoise as cn
from corrnoise.figures import paper_figure
from corrnoise.paper_checks import paper_ledger
from corrnoise.support.suggestions import did_you_mean

ORDER = cn.Participation.fixed_epochs(40, epochs=4)
POISSON = cn.Participation.poisson(40, 0.1)


def test_the_most_similar_word_is_suggested() -> None:
    known = ("buffers", "binary tree", "dense")
    assert did_you_mean("bufers", known) == "; did you mean 'buffers'?"
    assert did_you_mean("tree", ("binary tree", "trees")) == "; did you mean 'trees'?"
    assert did_you_mean("xyz", known) == ""


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda: cn.Budget(1.0, adjacency="replace_one"), "replace-one"),  # type: ignore[arg-type]
        (lambda: cn.optimise(participation=ORDER, family="bufers"), "buffers"),
        (
            lambda: cn.optimise(participation=POISSON, budget=cn.Budget(epsilon=2.0, delta=1e-6), family="bufers"),
            "buffers",
        ),
        (lambda: paper_figure("mean_estimaton"), "mean_estimation"),
        (lambda: paper_ledger("correlated-nose"), "correlated-noise"),
    ],
)
def test_errors_suggest_a_similar_choice(ask: Callable[[], object], meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{meant}'\\?$"):
        ask()
