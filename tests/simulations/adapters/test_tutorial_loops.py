"""The loops of ten kinds of tutorials, made private by a few lines: each step of the optimizer has its own noise.

The page ``docs/loops-by-example.md`` has each loop with its changes; models and data are here.
"""

from __future__ import annotations

import difflib
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import corrnoise as cn

torch = pytest.importorskip("torch")
optimizers = pytest.importorskip("torch.optim.optimizer")
torch.set_num_threads(1)
nn, F = torch.nn, torch.nn.functional  # the names of the tutorials
PAGE = (Path(__file__).parents[3] / "docs/loops-by-example.md").read_text(encoding="utf-8")
LOOPS = dict(re.findall(r"\n## ([^\n]+)\n[^#]*?```diff\n(.*?)```", PAGE, re.DOTALL))
LIBRARIES = {"Opacus": "opacus", "Trainer": "accelerate"}
STEPS = 6


class Convolutions(nn.Module):  # type: ignore[name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, 1), nn.Conv2d(4, 8, 3, 1)
        self.dropout, self.fc = nn.Dropout(0.25), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return F.log_softmax(self.fc(torch.flatten(self.dropout(x), 1)), dim=1)


class Recurrent(nn.Module):  # type: ignore[name-defined]
    """The scores of the next word at all places with a tied decoder, or of 10 classes at the last place."""

    def __init__(self, kind: Any, tied: bool) -> None:
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(20, 8), kind(8, 8, batch_first=True)
        self.decoder, self.tied = nn.Linear(8, 20 if tied else 10), tied
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens: Any) -> Any:
        found = self.decoder(self.rnn(self.encoder(tokens))[0])
        return found.transpose(1, 2) if self.tied else F.log_softmax(found[:, -1], dim=1)


class Autoencoder(nn.Module):  # type: ignore[name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.decoder = nn.Linear(64, 16), nn.Linear(4, 64)
        self.mean, self.log_variance = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        hidden = F.relu(self.hidden(x.flatten(1)))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        drawn = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.decoder(drawn)), mean, log_variance


class Filtering(nn.Module):  # type: ignore[name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.users, self.films = nn.Embedding(12, 8), nn.Embedding(30, 8)
        self.layers = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 4))
        self.predict = nn.Linear(12, 1)

    def forward(self, user: Any, film: Any) -> Any:
        both = self.users(user), self.films(film)
        found = torch.cat([both[0] * both[1], self.layers(torch.cat(both, -1))], -1)
        return self.predict(found).view(-1)


class Generative(nn.Module):  # type: ignore[name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, 16), nn.Embedding(8, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 20, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, idx: Any, targets: Any = None) -> Any:
        length = idx.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.tokens(idx) + self.positions(torch.arange(length))
        logits = self.head(self.block(x, src_mask=mask))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def classifier() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=20, **sizes))


def words(low: int = 3, high: int = 10) -> Any:
    return torch.randint(1, 20, (int(torch.randint(low, high, ())),))


def given(name: str) -> dict[str, Any]:
    """The model of a loop and all data."""
    makers: dict[str, Any] = {
        "Words": lambda: Recurrent(nn.LSTM, tied=True),
        "Names": lambda: Recurrent(nn.GRU, tied=False),
        "Autoencoder": Autoencoder,
        "Recommender": Filtering,
        "Language model": Generative,
        "Trainer": classifier,
    }
    reviews = [
        {"input_ids": each, "attention_mask": torch.ones_like(each), "labels": 1} for each in map(words, [3] * 24)
    ]
    pad = cn.torch.pad_to(9)
    tensors = torch.utils.data.TensorDataset
    return {
        "torch": torch,
        "F": F,
        "budget": cn.Budget(epsilon=8.0, delta=1e-5, clip_norm=1.0),
        "model": makers.get(name, Convolutions)(),
        "images": tensors(torch.randn(24, 1, 8, 8), torch.randint(10, (24,))),
        "pictures": tensors(torch.rand(24, 1, 8, 8), torch.randint(10, (24,))),
        "text": torch.randint(20, (24, 7)),
        "names": [(words(), torch.randint(10, ())) for _ in range(24)],
        "seen": tensors(torch.randint(12, (24,)), torch.randint(30, (24,)), torch.randint(2, (24,)).float()),
        "letters": torch.randint(20, (24 * 9 + 5,)),
        "get_batch": lambda: torch.randint(20, (2, 8, 8)),
        "reviews": reviews,
        "collator": lambda items: torch.utils.data.default_collate([pad(each) for each in items]),
    }


def versions(name: str) -> tuple[list[str], list[str]]:
    """The lines of a loop before and after the changes."""
    lines = LOOPS[name].splitlines(keepends=True)
    before, after = (list(difflib.restore(lines, which)) for which in (1, 2))
    return before, after


def changed(before: list[str], after: list[str]) -> int:
    """The number of lines that are replaced, added or removed."""
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in blocks if kind != "equal")


def gradients(lines: list[str], names: dict[str, Any]) -> list[bytes]:
    """The gradients of a parameter at all steps of the optimizers of a loop."""
    found: list[bytes] = []

    def note(optimizer: Any, *_: Any) -> None:
        found.append(optimizer.param_groups[0]["params"][0].grad.numpy().tobytes())

    handle = optimizers.register_optimizer_step_post_hook(note)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries
            exec(compile("".join(lines), "loops-by-example", "exec"), names)
    finally:
        handle.remove()
    return found


def test_there_are_ten_loops() -> None:
    assert len(LOOPS) == 10
    assert changed(["a\n", "b\n", "c\n"], ["a\n", "d\n", "e\n", "c\n", "f\n"]) == 3


@pytest.mark.parametrize("name", LOOPS)
def test_ten_lines_make_a_loop_private(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both versions train; afterwards each step had its own noise, and a gradient without noise is refused."""
    pytest.importorskip(LIBRARIES.get(name, "torch"))
    monkeypatch.chdir(tmp_path)
    before, after = versions(name)
    assert changed(before, after) <= 10
    steps = STEPS // 2 if name == "Language model" else STEPS
    assert len(gradients(before, given(name))) == steps
    names = given(name)
    private = gradients(after, names)
    run = names["run"] if "run" in names else names["criterion"].run
    assert run.position == STEPS
    assert len(private) == len(set(private)) == steps
    with pytest.raises(RuntimeError, match="backward must start from the private loss"):
        sum(each.square().sum() for each in run.trained).backward()


@pytest.mark.parametrize("name", [each for each in LOOPS if "loss = run.private_loss()" in LOOPS[each]])
def test_a_loop_that_keeps_its_loss_is_refused(name: str) -> None:
    lines = "".join(versions(name)[1]).replace("loss = run.private_loss()", "loss = sum(map(torch.sum, run.trained))")
    with pytest.raises(RuntimeError, match="backward must start from the private loss"):
        gradients([lines], given(name))
