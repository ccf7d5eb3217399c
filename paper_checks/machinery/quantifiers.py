"""Quantifiers: the claims of a statement about its constants and symbols, and when they make it true or false.

One rule decides alike everywhere.

* A *universal* constant stands for every admissible value.  It is an axis of the domain, and one point refutes.
* An *existential* constant may be chosen, once for the whole domain.  It is a keyword of the function, whose default is
  the choice that is checked: one choice that works makes the statement true.  The statement is false only if no choice
  works, so its counterexample is a *family*: a function from the choice to arguments that violate the statement.
* An *unspecified* constant is not given by the paper (a constant of O(·), "up to constants").
  It is read as existential, which is the weakest reading, so that a refutation survives every other reading.

A symbol may have several printed *meanings*, such as a loss with and without a factor ½.  ``Paper.definitions`` has them
with the places where they stand.  The symbol is a keyword of the function, whose default is the meaning that is in force
where the statement stands.  A refutation must survive every printed meaning, as it survives every choice of constants; a
statement that is true under the meaning in force is true, and the record lists the others.

A statement is undecided if it has neither a choice that was checked over its whole domain nor such a family.

A family is evaluated for ``CHOICES`` of each constant.  That it violates the statement for all choices beyond them needs
an argument, which the note of the claim gives.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

Quantifier = Literal["universal", "existential", "unspecified"]
Family = Callable[..., Mapping[str, Any]]
Meanings = Mapping[str, Mapping[str, str]]  #: of symbols: every printed meaning, and where it stands

#: The quantifiers and their meaning.
QUANTIFIERS: dict[Quantifier, str] = {
    "universal": "the statement is claimed for every value; it is an argument of the domain",
    "existential": "the statement is claimed for one value of the reader's choice, the same everywhere",
    "unspecified": "the paper does not say which value is meant; read as existential",
}
#: The choices of an existential or unspecified constant that a family of counterexamples must survive.
CHOICES = tuple(10.0**k for k in range(-9, 10, 3))


def chosen(constants: Mapping[str, Quantifier]) -> tuple[str, ...]:
    """The constants that may be chosen: existential and unspecified ones."""
    return tuple(name for name, quantifier in constants.items() if quantifier != "universal")


def choices(constants: Mapping[str, Quantifier], meanings: Meanings | None = None) -> Iterator[dict[str, Any]]:
    """Every choice of the constants that may be chosen, with every meaning of symbols; one empty choice if there are none."""
    options = dict.fromkeys(chosen(constants), CHOICES) | {name: tuple(of) for name, of in (meanings or {}).items()}
    for values in product(*options.values()):
        yield dict(zip(options, values, strict=True))


def faults(
    constants: Mapping[str, Any],
    definitions: Mapping[str, Sequence[str]],
    meanings: Meanings,
    axes: set[str],
    defaults: Mapping[str, Any],
    counterexample: Mapping[str, Any] | Family | None,
) -> Iterator[str]:
    """Contradictions to the rule in a claim: ``axes`` are its domain's arguments, ``defaults`` those of its function."""
    names = set(defaults)
    for symbol, true in definitions.items():
        printed = meanings.get(symbol, {})
        if len(printed) < 2 or not set(true) <= set(printed):
            yield f"definitions must be meanings of which the paper has several, got {symbol}: {tuple(true)!r}"
        elif symbol not in names - axes or defaults[symbol] != (*true, None)[0]:
            yield f"{symbol} must be a keyword whose default is the first of its meanings, {tuple(true)!r}"
    for name, quantifier in constants.items():
        if quantifier not in QUANTIFIERS:
            yield f"constants must be {', '.join(QUANTIFIERS)}, got {name}: {quantifier!r}"
        elif quantifier == "universal" and name not in axes:
            yield f"the universal constant {name} must be an argument of the domain"
        elif quantifier != "universal" and name not in names - axes:
            yield f"the {quantifier} constant {name} must be a keyword whose default is the choice that is checked"
    free = chosen(constants)
    if free and counterexample is not None and not callable(counterexample):
        yield f"a counterexample must survive every choice of {', '.join(free)}: it is a function of them"
    if not (free or definitions) and callable(counterexample):
        yield "a family of counterexamples needs existential or unspecified constants, or definitions"
