"""The loops of well-known tutorials, made private by a few lines: each step of the optimizer has its own noise."""

from __future__ import annotations

from typing import Any

import pytest

import corrnoise as cn

torch = pytest.importorskip("torch")
optimizers = pytest.importorskip("torch.optim.optimizer")
torch.set_num_threads(1)
functional = torch.nn.functional
PRIVATE: dict[str, Any] = {
    "budget": cn.Budget(rho=1.0),
    "batch_size": 8,
    "epochs": 2,
    "mechanism": cn.mechanisms.DPSGD(),
}
STEPS = 6


class Convolutions(torch.nn.Module):  # type: ignore[name-defined]
    """The network of the example on MNIST, with smaller images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 4, 3, 1), torch.nn.Conv2d(4, 8, 3, 1)
        self.dropout, self.fc = torch.nn.Dropout(0.25), torch.nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.conv2(functional.relu(self.conv1(x)))), 2)
        return functional.log_softmax(self.fc(torch.flatten(self.dropout(x), 1)), dim=1)


class Words(torch.nn.Module):  # type: ignore[name-defined]
    """A language model of words with a recurrent layer and a tied decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.rnn = torch.nn.Embedding(20, 8), torch.nn.LSTM(8, 8, batch_first=True)
        self.decoder = torch.nn.Linear(8, 20)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens: Any) -> Any:
        return self.decoder(self.rnn(self.encoder(tokens))[0]).transpose(1, 2)


def images() -> tuple[Any, Any]:
    return torch.randn(24, 1, 8, 8), torch.randint(10, (24,))


def mnist() -> Any:
    model = Convolutions()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.7)
    run = cn.torch.make_private(model, optimizer, images(), loss=functional.nll_loss, **PRIVATE)
    for _, (_data, _target) in enumerate(run.loader()):
        optimizer.zero_grad()
        loss = run.private_loss()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return run


def words() -> Any:
    model, text = Words(), torch.randint(20, (24, 7))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    run = cn.torch.make_private(
        model, optimizer, (text[:, :-1], text[:, 1:]), loss=cn.torch.per_example(functional.cross_entropy), **PRIVATE
    )
    for _ in run.loader():
        model.zero_grad()
        run.private_loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
    return run


def opacus() -> Any:
    model = Convolutions()
    forward, optimizer, criterion, loader = cn.opacus.make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), images(), loss=functional.nll_loss, **PRIVATE
    )
    for x, y in loader:
        optimizer.zero_grad()
        criterion(forward(x), y).backward()
        optimizer.step()
    return criterion.run


def mixed_precision() -> Any:
    model = Convolutions()
    optimizer = torch.optim.AdamW(model.parameters())
    run = cn.torch.make_private(model, optimizer, images(), loss=functional.nll_loss, **PRIVATE)
    scaler = torch.amp.GradScaler("cpu")
    for _ in run.loader():
        optimizer.zero_grad()
        scaler.scale(run.private_loss()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return run


def transfer() -> Any:
    model = Convolutions()
    for each in (model.conv1, model.conv2):
        each.requires_grad_(False)
    optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.001, momentum=0.9)
    data = torch.utils.data.TensorDataset(*images())
    run = cn.torch.make_private(model, optimizer, data, loss=functional.nll_loss, **PRIVATE)
    for batch in run:
        run.step(batch)
    return run


@pytest.mark.parametrize("loop", [mnist, words, opacus, mixed_precision, transfer])
def test_each_step_of_a_tutorial_has_its_own_noise(loop: Any) -> None:
    """All steps are made, with a gradient of its own; afterwards a gradient without noise is refused."""
    gradients: list[bytes] = []

    def note(optimizer: Any, *_: Any) -> None:
        gradients.append(optimizer.param_groups[0]["params"][0].grad.numpy().tobytes())

    handle = optimizers.register_optimizer_step_post_hook(note)
    try:
        run = loop()
    finally:
        handle.remove()
    assert run.position == len(gradients) == len(set(gradients)) == STEPS
    with pytest.raises(RuntimeError, match="backward must start from the private loss"):
        sum(each.square().sum() for each in run.trained).backward()
