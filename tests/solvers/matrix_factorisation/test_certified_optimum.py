"""The example of docs/certified-optimum.md prints what it says."""

import contextlib
import io
import re
from pathlib import Path

TEXT = (Path(__file__).parents[3] / "docs/certified-optimum.md").read_text(encoding="utf-8")


def test_example_prints_what_it_says():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    claimed = re.findall(r"print\(.*\)  # (.*)", code)
    lines = printed.getvalue().splitlines()
    assert len(claimed) == len(lines) == 3
    for says, line in zip(claimed, lines, strict=True):
        for said, value in zip(says.split(), line.split(), strict=True):
            assert said == value if said == "True" else abs(float(said) - float(value)) < 2e-6
