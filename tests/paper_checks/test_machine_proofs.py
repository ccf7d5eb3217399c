"""The proofs in ``proofs/`` compile, prove the statements next to them, and rest on no other axioms."""

import shutil

import pytest

import corrnoise as cn
from tools.proofs import AXIOMS, PROOFS, axioms, said, theorems

FILES = sorted(PROOFS.glob("*.v"))
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

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed: apt-get install coq")


@needs_coq
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_proofs_prove_what_is_written_down(file):
    """Line breaks may differ from one version of Coq to another."""
    written = file.with_suffix(".txt").read_text(encoding="utf-8")
    assert said(file.read_text(encoding="utf-8")).split() == written.split()


def test_the_theorems_rest_on_the_axioms_of_the_real_numbers_alone():
    assert axioms(SAID) <= AXIOMS


def test_claims_name_theorems_that_are_written_down():
    named = [one.claim.theorem for one in cn.claims() if one.evidence == "machine-checked"]
    assert named
    assert set(named) <= set(theorems(SAID))
    assert len(theorems(SAID)) == len(set(theorems(SAID)))


@needs_coq
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Proof. reflexivity. Qed.", "Proof. Admitted."),
        ("Proof. reflexivity. Qed.", "Axiom no : False.\nProof. destruct no. Qed."),
    ],
)
def test_a_gap_is_an_axiom(before, after):
    assert not axioms(said(SMALL))
    assert axioms(said(SMALL.replace(before, after))) - AXIOMS


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
