"""Loops over sampled batches: sums over a constant, empty batches, and the same batches after a crash.

The loops of PyTorch, Opacus and JAX are compared with one of NumPy that has the same key.  Skipped where a library is
not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.adapters import jax as jax_loop
from corrnoise.simulations.adapters import jax_run, opacus, torch_run, training
from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters.options import Clipping
from corrnoise.simulations.adapters.torch import private_gradient
from corrnoise.simulations.adapters.training import batches_of
from corrnoise.simulations.audit import audit
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.processes import made_by
from tests.simulations.run.sources import counted, known_key, worst_case

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
torch.set_num_threads(1)

EXAMPLES = 50
BUDGET = Budget(epsilon=8.0, delta=1e-5)
RATE = 0.5
KINDS = [
    (Participation.poisson(30, 0.03), 2),
    (Participation.cyclic_poisson(30, period=10, rate=0.3), 2),
    (Participation.balls_in_bins(30, period=20), 2),
    (Participation.redrawn_bins(30, period=20), 3),
    (Participation.poisson(30, 0.03, capacity=4, examples=EXAMPLES), 2),
]
#: The same for tests; cyclic Poisson and redrawn bins are among the slow ones.
MARKED = [each if number % 2 == 0 else pytest.param(*each, marks=pytest.mark.slow) for number, each in enumerate(KINDS)]


@pytest.fixture(autouse=True)
def _without_accountant() -> Iterator[None]:
    with worst_case():
        yield


_rng = np.random.default_rng(3)
INPUTS = _rng.normal(size=(EXAMPLES, 6)).astype(np.float32)
TARGETS = _rng.integers(3, size=EXAMPLES)
Trained = tuple[np.ndarray, list[int]]


def by_numpy(who: Participation, size: int, *, mean: bool = False) -> Trained:
    """Softmax regression; with ``mean``, over the actual batch."""
    with known_key():
        run = PrivateRun(BUDGET, who, DPSGD(), 18, batches=batches(who, EXAMPLES, size))
    model, sizes = np.zeros((3, 6)), []
    for batch in run:
        x = INPUTS[batch].astype(float)
        scores = np.exp(x @ model.T)
        residuals = scores / scores.sum(axis=1, keepdims=True) - np.eye(3)[TARGETS[batch]]
        each = residuals[:, :, np.newaxis] * x[:, np.newaxis]
        norms = np.sqrt((each**2).sum(axis=(1, 2)))
        total = (each * np.minimum(1, (1 - 1e-4) / norms)[:, np.newaxis, np.newaxis]).sum(axis=0)
        noisy = run.add_noise(total.ravel()).reshape(3, 6)
        model -= RATE * noisy / (max(batch.size, 1) if mean else size)
        sizes.append(batch.size)
    return model, sizes


def linear() -> tuple[Any, Any]:
    model = torch.nn.Linear(6, 3, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=RATE)


def tensors(*, dataset: bool) -> Any:
    found = torch.tensor(INPUTS), torch.tensor(TARGETS)
    return torch.utils.data.TensorDataset(*found) if dataset else found


def options(who: Participation, size: int) -> dict[str, Any]:
    return {"budget": BUDGET, "batch_size": size, "participation": who, "mechanism": DPSGD()}


def by_torch(who: Participation, size: int, *, dataset: bool = False) -> Trained:
    model, optimizer = linear()
    loss = torch.nn.functional.cross_entropy
    with known_key():
        run = torch_run.make_private(model, optimizer, tensors(dataset=dataset), loss=loss, **options(who, size))
    sizes = []
    for batch in run:
        run.step(batch)
        sizes.append(batch.size)
    return model.weight.detach().numpy(), sizes


def by_opacus(
    who: Participation, size: int, *, dataset: bool = False, first: bool = True, clipping: Clipping = "example"
) -> Trained:
    model, optimizer = linear()
    loss = torch.nn.functional.cross_entropy
    with known_key() if first else counted():
        forward, optimizer, criterion, loader = opacus.make_private(
            model, optimizer, tensors(dataset=dataset), loss=loss, clipping=clipping, **options(who, size)
        )
    sizes = []
    for x, y in loader:
        optimizer.zero_grad()
        criterion(forward(x), y).backward()
        optimizer.step()
        sizes.append(len(x))
    return model.weight.detach().numpy(), sizes


def by_opacus_ghost(who: Participation, size: int) -> Trained:
    return by_opacus(who, size, clipping="ghost")


def by_jax(who: Participation, size: int) -> Trained:
    def loss(model: Any, x: Any, y: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(model @ x, y)

    with known_key():
        run = jax_run.make_private(
            jax.numpy.zeros((3, 6)), optax.sgd(RATE), (INPUTS, TARGETS), loss=loss, **options(who, size)
        )
    sizes = []
    for batch in run:
        run.step(batch)
        sizes.append(batch.size)
    summed = jax_loop.clipped_sum(loss, BUDGET.clip_norm, run.grid, run.size, None)
    assert summed._cache_size() == 1  # one shape, whoever takes part
    return np.asarray(run.parameters), sizes


@pytest.mark.parametrize(("who", "size"), MARKED, ids=lambda each: getattr(each, "kind", ""))
@pytest.mark.parametrize("loop", [by_torch, by_opacus, by_opacus_ghost, by_jax])
def test_each_library_takes_the_steps_of_the_definition(
    who: Participation, size: int, loop: Callable[[Participation, int], Trained]
) -> None:
    expected, sizes = by_numpy(who, size)
    model, found = loop(who, size)
    assert found == sizes
    assert 0 in sizes
    assert len(set(sizes)) > 2
    np.testing.assert_allclose(model, expected, rtol=1e-3, atol=1e-3)
    mutant, _ = by_numpy(who, size, mean=True)
    assert np.abs(mutant - expected).max() > 0.1


def test_data_sets_have_empty_batches_too() -> None:
    who, size = KINDS[0]
    for loop in (by_torch, by_opacus):
        np.testing.assert_array_equal(loop(who, size)[0], loop(who, size, dataset=True)[0])


class CrashError(Exception):
    """The end of a process."""


@pytest.mark.parametrize(("who", "size"), MARKED[:4], ids=lambda each: getattr(each, "kind", ""))
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_run_that_is_killed_goes_on_with_the_same_batches(
    who: Participation, size: int, clean: bool, tmp_path: Path
) -> None:
    """Batches of one sampler, each once or again with the same release, and the model of a run without a crash."""
    models = []
    for stops in ((30,), (4, 5, 17, 30)):
        shown: dict[int, list[int]] = {}
        folder = Folder(tmp_path / f"{len(stops)}", marks=tmp_path / "marks", checkpoint_every=6)
        for stop in stops:
            model, optimizer = linear()
            with counted(0 if not shown else 1 + max(shown) + 1):  # after the key and a nonce a step
                run = torch_run.make_private(
                    model,
                    optimizer,
                    tensors(dataset=False),
                    loss=torch.nn.functional.cross_entropy,
                    folder=folder,
                    **options(who, size),
                )
                with suppress(CrashError):
                    for batch in run:
                        assert shown.setdefault(run.position, batch.tolist()) == batch.tolist()
                        run.step(batch)
                        if run.position == stop < 30:
                            raise CrashError
                if not run._closed:
                    run._end(saves=clean)
        assert sorted(shown) == list(range(30))
        models.append(model.weight.detach().numpy())
    np.testing.assert_array_equal(*models)


def through_torch(data: Any, *, mean: bool = False) -> np.ndarray:
    """The gradient of an example is the example; what is released is the sum."""
    who, size = Participation.poisson(20, 0.1), data[0][[0]].shape[1]
    run = PrivateRun(BUDGET, who, DPSGD(), size, batches=batches(who, len(data[0]), max(round(len(data[0]) / 10), 1)))
    model = torch.nn.Linear(size, 1, bias=False, dtype=torch.float64)
    released = []
    for batch, examples in zip(run, data, strict=True):
        inputs = torch.from_numpy(examples[batch])
        private_gradient(run, model, lambda outputs, _: outputs.sum(), (inputs, torch.zeros(batch.size)))
        wrong = batch.size or 1 if mean else batches_of(run).batch_size
        released.append(
            model.weight.grad.numpy().ravel() * batches_of(run).batch_size * batches_of(run).batch_size / wrong
        )
    return np.array(released)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "verdict"), [(False, "nothing found"), (True, "not private as claimed")])
def test_the_loop_of_torch_is_audited(mean: bool, verdict: str) -> None:
    """The keys of the runs are not seeded: the level is 1e-6."""
    claim = BUDGET, DPSGD().program(Participation.poisson(20, 0.1))
    found = audit(lambda data: through_torch(data, mean=mean), claim, idle=100, level=1e-6, rng=1)
    assert found.verdict == verdict, found.report()


def test_what_a_batch_draws_is_secret() -> None:
    """Two runs of a script with a known seed have other masks; runs of one secret have the same."""

    def trained(key: Any, who: Participation) -> np.ndarray:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(6, 3))
        given = {**options(who, 10), "loss": torch.nn.functional.cross_entropy}
        with (
            key,
            mock.patch.object(
                training,
                "batches",
                lambda who, examples, size: batches(who, examples, size, None if who.sampled else 0),
            ),
            mock.patch.object(torch_loop, "add_noise", lambda _, sums: [each.float() for each in sums]),
        ):
            run = torch_run.make_private(
                model, torch.optim.SGD(model.parameters(), lr=0.1), tensors(dataset=False), **given
            )
            run.gradient(run.next_batch())
        return torch.cat([each.grad.reshape(-1) for each in model.parameters()]).numpy()

    for who in (Participation.poisson(5, 10 / EXAMPLES), Participation.single(5)):
        first, again, other = (trained(key, who) for key in (known_key(), known_key(), counted()))
        np.testing.assert_array_equal(first, again)
        assert np.any(first != other)


TWO = """
import sys
import torch
torch.set_num_threads(1)
from tests.simulations.adapters.processes import process_group
from tests.simulations.adapters.test_sampled_loops import KINDS, by_opacus
from tests.simulations.run.sources import worst_case
file, rank = sys.argv[1], int(sys.argv[2])
with process_group(file, rank), worst_case():
    model, sizes = by_opacus(*KINDS[0], first=rank == 0)
    torch.save((torch.tensor(model), sizes), file + str(rank))
"""


@pytest.mark.slow
def test_two_processes_share_the_batches_of_the_first(tmp_path: Path) -> None:
    """The second process has another secret of its own; its share of a batch may be empty."""
    made_by(TWO, *([str(tmp_path / "meet"), str(rank)] for rank in range(2)))
    expected, sizes = by_opacus(*KINDS[0])
    found = [torch.load(f"{tmp_path}/meet{rank}", weights_only=True) for rank in range(2)]
    assert [one + two for one, two in zip(found[0][1], found[1][1], strict=True)] == sizes
    for model, shares in found:
        np.testing.assert_allclose(model.numpy(), expected, atol=1e-5)
        assert 0 in shares
