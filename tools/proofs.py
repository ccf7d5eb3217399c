"""The theorems of ``proofs/`` as Coq states them: ``python -m tools.proofs`` compiles them and writes them down.

``NAME.txt`` next to ``NAME.v`` has the statement of each theorem after all sections are closed, its axioms, and every
definition.  A claim that is machine-checked names one of these theorems.  A test compiles the proofs
again and compares, so that no weaker statement and no other definition can replace the text here.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from corrnoise.support.files import write_whole

PROOFS = Path(__file__).parents[1] / "proofs"
#: The axioms of Coq's real numbers, which a theorem about them may use.
AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
_NAMED_ITEM = re.compile(r"^\s*(Theorem|Definition|Fixpoint)\s+(\w+)", re.MULTILINE)
_ARGUMENTS_LINES = re.compile(
    r"\nArguments [^\n]*(?:\n  [^\n]*)*\n"
)  #: how Coq displays a function, not its definition


def said(source: str) -> str:
    """Return what Coq says of the theorems and definitions of a file; a ``ValueError`` with its message if it fails."""
    asked = [
        f"Check @{name}.\nPrint Assumptions {name}." if kind == "Theorem" else f"Print {name}."
        for kind, name in _NAMED_ITEM.findall(source)
    ]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Asked.v").write_text("\n".join([source, *asked, ""]), encoding="utf-8")
        done = subprocess.run(["coqc", "Asked.v"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return _ARGUMENTS_LINES.sub("", done.stdout)


def theorems(text: str) -> list[str]:
    """The names of the theorems in the output ``text`` of Coq."""
    return re.findall(r"^(\w+)\n     : ", text, re.MULTILINE)


def axioms(text: str) -> set[str]:
    """The axioms of the theorems in the output ``text`` of Coq."""
    found = set()
    for block in text.split("\nAxioms:\n")[1:]:
        entries = re.match(r"(?:[\w.]+(?: :.*|\n  :.*)(?:\n  .*)*\n)*", block)
        names = re.findall(r"^([\w.]+)(?: :|\n  :)", entries[0] if entries else "", re.MULTILINE)
        if not names:
            raise ValueError(f"axioms must be named, got {block[:80]!r}")
        found |= set(names)
    return found


def main() -> int:
    """Compile all proofs and write down what they prove."""
    for path in sorted(PROOFS.glob("*.v")):
        write_whole(path.with_suffix(".txt"), said(path.read_text(encoding="utf-8")))
        print(path.with_suffix(".txt"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
