"""Which modules a test file can reach through imports: only those tests can notice a mutant that reach its module."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_OWN_PACKAGE = "corrnoise"


@cache
def _imports(path: Path) -> tuple[tuple[str, ...], ...]:
    """Dotted names that a file may import, in parts; ``from a import b`` may mean the module a.b."""
    names: list[tuple[str, ...]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = tuple(node.module.split("."))
            names += [parts, *((*parts, alias.name) for alias in node.names)]
        elif isinstance(node, ast.Name) and node.id == "import_module":
            names.append((_OWN_PACKAGE,))  # of any module
    return tuple(names)


def _files(root: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    """The file of a module of the package, with the packages around it, or of a helper of the tests."""
    if parts[0] == _OWN_PACKAGE:
        for depth in range(2, len(parts) + 1):
            stem = root.joinpath(*parts[1:depth])
            yield from (path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file())
    else:
        helper = root.joinpath(*parts).with_suffix(".py")
        if helper.is_file():
            yield helper


def reaches(root: Path, test: Path, module: str) -> bool:
    """Whether the test file may import ``module``, such as "theory/privacy.py", however indirectly.

    The public names of the package, and modules imported by computed names, may be anything.
    """
    seen: set[Path] = set()
    left = [test]
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        names = _imports(path)
        if not any(parts[0] == _OWN_PACKAGE for parts in names) and path == test:
            return True  # it knows the module under some other name
        if (_OWN_PACKAGE,) in names:
            return True
        for parts in names:
            left += _files(root, parts)
    return root / module in seen
