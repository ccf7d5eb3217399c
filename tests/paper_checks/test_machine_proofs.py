"""The proofs in ``proofs/`` compile, and rest on no assumption."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROOFS = Path(__file__).parents[2] / "proofs"
THEOREM = re.compile(r"^\s*Theorem (\w+)", re.MULTILINE)

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed: apt-get install coq")


def assumptions(source, folder):
    """What Coq says when it compiles ``source`` and is asked on what each theorem rests."""
    theorems = THEOREM.findall(source)
    assert theorems
    questions = "".join(f"\nPrint Assumptions {name}." for name in theorems)
    (folder / "Asked.v").write_text(source + questions, encoding="utf-8")
    said = subprocess.run(["coqc", "Asked.v"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout.split("\n")[:-1], len(theorems)


@needs_coq
@pytest.mark.parametrize("file", sorted(PROOFS.glob("*.v")), ids=lambda file: file.name)
def test_every_theorem_is_proved_without_assumptions(file, tmp_path):
    said, theorems = assumptions(file.read_text(encoding="utf-8"), tmp_path)
    assert said == ["Closed under the global context"] * theorems


@needs_coq
@pytest.mark.parametrize(
    "wrong",
    ["Theorem one : 1 = 2. Proof. Admitted.", "Axiom no : False.\nTheorem one : 1 = 2. Proof. destruct no. Qed."],
)
def test_a_gap_is_noticed(wrong, tmp_path):
    said, theorems = assumptions(wrong, tmp_path)
    assert said != ["Closed under the global context"] * theorems


@needs_coq
def test_a_false_statement_does_not_compile(tmp_path):
    source = (PROOFS / "Momentum.v").read_text(encoding="utf-8")
    changed = source.replace("momentum half orders 4 == 3 # 4", "momentum half orders 4 == 5 # 8")
    assert changed != source
    with pytest.raises(AssertionError):
        assumptions(changed, tmp_path)
