"""The page of a design: ``design.html``, which needs no network and reads on a phone, in the dark and on paper.

It answers, in this order: which noise, and is it better than DP-SGD with Poisson batches?  What is the guarantee, in
words for a data-protection officer?  How is it run?  What does it cost?  What else was compared?
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from corrnoise.designs.alternatives import rows, tables
from corrnoise.designs.comparison import Comparison
from corrnoise.designs.design import Design
from corrnoise.designs.memory_figure import DESIGN, memory_picture
from corrnoise.designs.report import (
    for_other_libraries,
    in_words,
)
from corrnoise.figures.publication import Data, PaperFigure, Series, csv_text, svg_text
from corrnoise.solvers.sampled import DPSGD_POISSON
from corrnoise.support.version import __version__
from corrnoise.support.wording import bytes_in_words
from corrnoise.theory.participation import BallsInBins, RedrawnBins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDWIDTH = 10e9  #: bytes a second that one core reads and writes in main memory, for times
DRAWS = 2e8  #: normal draws that one core makes in a second, for times
SIZES = (10**6, 10**7, 10**9)  #: parameters of models whose costs are shown, if the size is not given
IN_ORDER = "the best whose batches are not sampled"
SLOW_SAMPLERS = BallsInBins | RedrawnBins  # whose accountants take long for one error
_EPSILON_GRID = np.geomspace(0.25, 16, 9)


def write_page(design: Design, folder: Path, comparison: Comparison | None, parameters: int | None) -> None:
    """Write ``design.html``, and ``epsilon.csv`` where DP-SGD was compared, to ``folder``."""
    from corrnoise.support.drawings import Drawings
    from corrnoise.support.pages import templates

    drawings = Drawings()
    pictures = [memory_picture(design)] if design.alternatives else []
    if design.dpsgd is not None:
        pictures.insert(0, epsilon_picture(design))
    drawn = []
    for picture in pictures:
        data = picture.data()
        drawn.append((picture.name, picture.title, drawings.add(svg_text(picture, data), picture.name, picture.title)))
        if picture.name == "epsilon":
            (folder / "epsilon.csv").write_text(csv_text(picture, data), encoding="utf-8", newline="")
    template = templates("corrnoise.designs").get_template("page.html")
    page = template.render(
        design=design,
        version=__version__,
        facts=design.facts(parameters),
        program=design.program(),
        promise=promise(design),
        conditions=conditions(design),
        snippets=snippets(design),
        costs=costs(design, SIZES if parameters is None else (parameters,)),
        bandwidth=BANDWIDTH,
        draws=DRAWS,
        pictures=drawn,
        shapes=drawings.shapes,
        tables=tables(rows(design)),
        libraries=for_other_libraries(design),
        comparison="" if comparison is None else in_words(comparison),
    )
    (folder / "design.html").write_text(page, encoding="utf-8", newline="")


# -- the guarantee -----------------------------------------------------------------------------------------------------


def promise(design: Design) -> str:
    """The guarantee in one paragraph, for people who answer for the data."""
    budget = design.budget
    who = design.participation.unit
    if budget.epsilon is None:
        delta = 1e-6
        epsilon = budget.epsilon_at(delta)
        name = f"{budget.rho:.6g}-zero-concentrated differential privacy, which is ({epsilon:.4g}, {delta:g})-"
    else:
        assert budget.delta is not None
        epsilon, delta = budget.epsilon, budget.delta
        name = f"({epsilon:g}, {delta:g})-"
    other = {
        "zero-out": f"whether or not the gradients of this {who} were used",
        "replace-one": f"whichever other {who} had stood in its place",
    }[budget.adjacency]
    factor, belief = math.exp(min(epsilon, 700.0)), 1 / (1 + math.exp(-min(epsilon, 700.0)))
    return (
        f"The whole run has {name}differential privacy for each {who}. Take any one {who}. Whoever sees all that the "
        "run releases, the trained model included, and also knows the code, the settings and all other data, sees "
        f"nearly the same {other}. No event becomes more than {_up(factor)} times as likely by it, up to a probability "
        f"of {delta:g}. Somebody who takes both cases for equally likely beforehand can afterwards be at most "
        f"{_up(100 * belief)} percent sure of one of them, up to that probability. The promise holds for the run as a "
        "whole and against any attack, also one that nobody knows yet, and nothing that is done with the model "
        "later weakens it."
    )


def _up(value: float) -> str:
    """Three digits, rounded up."""
    if value >= 1e6:
        return f"{value:.3g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(round(value / unit, 6)) * unit:.6g}"


def conditions(design: Design) -> list[str]:
    """The facts behind the guarantee."""
    budget = design.budget
    program = design.program()
    multiplier = program.multiplier(budget)
    by = "The loop sees to it."
    if design.participation.sampled:
        by = "The run draws the batches itself, from its secret key."
    return [
        f"The gradient of each example is clipped to norm {budget.clip_norm:g} before it is added to the sum of its "
        "step.",
        f"The data are visited as stated: {design.participation.summary()}. {by}",
        f"The independent noise of a step has the standard deviation {multiplier * budget.clip_norm:.6g} (multiplier "
        f"{multiplier:.6g}), and the noise that is added is made of it as the design says. Rounding errors of the "
        "program are covered.",
        "The key of the run, its folder and the gradients before noise stay secret.",
        "Data of the same people that are used otherwise have a budget of their own: to choose settings, to compute "
        "features or spectra, to validate in public.",
        "Normal variables are idealised real numbers, and times and power are not considered (docs/security.md).",
    ]


# -- how it is run -----------------------------------------------------------------------------------------------------


class Snippet(NamedTuple):
    """A program for one library."""

    library: str
    install: str
    code: str


_LOAD_LINES = 'import corrnoise as cn\n\ndesign = cn.load(".")  # the folder of this page\n'
_SAME_ARGUMENTS = "budget=design.budget, participation=design.participation, mechanism=design.mechanism"


def snippets(design: Design) -> list[Snippet]:
    """Programs that run the design, with everything filled in but the model and the data."""
    held = getattr(design.objective, "problem", design.objective)
    size = getattr(held, "batch_size", 1)
    needed = ", examples=len(data)" if design.participation.sampled else ""
    loop = (
        f'run = design.run(size{needed}, folder="my-run")  # size: the number of parameters\n'
        "for step in run:\n    noisy = run.add_noise(total)  # total: the SUM of the clipped gradients of the step\n"
    )
    found = [Snippet("any loop, with NumPy arrays", "corrnoise", _LOAD_LINES + loop)]
    if design.participation.steps is None:
        return found
    torch = (
        "import torch\n" + _LOAD_LINES + "loss = torch.nn.functional.cross_entropy\n"
        "run = cn.torch.make_private(\n    model, optimizer, data,  # data: (inputs, targets), or a data set of torch\n"
        f'    loss=loss, batch_size={size}, folder="my-run",\n    {_SAME_ARGUMENTS},\n)\n'
        "for batch in run:\n    run.step(batch)\n"
    )
    opacus = (
        "import torch\n" + _LOAD_LINES + "loss = torch.nn.functional.cross_entropy\n"
        "model, optimizer, criterion, loader = design.for_opacus(\n"
        f'    model, optimizer, data, loss=loss, batch_size={size}, folder="my-run"\n)\n'
        "for inputs, targets in loader:\n    optimizer.zero_grad()\n    criterion(model(inputs), targets).backward()\n"
        "    optimizer.step()\n"
    )
    jax = (
        "import optax\n" + _LOAD_LINES + "run = cn.jax.make_private(\n"
        "    parameters, optax.sgd(0.1), data,  # data: arrays, one row for each example\n"
        f'    loss=loss, batch_size={size}, folder="my-run",  # loss(parameters, *example)\n    {_SAME_ARGUMENTS},\n)\n'
        "for batch in run:\n    run.step(batch)\n"
    )
    return [
        Snippet("PyTorch", "corrnoise[torch]", torch),
        Snippet("Opacus", "corrnoise[torch]", opacus),
        Snippet("JAX", "corrnoise[jax]", jax),
        *found,
    ]


# -- costs -------------------------------------------------------------------------------------------------------------


def costs(design: Design, sizes: tuple[int, ...]) -> list[tuple[str, str, str]]:
    """For each size of a model: parameters, memory of the noise, and the time of its arrays and replays in a step.

    A step reads and writes each array that is kept, makes the earlier draws of replays again, and writes the noise.
    """
    itemsize = np.dtype(design.program().dtype).itemsize
    rows = []
    for size in sizes:
        seconds = (2 * design.memory + 1) * size * itemsize / BANDWIDTH + design.optimum.replays * size / DRAWS
        rows.append((f"{size:.3g}", bytes_in_words(design.memory * size * itemsize), f"{seconds:.2g} s"))
    return rows


# -- error over epsilon ------------------------------------------------------------------------------------------------


def epsilon_data(design: Design) -> Data:
    """The errors of the design and of DP-SGD with Poisson batches over ε, at the δ of the budget.

    Where the accountant of the design takes long, it is a point, next to the best noise whose batches are not sampled.
    """
    assert design.dpsgd is not None
    shown = {DESIGN: design.optimum, DPSGD_POISSON: design.dpsgd}
    ordered = [row for row in rows(design) if not row.optimum.participation.sampled]
    if design.participation.sampled and ordered:
        shown[IN_ORDER] = min(ordered, key=lambda row: row.error).optimum
    series = []
    for name, one in shown.items():
        slow = isinstance(one.participation, SLOW_SAMPLERS)
        grid = np.array([design.budget.epsilon]) if slow else np.union1d(_EPSILON_GRID, [design.budget.epsilon])
        at = [replace(design, budget=replace(design.budget, epsilon=float(value))) for value in grid]
        errors = np.array([each.error_of(one) for each in at])
        series.append(Series("epsilon", name, "exact" if one.exact else "upper bound", grid, errors))
    return tuple(series)


def _draw_epsilon(data: Data) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    ax = figure.subplots()
    looks: dict[str, dict[str, Any]] = {
        DESIGN: {"color": "black", "marker": "o"},
        DPSGD_POISSON: {"color": "C1", "marker": "X"},
        IN_ORDER: {"color": "C0", "linestyle": "--", "marker": "s"},
    }
    for s in data:
        ax.loglog(s.x, s.y, markersize=4, label=s.method, **looks[s.method])
    ax.set(xlabel="epsilon, at the delta of the budget", ylabel="error")
    ax.legend()
    return figure


def epsilon_picture(design: Design) -> PaperFigure:
    """The figure of errors over ε."""
    return PaperFigure(
        name="epsilon",
        source="corrnoise design",
        title="error of this design and of DP-SGD with Poisson batches over epsilon",
        panels={"epsilon": f"x = epsilon; y = {design.error_in_words}"},
        parameters=tuple(design.setting.values()),
        data=lambda: epsilon_data(design),
        draw=_draw_epsilon,
        report=lambda data: design.facts()["DP-SGD"],
    )
