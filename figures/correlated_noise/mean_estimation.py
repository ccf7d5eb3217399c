"""Figure 1 of arXiv 2310.06771: mean estimation, with the noise that is optimal for it.

In one dimension the noise coefficients β* of ν-DP-FTRL at ν = η, B*(z) = sqrt(1 − (1 − η) z), minimise the stationary
error due to privacy among all noise.  Relative to DP-SGD the error is

    F(DP-FTRL)/F(DP-SGD) = η (2 − η) γ_∞⁴ = η (2 − η)/agm(η, 2 − η)²,

increasing from 0 to 1 on 0 < η <= 1, asymptotically (2/π²) η log²(1/η) as η → 0.  The other panels show β* in time,
−β*_t ~ t^{−3/2}/(2 sqrt(π)) until t ≈ 1/η, and in frequency, |B*(ω)| = (η² + 4 (1 − η) sin²(ω/2))^{1/4}, a high-pass
filter between sqrt(η) and sqrt(2 − η).

Source: Choquette-Choo et al., arXiv 2310.06771: Theorem 2.1 and Figure 1.
"""

from typing import Any

import numpy as np

from corrnoise.figures.publication import Data, Drawing, PaperFigure, Series, subplots
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import MeanEstimation

RATES_SHOWN = (1e-1, 1e-2, 1e-3, 1e-4)  #: η of the panels in time and frequency
LAST_STEP = 100_000
SMALLEST_COEFFICIENT = 1e-10  #: smaller ones are left out
LOWEST_FREQUENCY = 1e-5  #: radians a step


def error_ratio(learning_rate: float) -> float:
    """F(ν-DP-FTRL, ν = η)/F(DP-SGD) of mean estimation without sampling noise, 0 < η <= 1, exact."""
    problem = MeanEstimation(checks.real("learning_rate", learning_rate, "(0, 1]"))
    return problem.stationary_error(NuFTRL(problem.learning_rate)) / problem.stationary_error(DPSGD())


def asymptotic_ratio(learning_rates: Array) -> Array:
    """(2/π²) η log²(1/η), which ``error_ratio`` approaches as η → 0; it is 0 at η = 1, where the ratio is 1."""
    return 2 / np.pi**2 * learning_rates * np.log(learning_rates) ** 2


def data(points: int = 160) -> Data:
    """The curves of the three panels, with about ``points`` points each."""
    points = checks.integer("points", points, 2)
    below_one = 1 - np.geomspace(1e-3, 0.1, points // 4 + 1)  # here the two forms part
    rates = np.unique(np.concatenate([np.geomspace(1e-6, 1.0, points), below_one]))
    steps = np.unique(np.geomspace(1, LAST_STEP, points).round())
    frequencies = np.geomspace(LOWEST_FREQUENCY, np.pi, points)
    series = [
        Series("ratio", "DP-FTRL / DP-SGD", "exact", rates, np.array([error_ratio(eta) for eta in rates])),
        Series("ratio", "DP-FTRL / DP-SGD", "asymptotic", rates[:-1], asymptotic_ratio(rates[:-1])),
        Series("coefficients", "eta = 0", "asymptotic", steps, steps**-1.5 / (2 * np.sqrt(np.pi))),
        Series("spectrum", "eta = 0", "asymptotic", frequencies, np.sqrt(2 * np.sin(frequencies / 2))),
    ]
    for eta in RATES_SHOWN:
        noise = NuFTRL(eta)
        beta = noise.coefficients(LAST_STEP + 1)[steps.astype(int)]
        kept = -beta >= SMALLEST_COEFFICIENT
        modulus = np.sqrt(noise.power_spectrum(frequencies))
        series += [
            Series("coefficients", f"eta = {eta:g}", "exact", steps[kept], -beta[kept]),
            Series("spectrum", f"eta = {eta:g}", "exact", frequencies, modulus),
        ]
    return tuple(series)


def draw(data: Data) -> Drawing:
    """Draw the three panels side by side."""
    dotted = {"color": "black", "linestyle": ":", "linewidth": 1.1, "zorder": 3}
    lines: dict[str, dict[str, Any]] = {"DP-FTRL / DP-SGD": {"color": "black"}}
    for i, (eta, line) in enumerate(zip(RATES_SHOWN, ["-", "--", "-.", (0, (3, 1, 1, 1, 1, 1))], strict=True)):
        label = rf"$\eta = 10^{{{round(np.log10(eta))}}}$"
        lines[f"eta = {eta:g}"] = {"color": f"C{i}", "linestyle": line, "label": label}

    figure, grid = subplots(2.4, 1, 3)
    panels = dict(zip(("ratio", "coefficients", "spectrum"), grid, strict=True))
    for s in data:
        panels[s.panel].loglog(s.x, s.y, **(lines[s.method] if s.kind == "exact" else dotted))

    ratio, time, spectrum = panels.values()
    ratio.set(title="(a)", xlabel=r"Learning rate $\eta$", ylabel=r"$F_\infty$(DP-FTRL) / $F_\infty$(DP-SGD)")
    ratio.set(xlim=(1e-6, 1.3), ylim=(1e-5, 2))
    ratio.text(1.5e-4, 6e-3, "exact", ha="right")
    ratio.text(4e-4, 8e-4, r"$(2/\pi^2)\,\eta\,\log^2(1/\eta)$", ha="left")
    time.set(title="(b)", xlabel=r"Step $t$", ylabel=r"Noise coefficient $-\beta^*_t$")
    time.set(xlim=(1, LAST_STEP), ylim=(1e-9, 1))
    time.text(3e2, 1e-3, r"$t^{-3/2}/(2\sqrt{\pi})$", ha="left")
    spectrum.set(title="(c)", xlabel=r"Frequency $\omega$ [rad/step]", ylabel=r"Modulus $|B^*\!(\omega)|$")
    spectrum.set(xlim=(LOWEST_FREQUENCY, np.pi), ylim=(5e-3, 2))
    spectrum.text(1e-2, 5e-2, r"$\sqrt{2\,\sin(\omega/2)}$", ha="left")
    handles, labels = time.get_legend_handles_labels()
    figure.legend(
        [*handles, ratio.lines[1]], [*labels, r"limiting form as $\eta \to 0$"], loc="outside lower center", ncols=5
    )
    return figure


def report(_: Data) -> str:
    """The statement of Figure 1's caption about the two ends, next to the exact ratio."""
    shown = "\n".join(
        f"  {eta:<8g} {error_ratio(eta):<14.6g} {asymptotic_ratio(np.array(eta)):.6g}"
        for eta in (1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99, 1.0)
    )
    return f"""\
Ratio of the errors of DP-FTRL and DP-SGD, exact and as (2/pi^2) eta log^2(1/eta):

  eta      exact          asymptotic
{shown}

Where it differs from the paper:
- The exact ratio increases to 1 as eta -> 1, where both algorithms are the same; 1 - ratio is about (1 - eta)^2/2.
  The caption says that DP-FTRL is orders of magnitude better at eta -> 0 or eta -> 1: it is at eta -> 0.
  The form eta log^2(1/eta) of Theorem 2.1 vanishes at both ends; it describes the ratio for eta -> 0 only."""


FIGURE = PaperFigure(
    name="mean_estimation",
    source="Figure 1 of arXiv 2310.06771",
    title="optimal noise for mean estimation: error relative to DP-SGD, coefficients, spectrum",
    panels={
        "ratio": "x = learning rate eta; y = F(DP-FTRL)/F(DP-SGD), the errors due to privacy, nu = eta",
        "coefficients": "x = step t >= 1; y = -beta*_t, noise coefficients with beta*_0 = 1",
        "spectrum": "x = frequency omega in radians a step; y = |B*(omega)|",
    },
    parameters=(
        "asymptotic, as eta -> 0: ratio (2/pi^2) eta log^2(1/eta), coefficients t^(-3/2)/(2 sqrt(pi)), "
        "spectrum sqrt(2 sin(omega/2))",
        "privacy budget, clip norm: any; sampling noise: none",
    ),
    data=data,
    draw=draw,
    report=report,
)
