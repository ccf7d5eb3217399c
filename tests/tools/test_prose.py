"""The prose of the README, the pages and the sources."""

from pathlib import Path

import pytest

from tools.prose import (
    MAX_PLACES_PER_1000_WORDS,
    MAX_PLACES_PER_1000_WORDS_OF_SOURCES,
    OLD_SENTENCES,
    main,
    number_of_words,
    old_sentences,
    pages,
    places,
    rate,
    sources,
    text_of,
)

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("theory", "solvers", "simulations", "figures", "paper_checks", "tools", "benchmarks"),
    *("src/corrnoise/designs", "src/corrnoise/commands", "src/corrnoise/support"),
)
SOURCES = ("src/corrnoise", "theory", "solvers", "simulations", "figures", "paper_checks", "tools", "docs")


def test_the_pages_read_well(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert printed.splitlines()[-1].endswith("per 1000")


@pytest.mark.parametrize("folder", PACKAGES)
def test_the_docstrings_and_comments_of_a_package_read_well(folder: str) -> None:
    texts = [text_of(file) for file in sources(ROOT / folder)]
    assert sum(map(number_of_words, texts)) > 900
    assert rate(texts) <= MAX_PLACES_PER_1000_WORDS_OF_SOURCES, f"python -m tools.prose {folder}"


def test_the_prose_of_a_file_is_its_docstrings_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '''"""The steps of which we speak.\n\n>>> beside = 1  # what is hidden\n"""\n\n'''
        '''of = "which"  # nobody\n\n\ndef f():\n    """No thereof."""\n    return "of which"  # f\n'''
    )
    assert [(place.line, place.words) for place in sorted(places(text_of(file)))] == [
        (1, "of which"),
        (6, "nobody"),
        (10, "thereof"),
    ]
    assert rate([text_of(file)]) == pytest.approx(3000 / number_of_words(text_of(file)))


def test_old_sentences_do_not_return() -> None:
    files = {
        file for folder in SOURCES for file in (ROOT / folder).rglob("*") if file.suffix in (".md", ".py", ".html")
    }
    files = {file.resolve() for file in files} | {*pages()}
    assert len(files) > 400
    found = {str(file.relative_to(ROOT)): old_sentences(file.read_text(encoding="utf-8")) for file in files}
    assert {name: old for name, old in found.items() if old and name != "tools/prose.py"} == {}
    assert len(found["tools/prose.py"]) == len(OLD_SENTENCES)


def test_every_rule_finds_its_places() -> None:
    page = (
        "# What is ignored\n\n```text\nof which\n```\n\nA page `of which` $that\nof$ [readers](those-that.md) stop.\n"
        "The noise of\nwhich we know that of the sum. What is left is no noise, nobody takes part beside it, and none"
        " of\nthese. Of the runs, one has begun. It is no longer so; some of these runs end, in that of course.\n"
        "The batch is cut It has a limit\n\nThe next paragraph.\n"
    )
    assert [(place.line, place.words) for place in sorted(places(page))] == [
        (9, "of which"),
        (10, "What is"),
        (10, "beside"),
        (10, "is no noise"),
        (10, "nobody"),
        (10, "none of these"),
        (10, "takes part"),
        (10, "that of"),
        (11, "Of the"),
        (11, "begun"),
        (12, "cut It"),
    ]
    assert number_of_words(page) == 58


def test_a_page_above_the_limit_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("The steps of which we speak. " + "More words. " * 400)
    assert main([str(page)]) == 0
    page.write_text("The steps of which we speak. " + "More words. " * 200)
    assert main([str(page)]) == 1
    assert f"{page}:1: 'of which'" in capsys.readouterr().out
    assert MAX_PLACES_PER_1000_WORDS == 1.5


def test_an_old_sentence_is_noticed_across_lines() -> None:
    assert old_sentences("# It is a row of\n# every design.") == ["It is a row of every design"]
    assert not old_sentences("It is a row of every table.")
