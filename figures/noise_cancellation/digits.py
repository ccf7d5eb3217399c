"""Tables 1 and 2 in miniature: a single private pass over images of digits that are dealt out to machines.

M = 100 machines, softmax regression, per-example clipping.  Every algorithm, the one without privacy too, has the same
grid of learning rates and clip norms, tuned on validation images with seeds of its own, and is then run with other
seeds and judged on test images.  The budget is for the training images; tuning is not accounted for, as usual.

(a) Accuracy over the budget for m = 50, as Table 1; (b) over m at ρ = 8, as Table 2.  ρ is the paper's, sqrt(2 × zCDP).

Here on the digits that scikit-learn carries; ``PaperFigure.on_original_data`` fetches MNIST from OpenML.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.figures.simulation import in_processes
from corrnoise.simulations.noise_cancellation.images import Images, dealt_images
from corrnoise.simulations.noise_cancellation.run import simulate_federation
from corrnoise.solvers.noise_cancellation import named_noise
from corrnoise.theory.privacy import Budget

MACHINES = 100
BUDGETS = (4.0, 8.0, 12.0)
PARTICIPANTS = (20, 50, 80)
BUDGET = 8.0  #: of panel (b)
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)
CLIP_NORMS = (1.0, 3.0, 10.0)
MOMENTUM = 10.0  #: unit of the learning rates over T, with momentum
TUNING = (1000, 1001)  #: seeds
SEEDS = tuple(range(8))
LOOKS: dict[str, dict[str, Any]] = {
    "published": {"color": "C0", "marker": "o"},
    "constant": {"color": "C1", "marker": "s"},
    "best share": {"color": "C2", "marker": "^"},
    "nothing taken back": {"color": "C4", "marker": "v"},
    "noisy SGD": {"color": "C5", "marker": "x"},
    "no privacy": {"color": "black", "marker": "", "linestyle": ":"},
}
KINDS = ("mean test accuracy", "standard error", "tuned learning rate", "tuned clip norm")


def settings(algorithm: str, rounds: int, uses: int) -> dict[str, Any]:
    """The fields of the protocol that make an algorithm, and the learning rate in units of the grid."""
    if algorithm == "noisy SGD":
        return {"algorithm": "gradients", "learning_rate": 1.0}
    if algorithm == "no privacy":
        return {"noise": None, "learning_rate": MOMENTUM / rounds}
    return {"noise": named_noise(algorithm, uses), "learning_rate": MOMENTUM / rounds}


def accuracies(
    images: Images, algorithm: str, budget: float, participants: int, *, tuning: tuple[int, ...], seeds: tuple[int, ...]
) -> tuple[float, float, float, float]:
    """``KINDS`` of an algorithm: over ``seeds``, tuned with the seeds ``tuning``."""
    plain = images.protocol(Budget(1.0, adjacency="replace-one"), participants=participants, noise=None)
    fields = settings(algorithm, plain.rounds, plain.uses)
    unit = fields.pop("learning_rate")

    def accuracy(rate: float, clip_norm: float, seed: int, judged: Any) -> float:
        stated = Budget(budget**2 / 2, clip_norm=clip_norm, adjacency="replace-one")
        protocol = images.protocol(stated, participants=participants, learning_rate=rate * unit, **fields)
        return protocol.loss.accuracy(simulate_federation(protocol, images.training, seed=seed).point, *judged)

    def tuned(choice: tuple[float, float]) -> float:
        return float(np.mean([accuracy(*choice, seed, images.validation) for seed in tuning]))

    best = max(product(RATES, CLIP_NORMS), key=tuned)
    found = [accuracy(*best, seed, images.test) for seed in seeds]
    return (float(np.mean(found)), float(np.std(found, ddof=1) / len(seeds) ** 0.5), *best)


def data(
    images: Images | None = None,
    budgets: tuple[float, ...] = BUDGETS,
    participants: tuple[int, ...] = PARTICIPANTS,
    *,
    tuning: tuple[int, ...] = TUNING,
    seeds: tuple[int, ...] = SEEDS,
    jobs: int | None = None,
) -> Data:
    """``KINDS`` of all algorithms, on the digits by default.

    By so many processes; see ``in_processes``.
    """
    images = dealt_images("digits", MACHINES) if images is None else images
    panels = {
        "budget": [(budget, len(images.training) // 2) for budget in budgets],
        "participation": [(BUDGET, m) for m in participants],
    }
    cases = list(dict.fromkeys((name, *case) for name in LOOKS for held in panels.values() for case in held))
    one = partial(accuracies, images, tuning=tuning, seeds=seeds)
    computed = in_processes(one, cases, jobs)
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
            errors = curves[panel, method, "standard error"].y
            axes[panel].errorbar(s.x, 100 * s.y, yerr=200 * errors, label=method, capsize=2, **LOOKS[method])
    axes["budget"].set(title="(a)", xlabel=r"$\rho$", ylabel="Test accuracy in %")
    axes["participation"].set(title="(b)", xlabel="$m$")
    axes["budget"].legend()
    return figure


def report(data: Data) -> str:
    """Both tables, mean and standard error."""
    curves = {(s.panel, s.method, s.kind): s for s in data}
    lines = []
    for method in LOOKS:
        cells = []
        for panel in ("budget", "participation"):
            means = curves[panel, method, "mean test accuracy"].y
            errors = curves[panel, method, "standard error"].y
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
Test accuracy in % (standard error), one private pass, every algorithm tuned on the same grid:

{table}

{at_ends} of the {count} tuned values are at an end of the grid; all are in the file of the data."""


def _figure(*, original: bool = False) -> PaperFigure:
    """The figure on the digits, or on MNIST, which takes hours: fewer seeds, and one to tune with."""
    tuning = TUNING[:1] if original else TUNING
    seeds = SEEDS[:3] if original else SEEDS
    pictures = "MNIST" if original else "the bundled digits"
    panels = {
        "budget": "x = rho of the paper, sqrt(2 zCDP); y = test accuracy, its standard error, tuned values; m = M/2",
        "participation": f"x = m; y = test accuracy, its standard error, tuned values; rho = {BUDGET:g}",
    }
    count = "60000" if original else "1077"
    return PaperFigure(
        name="noise_cancellation_mnist" if original else "noise_cancellation_digits",
        source="Tables 1 and 2 of Reshef and Levy, ICML 2025" + ("" if original else ", on other data"),
        title=f"federated softmax regression on {pictures}: accuracy over the budget and over the participants",
        panels=panels,
        parameters=(
            f"M = {MACHINES}, {count} training images, each used once; pixels in [0, 1], diameter 10, clipping",
            f"grid: learning rates {RATES} (times {MOMENTUM:g}/T with momentum), clip norms {CLIP_NORMS}",
            f"tuned on validation images with {len(tuning)} seeds; error bars: two standard errors over {len(seeds)}",
        ),
        data=lambda: data(
            dealt_images("mnist", MACHINES, download=True) if original else None, tuning=tuning, seeds=seeds
        ),
        draw=draw,
        report=report,
        on_original_data=None if original else lambda: _figure(original=True),
    )


FIGURE = _figure()
