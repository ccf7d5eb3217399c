"""The report: complete, self-contained, well-formed; in a browser it can be filtered, searched and linked."""

import base64
import gzip
import html
import json
import re
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

from corrnoise.figures import paper_figure
from corrnoise.figures.publication import csv_text
from corrnoise.paper_checks import claims, papers
from corrnoise.paper_checks.machinery.ledger import Counterexample, Outcome
from corrnoise.paper_checks.machinery.names import begins, called, words
from corrnoise.paper_checks.machinery.quantifiers import choices
from corrnoise.paper_checks.machinery.report import claim_pages, report_page
from tests.small_claims import UNIT, small
from tests.small_claims import claim as small_claim

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
UNCLOSED = {"dt", "dd"}  # HTML closes them by itself
VOID = UNCLOSED | {"meta", "input", "br", "hr", "img", "link", "wbr", "path", "use", "circle", "rect"}


def small_paper():
    """One claim of each verdict."""
    paper = small(title="A <small> paper", no_claims={"Assumption 5": "it states a hypothesis: $x < 1$"})

    @paper.inequality("Lemma 1", printed=r"$x \le c\,x$", domain=UNIT, sharp="c", mutants=[{"c": 0.9}])
    def holds(x, c=2.0):
        """A note with ``code`` & a sum $\\sum_k x_k$; also σ_sgd."""
        return x, float(c) * (x + 1e-9)

    @paper.inequality(
        "Lemma 2",
        printed=r"$x^2 \le x/2$",
        repair=r"$x^2 \le x$",
        domain=UNIT,
        as_printed={"factor": 0.5},
        counterexample={"x": 0.8125},
        mutants=[{"factor": 0.9}],
    )
    def corrected(x, factor=1.0):
        """Convexity."""
        return x * x, float(factor) * x

    @paper.inequality(
        "Lemma 3 (γ)",
        printed=r"$2 \le x$",
        domain=UNIT,
        counterexample={"x": 1.0},
        mutants=[{"two": 3}],
        proof="docs/exact-errors.md#n3-sharpened",
    )
    def false(x, two=2):
        """Not so."""
        return two, x

    @paper.identity(
        "Lemma 4",
        printed=r"$x = O(x)$",
        undecided=("open", "Constants are open; $x = x$ instead."),
        domain=UNIT,
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
    """Tags in order, identifiers, headings and links."""

    def __init__(self, text):
        super().__init__()
        self.open, self.identifiers, self.links, self.headings = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.identifiers += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[key] for key in ("href", "src", "xlink:href") if key in attributes]
        if re.fullmatch("h[1-3]", tag):
            self.headings.append((tag, attributes.get("id")))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def assert_links_lead_somewhere(page):
    structure = Structure(page)
    assert structure.open == []
    assert len(structure.identifiers) == len(set(structure.identifiers))
    for link in structure.links:
        assert link.startswith("data:") or link[1:] in structure.identifiers, link
    for reference in re.findall(r"url\(#([^)]+)\)", page):
        assert reference in structure.identifiers
    return structure


def test_the_page_is_well_formed_and_links_lead_somewhere(page):
    structure = assert_links_lead_somewhere(page)
    inside_documents = page.count("<summary><h3>")  # whose details have the identifier
    assert sum(identifier is None for _, identifier in structure.headings) == inside_documents == 1


def test_there_is_a_contents_list_of_everything(page):
    contents = page[page.index("<details id=contents>") : page.index("</details>", page.index("<details id=contents>"))]
    linked = set(re.findall(r'href="#([^"]+)"', contents))
    assert {"small", "small-no-claims", "figures", "documents"} <= linked
    assert set(re.findall(r'<article id="([^"]+)"', page)) <= linked


def test_the_page_needs_no_network(page):
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>', "", page, flags=re.DOTALL)
    assert "http:" not in without_names.replace("http-equiv", "")
    assert "https:" not in without_names
    assert "@import" not in page


def test_every_verdict_and_counterexample_is_shown(page):
    assert re.findall(r"data-verdict=([^ ]+) data-evidence", page) == [
        "holds",
        "holds-corrected",
        "false",
        "open",
    ]
    assert "as printed it says 0.660156 ≤ 0.40625 at <code>x = 0.8125</code>, <code>factor = 0.5</code>" in page
    assert "<code>0.66015625</code>" in page  # 0.8125², in full
    assert "sharp: <code>c</code> at least " in page
    assert "A &lt;small&gt; paper" in page
    assert "<code>code</code> &amp; a sum <math" in page
    assert "also σ<sub>sgd</sub>." in page


def test_statements_without_a_claim_say_why(page):
    assert "<dt>Assumption 5</dt><dd>it states a hypothesis: <math>" in page


def test_the_document_with_a_proof_is_on_the_page(page):
    assert "Proof: <a href='#document-exact-errors-n3-sharpened'>" in page
    assert "<h4 id='document-exact-errors-n3-sharpened'>" in page
    assert '<details class=document id="document-exact-errors">' in page
    assert "document-shuffled-gradients" not in page


def test_the_data_of_figures_can_be_downloaded_with_five_digits(page):
    figure = paper_figure("mean_estimation")
    [encoded] = re.findall(r'data:application/gzip;base64,([^"]+)"', page)
    shown = [line.split(",") for line in gzip.decompress(base64.b64decode(encoded)).decode().splitlines()]
    exact = [line.split(",") for line in csv_text(figure, figure.data()).splitlines()]
    assert [row[:3] for row in shown] == [row[:3] for row in exact]
    rows = [pair for pair in zip(shown, exact, strict=True) if len(pair[1]) == 5 and pair[1][0] in figure.panels]
    assert len(rows) > 100
    for short, full in rows:
        assert [float(value) for value in short[3:]] == pytest.approx([float(value) for value in full[3:]], rel=6e-5)


def test_a_disagreement_raises_an_alarm():
    paper = small()
    wrong = small_claim(lambda x, two=2: (two, 1 + 0 * x), paper=paper, mutants=[{"two": 3}])
    page = report_page([wrong.check()], [paper])
    assert '<p class="found alarm">DISAGREES: the verdict is &#39;false&#39;' in page


# -- the ledger as a whole ---------------------------------------------------------------------------------------------


@cache
def whole_page():
    """The page of all claims, with outcomes that cost no time: each as recorded, its worst case amid the domain."""
    outcomes = []
    for claim in (listed.claim for listed in claims()):
        false = claim.counterexample
        if callable(false):
            false = false(**next(choices(claim.constants, claim.meanings)))
        outcomes.append(
            Outcome(
                claim=claim,
                verdict=claim.recorded,
                agrees=True,
                reason="",
                worst=claim.domain.arguments([0.37] * claim.domain.size),
                counterexample=None
                if false is None
                else Counterexample(false, (np.full(9, 1 / 3), np.float64(0.1)), -1),
                mutants=tuple((", ".join(f"{k} = {v}" for k, v in mutant.items()), True) for mutant in claim.mutants),
            )
        )
    return report_page(outcomes, papers())


def test_the_page_of_the_ledger_is_well_formed_and_has_no_loose_ends():
    page = whole_page()
    assert_links_lead_somewhere(page)
    assert page.count("<article ") == len(claims())
    shown = html.unescape(re.sub(r"<(style|script)[^>]*>.*?</\1>|<math>.*?</math>", "", page, flags=re.DOTALL))
    for forbidden in ("np.float64(", "np.int64(", "array(", "docs/", "``", "$", "\\", "\ue000"):
        assert forbidden not in re.sub(r"<code>.*?</code>|<pre>.*?</pre>", "", shown, flags=re.DOTALL), forbidden
    assert "np.float64(" not in page
    assert not re.search(r"docs/[\w-]+\.md", re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL))


# -- in a browser ------------------------------------------------------------------------------------------------------


def browser(test):
    """A test that needs a browser."""
    return pytest.mark.browser(pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")(test))


PHONE = 360  # pixels
DESK = 1280


def chromium(*arguments, address, width=DESK):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    command += ["--allow-file-access-from-files", "--hide-scrollbars", f"--window-size={width},800", *arguments]
    return subprocess.run([*command, address], capture_output=True, text=True, timeout=120, check=True).stdout


def answer(dump):
    found = re.search(r"<title>result:(.*?)</title>", dump)
    assert found, "a script failed"
    return json.loads(html.unescape(found[1]))


def in_browser(page, tmp_path, script, *arguments, query=""):
    """What ``script`` assigns to ``result``, as the page leaves it."""
    path = tmp_path / "page.html"
    probe = f"<script>let result; {script}; document.title = 'result:' + JSON.stringify(result);</script></body>"
    path.write_text(page.replace("</body>", probe), encoding="utf-8")
    return answer(chromium("--dump-dom", *arguments, address=path.as_uri() + query))


def in_frame(page, tmp_path, script, width, query=""):
    """What ``script`` assigns to ``result`` where ``page`` (its window) is shown in a frame of this width.

    (A window of the browser itself is at least 500 pixels wide.)
    """
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    (tmp_path / "frame.html").write_text(
        f"<title>none</title><iframe id=frame src='page.html{query}' width={width} height=700></iframe><script>"
        f"frame.onload = () => setTimeout(() => {{ const page = frame.contentWindow; let result; {script}; "
        "document.title = 'result:' + JSON.stringify(result); }, 500);</script>",
        encoding="utf-8",
    )
    return answer(chromium("--dump-dom", address=(tmp_path / "frame.html").as_uri(), width=width))


VISIBLE = "[...document.querySelectorAll('article')].filter(a => !a.hidden).map(a => a.dataset.verdict)"
EVERY = ["holds", "holds-corrected", "false", "open"]


def searched(phrase):
    return f"search.value = '{phrase}'; search.dispatchEvent(new Event('input'))"


FILTERS = {
    "": EVERY,
    "document.querySelector('[data-value=false]').click()": ["false"],
    searched("LEMMA 2"): ["holds-corrected"],
    searched("lemma2"): ["holds-corrected"],
    searched("Lem. 2"): ["holds-corrected"],
    searched("lemma 3 gamma"): ["false"],
    searched("γ"): ["false"],
    searched("convex"): ["holds-corrected"],  # in the note, a word that is being typed
    searched("sigma sgd"): ["holds"],
    searched("lemma"): EVERY,
    searched("xyzzy"): [],
    searched("nothing like this") + "; document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))": EVERY,
    "document.querySelector('[data-value=computed]').click()": ["holds-corrected", "false", "open"],
}


@pytest.mark.slow
@browser
def test_claims_are_filtered_and_searched(page, tmp_path):
    """Each action on a fresh copy of the page: a frame for each."""
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    script = (
        f"Promise.all({json.dumps(list(FILTERS))}.map(action => new Promise(done => {{"
        "const frame = document.createElement('iframe'); frame.src = 'page.html';"
        "frame.onload = () => { const script = frame.contentDocument.createElement('script');"
        f"script.text = action + {json.dumps('; window.result = ' + VISIBLE)};"
        "frame.contentDocument.body.append(script); done(frame.contentWindow.result); };"
        "document.body.append(frame); })))"
        ".then(found => document.title = 'result:' + JSON.stringify(found))"
    )
    path = tmp_path / "frames.html"
    path.write_text(f"<title>none</title><body><script>{script}</script></body>", encoding="utf-8")
    found = answer(chromium("--dump-dom", address=path.as_uri()))
    assert dict(zip(FILTERS, found, strict=True)) == FILTERS


TYPED = (
    *("lemma c21", "Lemma C.2", "C.21 (ii", "thm 2.1", "Theorem", "eq. (5)", "eq5", "gamma", "γ (upper", "fig 1 eta"),
    *("prop c.3 r2", "ν-noisy", "table 2 nu", "d.1", "D.10", "Σ", "Rényi", "n3, sharp", "i(a", "2", "", "…", "ϕς"),
)


@browser
def test_the_page_understands_names_as_the_command_line_does(tmp_path):
    names = sorted({claim.name for claim in claims()})
    script = (
        f"const names = {json.dumps(names)}, typed = {json.dumps(TYPED)}; "
        "result = [names.map(words), typed.map(words), typed.map(t => [false, true].map(loosely => "
        "names.filter(name => begins(words(name), words(t), loosely))))]"
    )
    split, split_typed, begun = in_browser(report_page([], []), tmp_path, script)
    assert [tuple(found) for found in split] == [words(name) for name in names]
    assert [tuple(found) for found in split_typed] == [words(name) for name in TYPED]
    for typed, found in zip(TYPED, begun, strict=True):
        for loosely in (False, True):
            expected = [name for name in names if begins(words(name), words(typed), loosely=loosely)]
            assert found[loosely] == expected, (typed, loosely)


@pytest.mark.slow
@browser
def test_the_search_of_the_ledger_finds_names_and_texts(tmp_path):
    for typed, needed in (("lemma c21", {"Lemma C.21 (i)", "Lemma C.21 (ii)"}), ("gamma", {"γ (upper)"})):
        script = (
            f"{searched(typed)}; result = [...document.querySelectorAll('article:not([hidden]) h4 a')].map(a => a.text)"
        )
        found = in_browser(whole_page(), tmp_path, script)
        assert needed <= set(found)
        assert len(found) < len(claims()) / 4
        named = {claim.name for claim in claims() if any(begins(key, words(typed)) for key in called(claim.name))}
        assert named <= set(found)


@pytest.mark.slow
@browser
def test_the_address_holds_the_search_and_the_filters(page, tmp_path):
    script = f"{searched('lemma 3')}; document.querySelector('[data-value=false]').click(); result = location.search"
    query = in_browser(page, tmp_path, script)
    assert query == "?search=lemma+3&verdict=false"
    assert in_browser(page, tmp_path, f"result = {VISIBLE}", query="?verdict=holds&verdict=false") == ["holds", "false"]
    assert in_browser(page, tmp_path, "result = search.value", query=query) == "lemma 3"
    clear = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'})); result = location.search"
    assert in_browser(page, tmp_path, clear, query=query) == ""


@browser
def test_a_link_to_a_claim_that_a_filter_hides_shows_it(page, tmp_path):
    script = f"result = [document.activeElement.id, {VISIBLE}.length]"
    assert in_browser(page, tmp_path, script, query="?verdict=holds#small-lemma-2") == ["small-lemma-2", 4]


WHERE = "page.document.getElementById('{}').getBoundingClientRect().top"


@pytest.mark.slow
@browser
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("target", ["correlated-noise-lemma-c.21-i", "document-exact-errors-n3-sharpened"])
def test_links_lead_below_the_filters(tmp_path, width, target):
    script = (
        f"const top = {WHERE.format(target)}, bar = page.document.querySelector('nav').getBoundingClientRect(); "
        "result = [top, Math.max(bar.bottom, 0), bar.height]"
    )
    top, bar, height = in_frame(whole_page(), tmp_path, script, width, f"#{target}")
    assert bar <= top < 350  # at the end of the page it may stand lower
    if width == PHONE:
        assert bar == 0  # the filters do not stay in view
    else:
        assert height < 700 / 5


def test_a_claim_has_a_page_with_its_statement_and_its_counterexample():
    paper = small_paper()
    raw = {claim.number: text for claim, text in claim_pages([paper])}
    assert all(Structure(text).open == [] for text in raw.values())
    pages = {number: html.unescape(text) for number, text in raw.items()}
    assert list(pages) == ["Lemma 1", "Lemma 2", "Lemma 3", "Lemma 4"]
    for text in pages.values():
        assert "<math" in text
        assert "A <small> paper" in text
    assert "<b>Holds</b>: true as printed;" in pages["Lemma 1"]
    assert "A note with <code>code</code> & a sum" in pages["Lemma 1"]
    assert "<b>Holds corrected</b>: false as printed" in pages["Lemma 2"]
    assert "<code>x = 0.8125</code>, <code>factor = 0.5</code>" in pages["Lemma 2"]
    assert "<dt>smaller side<dd><code>0.66015625</code>" in pages["Lemma 2"]
    assert "<a href='../exact-errors.html#n3-sharpened'>" in pages["Lemma 3"]
    assert "<b>Open:</b> Constants are open" in pages["Lemma 4"]
    assert ["Counterexample" in text for text in pages.values()] == [False, True, True, False]
    identifier = paper.claims[2].identifier
    assert f'<a href="{identifier}.html">claims/{identifier}.html</a>' in pages["Lemma 3"]


def test_the_page_of_a_claim_leads_to_its_foundations():
    paper = small()
    fields = {"printed": r"$x \le 2 x$", "domain": UNIT, "mutants": [{"c": 0.9}]}
    for name, below in (("Lemma 1", ()), ("Lemma 2", ("Lemma 1",))):

        @paper.inequality(name, rests_on=below, **fields)
        def double(x, c=2.0):
            """Clear."""
            return x, float(c) * (x + 1e-9)

    first, second = ((claim.identifier, html) for claim, html in claim_pages([paper]))
    assert f'Rests on <a href="{first[0]}.html">Lemma 1</a>' in second[1]
    assert f'On it rest <a href="{second[0]}.html">Lemma 2</a>' in first[1]
