"""The README and the documents: their examples run in order and print the numbers next to them.

A number in a comment behind ``print(...)`` is the printed value, rounded to the digits shown.  A block of code that
starts with a decorator is a fragment.  Blocks with ``>>>`` are interactive examples, which return what they say.
"""

import ast
import contextlib
import doctest
import functools
import importlib
import importlib.util
import io
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from latex2mathml.converter import convert
from markdown_it import MarkdownIt

import corrnoise as cn
from benchmarks import accuracy, audit
from corrnoise.__main__ import COMMANDS
from corrnoise.theory.auditing.findings import SAMPLED_TESTS, TESTS
from tests.broken_loops import BROKEN

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
SLOW_SUBJECTS = (
    *("account", "amplification", "correlated-noise", "designs", "finite-runs", "first-design", "first-model"),
    *("handover", "momentum", "momentum-aggregation-proofs", "parameters", "time-varying-buffers"),
    "toeplitz-mechanisms",
)
LONG = [f"docs/{name}.md" for name in SLOW_SUBJECTS]  #: whose examples are slow
MADE = {"docs/claims.md"}  #: pages that the site makes
FOLDERS = "docs|theory|solvers|simulations|figures|paper_checks|src|tests"
_NUMBER = re.compile(r"# (-?\d[\d.]*(?:e[+-]?\d+)?(?:%|\b))")


def example(page: str) -> str:
    """All code of a page, in order."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    return "".join(block for block in blocks if not block.startswith(("@", ">>>")))


def claims(code: str) -> list[tuple[str, str]]:
    """What each ``print`` of the example claims to print, and what it prints."""
    lines = code.splitlines()
    found = []
    namespace: dict[str, object] = {}
    for statement in ast.parse(code).body:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(ast.Module([statement], []), "example", "exec"), namespace)
        said = _NUMBER.search(lines[(statement.end_lineno or 1) - 1])
        if said and ast.unparse(statement).startswith("print("):
            found.append((said[1], out.getvalue().strip()))
    return found


def agrees(said: str, printed: str) -> bool:
    if said.endswith("%") != printed.endswith("%"):
        return False
    said, printed = said.removesuffix("%"), printed.removesuffix("%")
    mantissa, _, exponent = said.partition("e")
    digits = len(mantissa.partition(".")[2])
    return f"{float(printed):.{digits}{'e' if exponent else 'f'}}" == (
        f"{float(said):.{digits}e}" if exponent else said
    )


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page in LONG)) for page in PAGES if example(page)]
)
def test_examples_print_what_they_say(page: str) -> None:
    found = claims(example(page))
    assert found, f"{page} prints nothing that can be compared"
    wrong = [f"{said}, not {printed}" for said, printed in found if not agrees(said, printed)]
    assert not wrong, f"{page} says {'; '.join(wrong)}"


def test_a_wrong_number_is_seen() -> None:
    code = "x = 2\nprint(x / 3)  # 0.667: two thirds\nprint(1e-8 / 3)  # 3.34e-09: wrong\nprint(\n    x\n)  # 3\n"
    assert [agrees(*pair) for pair in claims(code)] == [True, False, False]
    assert [agrees(*pair) for pair in claims("print('3.8%')  # 3.8%: so\nprint('3.8%')  # 3.8\n")] == [True, False]


def interactive(text: str) -> doctest.DocTest:
    """The interactive examples of a page; the fences around them are no part of the output."""
    plain = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    return doctest.DocTestParser().get_doctest(plain, {}, "page", None, 0)


@pytest.mark.parametrize("page", PAGES)
def test_interactive_examples_return_what_they_say(page: str) -> None:
    assert doctest.DocTestRunner().run(interactive((ROOT / page).read_text(encoding="utf-8"))).failed == 0


def test_a_wrong_interactive_example_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctest.DocTestRunner().run(interactive("```python\n>>> 1 + 1\n3\n```\n")).failed == 1
    assert "Expected" in capsys.readouterr().out


def test_every_page_has_an_example() -> None:
    """Those of ``py`` blocks need a library, and run in the tests of its adapter; proofs need none."""
    for page in set(PAGES) - {"docs/index.md"}:  # the list of the others
        text = (ROOT / page).read_text(encoding="utf-8")
        assert page.endswith("-proofs.md") or "```py\n" in text or example(page) or interactive(text).examples, page


def test_the_readme_is_short_and_starts_like_the_site() -> None:
    readme, site = ((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/index.md"))
    assert len(readme.splitlines()) <= 90
    first = [re.findall(r"```py\n.*?```", text, re.DOTALL) for text in (readme, site)]
    assert len(first[0]) == 1
    assert first[0] == first[1]
    assert readme.split("\n\n")[1] == site.split("\n\n")[1]


ACCURACY = ROOT / "docs/pictures/accuracy.csv"


def test_the_tables_of_accuracy_have_the_results_of_the_file() -> None:
    rows = accuracy.read(ACCURACY)
    assert {len(row.accuracies.split()) for row in rows} == {len(row.losses.split()) for row in rows} == {20}
    assert {row.command for row in rows} == {accuracy.COMMAND}
    assert len({row.commit for row in rows}) == 1
    found = accuracy.summaries(rows)
    page, readme = ((ROOT / each).read_text(encoding="utf-8") for each in ("docs/does-it-pay.md", "README.md"))
    settings = dict.fromkeys((row.task, row.epochs) for row in rows)
    own_tables = [accuracy.table(found, *each) for each in settings]
    assert [len(each) for each in own_tables] == [6 - (epochs == 1) for _, epochs in settings]  # one epoch: no replays
    heads = {"|---|---|---|---|---|\n": own_tables, "|---|---|---|---|---|---|\n": [accuracy.unconfirmed(found)]}
    for head, tables in heads.items():
        assert [each.split("\n\n")[0].splitlines() for each in page.split("\n" + head)[1:]] == tables
    shown = re.findall(rf"^\| (?:{'|'.join(accuracy.METHODS)}) \|.*$", readme, re.MULTILINE)
    assert len(shown) >= 6
    assert set(shown) <= {line for table in own_tables for line in table}


def test_links_between_documents_lead_somewhere() -> None:
    for page in (*PAGES, "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        named = set(
            re.findall(r"`((?:docs|theory|solvers|simulations|figures|paper_checks|src|tests)/[\w/.-]*)`", text)
        )
        linked = {str(Path(page).parent / link) for link in re.findall(r"\]\((?!http|#)([^)#]+)", text)}
        missing = {name for name in (named | linked) - MADE if not (ROOT / name).exists()}
        assert not missing, f"{page} names {', '.join(sorted(missing))}"


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def lost_anchors(text: str, folder: Path) -> list[str]:
    """Links to headings that their page does not have."""
    lost = []
    for page, anchor in set(re.findall(r"((?:docs/)?[\w-]+\.md)#([\w-]+)", text)):
        path = next((one for one in (folder / page, ROOT / page) if one.exists()), None)
        headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if path else []
        if page not in MADE and anchor not in map(slug, headings):
            lost.append(f"{page}#{anchor}")
    return lost


def test_links_to_headings_lead_there() -> None:
    files = [ROOT / page for page in (*PAGES, "CONTRIBUTING.md", "CHANGELOG.md")]
    files += [file for file in (ROOT / "paper_checks").rglob("*.py") if "machinery" not in file.parts]
    found = {str(file.relative_to(ROOT)): lost_anchors(file.read_text(encoding="utf-8"), file.parent) for file in files}
    assert {name: lost for name, lost in found.items() if lost} == {}
    assert lost_anchors("[a](audit.md#what-is-proved), [b](audit.md#proofs)", ROOT / "docs") == [
        "audit.md#what-is-proved"
    ]


# -- formulas ----------------------------------------------------------------------------------------------------------

_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)


def eaten(text: str) -> list[str]:
    """Lines of a page in which Markdown takes signs of a formula for emphasis."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        dollars = 0
        for child in token.children or ():
            dollars += child.content.count("$") if child.type == "text" else 0
            if child.type in ("em_open", "em_close", "strong_open", "strong_close") and dollars % 2:
                found.append(token.content)
    return found


def raw(text: str) -> list[str]:
    """Subscripts, superscripts and sums outside of formulas and code."""
    return re.findall(r".*(?:[\w)}\]|‖][_^]|[_^]\{|[Σ∫√]\s*\w).*", _FORMULA.sub("", _CODE.sub("", text)))


@pytest.mark.parametrize("page", PAGES)
def test_formulas_are_latex_and_stay_whole(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not eaten(text)
    assert not raw(text)
    for display, inline in _FORMULA.findall(_CODE.sub("", text)):
        assert convert(display or inline).startswith("<math"), display or inline


def test_a_formula_that_is_eaten_or_raw_is_noticed() -> None:
    assert eaten("Let $\\theta^*$ be the minimiser, $\\eta^*$ the rate.\n")
    assert not eaten("Let $\\theta^\\ast$ be *the* minimiser, *all $x_j$* positive.\n")
    assert raw("with q_t = Σ λ_i") == ["with q_t = Σ λ_i"]
    assert not raw("with $q_t = \\sum \\lambda_i$ and `a_b`")


# -- names -------------------------------------------------------------------------------------------------------------

_CODE_FOLDERS = ("theory", "solvers", "simulations", "figures", "paper_checks", "tools", "benchmarks", "tests", "docs")
#: Names of other libraries.
FOREIGN = {
    "docs/handover.md": {"ClippedPytree", "min_separation"},
    "docs/hugging-face.md": {
        "compute_loss_func",
        "gradient_accumulation_steps",
        "gradient_checkpointing",
        "label_smoothing_factor",
        "max_grad_norm",
        "max_steps",
        "merge_and_unload",
        "PeftModel",
        "per_device_train_batch_size",
        "resume_from_checkpoint",
        "save_pretrained",
        "save_strategy",
        "set_format",
    },
    "docs/lightning.md": {
        "accumulate_grad_batches",
        "ckpt_path",
        "enable_checkpointing",
        "gradient_clip_val",
        "EarlyStopping",
        "LightningModule",
        "ReduceLROnPlateau",
        "max_epochs",
        "training_step",
    },
    "docs/notation.md": {"min_separation", "minsep_sensitivity_squared"},
    "docs/from-jax-privacy.md": {
        "BallsInBinsSampling",
        "BandMFExecutionPlanConfig",
        "BufferedToeplitz",
        "CyclicPoissonSampling",
        "clipped_grad",
        "cycle_length",
        "l2_clip_norm",
        "matrix_factorization_privatizer",
        "noise_addition_transform",
        "noise_seed",
        "normalize_by",
        "num_bands",
        "pad_to_multiple_of",
        "sampling_prob",
        "truncated_batch_size",
    },
    "docs/from-opacus.md": {
        "BatchMemoryManager",
        "ModuleValidator",
        "PrivacyEngine",
        "DPOptimizer",
        "data_loader",
        "get_epsilon",
        "grad_sample_mode",
        "make_private_with_epsilon",
        "max_grad_norm",
        "noise_multiplier",
        "num_workers",
        "poisson_sampling",
        "register_grad_sampler",
        "target_delta",
        "target_epsilon",
    },
    "docs/opacus.md": {"clip_grad_norm_"},
    "docs/troubleshooting.md": {"BatchNorm", "batch_first"},
    "docs/training.md": {"BatchNorm", "InstanceNorm"},
}
#: Shelves that need an extra: their names are read from the file.
EXTRAS = ("torch", "opacus", "jax", "flower")


def code_of(text: str) -> str:
    """All code of a page, in blocks and in lines."""
    return "\n".join(_CODE.findall(text))


def lines_of_code(text: str) -> list[str]:
    """The pieces of code within lines."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


@functools.cache
def names_of_an_extra(shelf: str) -> frozenset[str]:
    tree = ast.parse((ROOT / f"src/corrnoise/{shelf}.py").read_text(encoding="utf-8"))
    [names] = [ast.literal_eval(one.value) for one in tree.body if isinstance(one, ast.Assign)]
    return frozenset(names)


def exists(name: str) -> bool:
    """Whether ``cn.…`` is there; what an instance has is looked up in its class."""
    first, *rest = name.removeprefix("cn.").split(".")
    if first in EXTRAS:
        return not rest or rest[0] in names_of_an_extra(first)
    found: Any = cn
    for part in (first, *rest):
        if isinstance(found, type) and any(part in vars(one).get("__annotations__", {}) for one in found.__mro__):
            return True
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def is_importable(name: str) -> bool:
    """Whether ``corrnoise.….name`` is a module or a name that stands in the text of one."""
    parts = name.split(".")
    for known in range(len(parts), 0, -1):
        try:
            found = importlib.util.find_spec(".".join(parts[:known]))
        except ImportError:
            continue
        if found is not None and found.origin is not None:
            if known == 1 and len(parts) > 1:
                return exists(".".join(("cn", *parts[1:])))
            text = Path(found.origin).read_text(encoding="utf-8")
            return known == len(parts) or re.search(rf"\b{parts[known]}\b", text) is not None
    return False


def unknown_names(page: str, text: str) -> Iterator[str]:
    """Dotted names in the code of a page that do not exist."""
    code = code_of(text)
    yield from (name for name in set(re.findall(r"(?<![\w.])cn(?:\.\w+)+", code)) if not exists(name))
    yield from (name for name in set(re.findall(r"(?<![\w./])corrnoise(?:\.\w+)+", code)) if not is_importable(name))
    for module, names in re.findall(r"from (corrnoise[\w.]*) import ([\w, ]+)", code):
        whole = [f"{module}.{name.split(' as ')[0].strip()}" for name in names.split(",")]
        yield from (name for name in whole if not is_importable(name))
    for module in set(re.findall(r"python -m ([\w.]+)", code)):
        folder = ROOT / module.replace(".", "/")
        if module.split(".")[0] in _CODE_FOLDERS and not (folder.with_suffix(".py").exists() or folder.is_dir()):
            yield module
    commands = set(re.findall(r"^(?:\S*/)?corrnoise ([a-z]\w*)", "\n".join(lines_of_code(text)), re.MULTILINE))
    yield from (f"corrnoise {name}" for name in commands - COMMANDS.keys())


@functools.cache
def words_of_the_project() -> frozenset[str]:
    """All words of the sources, and the names of their files."""
    files = [*ROOT.glob("src/corrnoise/*.py*"), *ROOT.glob("src/corrnoise/[cdps]*/*.py*")]
    files += [file for folder in _CODE_FOLDERS for file in (ROOT / folder).rglob("*.py") if file != Path(__file__)]
    words = {word for file in files for word in re.findall(r"[A-Za-z_]\w*", file.read_text(encoding="utf-8"))}
    return frozenset(words | {part for file in files for part in file.with_suffix("").parts})


def unknown_words(page: str, text: str) -> set[str]:
    """Words with an underscore or an inner capital in the lines of a page that no source has."""
    words = {word for code in lines_of_code(text) for word in re.findall(r"[A-Za-z_]\w*", code)}
    named = {word for word in words if "_" in word.strip("_") or re.search("[a-z][A-Z]", word)}
    return named - words_of_the_project() - FOREIGN.get(page, set())


@pytest.mark.parametrize("page", PAGES)
def test_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not list(unknown_names(page, text))
    assert not unknown_words(page, text)


def test_names_that_do_not_exist_are_noticed() -> None:
    for text in (
        "`cn.mechanisms.from_power_spectrum`",
        "`cn.torch.train`",
        "`cn.Participation.permuted(3)`",
        "`corrnoise.theory.nothing`",
        "`corrnoise.nothing`",
        "`corrnoise simplify`",
        "`python -m tools.nothing`",
        "```python\nfrom corrnoise.theory.privacy import Money\n```",
    ):
        assert list(unknown_names("page", text)), text
    for text in (
        "`cn.mechanisms.NuFTRL`, `cn.torch.make_private(model)`, `cn.Participation.poisson`, `cn.Optimum.lower_bound`",
        "`corrnoise.flower`, `corrnoise.papers.momentum_aggregation`, `python -m benchmarks`, `corrnoise check`",
        "```python\nimport corrnoise as cn\nfrom corrnoise.theory.privacy import Budget\n```",
    ):
        assert not list(unknown_names("page", text)), text
    assert unknown_words("page", "`make_public(NuFTRM)`") == {"make_public", "NuFTRM"}


def unstable_imports(text: str) -> set[str]:
    """Modules that the code of a page imports and that are not public."""
    modules = set(re.findall(r"^\s*(?:>>> )?(?:from|import) (corrnoise[\w.]*)", code_of(text), re.MULTILINE))
    return {module for module in modules if module != "corrnoise" and module.split(".")[1] not in cn.__all__}


@pytest.mark.parametrize("page", PAGES)
def test_pages_import_public_names(page: str) -> None:
    assert unstable_imports((ROOT / page).read_text(encoding="utf-8")) == set()


def test_an_unstable_import_is_noticed() -> None:
    text = "```py\nfrom corrnoise.theory.privacy import Budget\nfrom corrnoise.flower import Plan\n```\n"
    assert unstable_imports(text + "```python\n>>> import corrnoise.solvers\n```") == {
        "corrnoise.theory.privacy",
        "corrnoise.solvers",
    }


def messages() -> list[str]:
    """The texts of the sources, with dots for the values that they show."""
    found = []
    for folder in ("theory", "solvers", "simulations", "src/corrnoise/support", "src/corrnoise/designs"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                    found.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found


def unknown_messages(text: str, known: list[str]) -> list[str]:
    """Messages in the first cells of the tables of a page that no source has."""
    cells = re.findall(r"^\| `([^`]{12,})` \|", text, re.MULTILINE)
    assert cells
    return [cell for cell in cells if not any(cell in text for text in known)]


def test_messages_of_the_page_of_troubles_exist() -> None:
    known = messages()
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    assert unknown_messages(text, known) == []
    assert unknown_messages("| `data must be a DataLoader` | no | no |\n", known) == ["data must be a DataLoader"]
    assert text.count("\n| `") >= 25


# -- references, extras, counts ----------------------------------------------------------------------------------------


def code_references(text: str) -> list[str]:
    """Pages that are named as code: a reader of the site cannot follow them."""
    return re.findall(r"`(?:docs/)?[\w-]+\.md`", text)


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_named_by_links(page: str) -> None:
    assert not code_references((ROOT / page).read_text(encoding="utf-8"))


def test_a_page_that_is_code_is_noticed() -> None:
    assert code_references("see `docs/training.md` and `CONTRIBUTING.md`") == [
        "`docs/training.md`",
        "`CONTRIBUTING.md`",
    ]
    assert not code_references("[Training](training.md), `tests/test_audit.py`")


#: The distribution that brings a library.
BRINGS = {
    "sklearn": "scikit-learn",
    "flwr": "flwr",
    "opacus": "opacus",
    "torch": "torch",
    "jax": "jax",
    "optax": "optax",
}


@functools.cache
def extras() -> dict[str, set[str]]:
    """The distributions that each extra installs, those of other extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed: dict[str, list[str]] = project["optional-dependencies"]

    def installed(name: str) -> set[str]:
        found: set[str] = set()
        for one in listed[name]:
            inner = re.fullmatch(r"corrnoise\[(.+)\]", one)
            found |= set().union(*map(installed, inner[1].split(","))) if inner else {re.split(r"[>=<\[]", one)[0]}
        return found

    return {name: installed(name) for name in listed}


def wrong_extras(text: str) -> list[str]:
    """Extras that do not exist, and libraries that the extras of a page do not bring and that its code imports."""
    named = [name for group in re.findall(r"corrnoise\[([\w,]+)\]", text) for name in group.split(",")]
    unknown = [name for name in named if name not in extras()]
    if unknown or not named:
        return unknown
    there = set().union(*(extras()[name] for name in named)) | {"scikit-learn"}  # of data sets only
    there |= set(re.findall(r"`pip install (\w+)`", text))
    if there.isdisjoint(set(BRINGS.values()) - {"scikit-learn"}):
        return []
    blocks = "\n".join(re.findall(r"```py\n(.*?)```", text, re.DOTALL))
    imported = set(re.findall(r"^(?:import|from) (\w+)", blocks, re.MULTILINE)) & BRINGS.keys()
    needed = {"torch": "torch", "opacus": "torch", "jax": "jax"}
    imported |= {library for shelf, library in needed.items() if f"cn.{shelf}." in blocks}
    return sorted(name for name in imported if BRINGS[name] not in there)


@pytest.mark.parametrize("page", PAGES)
def test_extras_bring_what_a_page_imports(page: str) -> None:
    assert not wrong_extras((ROOT / page).read_text(encoding="utf-8"))


def test_wrong_extras_are_noticed() -> None:
    script = "```py\ncn.opacus.make_private()\n```"
    assert wrong_extras(f"`pip install 'corrnoise[jax]'`\n{script}") == ["torch"]
    assert wrong_extras(f"`pip install 'corrnoise[tensorflow]'`\n{script}") == ["tensorflow"]
    assert not wrong_extras(f"`pip install 'corrnoise[torch]'`\n{script}")


_COUNTED = "tests|loops|mutants|claims|figures|commands|families|test cases|benchmarks|causes|samplers"
_NUMERAL = r"\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|forty|fifty"
_COUNT = re.compile(rf"\b((?:{_NUMERAL})(?:\s(?!are|is|and|or|of)\w+)?\s(?:{_COUNTED}))\b", re.IGNORECASE)
#: Every count of things of the project in a page, with the number as the project has it.
COUNTS: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/audit.md", "100 broken loops"): lambda: f"{len(BROKEN)} broken loops",
    ("docs/audit.md", "500 correct loops"): lambda: f"{audit.CORRECT_LOOPS} correct loops",
    ("docs/audit.md", "two claims"): lambda: "two claims",  # named in the next sentences
}


def counts(text: str) -> list[str]:
    """The counts of things of the project in a page."""
    return [" ".join(found.split()) for found in _COUNT.findall(_CODE.sub("X", text))]


@pytest.mark.parametrize("page", PAGES)
def test_counts_are_right(page: str) -> None:
    for found in counts((ROOT / page).read_text(encoding="utf-8")):
        assert (page, found) in COUNTS, f"{page} says {found!r}: compute it in COUNTS, or leave it out"
        assert COUNTS[page, found]() == found


def test_a_count_is_noticed() -> None:
    assert counts("Thirty tests share `level`; 42 loops; the forty\nbroken loops.") == [
        "Thirty tests",
        "42 loops",
        "forty broken loops",
    ]
    assert not counts("the tests of four steps")


TUTORIALS = ("README.md", "docs/first-design.md", "docs/first-model.md")


def silent_losers(text: str) -> tuple[list[str], dict[str, Any]]:
    """Designs that DP-SGD beats, where neither their code nor the text below says so; and all names of the page."""
    parts = re.split(r"```python\n(.*?)```", text, flags=re.DOTALL)
    found: list[str] = []
    namespace: dict[str, Any] = {}
    for code, below in zip(parts[1::2], parts[2::2], strict=True):
        known = dict(namespace)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, "example", "exec"), namespace)
        near = " ".join((code + below.partition("\n## ")[0]).split())
        if not re.search(r"DP-SGD (?:with Poisson batches )?(?:is|would be) better", near):
            fresh = {name: one for name, one in namespace.items() if known.get(name) is not one}
            found += [name for name, one in fresh.items() if isinstance(one, cn.Design) and one.dpsgd_is_better]
    return found, namespace


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS)
def test_a_tutorial_says_where_dpsgd_is_better(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    losers, namespace = silent_losers(text)
    assert any(isinstance(one, cn.Design) for one in namespace.values())
    assert not losers
    recommended = re.findall(r"^Use .*", text, re.MULTILINE)
    assert recommended == [str(namespace["design"]).splitlines()[0] for _ in recommended]


def test_a_silent_loser_is_noticed() -> None:
    block = (
        "```python\nimport corrnoise as cn\nbudget = cn.Budget(epsilon=0.5, delta=1e-5)\n"
        "design = cn.design(budget, cn.Participation.fixed_epochs(24, epochs=6), memory=1)\n```\n"
    )
    assert silent_losers(f"{block}Take this design.\n## Later\nDP-SGD is better.\n")[0] == ["design"]
    assert silent_losers(f"{block}Below 2.0 DP-SGD is\nbetter.\n")[0] == []


def rows_of(text: str, heading: str) -> list[tuple[str, str]]:
    """The first two cells of the rows of the table with this heading."""
    table = text.split(f"| {heading} | refutes privacy |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(.+?)` \| (yes|no) \|", table, re.MULTILINE)


def causes(tests: Any) -> list[tuple[str, str]]:
    """The causes of an audit in their order, each once, with whether they refute the privacy."""
    return list(dict.fromkeys((row.cause, "yes" if row.refutes else "no") for row in tests.values()))


def test_the_page_of_the_audit_has_all_causes() -> None:
    text = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    assert rows_of(text, "cause") == causes(TESTS)
    further = [row for row in causes(SAMPLED_TESTS) if row not in causes(TESTS)]
    assert sorted(rows_of(text, "further cause")) == sorted(further)
