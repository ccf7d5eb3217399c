"""Papers: how claims are registered, refusals, and the inventories."""

import pickle
from types import SimpleNamespace

import pytest

import corrnoise.paper_checks as ledgers
from corrnoise.paper_checks.machinery import papers as machinery
from corrnoise.paper_checks.machinery.domains import integers, linear
from tests.small_claims import UNIT, below, claim, small

REFUTED = {"as_printed": {"c": 0.5}, "counterexample": {"x": 0.75}}
REPAIR = {"repair": "$x^2 \\le x$", **REFUTED}


def register(relation="inequality", function=below, name="Lemma 1", **fields):
    return claim(function, relation, name, **fields)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"evidence": "sure"},
            "evidence must be one of machine-checked, certified, proved, cited, exact, counterexample, family, "
            "computed, searched, simulated, got sure",
        ),
        *(
            ({"evidence": "proved", **where}, "what is proved needs the place of its proof, a file and its heading")
            for where in ({}, {"proof": "Appendix F"})
        ),
        *(
            ({"evidence": "cited", **where}, "what is cited needs in proof the published theorem with its number")
            for where in ({}, {"proof": "docs/accuracy.md"})
        ),
        *(
            (wrong, "what is machine-checked, and nothing else, has a theorem in Coq")
            for wrong in ({"evidence": "machine-checked"}, {"theorem": ("t", "0"), "evidence": "searched"})
        ),
        *(
            (wrong, "what is exact, and nothing else, has an identity_proof: enumeration")
            for wrong in (
                {"evidence": "exact"},
                {"identity_proof": "enumeration", "evidence": "searched"},
                {"identity_proof": "symbols"},
            )
        ),
        *(
            ({"evidence": kind}, "only a false statement has the evidence counterexample or family")
            for kind in ("counterexample", "family")
        ),
        *(
            (
                {"counterexample": {"x": 1}, "evidence": kind},
                "evidence that it is false must be one of machine-checked, proved, counterexample, family, computed",
            )
            for kind in ("searched", "certified", "exact", "cited")
        ),
        (
            {"counterexample": lambda c: {"x": c}, "constants": {"c": "unspecified"}, "evidence": "counterexample"},
            "where constants may be chosen, or symbols have meanings with other arguments, one counterexample does not",
        ),
        ({"counterexample": {"x": 1}, "evidence": "family", "disproof": "docs/a.md"}, "a family needs constants"),
        *(
            (
                {"counterexample": lambda c: {"x": c}, "constants": {"c": "unspecified"}, "evidence": kind},
                "what is proved to be false, for every choice of the constants if there are any, needs the place",
            )
            for kind in ("family", "proved")
        ),
        ({"disproof": "docs/a.md"}, "only a false statement has a disproof"),
        ({"repair_evidence": "proved", **REFUTED}, "a repair, and nothing else, has repair_evidence"),
        ({"proved_constant": 2.0}, "proved_constant needs the name of it in sharp"),
        ({"proved_constant": 2.0, "sharp": "c"}, "proved_constant needs a proof or a certificate"),
        ({"evidence": "certified", "domain": {"x": integers(1, 3)}}, "only an inequality over scalar axes"),
        ({"evidence": "computed"}, "of inequalities only those with a finite domain can be computed"),
        ({"printed": " "}, "it needs the statement as printed"),
        ({"mutants": []}, "it needs a mutant that its check rejects"),
        ({"mutants": [{"d": 1}]}, "it has no constant d"),
        ({"mutants": [{"x": 1}]}, "it has no constant x"),
        ({"sharp": "d"}, "it has no constant d"),
        ({"domain": {}}, "its domain must have an axis for each argument"),
        ({"domain": {**UNIT, "y": linear(0, 1)}}, "its domain must have an axis for each argument"),
        ({"repair": "better"}, "a repair needs a counterexample"),
        ({"as_printed": {"c": 2.0}}, "a repair needs a counterexample"),
        ({**REPAIR, "mutants": [{"c": 0.5}]}, "it needs a mutant of the corrected statement, besides the printed one"),
        ({"counterexample": {"y": 1}}, "a counterexample has the arguments of the domain"),
        ({"counterexample": {"x": 1}, "undecided": ("open", "?")}, "a claim that is undecided has no counterexample"),
        *(
            (
                {"undecided": wrong},
                rf"undecided must be one of open, no data, vacuous, and the reason, got \('{wrong[0]}'",
            )
            for wrong in (("maybe", "?"), ("open", ""))
        ),
    ],
)
def test_a_claim_that_could_not_be_checked_or_could_not_fail_is_refused(fields, message):
    with pytest.raises(ValueError, match=f"Lemma 1: {message}"):
        register(**fields)


def test_more_that_is_refused():
    with pytest.raises(ValueError, match="only an inequality over scalar axes can be certified"):
        register("identity", evidence="certified")
    with pytest.raises(ValueError, match="only an inequality has a sharp constant"):
        register("identity", sharp="c")

    def constant(c=1.0):
        """A note."""
        return c, 2.0

    with pytest.raises(ValueError, match="only an inequality over scalar axes can be certified"):
        register(function=constant, evidence="certified", domain={})
    with pytest.raises(TypeError, match="nonsense"):
        register(nonsense=1)
    with pytest.raises(ValueError, match="Lemma 1: it needs a docstring"):
        small().inequality("Lemma 1", printed="$x$", domain=UNIT, mutants=[{"c": 2}])(lambda x, c=1.0: (x, c))
    paper = small()
    register(paper=paper, name="Lemma 1 (i)")
    with pytest.raises(ValueError, match=r"Lemma 1 \(i\): there are two claims of that name"):
        register(paper=paper, name="Lemma 1 (i)")
    assert len(paper.claims) == 1


# -- inventories -------------------------------------------------------------------------------------------------------


def test_a_statement_is_with_or_without_claims():
    paper = small(no_claims={"Lemma 1": "it is empty"})
    register(paper=paper, name="Lemma 2")
    with pytest.raises(ValueError, match="Lemma 1: no_claims says why there is no claim about it"):
        register(paper=paper)


def test_a_claim_of_a_module_that_the_paper_does_not_name_is_refused():
    package, _, module = below.__module__.rpartition(".")
    register(paper=small(package=package, modules=[module]))
    with pytest.raises(ValueError, match=f"Lemma 1: small does not name its module {below.__module__}"):
        register(paper=small(package=package, modules=["elsewhere"]))


HELD = {"pkg.first": ("Lemma 2",), "pkg.second": ("Lemma 1", "Lemma 3"), "pkg.third": ("Lemma 1",)}
LIST = """module,number,part,truth,evidence,repair,repair_evidence
first,Lemma 2,(first),true,searched,,
second,Lemma 1,(second),true,searched,,
second,Lemma 3,(second),true,searched,,
second,Lemma 4,(second),true,searched,,
third,Lemma 1,(third),true,searched,,
"""


@pytest.fixture
def modules(monkeypatch, tmp_path):
    """A paper of three modules; importing one is recorded and registers its claims.  One claim is listed and gone."""
    (tmp_path / "claims.csv").write_text(LIST)
    monkeypatch.setattr(machinery, "files", lambda package: tmp_path)
    paper = small(package="pkg", modules=["first", "second", "third"])
    imported = []

    def load(name):
        if name not in imported:
            imported.append(name)
            for number in HELD[name]:
                function = lambda x, c=1.0: (x, c)  # noqa: E731
                function.__doc__, function.__module__ = "A note.", name
                register(paper=paper, function=function, name=f"{number} ({name[4:]})")
        return SimpleNamespace()

    monkeypatch.setattr(machinery, "import_module", load)
    return paper, imported


def test_a_listed_claim_imports_its_module_when_more_is_asked_for(modules):
    paper, imported = modules
    assert paper.numbers == ("Lemma 2", "Lemma 1", "Lemma 3", "Lemma 4")
    first, _, third, gone, _ = paper.listed
    assert (third.name, third.identifier, third.recorded, third.evidence) == (
        *("Lemma 3 (second)", "small-lemma-3-second"),
        *("holds", "searched"),
    )
    assert not hasattr(third, "_repr_html_")
    assert not imported
    assert third.printed == "$x$"
    assert imported == ["pkg.second"]
    assert third.claim in paper.registered
    assert third.check().verdict == "holds"
    with pytest.raises(AttributeError):
        third.nonsense  # noqa: B018
    with pytest.raises(LookupError, match=r"pkg.second has no claim Lemma 4 \(second\); python -m tools.claims lists"):
        gone.check()
    assert first.claim.name == "Lemma 2 (first)"


def test_claims_stand_in_the_order_of_the_paper_however_they_were_imported(modules):
    paper, _ = modules
    paper.listed[2].check()
    names = [claim.name for claim in paper.claims]
    assert names == ["Lemma 2 (first)", "Lemma 1 (second)", "Lemma 3 (second)", "Lemma 1 (third)"]


# -- the papers of the ledger ------------------------------------------------------------------------------------------


def test_claims_travel_by_name():
    for written in ledgers.claims()[::10]:
        assert pickle.loads(pickle.dumps(written)) is written
        assert pickle.loads(pickle.dumps(written.claim)) is written.claim
    with pytest.raises(AttributeError, match="PAPER"):  # by hand, in no module of a paper
        pickle.loads(pickle.dumps(register()))


@pytest.mark.parametrize("name", ledgers.NAMES)
def test_the_list_of_a_paper_is_that_of_its_claims(name):
    """Otherwise ``python -m tools.claims`` has to write it anew."""
    paper = ledgers.paper_ledger(name)
    assert paper.listed == tuple(map(paper.listing_of, paper.claims))
    assert {claim.module for claim in paper.listed} == set(paper.modules)
