"""Selection: finding the claims that the names on a command line mean.

A name is a paper (``correlated-noise``, ``2310.06771``, the beginning of its title or authors), a claim
(``"Lemma C.21 (i)"``), the beginning of several (``C.21``, ``Lemma``), or a paper and a claim.  Names of papers restrict
names of claims.  Consecutive arguments that make up one name are joined, so ``Lemma C.21`` needs no quotes.

Claims are found in the lists of the papers, without importing them.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from corrnoise.paper_checks.machinery.names import KINDS, Words, agree, begins, called, words
from corrnoise.paper_checks.machinery.papers import ListedClaim, Paper
from corrnoise.support.mathematics import plain


class Selection(NamedTuple):
    """The selected claims, in the order of the papers, and remarks on names that mean many."""

    claims: tuple[ListedClaim, ...]
    remarks: tuple[str, ...]


class _Meaning(NamedTuple):
    """The meaning of a name: papers, or claims, or nothing."""

    papers: tuple[Paper, ...] = ()
    claims: tuple[ListedClaim, ...] = ()


def select(papers: Sequence[Paper], names: Sequence[str]) -> Selection:
    """The claims that ``names`` mean; without names all.

    A name that means nothing is a ``ValueError``, which says which names are close, or why no claim has it.
    """
    restrictions: set[Paper] = set()
    wanted = []
    for name in _joined(papers, names):
        found = _papers_meant(papers, name)
        restrictions.update(found)
        wanted += [] if found else [name]
    among = [paper for paper in papers if not restrictions or paper in restrictions]
    chosen: set[ListedClaim] = set()
    remarks = []
    for name in wanted:
        claims = _meaning(among, name).claims
        if not claims:
            raise ValueError(_unknown(papers, among, name))
        chosen.update(claims)
        if len({(claim.paper, claim.number) for claim in claims}) > 1 and not any(map(str.isdigit, name)):
            remarks.append(
                f"{name!r} means {len(claims)} claims; with a number, as in {claims[0].name!r}, it means one"
            )
    if not wanted:
        return Selection(tuple(claim for paper in among for claim in paper.listed), ())
    ordered = (claim for paper in among for claim in paper.listed if claim in chosen)
    return Selection(tuple(ordered), tuple(remarks))


def papers_called(papers: Sequence[Paper], name: str) -> tuple[Paper, ...]:
    """The papers that a name means; a ``ValueError`` if there is none."""
    found = _papers_meant(papers, name)
    if not found:
        raise ValueError(f"paper must be one of {', '.join(paper.name for paper in papers)}, got {name!r}")
    return found


# -- the meaning of one name -------------------------------------------------------------------------------------------


def _papers(papers: Sequence[Paper], typed: Words, loosely: bool) -> tuple[Paper, ...]:
    """The papers whose short name, reference, title or list of authors starts with the typed words."""
    return tuple(
        paper
        for paper in papers
        for texts in [(paper.name, paper.source, paper.source.partition(" ")[2], paper.title, paper.authors)]
        if any(begins(words(text), typed, loosely=loosely) for text in texts)
    )


def _claims(paper: Paper, typed: Words, loosely: bool) -> Iterator[ListedClaim]:
    """The claims of a paper whose names start with the typed words."""
    for claim in paper.listed:
        if any(begins(key, typed, loosely=loosely) for key in called(claim.name)):
            yield claim


def _meaning(papers: Sequence[Paper], name: str) -> _Meaning:
    """The meaning of a name.

    Whole words take precedence over beginnings of words, then papers over claims, then claims over claims of a paper
    at the beginning of the name.
    """
    typed = words(name)
    for loosely in (False, True):
        if found := _papers(papers, typed, loosely):
            return _Meaning(papers=found)
        for cut in (0, *range(len(typed) - 1, 0, -1)):
            holders = _papers(papers, typed[:cut], loosely=False) if cut else papers
            if claims := tuple(claim for paper in holders for claim in _claims(paper, typed[cut:], loosely)):
                return _Meaning(claims=claims)
    return _Meaning()


def _papers_meant(papers: Sequence[Paper], name: str) -> tuple[Paper, ...]:
    """The papers that a name means; none if it means claims or nothing."""
    return _papers(papers, words(name), loosely=False) or _meaning(papers, name).papers


def _joined(papers: Sequence[Paper], names: Sequence[str]) -> list[str]:
    """``names``, where words that make one name together are joined."""
    joined: list[str] = []
    first = ""  # of the arguments that make up the last name; a blank in it was quoted, so the name is complete
    for name in names:
        if joined and _belong_together(papers, joined[-1], name, quoted=len(words(first)) > 1):
            joined[-1] += f" {name}"
        else:
            joined.append(name)
            first = name
    return joined


def _belong_together(papers: Sequence[Paper], name: str, following: str, *, quoted: bool) -> bool:
    """Whether two names are one: ``Lemma`` and ``C.21``, also if the claim does not exist, but not a paper and a claim."""
    meaning = _meaning(papers, f"{name} {following}")
    if meaning.papers:
        return True
    if _papers(papers, words(name), loosely=False):
        return False
    whole = any(words(name) in called(number) for paper in papers for number in paper.numbers)
    incomplete = not quoted and _says_kind(name) and not whole and not any(map(str.isdigit, name))
    begins_anew = _says_kind(following) or _papers(papers, words(following), loosely=False)
    return bool(meaning.claims) or (incomplete and not begins_anew)


def _says_kind(name: str) -> bool:
    """Whether a name starts with a kind of statement, or with two letters of it or more."""
    first = (*words(name), "")[0]
    return len(first) > 1 and any(kind.startswith(first) for kind in KINDS)


# -- names that mean nothing -------------------------------------------------------------------------------------------


def _unknown(papers: Sequence[Paper], among: Sequence[Paper], name: str) -> str:
    """Why a name means no claim of the papers ``among``."""
    typed = words(name)
    for paper in among:
        for number, reason in paper.no_claims.items():
            if any(begins(key, typed) for key in called(number)):
                return f"there is no claim about {number} of {paper.name}: {plain(reason)}"
    names = ", ".join(paper.name for paper in among)
    if len(among) < len(papers) and _meaning(papers, name).claims:
        return f"there is no claim {name!r} in {names}, but there is one in another paper"
    return f"there is no paper or claim {name!r}; {_hint(among, typed)}corrnoise check --list shows all"


def _hint(papers: Sequence[Paper], typed: Words) -> str:
    """The names that are close to the words typed, or nothing."""
    close: dict[str, str] = {}
    for paper in papers:
        near = (one.name for one in paper.listed if any(agree(key, typed) for key in called(one.number)))
        known = [paper.name, *paper.numbers, *near]
        close |= {" ".join(key): name for name in known for key in called(name) if key}
    found = dict.fromkeys(close[key] for key in get_close_matches(" ".join(typed), close, n=5, cutoff=0.6))
    return f"close are {', '.join(found)}; " if found else ""
