"""Choose the fastest engine that is right for a model and a loss (the extra ``torch``).

After the probe, the clipped sum of an engine must agree with a loop over single rows.  Large floats of one row must not
change the gradients of the other rows, nor large floats of all rows the gradient of a large row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from corrnoise.simulations.adapters import torch_factors
from corrnoise.simulations.adapters.options import Clipping, EngineName
from corrnoise.simulations.adapters.torch_deterministic import without_dropout
from corrnoise.simulations.adapters.torch_engines import Engine, Gradients, trained_parameters, uses_of
from corrnoise.simulations.adapters.torch_factors import Factors
from corrnoise.simulations.adapters.torch_items import Item, Loss, ModelError, chosen, count_of, leaves, mapped
from corrnoise.simulations.adapters.torch_layers import check_layers
from corrnoise.simulations.adapters.torch_made_up import ROWS
from corrnoise.simulations.adapters.torch_probe import HALF_TOLERANCE, Probe
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks

SUM_TOLERANCE = 5e-3
ROUNDING_SHARE = 1e-6  #: of the loss, or of 0.1, below which gradients are rounding errors
LARGE_FACTOR = 1000  #: between the floats of large rows and of usual ones
KEPT_ENGINES = 8  #: of a run


class Engines:
    """The engines of a run, each found once for a structure of the model."""

    def __init__(self, clipping: Clipping = "auto", engine: EngineName = "auto", example: Item | None = None) -> None:
        checks.choice("clipping", clipping, get_args(Clipping))
        checks.choice("engine", engine, get_args(EngineName))
        self._options: dict[str, Any] = {"clipping": clipping, "engine": engine, "example": example}
        self._known: dict[Any, tuple[Engine, Loss]] = {}

    def engine(self, model: Any, loss: Loss, template: Item) -> Engine:
        """The result of ``engine_for``, which is called for an unknown model, loss or shape."""
        check_layers(model)
        torch = extra_module("torch", "torch")
        device = next(model.parameters()).device.type
        key = (
            tuple((name, each.shape, each.dtype, each.requires_grad, each.device) for name, each in _tensors_of(model)),
            tuple(module.training for module in model.modules()),
            tuple((name, leaf.shape, leaf.dtype) for name, leaf in leaves(template)),
            (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)),
            (id(model), id(loss)),
        )
        if key not in self._known:
            if len(self._known) >= KEPT_ENGINES:
                self._known.pop(next(iter(self._known)))
            self._known[key] = engine_for(model, loss, template, **self._options), loss
        return self._known[key][0]


def engine_for(
    model: Any,
    loss: Loss,
    template: Item,
    *,
    clipping: Clipping = "auto",
    engine: EngineName = "auto",
    example: Item | None = None,
) -> Engine:
    """The fastest engine that is right for a model in its mode of training and a loss of outputs and targets.

    The ``template`` counts by its shapes and types alone.  Gradients at weight matrices stay in factors where this
    takes fewer operations ("auto"), nowhere ("example"), or wherever possible ("ghost").  ``example`` is a public item
    in place of random rows.  A model or loss that mixes examples, or changes what would be released, is a
    ``ValueError``.
    """
    checks.choice("clipping", clipping, get_args(Clipping))
    checks.choice("engine", engine, get_args(EngineName))
    if not callable(loss):
        raise TypeError(f"loss must be a function of outputs and targets, got {loss!r:.80}")
    if extra_module("torch", "torch").is_inference_mode_enabled():
        raise ModelError("gradients must be computed outside of torch.inference_mode()")
    check_layers(model)
    with without_dropout(model):
        probe = Probe(model, loss, template, example)
        probe.check()
        return _fastest(probe, clipping, engine)


def example_gradients(
    model: Any, loss: Loss, rows: Any, *, engine: EngineName | Engine = "auto", example: Item | None = None
) -> dict[str, Any]:
    """The gradients of examples by the name of the parameter, tensors of shape (rows, …).

    Parameters
    ----------
    model : torch.nn.Module
        The model; it is unchanged afterwards.
    loss : callable
        Of outputs and targets.
    rows : tuple or dict
        Pairs ``(inputs, targets)`` or a dictionary of tensors with the examples along the first axis; possibly empty.
    engine : {"auto", "vmap", "loop"} or Engine
        As for ``make_private``; or an engine without factors that was found for this model, which is not tried again.
    example : tuple or dict, optional
        As for ``make_private``.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        The model or the loss mixes examples, or changes what would be released.
    """
    trained = trained_parameters(model)
    if not isinstance(engine, Engine):
        template = mapped(lambda leaf: leaf.new_zeros(leaf.shape[1:]), rows)
        engine = engine_for(model, loss, template, clipping="example", engine=engine, example=example)
    if not count_of(rows):
        return {name: each.detach().new_zeros((0, *each.shape)) for name, each in trained.items()}
    return dict(zip(trained, engine.gradients(model, loss, rows).samples, strict=True))


def _tensors_of(model: Any) -> Iterator[tuple[str, Any]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


# -- choice --


def _fastest(probe: Probe, clipping: Clipping, engine: EngineName) -> Engine:
    """The first engine that agrees with the loop."""
    try:
        reference = probe.gradients(Engine("loop"))
    except ModelError:
        raise
    except Exception as error:  # of any kind, from the user's code
        raise ModelError(
            "the gradient of the loss of one example must be computable by torch.autograd.grad; it raised "
            f"{type(error).__name__}: {error!s:.300}.  For gradient checkpointing use use_reentrant=False"
        ) from error
    norms = _flat(reference).norm(dim=1)
    clip_norm = 0.7 * float(norms.nan_to_num(0.0, 0.0, 0.0).median())
    expected = _clipped_sum(reference, clip_norm)
    losses = reference.losses.double().nan_to_num(0.0, 0.0, 0.0)
    negligible = ROUNDING_SHARE * max(float(losses.abs().mean()), 0.1)
    tolerance = HALF_TOLERANCE if probe.half else SUM_TOLERANCE
    if engine == "loop":
        return Engine("loop")
    why = ""
    for candidate in _candidates(probe, clipping):
        try:
            found = probe.gradients(candidate)
        except Exception as error:  # whatever torch.func cannot do
            why = why or f"{type(error).__name__}: {error!s:.300}"
            continue
        gap = float((_clipped_sum(found, clip_norm) - expected).norm())
        if not gap <= tolerance * float(expected.norm()) + negligible:
            why = why or f"the clipped sum of {candidate.kind} differs from that of a loop"
        elif _mixes_large_rows(probe, candidate, found, tolerance, negligible):
            why = why or f"the gradient of a row of {candidate.kind} depends on large numbers of other rows"
        else:
            return replace(candidate, branches=found.reads, why=why)
    if engine == "vmap":
        raise ModelError(f"engine must be 'loop' or 'auto' for this model, got 'vmap': {why}")
    return Engine("loop", why=why)


def _candidates(probe: Probe, clipping: Clipping) -> Iterator[Engine]:
    if clipping != "example":
        try:
            uses = uses_of(probe.model, probe.loss, chosen(probe.rows, slice(0, 1)))
        except Exception:  # a mode that the model does not take
            uses = {}
        shapes = {name: each.shape for name, each in trained_parameters(probe.model).items()}
        if clipping == "auto":
            uses = {name: each for name, each in uses.items() if _shorter(each, shapes[name])}
        if uses:
            yield Engine("vmap", uses)
    yield Engine("vmap")


def _mixes_large_rows(probe: Probe, engine: Engine, usual: Gradients, tolerance: float, negligible: float) -> bool:
    """Whether a large row changes the gradients of others, or others the gradient of a large row.

    The middle row is enlarged, and then all rows.  Both results come from the same engine for the same shapes, so
    rounding is no reason for a difference.
    """
    digests = probe.digests()
    try:
        one, every = (probe.gradients(engine, _enlarged(probe.rows, some)) for some in (ROWS // 2, slice(None)))
    except Exception:  # of any kind, from the user's code, which may not take large rows
        return False
    finally:
        probe.check_digests(digests)
    others = [number for number in range(ROWS) if number != ROWS // 2]
    pairs = [(_flat(one)[others], _flat(usual)[others]), (_flat(every)[ROWS // 2], _flat(one)[ROWS // 2])]
    for found, expected in pairs:
        sizes = tolerance * expected.norm(dim=-1) + negligible
        if bool((sizes.isfinite() & ~((found - expected).norm(dim=-1) <= sizes)).any()):
            return True
    return False


# -- gradients of rows --


def _enlarged(rows: Any, places: int | slice) -> Any:
    """Rows whose floats are multiplied by ``LARGE_FACTOR`` in some places."""

    def larger(leaf: Any) -> Any:
        found = leaf.clone()
        if leaf.is_floating_point():
            found[places] *= LARGE_FACTOR
        return found

    return mapped(larger, rows)


def _shorter(uses: Any, shape: Any) -> bool:
    """Whether factors take fewer operations than the gradients of examples: L (p + q) < p q."""
    positions = sum(use.positions for use in uses)
    inputs = 1 if uses[0].kind == "embedding" else shape[0] if uses[0].kind == "transposed" else shape[1]
    outputs = int(shape.numel() // (shape[0] if uses[0].kind == "embedding" else inputs))
    return bool(positions * (inputs + outputs) < shape.numel())


def _clipped_sum(gradients: Gradients, clip_norm: float) -> Any:
    """The clipped sum of rows as one vector, float64."""
    torch = extra_module("torch", "torch")
    flat = _flat(gradients)
    lengths = flat.norm(dim=1)
    factors = torch.where(lengths > clip_norm, clip_norm / lengths, 1.0).where(torch.isfinite(lengths), 0.0)
    return factors @ torch.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0)


def _flat(gradients: Gradients) -> Any:
    """The gradients of rows as the rows of a matrix, float64."""
    dense = [_dense(each).double() for each in gradients.samples]
    return extra_module("torch", "torch").cat([each.reshape(len(each), -1) for each in dense], 1)


def _dense(samples: Any) -> Any:
    """Gradients of rows whose factors were multiplied."""
    torch = extra_module("torch", "torch")
    if not isinstance(samples, Factors):
        return samples
    one = torch.ones(1, dtype=torch.float32, device=samples.b.device)
    blocks = torch_factors.Blocks(1, max(samples.positions, 1), "float64", 1.0, 0.0)
    return torch.stack(
        [
            torch_factors.summed(samples._replace(a=samples.a[k : k + 1], b=samples.b[k : k + 1]), one, blocks)
            for k in range(len(samples.b))
        ]
    )
