r"""Texts of the ledger as HTML: MathML for LaTeX between dollar signs, subscripts and superscripts in the prose.

>>> prose("γ_∞² <= ``x`` for all e^{−ηt}")
Markup('γ<sub>∞</sub>² ≤ <code>x</code> for all e<sup>−ηt</sup>')

Browsers do not break a line inside a formula, so a formula is divided into several at its relations.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache

from markupsafe import Markup, escape

from corrnoise.support.extras import extra_module
from corrnoise.support.mathematics import RELATIONS, tokens

convert: Callable[..., str] = extra_module("latex2mathml.converter", "ledger").convert

_GROUP_DEPTH = {"{": 1, r"\left": 1, "}": -1, r"\right": -1}
_BRACKET_DEPTH = {"(": 1, "[": 1, r"\{": 1, r"\langle": 1, ")": -1, "]": -1, r"\}": -1, r"\rangle": -1}
_BAR_TOKENS = {"|", r"\|"}
_RELATION_TOKENS = {*"=<>,;", *(rf"\{name}" for name in RELATIONS)}
_TERM_SIGNS = {"+", "-", r"\pm"}
_MAX_SUM_LENGTH = 24  #: a piece longer than this many characters of LaTeX is cut at the next sign
_MIN_PIECE_LENGTH = 4  # characters of LaTeX up to a relation where a line may break
_MAX_PIECE_LETTERS = 24  #: a piece of more letters may be wider than a narrow screen and gets its own scroll bar


def prose(text: str, link: Callable[[str], Markup] = escape) -> Markup:
    """A text of the ledger, with LaTeX between dollar signs and ``code`` between double backquotes, as HTML.

    ``link`` returns the HTML for a mention of a document, such as ``docs/exact-errors.md#n3``.
    """
    pieces = re.split(
        r"\$([^$]*)\$|``([^`]*)``|(docs/[\w-]+\.md(?:#[\w-]+)?)", re.sub(r"``(docs/[^`]*)``", r"\1", text)
    )
    found = Markup()
    for k in range(0, len(pieces), 4):
        found += scripts(pieces[k])
        formula, code, document = pieces[k + 1 : k + 4] or (None, None, None)
        if formula is not None:
            found += mathematics(formula)
        elif code is not None:
            found += Markup("<code>{}</code>").format(code)
        elif document is not None:
            found += link(document)
    return found


def paragraphs(text: str, link: Callable[[str], Markup] = escape) -> Markup:
    """The paragraphs of a text, which are separated by blank lines."""
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text.strip()))
    return Markup().join(Markup("<p>{}</p>").format(prose(block, link)) for block in blocks if block)


# -- prose -------------------------------------------------------------------------------------------------------------

_SCRIPT_PATTERN = re.compile(r"(?<=\S)([_^])(?:\{([^{}]*)\}|([A-Za-z0-9]+|[α-ωΑ-Ω∞½*]))")
_TYPED_SIGNS = {"<=": "≤", ">=": "≥", "sqrt(": "√(", "sqrt ": "√"}


def scripts(text: str) -> Markup:
    """Prose with ``x_k`` and ``x^{n+1}`` as subscripts and superscripts."""
    for sign, shown in _TYPED_SIGNS.items():
        text = text.replace(sign, shown)
    found = Markup()
    end = 0
    for script in _SCRIPT_PATTERN.finditer(text):
        tag = "sub" if script[1] == "_" else "sup"
        inner = script[3] if script[2] is None else script[2]
        found += Markup("{}<{tag}>{}</{tag}>").format(text[end : script.start()], scripts(inner), tag=Markup(tag))
        end = script.end()
    return found + text[end:]


# -- mathematics -------------------------------------------------------------------------------------------------------


@cache
def mathematics(latex: str) -> Markup:
    """MathML, in pieces between which a line may break."""
    return Markup("<wbr>").join(_piece(convert(piece)) for piece in _pieces(latex))


@cache
def display(latex: str) -> Markup:
    """MathML of a formula on a line of its own, in a box that scrolls where the screen is narrower."""
    return Markup("<span class=wide>{}</span>").format(_short(convert(latex, display="block")))


def _piece(mathml: str) -> Markup:
    """The MathML of a piece of a formula; wide ones stand in a box that scrolls."""
    short = _short(mathml)
    wide = len(short.striptags()) > _MAX_PIECE_LETTERS
    return Markup("<span class=wide>{}</span>").format(short) if wide else short


def _short(mathml: str) -> Markup:
    """MathML without namespaces and with letters instead of their codes."""
    short = re.sub(r' xmlns="[^"]*"| display="inline"', "", mathml)
    short = re.sub(r"^<math><mrow>(.*)</mrow></math>$", r"<math>\1</math>", short)
    short = re.sub(r"&#x0*([0-9A-F]+);", lambda code: str(escape(chr(int(code[1], 16)))), short)
    short = re.sub(r"<mrow>(<(m[ion])\b[^>]*>[^<]*</\2>)</mrow>", r"\1", short)  # a group of one
    short = re.sub(
        r'<mo (?:fence="false" )?stretchy="false">([()\[\]{}‖|])</mo>', r"<mi>\1</mi>", short
    )  # would stretch
    short = re.sub(r"<mrow>((?:<mi>[a-z]</mi>){3,})</mrow>", _word, short)
    short = re.sub(r'((?:<mi mathvariant="normal">[A-Za-z]</mi>){2,})', _word, short)  # upright by its length
    short = re.sub(r"<mrow>(<(m[ion])\b[^>]*>[^<]*</\2>)</mrow>", r"\1", short)  # groups that have become one
    return Markup(short)


def _word(letters: re.Match[str]) -> str:
    """Letters that are one name and no product, such as "sgd" below σ."""
    return f"<mi>{re.sub('<[^>]*>', '', letters[1])}</mi>"


def _pieces(latex: str) -> Iterator[str]:
    """LaTeX cut after relations outside of brackets, and after signs of long sums; never inside of groups or bars."""
    piece = ""
    groups = 0
    brackets = 0
    bars = False
    for token in tokens(latex):
        groups += _GROUP_DEPTH.get(token, 0)
        brackets += _BRACKET_DEPTH.get(token, 0)
        bars ^= token in _BAR_TOKENS and groups == 0
        piece += token
        relation = token in _RELATION_TOKENS and brackets == 0 and len(piece) > _MIN_PIECE_LENGTH
        cut = relation or (token in _TERM_SIGNS and len(piece) > _MAX_SUM_LENGTH)
        if cut and groups == 0 and not bars:
            yield piece
            piece = ""
    if piece.strip() or not latex.strip():
        yield piece
