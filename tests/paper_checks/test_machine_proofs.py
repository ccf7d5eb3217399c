"""The proofs in ``proofs/`` compile, prove the statements next to them, and rest on no other axioms.

Without Coq these tests are skipped.  With ``CORRNOISE_COQ=required`` they fail instead, and the generated files are
compiled, too.
"""

import os
import re
import shutil
from dataclasses import replace

import pytest

import corrnoise as cn
from corrnoise.paper_checks.machinery.theorems import digest, digests, fault
from tools.proofs import (
    ALLOWED,
    GENERATED,
    PROOFS,
    axioms,
    axioms_of,
    compiled,
    file_digest,
    said,
    statements,
    versions,
)

FILES = sorted(PROOFS.glob("*.v"))
MADE = sorted(GENERATED.glob("*.v"))
#: What Coq said of all files.
SAID = "\n".join(file.with_suffix(".txt").read_text(encoding="utf-8") for file in FILES)
#: A file with one theorem about what it defines.
SMALL = """From Coq Require Import Arith.
Section S.
Definition twice (n : nat) : nat := n + n.
Theorem same : forall n : nat, twice n = n + n.
Proof. reflexivity. Qed.
End S.
"""
#: A false axiom under the short name of one of the real numbers' axioms.
LOCAL_AXIOM = """From Coq Require Import Arith.
Module Classical_Prop.
Axiom classic : False.
End Classical_Prop.
Theorem fake : forall n : nat, n = S n.
Proof. intro n. destruct Classical_Prop.classic. Qed.
"""
REQUIRED = os.environ.get("CORRNOISE_COQ") == "required"

needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None and not REQUIRED, reason="coqc is not installed: apt-get install coq"
)
MACHINE_CHECKED = [one.claim for one in cn.claims() if one.claim.theorem is not None]


@pytest.mark.slow
@needs_coq
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_proofs_prove_what_is_written_down(file):
    """Line breaks may differ from one version of Coq to another."""
    written = file.with_suffix(".txt").read_text(encoding="utf-8")
    assert said(file.read_text(encoding="utf-8")).split() == written.split()


def test_the_theorems_rest_on_the_axioms_of_the_real_numbers_alone():
    assert axioms(SAID) <= {name.split(".", 2)[2] for name in ALLOWED}


@needs_coq
@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_axioms_are_those_of_coq_by_their_full_paths(file):
    assert axioms_of(file.read_text(encoding="utf-8")) <= ALLOWED


def test_claims_name_theorems_that_are_written_down():
    assert len(MACHINE_CHECKED) >= 10
    assert {name: digest(statement) for name, statement in statements(SAID).items()} == digests()
    assert len(re.findall(r"^\w+\n     : ", SAID, re.MULTILINE)) == len(digests())
    for claim in MACHINE_CHECKED:
        name, stated = claim.theorem
        assert digests()[name] == stated


def test_a_claim_with_another_theorem_disagrees():
    """As with another statement of the same theorem."""
    for claim in MACHINE_CHECKED:
        name, stated = claim.theorem
        assert fault((name, stated)) == ""
        for theorem in (("nodes_of_a_prefix", stated), (name, "0" * 16)):
            assert fault(theorem).startswith(f"the theorem {theorem[0]} in Coq has the digest ")
    [claim] = [one for one in MACHINE_CHECKED if one.name == "Lemma D.6"]
    outcome = replace(claim, theorem=("nodes_of_a_prefix", claim.theorem[1]), evaluations=1).checked(None)
    assert not outcome.agrees
    assert outcome.reason.startswith("the theorem nodes_of_a_prefix in Coq has the digest ")


@needs_coq
def test_a_gap_is_an_axiom():
    assert axioms_of(SMALL) == set()
    admitted = SMALL.replace("Proof. reflexivity. Qed.", "Proof. Admitted.")
    assert axioms_of(admitted) == {"Asked.same"}
    assert axioms(said(SMALL)) < axioms(said(admitted))


@needs_coq
def test_an_axiom_of_the_file_is_not_the_one_of_the_same_short_name():
    assert axioms_of(LOCAL_AXIOM) == {"Asked.Classical_Prop.classic"}
    assert not axioms_of(LOCAL_AXIOM) & ALLOWED


@needs_coq
@pytest.mark.parametrize(
    "changes",
    [
        {"Section S.": "Section S. Hypothesis no : False.", "reflexivity": "destruct no"},
        {
            "n + n.\nTheorem": "n + (n + 0 * n).\nTheorem",
            "reflexivity": "intro n; unfold twice; now rewrite Nat.add_0_r",
        },
        {"forall n : nat, twice": "forall n : nat, n = 0 -> twice"},
    ],
)
def test_a_weaker_theorem_and_another_definition_are_noticed(changes):
    changed = SMALL
    for before, after in changes.items():
        assert before in changed
        changed = changed.replace(before, after)
    assert said(changed).split() != said(SMALL).split()


@needs_coq
def test_a_false_statement_does_not_compile():
    source = (PROOFS / "Momentum.v").read_text(encoding="utf-8")
    changed = source.replace("G 0%nat 4%nat = 3 / 4", "G 0%nat 4%nat = 5 / 8")
    assert changed != source
    with pytest.raises(ValueError, match="Error"):
        said(changed)


# -- theorems that are written from claims -----------------------------------------------------------------------------


def test_generated_theorems_compiled_with_the_axioms_of_the_real_numbers_alone():
    assert len(MADE) >= 30
    assert {file.stem for file in MADE} == set(compiled())
    for file in MADE:
        stated, found = compiled()[file.stem]
        assert file_digest(file.read_text(encoding="utf-8")) == stated
        assert set(found.split()) <= ALLOWED


@pytest.mark.parametrize("file", MADE, ids=lambda file: file.stem)
def test_a_generated_theorem_is_the_claim(file):
    """Its bytes are written again from the claim; a constant that differs in the last digit makes another file."""
    text = file.read_text(encoding="utf-8")
    again = versions(file.stem)
    assert text in again
    number = re.findall(r"\(\d+", text.partition("Theorem")[2])[-1]
    changed = text.replace(number, f"({int(number[1:]) + 1}")
    assert changed != text
    assert changed not in again


@needs_coq
@pytest.mark.skipif(not REQUIRED, reason="compiling takes minutes: set CORRNOISE_COQ=required")
@pytest.mark.parametrize("file", MADE, ids=lambda file: file.stem)
def test_a_generated_theorem_compiles(file):
    assert axioms_of(file.read_text(encoding="utf-8")) == set(compiled()[file.stem][1].split())
