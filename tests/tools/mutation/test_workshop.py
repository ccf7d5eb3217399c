"""Mutation testing itself: only formulas are changed; noticed mutants are killed, and the rest survives."""

import json
from pathlib import Path

import pytest

from tools.mutation import workshop
from tools.mutation.__main__ import main
from tools.mutation.reach import reaches
from tools.mutation.sources import mutants, mutants_of, sample

MODULE = '''"""A formula, and what states none."""

_FINE = 64


def f(x, order=2):
    if x < 0:
        raise ValueError(f"x must be at least {0}")
    rows = list(range(3))
    return 3 * x + rows[2] * 0.25
'''
TEST = "from theory.demo import f\n\n\ndef test_f():\n    assert f({x}) == {y}\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("theory", "src", "tests/theory"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "theory/demo.py").write_text(MODULE)
    (tmp_path / "src/theory").symlink_to("../theory")
    monkeypatch.setattr(workshop, "ROOT", tmp_path)
    return tmp_path


def write_test(root: Path, x: float, y: float) -> None:
    (root / "tests/theory/test_demo.py").write_text(TEST.format(x=x, y=y))


def test_only_formulas_are_changed(root: Path) -> None:
    changed = [(mutant.before, mutant.after) for mutant in mutants(root)]
    assert {before for before, _ in changed} == {"return 3 * x + rows[2] * 0.25"}
    after = {after for _, after in changed}
    assert "return 3 * x - rows[2] * 0.25" in after
    assert "return (3 / x) + rows[2] * 0.25" in after
    assert "return rows[2] * 0.25" in after  # a term is dropped
    assert not any("rows[3]" in line or "rows[1]" in line for line in after)
    assert len(after) == len(changed) > 10


def test_the_sample_is_seeded(root: Path) -> None:
    found = list(mutants(root))
    assert sample(found, 6, 0) == sample(found[::-1], 6, 0)
    assert sample(found, 6, 0) != sample(found, 6, 1)
    assert len(set(sample(found, 6, 0))) == 6


@pytest.mark.slow
def test_what_is_noticed_is_killed_and_kept(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_test(root, 2.0, 6.5)
    assert main(["tests", "--all", "--jobs", "1"]) == 0
    count = len(list(mutants(root)))
    assert f"killed {count} of {count} mutants (100.0%)" in capsys.readouterr().out
    records = [json.loads(line) for line in (root / ".mutation/results.jsonl").read_text().splitlines()]
    assert [record["survived"] for record in records] == [False] * count
    assert main(["tests", "--all", "--jobs", "1"]) == 0
    assert f"{count} mutants, {count} of them tested before" in capsys.readouterr().out
    assert (root / "theory/demo.py").read_text() == MODULE


@pytest.mark.slow
def test_what_is_not_noticed_survives_and_needs_a_reason(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_test(root, 0.0, 0.5)
    assert main(["tests", "--all", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "SURVIVED theory/demo.py:10  return 2 * x + rows[2] * 0.25" in shown
    assert "NO REASON IS KNOWN" in shown
    survivors = [mutant for mutant in mutants(root) if f"+ {mutant.after}\n" in shown]
    for equivalent, required, status in ((False, 0.1, 0), (False, 0.99, 1), (True, 0.99, 0)):
        reason = workshop.Reason("x is 0", equivalent)
        reasons = {mutant.key: reason for mutant in survivors}
        monkeypatch.setattr(workshop, "reasons", lambda reasons=reasons: reasons)
        monkeypatch.setattr(workshop, "REQUIRED", required)
        assert main(["tests", "--all", "--jobs", "1"]) == status
        assert ("equivalent: x is 0" in capsys.readouterr().out) is equivalent


@pytest.mark.slow
def test_tests_that_fail_by_themselves_are_refused(root: Path) -> None:
    write_test(root, 2.0, 7.0)
    with pytest.raises(RuntimeError, match="the tests fail without any mutant"):
        main(["tests", "--all", "--jobs", "1"])
    assert (root / ".mutation/results.jsonl").read_text() == ""


def test_only_tests_that_reach_the_module_are_run(root: Path) -> None:
    for name, text in {
        "theory/one.py": "x = 1",
        "theory/two.py": "from corrnoise.theory import one",
        "theory/three.py": "from corrnoise.theory.two import one",
        "theory/four.py": "import math",
        "tests/helper.py": "from corrnoise.theory.three import one",
        "tests/test_helper.py": "from tests.helper import one\nimport corrnoise.theory.four",
        "tests/test_four.py": "from corrnoise.theory.four import math",
        "tests/test_all.py": "import corrnoise as cn\nimport corrnoise.theory.four",
        "tests/test_computed.py": "from corrnoise.theory.four import math\nimport_module(name)",
        "tests/test_unknown.py": "import theory",
    }.items():
        (root / name).write_text(text)
    found = {path.name for path in root.glob("tests/test_*.py") if reaches(root, path, "theory/one.py")}
    assert found == {"test_helper.py", "test_all.py", "test_computed.py", "test_unknown.py"}
    assert reaches(root, root / "tests/test_four.py", "theory/four.py")


def test_every_reason_of_a_survivor_is_of_a_mutant() -> None:
    modules = {module for module, _, _ in workshop.reasons()}
    found = (mutants_of(module, (workshop.ROOT / module).read_bytes()) for module in modules)
    assert workshop.reasons().keys() <= {mutant.key for same in found for mutant in same}
