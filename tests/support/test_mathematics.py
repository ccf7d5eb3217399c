"""LaTeX as readable Unicode."""

import pytest

from corrnoise.support.mathematics import plain


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"a \le b", "a ≤ b"),
        (r"a\le b", "a ≤ b"),
        (r"x^2 + y^{-1}", "x² + y⁻¹"),
        (r"x^{n+1}_{t-1}", "xⁿ⁺¹ₜ₋₁"),
        (r"x^{-1/2}", "x^(−1/2)"),
        (r"e^{i\omega}", "e^(iω)"),
        (r"\sigma_{sgd}^2", "σ_sgd²"),
        (r"F_\infty", "F_∞"),
        (r"\sum_{t=0}^{T-1} \beta_t", "∑ₜ₌₀ᵀ⁻¹ βₜ"),
        (r"\frac{1}{2} \theta", "½ θ"),
        (r"\frac{a + b}{c}", "(a + b)/c"),
        (r"\frac{a}{b c}", "a/(b c)"),
        (r"\frac{1}{2\pi}", "1/(2π)"),
        (r"\frac{1}{\sqrt{d}}", "1/√d"),
        (r"\frac{1}{\sqrt{1 - k^2}}", "1/√(1 − k²)"),
        (r"\frac 1 b", "1/b"),
        (r"\sqrt{2K}", "√(2K)"),
        (r"\sqrt{\log(8/a)}", "√log(8/a)"),
        (r"\hat\beta_\nu", "β̂_ν"),
        (r"\tilde{h}", "h̃"),
        (r"\hat{ab}", "hat(ab)"),
        (r"\mathrm{Tr}[H]", "Tr[H]"),
        (r"\mathbb{E} \|x\|^2", "𝔼 ‖x‖²"),
        (r"\left(\frac{b}{a}\right)^{|l|}", "(b/a)^(|l|)"),
        (r"x \log^2 x", "x log² x"),
        (r"2\log x\sin y", "2log x sin y"),
        (r"\inf_\beta F", "infᵦ F"),
        (r"\langle \beta, T \beta \rangle", "⟨β, T β⟩"),
        (r"\{1, \ldots, n\}", "{1, …, n}"),
        (r"A^\top", "Aᵀ"),
        (r"f(x)\, dx", "f(x) dx"),
        (r"\binom{1/2}{t}", "C(1/2, t)"),
        (r"\beta^*", "β*"),
        (r"G'(\omega)", "G′(ω)"),
        (r"\unknown x", "unknown x"),
    ],
)
def test_mathematics(latex, text):
    assert plain(f"${latex}$") == text


def test_prose_stays_and_code_loses_its_quotes():
    assert plain(r"For $a - b$: a - b and ``log`` of \alpha.") == r"For a − b: a - b and log of \alpha."
    assert plain("") == ""
