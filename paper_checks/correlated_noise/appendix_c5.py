"""Appendix C.5: the integrals of ν-DP-FTRL and anti-PGD, Lemma C.21 to Proposition C.24."""

from typing import Any

from corrnoise.paper_checks.certification import monotone
from corrnoise.paper_checks.correlated_noise.paper import PAPER
from corrnoise.paper_checks.domains import log_scale
from corrnoise.paper_checks.ledger import Sides
from corrnoise.theory import elliptic
from corrnoise.theory.arithmetic import arithmetic


@monotone(-1)
def diagonal(a: Any) -> Any:
    """I(a, a) = 2π/agm(a, 2 − a), decreasing: all means of a and 2 − a increase with a on (0, 1]."""
    return 2 * arithmetic(a).pi * elliptic.mean_inverse_modulus(a)


@PAPER.inequality(
    "Lemma C.21",
    part="(i)",
    printed=r"$I(a, a) \le 5 \log(8/a)$ for $0 < a < 1$",
    domain={"a": log_scale("1e-300", "1")},
    evidence="certified",
    outside="Below 1e-300: K(k) <= (1 + k'²/4) log(4/k') (Property F.10) gives I(a, a) <= 2.0001 log(8/a).",
    sharp="constant",
    mutants=[{"constant": "3.02"}],
)
def lemma_c21_diagonal(a: Any, constant: str = "5") -> Sides:
    """The sharp constant is 2π/log 8 = 3.0216, attained as a → 1; as a → 0 the ratio tends to 2."""
    m = arithmetic(a)
    return diagonal(a), m.number(constant) * m.log(8 / a)


@PAPER.inequality(
    "Lemma C.21",
    part="(ii)",
    printed=r"$I(a, b) \le \frac{128}{49} \log(8/a)\,(1 + O(a))$ for $a \le b \le 1/4$",
    domain={"b": log_scale("1e-9", "0.25"), "a": log_scale("1e-9", lambda b: b)},
    evidence="certified",
    outside="For all a <= b <= 1/4: |1 − a − e^{iω}|/|1 − b − e^{iω}| <= (2 − a)/(2 − b) at every ω, hence "
    "I(a, b) <= ((2 − a)/(2 − b))² I(a, a).",
    sharp="constant",
    mutants=[{"constant": "2.2"}],
)
def lemma_c21_off_diagonal(a: Any, b: Any, constant: str = "2.6123") -> Sides:
    """True without the factor 1 + O(a).  Checked with 128/49 rounded up; sharp is 2.2056, at a = b = 1/4."""
    m = arithmetic(a, b)
    return elliptic.modulus_ratio_integral(a, b), m.number(constant) * m.log(8 / a)
