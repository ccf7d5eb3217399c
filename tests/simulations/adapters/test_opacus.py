"""The loop of Opacus: its runs equal the runs of ``cn.torch``, and misuse of a loop is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.adapters import opacus, torch_run, training
from corrnoise.simulations.adapters.torch import clipped_sum
from corrnoise.simulations.adapters.torch_choice import example_gradients
from corrnoise.simulations.audit import audit
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.processes import made_by
from tests.simulations.adapters.small_network import BATCH, BUDGET, EXAMPLES, NOISE, data, flat, network
from tests.simulations.run.sources import known_key

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

loss = torch.nn.functional.cross_entropy


def made(door: Any, order: int = 0, **options: Any) -> Any:
    """The same run through one of the two doors."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
    chosen = {"loss": loss, "budget": BUDGET, "epochs": 5, "batch_size": BATCH, "mechanism": NOISE} | options
    with known_key(), mock.patch.object(training, "batches", partial(batches, rng=order)):
        return door.make_private(model, optimizer, data(), **chosen)


def trained(found: tuple[Any, ...], last: int = 20) -> Any:
    forward, optimizer, criterion, loader = found
    for x, y in loader:
        optimizer.zero_grad()
        criterion(forward(x), y).backward()
        optimizer.step()
        if criterion.run.position == last < 20:
            break
    return flat(forward)


@pytest.mark.parametrize(
    "options", [{}, {"clipping": "example"}, {"engine": "loop"}, {"sums": "float32", "release": "float"}]
)
def test_the_loop_trains_the_model_of_a_run_of_torch(options: dict[str, Any]) -> None:
    run = made(torch_run, **options)
    for batch in run:
        run.step(batch)
    assert torch.equal(trained(made(opacus, **options)), flat(run.model))


def test_the_same_script_resumes_the_loop(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", marks=tmp_path / "marks")
    found = made(opacus, folder=folder)
    trained(found, last=7)
    found[2].run.close()
    forward, optimizer, criterion, loader = made(opacus, folder=folder)
    assert (criterion.run.position, len(loader)) == (7, 13)
    trained((forward, optimizer, criterion, loader))
    again = made(opacus, folder=folder)
    assert list(again[3]) == []
    assert torch.equal(flat(again[0]), flat(forward))


def test_state_and_mode_are_those_of_the_model() -> None:
    forward, *_ = made(opacus)
    assert list(forward.state_dict()) == list(network().state_dict())
    forward.load_state_dict(network().state_dict())
    x = data()[0][:3]
    with pytest.raises(RuntimeError, match="put all terms on outputs into loss="):
        forward(x).sum().backward()
    forward.eval()
    assert forward(x).requires_grad
    assert not forward.module.training


def test_rows_that_the_loop_changes_are_refused() -> None:
    """Mixed inputs, other targets and another batch: the gradient would be that of the rows that the run has read."""
    forward, _, criterion, loader = made(opacus)
    x, y = next(iter(loader))
    for inputs, targets, name in (
        (0.5 * x + 0.5 * x.flip(0), y, "inputs"),
        (x, y.flip(0), "targets"),
        (x[1:], y, "inputs"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be the ones that the loader .* item="):
            criterion(forward(inputs), targets)
    criterion(forward(x), y).backward()
    with pytest.raises(RuntimeError, match="no batch was handed out"):
        criterion(forward(x), y)


def test_outputs_that_the_loop_changes_are_refused() -> None:
    """The gradient is that of ``loss``, so a temperature or a further term in the loop would be lost."""
    forward, _, criterion, loader = made(opacus)
    x, y = next(iter(loader))
    for change in (lambda out: out / 0.1, lambda out: out[:, :2]):
        with pytest.raises(ValueError, match="outputs must be those of the model"):
            criterion(change(forward(x)), y)
    with pytest.raises(ValueError, match="outputs must come from the returned model"):
        criterion(criterion.run.model(x), y)
    private = criterion(out := forward(x), y)
    with pytest.raises(RuntimeError, match="put all terms on outputs into loss="):
        (private + out.square().mean()).backward()


def test_parameters_that_are_replaced_are_refused() -> None:
    """The optimizer would step along old tensors, and the guard would not see the new ones."""
    run = made(torch_run)
    run.model.load_state_dict({name: each.clone() for name, each in run.model.state_dict().items()}, assign=True)
    with pytest.raises(ValueError, match=r"same tensors during the whole run: .*assign=True"):
        run.step(run.next_batch())


def test_missing_numbers_and_names_of_inputs_are_compared() -> None:
    class Named(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(6, 3)

        def forward(self, x: Any, scale: Any) -> Any:
            return self.layer(x.nan_to_num(0.0)) * scale[:, None]

    x, y = data()
    x[::3, 1] = torch.nan
    model = Named()
    forward, optimizer, criterion, loader = opacus.make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        ({"x": x, "scale": torch.ones(EXAMPLES)}, y),
        loss=loss,
        budget=BUDGET,
        batch_size=BATCH,
        epochs=1,
        mechanism=NOISE,
    )
    for rows, targets in loader:
        criterion(forward(scale=rows["scale"], x=rows["x"]), targets).backward()
        optimizer.step()
    assert criterion.run.position == 4


def test_changed_rows_of_the_loader_leave_the_gradient_alone() -> None:
    found = []
    for change in (False, True):
        forward, _, criterion, loader = made(opacus)
        x, y = next(iter(loader))
        private = criterion(forward(x), y)
        if change:
            x.zero_()
        private.backward()
        found.append(torch.cat([each.grad.reshape(-1) for each in forward.parameters()]))
    assert torch.equal(*found)


@pytest.mark.parametrize("start", ["own loss", "sum", "double", "older batch"])
def test_every_other_backward_pass_is_refused(start: str) -> None:
    """The first three reach the parameters without noise, or twice with one noise."""
    forward, _, criterion, loader = made(opacus)
    model = criterion.run.model
    x, y = next(iter(loader))
    private = criterion(forward(x), y)
    if start == "double":
        private.backward()
        with pytest.raises(RuntimeError, match=r"backward through the graph a second time|one backward pass"):
            private.backward()
        return
    if start == "older batch":
        criterion.run.gradient(criterion.run.handed)
        with pytest.raises(RuntimeError, match="one backward pass"):
            private.backward()
        return
    own = loss(model(x), y)
    with pytest.raises(RuntimeError, match=r"backward must start from the private loss .* run\.public"):
        (own if start == "own loss" else private + 1000 * own).backward()
    assert all(each.grad is None for each in model.parameters())


def test_gradients_of_public_data_and_scales_are_allowed() -> None:
    run = made(torch_run)
    run.next_batch()
    with run.public():
        loss(run.model(data()[0]), data()[1]).backward()
    public = [each.grad.clone() for each in run.model.parameters()]
    (run.private_loss() / 4).backward()
    with_public = [each.grad.clone() for each in run.model.parameters()]
    other = made(torch_run)
    other.gradient(other.next_batch())
    for one, more, private in zip(public, with_public, other.model.parameters(), strict=True):
        torch.testing.assert_close(more, one + private.grad / 4)


def test_losses_are_hidden_unless_they_are_asked_for() -> None:
    run = made(torch_run)
    batch = run.next_batch()
    rows = tuple(each[batch] for each in data())
    expected = float(loss(run.model(rows[0]), rows[1]).detach())
    assert run.private_loss().item() == 0.0
    with pytest.warns(training.UnprotectedWarning, match="not protected"):
        assert run.private_loss(unprotected=True).item() == pytest.approx(expected, rel=1e-5)
    with pytest.warns(training.UnprotectedWarning):
        found = run.step(batch, unprotected=True)
    assert found.loss == pytest.approx(expected, rel=1e-5)
    samples = example_gradients(network(), loss, rows)
    norms = torch.cat([each.flatten(1) for each in samples.values()], 1).norm(dim=1).numpy()
    np.testing.assert_allclose(np.sort(found.norms), np.sort(norms), rtol=1e-2)
    assert found.clipped == np.mean(found.norms > 1)
    assert run.step(run.next_batch()) is None


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_gradients_of_opacus_are_those_of_the_library() -> None:
    """Opacus is the oracle, where its hooks are right."""
    module = pytest.importorskip("opacus.grad_sample")
    x, y = data()
    wrapped = module.GradSampleModule(network(), loss_reduction="sum")
    loss(wrapped(x), y, reduction="sum").backward()
    theirs = [each.grad_sample for each in wrapped.parameters()]
    ours = example_gradients(network(), loss, (x, y))
    for one, other in zip(theirs, ours.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    for one, other in zip(clipped_sum(theirs, 0.5), clipped_sum(list(ours.values()), 0.5), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


# -- the audit of the loop ---------------------------------------------------------------------------------------------

CANARIES = 832  # examples of the largest batch
EPOCHS = Participation.fixed_epochs(40, epochs=4)
CLAIM = Budget(epsilon=5.0, delta=1e-5)


def through_the_loop(gradients_of: Any, budget: Budget = CLAIM) -> np.ndarray:
    """The gradient of an example is the example, and a step of SGD is what is released."""
    size = gradients_of[0].shape[1]
    model = torch.nn.Linear(size, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    handed = iter(gradients_of)

    class Rows(torch.utils.data.Dataset):  # type: ignore[name-defined]
        def __len__(self) -> int:
            return 10 * CANARIES

        def __getitem__(self, number: int) -> Any:
            return torch.zeros(size), torch.zeros(())

    forward, optimizer, criterion, _ = opacus.make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        Rows(),
        loss=lambda outputs, _: outputs.sum(),
        budget=budget,
        batch_size=CANARIES,
        epochs=4,
        mechanism=NOISE,
    )
    released = []
    for _ in criterion.run:
        rows = torch.zeros(CANARIES, size)
        gradients = next(handed)
        rows[: len(gradients)] = torch.from_numpy(gradients).float()
        criterion.run._read = criterion.run.position, (rows, torch.zeros(CANARIES))
        optimizer.zero_grad()
        criterion(forward(rows)).backward()
        optimizer.step()
        released.append(model.weight.detach().numpy().ravel().copy())
    return -CANARIES * np.diff(np.array(released), axis=0, prepend=0.0)


def audited(release: Any) -> Any:
    """The keys of the runs are not seeded: the level is 1e-6."""
    from corrnoise.simulations.run.engines import streaming

    return audit(release, (CLAIM, streaming(NOISE, EPOCHS)), factor=4.0, idle=200, level=1e-6, rng=1)


@pytest.mark.slow
def test_the_loop_is_as_claimed() -> None:
    found = audited(through_the_loop)
    assert found.verdict == "nothing found", found.report()
    assert found.mu_lower_bound > found.mu / 2  # with this many canaries eight standard deviations below the mean


@pytest.mark.slow
def test_a_loop_that_clips_to_three_times_the_norm_is_found() -> None:
    """The noise grows with the clip norm, so that privacy does not suffer."""
    found = audited(lambda given: through_the_loop(given, Budget(epsilon=5.0, delta=1e-5, clip_norm=3.0)))
    assert (found.verdict, found.cause) == ("noise not as claimed", "the noise is larger than claimed")


# -- several processes -------------------------------------------------------------------------------------------------

DISTRIBUTED = """
import sys
import torch
torch.set_num_threads(1)
from corrnoise.simulations.adapters import opacus
from corrnoise.simulations.run.folder import Folder
from tests.simulations.adapters.processes import process_group
from tests.simulations.adapters.test_opacus import flat, made, trained
file, rank = sys.argv[1], int(sys.argv[2])
with process_group(file, rank):
    torch.save(trained(made(opacus, order=0 if rank == 0 else 99)), file + str(rank))
    for last, start in ((7, 0), (20, 7)):
        found = made(opacus, folder=Folder(file + " run", marks=file + " marks"))
        assert (found[2].run.position, found[2].run.skipped) == (start, 0)
        trained(found, last=last)
        found[2].run.close()
    torch.save(flat(found[0]), file + f" resumed {rank}")
"""


def test_two_processes_make_the_model_of_one(tmp_path: Path) -> None:
    made_by(DISTRIBUTED, *([str(tmp_path / "meet"), str(rank)] for rank in range(2)))
    expected = trained(made(opacus)).numpy()
    for rank in range(2):
        found = torch.load(f"{tmp_path}/meet{rank}", weights_only=True)
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-4)
    one, two = (torch.load(f"{tmp_path}/meet resumed {rank}", weights_only=True).numpy() for rank in range(2))
    np.testing.assert_array_equal(one, two)


def test_sampled_batches_of_the_loader_may_be_empty() -> None:
    who = Participation.poisson(30, 1 / EXAMPLES)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward, optimizer, criterion, loader = opacus.make_private(
        model, optimizer, data(), loss=loss, budget=CLAIM, batch_size=1, participation=who, mechanism=DPSGD()
    )
    sizes = []
    for x, y in loader:
        sizes.append(len(x))
        criterion(forward(x) if len(x) else None, y).backward()
        optimizer.step()
    assert 0 in sizes
    assert len(sizes) == 30
