"""Public functions and methods compute in NumPy's default error state, and leave the caller's as it is."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.theory.numerics.float_errors import usual_float_errors, with_usual_float_errors
from corrnoise.theory.numerics.records import Record, record

SHELVES: list[Any] = [cn, cn.mechanisms, cn.privacy, cn.losses, *(getattr(cn.papers, name) for name in dir(cn.papers))]
WITHOUT_NUMBERS = {"claims", "batches", "show_versions", "tune"}


is_generator = inspect.isgeneratorfunction  #: its state would be that of its caller between two values


def is_guarded(function: Callable[..., Any]) -> bool:
    """Whether a function has the decorator, possibly below the warning about an old name."""
    inner = inspect.unwrap(function, stop=lambda one: one.__code__ is usual_float_errors(print).__code__)
    return inner.__code__ is usual_float_errors(print).__code__


def computing(thing: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function, or what a class of records computes in public."""
    if inspect.isfunction(thing):
        yield thing.__qualname__, thing
    if inspect.isclass(thing) and issubclass(thing, Record):
        for kind in thing.__mro__:
            if not issubclass(kind, Record) or kind is Record:
                continue
            for name, member in vars(kind).items():
                if isinstance(member, functools.cached_property):
                    member = member.func
                function = getattr(member, "__func__", getattr(member, "fget", member))
                if not name.startswith("_") and inspect.isfunction(function) and not is_generator(function):
                    yield f"{kind.__name__}.{name}", function


def unguarded(*things: Any) -> list[str]:
    return [name for thing in things for name, function in computing(thing) if not is_guarded(function)]


def test_every_public_function_and_method_has_the_usual_state() -> None:
    things = [
        getattr(shelf, name)
        for shelf in SHELVES
        for name in shelf.__all__
        if name not in {*WITHOUT_NUMBERS, "flower", "jax", "opacus", "torch", "datasets", "papers"}
    ]
    assert len(dict(found for thing in things for found in computing(thing))) > 150
    assert unguarded(*things) == []


def test_a_function_that_forgets_it_is_seen() -> None:
    def forgets() -> None: ...

    assert unguarded(usual_float_errors(forgets)) == []
    [found] = unguarded(forgets)
    assert found.endswith("forgets")


@record
class Tail(Record):
    scale: float

    def __post_init__(self) -> None:
        np.exp([-1000.0])

    def by_method(self) -> float:
        return float(np.exp([-1000.0])[0])

    @property
    def by_property(self) -> float:
        return float(np.exp([-1000.0])[0])

    @functools.cached_property
    def kept(self) -> float:
        return float(np.exp([-1000.0])[0])

    @classmethod
    def by_class(cls) -> float:
        return float(np.exp([-1000.0])[0])

    @staticmethod
    def by_name() -> float:
        return float(np.exp([-1000.0])[0])

    def unguarded(self) -> Iterator[float]:
        yield float(np.exp([-1000.0])[0])


def test_records_compute_where_the_caller_raises() -> None:
    with np.errstate(all="raise"):
        tail = Tail(1.0)
        assert tail.by_method() == tail.by_property == tail.kept == tail.by_class() == tail.by_name() == 0
        with pytest.raises(FloatingPointError):
            next(tail.unguarded())
        assert np.geterr()["under"] == "raise"


def test_inherited_and_private_members_stay_as_they_are() -> None:
    class Plain:
        def _private(self) -> None: ...

    before = vars(Plain)["_private"]
    with_usual_float_errors(Plain)
    assert vars(Plain)["_private"] is before
