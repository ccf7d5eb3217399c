"""One run in two processes: they train the model of one, and models that are not whole are refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.adapters import training
from corrnoise.simulations.adapters.torch_run import TorchRun
from corrnoise.simulations.run.batches import batches
from tests.simulations.adapters.processes import made_by, process_group
from tests.simulations.adapters.small_network import command, flat
from tests.simulations.run.crashes import dies
from tests.simulations.run.sources import known_key

torch = pytest.importorskip("torch")

JOB = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from corrnoise.simulations.run.folder import Folder
from tests.simulations.adapters.test_torch_processes import job
job(Path(sys.argv[1]), int(sys.argv[2]))
"""


def trained(place: Path | None, stop: int = 12, seed: int = 0, **options: Any) -> TorchRun:
    """A run of a network without dropout, to a step."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    with mock.patch.object(training, "batches", partial(batches, rng=0)), known_key():
        run = command(place, model=model, optimizer=torch.optim.Adam(model.parameters(), lr=0.05), **options)
    for batch in run:
        run.step(batch)
        if run.position == stop:
            break
    return run


FLOATS: dict[str, Any] = {"sums": "float32", "release": "float"}


def job(place: Path, rank: int) -> None:
    with process_group(f"{place}/meet", rank):
        torch.save(flat(trained(None, chunk_size=4, seed=rank).model).numpy(), place / f"exact {rank}")
        torch.save(flat(trained(None, **FLOATS, seed=rank).model).numpy(), place / f"floats {rank}")
        torch.save(flat(trained(None, clipping="ghost", seed=rank).model).numpy(), place / f"ghost {rank}")
        run = trained(place, 7, seed=rank)
        dies(run)
        torch.save(flat(trained(place, seed=rank).model).numpy(), place / f"resumed {rank}")
        refused()
        without_gradients_of_examples(rank)


def without_gradients_of_examples(rank: int) -> None:
    """The reason to refuse FSDP2: ``backward`` adds up the examples of processes, and ``torch.func`` finds zeros."""
    torch.manual_seed(0)
    rows, plain = torch.randn(2, 6), torch.nn.Linear(6, 3, bias=False)
    own = [torch.autograd.grad(plain(row[None]).square().sum(), plain.weight)[0] for row in rows]
    model = torch.distributed.fsdp.fully_shard(plain)
    model(rows[rank : rank + 1]).square().sum().backward()
    torch.testing.assert_close(model.weight.grad.full_tensor(), (own[0] + own[1]) / 2)

    def loss(parameters: dict[str, Any], row: Any) -> Any:
        return torch.func.functional_call(model, parameters, (row[None],)).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(dict(model.named_parameters()), rows)
    assert not found["weight"].any()


def refused() -> None:
    """Models that are not whole in each process."""
    model = torch.nn.Linear(6, 3)
    for wrong, message in (
        (torch.nn.parallel.DistributedDataParallel(model), "without DistributedDataParallel"),
        (torch.distributed.fsdp.fully_shard(torch.nn.Linear(6, 3)), "whole in each process"),
    ):
        with pytest.raises(ValueError, match=message):
            command(None, model=wrong, optimizer=torch.optim.SGD(wrong.parameters(), lr=0.1))


def test_two_processes_train_the_model_of_one(tmp_path: Path) -> None:
    """They share batches of 12 and one of an odd number; the second process has other parameters at the start."""
    made_by(JOB, *([str(tmp_path), str(rank)] for rank in range(2)))
    for name, options in (("exact", {}), ("floats", FLOATS), ("ghost", {"clipping": "ghost"})):
        one, two = (torch.load(tmp_path / f"{name} {rank}", weights_only=False) for rank in range(2))
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, flat(trained(None, **options).model).numpy(), atol=2e-5)
    one, two = (torch.load(tmp_path / f"resumed {rank}", weights_only=False) for rank in range(2))
    np.testing.assert_array_equal(one, two)
