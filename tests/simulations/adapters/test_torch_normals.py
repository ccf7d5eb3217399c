"""Draws in PyTorch: float64 equality with the host's draws, on every device, and mutants that lose it."""

from __future__ import annotations

import inspect
import shutil
import sysconfig
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import array_normals, torch_normals
from corrnoise.simulations.run import draws
from tests.simulations.run.test_draws import KNOWN, SECRET

torch = pytest.importorskip("torch")
WITHOUT = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, WITHOUT])])
COUNT = 2**18
SIGNS = {"add": (1, 1), "sub": (1, -1), "rsub": (-1, 1)}
LAST = 300  # coordinates of the last block, which is as long as any other


def by_elements(
    device: str = "cpu", *, count: int = COUNT, draw: int = 0, each: Callable[..., Any] = torch_normals.normals
) -> np.ndarray:
    """The draws of step 3 by operations on tensors."""
    seed = torch.tensor(draws.seeds(SECRET, [3], draw=draw)[0].tolist(), device=device)
    nu = torch.tensor(-0.0, dtype=torch.float64, device=device)
    found: np.ndarray = each(seed, torch.arange(count, device=device), nu).cpu().numpy()
    return found


@DEVICES
@pytest.mark.parametrize("draw", [0, 1])
def test_every_number_has_the_bits_of_the_host(device: str, draw: int) -> None:
    count = COUNT if device == "cpu" else 2**24
    np.testing.assert_array_equal(
        by_elements(device, count=count, draw=draw), draws.normals(SECRET, 3, 0, count, draw=draw)
    )


@DEVICES
@pytest.mark.parametrize(("coordinate", "value"), KNOWN.items())
def test_known_draws(device: str, coordinate: int, value: float) -> None:
    seed = torch.tensor(draws.seeds(SECRET, [3])[0].tolist(), device=device)
    nu = torch.tensor(-0.0, dtype=torch.float64, device=device)
    assert torch_normals.normals(seed, torch.tensor([coordinate], device=device), nu).item() == value


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler
@DEVICES
def test_the_compiled_program_has_the_same_bits(device: str) -> None:
    if device == "cpu" and shutil.which("g++") is None:
        pytest.skip("needs a compiler of C++")
    compiled = torch.compile(torch_normals.normals, fullgraph=True)
    np.testing.assert_array_equal(by_elements(device, each=compiled), draws.normals(SECRET, 3, 0, COUNT))


def contractions(normals: Callable[..., Any]) -> tuple[int, int]:
    """The numbers of products that feed sums, and of those whose sum is another one if the product is not rounded.

    A compiler may choose to round such a product and its sum once (FMA).
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    changes = []

    class Contracting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            if name == "mul" and made.dtype == torch.float64:
                made.factors = args[:2]
            elif name in SIGNS:
                terms = list(zip(SIGNS[name], args[:2], strict=True))
                for (sign, term), (other_sign, other) in (terms, terms[::-1]):
                    if hasattr(term, "factors"):
                        rows = zip(*(numbers(each, made.shape) for each in (*term.factors, other)), strict=True)
                        once = [float(sign * a * b + other_sign * c) for a, b, c in rows]
                        changes.append(once != made.flatten().tolist())
            return made

    def numbers(values: Any, shape: Any) -> list[Fraction]:
        return [Fraction(x) for x in torch.as_tensor(values, dtype=torch.float64).expand(shape).flatten().tolist()]

    seed = torch.tensor(draws.seeds(SECRET, [3])[0].tolist())
    with Contracting():
        normals(seed, torch.arange(0, 2048, 2), torch.tensor(-0.0, dtype=torch.float64))
    return len(changes), sum(changes)


def test_no_contraction_changes_a_bit() -> None:
    assert contractions(torch_normals.normals) == (38, 0)


@pytest.mark.parametrize("left_out", [0, 1, *range(3, 10)])  # the other one changes one sum in a million
def test_mutants_without_one_of_the_terms_are_changed_by_contractions(left_out: int) -> None:
    first, *others = inspect.getsource(array_normals).split(" + nu")
    assert len(others) == 10
    mutant: dict[str, Any] = {}
    exec(first + "".join((" + nu" if k != left_out else "") + other for k, other in enumerate(others)), mutant)
    assert contractions(partial(mutant["normals"], torch))[1] > 0


def shifted(map_of_places: Callable[[Any], Any]) -> Callable[..., Any]:
    """The draws at other places."""
    return lambda seed, index, nu: torch_normals.normals(seed, map_of_places(index), nu)


def of_swapped_blocks(index: Any) -> Any:
    """Pair and block exchanged: cosine and sine of a pair are neighbours."""
    return index // 2048 * 2048 + index % 2 * 1024 + index % 2048 // 2


def of_a_short_block(index: Any) -> Any:
    """A last block of ``LAST`` coordinates has half as many pairs."""
    last = index[-1] - LAST + 1
    return torch.where(index < last + LAST // 2, index, index - LAST // 2 + 1024)


@pytest.mark.parametrize("mutant", ["no mask", "swapped", "short block", "draw"])
def test_mutants_have_other_numbers(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"count": 2048 * 4 + LAST}
    true = draws.normals(SECRET, 3, 0, options["count"], draw=int(mutant == "draw"))
    np.testing.assert_array_equal(by_elements(**options, draw=int(mutant == "draw")), true)
    if mutant == "no mask":
        monkeypatch.setattr(array_normals, "high_words", lambda product: product >> 32)
    elif mutant in ("swapped", "short block"):
        options["each"] = shifted(of_swapped_blocks if mutant == "swapped" else of_a_short_block)
    assert (by_elements(**options) != true).any()


def test_roots_are_rounded_correctly_whatever_the_root_of_the_device() -> None:
    """The correction repairs roots that are off by a unit; the mutant, the root itself, keeps them."""
    x = torch.tensor(-2 * np.log(np.random.default_rng(1).uniform(1e-19, 1, 200_000)))
    nu = torch.tensor(-0.0, dtype=torch.float64)
    true = np.sqrt(x.numpy())
    for end in (np.inf, -np.inf, 0.0):
        off = torch.tensor(np.nextafter(true, end) if end else true)
        np.testing.assert_array_equal(array_normals.root_of(x, off, nu).numpy(), true)
        assert (off.numpy() == true).all() == (not end)


SPANS = np.array([[5000, 3000], [17, 1], [20, 4000], [2**40, 10]])


@DEVICES
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spans_are_filled_one_after_the_other(device: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks that end within a span."""
    monkeypatch.setattr(torch_normals, "EAGER_COORDINATES", 1500)
    seed = draws.seeds(SECRET, [3])[0]
    true = np.concatenate([draws.normals(SECRET, 3, *span, dtype=dtype) for span in SPANS.tolist()])
    values = torch.empty(len(true), dtype=getattr(torch, dtype), device=device)
    torch_normals.fill(values, seed, SPANS)
    np.testing.assert_array_equal(values.cpu().numpy(), true)
    values.zero_()
    torch_normals.fill_by_elements(values, seed, SPANS, torch_normals.normals)
    np.testing.assert_array_equal(values.cpu().numpy(), true)


@pytest.mark.parametrize("missing", ["nothing", "triton", "headers", "compiler"])
def test_functions_are_compiled_only_where_triton_can(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing != "headers":
        (tmp_path / "Python.h").touch()
    monkeypatch.setattr(torch_normals, "find_spec", lambda name: None if missing == "triton" else name)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None if missing == "compiler" else name)
    assert torch_normals.compiles(torch.device("cuda")) == (missing == "nothing")
    assert not torch_normals.compiles(torch.device("cpu"))
