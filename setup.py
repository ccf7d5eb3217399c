"""Map the top-level folders to one import name; everything else is declared in pyproject.toml.

A wheel, an sdist and an editable install without symbolic links use the explicit mapping
``corrnoise.theory -> theory`` and so on; the documents are packed as ``corrnoise/docs``.  An editable install of a
checkout with the links in ``src/corrnoise`` uses plain ``src``, so that type checkers and editors can follow it.
"""

import sys
from pathlib import Path

from setuptools import find_packages, setup

FLOORS = ("theory", "solvers", "simulations", "figures", "paper_checks")

root = Path(__file__).parent
links = all((root / "src/corrnoise" / floor / "__init__.py").is_file() for floor in FLOORS)

if "editable_wheel" in sys.argv and links:
    package_dir = {"": "src"}
else:
    package_dir = {"corrnoise": "src/corrnoise"} | {f"corrnoise.{folder}": folder for folder in (*FLOORS, "docs")}

face = root / "src/corrnoise"  # find_packages would follow the links
packages = ["corrnoise", "corrnoise.docs"] + [
    f"corrnoise.{path.parent.name}" for path in sorted(face.glob("*/__init__.py")) if path.parent.name not in FLOORS
]
for floor in FLOORS:
    packages += [f"corrnoise.{floor}"] + [f"corrnoise.{floor}.{name}" for name in find_packages(floor)]

setup(package_dir=package_dir, packages=packages)
