"""Private runs over several processes of PyTorch: each process makes the noise of its own part (the extra ``torch``).

    group = Group(model.parameters())                       # after ``fully_shard(model)``, or before ``DDP(model)``
    with PrivateRun(budget, epochs, mechanism, group.size, batches=…, folder="digits", ranks=group) as run:
        for batch in run:
            noisy = add_noise(run, sums_of_clipped_gradients(model, batch[group.rank :: group.count]))

Parameters that are sharded across the processes (``DTensor``: FSDP2, tensor parallelism) have sums that are sharded in
the same way and are summed over the examples of all processes; each process adds the noise of its shards, without
communication.
Parameters that each process has as a whole (data parallelism) have sums over the examples of one process.  A process
adds the noise of its own span to them, and then the sums are added over all.  Either way a coordinate has its noise
exactly once, with the bits of one process.

All processes see the folder; the first holds it (``run.ranks``).  What ``carry.save`` returns in the first process goes
to the checkpoint, and ``carry.load`` is called with it in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from corrnoise.simulations.run.ranks import Ranks
from corrnoise.simulations.run.spans import checked, rectangle, tiled
from corrnoise.support.extras import extra_module

Told = TypeVar("Told")

_BLOCK_COORDINATES = 2048  # coordinates of a block of draws


class Group(Ranks):
    """The processes of a process group that share a run, and the coordinates of this one.

    Parameters
    ----------
    parameters : iterable
        The trained parameters: only ``DTensor`` whose placements are ``Shard``, or only whole tensors.
    group : object, optional
        A process group; None for the group of all processes.

    Attributes
    ----------
    size
        Number of parameters of the model.
    cut
        Whether the parameters are cut.

    Raises
    ------
    ValueError
        A parameter is partial or replicated, some are cut and others whole, or a coordinate is in no shard or in two.
    """

    def __init__(self, parameters: Iterable[Any], group: Any = None) -> None:
        self._distributed = extra_module("torch.distributed", "torch")
        self._group = group
        self.rank = self._distributed.get_rank(group)
        self.count = self._distributed.get_world_size(group)
        trained = [each for each in parameters if each.requires_grad]
        self.size = sum(each.numel() for each in trained)
        self.layouts = [layout_of(each) for each in trained]
        self.cut = all(placements for *_, placements in self.layouts)
        if self.cut:
            firsts = np.cumsum([0, *(each.numel() for each in trained)]).tolist()
            self.spans = np.concatenate([_shard(*pair) for pair in zip(trained, firsts, strict=False)])
        elif any(placements for *_, placements in self.layouts):
            raise ValueError("parameters must be all DTensors or all whole, got some of each")
        else:
            share = (
                -(-self.size // (self.count * _BLOCK_COORDINATES)) * _BLOCK_COORDINATES
            )  # so that no block is drawn twice
            ends = range(share * self.rank, self.size)[:share]
            self.spans = checked([(ends.start, len(ends))] if ends else [], self.size)
        shards = [None] * self.count
        self._distributed.all_gather_object(shards, self.spans, group)
        tiled(shards, self.size)  # type: ignore[arg-type]  # which are all there

    def share(self, make: Callable[[], Told]) -> Told:
        """The result of a function in the first process; its exception is raised in all."""
        told: list[Any] = [None, None]
        if self.rank == 0:
            try:
                told[0] = make()
            except BaseException as error:
                told[1] = error
        first = 0 if self._group is None else self._distributed.get_global_rank(self._group, 0)
        self._distributed.broadcast_object_list(told, first, self._group)
        if told[1] is not None:
            raise told[1]
        made: Told = told[0]
        return made

    def wait(self) -> None:
        """Wait for all processes."""
        self._distributed.barrier(self._group)

    def add(self, total: Any) -> None:
        """Add a tensor up over all processes, in place.

        Parameters
        ----------
        total : object
            The tensor of this process.
        """
        self._distributed.all_reduce(total, group=self._group)


def several_processes() -> bool:
    """Whether ``torch.distributed`` joins several processes."""
    module = extra_module("torch.distributed", "torch")
    return bool(module.is_available() and module.is_initialized() and module.get_world_size() > 1)


def group_of(model: Any) -> Group | None:
    """The processes of a job where each process has the whole model; None for one process."""
    if not several_processes():
        return None
    if isinstance(model, extra_module("torch.nn.parallel", "torch").DistributedDataParallel):
        raise ValueError("model must be given without DistributedDataParallel, which adds gradients without noise")
    group = Group(model.parameters())
    if group.cut and group.layouts:
        raise ValueError(
            "model must be whole in each process, got parameters that are cut: take PrivateRun(…, ranks=Group(…)) and "
            "add_noise for these"
        )
    return group


def layout_of(tensor: Any) -> tuple[Any, ...]:
    """The shape of a tensor, and how it is cut."""
    return tensor.shape, getattr(tensor, "device_mesh", None), getattr(tensor, "placements", None)


def _shard(parameter: Any, first: int) -> Any:
    """The spans of the local shard of a ``DTensor`` whose first coordinate is ``first``."""
    tensors = extra_module("torch.distributed.tensor", "torch")
    for placement, length in zip(parameter.placements, parameter.device_mesh.shape, strict=True):
        if type(placement) is not tensors.Shard and (length > 1 or placement.is_partial()):
            raise ValueError(f"placements must be Shard, so that a coordinate is in one process, got {placement}")
    local = extra_module("torch.distributed.tensor._utils", "torch").compute_local_shape_and_global_offset
    shape, offset = local(parameter.shape, parameter.device_mesh, parameter.placements)
    return rectangle(tuple(parameter.shape), offset, shape, first)
