"""The commands of docs/own-lemmas.md, on its file: a theorist with two lemmas."""

import json
import re
from pathlib import Path

import pytest

from corrnoise.__main__ import main

PAGE = (Path(__file__).parents[2] / "docs/own-lemmas.md").read_text(encoding="utf-8")
INEQUALITY = ("--inequality", "x*log(4/x) <= log(2-x)", "--for", "0 < x <= 0.19")


@pytest.fixture
def lemmas(tmp_path):
    """The file of the page, without its prints."""
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    path = tmp_path / "lemmas.py"
    path.write_text(re.sub(r"^print.*\n", "", code, flags=re.MULTILINE))
    return path


def test_a_file_of_lemmas_is_checked(lemmas, capsys):
    assert main(["check", str(lemmas)]) == 1
    output = capsys.readouterr()
    assert "certificate       proved, 139 boxes" in output.out
    assert "certificate refutes it at x = " in output.err
    assert main(["check", str(lemmas), "Lemma", "1", "--json"]) == 0
    [outcome] = json.loads(capsys.readouterr().out)["outcomes"]
    assert (outcome["claim"]["identifier"], outcome["claim"]["evidence"]) == ("my-draft-lemma-1", "certified")
    assert outcome["certificate"]["answer"] == "proved"
    assert main(["check", str(lemmas), "Lemma 3"]) == 2


def test_a_page_and_a_badge_are_written(lemmas, tmp_path):
    page, badge = tmp_path / "page.html", tmp_path / "badge.svg"
    assert main(["report", str(lemmas), "--output", str(page), "--badge", str(badge)]) == 1
    assert "Lemma 1" in page.read_text(encoding="utf-8")
    assert "<title>2 true · 1 not as recorded</title>" in badge.read_text(encoding="utf-8")
    assert main(["report", str(lemmas), "Lemma 1", "--output", str(page), "--badge", str(badge)]) == 0
    assert "<title>1 true</title>" in badge.read_text(encoding="utf-8")


def test_a_certificate_travels(tmp_path, capsys):
    proof, theorem = tmp_path / "proof.json", tmp_path / "lemma.v"
    assert main(["check", *INEQUALITY, "--certificate", str(proof), "--coq", str(theorem)]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["proved on 139 boxes", "left out: 0 < x < 1e-300"]
    assert "forall x : R,\n  (1 / 10 ^ 300) <= x <= (19 / 100) ->" in theorem.read_text()
    assert main(["verify", str(proof)]) == 0
    assert "valid: x*log(4/x) <= log(2-x) for 0 < x <= 0.19 (70 boxes" in capsys.readouterr().out
    record = json.loads(proof.read_text())
    proof.write_text(json.dumps(record | {"tree": [-1]}))
    assert main(["verify", str(proof)]) == 1
    assert capsys.readouterr().out.startswith("not valid: ")
    proof.write_text("{")
    assert main(["verify", str(proof)]) == 2
    assert main(["verify", str(tmp_path / "missing.json")]) == 2


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--inequality", "x <= 1", "--for", "0 <= x <= 2"), 1),
        (("--inequality", "2*x <= 1 + x^2", "--for", "0 <= x <= 2"), 4),
        (("--inequality", "x <= (", "--for", "0 <= x <= 2"), 2),
        (("--inequality", "x <= 1"), 2),
        (("--for", "0 <= x <= 2"), 2),
        (("Lemma", *INEQUALITY), 2),
        (("--certificate", "proof.json"), 2),
        (("--coq", "lemma.v"), 2),
    ],
)
def test_the_exit_status_says_what_was_found(words, status, capsys):
    assert main(["check", *words]) == status
    answer = capsys.readouterr()
    assert (answer.out == "") == (status == 2)


def test_an_answer_is_json_on_request(capsys):
    assert main(["check", "--inequality", "x <= 1", "--for", "0 <= x <= 2", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["answer"], answer["certificate"]) == ("refuted", None)
    assert answer["place"]["x"] > 1
