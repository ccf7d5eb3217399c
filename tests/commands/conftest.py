"""On a slow machine the log has lines of its own, which these tests do not expect."""

import math

import pytest


@pytest.fixture(autouse=True)
def no_lines_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corrnoise.support.progress._PAUSE", math.inf)
