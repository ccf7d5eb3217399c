"""One verdict of all tests of an audit, with its cause in plain words.

``TESTS`` lists the tests, each after the tests that it presupposes: the first that fails names the cause.  Each
has the share ``level``/number of the probability of a false alarm of the whole report, so that a loop as claimed is
called otherwise with probability ``level`` at most, by the union bound.  Tests that refute the privacy stand first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from corrnoise.support.wording import summary_html, summary_text
from corrnoise.theory.auditing.canaries import score_power
from corrnoise.theory.auditing.evidence import Evidence
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import gaussian_epsilon

Verdict = Literal["nothing found", "noise not as claimed", "not private as claimed", "could not be audited"]

MAX_TESTS_IN_SUMMARY = 3


class Row(NamedTuple):
    """A test of the table: its subject, the meaning of a failure, and whether a failure refutes the privacy."""

    cause: str
    refutes: bool


_NOISE_REUSED = "the noise of a step is used again at another step"
_COUNT_FOR_MORE = "gradients count for more than claimed"
_CHANGES_OTHERS = "an example changes what the others contribute"
_OTHER_CORRELATIONS = "the noise has other correlations, or sizes, over the steps than claimed"
_NOT_NORMAL = "the noise is not normal"
_COUNT_FOR_LESS = "gradients count for less than claimed, or come at other steps"

TESTS: Mapping[str, Row] = {
    "noise of all coordinates, near 0": Row("the loop adds no noise", True),
    "difference of two coordinates, near 0": Row("two coordinates get the same noise, up to the sign", True),
    "noise of a step, near 0": Row("a step gets no noise", True),
    "difference of two steps, near 0": Row(_NOISE_REUSED, True),
    "cosine of two runs, above 1/2": Row("the noise of a run is used again in another run", True),
    "difference of two steps of all runs, near 0": Row(_NOISE_REUSED, True),
    "noise of a step given others, near 0": Row("the noise of a step follows from that of other steps", True),
    "noise of a coordinate, below a tenth": Row("a coordinate gets no noise, or almost none", True),
    "pairs of equal values": Row("the noise has too few bits", True),
    "variance, below": Row("the noise is smaller than claimed", True),
    "noise of a step, for one gradient": Row("a step has too little noise for the gradient of one example", True),
    "variance of lone runs, below": Row("the noise of a batch of few examples is smaller than claimed", True),
    "piles, all": Row(_COUNT_FOR_MORE, True),
    "piles, length": Row(_COUNT_FOR_MORE, True),
    "piles, steps": Row(_COUNT_FOR_MORE, True),
    "piles, place": Row(_COUNT_FOR_MORE, True),
    "piles, largest": Row(_COUNT_FOR_MORE, True),
    "piles, learned filter": Row(_COUNT_FOR_MORE, True),
    "alone": Row("an example that is alone in its batch counts for more: is the sum divided by their number?", True),
    "lone pairs": Row("a batch is clipped as a whole, not each example", True),
    "influence, short": Row(_CHANGES_OTHERS, True),
    "influence, long": Row(_CHANGES_OTHERS, True),
    "not finite": Row("a gradient that is not finite is not dropped", True),
    "noise of a coordinate, above tenfold": Row("a coordinate gets more than noise", False),
    "mean": Row("the noise has a mean that is not 0", False),
    "correlation, each lag": Row(_OTHER_CORRELATIONS, False),
    "correlation, all lags": Row(_OTHER_CORRELATIONS, False),
    "correlation, all pairs of steps": Row(_OTHER_CORRELATIONS, False),
    "correlation, largest pair of steps": Row(_OTHER_CORRELATIONS, False),
    "variance, above": Row("the noise is larger than claimed", False),
    "distance from the normal distribution": Row(_NOT_NORMAL, False),
    "largest value, below": Row(_NOT_NORMAL, False),
    "largest value, above": Row(_NOT_NORMAL, False),
    "shares of the steps": Row(_OTHER_CORRELATIONS, False),
    "variance of lone runs, above": Row("the noise of a batch of few examples is larger than claimed", False),
    "variance of a step, below": Row("the noise of a step has another size than claimed", False),
    "neighbouring coordinates": Row("the noise of different coordinates is correlated", False),
    "cosine of two coordinates": Row("the noise of different coordinates is correlated", False),
    "cosine of two runs": Row("the noise of different runs is correlated", False),
    "variance of a coordinate, below": Row("a coordinate gets less noise than claimed", False),
    "variance of a coordinate, above": Row("a coordinate gets more noise than claimed", False),
    "not finite, refused": Row("a gradient that is not finite is not refused", False),
    "trace of absent canaries": Row("examples that do not take part leave a trace", False),
    "size, length": Row(_COUNT_FOR_LESS, False),
    "size, steps": Row(_COUNT_FOR_LESS, False),
    "size, largest": Row(_COUNT_FOR_LESS, False),
    "size, each step": Row(_COUNT_FOR_LESS, False),
    "coordinates, sizes": Row("the noise of different coordinates has different sizes", False),
}


_OTHER_BATCHES = "batches are not those of examples that draw for themselves (H2)"

_OF_PILES = ("piles", "alone", "influence", "not finite", "size,")  # tests of loops that get their batches
_SHARED = {name: row for name, row in TESTS.items() if not name.startswith(_OF_PILES)}

#: The tests of a loop that draws its batches, in their order.
SAMPLED_TESTS: Mapping[str, Row] = {
    "batches, steps of an example": Row("an example is in steps that its sampling does not have: drawn again?", True),
    "batches, rate above": Row("examples take part more often than claimed", True),
    "batches, sizes": Row(_OTHER_BATCHES, True),
    "batches, numbers of participations": Row(_OTHER_BATCHES, True),
    "batches, drawn again": Row(
        "batches are related to those of another run or epoch: their secret is used again", True
    ),
    "noise of a step of few examples, near 0": Row("a step with few examples, or none, gets no noise", True),
    **{name: row for name, row in _SHARED.items() if row.refutes and name != "lone pairs"},
    "canaries, matched filter": Row(_COUNT_FOR_MORE, True),
    "canaries, largest score": Row(_COUNT_FOR_MORE, True),
    "lone pairs": TESTS["lone pairs"],
    "division by the size of the batch": Row("sums are divided by the number of examples of the batch (H3)", True),
    **{name: row for name, row in _SHARED.items() if not row.refutes},
    "gradients of canaries": Row(_COUNT_FOR_LESS, False),
    "batches, rate below": Row("examples take part less often than claimed", False),
}


@record
class Test(Record):
    """A test of an audit.

    Attributes
    ----------
    name, cause
        The subject, and the meaning of a failure.
    statistic, where
        The statistic, and its place if it is the most extreme of several.
    p, level
        The p-value of a loop that is as claimed, exact or too large; the test fails if it is at most ``level``.
    refutes_privacy
        Whether a failure refutes the claimed privacy, and not only the claimed noise.
    """

    __test__ = False  # for pytest, which takes it for a test of its own

    name: str
    cause: str
    statistic: float
    where: str
    p: float
    level: float
    refutes_privacy: bool

    @property
    def failed(self) -> bool:
        """Whether the test contradicts the claim."""
        return self.p <= self.level


@record
class Audit(Record):
    """The result of an audit; ``audit`` makes it.

    Attributes
    ----------
    verdict
        ``"nothing found"``, ``"noise not as claimed"``, ``"not private as claimed"`` or ``"could not be audited"``.
    cause
        Why, in plain words; empty if nothing was found.
    tests
        The tests in the order of causes.
    mu_lower_bound
        Lower bound of μ; it exceeds the truth in a report with probability ``level`` at most.
    mu, delta
        The claim: μ = sqrt(2ρ) of one Gaussian mechanism, and the δ of the stated ε, or None.  Of a sampled loop,
        the mean μ of the canaries for somebody who knows the batches; the sampling is tested by itself.
    signal
        μ of a canary of a loop as claimed, at most ``mu``.
    piles, canaries
        Piles of 16 examples; or canaries, of a loop that draws its batches.
    effective, freedom
        What decides the power, as in ``canaries.score_power``.
    idle, runs, lone_runs
        Idle coordinates of a run; runs with many canaries, and runs with few examples.
    skipped
        How many steps the loop skipped in restarts.
    level
        How probably a loop as claimed gets another verdict than ``"nothing found"``, at most.
    sampled
        Whether the loop draws its batches.
    not_finite
        How the loop treated a gradient that is not finite, in words; empty if it got none.
    """

    verdict: Verdict
    cause: str
    tests: tuple[Test, ...]
    mu_lower_bound: float
    mu: float
    delta: float | None
    signal: float
    piles: int
    canaries: int
    effective: float
    freedom: int
    idle: int
    runs: int
    lone_runs: int
    skipped: int
    level: float
    sampled: bool = False
    not_finite: str = ""

    def power(self, factor: float) -> float:
        """How probably a loop is refuted that clips to ``factor`` times the clipping norm.

        Parameters
        ----------
        factor : float
            f > 0.

        Returns
        -------
        float
            The power of the test of all piles alone, exact if they are of one phase.  Noise of σ/f is found with at
            least this probability.
        """
        checks.real("factor", factor, "(0, inf)")
        level = self.tests[0].level if self.tests else self.level / len(TESTS)
        return score_power(self.mu, factor * self.signal, self.effective, self.freedom, level)

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """The verdict and the evidence behind it, in at most 15 lines.

        Returns
        -------
        str
        """
        return summary_text(self._opening, self._facts())

    def _repr_html_(self) -> str:
        return summary_html(self._opening, self._facts())

    @property
    def _opening(self) -> str:
        if self.verdict == "nothing found":
            return "Nothing found: no test contradicts the claim. An audit can refute a claim and cannot prove one."
        return f"{self.verdict.capitalize()}: {self.cause}."

    @property
    def _effort(self) -> str:
        many = f"{self.canaries} canaries" if self.sampled else f"{self.piles} piles of 16 examples"
        return (
            f"{self.runs} runs with {many} and {self.idle} idle coordinates, {self.lone_runs} runs with few examples, "
            f"{self.skipped} steps skipped"
        )

    def _facts(self) -> dict[str, str]:
        """The facts of the summary by their names."""
        adversary = " against an adversary who knows the batches" if self.sampled else ""
        facts = {"Claim": _in_words(self.mu, self.delta, "a Gaussian mechanism with mu =") + adversary}
        if self.tests:
            failed = [test.name for test in self.tests if test.failed]
            names = f": {'; '.join(failed[:MAX_TESTS_IN_SUMMARY])}" if failed else ""
            further = f" and {len(failed) - MAX_TESTS_IN_SUMMARY} more" if len(failed) > MAX_TESTS_IN_SUMMARY else ""
            chance = f"a loop as claimed fails one with probability at most {self.level:g}"
            facts |= {
                "Evidence": _in_words(self.mu_lower_bound, self.delta, "mu >="),
                "Tests": f"{len(failed)} of {len(self.tests)} failed{names}{further}; {chance}",
                "Effort": self._effort,
                "Power": f"a clipping norm 1.1 times too large is found with probability {self.power(1.1):.3f}",
            }
        return facts | {"Next": "print(found.report()) lists every test"}

    def report(self) -> str:
        """The verdict and its cause, then the evidence, as text."""
        lines = [f"verdict: {self.verdict}"]
        if self.cause:
            lines.append(f"cause: {self.cause}")
        known = "to who knows the batches, " if self.sampled else ""
        lines.append(f"claim: {known}{_in_words(self.mu, self.delta, 'a Gaussian mechanism with mu =')}")
        if not self.tests:
            return "\n".join(lines)
        lines += [
            f"evidence: {_in_words(self.mu_lower_bound, self.delta, 'mu >=')}",
            f"effort: {self._effort}",
            *([f"not finite: {self.not_finite}"] if self.not_finite else []),
            "power: a clip norm that is too large is found with probability "
            + ", ".join(f"{self.power(factor):.3f} (x {factor})" for factor in (1.5, 1.2, 1.1)),
            f"tests: {len(self.tests)}; a loop as claimed fails one with probability {self.level:g} at most",
        ]
        for test in sorted(self.tests, key=lambda test: not test.failed):
            state = "FAILED" if test.failed else "passed"
            where = f" ({test.where})" if test.where else ""
            lines.append(f"  {state}  p = {test.p:<8.2g} {test.name}: {test.statistic:.4g}{where}")
        return "\n".join(lines)


def _in_words(mu: float, delta: float | None, sign: str) -> str:
    if delta is None or not mu:
        return f"{sign} {mu:.4g}"
    return f"{sign} {mu:.4g}, epsilon {gaussian_epsilon(mu**2 / 2, delta):.4g} at delta {delta:.3g}"


def judged(
    found: Mapping[str, Evidence], level: float, table: Mapping[str, Row] = TESTS
) -> tuple[Verdict, str, tuple[Test, ...]]:
    """The verdict, its cause and the tests.

    Parameters
    ----------
    found : dict of str to str
        Evidence by the name of the test, for the tests that were made.
    level : float
        Of the whole report.
    table : dict of str to Row, optional
        Its tests, in their order.
    """
    each = level / len(table)
    tests = tuple(
        Test(name, row.cause, one.statistic, one.where, one.p, each, row.refutes)
        for name, row in table.items()
        if (one := found.get(name)) is not None
    )
    failed = [test for test in tests if test.failed]
    if not failed:
        return "nothing found", "", tests
    first = failed[0]
    where = f" ({first.where})" if first.where else ""
    verdict: Verdict = "not private as claimed" if first.refutes_privacy else "noise not as claimed"
    return verdict, first.cause + where, tests


def no_evidence(verdict: Verdict, cause: str, mu: float, delta: float | None, level: float) -> Audit:
    """An audit that ended before any test."""
    return Audit(verdict, cause, (), 0.0, mu, delta, 0.0, 0, 0, 0.0, 1, 0, 0, 0, 0, level)
