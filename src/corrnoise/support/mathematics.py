r"""Statements as text: LaTeX between dollar signs becomes readable Unicode.

>>> plain(r"$I(a, b) \le \frac{128}{49} \log(8/a)$ for $a \le \nu_{\max}^{2}$")
'I(a, b) ≤ 128/49 log(8/a) for a ≤ νₘₐₓ²'
>>> plain(r"$\int_{-\pi}^{\pi} |B(\omega)|^2 d\omega = \frac{\sqrt{1 - \eta}}{1 + \nu}$")
'∫_(−π)^π |B(ω)|² dω = √(1 − η)/(1 + ν)'
"""

import re
from collections.abc import Iterator


def _table(*rows: str) -> dict[str, str]:
    """A table from rows of alternating names and symbols."""
    words = " ".join(rows).split()
    return dict(zip(words[::2], words[1::2], strict=True))


RELATIONS = _table(
    "le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ equiv ≡ sim ∼ propto ∝ ll ≪ gg ≫ lesssim ≲ gtrsim ≳ preceq ⪯ succeq ⪰",
    "prec ≺ succ ≻ in ∈ notin ∉ subset ⊂ subseteq ⊆ to → rightarrow → Rightarrow ⇒ implies ⇒ iff ⇔ mapsto ↦",
)
_OPERATION_SIGNS = _table(
    "pm ± mp ∓ times × cdot · otimes ⊗ oplus ⊕ odot ⊙ vee ∨ wedge ∧ cup ∪ cap ∩ setminus ∖ ast * circ ∘ mid |"
)
_SPACED_SIGNS = RELATIONS | _OPERATION_SIGNS
_SYMBOL_SIGNS = {
    **_table(
        "alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π",
        "rho ρ sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω varepsilon ε vartheta ϑ varphi φ varrho ϱ ell ℓ",
        "Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇",
        "sum ∑ prod ∏ int ∫ forall ∀ exists ∃ emptyset ∅ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉",
        "lVert ‖ rVert ‖ Vert ‖ lvert | rvert | vert | ldots … dots … cdots ⋯",
        "top ⊤ prime ′ star ⋆ lbrace { rbrace } | ‖",
    ),
    **dict.fromkeys(("mod", "bmod"), "mod "),
    **dict.fromkeys((*",;: \\", "quad", "qquad"), " "),
    **{"!": ""},
}
_FUNCTION_WORDS = (
    "log exp min max inf sup lim limsup liminf sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan "
    "ln det arg Pr deg dim ker gcd argmin argmax"
)
_FUNCTION_NAMES = tuple(_FUNCTION_WORDS.split())
_FONT_NAMES = (
    *("mathrm", "text", "operatorname", "mathbf", "mathcal", "mathit", "mathsf"),
    *("textbf", "textit", "boldsymbol"),
)
_ACCENT_SIGNS = _table(
    "hat \u0302 widehat \u0302 tilde \u0303 widetilde \u0303 bar \u0304 overline \u0304 vec \u20d7 dot \u0307"
)
_IGNORED_NAMES = ("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "limits")
_BLACKBOARD_LETTERS = _table("R ℝ E 𝔼 C ℂ N ℕ P ℙ Z ℤ Q ℚ 1 𝟙")
_FRACTION_SIGNS = {("1", "2"): "½", ("1", "4"): "¼", ("3", "4"): "¾", ("1", "3"): "⅓", ("2", "3"): "⅔"}
_RAISED_SIGNS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵀᵀ′ᵝᵞᵟ*"
_SUPERSCRIPT_OF = dict(zip("0123456789+−=()abcdefghijklmnoprstuvwxyzT⊤′βγδ*", _RAISED_SIGNS, strict=True))
_SUBSCRIPT_OF = dict(zip("0123456789+−=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ", strict=True))


def symbol(name: str) -> str:
    """The text of a LaTeX command, without the backslash; empty for one that sets a font, a space or a shape.

    >>> symbol("le"), symbol("sigma"), symbol("log"), symbol("frac")
    ('≤', 'σ', 'log', '')
    """
    return _SPACED_SIGNS.get(name) or _SYMBOL_SIGNS.get(name) or (name if name in _FUNCTION_NAMES else "")


def plain(text: str) -> str:
    """Prose with LaTeX between dollar signs and ``code`` between double backquotes, as Unicode text."""
    parts = text.replace("``", "").split("$")
    return "".join(_tidy(_group(tokens(part))) if k % 2 else part for k, part in enumerate(parts))


def tokens(latex: str) -> Iterator[str]:
    """Commands, blanks and single characters."""
    return iter(re.findall(r"\\[A-Za-z]+|\\.|\s+|.", latex, re.DOTALL))


def _group(tokens: Iterator[str]) -> str:
    """Everything up to the end or a closing brace."""
    found = ""
    for token in tokens:
        if token == "}":
            break
        piece = _atom(token, tokens)
        letters = token not in ("^", "_") and piece[:1].isalnum() and found[-1:].isalpha()
        apart = letters and (token[1:] in _FUNCTION_NAMES or found.endswith(_FUNCTION_NAMES))
        found += " " + piece if apart else piece
    return found


def _argument(tokens: Iterator[str]) -> str:
    """The next atom; blanks before it are skipped."""
    token = next((token for token in tokens if not token.isspace()), "")
    return _atom(token, tokens)


def _atom(token: str, tokens: Iterator[str]) -> str:
    """The text of the atom that starts with ``token``."""
    name = token[1:]
    if token == "{":
        return _group(tokens)
    if token in ("^", "_"):
        return _script(token, _tidy(_argument(tokens)))
    if not name or token.isspace():
        return {"-": "−", "'": "′", "~": " "}.get(token, " " if token.isspace() else token)
    if name in ("frac", "tfrac", "dfrac"):
        over, under = _tidy(_argument(tokens)), _tidy(_argument(tokens))
        return _FRACTION_SIGNS.get((over, under)) or f"{_over(over)}/{_one(under)}"
    if name == "binom":
        return f"C({_tidy(_argument(tokens))}, {_tidy(_argument(tokens))})"
    if name == "sqrt":
        return f"√{_one(_tidy(_argument(tokens)))}"
    if name in _ACCENT_SIGNS:
        inner = _argument(tokens)
        return inner + _ACCENT_SIGNS[name] if len(inner) == 1 else f"{name}({inner})"
    if name == "mathbb":
        return "".join(_BLACKBOARD_LETTERS.get(letter, letter) for letter in _argument(tokens))
    if name in _FONT_NAMES:
        return _argument(tokens)
    if name in _IGNORED_NAMES:
        return ""
    return f" {_SPACED_SIGNS[name]} " if name in _SPACED_SIGNS else _SYMBOL_SIGNS.get(name, name)


def _script(token: str, inner: str) -> str:
    """A superscript or subscript: Unicode letters if they all exist, otherwise after ^ or _."""
    small = _SUPERSCRIPT_OF if token == "^" else _SUBSCRIPT_OF
    tight = inner.replace(" ", "")
    if tight and all(letter in small for letter in tight):
        return "".join(small[letter] for letter in tight)
    simple = len(inner) == 1 or (token == "_" and inner.isalnum())
    return f"{token}{inner}" if simple else f"{token}({inner})"


def _over(text: str) -> str:
    """A numerator, in brackets if it is a sum or a product with blanks."""
    return text if re.fullmatch(r"[^\s+−±/]+|√?\w*\([^()]*\)", text) else f"({text})"


def _one(text: str) -> str:
    """``text``, in brackets unless it is a number, one letter with scripts and accents, or a function value."""
    hanging = (
        "["
        + re.escape("".join({*_SUPERSCRIPT_OF.values(), *_SUBSCRIPT_OF.values(), *_ACCENT_SIGNS.values()} - {"*"}))
        + "]*"
    )
    one = rf"[\d.]+|√?\w{hanging}(_\w+)?{hanging}|√?\w*\([^()]*\)|\|[^|]*\|{hanging}"
    return text if re.fullmatch(one, text) else f"({text})"


def _tidy(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("⟨ ", "⟨").replace(" ⟩", "⟩")
