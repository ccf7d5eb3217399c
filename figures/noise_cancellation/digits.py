"""Tables 1 and 2 in miniature: a single private pass over images of digits that are dealt out to clients.

M = 100 clients, softmax regression, clipping of each example.  Every algorithm, the one without privacy too, has the
same grid of learning rates and clip norms, tuned on validation images with a seed of its own in each split, and is then
run with other seeds and judged on test images.  A split deals other images out to train on and to tune on.  The budget
is for one training image; tuning is not accounted for, as usual.

(a) Accuracy over the budget for m = 50, as Table 1; (b) over m at ρ = 8, as Table 2.  ρ is the paper's, sqrt(2 × zCDP).

Here on the digits that scikit-learn carries; ``PaperFigure.on_original_data`` fetches MNIST from OpenML.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import t as student

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.figures.simulation import in_processes
from corrnoise.simulations.federation.images import Images, dealt_images
from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.federation.simulate import simulate_federation
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise
from corrnoise.theory.privacy import Budget

CLIENTS = 100
BUDGETS = (4.0, 8.0, 12.0)
PARTICIPANTS = (20, 50, 80)
BUDGET = 8.0  #: of panel (b)
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
CLIP_NORMS = (1.0, 3.0, 10.0)
MOMENTUM = 10.0  #: unit of the learning rates over T, with momentum
TUNING = 1000  #: seed
SPLITS, SEEDS = 8, 8  #: of each algorithm: splits, and seeds in each
LOOKS: dict[str, dict[str, Any]] = {
    "published": {"color": "C0", "marker": "o"},
    "constant": {"color": "C1", "marker": "s"},
    "best share": {"color": "C2", "marker": "^"},
    "two buffers": {"color": "C3", "marker": "d"},
    "no cancellation": {"color": "C4", "marker": "v"},
    "noisy SGD": {"color": "C5", "marker": "x"},
    "central": {"color": "0.5", "marker": "P"},
    "no privacy": {"color": "black", "marker": "", "linestyle": ":"},
}
KINDS = ("mean test accuracy", "half of the 95% interval", "tuned learning rate", "tuned clip norm")


def plan_of(images: Images, algorithm: str, budget: float, participants: int) -> Plan:
    """The plan of an algorithm, to be tuned: one pass, as long as all clients have examples."""
    uses = min(len(targets) for _, targets in images.training)
    rounds = max(1, uses * len(images.training) // participants)
    noises: dict[str, Any] = {
        "published": cancelling_noise(uses, growth=1),
        "constant": AntiPGD(0.0),
        "best share": "best-share",
        "two buffers": "two-buffers",
        "central": "two-buffers",
    }
    return Plan(
        images.name,
        images.loss,
        rounds=rounds,
        participants=participants,
        batch=1,
        per_pass=uses,
        passes=1,
        radius=5.0,
        learning_rate=1.0 if algorithm == "noisy SGD" else MOMENTUM / rounds,
        budget=Budget(budget**2 / 2, adjacency="replace-one"),
        unit="example",
        noise=noises.get(algorithm, DPSGD()),
        trust="central" if algorithm == "central" else "local",
    )


def accuracies(
    splits: Sequence[Images], algorithm: str, budget: float, participants: int, *, seeds: int
) -> tuple[float, float, float, float]:
    """``KINDS`` of an algorithm, from so many seeds in each split; the interval takes splits as independent."""
    plain = plan_of(splits[0], algorithm, budget, participants)
    plans = {
        (rate, clip_norm): replace(
            plain, learning_rate=rate * plain.learning_rate, budget=replace(plain.budget, clip_norm=clip_norm)
        )
        for rate, clip_norm in product(RATES, CLIP_NORMS)
    }

    def accuracy(choice: tuple[float, float], seed: int, images: Images, judged: Any) -> float:
        end = simulate_federation(
            plans[choice],
            images.training,
            seed=seed,
            algorithm="gradients" if algorithm == "noisy SGD" else "corrections",
            scale=0.0 if algorithm == "no privacy" else None,
        )
        return images.loss.accuracy(end.point, *judged)

    def tuned(choice: tuple[float, float]) -> float:
        return float(np.mean([accuracy(choice, TUNING + i, each, each.validation) for i, each in enumerate(splits)]))

    best = max(plans, key=tuned)
    found = [
        np.mean([accuracy(best, i * seeds + seed, each, each.test) for seed in range(seeds)])
        for i, each in enumerate(splits)
    ]
    error = np.std(found, ddof=1) / len(splits) ** 0.5
    return (float(np.mean(found)), float(student.ppf(0.975, len(splits) - 1) * error), *best)


def data(
    splits: Sequence[Images] | None = None,
    budgets: tuple[float, ...] = BUDGETS,
    participants: tuple[int, ...] = PARTICIPANTS,
    *,
    seeds: int = SEEDS,
    jobs: int | None = None,
) -> Data:
    """``KINDS`` of all algorithms, on the digits by default.

    By so many processes; see ``in_processes``.
    """
    splits = [dealt_images("digits", CLIENTS, split=i) for i in range(SPLITS)] if splits is None else splits
    panels = {
        "budget": [(budget, len(splits[0].training) // 2) for budget in budgets],
        "participation": [(BUDGET, m) for m in participants],
    }
    cases = list(dict.fromkeys((name, *case) for name in LOOKS for held in panels.values() for case in held))
    computed = in_processes(partial(accuracies, splits, seeds=seeds), cases, jobs)
    found = dict(zip(cases, computed, strict=True))
    return tuple(
        Series(panel, name, kind, np.array(x, dtype=float), np.array([found[name, *case][k] for case in panels[panel]]))
        for name in LOOKS
        for panel, x in (("budget", budgets), ("participation", participants))
        for k, kind in enumerate(KINDS)
    )


def draw(data: Data) -> Drawing:
    """Draw the panels side by side."""
    figure, grid = subplots(2.9, 1, 2, sharey=True)
    axes = dict(zip(("budget", "participation"), grid, strict=True))
    curves = {(s.panel, s.method, s.kind): s for s in data}
    for (panel, method, kind), s in curves.items():
        if kind == "mean test accuracy":
            bars = curves[panel, method, KINDS[1]].y
            axes[panel].errorbar(s.x, 100 * s.y, yerr=100 * bars, label=method, capsize=2, **LOOKS[method])
    axes["budget"].set(title="(a)", xlabel=r"$\rho$", ylabel="Test accuracy in %")
    axes["participation"].set(title="(b)", xlabel="$m$")
    axes["budget"].legend()
    return figure


def report(data: Data) -> str:
    """Both tables, mean and half of the 95% interval."""
    curves = {(s.panel, s.method, s.kind): s for s in data}
    lines = []
    for method in LOOKS:
        cells = []
        for panel in ("budget", "participation"):
            means = curves[panel, method, "mean test accuracy"].y
            errors = curves[panel, method, KINDS[1]].y
            cells += [f"{100 * y:5.1f} ({100 * e:3.1f})" for y, e in zip(means, errors, strict=True)]
        lines.append(f"  {method:<20} " + "  ".join(cells))
    tuned = [s for s in data if s.kind.startswith("tuned")]
    ends = {"tuned learning rate": (RATES[0], RATES[-1]), "tuned clip norm": (CLIP_NORMS[0], CLIP_NORMS[-1])}
    at_ends = sum(int(np.isin(s.y, ends[s.kind]).sum()) for s in tuned)
    count = sum(s.y.size for s in tuned)
    first = curves["budget", "published", "mean test accuracy"].x
    second = curves["participation", "published", "mean test accuracy"].x
    heads = [f"rho={x:g}" for x in first] + [f"m={x:g}" for x in second]
    table = "\n".join([" " * 23 + "  ".join(f"{head:<11}" for head in heads), *lines])
    return f"""\
Test accuracy in % (half of the 95% interval), one private pass, every algorithm tuned on the same grid:

{table}

{at_ends} of the {count} tuned values are at an end of the grid; all are in the file of the data."""


def _figure(*, original: bool = False) -> PaperFigure:
    """The figure on the digits, or on MNIST, which takes hours: fewer splits and seeds."""
    splits, seeds = (2, 2) if original else (SPLITS, SEEDS)
    pictures, count = ("MNIST", 60000) if original else ("the bundled digits", 1000)

    def made() -> Data:
        name = "mnist" if original else "digits"
        held = [dealt_images(name, CLIENTS, split=i, download=original) for i in range(splits)]
        return data(held, seeds=seeds)

    return PaperFigure(
        name="noise_cancellation_mnist" if original else "noise_cancellation_digits",
        source="Tables 1 and 2 of Reshef and Levy, ICML 2025" + ("" if original else ", on other data"),
        title=f"federated softmax regression on {pictures}: accuracy over the budget and over the participants",
        panels={
            "budget": "x = rho of the paper, sqrt(2 zCDP); y = test accuracy, its interval, tuned values; m = M/2",
            "participation": f"x = m; y = test accuracy, its interval, tuned values; rho = {BUDGET:g}",
        },
        parameters=(
            f"M = {CLIENTS}, {count} training images, each used once at most; pixels in [0, 1], diameter 10, clipping",
            f"grid: learning rates {RATES} (times {MOMENTUM:g}/T with momentum), clip norms {CLIP_NORMS}",
            f"tuned on validation images, a seed a split; bars: 95% of Student's t over {splits} splits of {seeds}",
        ),
        data=made,
        draw=draw,
        report=report,
        on_original_data=None if original else lambda: _figure(original=True),
    )


FIGURE = _figure()
