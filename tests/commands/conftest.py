"""On a slow machine the log has lines of its own, which these tests do not expect."""

import pytest


@pytest.fixture(autouse=True)
def no_lines_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_SECONDS", "PAUSE_SECONDS"):
        monkeypatch.setattr(f"corrnoise.support.progress.{name}", 1e6)
