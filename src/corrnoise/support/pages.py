"""HTML pages that need no network: templates, and the style sheet of all pages."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup


def resource(package: str, name: str) -> str:
    """Read a text file of a package, which may be in a zip file."""
    return (files(package) / name).read_text(encoding="utf-8")


def templates(package: str) -> Environment:
    """Return the templates of a package; ``style`` is the style sheet in each one.

    Parameters
    ----------
    package : str
        The package that holds the templates, such as ``"corrnoise.designs"``.

    Returns
    -------
    Environment
        It escapes texts, and an unknown name in a template is an error.
    """
    environment = Environment(
        loader=FunctionLoader(lambda name: resource(package, name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = Markup(resource("corrnoise.support", "page.css"))
    return environment
