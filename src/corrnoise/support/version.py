"""The version of the installed package, in a checkout the commit, and the versions of everything that it uses."""

import os
import platform
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from corrnoise.support.process import discard_output

#: The distributions whose versions matter in a report of a bug.
LIBRARIES = (
    *("numpy", "scipy", "cvxpy", "mpmath", "matplotlib", "numba", "python-flint", "filelock", "lazy_loader", "jinja2"),
    *("markupsafe", "joblib", "dask", "latex2mathml", "markdown-it-py", "scikit-learn", "mlxtend", "cryptography"),
    *("torch", "opacus", "transformers", "peft", "jax", "jax-privacy", "optax", "flwr"),
)


def _version_of(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


__version__ = _version_of("corrnoise") or "unknown"  # in a zip file or on PYTHONPATH it is not installed


def commit() -> str | None:
    """The commit of the checkout that this package is imported from, with ``-dirty`` if files differ, or None."""
    import subprocess

    here = Path(__file__).resolve()
    try:
        for command in (("ls-files", "--error-unmatch", here.name), ("describe", "--always", "--dirty", "--exclude=*")):
            done = subprocess.run(["git", *command], cwd=here.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git, or no checkout of this package
        return None
    return done.stdout.strip()


def show_versions() -> None:
    """Print the versions of corrnoise, Python and the libraries, the processor and the system, for a bug report.

    No library is imported, and nothing about you or your data is printed.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.show_versions()  # doctest: +ELLIPSIS
    corrnoise       ...
    python          ...
    """
    rows = {
        "corrnoise": " ".join(filter(None, [__version__, commit()])),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        **{name: _version_of(name) or "not installed" for name in LIBRARIES},
    }
    try:
        print("\n".join(f"{name:<15} {value}" for name, value in rows.items()), flush=True)
    except BrokenPipeError:
        discard_output()


def _processor() -> str:
    """The model of the processor, as the system calls it."""
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1]
    return platform.processor() or platform.machine()
