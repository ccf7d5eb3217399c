"""``corrnoise check``: its selection, output and exit statuses."""

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import corrnoise.paper_checks as ledgers
from corrnoise import __main__ as command_line
from corrnoise.commands import claims
from corrnoise.paper_checks.machinery import running
from corrnoise.paper_checks.machinery.domains import linear, one_of, regressions, vector
from corrnoise.paper_checks.machinery.papers import ListedClaim, Paper
from corrnoise.support.version import __version__
from corrnoise.theory.problems.quadratic import LinearRegression

ESCAPE = "\x1b"
REFUTED = "(a certificate refutes it at x = 0.5)"


def small_papers():
    """Two papers whose checks take no time: one claim of each verdict, and one that is wrong on purpose."""
    good = Paper("good-paper", source="arXiv 7", title="Good", authors="Nobody")
    bad = Paper("bad-paper", source="arXiv 8", title="Bad", authors="Nobody")
    domain = {"x": linear(0, 1)}

    @good.inequality(
        "Lemma C.2 (i)",
        printed=r"$x \le c\,x$ for $x \in [0, 1]$",
        transcription="a square root",
        domain={"x": linear("0.1", "1")},
        evidence="certified",
        outside="Below 0.1 it is clear.",
        sharp="c",
        mutants=[{"c": "0.9"}],
    )
    def holds(x, c="2"):
        """A note with ``code``.

        And a second paragraph.
        """
        return x, float(c) * x if isinstance(x, float) else type(x)(c) * x

    @good.inequality(
        "Lemma C.2 (ii)",
        printed=r"$\|x\|^2 \le \frac{1}{2} x$",
        repair=r"$\|x\|^2 \le x$",
        domain={"v": vector(linear(0, 1), 2), "problem": regressions(1)},
        as_printed={"factor": 0.5},
        counterexample={"v": np.array([0.8125, 0.0]), "problem": LinearRegression([1.0], 0.1)},
        mutants=[{"factor": 0.4}],
    )
    def corrected(v, problem, factor=1.0):
        """Convexity."""
        return v * v, float(factor) * v + 0 * problem.learning_rate

    @good.identity(
        "Lemma C.21",
        printed="$x = O(x)$",
        undecided=("no data", "The constant of $O(x)$ is open."),
        domain=domain,
    )
    def open_constants(x):
        """An identity."""
        return x, x

    @bad.inequality("Theorem 1", printed="$2 \\le x$", domain=domain, counterexample={"x": 1.0}, mutants=[{"two": 3}])
    def false(x, two=2):
        """Not so."""
        return two, x

    @bad.inequality(
        "Theorem 2", printed="$1 > 2$", domain=domain, mutants=[{"two": 3}], proof="elsewhere", evidence="searched"
    )
    def wrong(x, two=2):
        """False, and recorded as true."""
        return two, 1 + 0 * x

    @bad.inequality("Table 2", printed="$x$", domain={"x": one_of(0.0)}, mutants=[{"two": 3}])
    def breaks(x, two=2):
        """Divides by zero."""
        return 1 / (1 - x), two / 0

    assert all((holds, corrected, open_constants, false, wrong, breaks))
    return {"good-paper": good, "bad-paper": bad}


@pytest.fixture
def papers(monkeypatch):
    found = small_papers()
    monkeypatch.setattr(ledgers, "papers", lambda: tuple(found.values()))
    return found


def check(*arguments):
    return command_line.main(["check", "--jobs", "1", *map(str, arguments)])


def names(text):
    """The statements of a printed table or list."""
    rows = [re.split(r"  +", line) for line in text.split("\n\n")[0].splitlines()[1:]]
    return [row[1] for row in rows]


# -- what is selected --------------------------------------------------------------------------------------------------


def test_filters(papers, capsys):
    for arguments, expected in (
        (("--verdict", "holds"), ["Lemma C.2 (i)", "Theorem 2", "Table 2"]),
        (("--verdict", "holds-corrected", "--verdict", "FALSE"), ["Lemma C.2 (ii)", "Theorem 1"]),
        (("--evidence", "certified"), ["Lemma C.2 (i)"]),
        (("--evidence", "computed", "--verdict", "no data"), ["Lemma C.21"]),
        (("bad-paper", "--evidence", "searched", "--verdict", "holds"), ["Theorem 2"]),
        (("bad-paper", "Table", "2"), ["Table 2"]),
    ):
        assert check("--list", *arguments) == 0
        assert names(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Lemma C.3",), "there is no paper or claim 'Lemma C.3'; close are Lemma C.2"),
        (("good-papr",), "close are good-paper, bad-paper; corrnoise check --list shows all"),
        (("Lemma 3.1", "good-paper"), "there is no paper or claim 'Lemma 3.1'"),
        (("Theorem 1", "xyzzy"), "there is no paper or claim 'xyzzy'; corrnoise check --list shows all"),
        (("",), "there is no paper or claim ''"),
        (("Lemma C.2 (i)", "--verdict", "false"), "no claim has the requested verdict and evidence"),
        (("--verdict", "maybe"), "'maybe' is none of holds, holds corrected, false, open, no data, vacuous"),
        (("good-paper", "Theorem 1"), "there is no claim 'Theorem 1' in good-paper, but there is one in another paper"),
        (
            ("--evidence", "sure"),
            "'sure' is none of machine-checked, certified, proved, cited, exact, counterexample, family, computed",
        ),
        (("--jobs", "0"), "'0' must be a number of processes, 1, 2, ... or -1 for one a core"),
        (("--jobs", "x"), "'x' must be a number of processes"),
    ],
)
def test_misuse_is_explained_and_ends_with_status_two(papers, capsys, arguments, message):
    assert check(*arguments) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert not output.out


# -- what is printed ---------------------------------------------------------------------------------------------------


def test_the_table_has_a_reason_for_each_verdict(papers, capsys):
    assert check("good", "bad", "--verdict", "holds corrected", "--verdict", "no-data", "--verdict", "false") == 0
    assert capsys.readouterr().out.startswith("Lemma C.2 (ii), good-paper (arXiv 7)")  # three are shown in full
    assert check() == 1
    output = capsys.readouterr().out
    good, bad, legend, summary = output.rstrip("\n").split("\n\n")
    assert good.splitlines()[0] == "good-paper (arXiv 7)"
    assert bad.splitlines()[0] == "bad-paper (arXiv 8)"
    cells = [re.split(r"  +", line) for line in (*good.splitlines()[1:], *bad.splitlines()[1:])]
    assert [row[:3] for row in cells] == [
        ["Lemma C.2 (i)", "holds", "certified"],
        ["Lemma C.2 (ii)", "holds corrected", "computed; repair proposed (searched)"],
        ["Lemma C.21", "no data", "computed"],
        ["Theorem 1", "false", "computed"],
        ["Theorem 2", "false", "searched"],
        ["Table 2", "error", "computed"],
    ]
    reasons = [row[3] for row in cells]
    assert re.fullmatch(r"proved on \d+ boxes; sharp: c between 1 and 2, stated 2", reasons[0])
    assert reasons[1].startswith(
        "as printed it says 0.660156 ≤ 0.40625 at v = [0.8125, 0.], problem = LinearRegression("
    )
    assert reasons[2] == "The constant of O(x) is open"
    assert reasons[3] == "as printed it says 2 ≤ 1 at x = 1.0"
    assert reasons[4].startswith("DISAGREES: the verdict is 'false', recorded is 'holds'")
    assert reasons[5].startswith("DISAGREES: ZeroDivisionError")
    meant = [re.split(r"  +", line)[0] for line in legend.splitlines()]
    assert [word for word in meant if word] == [
        *("holds", "holds corrected", "false", "no data"),
        *("certified", "computed", "searched"),  # and no "simulated", which does not occur
    ]
    assert summary.splitlines() == [
        "6 claims: 1 holds, 1 holds corrected, 1 no data, 2 false, 1 error; 2 not as recorded",
        "         certified  computed  searched",
        "true     1          1         1",
        "false    0          2         0",
        "no data  0          1         0",
        "Of 5 decided statements, 1 are proved, cited, certified or machine-checked, 0 exact by proof, and 0 refuted "
        "by a counterexample or a family; 1 are undecided.",
    ]
    assert ESCAPE not in output


def test_few_claims_are_shown_in_detail(papers, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert check("good") == 0
    blocks = capsys.readouterr().out.split("\n\n")
    assert len(blocks) == 4  # three claims, summary
    first, second, third = ([line.strip() for line in block.splitlines()] for block in blocks[:3])
    assert first[0] == "Lemma C.2 (i), good-paper (arXiv 7)"
    for line in (
        "as printed        x ≤ c x for x ∈ [0, 1]",
        "transcription     restored after conversion: a square root",
        "verdict           holds",
        "note              A note with code.",
        "And a second paragraph.",
        "evidence          certified",
        "outside of it     Below 0.1 it is clear.",
        "searched          x: [0.1, 1]",
        "sharp constant    c between 1 and 2, stated 2",
        "false neighbours  c = 0.9 (rejected)",
    ):
        assert line in first, line
    assert any(re.fullmatch(r"certificate +proved, \d+ boxes", line) for line in first)
    margin = r"smallest margin +0\.5 \((\d+) of \1 points lie in the domain\)"
    assert any(re.fullmatch(margin, line) for line in first)
    assert "as printed        ‖x‖² ≤ ½ x" in second
    assert "proposed          ‖x‖² ≤ x" in second
    counterexample = second.index(
        "counterexample    v = [0.8125, 0.], problem = LinearRegression(eigenvalues=[1.], "
        "learning_rate=0.1, residual_std=0.0, kurtosis=3.0), factor = 0.5"
    )
    assert second[counterexample + 1 : counterexample + 3] == [
        "smaller side      [0.66015625, 0.]",
        "larger side       [0.40625, 0.]",
    ]
    assert "no data           The constant of O(x) is open." in third
    assert any(line.startswith("difference        0, relative") for line in third)
    assert not any(line.startswith(("counterexample", "certificate", "sharp")) for line in third)


def test_a_disagreement_and_an_error_are_named_and_the_rest_is_checked(papers, capsys):
    assert check() == 1
    output = capsys.readouterr()
    first, second = output.err.splitlines()
    start = "corrnoise: disagrees: bad-paper, "
    assert first == f"{start}Theorem 2: the verdict is 'false', recorded is 'holds' {REFUTED}"
    assert re.fullmatch(f"{start}Table 2: ZeroDivisionError: (float )?division by zero; x = 0.0", second)
    assert output.out.count("DISAGREES") == 2
    assert "; 2 not as recorded\n" in output.out
    assert "Of 5 decided statements, 1 are proved" in output.out
    assert "%" not in output.out
    assert check("Theorem 2") == 1
    assert "  disagrees         the verdict is 'false'" in capsys.readouterr().out


class Stream(io.StringIO):
    """Standard output or standard error, which is a terminal or not."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def streams(monkeypatch, terminal):
    out, err = Stream(terminal), Stream(terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return out, err


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_colour_and_progress_are_for_terminals_only(papers, monkeypatch, terminal, environment, coloured):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out, err = streams(monkeypatch, terminal)
    assert check("good") == 0
    assert (ESCAPE in out.getvalue()) == coloured
    assert ("3/3 Lemma C.21" in err.getvalue()) == terminal
    assert err.getvalue().endswith("\r\x1b[K" if terminal else "")


def test_the_progress_starts_before_the_claims_are_imported(papers, monkeypatch):
    """Importing all of them takes seconds."""
    seen = []

    @contextmanager
    def line():
        seen.append("line")
        yield lambda text, *_: seen.append(text)

    loaded = ListedClaim.claim.fget
    monkeypatch.setattr(claims, "progress_line", line)
    monkeypatch.setattr(ListedClaim, "claim", property(lambda one: (seen.append("import"), loaded(one))[1]))
    assert check("good") == 0
    assert seen[:3] == ["line", "loading the claims", "import"]


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_of_a_table_are_cut_at_the_edge_of_a_terminal_only(papers, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    out, _ = streams(monkeypatch, terminal)
    assert check() == 1
    *lines, _ = out.getvalue().partition("6 claims: ")[0].splitlines()  # all but the summary
    assert (max(map(len, lines)) <= 80) == terminal
    assert any(line.endswith("…") for line in lines) == terminal


# -- JSON and files ----------------------------------------------------------------------------------------------------


def strict(text):
    """JSON as it is defined, without NaN and Infinity."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def test_json_holds_everything(papers, capsys):
    assert check("--json") == 1
    output = capsys.readouterr()
    record = strict(output.out)
    assert (record["corrnoise"], record["thorough"], record["agree"]) == (__version__, False, False)
    first, second, third, false, wrong, broken = record["outcomes"]
    assert first["claim"]["name"] == "Lemma C.2 (i)"
    assert first["claim"]["note"] == "A note with ``code``.\n\nAnd a second paragraph."
    assert (first["verdict"], first["agrees"], first["margin"], first["sharp"]) == ("holds", True, 0.5, 1.0)
    assert first["sharp_constant"] == "c"
    assert first["certificate"]["answer"] == "proved"
    assert first["certificate"]["box"] is None
    assert first["mutants"] == [{"mutant": "c = 0.9", "rejected": True}]
    assert first["tried"] == first["accepted"] > 100
    assert second["counterexample"]["sides"] == [[0.66015625, 0.0], [0.40625, 0.0]]
    assert second["counterexample"]["arguments"]["v"] == [0.8125, 0.0]
    assert second["counterexample"]["arguments"]["problem"]["eigenvalues"] == [1.0]
    assert len(second["worst"]["v"]) == 2
    assert second["claim"]["as_printed"] == {"factor": 0.5}
    assert third["claim"]["undecided"] == ["no data", "The constant of $O(x)$ is open."]
    assert (false["verdict"], false["claim"]["recorded"], wrong["claim"]["recorded"]) == ("false", "false", "holds")
    assert (broken["verdict"], broken["margin"]) == ("error", "nan")
    assert math.isnan(float(broken["margin"]))
    assert broken["reason"].startswith("ZeroDivisionError")
    assert check("--json", "--list", "good") == 0
    assert [claim["name"] for claim in strict(capsys.readouterr().out)] == [
        "Lemma C.2 (i)",
        "Lemma C.2 (ii)",
        "Lemma C.21",
    ]


def test_the_output_goes_to_a_file_whole(papers, capsys, tmp_path):
    path = tmp_path / "ledger.json"
    assert check("good", "--json", "--output", path) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert len(strict(path.read_text(encoding="utf-8"))["outcomes"]) == 3
    assert check("good", "--output", path) == 0
    assert path.read_text(encoding="utf-8").startswith("Lemma C.2 (i), good-paper")
    assert check("--output", path) == 1
    assert "DISAGREES" in path.read_text(encoding="utf-8")
    assert {file.name for file in tmp_path.iterdir()} == {"ledger.json"}


@pytest.mark.parametrize("name", ["missing/ledger.txt", "."])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(papers, capsys, tmp_path, monkeypatch, name):
    monkeypatch.setattr(running, "outcomes", None)
    assert check("--output", tmp_path / name) == 1
    assert capsys.readouterr().err.startswith("corrnoise: error: --output must be a file in an existing folder, got ")
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_when_the_work_is_interrupted(papers, capsys, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "_check", interrupted)
    assert check("--output", tmp_path / "ledger.txt") == 130
    assert capsys.readouterr().err == "corrnoise: interrupted\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_thorough_searches_longer(papers, capsys):
    tried = []
    for arguments in ((), ("--thorough",)):
        assert check("Lemma C.2 (ii)", "--json", *arguments) == 0
        record = strict(capsys.readouterr().out)
        assert record["thorough"] == bool(arguments)
        tried.append(record["outcomes"][0]["tried"])
    assert tried[1] > 10 * tried[0]


# -- the ledger itself, in processes -----------------------------------------------------------------------------------

FEW = ("Lemma C.21", "Lemma F.17", "Property F.10", "Theorem C.18 (one noise)")


@pytest.mark.slow
def test_a_worker_that_dies_is_one_line_and_status_one(capsys, monkeypatch):
    monkeypatch.setattr(running, "_check", lambda *_, **__: os._exit(3))
    assert command_line.main(["check", *FEW, "--jobs", "2"]) == 1
    output = capsys.readouterr()
    assert output.err == "corrnoise: error: a worker process died; --jobs 1 checks in this process\n"
    assert not output.out


@pytest.mark.slow
def test_an_interrupt_in_the_middle_of_the_work_ends_without_a_traceback(tmp_path):
    """Interrupted as a terminal does it, workers too; the bar on standard error tells when work is under way."""
    options = ("momentum-aggregation", "--thorough", "--jobs", "2", "--output", tmp_path / "x")
    command = [sys.executable, "-m", "corrnoise", "check", *options]
    terminal, error = os.openpty()
    process = subprocess.Popen(command, stderr=error, start_new_session=True)
    os.close(error)
    said = b""
    while b" 1/" not in said:
        said += os.read(terminal, 1000)
    os.killpg(process.pid, signal.SIGINT)
    with suppress(OSError):  # the end of what is said at a terminal
        while piece := os.read(terminal, 1000):
            said += piece
    assert process.wait(timeout=120) == 130
    assert said.endswith(b"\r\x1b[Kcorrnoise: interrupted\r\n")
    assert b"Traceback" not in said
    assert not list(tmp_path.iterdir())
