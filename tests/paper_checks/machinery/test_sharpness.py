"""Sharp constants: the constant of equality, and intervals that hold the sharp one."""

import math

import pytest

from corrnoise.paper_checks.machinery.sharpness import equality, interval, outwards
from tests.small_claims import claim


@pytest.mark.parametrize(
    ("margin", "value", "sharp"),
    [
        (lambda c: 1 - 3.0 / c, 5.0, 3.0),  # a factor of the larger side
        (lambda c: 1 - c / 7.0, 2.0, 7.0),  # of the smaller side
        (lambda c: 1 - 3.0 / c, 3.0 * (1 + 1e-9), 3.0),
        (lambda c: 1 - 0.5**c / 0.25, 3.0, 2.0),  # an exponent
        (lambda c: 1 - 10.0 / c**2, 40.0, 10.0**0.5),
        (lambda c: 1 + 3.0 / c if c < -3 else -1 - c / 3.0, -5.0, -3.0),  # negative
        (lambda c: 1 - 1e-11 / (c * 1e-11), 5.0, 1.0),
        (lambda c: 0.0, 4.0, 4.0),
        (lambda c: 0.5, 4.0, None),
    ],
)
def test_the_constant_of_equality(margin, value, sharp):
    got = equality(margin, value)
    assert got == (None if sharp is None else pytest.approx(sharp, rel=1e-9))
    assert got is None or type(got) is float


# -- intervals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("margin", "found", "proved", "low", "high", "text"),
    [
        (lambda c: 1 - 3.0 / c, 3.0, 5.0, 3.0, 5.0, "between 3 and 5"),  # a factor of the larger side
        (lambda c: 1 - 3.0 / c, 3.0, None, 3.0, math.inf, "at least 3"),
        (lambda c: 1 - c / 7.0, 7.0, 2.0, 2.0, 7.0, "between 2 and 7"),  # of the smaller side
        (lambda c: 1 - c / 7.0, 7.0, None, -math.inf, 7.0, "at most 7"),
        (lambda c: c + 3.0, -3.0, -2.0, -3.0, -2.0, "between -3 and -2"),  # negative
        (lambda c: 1 - 3.0 / c, 3.0 * (1 + 1e-12), 3.0, 3.0, 3.0, "between 3 and 3"),  # rounding
    ],
)
def test_intervals(margin, found, proved, low, high, text):
    got = interval(margin, found, proved)
    assert (got.low, got.high) == (low, high)
    assert str(got) == text


@pytest.mark.parametrize("value", [1 / 3, -2 / 3, 0.1248812345, 1e-300 / 7, 12345678.9, 5.0, 3.02160000001])
def test_what_is_printed_is_rounded_outwards(value):
    assert float(outwards(value, -1)) <= value <= float(outwards(value, +1))
    assert float(outwards(value, +1)) == pytest.approx(value, rel=2e-4)


def with_constant(**fields):
    """The sharp constant is 1."""
    return claim(lambda x, c=2.0: (x, float(c) * (1 + 0 * x)), sharp="c", mutants=[{"c": 0.9}], **fields)


def test_a_constant_that_is_only_found_is_one_end():
    outcome = with_constant().check()
    assert outcome.agrees
    assert (outcome.interval.low, outcome.interval.high) == (1.0, math.inf)


def test_a_proof_of_the_statement_proves_the_stated_constant():
    outcome = with_constant(proof="docs/accuracy.md").check()
    assert outcome.agrees
    assert (outcome.interval.low, outcome.interval.high) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("proved", "reason"),
    [
        (1.5, ""),
        (1.0, ""),
        (0.99, "the verdict is 'false', recorded is 'holds' (a certificate"),
        (2.5, "the constant 2.5 is said to be proved, which is weaker than the stated one"),
    ],
)
def test_a_constant_that_is_said_to_be_proved_must_hold(proved, reason):
    outcome = with_constant(proved_constant=proved, proof="docs/accuracy.md").check()
    assert outcome.reason.startswith(reason)
    assert outcome.agrees == (not reason)


def test_a_constant_that_is_said_to_be_certified_is_certified():
    """The sharp constant is 1."""
    for proved, answer in (("1.5", "proved"), ("0.9", "refuted")):
        fields = {"evidence": "certified", "sharp": "c", "proved_constant": proved, "mutants": [{"c": "0.8"}]}
        outcome = claim(lambda x, c="2": (x, type(x)(c) * (1 + 0 * x)), **fields).check()
        assert outcome.certificate.answer == answer
        assert outcome.agrees == (answer == "proved")
