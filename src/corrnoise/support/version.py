"""The version of the installed package, and in a checkout the commit."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    __version__ = version("corrnoise")
except PackageNotFoundError:  # sources in a zip file or on PYTHONPATH, which are not installed
    __version__ = "unknown"


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
