"""``corrnoise check --mutants``: what it prints, keeps and refuses."""

from pathlib import Path

import pytest

from corrnoise import __main__ as command_line
from corrnoise.paper_checks.machinery import running
from corrnoise.paper_checks.machinery.kills import read

CLAIM = ("correlated-noise", "Property C.7")


def check(*arguments: object) -> int:
    return command_line.main(["check", "--jobs", "1", *map(str, arguments)])


def test_results_are_kept_and_not_computed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mutants.json"
    assert check(*CLAIM, "--mutants", "--record", path) == 0
    printed = capsys.readouterr().out
    head, row = printed.splitlines()[:2]
    assert head.split() == ["paper", "statement", "killed", "survived", "weaker", "equal", "undefined", "of"]
    assert row.startswith("correlated-noise  Property C.7")
    record = read(path.read_text(encoding="utf-8"))
    assert set(record) == {"correlated-noise-property-c.7"}
    assert f" {record['correlated-noise-property-c.7'].killed} killed: the check finds it to be false" in printed
    monkeypatch.setattr(running, "_kills", None)
    assert check(*CLAIM, "--mutants", "--record", path) == 0
    assert capsys.readouterr().out == printed
    assert check(*CLAIM, "--mutants", "--record", path, "--json", "--output", tmp_path / "again.json") == 0
    assert read((tmp_path / "again.json").read_text(encoding="utf-8")) == record


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--record", "x.json"), "--record keeps the fates of mutants and needs --mutants"),
        (("--mutants", "--list"), "--mutants and --list exclude each other"),
        (("--mutants", "Lemma 99"), "there is no paper or claim 'Lemma 99'"),
    ],
)
def test_misuse_is_refused(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(*arguments) == 2
    assert message in capsys.readouterr().err
