"""The extraction of an inventory from the text of a paper."""

import pytest

from corrnoise.paper_checks.machinery.inventory import Entry, read
from tools import inventory
from tools.inventory import extracted, written

TEXT = """Contents
1\tIntroduction\t1
1.1\tSetup\t2
2\tResults\t3
1 Introduction
Text with a model x = y (1)
and a reference to (4), to Theorem 1.1, and to 2023.
Theorem 1.1 (Somebody, 2020). It holds: x < y (2) is true.
Theorem 1.1, as we saw, holds.
1.1Setup
Definition 1.2. Let x be y. $$x \\tag{3}$$
**Lemma 1.3.** A statement. As shown (proof in Appendix A): Property 1.4 ((X)). More.
2 Results
By (2), in (2) and by (3) we get x = z (5)
Table 1: A caption
Algorithm 1 An algorithm
Appendix A Proofs
Corollary A.1.
Lemma A.1.2 we use.
A.1 More
Remark A.2 (A name).
"""


def test_entries_with_their_places():
    assert extracted(TEXT) == [
        Entry("Equation (1)", "1"),
        Entry("Theorem 1.1", "1"),
        Entry("Equation (2)", "1", "Theorem 1.1"),
        Entry("Definition 1.2", "1.1"),
        Entry("Equation (3)", "1.1", "Definition 1.2"),
        Entry("Equation (4)", "1.1", "Definition 1.2"),  # not found: listed with its predecessor
        Entry("Lemma 1.3", "1.1", "Definition 1.2"),
        Entry("Property 1.4", "1.1", "Lemma 1.3"),
        Entry("Equation (5)", "2"),
        Entry("Table 1", "2"),
        Entry("Algorithm 1", "2"),
        Entry("Corollary A.1", "A"),
        Entry("Remark A.2", "A.1"),
    ]


@pytest.mark.parametrize("line", ["Theorem 7, as we saw,", "Lemma 7.", "see Lemma 8. It", "Lemma 8.1.2x", "(200)"])
def test_what_is_no_entry(line):
    found = {entry.label for entry in extracted(f"1 Introduction\nAn equation: x = y (1)\n{line}\n")}
    assert found == {"Equation (1)"} | ({"Lemma 7"} if line == "Lemma 7." else set())


def test_several_texts_of_one_paper_are_merged():
    first, second = "1 Introduction\nLemma 1.\n", "A Proofs\nLemma 1.\nLemma 2.\n"
    assert extracted(first, second) == [Entry("Lemma 1", "1"), Entry("Lemma 2", "A", "Lemma 1")]


def test_the_file_is_read_as_it_is_written_and_words_are_kept(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "small_paper"
    folder.mkdir()
    (tmp_path / "text.txt").write_text(TEXT)
    monkeypatch.setattr(inventory, "PAPERS", tmp_path)
    assert inventory.main(["small-paper", str(tmp_path / "text.txt")]) == 0
    entries = read((folder / "inventory.csv").read_text())
    assert entries == extracted(TEXT)
    (folder / "inventory.csv").write_text(written([Entry("Table 1", "2", word="it shows data")]))
    assert inventory.main(["small-paper", str(tmp_path / "text.txt")]) == 0
    assert {e.label: e.word for e in read((folder / "inventory.csv").read_text())}["Table 1"] == "it shows data"
    capsys.readouterr()
    assert inventory.main(["no-paper", "text.txt"]) == 2
    assert "the short name of a paper" in capsys.readouterr().err
