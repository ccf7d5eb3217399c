"""The report: complete, self-contained, well-formed; in a browser it can be filtered, searched and printed."""

import base64
import dataclasses
import html
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from corrnoise.figures import paper_figure
from corrnoise.figures.publication import csv_text
from corrnoise.paper_checks.machinery.domains import linear
from corrnoise.paper_checks.machinery.papers import Paper
from corrnoise.paper_checks.machinery.report import mathml, report_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "input", "br", "hr", "img", "link", "path", "use", "circle", "rect"}


def small_paper():
    """One claim of each verdict."""
    paper = Paper("small", source="nowhere", title="A <small> paper", authors="Nobody")
    domain = {"x": linear(0, 1)}

    @paper.inequality("Lemma 1", printed=r"$x \le c\,x$", domain=domain, sharp="c", mutants=[{"c": 0.9}])
    def holds(x, c=2.0):
        """A note with ``code`` & a sum $\\sum_k x_k$."""
        return x, float(c) * (x + 1e-9)

    @paper.inequality(
        "Lemma 2",
        printed=r"$x^2 \le x/2$",
        corrected=r"$x^2 \le x$",
        domain=domain,
        as_printed={"factor": 0.5},
        counterexample={"x": 0.8125},
        mutants=[{"factor": 0.9}],
    )
    def corrected(x, factor=1.0):
        """Convexity."""
        return x * x, float(factor) * x

    @paper.inequality("Lemma 3", printed=r"$2 \le x$", domain=domain, counterexample={"x": 1.0}, mutants=[{"two": 3}])
    def false(x, two=2):
        """Not so."""
        return two, x

    @paper.identity(
        "Lemma 4", printed=r"$x = O(x)$", unverifiable="Constants are open; $x = x$ instead.", domain=domain
    )
    def open_constants(x):
        """An identity."""
        return x, x

    assert (holds, corrected, false, open_constants) == tuple(paper.claims)
    return paper


@pytest.fixture(scope="module")
def page():
    paper = small_paper()
    return report_page([claim.check() for claim in paper.claims], [paper], [paper_figure("mean_estimation")])


class Structure(HTMLParser):
    """Tags in order, identifiers and links."""

    def __init__(self, text):
        super().__init__()
        self.open, self.identifiers, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.identifiers += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[key] for key in ("href", "src", "xlink:href") if key in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_well_formed_and_links_lead_somewhere(page):
    structure = Structure(page)
    assert structure.open == []
    assert len(structure.identifiers) == len(set(structure.identifiers))
    for link in structure.links:
        assert link.startswith("data:") or link[1:] in structure.identifiers, link
    for reference in re.findall(r"url\(#([^)]+)\)", page):
        assert reference in structure.identifiers


def test_the_page_needs_no_network(page):
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>|<metadata>.*?</metadata>', "", page, flags=re.DOTALL)
    assert "http:" not in without_names.replace("http-equiv", "")
    assert "https:" not in without_names
    assert "@import" not in page


def test_every_verdict_and_counterexample_is_shown(page):
    assert re.findall(r"data-verdict='([^']+)' data-evidence", page) == [
        "holds",
        "holds-corrected",
        "false",
        "not-checkable",
    ]
    assert "0.66015625" in page  # 0.8125²
    assert "0.40625" in page
    assert "sharp: c = " in page
    assert "A &lt;small&gt; paper" in page
    assert "<code>code</code> &amp; a sum <math" in page


def test_a_figure_that_needs_a_missing_extra_says_so():
    def data():
        raise ImportError("data sets need scikit-learn: pip install 'corrnoise[data]'")

    figure = dataclasses.replace(paper_figure("mean_estimation"), data=data)
    assert "not drawn: data sets need scikit-learn: pip install" in report_page([], [small_paper()], [figure])


def test_the_data_of_figures_can_be_downloaded_whole(page):
    figure = paper_figure("mean_estimation")
    [encoded] = re.findall(r"data:text/csv;base64,([^']+)'", page)
    assert base64.b64decode(encoded).decode() == csv_text(figure, figure.data())


def test_mathematics_is_typeset():
    typeset = mathml(r"as $a \le b$ & c")
    assert re.fullmatch(r"as <math.*<mo>&#x02264;</mo>.*</math> &amp; c", typeset)
    assert mathml("a < b") == "a &lt; b"


def test_a_disagreement_raises_an_alarm():
    paper = Paper("wrong", source="nowhere", title="Wrong", authors="Nobody")

    @paper.inequality("Lemma 1", printed="$1 > 2$", domain={"x": linear(0, 1)}, mutants=[{"two": 3}])
    def wrong(x, two=2):
        """False, and recorded as true."""
        return two, 1 + 0 * x

    page = report_page([wrong.check()], [paper])
    assert "disagrees: the verdict is &#x27;false&#x27;" in page


# -- in a browser ------------------------------------------------------------------------------------------------------

BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")


def chromium(*arguments, page):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", *arguments]
    return subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout


def in_browser(page, tmp_path, script):
    """What ``script`` assigns to ``result``, as the page leaves it."""
    path = tmp_path / "page.html"
    probe = f"<script>let result; {script}; document.title = 'result:' + JSON.stringify(result);</script></body>"
    path.write_text(page.replace("</body>", probe), encoding="utf-8")
    found = re.search(r"<title>result:(.*?)</title>", chromium("--dump-dom", page=path))
    assert found, "a script failed"
    return html.unescape(found[1])


VISIBLE = "[...document.querySelectorAll('article')].filter(a => !a.hidden).map(a => a.dataset.verdict)"


@pytest.mark.browser
@BROWSER
@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("", '["holds","holds-corrected","false","not-checkable"]'),
        ("document.querySelector('[data-value=false]').click()", '["false"]'),
        ("search.value = 'LEMMA 2'; search.dispatchEvent(new Event('input'))", '["holds-corrected"]'),
        (
            "search.value = 'nothing like this'; search.dispatchEvent(new Event('input'));"
            "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))",
            '["holds","holds-corrected","false","not-checkable"]',
        ),
        ("document.querySelector('[data-value=exact]').click()", '["not-checkable"]'),
    ],
)
def test_claims_are_filtered_and_searched(page, tmp_path, action, expected):
    assert in_browser(page, tmp_path, f"{action}; result = {VISIBLE}") == expected


@pytest.mark.browser
@BROWSER
def test_keys_move_between_claims(page, tmp_path):
    key = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'KEY', bubbles: true}))"
    script = "; ".join(key.replace("KEY", k) for k in "jjjk") + "; result = document.activeElement.id"
    assert in_browser(page, tmp_path, script) == '"small-lemma-2"'
    script = key.replace("KEY", "/") + "; result = document.activeElement.id"
    assert in_browser(page, tmp_path, script) == '"search"'


@pytest.mark.browser
@BROWSER
def test_light_and_dark(page, tmp_path):
    ground = "getComputedStyle(document.body).backgroundColor"
    script = f"const before = {ground}; document.getElementById('theme').click(); result = before !== {ground}"
    assert in_browser(page, tmp_path, script) == "true"


@pytest.mark.browser
@BROWSER
def test_mathematics_and_figures_take_space(page, tmp_path):
    script = "result = ['math', 'figure svg'].map(s => document.querySelector(s).getBoundingClientRect().height > 8)"
    assert in_browser(page, tmp_path, script) == "[true,true]"


@pytest.mark.browser
@BROWSER
def test_printing_unfolds_everything(page, tmp_path):
    script = (
        "dispatchEvent(new Event('beforeprint')); "
        "result = [...document.querySelectorAll('details')].every(details => details.open)"
    )
    assert in_browser(page, tmp_path, script) == "true"
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    chromium(f"--print-to-pdf={tmp_path / 'page.pdf'}", page=path)
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
