"""Papers from files and from installed packages; versions and citations of their claims."""

from importlib.metadata import EntryPoint

import pytest

from corrnoise import ledger
from corrnoise.paper_checks import loading

FILE = """
from corrnoise.ledger import Paper, linear
PAPER = Paper("{name}", source="draft", title="A lemma", authors="Nobody")
@PAPER.inequality("Lemma 1", printed="$x \\\\le {bound}$", domain={{"x": linear(0, 1)}}, mutants=[{{"c": 0.5}}])
def lemma(x, c={bound}):
    "A note."
    return x, c + 0 * x
"""


def written(folder, name="my-paper", bound="2", file="lemmas.py"):
    path = folder / file
    path.write_text(FILE.format(name=name, bound=bound))
    return path


def test_a_file_of_claims_is_loaded(tmp_path):
    [paper] = ledger.load(written(tmp_path))
    [listed] = paper.listed
    assert (paper.name, listed.identifier) == ("my-paper", "my-paper-lemma-1")
    outcome = listed.check()
    assert (outcome.agrees, outcome.certificate.answer, outcome.claim.evidence) == (True, "proved", "certified")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module_at_all", "fails: ModuleNotFoundError"),
        ("1 / 0", "fails: ZeroDivisionError"),
        ("x = 1", "registers no claim"),
        (FILE.format(name="corrnoise", bound="2"), "another paper of the ledger is called 'corrnoise'"),
    ],
)
def test_what_is_no_file_of_claims_is_refused(tmp_path, text, message):
    path = tmp_path / "lemmas.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        ledger.load(path)


def test_only_python_files_are_loaded(tmp_path):
    for path in (tmp_path, tmp_path / "missing.py", tmp_path / "lemmas.txt"):
        with pytest.raises(OSError, match="path must be a Python file"):
            ledger.load(path)


def installed(monkeypatch, *entries):
    monkeypatch.setattr(loading, "entry_points", lambda group: [EntryPoint(n, v, group) for n, v in entries])


def test_installed_papers_follow_those_of_the_ledger(tmp_path, monkeypatch):
    written(tmp_path, file="lemmas_for_a_test.py")
    monkeypatch.syspath_prepend(tmp_path)
    built_in = loading.papers()
    installed(monkeypatch, ("mine", "lemmas_for_a_test:PAPER"))
    assert [paper.name for paper in loading.papers()] == [*(paper.name for paper in built_in), "my-paper"]
    installed(monkeypatch, ("mine", "lemmas_for_a_test:PAPER"), ("again", "lemmas_for_a_test:PAPER"))
    with pytest.raises(ValueError, match="the entry point again: another paper of the ledger is called 'my-paper'"):
        loading.papers()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("no_such_module_at_all:PAPER", "entry point broken are left out: ModuleNotFoundError"),
        ("math:pi", "must be a Paper, got float"),
    ],
)
def test_a_broken_package_is_one_warning(monkeypatch, entry, message):
    built_in = loading.papers()
    installed(monkeypatch, ("broken", entry))
    with pytest.warns(UserWarning, match=message):
        assert loading.papers() == built_in


def test_versions_change_with_the_statement(tmp_path):
    def claim(**fields):
        return ledger.load(written(tmp_path, **fields))[0].claims[0]

    first, again, other = claim(), claim(), claim(bound="3")
    assert first.version == again.version != other.version
    assert first.identifier == other.identifier
    entry = first.citation()
    assert entry.startswith("@misc{my-paper-lemma-1,\n  title = {{Lemma 1 of draft}},")
    assert first.version in entry
    assert first.statement().digest in entry
