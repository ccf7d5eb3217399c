"""A deprecated name works, warns, and is gone when it was said to go."""

import importlib
import pkgutil

import pytest

import corrnoise
from corrnoise.support.deprecation import GOING, deprecated, renamed_keyword
from corrnoise.support.version import __version__


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.fixture
def no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corrnoise.support.deprecation.GOING", {})


@pytest.mark.usefixtures("no_other")
def test_it_works_and_warns_at_the_line_of_the_caller() -> None:
    @deprecated("9.0", instead="cn.new")
    def old(x: int, *, y: int = 1) -> int:
        """The sum."""
        return x + y

    with pytest.warns(FutureWarning, match=r"old goes in corrnoise 9\.0: use cn\.new") as caught:
        assert old(2, y=3) == 5
    assert caught[0].filename == __file__
    assert old.__doc__ == "The sum."
    assert list(importlib.import_module("corrnoise.support.deprecation").GOING.values()) == ["9.0"]


@pytest.mark.usefixtures("no_other")
def test_an_old_keyword_works_and_warns() -> None:
    @renamed_keyword("9.0", "old", "new")
    def double(new: int) -> int:
        return 2 * new

    with pytest.warns(FutureWarning, match=r"old= goes in corrnoise 9\.0: use new=") as caught:
        assert double(old=3) == 6  # type: ignore[call-arg]
    assert caught[0].filename == __file__
    assert double(3) == double(new=3) == 6


def test_nothing_outlives_its_version() -> None:
    for found in pkgutil.walk_packages(corrnoise.__path__, "corrnoise."):
        importlib.import_module(found.name)
    assert [name for name, version in GOING.items() if numbers(version) <= numbers(__version__)] == []
