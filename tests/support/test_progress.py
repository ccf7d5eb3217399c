"""Progress is a bar on terminals, which goes at the end, and lines of the log elsewhere."""

import io
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from corrnoise.support import progress
from corrnoise.support.progress import Show, progress_line, time_left


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as a list of one number."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def lines(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> Stream:
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


@pytest.mark.parametrize(("terminal", "text"), [(True, "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K"), (False, "")])
def test_a_line_on_terminals(terminal: bool, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lines(monkeypatch, terminal)
    with progress_line() as show:
        show("one")
        show("two")
    assert stream.getvalue() == text


def test_the_line_goes_when_the_work_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lines(monkeypatch, True)
    with pytest.raises(KeyboardInterrupt), progress_line() as show:
        _interrupted(show)
    assert stream.getvalue().endswith("\r\x1b[K")


def _interrupted(show: Show) -> None:
    show("working")
    raise KeyboardInterrupt


def work(show: Show, clock: list[float]) -> Iterator[None]:
    """Four parts of six seconds, of which one was done before."""
    for done in range(1, 5):
        show("parts", done, 4)
        yield
        clock[0] += 6


def test_a_bar_says_how_much_time_is_left(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lines(monkeypatch, True)
    with progress_line() as show:
        list(work(show, clock))
    assert stream.getvalue().split("\r\x1b[K")[1:] == [
        "█████░░░░░░░░░░░░░░░ 1/4 parts",
        "██████████░░░░░░░░░░ 2/4 parts, 12 s left",
        "███████████████░░░░░ 3/4 parts, 6 s left",
        "████████████████████ 4/4 parts",
        "",
    ]


def test_a_log_has_a_line_every_ten_seconds(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines(monkeypatch, False)
    caplog.set_level(logging.INFO, "corrnoise")
    with progress_line() as show:
        list(work(show, clock))
    assert [record.getMessage() for record in caplog.records] == ["parts (3 of 4, 6 s left)"]


@pytest.mark.parametrize(("shown", "terminal"), [(None, False), (None, True), (True, False), (False, False)])
def test_a_log_has_its_first_line_soon_also_while_one_part_takes_long(
    shown: bool | None, terminal: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines(monkeypatch, terminal)
    caplog.set_level(logging.INFO, "corrnoise")
    started: list[threading.Timer] = []
    monkeypatch.setattr(threading.Timer, "start", lambda timer: started.append(timer))
    with progress_line(shown) as show:
        show("compiling", 0, 3)
        for timer in started:
            assert timer.interval < 2
            timer.function()
    expected = ["compiling (0 of 3)"] if shown is None and not terminal else []
    assert [record.getMessage() for record in caplog.records] == expected


def test_short_work_writes_no_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    lines(monkeypatch, False)
    monkeypatch.setattr(progress, "FIRST_SECONDS", 1e6)
    caplog.set_level(logging.INFO, "corrnoise")
    before = set(threading.enumerate())
    with progress_line() as show:
        show("compiling")
        [timer] = set(threading.enumerate()) - before
    timer.join(60)
    assert not timer.is_alive()
    assert not caplog.records


@pytest.mark.parametrize("terminal", [True, False])
def test_details_of_the_log_take_the_place_of_the_bar(
    terminal: bool, clock: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream = lines(monkeypatch, terminal)
    caplog.set_level(logging.DEBUG, "corrnoise")
    with progress_line() as show:
        list(work(show, clock))
        show("the rest")
        show("")
    assert [record.getMessage() for record in caplog.records] == [
        *("parts (1 of 4)", "parts (2 of 4, 12 s left)", "parts (3 of 4, 6 s left)", "parts (4 of 4)", "the rest")
    ]
    assert not stream.getvalue()


def test_times_are_rounded_up() -> None:
    assert [time_left(seconds) for seconds in (0.2, 99.0, 101.0, 3601.0)] == [
        *("1 s left", "99 s left", "2 min left", "61 min left")
    ]
