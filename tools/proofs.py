"""The theorems of ``proofs/`` as Coq states them, and theorems that are written from claims.

``python -m tools.proofs`` compiles the files that were written by hand.  ``NAME.txt`` next to ``NAME.v`` has the
statement of each theorem after all sections are closed, its axioms, and every definition.  A claim that is
machine-checked names one of these theorems, and the digest of its statement in ``paper_checks/theorems.csv``.  A test
compiles the proofs again and compares, so that no weaker statement and no other definition can replace the text here.

``python -m tools.proofs CLAIM ...`` writes a theorem from the formula of each claim to ``proofs/generated/``, with the
first proof that compiles.  ``CLAIM-refuted`` is the theorem that the printed statement fails at its counterexample.
``compiled.csv`` there has the digest of each file and the axioms of its theorem.
"""

import csv
import hashlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import corrnoise as cn
from corrnoise.paper_checks.machinery.coq import PLANS, theorem, theorem_name
from corrnoise.paper_checks.machinery.theorems import COLUMNS, FILE, digest
from corrnoise.support.files import write_whole

PROOFS = Path(__file__).parents[1] / "proofs"
GENERATED = PROOFS / "generated"
COMPILED = GENERATED / "compiled.csv"
DIGESTS = PROOFS.parent / "paper_checks" / FILE
#: The axioms of Coq's real numbers, which a theorem about them may use, by their full paths.
ALLOWED = {
    "Coq.Logic.Classical_Prop.classic",
    "Coq.Reals.ClassicalDedekindReals.sig_forall_dec",
    "Coq.Reals.ClassicalDedekindReals.sig_not_dec",
    "Coq.Logic.FunctionalExtensionality.functional_extensionality_dep",
}
REFUTED = "_refuted"  #: ends the name of a theorem that a printed statement fails at the recorded counterexample
_COMPILED_COLUMNS = ("theorem", "digest", "axioms")
_TIMEOUT_SECONDS = 600
_NAMED_ITEM = re.compile(r"^\s*(Theorem|Definition|Fixpoint)\s+(\w+)", re.MULTILINE)
_ARGUMENTS_LINES = re.compile(
    r"\nArguments [^\n]*(?:\n  [^\n]*)*\n"
)  #: how Coq displays a function, not its definition


# -- Coq ---------------------------------------------------------------------------------------------------------------


def _coq(folder: str, name: str, source: str) -> str:
    """The output of Coq for a file of a folder; a ``ValueError`` with its message if it fails."""
    Path(folder, f"{name}.v").write_text(source, encoding="utf-8")
    command = ["coqc", "-Q", ".", "", f"{name}.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def said(source: str) -> str:
    """Return what Coq says of the theorems and definitions of a file; a ``ValueError`` with its message if it fails."""
    asked = [
        f"Check @{name}.\nPrint Assumptions {name}." if kind == "Theorem" else f"Print {name}."
        for kind, name in _NAMED_ITEM.findall(source)
    ]
    with tempfile.TemporaryDirectory() as folder:
        return _ARGUMENTS_LINES.sub("", _coq(folder, "Asked", "\n".join([source, *asked, ""])))


@contextmanager
def _compiled(source: str) -> Iterator[Any]:
    """A function that asks about a compiled file, whose items are called ``Asked.NAME``."""
    with tempfile.TemporaryDirectory() as folder:
        _coq(folder, "Asked", source)
        yield lambda questions: _coq(folder, "Questions", "\n".join(["Require Asked.", *questions, ""]))


def axioms_of(source: str) -> set[str]:
    """The full paths of the axioms that the theorems of a file rest on, such as ``Coq.Logic.Classical_Prop.classic``.

    The short name of an axiom may belong to a module of the file itself, which states anything.
    """
    names = [name for kind, name in _NAMED_ITEM.findall(source) if kind == "Theorem"]
    with _compiled(source) as ask:
        short = sorted(axioms(ask([f"Print Assumptions Asked.{name}." for name in names])))
        paths = re.findall(r"^Expands to:\s+Constant\s+(\S+)$", ask([f"About {name}." for name in short]), re.MULTILINE)
    if len(paths) != len(short):
        raise ValueError(f"axioms must be constants, got {', '.join(short)}")
    return set(paths)


def statements(text: str) -> dict[str, str]:
    """The statement of each theorem in the output ``text`` of Coq."""
    return dict(re.findall(r"^(\w+)\n     : (.*?)(?=^Closed under|^Axioms:)", text, re.MULTILINE | re.DOTALL))


def axioms(text: str) -> set[str]:
    """The short names of the axioms of the theorems in the output ``text`` of Coq."""
    found = set()
    for block in text.split("Axioms:\n")[1:]:
        entries = re.match(r"(?:[\w.]+(?: :.*|\n  :.*)(?:\n  .*)*\n)*", block)
        names = re.findall(r"^([\w.]+)(?: :|\n  :)", entries[0] if entries else "", re.MULTILINE)
        if not names:
            raise ValueError(f"axioms must be named, got {block[:80]!r}")
        found |= set(names)
    return found


# -- records -----------------------------------------------------------------------------------------------------------


def table(columns: tuple[str, ...], rows: Mapping[str, tuple[str, ...]]) -> str:
    """Rows by their first cell, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows((name, *cells) for name, cells in rows.items())
    return text.getvalue()


def compiled() -> dict[str, tuple[str, str]]:
    """The digest of each generated file, and the axioms of its theorem with blanks between them."""
    if not COMPILED.is_file():
        return {}
    rows = csv.DictReader(io.StringIO(COMPILED.read_text(encoding="utf-8")))
    return {row["theorem"]: (row["digest"], row["axioms"]) for row in rows}


def file_digest(text: str) -> str:
    """The digest of a generated file."""
    return hashlib.sha256(text.encode()).hexdigest()


def versions(identifier: str) -> list[str]:
    """The files that may hold the theorem of a claim, or with ``-refuted`` its negation, one for each proof plan."""
    name = theorem_name(identifier)
    [claim] = [one.claim for one in cn.claims() if theorem_name(one.identifier) == name.removesuffix(REFUTED)]
    statement = claim.negation() if name.endswith(REFUTED) else claim.statement()
    return list(dict.fromkeys(theorem(statement, name, plan) for plan in PLANS))


def generate(identifier: str) -> str:
    """Write the theorem of a claim with the first proof that compiles, and record its axioms; return its name."""
    name = theorem_name(identifier)
    for text in versions(identifier):
        try:
            found = axioms_of(text)
        except (ValueError, subprocess.TimeoutExpired):
            continue
        write_whole(GENERATED / f"{name}.v", text)
        rows = compiled() | {name: (file_digest(text), " ".join(sorted(found)))}
        write_whole(COMPILED, table(_COMPILED_COLUMNS, dict(sorted(rows.items()))))
        return name
    raise ValueError(f"no proof of {identifier} compiles")


def main(claims: list[str]) -> int:
    """Write theorems from these claims; without any, compile all proofs and write down what they prove."""
    for identifier in claims:
        print(generate(identifier))
    if claims:
        return 0
    rows: dict[str, tuple[str, ...]] = {}
    for path in sorted(PROOFS.glob("*.v")):
        text = said(path.read_text(encoding="utf-8"))
        write_whole(path.with_suffix(".txt"), text)
        rows |= {name: (digest(statement),) for name, statement in statements(text).items()}
        print(path.with_suffix(".txt"))
    write_whole(DIGESTS, table(COLUMNS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
