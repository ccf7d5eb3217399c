"""Try a model and a loss on made-up rows before the first step, and choose the fastest engine that is right.

The rows have the shapes and types of the first item: floats are normal, integers are 0 and 1, integer targets are
classes of the outputs.  So a refusal depends on code, shapes and public seeds, and costs no privacy budget.  Dropout is
off.  Three rows are tried in this order:

1. *Changes.*  A parameter, a buffer or a number of the model that changes in a forward pass is refused by its name.
2. *History.*  The losses of the rows 0, 1, 2 and then 2, 1, 0, with the same seeds, must be equal bit for bit.
3. *Mixing*, unless ``per_example`` declares the loss.  The outputs and the loss of the three rows together must be
   those of single rows; the loss is their mean or their sum.  Otherwise the module or the loss is refused.
4. *Engine.*  The clipped sum of an engine must agree with a loop over single rows.  Large floats of one row must not
   change the gradients of the other rows, nor large floats of all rows the gradient of a large row.

A refusal in 3 protects the result, not privacy: an engine never forms the loss of a batch.  A probe cannot see a model
that changes its mind later, such as a memory that is used once it is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from corrnoise.simulations.adapters import torch_factors
from corrnoise.simulations.adapters.options import Clipping, EngineName
from corrnoise.simulations.adapters.torch_deterministic import watched, without_dropout
from corrnoise.simulations.adapters.torch_engines import (
    Engine,
    Gradients,
    digest_of,
    tensors_of,
    trained_parameters,
    unchanged,
    uses_of,
)
from corrnoise.simulations.adapters.torch_factors import Factors
from corrnoise.simulations.adapters.torch_items import (
    Item,
    Loss,
    ModelError,
    chosen,
    count_of,
    leaves,
    loss_of,
    mapped,
    outputs_of,
    per_example,
)
from corrnoise.simulations.adapters.torch_layers import check_layers
from corrnoise.simulations.adapters.torch_made_up import (
    ROWS,
    classes_of,
    made_up_rows,
    made_up_targets,
    numbers_of,
    same_outputs,
    with_ignored_targets,
)
from corrnoise.simulations.adapters.torch_random import seed_generators
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks

PROBE_SEED = 0
CLASS_DRAWS = 64  #: of targets, for losses that weigh classes
OUTPUT_TOLERANCE = 1e-4
LOSS_TOLERANCE = 3e-5
SUM_TOLERANCE = 5e-3
ROUNDING_SHARE = 1e-6  #: of the loss, or of 0.1, below which gradients are rounding errors
HALF_TOLERANCE = 2e-2  #: for all three, where the model computes in half precision
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
        return _Probe(model, loss, template, example).engine(clipping, engine)


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


# -- the probe ---------------------------------------------------------------------------------------------------------


class _Probe:
    """A model and a loss on made-up rows."""

    def __init__(self, model: Any, loss: Loss, template: Item, example: Item | None) -> None:
        self.model, self.loss, self.template, self.example = model, loss, template, example
        self.device = next(model.parameters()).device
        self.half = False
        self.rows = self._fitting()

    def engine(self, clipping: Clipping, engine: EngineName) -> Engine:
        """The checks in their order, and the engine."""
        self._changes()
        self._history()
        if not isinstance(self.loss, per_example):
            self._mixing(self.rows)
            if self._several_floats():  # also for masks, whose sum is at least one
                try:
                    rows = self._with_targets(made_up_rows(self.template, 2, self.example, self.device))
                    self._loss(chosen(rows, slice(0, 1)))
                except Exception:  # of any kind, from the user's code
                    return self._engine(clipping, engine)
                self._mixing(rows)
        return self._engine(clipping, engine)

    def _several_floats(self) -> bool:
        return sum(leaf.is_floating_point() for _, leaf in leaves(self.template)) > 1

    def _fitting(self) -> Any:
        """Rows that the model and the loss take."""
        errors = []
        for kind in range(2):
            try:
                rows = self._with_targets(made_up_rows(self.template, kind, self.example, self.device))
                value = self._loss(chosen(rows, slice(0, 1)))
            except ModelError:
                raise
            except Exception as error:  # of any kind, from the user's code
                errors.append(error)
            else:
                if not value.requires_grad:
                    raise ModelError(
                        "loss must depend on the trained parameters, but has no gradient: is it computed without a "
                        "graph, or from rounded outputs?"
                    )
                return rows
        raise ModelError(
            "model and loss must work on a batch with one made-up example with the shapes of the first item, random "
            f"floats and small integers; they raised {type(errors[0]).__name__}: {errors[0]!s:.300}.  If this comes "
            "from the values, pass a public or made-up item as example="
        ) from errors[0]

    def _with_targets(self, rows: Any) -> Any:
        """Rows whose integer targets are classes of the outputs."""
        if isinstance(rows, Mapping) or rows[1].__class__ is tuple or isinstance(rows[1], Mapping):
            return rows
        count = classes_of(self._outputs(chosen(rows, slice(0, 1))), rows[1][:1])
        return (rows[0], made_up_targets(rows[1], count, PROBE_SEED)) if count else rows

    def _outputs(self, rows: Any) -> Any:
        seed_generators(PROBE_SEED)
        with unchanged(self.model), watched() as mode:
            found = outputs_of(self.model, _copied(rows))
        self.half |= mode.half
        return found

    def _loss(self, rows: Any, *, neutral: bool = True) -> Any:
        seed_generators(PROBE_SEED)
        rows = _copied(rows)
        with unchanged(self.model), watched(neutral=neutral):
            return loss_of(self.loss, outputs_of(self.model, rows), rows)

    def _changes(self) -> None:
        """Refuse a model that changes numbers of its own in each pass, or writes into tensors past their versions."""
        row = chosen(self.rows, slice(0, 1))
        digests = self._digests()
        numbers = []
        with unchanged(self.model), watched():
            for _ in range(2):
                copied = _copied(row)
                loss_of(self.loss, outputs_of(self.model, copied), copied)
                numbers.append(numbers_of(self.model))
        self._check_digests(digests, [name for name, value in numbers[1].items() if numbers[0].get(name) != value])

    def _digests(self) -> dict[str, Any]:
        return {name: digest_of(value) for name, value in tensors_of(self.model)}

    def _check_digests(self, before: dict[str, Any], numbers: Sequence[str] = ()) -> None:
        """Refuse a model whose tensors or numbers changed."""
        changed = [name for name, digest in self._digests().items() if before.get(name) != digest]
        if changed := [*changed, *numbers]:
            raise ModelError(
                f"{changed[0]} of the model must not change in a forward pass: a tensor would be released without "
                "noise, and a number is set back after each example.  Change it in the training loop"
            )

    def _history(self) -> None:
        """Refuse a model or a loss whose value for a row depends on earlier rows."""
        order = [*range(ROWS), *reversed(range(ROWS))]
        found = [self._loss(chosen(self.rows, slice(number, number + 1)), neutral=False).detach() for number in order]
        bits = [each.double().cpu().numpy().tobytes() for each in found]
        if bits[:ROWS] != bits[: ROWS - 1 : -1]:
            raise ModelError(
                "loss and model must not remember examples: the loss of a made-up row changes after other rows.  Keep "
                "counters, caches, generators and running statistics out of the forward pass and of the loss"
            )

    # -- mixing --

    def _mixing(self, rows: Any) -> None:
        """Refuse a model or a loss that treats three rows together otherwise than alone."""
        singles = [chosen(rows, slice(number, number + 1)) for number in range(ROWS)]
        try:
            together = self._outputs(rows)
        except ModelError:
            raise
        except Exception as error:  # of any kind, from the user's code
            raise ModelError(
                f"model must take batches, but raised {type(error).__name__} for {ROWS} made-up rows: {error!s:.300}.  "
                "Declare per_example(loss) if it takes single examples only"
            ) from error
        alone = [self._outputs(each) for each in singles]
        tolerance = HALF_TOLERANCE if self.half else OUTPUT_TOLERANCE
        if not same_outputs(together, alone, tolerance):
            if self._is_random(singles[0]):
                return
            raise ModelError(
                f"{self._mixer(rows, singles, tolerance)} mixes examples: its output for a row depends on the other "
                "rows of the batch.  Use layers that treat each example by itself (batch_first=True, GroupNorm, "
                "LayerNorm), or declare per_example(loss) if the loss of one example alone is what you mean"
            )
        if isinstance(rows, Mapping):
            draws = [rows, *with_ignored_targets(rows, {"labels", "label", "targets", "target"})]
            batch = [self._loss(draw) for draw in draws]
            parts = [[self._loss(chosen(draw, slice(k, k + 1))) for k in range(ROWS)] for draw in draws]
            self._check_losses(batch, parts)
            return
        targets = [rows[1]]
        if count := classes_of(together, rows[1]):
            targets += [made_up_targets(rows[1], count, seed) for seed in range(1, CLASS_DRAWS)]
            targets += [draw[1] for draw in with_ignored_targets(rows, {"target"})]
        draws = [(rows[0], each) for each in targets]
        batch, parts = [], []
        with unchanged(self.model), watched():
            for draw in draws:
                seed_generators(PROBE_SEED)
                batch.append(self._or_none(together, draw))
                each = [(alone[number], chosen(draw, slice(number, number + 1))) for number in range(ROWS)]
                parts.append([self._or_none(*pair) for pair in each])
        self._check_losses(batch, parts)

    def _is_random(self, row: Any) -> bool:
        """Whether the outputs for a row vary by random numbers that the probe cannot hold still."""
        found = []
        for seed in (PROBE_SEED, PROBE_SEED + 1):
            seed_generators(seed)
            with unchanged(self.model), watched():
                found.append(outputs_of(self.model, _copied(row)))
        return not same_outputs(found[0], [found[1]], 0.0)

    def _or_none(self, outputs: Any, rows: Any) -> Any:
        """The loss, or None for targets that it does not take."""
        try:
            return loss_of(self.loss, outputs, rows)
        except Exception:  # of any kind, from the user's code
            return None

    def _check_losses(self, batch: list[Any], rows: list[list[Any]]) -> None:
        """Refuse a loss that is neither the mean nor the sum of the losses of single rows."""
        tolerance = HALF_TOLERANCE if self.half else LOSS_TOLERANCE
        reductions = {"mean", "sum"}
        for whole, each in zip(batch, rows, strict=True):
            if whole is None or any(one is None for one in each):
                continue
            value, parts = float(whole.detach()), [float(one.detach()) for one in each]
            size = sum(map(abs, parts))
            if not size < float("inf"):
                continue
            reductions &= {
                name
                for name, expected in (("mean", sum(parts) / ROWS), ("sum", sum(parts)))
                if abs(value - expected) <= tolerance * max(size / ROWS, 1e-30)
            }
            if not reductions:
                raise ModelError(
                    f"loss must be the mean or the sum of the losses of single examples: for {ROWS} made-up rows it is "
                    f"{value:.6g}, their mean {sum(parts) / ROWS:.6g}.  Class weights, means over valid tokens and "
                    "contrastive losses are such cases.  Use reduction='sum' with a constant divisor, or declare "
                    "per_example(loss) if the loss of one example alone is what you mean"
                )

    def _mixer(self, rows: Any, singles: list[Any], tolerance: float) -> str:
        """The first leaf module whose inputs agree and whose outputs do not, in words."""

        def recorded(rows: Any) -> list[tuple[str, str, Any, Any]]:
            calls: list[tuple[str, str, Any, Any]] = []

            def hook(name: str) -> Callable[..., None]:
                return lambda module, given, output: calls.append((name, type(module).__name__, given, output))

            handles = [
                module.register_forward_hook(hook(name))
                for name, module in self.model.named_modules()
                if not any(module.children())
            ]
            try:
                self._outputs(rows)
            finally:
                for handle in handles:
                    handle.remove()
            return calls

        for whole, *single in zip(recorded(rows), *map(recorded, singles), strict=False):
            if any(each[0] != whole[0] for each in single):
                break  # a branch that other rows do not take
            same = [same_outputs(whole[part], [each[part] for each in single], tolerance) for part in (2, 3)]
            if same == [True, False]:
                return f"module {whole[0]!r} ({whole[1]})"
        return f"model ({type(self.model).__name__})"

    # -- engine --

    def _engine(self, clipping: Clipping, engine: EngineName) -> Engine:
        """The first engine that agrees with the loop."""
        try:
            reference = self._gradients(Engine("loop"))
        except ModelError:
            raise
        except Exception as error:  # of any kind, from the user's code
            raise ModelError(
                "the gradient of the loss of one example must be computable by torch.autograd.grad; it raised "
                f"{type(error).__name__}: {error!s:.300}.  For gradient checkpointing use use_reentrant=False"
            ) from error
        norms = _norms(reference)
        clip_norm = 0.7 * float(norms.nan_to_num(0.0, 0.0, 0.0).median())
        expected = _clipped_sum(reference, clip_norm)
        losses = reference.losses.double().nan_to_num(0.0, 0.0, 0.0)
        negligible = ROUNDING_SHARE * max(float(losses.abs().mean()), 0.1)
        tolerance = HALF_TOLERANCE if self.half else SUM_TOLERANCE
        if engine == "loop":
            return Engine("loop")
        why = ""
        for candidate in self._candidates(clipping):
            try:
                found = self._gradients(candidate)
            except Exception as error:  # whatever torch.func cannot do
                why = why or f"{type(error).__name__}: {error!s:.300}"
                continue
            gap = float((_clipped_sum(found, clip_norm) - expected).norm())
            if not gap <= tolerance * float(expected.norm()) + negligible:
                why = why or f"the clipped sum of {candidate.kind} differs from that of a loop"
            elif self._mixes_large_rows(candidate, found, tolerance, negligible):
                why = why or f"the gradient of a row of {candidate.kind} depends on large numbers of other rows"
            else:
                return replace(candidate, branches=found.reads, why=why)
        if engine == "vmap":
            raise ModelError(f"engine must be 'loop' or 'auto' for this model, got 'vmap': {why}")
        return Engine("loop", why=why)

    def _candidates(self, clipping: Clipping) -> Iterator[Engine]:
        if clipping != "example":
            try:
                uses = uses_of(self.model, self.loss, chosen(self.rows, slice(0, 1)))
            except Exception:  # a mode that the model does not take
                uses = {}
            shapes = {name: each.shape for name, each in trained_parameters(self.model).items()}
            if clipping == "auto":
                uses = {name: each for name, each in uses.items() if _shorter(each, shapes[name])}
            if uses:
                yield Engine("vmap", uses)
        yield Engine("vmap")

    def _gradients(self, engine: Engine, rows: Any = None) -> Gradients:
        seed_generators(PROBE_SEED)
        with watched():
            return engine.gradients(self.model, self.loss, _copied(self.rows if rows is None else rows))

    def _mixes_large_rows(self, engine: Engine, usual: Gradients, tolerance: float, negligible: float) -> bool:
        """Whether a large row changes the gradients of others, or others the gradient of a large row.

        The middle row is enlarged, and then all rows.  Both results come from the same engine for the same shapes, so
        rounding is no reason for a difference.
        """
        digests = self._digests()
        try:
            one, every = (self._gradients(engine, _enlarged(self.rows, some)) for some in (ROWS // 2, slice(None)))
        except Exception:  # of any kind, from the user's code, which may not take large rows
            return False
        finally:
            self._check_digests(digests)
        others = [number for number in range(ROWS) if number != ROWS // 2]
        pairs = [(_flat(one)[others], _flat(usual)[others]), (_flat(every)[ROWS // 2], _flat(one)[ROWS // 2])]
        for found, expected in pairs:
            sizes = tolerance * expected.norm(dim=-1) + negligible
            if bool((sizes.isfinite() & ~((found - expected).norm(dim=-1) <= sizes)).any()):
                return True
        return False


def _enlarged(rows: Any, places: int | slice) -> Any:
    """Rows whose floats are multiplied by ``LARGE_FACTOR`` in some places."""

    def larger(leaf: Any) -> Any:
        found = leaf.clone()
        if leaf.is_floating_point():
            found[places] *= LARGE_FACTOR
        return found

    return mapped(larger, rows)


def _copied(rows: Any) -> Any:
    """A copy of rows, which a model may change in place."""
    return mapped(lambda leaf: leaf.clone(), rows)


def _shorter(uses: Any, shape: Any) -> bool:
    """Whether factors take fewer operations than the gradients of examples: L (p + q) < p q."""
    positions = sum(use.positions for use in uses)
    inputs = 1 if uses[0].kind == "embedding" else shape[0] if uses[0].kind == "transposed" else shape[1]
    outputs = int(shape.numel() // (shape[0] if uses[0].kind == "embedding" else inputs))
    return bool(positions * (inputs + outputs) < shape.numel())


def _norms(gradients: Gradients) -> Any:
    """The norms of the gradients of rows."""
    return sum(each.double().reshape(len(each), -1).square().sum(1) for each in gradients.samples).sqrt()


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
