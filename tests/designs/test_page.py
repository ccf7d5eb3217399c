"""The page of a design: its text, that its programs run, and that it needs nothing from outside."""

import math
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.designs.design import Design
from corrnoise.designs.page import BANDWIDTH, DRAWS, _up, conditions, costs, epsilon_data, promise, snippets, write_page
from corrnoise.solvers.sampled import DPSGD_POISSON
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.design_examples import BUDGET, CASES, EPOCHED, made

VOID = {"meta", "br", "path", "use", "rect"}
OPTIONAL = {"dt", "dd", "li", "tr", "td", "th", "p"}  # which HTML ends by itself


class Page(HTMLParser):
    """Tags that are open, and addresses that are referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in VOID | OPTIONAL:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | OPTIONAL:
            assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@cache
def with_dpsgd(epsilon: float, batch_size: int = 8) -> Design:
    return cn.design(Budget(epsilon=epsilon, delta=1e-6), EPOCHED, SGD(batch_size=batch_size), memory=2)


@cache
def poisson() -> Design:
    return cn.design(Budget(epsilon=2.0, delta=1e-6), Participation.poisson(12, 0.25), SGD(batch_size=2))


def page_of(design: Design, folder: Path, **options: Any) -> Page:
    write_page(design, folder, options.get("comparison"), options.get("parameters"))
    return Page((folder / "design.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_every_design_has_a_page_that_needs_no_network(name: str, tmp_path: Path) -> None:
    design = made(name)
    page = page_of(design, tmp_path)
    assert all(address.startswith("#") for address in page.addresses)
    text = " ".join(page.text.split())
    assert repr(design.program().multiplier(BUDGET)) in text
    assert f"{design.error:.6g}" in text
    assert "A sentence." in text
    assert "None" not in text.replace("steps=None", "")
    assert design.error_in_words in text
    for one in design.alternatives:
        assert one.label in text


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "beaten"), [(0.3, True), (8.0, False)])
def test_it_says_when_to_keep_dpsgd(epsilon: float, beaten: bool, tmp_path: Path) -> None:
    design = with_dpsgd(epsilon)
    assert design.dpsgd_is_better == beaten
    assert ("Use DP-SGD with" in page_of(design, tmp_path, parameters=10**6).text) == beaten
    assert (tmp_path / "epsilon.csv").read_text().count(DPSGD_POISSON) >= 9


def test_errors_over_epsilon_are_those_of_designs_at_these_budgets() -> None:
    design = with_dpsgd(8.0)
    own, poisson, *others = epsilon_data(design)
    assert not others
    for series, one in ((own, design.optimum), (poisson, design.dpsgd)):
        assert one is not None
        assert 8.0 in series.x
        for epsilon, error in list(zip(series.x, series.y, strict=True))[::4]:
            assert one.error_at(Budget(epsilon=float(epsilon), delta=1e-6)) == pytest.approx(error, rel=1e-12)
            assert one.error_at(Budget(epsilon=1.1 * float(epsilon), delta=1e-6)) < error
    assert np.all(np.diff(own.y) < 0)


def test_the_promise_states_numbers_on_the_safe_side() -> None:
    text = promise(with_dpsgd(8.0))
    assert "(8, 1e-06)-differential privacy for each example" in text
    assert "more than 2990 times" in text  # e^8 = 2980.96
    assert "at most 100 percent" in text
    assert "more than 1.35 times" in promise(with_dpsgd(0.3))  # e^0.3 = 1.34986
    assert "at most 57.5 percent" in promise(with_dpsgd(0.3))  # 57.44
    assert "0.5-zero-concentrated" in promise(made("usual"))
    who = Participation.fixed_epochs(16, epochs=2)
    other = cn.design(Budget(epsilon=1.0, delta=1e-6, adjacency="replace-one"), who, memory=1)
    assert "whichever other example had stood in its place" in promise(other)
    for value in (1.0, 2.0, 7.389, 88.08, 0.5, 999.4):
        assert value <= float(_up(value)) <= value * 1.0101


def test_conditions_state_the_noise_that_runs() -> None:
    design = cn.design(Budget(0.5, clip_norm=4.0), EPOCHED, memory=1)
    deviation = f"{4 * design.program().multiplier(design.budget):.6g}"
    assert f"standard deviation {deviation} " in " ".join(conditions(design))
    assert "The loop sees to it." in " ".join(conditions(design))


def test_costs_are_those_of_the_arrays() -> None:
    design = made("without factors")
    assert (design.memory, design.program().dtype) == (1, "float32")
    [(size, memory, time)] = costs(design, (2**30,))
    assert (size, memory) == ("1.07e+09", "4 GiB")
    assert float(time.removesuffix(" s")) == pytest.approx(3 * 4 * 2**30 / BANDWIDTH, rel=0.05)
    assert costs(made("no memory"), (10,))[0][1] == "0 bytes"
    again = cn.design(Budget(0.5), Participation.fixed_epochs(4, epochs=2), memory=1, replays=1)
    seconds = float(costs(again, (2**30,))[0][2].removesuffix(" s"))
    assert seconds == pytest.approx(3 * 4 * 2**30 / BANDWIDTH + 2**30 / DRAWS, rel=0.05)


def program(
    design: Design, library: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **names: Any
) -> dict[str, Any]:
    """Run a program of the page, in the folder of the design, with the names that are left to the user."""
    cn.save(design, folder)
    monkeypatch.chdir(folder)
    [code] = [one.code for one in snippets(design) if one.library == library]
    exec(code, names)
    return names


@pytest.mark.slow
def test_the_program_for_numpy_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = program(with_dpsgd(8.0), "any loop, with NumPy arrays", tmp_path, monkeypatch, size=3, total=np.zeros(3))
    assert found["run"].position == 48
    endless = snippets(made("endless"))
    assert [one.library for one in endless] == ["any loop, with NumPy arrays"]


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("library", ["PyTorch", "Opacus"])
def test_the_programs_for_torch_run(
    library: str, sampled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    design, examples = (poisson(), 8) if sampled else (with_dpsgd(8.0), 96)
    model = torch.nn.Linear(2, 3)
    data = (torch.ones(examples, 2), torch.zeros(examples, dtype=torch.long))
    before = model.weight.detach().clone()
    given = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "data": data}
    found = program(design, library, tmp_path, monkeypatch, **given)
    run = found["run"] if library == "PyTorch" else found["criterion"].run
    assert run.position == design.participation.steps
    assert not torch.equal(model.weight, before)


@pytest.mark.slow
def test_the_program_for_jax_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("optax")

    def loss(parameters: Any, example: Any) -> Any:
        return jax.numpy.sum((parameters - example) ** 2)

    given = {"parameters": jax.numpy.ones(2), "data": (np.ones((96, 2), np.float32),), "loss": loss}
    assert program(with_dpsgd(8.0), "JAX", tmp_path, monkeypatch, **given)["run"].position == 48


@pytest.mark.slow
def test_a_sampled_design_has_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = poisson()
    text = " ".join(page_of(design, tmp_path).text.split())
    assert "The run draws the batches itself" in text
    code = snippets(design)[-1].code
    assert re.search(r"design\.run\(size, examples=len\(data\)", code)
    given = {"size": 2, "data": range(8), "total": np.zeros(2)}
    found = program(design, "any loop, with NumPy arrays", tmp_path / "saved", monkeypatch, **given)
    assert found["run"].position == 12
    assert math.isfinite(design.error)
