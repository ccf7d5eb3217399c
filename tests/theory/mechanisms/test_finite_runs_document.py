"""``docs/finite-runs.md``: its example prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

TEXT = (Path(__file__).parents[3] / "docs/finite-runs.md").read_text(encoding="utf-8")


def test_the_example_prints_what_it_says():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    claimed = re.findall(r"print\(.*# ([\d.]+):", code)
    assert done.stdout.split() == claimed
    assert len(claimed) == 5
