"""Words for claims and outcomes."""

import numpy as np
import pytest

from corrnoise.paper_checks.machinery.domains import linear, vector
from corrnoise.paper_checks.machinery.wording import definitions, listed, reason, shown
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.small_claims import claim, small


def outcome(*arguments, **fields):
    return claim(*arguments, **fields).check()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (np.float64(0.1), "0.1"),
        (1 / 3, "0.3333333333333333"),
        (3, "3"),
        (np.int64(3), "3"),
        (True, "True"),
        (np.bool_(True), "True"),
        ("whole run", "whole run"),
        (None, "None"),
        (np.array([0.5, 1 / 3]), "[0.5, 0.3333333333333333]"),
        (np.array(2.5), "2.5"),
        (np.array([True, False]), "[True, False]"),
        ([np.float64(1.5), 2], "[1.5, 2.]"),
        (np.arange(1000.0), "[0., 1., 2., ..., 997., 998., 999.]"),
        (NuFTRL(np.float64(0.25)), "NuFTRL(nu=0.25)"),
        (
            LinearRegression([1.0, np.float64(0.5)], np.float64(0.1)),
            "LinearRegression(eigenvalues=[1., 0.5], learning_rate=0.1, residual_std=0.0, kurtosis=3.0)",
        ),
    ],
)
def test_values_are_shown_without_the_names_of_types(value, text):
    assert shown(value) == text


def test_numbers_are_shown_with_so_many_digits():
    assert shown(1 / 3, 6) == "0.333333"
    assert shown(np.array([1e4, 1 / 3, 2.0]), 6) == "[10000, 0.333333, 2]"
    assert shown(NuFTRL(1 / 3), 6) == "NuFTRL(nu=0.333333)"
    assert shown(np.array([1, 2]), 6) == "[1, 2]"
    assert listed({"a": 2 / 3}, 3) == "``a = 0.667``"


def test_numbers_are_shown_without_loss():
    for value in np.random.default_rng(0).standard_normal(100):
        assert float(shown(value)) == value
        [only] = np.fromstring(shown(np.array([value])).strip("[]"), sep=",")
        assert only == value


# -- the reason for a verdict ------------------------------------------------------------------------------------------


def test_the_reason_of_each_kind_of_verdict():
    held = outcome(lambda x, c=2.0: (float(x), c * (x + 1e-9)), sharp="c")
    assert reason(held).startswith("no violation at ")
    assert reason(held).endswith(" points, smallest margin 0.5; sharp: ``c`` at least 0.99999, stated 2")
    same = outcome(lambda x: (x + 1, 1 + x), "identity")
    assert reason(same) == f"relative difference 0 at {same.accepted} points"
    simulated = outcome(lambda x, c=1.0: (0.25, c), evidence="simulated", domain={"x": linear(1, 1)})
    assert reason(simulated) == "margin 0.75 of the confidence limit"
    single = outcome(lambda c=1.0: (0.5, c), domain={})
    assert reason(single) == "no violation at 1 point, smallest margin 0.5"

    def ball(x, c="1"):
        return x * x, type(x)(c) * x + type(x)("0.001")

    proved = outcome(ball, evidence="certified", mutants=[{"c": "0.9"}])
    assert reason(proved) == f"proved on {proved.certificate.boxes} boxes"
    for fields, said in (
        ({"proof": "docs/accuracy.md", "theorem": ("t", "0")}, "theorem ``t`` in Coq; no violation"),
        ({"proof": "docs/accuracy.md"}, "proved in docs/accuracy.md; no violation"),
        ({"proof": "Nobody 2000, Theorem 1", "evidence": "cited"}, "Nobody 2000, Theorem 1; no violation"),
    ):
        assert reason(outcome(lambda x, c=1.0: (x, c), **fields)).startswith(said)
    unknown = outcome(lambda x, c=1.0: (x, c), undecided=("open", "Constants are open; $x = x$ instead. More."))
    assert reason(unknown) == "Constants are open"
    unknown = outcome(lambda x, c=1.0: (x, c), undecided=("open", "The constant of $O(x, y)$, D.3, is open."))
    assert reason(unknown) == "The constant of $O(x, y)$"
    unknown = outcome(lambda x, c=1.0: (x, c), undecided=("open", "Open."))
    assert reason(unknown) == "Open"


def test_the_definitions_of_a_statement_are_said():
    def loss(x, F="whole"):
        return (1 + (F == "half")) * x, x

    printed = small(definitions={"F": {"whole": "in (1)", "half": "in (2)"}})
    found = outcome(loss, definitions={"F": ("whole",)}, paper=printed, mutants=[{"F": "half"}])
    assert definitions(found.claim) == "``F`` whole (in (1)): true; ``F`` half (in (2)): false"
    assert reason(found).endswith("; false with ``F`` half")
    refuted = outcome(
        lambda x, F="whole", c=0.5: (x, c * x),
        definitions={"F": ("whole", "half")},
        paper=small(definitions={"F": {"whole": "in (1)", "half": "in (2)"}}),
        counterexample={"x": 0.75},
        mutants=[{"c": 0.1}],
    )
    assert reason(refuted).startswith("for every printed definition; as printed it says 0.75 ≤ 0.375 at ``x = 0.75``")


FALSE = {"as_printed": {"c": 0.5}, "counterexample": {"x": 0.75}}


def test_the_reason_of_a_false_statement_is_its_counterexample():
    false = outcome(lambda x, c=1.0: (x * x, c * x), **FALSE)
    assert false.verdict == "false"
    assert reason(false) == "as printed it says 0.5625 ≤ 0.375 at ``x = 0.75``, ``c = 0.5``"
    corrected = outcome(lambda x, c=1.0: (x * x, c * x), repair="better", **FALSE)
    assert reason(corrected) == reason(false)
    different = outcome(lambda x, c=1.0: (x, c * x), "identity", mutants=[{"c": 1.1}], **FALSE)
    assert reason(different) == "as printed it says 0.75 = 0.375 at ``x = 0.75``, ``c = 0.5``"
    nowhere = outcome(lambda c=1.0: (c, 2.0), domain={}, counterexample={}, mutants=[{"c": 4}], as_printed={"c": 3})
    assert reason(nowhere) == "as printed it says 3 ≤ 2 at ``c = 3``"


def test_of_arrays_the_worst_entries_are_named():
    axes = {"v": vector(linear(0, 1), 2)}
    at = {"counterexample": {"v": np.array([0.9, 0.1])}, "as_printed": {"c": 0.5}}
    false = outcome(lambda v, c=1.0: (v * v, c * v), domain=axes, **at)
    assert reason(false).startswith("as printed it says 0.81 ≤ 0.45 at ")
    swapped = outcome(lambda v, c=1.0: (v, c * v), "identity", domain=axes, mutants=[{"c": 2}], **at)
    assert reason(swapped).startswith("as printed it says 0.9 = 0.45 at ")
