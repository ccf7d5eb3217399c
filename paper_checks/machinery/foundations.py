"""Foundations: the claims that a claim rests on, as a graph, and the effect of a broken one.

A claim names what its proof uses in ``rests_on``: ``"N1"`` of the same paper, ``"corrnoise: N1"`` of another one.  If a
foundation is not as recorded, neither is anything above it, whatever its own check found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from graphlib import TopologicalSorter

from corrnoise.paper_checks.machinery.ledger import Claim, Outcome
from corrnoise.paper_checks.machinery.papers import ListedClaim, Paper
from corrnoise.paper_checks.machinery.verdicts import FALSE, PROOFS, UNDECIDED


class Foundations:
    """The graph of the claims of some papers and their foundations."""

    def __init__(self, papers: Sequence[Paper]) -> None:
        self._papers = {paper.name: paper for paper in papers}
        self._listed: dict[str, dict[str, ListedClaim]] = {}

    def of(self, claim: Claim) -> tuple[Claim, ...]:
        """The claims that ``claim`` names as its foundations; a ``ValueError`` if no claim has that name."""
        return tuple(self._named(claim, name) for name in claim.rests_on)

    def _named(self, claim: Claim, name: str) -> Claim:
        paper, _, rest = name.rpartition(": ")
        found = self._of_paper(paper or claim.paper).get(rest)
        if found is None:
            raise ValueError(f"rests_on of {claim.name} must be names of claims, got {name!r}")
        return found.claim

    def _of_paper(self, name: str) -> Mapping[str, ListedClaim]:
        if name not in self._papers:
            return {}
        if name not in self._listed:
            self._listed[name] = {one.name: one for one in self._papers[name].listed}
        return self._listed[name]

    @cached_property
    def above(self) -> dict[Claim, tuple[Claim, ...]]:
        """The claims that rest directly on each foundation; all claims are imported now."""
        found: dict[Claim, list[Claim]] = {}
        for paper in self._papers:
            for claim in (one.claim for one in self._of_paper(paper).values()):
                for foundation in self.of(claim):
                    found.setdefault(foundation, []).append(claim)
        return {foundation: tuple(claims) for foundation, claims in found.items()}

    def below(self, claims: Iterable[Claim]) -> tuple[Claim, ...]:
        """``claims`` and everything they rest on, foundations first; a ``ValueError`` if a claim rests on itself."""
        graph: dict[Claim, tuple[Claim, ...]] = {}
        waiting = list(claims)
        while waiting:
            claim = waiting.pop()
            if claim not in graph:
                graph[claim] = self.of(claim)
                waiting += graph[claim]
        return tuple(TopologicalSorter(graph).static_order())

    def faults(self, claim: Claim) -> Iterator[str]:
        """Why the foundations of a claim cannot bear it: false, open, or weaker than a proof that rests on them."""
        for foundation in self.of(claim):
            if foundation.recorded in (FALSE, *UNDECIDED):
                yield f"{claim.name} rests on {foundation.name}, which is {foundation.recorded}"
            if claim.checked_evidence == "proved" and foundation.checked_evidence not in PROOFS:
                yield f"{claim.name} is proved and rests on {foundation.name}, which is {foundation.checked_evidence}"

    def applied(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes, where a foundation that is not as recorded makes every claim above it fail, too.

        A foundation that was not checked counts as sound.
        """
        found = list(outcomes)
        known = {outcome.claim.identifier: outcome for outcome in found}
        for claim in self.below(outcome.claim for outcome in found):
            below = [known[other.identifier] for other in self.of(claim) if other.identifier in known]
            broken = [f"rests on {o.claim.name} ({o.claim.paper}): {o.reason}" for o in below if not o.agrees]
            if claim.identifier in known and known[claim.identifier].agrees and broken:
                known[claim.identifier] = replace(known[claim.identifier], agrees=False, reason="; ".join(broken))
        return [known[outcome.claim.identifier] for outcome in found]
