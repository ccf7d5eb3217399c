"""Made-up rows for the probe of a model and a loss, and comparisons of their results (the extra ``torch``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from corrnoise.simulations.adapters.torch_items import Item, leaves, mapped
from corrnoise.support.extras import extra_module

ROWS = 3
ROWS_SEED = 0
IGNORED_TARGET = -100  #: of losses for tokens


def made_up_rows(template: Item, kind: int, example: Item | None, device: Any) -> Any:
    """Three rows like an item: normal floats and integers 0 and 1; floats in [0, 1) and integers 1; or all 0 and 1."""
    torch = extra_module("torch", "torch")
    generator = torch.Generator().manual_seed(ROWS_SEED)

    def made(leaf: Any, like: Any = None) -> Any:
        shape = (ROWS, *leaf.shape)
        if like is not None:
            found = torch.stack([like.cpu()] * ROWS)
            shares = 1 - 0.1 * torch.rand(shape, generator=generator)
            return found * shares.to(found) if found.is_floating_point() else found
        if leaf.dtype == torch.bool:
            found = torch.randint(2, shape, generator=generator).bool()
            return found.logical_and_(torch.arange(found[0].numel()).view(leaf.shape) > 0)
        if leaf.is_floating_point() or leaf.is_complex():
            if kind == 2:
                return torch.randint(2, shape, generator=generator).to(leaf.dtype)
            draw = torch.randn if kind == 0 else torch.rand
            return draw(shape, generator=generator, dtype=torch.float64).to(leaf.dtype)
        found = torch.ones(shape, dtype=leaf.dtype)
        if kind != 1 and found[0].numel() > 1:
            found = torch.randint(2, shape, generator=generator, dtype=leaf.dtype)
            found.view(ROWS, -1)[:, 0] = 1
        elif kind != 1:
            found = (torch.arange(ROWS, dtype=leaf.dtype) % 2).view(shape)
        return found

    rows = mapped(made, template) if example is None else mapped(made, template, example)
    return mapped(lambda leaf: leaf.to(device), rows)


def classes_of(outputs: Any, target: Any) -> int:
    """The number of classes if an integer target counts classes along the second axis of outputs, otherwise 0."""
    torch = extra_module("torch", "torch")
    if not isinstance(outputs, torch.Tensor) or not isinstance(target, torch.Tensor) or target.dtype != torch.int64:
        return 0
    if outputs.dim() < 2 or outputs.shape[:1] + outputs.shape[2:] != target.shape:
        return 0
    return int(outputs.shape[1])


def made_up_targets(target: Any, count: int, seed: int) -> Any:
    """Classes: of the first position different ones, in every second draw those of two rows equal."""
    torch = extra_module("torch", "torch")
    generator = torch.Generator().manual_seed(seed)
    found = torch.randint(count, target.shape, generator=generator)
    first = found.view(len(target), -1)[:, 0]
    first.copy_((ROWS * seed + torch.arange(len(target))) % count)
    if seed % 2:
        first[1] = first[0]
    return found.to(target.device)


def with_ignored_targets(rows: Any, names: set[str]) -> Iterator[Any]:
    """Rows with ignored targets in a half, a quarter and a third of one row."""
    torch = extra_module("torch", "torch")
    for share in (2, 4, 3):
        changed = False

        def ignoring(name: str, leaf: Any, share: int = share) -> Any:
            nonlocal changed
            if name not in names or leaf.dtype != torch.int64 or leaf[0].numel() < 2:
                return leaf
            changed = True
            found = leaf.clone()
            found.view(ROWS, -1)[1, : max(leaf[0].numel() // share, 1)] = IGNORED_TARGET
            return found

        found = mapped(ignoring, rows, named=True)
        if changed and all(leaf.device.type == "cpu" for _, leaf in leaves(rows)):
            yield found


def same_outputs(together: Any, alone: list[Any], tolerance: float) -> bool:
    """Whether the tensors of a batch are those of single rows, where the first axis counts rows."""
    torch = extra_module("torch", "torch")
    if isinstance(together, Mapping):
        return all(same_outputs(value, [each[name] for each in alone], tolerance) for name, value in together.items())
    if isinstance(together, tuple | list):
        return all(same_outputs(whole, list(rest), tolerance) for whole, *rest in zip(together, *alone, strict=False))
    if not isinstance(together, torch.Tensor) or not together.is_floating_point() or not together.dim():
        return True
    if all(each.shape == together.shape for each in alone):  # no axis counts rows
        return all(_close(together, each, tolerance) for each in alone)
    axes = range(together.dim())
    whole = [
        torch.cat(list(alone), axis) for axis in axes if _joins(together.shape, [each.shape for each in alone], axis)
    ]
    return any(_close(together, each, tolerance) for each in whole)


def _joins(whole: Any, parts: list[Any], axis: int) -> bool:
    """Whether tensors of some shapes, side by side along an axis, have another shape."""
    others = [(*each[:axis], *each[axis + 1 :]) for each in (whole, *parts)]
    return len(set(others)) == 1 and sum(each[axis] for each in parts) == whole[axis]


def _close(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two tensors agree, relative to the largest number."""
    torch = extra_module("torch", "torch")
    first, second = (each.detach().double() for each in (one, other))
    both = torch.isfinite(first) & torch.isfinite(second)
    if not bool((torch.isfinite(first) == torch.isfinite(second)).all()):
        return False
    size = float(second[both].abs().max()) if bool(both.any()) else 0.0
    return bool(((first - second)[both].abs() <= tolerance * size).all())


def numbers_of(model: Any) -> dict[str, Any]:
    """The attributes of modules that are numbers or words, by their names."""
    return {
        f"{name}.{key}".lstrip("."): value
        for name, module in model.named_modules()
        for key, value in getattr(module, "__dict__", {}).items()
        if isinstance(value, bool | int | float | str)
    }
