"""What the captions of Figures 1 to 3 state, by the data behind our drawings of them."""

from functools import cache

import numpy as np

from corrnoise.figures import linear_regression, mean_estimation
from corrnoise.paper_checks.correlated_noise.paper import PAPER
from corrnoise.paper_checks.domains import linear, log_scale, one_of
from corrnoise.paper_checks.ledger import Sides


@PAPER.inequality(
    "Figure 1",
    part="(never worse)",
    printed="DP-FTRL is never worse than DP-SGD for mean estimation",
    domain={"rate": log_scale(1e-12, 1)},
    mutants=[{"one": 0.99}],
)
def figure_1_never_worse(rate: float, one: float = 1.0) -> Sides:
    """Equal at η = 1, where both are the same algorithm."""
    return mean_estimation.error_ratio(rate), one


@PAPER.inequality(
    "Figure 1",
    part="(η → 0)",
    printed=r"DP-FTRL is orders of magnitude better at $\eta \to 0$",
    domain={"rate": log_scale(1e-12, 1e-4)},
    sharp="constant",
    mutants=[{"constant": 0.2}],
)
def figure_1_small(rate: float, constant: float = 0.5) -> Sides:
    """The ratio is equivalent to (2/π²) η log²(1/η)."""
    return mean_estimation.error_ratio(rate), float(constant) * rate * np.log(1 / rate) ** 2


@PAPER.inequality(
    "Figure 1",
    part="(η → 1)",
    printed=r"DP-FTRL is orders of magnitude better at $\eta \to 1$",
    corrected=r"As $\eta \to 1$ the ratio tends to 1, like $1 - \frac{1}{2} (1 - \eta)^2$",
    domain={"rate": linear(0.5, 1)},
    as_printed={"published": 0.1},
    counterexample={"rate": 0.99},
    mutants=[{"half": 0.4}],
)
def figure_1_large(rate: float, half: float = 0.55, published: float | None = None) -> Sides:
    """Ratio 0.8638 at η = ½, 0.9950 at 0.9, 0.99995 at 0.99."""
    exact = mean_estimation.error_ratio(rate)
    return (exact, published) if published is not None else (1 - half * (1 - rate) ** 2, exact)


@cache
def slopes() -> dict[tuple[str, str], float]:
    """Slopes of the exact curves of Figure 2, by panel and method."""
    return {(s.panel, s.method): linear_regression.slope(s) for s in linear_regression.data() if s.kind == "exact"}


PRINTED = dict(linear_regression.PAPER_SLOPES)


@PAPER.inequality(
    "Figure 2",
    part="(slopes)",
    printed="Slopes 1.00 in $d$ and 0.18 in $d_{eff}$ for Noisy-SGD, 0.94 in $d_{eff}$ for Noisy-FTRL; 1.27 and 2.03 in $\\eta$",
    domain={"which": one_of(*PRINTED)},
    mutants=[{"most": 0.005}],
    evaluations=16,
)
def figure_2_slopes(which: tuple[str, str], most: float = 0.015) -> Sides:
    """The slopes of the exact curves agree with what was observed, to 0.015: 1.008, 0.170, 0.942, 1.264, 2.024."""
    return abs(slopes()[which] - PRINTED[which]), most


@PAPER.inequality(
    "Figure 2",
    part="(bounds)",
    printed="The slopes of the empirical and theoretical lines are nearly equal",
    corrected="In the effective dimension the stated bound η² Tr[H] log²(1/(ημ)) of Noisy-FTRL has slope 0.53, the error 0.94",
    domain={"exponent": linear(0.4, 1.0)},
    as_printed={"nearly": 0.1},
    counterexample={"exponent": 1.0},
    mutants=[{"nearly": 0.2}],
    evaluations=16,
)
def figure_2_bounds(exponent: float, nearly: float = 0.5) -> Sides:
    """Between α = 0.4 and 1, d = 128, η = 0.02: log(μ) changes along with d_eff, and takes away from the bound's slope."""
    ends = []
    for a in (0.4, max(exponent, 0.5)):
        eigenvalues = np.arange(1.0, 129) ** -a
        ends.append((np.log(eigenvalues.sum()), np.log(eigenvalues.sum() * np.log(1 / (0.02 * eigenvalues[-1])) ** 2)))
    (x0, y0), (x1, y1) = ends
    key = next(k for k in PRINTED if abs(PRINTED[k] - 0.94) < 1e-9)
    return abs((y1 - y0) / (x1 - x0) - slopes()[key]), nearly
