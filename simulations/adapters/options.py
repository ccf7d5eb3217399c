"""The options of ``make_private``, with their checks and their documentation, for PyTorch, the loop of Opacus and JAX.

A function with ``**options: Unpack[TorchKeywords]`` shows type checkers all names.  ``with_options`` shows them in its
signature and its docstring, and refuses other names.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Literal, Required, TypedDict, TypeVar, get_args

from corrnoise.simulations.run.account import Account
from corrnoise.simulations.run.engines import Choice
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.sums import Release, Sums
from corrnoise.support.suggestions import did_you_mean
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import SamplingAccountant
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Clipping = Literal["auto", "example", "ghost"]
EngineName = Literal["auto", "vmap", "loop"]
Door = TypeVar("Door", bound=Callable[..., Any])


class TrainingKeywords(TypedDict, total=False):
    """The fields of ``TrainingOptions`` as keyword arguments."""

    loss: Required[Callable[..., Any]]
    budget: Required[Budget]
    batch_size: Required[int]
    epochs: int | None
    participation: Participation | None
    mechanism: Mechanism | Choice | None
    folder: str | os.PathLike[str] | Folder | None
    account: Account | None
    accountant: SamplingAccountant | None
    carry: Mapping[str, Any] | None
    item: Callable[[Any], Any] | None
    sums: Sums
    release: Release
    clipping: Clipping
    engine: EngineName
    chunk_size: int | None
    example: Any


class TorchKeywords(TrainingKeywords, total=False):
    """The fields of ``TorchOptions`` as keyword arguments."""

    changed: Literal["optimizer"] | None
    asked: str | None


class JaxKeywords(TrainingKeywords, total=False):
    """The fields of ``JaxOptions`` as keyword arguments."""

    key: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingOptions:
    """The options of a private run that has its data.

    Parameters
    ----------
    loss : callable
        A function that returns a number.  In PyTorch ``loss(outputs, targets)``, such as
        ``torch.nn.functional.cross_entropy``, or ``loss(outputs, item)`` where items are dictionaries, such as
        ``cn.torch.model_loss``.  In JAX ``loss(parameters, *row)`` for tuples, and ``loss(parameters, row)`` for
        dictionaries; with a ``key`` the key of the example is the last argument.
    budget : Budget
        The privacy budget of the whole run, and the clipping norm.
    batch_size : int
        B, 1 <= B <= n, the divisor of the sums; the expected size of sampled batches.
    epochs : int, optional
        How often each example is used, at least 1, in one random order.
    participation : Participation, optional
        Another data order in place of ``epochs``, also sampled batches.
    mechanism : Mechanism, optional
        The noise; None for ``cn.default_noise``, whose result the folder keeps.
    folder : path or Folder, optional
        Where the run is kept.  None for a run that ends with the process.
    account : Account, optional
        The account of the data set, which the run pays before its first step.
    accountant : SamplingAccountant, optional
        ``cn.privacy.MonteCarlo(…)`` for balls in bins and b-min-sep sampling, whose failure is a part of δ; None for
        certified bounds.
    carry : dict, optional
        Further content of checkpoints: objects by their names.  PyTorch needs ``state_dict`` and ``load_state_dict``,
        such as a scheduler of learning rates.  JAX needs ``save()``, which returns arrays by their names, and
        ``load(arrays)``.
    item : callable, optional
        A function that maps each example by itself before model and loss, such as ``cn.torch.pad_to(128)``.  JAX traces
        it with the loss, which gets its result: a tuple as several arguments, any other tree as one.
    sums, release : str
        ``"exact"`` and ``"grid"``: sums are integers, and releases are on their grid.  ``"exact"`` and ``"proved"``:
        nothing rounds the noise, either, for models on the host.  ``"float32"`` and ``"float"`` for floats; models of
        half precision need exact sums.
    clipping : {"auto", "example", "ghost"}
        ``"example"`` forms the gradient of each example.  ``"ghost"``, in PyTorch only, leaves gradients at weight
        matrices in factors, which takes less memory.  ``"auto"`` does so where it takes fewer operations.
    engine : {"auto", "vmap", "loop"}
        ``"vmap"`` computes the examples of a chunk at once, ``"loop"`` one after another.  ``"auto"`` takes the fastest
        engine that agrees with the loop in PyTorch; in JAX the loop for at least 2**14 parameters on one CPU, unless
        there is a ``chunk_size``.  ``run.engine`` says which.
    chunk_size : int, optional
        How many examples of a batch ``"vmap"`` computes at once.  None for all, as far as their gradients fit into
        1 GiB, and for a quarter of the slots of a sampled one.
    example : object, optional
        A public or made-up example to try model and loss, if they do not take random numbers.
    """

    CLIPPINGS: ClassVar[tuple[str, ...]] = get_args(Clipping)

    loss: Callable[..., Any]
    budget: Budget
    batch_size: int
    epochs: int | None = None
    participation: Participation | None = None
    mechanism: Mechanism | Choice | None = None
    folder: str | os.PathLike[str] | Folder | None = None
    account: Account | None = None
    accountant: SamplingAccountant | None = None
    carry: Mapping[str, Any] | None = None
    item: Callable[[Any], Any] | None = None
    sums: Sums = "exact"
    release: Release = "grid"
    clipping: Clipping = "auto"
    engine: EngineName = "auto"
    chunk_size: int | None = None
    example: Any = None

    def __post_init__(self) -> None:
        for name, function in (("loss", self.loss), ("item", self.item)):
            if not callable(function) and (name == "loss" or function is not None):
                raise TypeError(f"{name} must be a function, got {function!r:.80}")
        checks.instance("budget", self.budget, Budget)
        checks.choice("clipping", self.clipping, self.CLIPPINGS)
        checks.choice("engine", self.engine, get_args(EngineName))
        if self.chunk_size is not None:
            checks.integer("chunk_size", self.chunk_size, 1)
        if isinstance(self.epochs, Participation):
            raise TypeError(f"epochs must be an integer >= 1, got {self.epochs!r:.40}...: pass it as participation=")
        if (self.epochs is None) == (self.participation is None):
            found = "neither" if self.epochs is None else "both"
            raise ValueError(f"epochs (a number) or participation must be given, and not both, got {found}")


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchOptions(TrainingOptions):
    """The options of ``cn.torch.make_private`` and ``cn.opacus.make_private``.

    Parameters
    ----------
    changed : {"optimizer"}, optional
        Whether a resumed run may have other numbers of the optimizer, such as learning rates, which then win over the
        numbers of the checkpoint.
    asked : str, optional
        ``design.asked``, if ``mechanism`` comes from a search: a resumed run then takes the stored mechanism.
    """

    changed: Literal["optimizer"] | None = None
    asked: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.changed not in (None, "optimizer"):
            raise ValueError(f"changed must be 'optimizer' or None, got {self.changed!r:.80}")


@dataclass(frozen=True, kw_only=True, eq=False)
class JaxOptions(TrainingOptions):
    """The options of ``cn.jax.make_private``.

    Parameters
    ----------
    key : key of JAX, optional
        A key.  The loss gets another one for each example and step, for dropout, say; the same after a crash.  None for
        a loss without random numbers.
    """

    CLIPPINGS: ClassVar[tuple[str, ...]] = ("auto", "example")

    key: Any = None

    def __post_init__(self) -> None:
        if self.clipping == "ghost":
            raise ValueError(
                "clipping must be 'auto' or 'example' in JAX, got 'ghost': a compiled loss does not show the calls "
                "whose gradients have factors.  cn.torch has it"
            )
        super().__post_init__()


def with_options(kind: type[TrainingOptions]) -> Callable[[Door], Door]:
    """Show the options of a kind in the signature and in the docstring of a function that takes ``**options``.

    Their entries take the place of ``options`` in the docstring.  The function refuses other names.
    """
    options = inspect.signature(kind).parameters

    def decorated(function: Door) -> Door:
        own = inspect.signature(function)
        first = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        known = [each.name for each in first] + list(options)

        @wraps(function)
        def door(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    raise TypeError(f"{function.__name__}() has no option {name!r}{did_you_mean(name, known)}")
            if missing := [name for name, each in options.items() if each.default is each.empty and name not in given]:
                raise TypeError(f"{function.__name__}() must be given {', '.join(missing)}")
            return function(*arguments, **given)

        door.__signature__ = own.replace(parameters=[*first, *options.values()])  # type: ignore[attr-defined]
        text = inspect.cleandoc(function.__doc__ or "")
        door.__doc__ = re.sub(r"^options : .*\n(?: .*\n)+", lambda _: _documented(kind), text, flags=re.MULTILINE)
        return door  # type: ignore[return-value]

    return decorated


def _documented(kind: type[TrainingOptions]) -> str:
    """The entries of all options of a kind, with the shared options first."""
    classes = [each for each in reversed(kind.__mro__) if issubclass(each, TrainingOptions)]
    texts = [inspect.cleandoc(each.__doc__ or "").partition("----------\n")[2].rstrip("\n") for each in classes]
    return "".join(f"{text}\n" for text in texts if text)
