"""Adapters of PEFT, from end to end: a sequence of layers and a small BERT, clipped by examples and by ghost clipping.

Skipped where PEFT is not installed (``pip install peft``).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from corrnoise.simulations.adapters import training
from corrnoise.simulations.adapters.torch import clipped, clipped_sum
from corrnoise.simulations.adapters.torch_choice import example_gradients
from corrnoise.simulations.adapters.torch_engines import Engine, uses_of
from corrnoise.simulations.adapters.torch_factors import blocks_of
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import known_key

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)

pytestmark = pytest.mark.filterwarnings("ignore")  # of other libraries
EXAMPLES = 60
FLOATS: dict[str, Any] = {"sums": "float32", "release": "float"}
CLIPPING = pytest.mark.parametrize("options", [{}, FLOATS, {"clipping": "ghost"}], ids=str)


def layers() -> tuple[Any, Any, Any]:
    """A model, its data and its loss: the sign of the first coordinate."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["0", "2"], r=4))
    inputs = torch.randn(EXAMPLES, 6)
    return adapted, (inputs, (inputs[:, 0] > 0).long()), torch.nn.functional.cross_entropy


def bert() -> tuple[Any, Any, Any]:
    """The same of sequences: whether the first token is in the upper half."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    model = transformers.BertForSequenceClassification(config)
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["query", "value"], r=8, task_type="SEQ_CLS"))
    tokens = torch.randint(0, 20, (EXAMPLES, 4))
    return adapted, (tokens, (tokens[:, 0] > 9).long()), by_logits


def by_logits(found: Any, target: Any) -> Any:
    return torch.nn.functional.cross_entropy(found.logits, target)


MODELS = pytest.mark.parametrize("made", [layers, bert])


def trained(model: Any) -> dict[str, Any]:
    return {name: each.detach().clone() for name, each in model.named_parameters() if each.requires_grad}


def begun(place: Path, made: Any, **options: Any) -> TorchRun:
    model, data, loss = made()
    optimizer = torch.optim.SGD(trained_of(model), lr=0.5)
    with known_key(), mock.patch.object(training, "batches", partial(batches, rng=0)):
        return make_private(
            model,
            optimizer,
            data,
            loss=loss,
            budget=Budget(rho=50.0),
            batch_size=20,
            epochs=4,
            mechanism=NuFTRL(0.1),
            folder=Folder(place / "run", marks=place / "marks", checkpoint_every=2),
            **options,
        )


def trained_of(model: Any) -> list[Any]:
    return [each for each in model.parameters() if each.requires_grad]


@CLIPPING
@MODELS
def test_adapters_are_trained_and_the_base_is_not(made: Any, options: dict[str, Any], tmp_path: Path) -> None:
    """Through a restart; the finished run loads its adapters into a new model."""
    first, _, _ = made()
    before = {name: each.detach().clone() for name, each in first.named_parameters()}
    run = begun(tmp_path, made, **options)
    assert run.size == sum(each.numel() for each in trained_of(first)) < sum(each.numel() for each in before.values())
    for batch in run:
        run.step(batch)
        if run.position == 6:
            break
    run.close()
    run = begun(tmp_path, made, **options)
    for batch in run:
        run.step(batch)
    assert run.position == 12
    after = dict(run.model.named_parameters())
    moved = {name for name, value in before.items() if not torch.equal(after[name].detach(), value)}
    assert moved == set(trained(first))
    again = begun(tmp_path, made, **options)
    assert list(again) == []
    for name, value in trained(again.model).items():
        assert torch.equal(value, after[name].detach())


@MODELS
def test_ghost_sums_are_those_of_clipped_examples(made: Any) -> None:
    """Where adapters have moved from their zeros, so that both factors have gradients."""
    model, (inputs, targets), loss = made()
    with torch.no_grad():
        for each in trained_of(model):
            each += 0.1 * torch.randn_like(each)
    rows = inputs, targets
    engine = Engine("vmap", uses_of(model, loss, (inputs[:1], targets[:1])))
    assert engine.factors
    blocks = blocks_of(EXAMPLES, engine.positions)
    ghost = clipped(engine.gradients(model, loss, rows).samples, 0.1, None, blocks).sums
    samples = example_gradients(model, loss, rows)
    for one, other in zip(ghost, clipped_sum([each.double() for each in samples.values()], 0.1), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-4)
