"""The summary of an audit: the verdict first, few lines, and the tests that failed."""

from __future__ import annotations

import pytest

from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.auditing.findings import TESTS, Audit, judged, no_evidence

MAX_LINES, MAX_CHARACTERS = 15, 1500


def audited(*failing: str) -> Audit:
    """An audit of 312 piles, with p-values of 0 in these tests."""
    found = {name: Evidence(1.0, 0.0 if name in failing else 0.5, "step 3") for name in TESTS}
    verdict, cause, tests = judged(found, 1e-3)
    return Audit(verdict, cause, tests, 0.3, 1.1, 1e-5, 1.1, 312, 0, 4992.0, 9990, 1000, 2, 46, 0, 1e-3)


@pytest.mark.parametrize(
    ("failing", "first"),
    [
        ((), "Nothing found: no test contradicts the claim."),
        (("variance, below",), "Not private as claimed: the noise is smaller than claimed (step 3)."),
        (("mean",), "Noise not as claimed: the noise has a mean that is not 0 (step 3)."),
        (tuple(TESTS), "Not private as claimed: the loop adds no noise (step 3)."),
    ],
)
def test_a_summary_is_short_and_starts_with_the_verdict(failing: tuple[str, ...], first: str) -> None:
    found = audited(*failing)
    text = str(found)
    assert text == found.summary()
    assert text.startswith(first)
    assert len(text.splitlines()) <= MAX_LINES
    assert len(text) <= MAX_CHARACTERS
    words = " ".join(text.split())
    assert f"{len(failing)} of {len(TESTS)} failed" in words
    assert all(name in words for name in failing[:3])
    assert (f"and {len(TESTS) - 3} more" in words) == (failing == tuple(TESTS))
    assert "Claim: a Gaussian mechanism with mu = 1.1, epsilon 4.8" in words
    assert "Evidence: mu >= 0.3, epsilon" in words
    assert first.partition(" (")[0] in found._repr_html_()


def test_an_audit_that_ended_early_has_its_cause() -> None:
    found = no_evidence("could not be audited", "the loop raised ValueError", 1.1, None, 1e-3)
    assert str(found).startswith("Could not be audited: the loop raised ValueError.\nClaim:")
    assert "failed" not in str(found)
