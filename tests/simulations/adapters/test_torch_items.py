"""Items as users have them: pairs, dictionaries, numbers, padding; and the messages about others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.adapters.torch_items import Examples, as_item, leaves, stacked

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

functional = torch.nn.functional


class Items(torch.utils.data.Dataset):  # type: ignore[name-defined]
    def __init__(self, make: Any, count: int = 12) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return self.make(number)


class Named(torch.nn.Module):  # type: ignore[name-defined]
    """A model that takes its inputs by name, and returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: Any, scale: Any = None, labels: Any = None) -> Any:
        outputs = self.layer(x if scale is None else x * scale[:, None])
        if labels is None:
            return outputs
        return {"scores": outputs, "loss": functional.cross_entropy(outputs, labels)}


rng = np.random.default_rng(0)
X = torch.tensor(rng.normal(size=(12, 4)), dtype=torch.float32)
SCALE = torch.tensor(rng.normal(size=12), dtype=torch.float32)
Y = torch.tensor(rng.integers(3, size=12))


def gradient(data: Any, loss: Any = functional.cross_entropy, **options: Any) -> Any:
    """The clipped sum of all twelve examples, with noise of 1e-6."""
    model = Named()
    run = cn.torch.make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        data,
        loss=loss,
        budget=cn.Budget(rho=1e14),
        batch_size=12,
        epochs=1,
        mechanism=cn.mechanisms.DPSGD(),
        clipping="example",
        **options,
    )
    run.gradient(run.next_batch())
    return 12 * torch.cat([each.grad.reshape(-1) for each in model.parameters()])


def by_hand() -> Any:
    model = Named()
    total = torch.zeros(15)
    for number in range(12):
        model.zero_grad()
        functional.cross_entropy(model(X[number, None], SCALE[number, None]), Y[number, None]).backward()
        own = torch.cat([each.grad.reshape(-1) for each in model.parameters()])
        total += own * (1 / own.norm()).clamp(max=1)
    return total


@pytest.mark.parametrize(
    "data",
    [
        ((X, SCALE), Y),
        ({"x": X, "scale": SCALE}, Y),
        Items(lambda k: ((X[k], SCALE[k]), Y[k])),
        Items(lambda k: [{"x": X[k].numpy(), "scale": float(SCALE[k])}, int(Y[k])]),
        Items(lambda k: ((X[k].tolist(), SCALE[k].item()), Y[k].numpy())),
        [((X[k], SCALE[k]), Y[k]) for k in range(12)],
    ],
    ids=["tuple of tensors", "dictionary of tensors", "items", "arrays and numbers", "lists", "a list of items"],
)
def test_pairs_are_taken_in_all_their_forms(data: Any) -> None:
    torch.testing.assert_close(gradient(data), by_hand(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "data",
    [
        {"x": X, "scale": SCALE, "labels": Y},
        Items(lambda k: {"x": X[k], "scale": SCALE[k], "labels": int(Y[k])}),
    ],
    ids=["tensors", "items"],
)
def test_dictionaries_go_to_a_model_that_returns_its_loss(data: Any) -> None:
    torch.testing.assert_close(gradient(data, cn.torch.model_loss), by_hand(), rtol=1e-3, atol=1e-3)


def test_items_of_three_parts_are_mapped() -> None:
    data = Items(lambda k: (X[k], SCALE[k], Y[k]))
    with pytest.raises(
        ValueError, match=r"must be pairs \(inputs, target\) or dictionaries, got 3 parts: .*item=lambda"
    ):
        gradient(data)
    mapped = gradient(data, item=lambda parts: ((parts[0], parts[1]), parts[2]))
    torch.testing.assert_close(mapped, by_hand(), rtol=1e-3, atol=1e-3)


def test_items_of_several_lengths_are_padded() -> None:
    data = Items(lambda k: {"x": torch.ones(2 + k % 3), "labels": torch.arange(2 + k % 3)})
    assert len(Examples(data)) == 12
    with pytest.raises(
        ValueError, match=r"x must have the shape .* 'float32 \(2,\)'|got float32 \(3,\): pad it .*pad_to"
    ):
        Examples(data).rows(np.arange(3))
    rows = Examples(data, cn.torch.pad_to(3, values={"labels": -100})).rows(np.arange(3))
    assert rows["x"].tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert rows["labels"].tolist() == [[0, 1, -100], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (torch.utils.data.DataLoader(Items(lambda k: (X[k], Y[k])), batch_size=4), r"pass loader\.dataset as data"),
        (iter([]), "a Dataset with a length and items by number, got list_iterator"),
        ("digits", "got str"),
        (Items(lambda k: {"x": "text"}), "x of an item must be a tensor or a number, got str: convert it with item="),
        (Items(lambda k: (object(), 1)), "inputs of an item must be a tensor or a number, got object"),
        ((X.numpy(), Y), r"ndarray in place of a tensor: use torch\.as_tensor"),
        ((X, Y[:5]), r"same number of examples, got inputs \(12, 4\), target \(5,\)"),
        ((X[:0], Y[:0]), "at least one example"),
        (Items(lambda k: X[k]), "must be pairs .* got Tensor"),
    ],
)
def test_other_data_are_refused_with_a_way_out(data: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Examples(data)


def test_a_data_set_may_use_one_buffer_for_all_items() -> None:
    buffer = torch.zeros(4)
    data = Items(lambda k: (buffer.copy_(X[k]), Y[k]))
    assert torch.equal(Examples(data).rows(np.arange(12))[0], X)


def test_a_map_that_remembers_items_is_refused() -> None:
    mean = torch.zeros(4)

    def remembering(item: Any) -> Any:
        return mean.mul_(0.5).add_(0.5 * item[0]).clone(), item[1]

    with pytest.raises(ValueError, match="item must map each item alone"):
        Examples((X, Y), remembering)
    assert len(Examples((X, Y), lambda item: (item[0] + torch.rand(4), item[1]))) == 12


def test_an_empty_batch_has_the_shapes_of_the_items() -> None:
    rows = Examples(Items(lambda k: ((X[k], SCALE[k]), Y[k]))).rows(np.arange(0))
    assert [tuple(leaf.shape) for _, leaf in leaves(rows)] == [(0, 4), (0,), (0,)]
    assert stacked([], as_item((X[0], Y[0])))[1].dtype == torch.int64


def test_the_map_of_items_is_compared_at_a_restart(tmp_path: Any) -> None:
    def cut(item: Any) -> Any:
        return item

    def other(item: Any) -> Any:
        return item[0], item[1] * 1

    place = cn.Folder(tmp_path / "run", marks=tmp_path / "marks")
    data = Items(lambda k: ((X[k], SCALE[k]), Y[k]))
    gradient(data, item=cut, folder=place)
    for changed in (other, None):
        with pytest.raises(ValueError, match="item was"):
            gradient(data, item=changed, folder=place)
