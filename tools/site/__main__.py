"""Build the site: ``python -m tools.site --output DIR``.

Warnings are errors, every link inside of the site must lead somewhere, and no page may load anything from elsewhere.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tools.site.claims import write_claims
from tools.site.links import faults
from tools.site.notebooks import write_notebooks
from tools.site.reference import write_reference
from tools.site.sections import sections, with_navigation

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def gather(source: Path, *, execute: bool) -> None:
    """Copy the pages to ``source``, and write navigation, notebooks, reference and claims."""
    for page in DOCS.glob("*.md"):
        shutil.copy(page, source)
    for folder in ("examples", "pictures"):
        shutil.copytree(DOCS / folder, source / folder)
    index = source / "index.md"
    text = index.read_text(encoding="utf-8")
    listed = {page for pages in sections(text).values() for page in pages}
    written = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    if missing := sorted(written - listed):
        raise ValueError(f"docs/index.md must list every page, and lacks {', '.join(missing)}")
    index.write_text(with_navigation(text), encoding="utf-8")
    write_notebooks(source, execute=execute)
    write_reference(source)
    write_claims(source)


def build(output: Path, *, examples: bool = True) -> int:
    """Build the site in the folder ``output`` and return the exit status."""
    from sphinx.cmd.build import build_main

    os.environ["MPLBACKEND"] = "agg"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        gather(source, execute=examples)
        options = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(Path(__file__).parent)]
        options += ["-d", f"{folder}/doctrees"] + ([] if examples else ["-D", "plot_gallery=0"])
        status = int(build_main([*options, str(source), str(output)]))
    if status:
        return status
    found = list(faults(output))
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, build, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="the folder of the site")
    parser.add_argument(
        "--no-examples",
        action="store_true",
        help="do not run examples and tutorials: no pictures, and notebooks without output",
    )
    given = parser.parse_args(arguments)
    return build(given.output, examples=not given.no_examples)


if __name__ == "__main__":
    sys.exit(main())
