"""Appendix C.4: lower bounds of the error of linear regression, Theorem C.18 to Proposition C.20."""

from corrnoise.paper_checks.correlated_noise.paper import PAPER
from corrnoise.paper_checks.domains import noises, regressions
from corrnoise.paper_checks.ledger import Sides
from corrnoise.theory.bounds import theorem_c18_lower_bound
from corrnoise.theory.problems import LinearRegression
from corrnoise.theory.product_noise import DPSGD
from corrnoise.theory.toeplitz_noise import ToeplitzNoise


@PAPER.inequality(
    "Theorem C.18",
    part="(one noise)",
    printed=r"$F_\infty \ge \frac{\eta \sigma_{sgd}^2}{2} \mathrm{Tr}[H]"
    r" + \frac{\eta^2 G^2 \gamma_\infty^2}{4 \pi \rho} \int_{-\pi}^{\pi} |B(\omega)|^2 h(\omega)\, d\omega$",
    corrected=r"half of that, where $F(\theta) - F_* = \frac{1}{2} \|\theta - \theta_*\|_H^2$",
    domain={"problem": regressions(), "noise": noises()},
    sharp="factor",
    as_printed={"factor": 2.0},
    counterexample={"problem": LinearRegression([1.0], 0.01), "noise": DPSGD()},
    mutants=[{"factor": 1.001}],
)
def theorem_c18_one_noise(problem: LinearRegression, noise: ToeplitzNoise, factor: float = 1.0) -> Sides:
    """True as printed under the convention of equation (22), which has no ½; (6), (8) and (86) have it."""
    return float(factor) * theorem_c18_lower_bound(problem, noise), problem.stationary_error(noise)
