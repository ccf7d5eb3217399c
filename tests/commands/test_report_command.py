"""``corrnoise report``: the page holds the selection, is whole or not there, and disagreement has its status."""

import re
from pathlib import Path

import pytest

from corrnoise import __main__ as command_line
from corrnoise.figures.publication import PaperFigure
from corrnoise.paper_checks.machinery import report, running
from corrnoise.paper_checks.machinery.ledger import Claim, Outcome


def run(*arguments: object) -> int:
    return command_line.main(["report", "--jobs", "1", *map(str, arguments)])


def test_the_page_holds_the_claims_that_were_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.html"
    assert run("Property C.7", "correlated-noise Lemma F.12", "--no-figures", "--output", path) == 0
    page = path.read_text(encoding="utf-8")
    found = re.findall(r"<article id=([^ ]+) data-verdict=([^ ]+) ", page)
    assert found == [("correlated-noise-property-c.7", "holds"), ("correlated-noise-lemma-f.12", "holds")]
    assert "<figure" not in page
    assert "arXiv 2310.06771" in page
    assert "arXiv 2502.03652" not in page
    assert capsys.readouterr().out == f"{path}\n"


def test_figures_without_companions_are_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def figure(entry: PaperFigure, _: object) -> dict[str, str]:
        drawn.append(entry.name)
        return {"name": entry.name, "source": "", "title": "", "missing": "not now"}

    monkeypatch.setattr(report, "_figure", figure)
    assert run("Property C.7", "--output", tmp_path / "page.html") == 0
    assert {"mean_estimation", "linear_regression", "strongly_convex", "learning_curves"} <= set(drawn)
    assert "strongly_convex_convergence" not in drawn
    assert (tmp_path / "page.html").read_text().count("<figure ") == len(drawn)


@pytest.mark.slow
def test_the_whole_page_with_all_figures_takes_less_than_two_and_a_half_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With outcomes that say as much as those of a check; the claims are checked in ``test_claims``."""
    monkeypatch.setattr(
        Claim, "check", lambda claim, _: Outcome(claim=claim, verdict=claim.recorded, agrees=True, reason="x" * 200)
    )
    path = tmp_path / "page.html"
    assert run("--output", path) == 0
    assert path.read_text(encoding="utf-8").count("<figure") > 10
    assert path.stat().st_size < 2_500_000


def test_disagreement_is_on_the_page_and_in_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        Claim, "check", lambda claim, _: Outcome(claim=claim, verdict="false", agrees=False, reason="because")
    )
    path = tmp_path / "page.html"
    assert run("Property C.7", "--no-figures", "--output", path) == 1
    assert "DISAGREES: because" in path.read_text()
    assert "corrnoise: disagrees: correlated-noise, Property C.7: because\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("Lemma 99",), 2, "corrnoise: error: there is no paper or claim 'Lemma 99'"),
        (("--verdict", "false", "Property C.7"), 2, "no claim has the requested verdict and evidence"),
        (("--output", "missing/page.html"), 1, "--output must be a file in an existing folder, got missing/page.html"),
        (("--jobs", "0"), 2, "'0' must be a number of processes"),
    ],
)
def test_misuse_is_refused_before_the_work(
    arguments: tuple[str, ...],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "outcomes", None)
    assert run(*arguments) == status
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_interrupt_leaves_the_page_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Outcome:
        raise KeyboardInterrupt

    path = tmp_path / "page.html"
    path.write_text("before")
    monkeypatch.setattr(Claim, "check", interrupted)
    assert run("Property C.7", "--output", path) == 130
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"page.html": "before"}
