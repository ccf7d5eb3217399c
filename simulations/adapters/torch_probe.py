"""Try a model and a loss on made-up rows before the first step (the extra ``torch``).

The rows have the shapes and types of the first item: floats are normal, integers are 0 and 1, integer targets are
classes of the outputs.  So a refusal depends on code, shapes and public seeds, and costs no privacy budget.  Dropout is
off.  Three rows are tried in this order, and then the engines (``torch_choice``):

1. *Changes.*  A parameter, a buffer or a number of the model that changes in a forward pass is refused by its name.
2. *History.*  The losses of the rows 0, 1, 2 and then 2, 1, 0, with the same seeds, must be equal bit for bit.
3. *Mixing*, unless ``per_example`` declares the loss.  The outputs and the loss of the three rows together must be
   those of single rows; the loss is their mean or their sum.  Otherwise the module or the loss is refused.

A refusal in 3 protects the result, not privacy: an engine never forms the loss of a batch.  A probe cannot see a model
that changes its mind later, such as a memory that is used once it is full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from corrnoise.simulations.adapters.torch_deterministic import watched
from corrnoise.simulations.adapters.torch_engines import (
    Engine,
    Gradients,
    digest_of,
    tensors_of,
    unchanged,
)
from corrnoise.simulations.adapters.torch_items import (
    Item,
    Loss,
    ModelError,
    chosen,
    leaves,
    loss_of,
    mapped,
    outputs_of,
    per_example,
)
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

PROBE_SEED = 0
CLASS_DRAWS = 64  #: of targets, for losses that weigh classes
OUTPUT_TOLERANCE = 1e-4
LOSS_TOLERANCE = 3e-5
HALF_TOLERANCE = 2e-2  #: for outputs, losses and sums, where the model computes in half precision


class Probe:
    """A model and a loss on made-up rows."""

    def __init__(self, model: Any, loss: Loss, template: Item, example: Item | None) -> None:
        self.model, self.loss, self.template, self.example = model, loss, template, example
        self.device = next(model.parameters()).device
        self.half = False
        self.rows = self._fitting()

    def check(self) -> None:
        """Refuse a model or a loss that changes, remembers or mixes rows."""
        self._changes()
        self._history()
        if isinstance(self.loss, per_example):
            return
        self._mixing(self.rows)
        if self._several_floats():  # also for masks, whose sum is at least one
            try:
                rows = self._with_targets(made_up_rows(self.template, 2, self.example, self.device))
                self._loss(chosen(rows, slice(0, 1)))
            except Exception:  # of any kind, from the user's code
                return
            self._mixing(rows)

    def gradients(self, engine: Engine, rows: Any = None) -> Gradients:
        """The gradients of the made-up rows, or of others, by an engine."""
        seed_generators(PROBE_SEED)
        with watched():
            return engine.gradients(self.model, self.loss, _copied(self.rows if rows is None else rows))

    def digests(self) -> dict[str, Any]:
        """Digests of the tensors of the model by their names."""
        return {name: digest_of(value) for name, value in tensors_of(self.model)}

    def check_digests(self, before: dict[str, Any], numbers: Sequence[str] = ()) -> None:
        """Refuse a model whose tensors or numbers changed."""
        changed = [name for name, digest in self.digests().items() if before.get(name) != digest]
        if changed := [*changed, *numbers]:
            raise ModelError(
                f"{changed[0]} of the model must not change in a forward pass: a tensor would be released without "
                "noise, and a number is set back after each example.  Change it in the training loop"
            )

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
        digests = self.digests()
        numbers = []
        with unchanged(self.model), watched():
            for _ in range(2):
                copied = _copied(row)
                loss_of(self.loss, outputs_of(self.model, copied), copied)
                numbers.append(numbers_of(self.model))
        self.check_digests(digests, [name for name, value in numbers[1].items() if numbers[0].get(name) != value])

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


def _copied(rows: Any) -> Any:
    """A copy of rows, which a model may change in place."""
    return mapped(lambda leaf: leaf.clone(), rows)
