"""Jobs of processes that share a run, which ``test_torch_shards`` starts and kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from corrnoise.simulations.adapters.torch import add_noise
from corrnoise.simulations.adapters.torch_shards import Group
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.processes import process_group

STEPS, KILLED = 8, 5
MODES = ("fsdp", "columns", "whole", "integers")


def folder_of(path: Path) -> Folder:
    return Folder(path / "run", checkpoint_every=2, keep_releases=False, marks=path / "marks")


def run_of(path: Path, size: int, mode: str, ranks: Any = None) -> PrivateRun:
    once = Participation.single(STEPS)
    options: dict[str, Any] = {"folder": folder_of(path), "ranks": ranks}
    if mode == "integers":
        options |= {"batches": batches(once, 4 * STEPS, 4, rng=0), "sums": "exact", "release": "grid"}
    return PrivateRun(Budget(0.5), once, NuFTRL(0.1), size, **options)


def model() -> torch.nn.Module:
    """A model with leaves that two processes cannot halve."""
    return torch.nn.Sequential(torch.nn.Linear(70, 61), torch.nn.Tanh(), torch.nn.Linear(61, 9))


def parameters(mode: str, mesh: Any) -> list[Any]:
    """The parameters of the model, cut in some way."""
    made = model()
    if mode == "fsdp":
        for layer in (*made.children(), made):
            fully_shard(layer, mesh=mesh)
    found = list(made.parameters())
    if mode != "columns":
        return found
    return [torch.nn.Parameter(distribute_tensor(each.detach(), mesh, [Shard(each.dim() - 1)])) for each in found]


def value(mode: str, step: int) -> float:
    """All coordinates of the sum of a step of one process; whole sums are zero, so that they add without rounding."""
    return {"whole": 0.0, "integers": 12345 * step}.get(mode, step / 4)


def noisy(run: PrivateRun, own: list[Any], mode: str) -> Iterator[np.ndarray]:
    """The noisy sums of the steps to come, whole."""
    kind = torch.int32 if mode == "integers" else torch.float32
    for _ in run:
        sums = add_noise(run, [torch.full_like(each.detach(), value(mode, run.position), dtype=kind) for each in own])
        full = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in sums]
        yield torch.cat([each.reshape(-1) for each in full]).numpy()


def one_process(path: Path, mode: str) -> np.ndarray:
    """The noisy sums of all steps of one process under the same key and nonces, shape (steps, size)."""
    size = sum(each.numel() for each in model().parameters())
    kind, processes = (np.int32, 2) if mode == "integers" else (np.float32, 1)
    with mock.patch.object(draws, "fresh", lambda count: bytes(range(count))), run_of(path, size, mode) as run:
        return np.array([run.add_noise(np.full(size, processes * value(mode, run.position), kind)) for _ in run])


def job(rank: int, path: Path, dies: bool) -> None:
    """Run in all modes, from where the folders are; the second process is killed in its last mode."""
    with process_group(f"{path}/{dies}", rank):
        mesh = init_device_mesh("cpu", (2,))
        refusals(mesh)
        with mock.patch.object(draws, "fresh", lambda count: bytes(range(count))):
            for mode in MODES:
                own = parameters(mode, mesh)
                group = Group(own)
                run = run_of(path / mode, group.size, mode, group)
                start = run.position
                for made in noisy(run, own, mode):
                    if rank == 0:
                        np.save(path / mode / f"noisy-{run.position - 1}.npy", made)
                    if dies and run.position == KILLED:
                        break
                if rank == 0:
                    (path / mode / f"position-{start}").touch()
                distributed.barrier()
                if not dies:
                    run.close()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


def refusals(mesh: Any) -> None:
    """Placements in which a coordinate is in no process or in two, mixtures, and sums of other layouts."""
    whole = torch.zeros(4, 4)
    rows = torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)]))
    for placement in (Replicate(), Partial()):
        with pytest.raises(ValueError, match="placements must be Shard, so that a coordinate is in one process"):
            Group([torch.nn.Parameter(DTensor.from_local(whole, mesh, [placement]))])
    with pytest.raises(ValueError, match="parameters must be all DTensors or all whole"):
        Group([rows, torch.nn.Parameter(whole)])
    group = Group([rows])
    run = PrivateRun(Budget(0.5), Participation.single(2), NuFTRL(0.1), group.size, ranks=group)
    run.next_batch()
    for sums in ([distribute_tensor(whole, mesh, [Shard(1)])], [whole], []):
        with pytest.raises(ValueError, match="sums must have the shapes, meshes and placements"):
            add_noise(run, sums)
    plain = [torch.nn.Parameter(whole), torch.nn.Parameter(torch.zeros(5000))]
    group = Group(plain)
    run = PrivateRun(Budget(0.5), Participation.single(2), NuFTRL(0.1), group.size, ranks=group)
    run.next_batch()
    with pytest.raises(ValueError, match="sums must be of float32 or float64"):
        add_noise(run, [whole, torch.zeros(5000, dtype=torch.bfloat16)])
    for place in (0, 4999):  # of the first process, and of the second
        sums = [whole, torch.zeros(5000)]
        sums[1][place] = torch.nan
        with pytest.raises(ValueError, match="sums must be finite"):
            add_noise(run, sums)
