"""Progress is shown in one line, if not asked otherwise on terminals only, and goes at the end."""

import io
import sys
from collections.abc import Callable

import pytest

from corrnoise.support.progress import progress_line


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(("terminal", "text"), [(True, "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K"), (False, "")])
def test_a_line_on_terminals(terminal: bool, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_line() as show:
        show("one")
        show("two")
    assert stream.getvalue() == text


def test_the_line_goes_when_the_work_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(True)
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(KeyboardInterrupt), progress_line() as show:
        _interrupted(show)
    assert stream.getvalue().endswith("\r\x1b[K")


def _interrupted(show: Callable[[str], None]) -> None:
    show("working")
    raise KeyboardInterrupt
