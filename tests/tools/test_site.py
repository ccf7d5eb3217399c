"""The site: its sections, its formulas, its links, and the build itself with warnings as errors."""

import csv
import importlib.util
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import corrnoise as cn
from corrnoise.paper_checks import papers
from tests.paper_checks.machinery.test_report import small_paper
from tools.site import claims, reference
from tools.site.links import faults
from tools.site.notebooks import TUTORIALS, notebook, write_notebooks
from tools.site.sections import sections, with_navigation

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PICTURE = DOCS / "pictures/accuracy.svg"
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))


def test_every_page_is_in_one_section() -> None:
    found = sections((DOCS / "index.md").read_text(encoding="utf-8"))
    assert list(found) == ["Tutorials", "How-to guides", "Explanation", "Proofs", "Reference"]
    assert all("proofs" in page for page in found["Proofs"])
    assert len(set(found["Proofs"].values())) == len(found["Proofs"])
    listed = [page for pages in found.values() for page in pages]
    assert sections("## One\n[A](a.md), [b](b.md#c), [again](a.md)\n## Two\n") == {"One": {"a": "A", "b": "b"}}
    assert sorted([*listed, "index"]) == sorted(path.stem for path in DOCS.glob("*.md"))


def test_every_public_name_is_in_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reference.ungrouped() == set()
    monkeypatch.setitem(reference.OWN, "Papers", ("claim",))
    assert reference.ungrouped() == {"claim", "claims"}


def test_the_table_of_families_lists_the_registry() -> None:
    rows = [line.split(" | ") for line in reference._families().splitlines() if line.startswith("| ")][1:]
    assert [row[0].removeprefix("| ") for row in rows] == list(cn.families.names())
    assert all(row[1].endswith((".", "buffers.", "steps.")) and "\n" not in row[1] for row in rows)


def test_the_navigation_follows_the_page() -> None:
    text = with_navigation("# All\n\n## Explanation\n\n[One](one.md)\n")
    assert "```{toctree}\n:hidden:\n:caption: Explanation\n\nOne <one>\nClaims of the papers <claims>\n```" in text
    assert text.startswith("# All\n\n```{index} ! install, ")  # what a search for the word finds first


def test_every_claim_is_in_the_table_and_leads_to_its_page() -> None:
    rows = re.findall(r"^\| \[.+\]\(claims/(.+)\.md\) \| ([\w ]+) \| [^|]+ \|$", claims.table(papers()), re.MULTILINE)
    assert rows == [(claim.identifier, claim.recorded) for claim in cn.claims()]


def test_the_pages_of_claims_lead_to_each_other() -> None:
    paper = small_paper()
    pages = {claim.number: text for claim, text in claims.pages([paper])}
    names = [claim.identifier for claim in paper.claims]
    assert [f"{names[0]}.md" in text for text in pages.values()] == [False, True, False, False]
    assert f"[Before: Lemma 1]({names[0]}.md) · [Next: Lemma 3 (γ)]({names[2]}.md)\n" in pages["Lemma 2"]
    assert all(text.startswith("---\norphan: true\n---\n\n# Lemma ") for text in pages.values())
    assert claims._escaped("I(a_1, [b*])") == r"I(a\_1, \[b\*\])"


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_has_the_code_of_its_page(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```py(?:thon)?\n(.*?)\n```", page, re.DOTALL)
    assert blocks
    cells = notebook(page, execute=False)["cells"]
    assert [cell["source"] for cell in cells if cell["cell_type"] == "code"] == blocks
    assert cells[0]["source"].startswith(page.splitlines()[0])
    assert all("```py" not in cell["source"] for cell in cells)
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert not re.search(r"\]\([\w-]+\.md", "".join(cell["source"] for cell in cells))


def test_an_executed_notebook_holds_what_its_code_prints() -> None:
    page = "# One\n\n```python\nx = 2\nprint(x)\n```\n\nText\n\n```py\nimport nothing_of_that_name\n```\n"
    page += "\n```py\nprint(x * 3)\n```\n"
    code = [cell for cell in notebook(page, execute=True)["cells"] if cell["cell_type"] == "code"]
    assert [[one["text"] for one in cell["outputs"]] for cell in code] == [["2\n"], [], ["6\n"]]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        notebook("```python\n1 / 0\n```\n", execute=True)


def test_tutorials_link_their_notebooks(tmp_path: Path) -> None:
    for name in TUTORIALS:
        shutil.copy(DOCS / f"{name}.md", tmp_path)
    write_notebooks(tmp_path, execute=False)
    for name in TUTORIALS:
        text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        [target] = re.findall(r"\{download\}`\S+ <(.+)>`", text)
        assert json.loads((tmp_path / target).read_text(encoding="utf-8"))["nbformat"] == 4
        assert text.replace(text.split("\n\n")[2] + "\n\n", "") == (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_links_that_lead_nowhere_and_pages_that_load_from_elsewhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text("<p id='here'><script src='https://example.org/x.js'></script>")
    (tmp_path / "a.html").write_text("<a href='b.html#here'></a><a href='b.html#there'></a><a href='c.html'></a>")
    assert [fault.partition(",")[0] for fault in faults(tmp_path)] == [
        "a.html links to b.html#there",
        "a.html links to c.html",
        "b.html loads https://example.org/x.js",
    ]


def test_the_picture_of_the_readme_is_small_and_names_its_curves() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text) < 60_000
    with PICTURE.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        methods = {row["method"] for row in csv.DictReader(file)}
    assert all(f">{method}<" in text for method in methods if "Opacus" not in method)
    assert f"({PICTURE.relative_to(ROOT).as_posix()})" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_draw(path: Path) -> None:
    try:
        runpy.run_path(str(path))
        assert plt.get_fignums()
    finally:
        plt.close("all")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sphinx_gallery") is None, reason="needs the extra docs")
def test_the_site_is_built_without_warnings_and_fits_on_a_phone(tmp_path: Path) -> None:
    """The examples, which take longest, have a test of their own."""
    command = [sys.executable, "-m", "tools.site", "--no-examples", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "exact-errors.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert not re.search(r"\$[^$<]+\$", re.sub(r"<(pre|code)\b.*?</\1>", "", page, flags=re.DOTALL))
    assert len(list((tmp_path / "claims").glob("*.html"))) == len(cn.claims())
    if CHROMIUM is not None:
        assert wider_than(390, tmp_path) == []


def wider_than(width: int, site: Path) -> list[str]:
    """The pages of the site that are wider than a frame of ``width`` pixels."""
    pages = [str(path.relative_to(site)) for path in sorted(site.rglob("*.html"))]
    (site / "frame.html").write_text(
        f"<title>none</title><iframe id=frame width={width} height=700></iframe><script>"
        f"const pages = {json.dumps(pages)}, wide = []; let k = 0; frame.onload = () => setTimeout(() => {{"
        f"if (frame.contentDocument.documentElement.scrollWidth > {width}) wide.push(pages[k]);"
        "if (++k < pages.length) frame.src = pages[k]; else document.title = 'result:' + JSON.stringify(wide); }, 20);"
        "frame.src = pages[0];</script>",
        encoding="utf-8",
    )
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--allow-file-access-from-files", "--virtual-time-budget=180000", f"--user-data-dir={site / 'profile'}"]
    command += ["--dump-dom", (site / "frame.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    [found] = re.findall(r"<title>result:(.*?)</title>", shown)
    return list(json.loads(found))


def test_docstrings_become_what_numpydoc_reads() -> None:
    pytest.importorskip("docutils")
    from tools.site.rendering import _described, _marked

    text = "The size |x| of ``|y|`` is $\\sqrt{|x|\n+ 1}$.\n\n>>> a | b\n"
    assert _marked(text) == "The size \\|x\\| of ``|y|`` is :math:`\\sqrt{|x| + 1}`.\n\n>>> a | b\n"
    text = "One.\n\nParameters\n----------\nx, y : numbers: two\n    more\n\nReturns\n-------\na : b\n"
    assert _described(text) == text.replace("x, y : numbers", "x, y\n    numbers")
