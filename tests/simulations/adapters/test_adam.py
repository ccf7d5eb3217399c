"""Adam without the variance of the noise: the class of the page, and the statement that is proved about it."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from tests.simulations.adapters.pages import script

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

COORDINATES = 40_000  # each is a run of its own
DEVIATION = 0.5  # sigma
STEPS = 6
SECOND = 0.8  # beta
SURE = 7.0  # standard errors; a false alarm has probability 3e-12
NOISES = {"independent": [1.0], "two": [1.0, -0.6], "three": [1.0, -0.5, -0.125]}


def toeplitz(coefficients: list[float]) -> np.ndarray:
    """N, shape (STEPS, STEPS)."""
    return sum(value * np.eye(STEPS, k=-lag) for lag, value in enumerate(coefficients))  # type: ignore[return-value]


class PublicNoise:
    """What the optimizer asks a run for."""

    def __init__(self, coefficients: list[float], *, correlated: bool = True) -> None:
        self.position = 0
        self._squares = np.square(coefficients if correlated else coefficients[:1])

    def noise_deviation(self, step: int) -> float:
        return DEVIATION * math.sqrt(self._squares[: step + 1].sum())


def moments(coefficients: list[float], slope: float, **options: Any) -> Any:
    """v_t - Phi_t of all coordinates after the last step; gradients are fixed, or ``slope`` times the parameter."""
    names: dict[str, Any] = {"torch": torch}
    (code,) = re.findall(r"\n(class CorrectedAdam.*?)\n\n\n", script("Adam"), re.DOTALL)
    exec(code, names)
    parameter = torch.nn.Parameter(torch.zeros(COORDINATES, dtype=torch.float64))
    optimizer = names["CorrectedAdam"]([parameter], lr=0.0, betas=(0.9, SECOND))
    run = optimizer.run = PublicNoise(coefficients, **options)
    noise = torch.tensor(DEVIATION * toeplitz(coefficients)) @ torch.randn(STEPS, COORDINATES, dtype=torch.float64)
    position = torch.ones(COORDINATES, dtype=torch.float64)
    for each in noise:
        parameter.grad = (slope * position if slope else torch.tensor(0.3)) + each
        position = position - 0.5 * parameter.grad
        run.position += 1
        optimizer.step()
    return optimizer.state[parameter]["square"] - optimizer.param_groups[0]["phi"]


def stated(coefficients: list[float], slope: float, *, cross: bool = True) -> float:
    """The right-hand side of the statement, by linear algebra of Gaussian variables."""
    noise = DEVIATION * toeplitz(coefficients)
    mean, total = 1.0, 0.0
    position: np.ndarray = np.zeros(STEPS)  # x_t is the mean plus a combination of z
    for step, row in enumerate(noise):
        gradient: tuple[float, np.ndarray] = (slope * mean, slope * position) if slope else (0.3, np.zeros(STEPS))
        past = np.where(np.arange(STEPS) < step, row, 0.0)
        value = gradient[0] ** 2 + gradient[1] @ gradient[1] + (2 * gradient[1] @ past if cross else 0.0)
        total += (1 - SECOND) * SECOND ** (STEPS - 1 - step) * value
        mean, position = mean - 0.5 * gradient[0], position - 0.5 * (gradient[1] + row)
    return float(total)


def far(found: Any, expected: float) -> float:
    """The distance of the mean from a number, in standard errors."""
    return abs(float(found.mean()) - expected) / float(found.std() / COORDINATES**0.5)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("slope", [0.0, 1.5])
def test_the_mean_of_the_corrected_moment_is_the_stated_one(name: str, slope: float) -> None:
    assert far(moments(NOISES[name], slope), stated(NOISES[name], slope)) < SURE


@pytest.mark.parametrize("name", ["two", "three"])
def test_correlated_noise_biases_the_moment_in_training(name: str) -> None:
    """So the mean of the squared gradients alone would be wrong, and so would the variance of one draw."""
    assert far(moments(NOISES[name], 1.5), stated(NOISES[name], 1.5, cross=False)) > 2 * SURE
    assert far(moments(NOISES[name], 0.0, correlated=False), stated(NOISES[name], 0.0)) > 2 * SURE
    assert stated(NOISES["independent"], 1.5) == stated(NOISES["independent"], 1.5, cross=False)
