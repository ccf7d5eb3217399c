"""Test accuracy of Adam with and without the variance of the noise, against SGD, on digits.

    python -m benchmarks.adam [--seeds 16]

Each optimizer gets the best of its learning rates on four seeds that do not count afterwards.  The table has the mean
accuracy of SGD, and the mean paired difference of the others with half of its 95 % interval (Student's t).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.datasets import load_digits

import corrnoise as cn

_TUNING_SEEDS = 4
_TRAINED_ROWS = 1437
_BATCH_ROWS = 71
_USED_EPOCHS = 4
_PAGE = Path(__file__).parents[1] / "docs/adam.md"


def corrected_adam() -> Any:
    """The class of the page on Adam."""
    names: dict[str, Any] = {"torch": torch}
    (code,) = re.findall(r"\n(class CorrectedAdam.*?)\n\n\n", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(code, names)
    return names["CorrectedAdam"]


CORRECTED = corrected_adam()
OPTIMIZERS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "SGD, momentum 0.9": (lambda weights, lr: torch.optim.SGD(weights, lr=lr, momentum=0.9), (0.1, 0.3, 1.0)),
    "Adam": (lambda weights, lr: torch.optim.Adam(weights, lr=lr, betas=(0.9, 0.99)), (0.003, 0.01, 0.03)),
    "Adam, corrected": (lambda weights, lr: CORRECTED(weights, lr=lr), (0.003, 0.01, 0.03)),
}


def accuracy(optimizer: str, lr: float, epsilon: float, mechanism: Any, seed: int) -> float:
    """Test accuracy in percent after a private run."""
    torch.manual_seed(seed)
    images, digits = load_digits(return_X_y=True)
    inputs, targets = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(digits)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    made = OPTIMIZERS[optimizer][0](model.parameters(), lr)
    run = cn.torch.make_private(
        model,
        made,
        (inputs[:_TRAINED_ROWS], targets[:_TRAINED_ROWS]),
        loss=torch.nn.functional.cross_entropy,
        budget=cn.Budget(epsilon=epsilon, delta=1e-5),
        batch_size=_BATCH_ROWS,
        epochs=_USED_EPOCHS,
        mechanism=mechanism,
    )
    made.run = run
    for batch in run:
        run.step(batch)
    found = model(inputs[_TRAINED_ROWS:]).argmax(dim=1) == targets[_TRAINED_ROWS:]
    return 100 * float(found.float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=16)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    epochs = cn.Participation.fixed_epochs(_TRAINED_ROWS // _BATCH_ROWS * _USED_EPOCHS, epochs=_USED_EPOCHS)
    for epsilon in (2.0, 8.0):
        noise = cn.default_noise(epochs, cn.Budget(epsilon=epsilon, delta=1e-5))
        found = {}
        for name, (_, rates) in OPTIMIZERS.items():

            def mean(lr: float, name: str = name) -> float:
                chosen = range(1000, 1000 + _TUNING_SEEDS)
                return float(np.mean([accuracy(name, lr, epsilon, noise, each) for each in chosen]))  # noqa: B023

            best = max(rates, key=mean)
            found[name] = np.array([accuracy(name, best, epsilon, noise, each) for each in range(seeds)])
            difference = found[name] - found["SGD, momentum 0.9"]
            half = stats.t.ppf(0.975, seeds - 1) * difference.std(ddof=1) / seeds**0.5
            print(
                f"epsilon {epsilon:g}, {name}, rate {best:g}: {found[name].mean():.2f}, "
                f"difference {difference.mean():+.2f} ± {half:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
