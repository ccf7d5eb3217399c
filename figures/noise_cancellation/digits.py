"""Tables 1 and 2 in miniature: a single private pass over the digits that scikit-learn carries.

M = 100 machines with ten or eleven images each, softmax regression, per-example clipping.  Every algorithm has the same
grid of learning rates and clip norms, tuned on 360 validation images with seeds of its own, and is then run with other
seeds and judged on 360 test images.  The budget is for the training images; tuning is not accounted for, as usual.

(a) Accuracy over the budget for m = 50, as Table 1; (b) over m at ρ = 8, as Table 2.  ρ is the paper's, sqrt(2 × zCDP).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.figures.publication import PAGE_WIDTH, Data, PaperFigure, Series
from corrnoise.simulations.noise_cancellation.digits import Digits, digits, digits_protocol
from corrnoise.simulations.noise_cancellation.run import simulate_federation
from corrnoise.solvers.noise_cancellation import best_cancelling_noise
from corrnoise.theory.noise_cancellation.machine_noise import CancellingNoise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES = 100
BUDGETS = (4.0, 8.0, 12.0)
PARTICIPANTS = (20, 50, 80)
RATES = (0.1, 0.3, 1.0, 3.0)
CLIP_NORMS = (1.0, 3.0)
LOOKS: dict[str, dict[str, Any]] = {
    "published": {"color": "C0", "marker": "o"},
    "constant": {"color": "C1", "marker": "s"},
    "best share": {"color": "C2", "marker": "^"},
    "nothing taken back": {"color": "C4", "marker": "v"},
    "noisy SGD": {"color": "C5", "marker": "x"},
}


def settings(algorithm: str, rounds: int, uses: int) -> dict[str, Any]:
    """The fields of the protocol that make an algorithm, and the learning rate in units of the grid."""
    if algorithm == "noisy SGD":
        return {"algorithm": "gradients", "learning_rate": 1.0}
    noises = {
        "published": CancellingNoise(growth=1),
        "constant": CancellingNoise(),
        "best share": best_cancelling_noise(uses, "regret_energy"),
        "nothing taken back": CancellingNoise(share=0),
    }
    return {"noise": noises[algorithm], "learning_rate": 1 / rounds}


def accuracies(
    data: Digits, algorithm: str, budget: float, participants: int, tuning: tuple[int, ...], seeds: tuple[int, ...]
) -> list[float]:
    """The test accuracies of an algorithm with each of ``seeds``, tuned with the seeds ``tuning``."""
    images = sum(len(targets) for _, targets in data.training)
    rounds = max(1, images // participants)
    uses = min(rounds, max(len(targets) for _, targets in data.training))
    fields = settings(algorithm, rounds, uses)
    unit = fields.pop("learning_rate")

    def accuracy(rate: float, clip_norm: float, seed: int, judged: Any) -> float:
        protocol = digits_protocol(
            data,
            participants=participants,
            rho=budget**2 / 2,
            learning_rate=rate * unit,
            clip_norm=clip_norm,
            cap=uses,
            **fields,
        )
        return protocol.loss.accuracy(simulate_federation(protocol, data.training, seed=seed).point, *judged)

    def tuned(choice: tuple[float, float]) -> float:
        return float(np.mean([accuracy(*choice, seed, data.validation) for seed in tuning]))

    best = max(product(RATES, CLIP_NORMS), key=tuned)
    return [accuracy(*best, seed, data.test) for seed in seeds]


def data(
    machines: int = MACHINES,
    budgets: tuple[float, ...] = BUDGETS,
    participants: tuple[int, ...] = PARTICIPANTS,
    repetitions: int = 8,
) -> Data:
    """Mean test accuracies and their standard errors."""
    images = digits(machines)
    tuning = (1000, 1001)
    seeds = tuple(range(repetitions))
    series = []
    for algorithm in LOOKS:
        for panel, x, cases in (
            ("budget", budgets, [(budget, machines // 2) for budget in budgets]),
            ("participation", participants, [(8.0, m) for m in participants]),
        ):
            found = [accuracies(images, algorithm, *case, tuning, seeds) for case in cases]
            means = np.array([np.mean(values) for values in found])
            errors = np.array([np.std(values, ddof=1) / repetitions**0.5 for values in found])
            series.append(Series(panel, algorithm, "mean test accuracy", np.array(x, dtype=float), means))
            series.append(Series(panel, algorithm, "standard error", np.array(x, dtype=float), errors))
    return tuple(series)


def draw(data: Data) -> Figure:
    """Draw the panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE_WIDTH, 2.9), layout="constrained")
    axes = dict(zip(("budget", "participation"), figure.subplots(1, 2, sharey=True), strict=True))
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
    first = curves["budget", "published", "mean test accuracy"].x
    second = curves["participation", "published", "mean test accuracy"].x
    heads = [f"rho={x:g}" for x in first] + [f"m={x:g}" for x in second]
    table = "\n".join([" " * 23 + "  ".join(f"{head:<11}" for head in heads), *lines])
    return f"""\
Test accuracy in % (standard error), one private pass, every algorithm tuned on the same grid:

{table}"""


FIGURE = PaperFigure(
    name="noise_cancellation_digits",
    source="Tables 1 and 2 of Reshef and Levy, ICML 2025, on other data",
    title="federated softmax regression on the bundled digits: accuracy over the budget and over the participants",
    panels={
        "budget": "x = rho of the paper, sqrt(2 zCDP); y = test accuracy, and its standard error; m = M/2",
        "participation": "x = m; y = test accuracy, and its standard error; rho = 8",
    },
    parameters=(
        f"M = {MACHINES}, 1077 training images, each used once; features in [0, 1]^65, diameter 10, clipping",
        f"grid: learning rates {RATES} (over T with momentum), clip norms {CLIP_NORMS}, tuned with two seeds",
        "error bars are two standard errors over 8 seeds",
    ),
    data=data,
    draw=draw,
    report=report,
)

FIGURES = {FIGURE.name: FIGURE}
