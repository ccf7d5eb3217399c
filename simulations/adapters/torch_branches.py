"""Models that branch on their data, and recurrent layers, under ``vmap`` (the extra ``torch``).

*Branches by agreement.*  All rows run at once.  Where the model reads a number of its data, as in ``if mask.all()``,
it gets the number of the first live row, and rows with other bits cease to be live.  The results of the rows that are
live at the end are kept.  The rest runs again, with the same generators, until all rows are kept.

So each kept row saw only its own numbers, and its result does not depend on the other rows: as long as it is live, the
pass runs the same operations as a pass that it leads, and ``vmap`` computes each row by itself.  A leader agrees with
itself bit for bit, so each pass keeps at least one row.  The number of passes depends on the data, and so does the time
of a step.

*Recurrent layers.*  ``vmap`` has no rule for GRU and RNN.  They run step by step, in operations that have a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.torch_random import generators_kept
from corrnoise.support.extras import extra_module

READS = frozenset({"__bool__", "__int__", "__float__", "__index__", "item", "tolist", "is_nonzero"})
RECURRENT = frozenset({"gru", "rnn_tanh", "rnn_relu"})

Live = NDArray[np.bool_]  #: which rows agree so far


def in_passes(count: int, run_pass: Callable[[Live], Any], merge: Callable[[Any, Any, Any], Any]) -> tuple[Any, int]:
    """The results of all rows, from as many passes as there are different readings, and the number of passes.

    ``run_pass`` runs all rows, and clears the entries of its argument whose rows disagree with the first live one.
    ``merge`` takes earlier results or None, new results, and the rows that are taken from the new ones.
    """
    pending = np.ones(count, bool)
    found, passes = None, 0
    while pending.any():
        live = pending.copy()
        with generators_kept():
            result = run_pass(live)
        passes += 1
        found = result if live.all() else merge(found, result, live)
        pending &= ~live
    return found, passes


def Branching(live: Live | None) -> Any:  # noqa: N802  # used like a class
    """A mode of PyTorch for a pass under ``vmap``, whose ``reads`` says whether a number was read.

    Reading a number changes the ``live`` rows, which agree so far, in place; None for a model that must not read
    numbers of rows.
    """
    torch = extra_module("torch", "torch")
    mode = torch.overrides.TorchFunctionMode
    usual_rule, data = torch.autograd.Function.vmap, torch.Tensor.data

    class Mode(mode):  # type: ignore[misc,valid-type]
        reads = False

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(function, "__name__", "")
            if name == "custom_function_call" and args[0].vmap is not usual_rule:
                raise RuntimeError("an autograd.Function with a vmap rule of its own may mix rows")
            if name == "__set__" and getattr(function, "__self__", None) is data:
                raise RuntimeError("a tensor under vmap must not become the data of another one")
            if name in READS and live is not None and len(args) == 1 and not kwargs:
                values = _rows_of(args[0])
                if values is not None:
                    self.reads = True
                    return _agreed(function, values, live)
            if name in RECURRENT and len(args) == 9 and isinstance(args[2], list | tuple) and not kwargs:
                return _recurrent(name, *args)
            return function(*args, **kwargs)

    return Mode()


def _rows_of(tensor: Any) -> Any:
    """The numbers of all rows of a tensor under ``vmap``, rows first; None for a tensor without rows."""
    library = extra_module("torch", "torch")._C._functorch
    axis = None
    while True:
        if library.is_gradtrackingtensor(tensor):
            tensor = library.get_unwrapped(tensor)
        elif library.is_batchedtensor(tensor):
            if axis is not None:
                return None  # of a vmap of the user's own
            axis, tensor = library.maybe_get_bdim(tensor), library.get_unwrapped(tensor)
        else:
            break
    if axis is None:
        return None
    with extra_module("torch._functorch.pyfunctorch", "torch").temporarily_clear_interpreter_stack():
        return tensor.detach().movedim(axis, 0).cpu().contiguous()


def _agreed(function: Any, values: Any, live: Live) -> Any:
    """The result of a function for the first live row; rows with other bits cease to be live."""
    torch = extra_module("torch", "torch")
    with extra_module("torch._functorch.pyfunctorch", "torch").temporarily_clear_interpreter_stack():
        bits = values.reshape(len(values), -1).view(torch.uint8).numpy()
        leader = int(np.flatnonzero(live)[0])
        live &= (bits == bits[leader]).all(axis=1)
        return function(values[leader])


def _recurrent(
    kind: str,
    given: Any,
    hidden: Any,
    weights: Sequence[Any],
    biases: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, Any]:
    """The result of ``torch._VF.gru`` and its kin: outputs and last states."""
    torch = extra_module("torch", "torch")
    functional = torch.nn.functional
    directions = 2 if bidirectional else 1
    own = 4 if biases else 2
    inputs = given.transpose(0, 1) if batch_first else given
    last = []
    for layer in range(layers):
        sides = []
        for side in range(directions):
            place = layer * directions + side
            of_input, of_state, *shifts = weights[own * place : own * (place + 1)]
            first, second = shifts if shifts else (None, None)
            steps = functional.linear(inputs.flip(0) if side else inputs, of_input, first)
            state, outputs = hidden[place], []
            for step in steps.unbind(0):
                state = _cell(kind, step, functional.linear(state, of_state, second), state)
                outputs.append(state)
            found = torch.stack(outputs)
            sides.append(found.flip(0) if side else found)
            last.append(state)
        inputs = torch.cat(sides, -1)
        if dropout and training and layer < layers - 1:
            inputs = functional.dropout(inputs, dropout)
    return inputs.transpose(0, 1) if batch_first else inputs, torch.stack(last)


def _cell(kind: str, of_input: Any, of_state: Any, state: Any) -> Any:
    """The next state of a cell."""
    torch = extra_module("torch", "torch")
    if kind != "gru":
        both = of_input + of_state
        return torch.tanh(both) if kind == "rnn_tanh" else torch.relu(both)
    (reset, update, new), (reset_state, update_state, new_state) = (each.chunk(3, -1) for each in (of_input, of_state))
    kept = torch.sigmoid(update + update_state)
    candidate = torch.tanh(new + torch.sigmoid(reset + reset_state) * new_state)
    return candidate + kept * (state - candidate)
