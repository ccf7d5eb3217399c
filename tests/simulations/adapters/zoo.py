"""Models as users write them, with what ``make_private`` is expected to say about each, and a plain-loop oracle.

Each family is a factory without arguments, decorated with ``family``; it returns a ``Case``.  The table ``EXPECTED``
says how a family ends: ``"factors"`` (vmap, with weights in factors under ``clipping="ghost"``), ``"vmap"`` (vmap, no
weight in factors), ``"loop"``, or ``Refusal(words…)`` with words that the message must have: the part, and the remedy.

The oracle shares no code with the package: one backward pass for each example alone, clipping and sum in NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional
torch.set_num_threads(1)

EXAMPLES = 8


@dataclass
class Case:
    """A model, its data and its loss."""

    model: Any
    data: Any
    loss: Callable[[Any, Any], Any] = F.cross_entropy
    double: bool = True  #: whether the oracle can compute in float64
    half: bool = False  #: whether the model computes in half precision
    random: bool = False  #: whether gradients are random; then the oracle is not used
    declared: bool = False  #: whether the loss is declared by ``per_example``
    options: dict[str, Any] = field(default_factory=dict)  #: of make_private


@dataclass(frozen=True)
class Refusal:
    """Words of the message that refuses a model or a loss."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", words)


FAMILIES: dict[str, Callable[[], Case]] = {}
SLOW: set[str] = set()  #: families among the slow tests


def family(function: Callable[[], Case]) -> Callable[[], Case]:
    """Register a family by the name of its factory."""
    FAMILIES[function.__name__] = function
    return function


def slow(function: Callable[[], Case]) -> Callable[[], Case]:
    """Register a large family, or one like another."""
    SLOW.add(function.__name__)
    return family(function)


def made(name: str) -> Case:
    """The case of a family, with the same parameters and data each time."""
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated layers
        torch.manual_seed(7)
        return FAMILIES[name]()


# -- the oracle --------------------------------------------------------------------------------------------------------


def row_of(number: int, leaf: Any) -> Any:
    """A row of a tensor, as rows."""
    return leaf[number : number + 1]


def tree(function: Callable[[Any], Any], value: Any) -> Any:
    """A tuple or a dictionary of tensors, changed leaf by leaf."""
    if isinstance(value, dict):
        return {key: tree(function, each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(tree(function, each) for each in value)
    return function(value)


def call(model: Any, batch: Any) -> Any:
    """The outputs of a model for a batch of pairs or dictionaries."""
    inputs = batch if isinstance(batch, dict) else batch[0]
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def oracle(name: str) -> np.ndarray:
    """The gradients of the examples of a family, float64, shape (examples, parameters)."""
    case = made(name)
    return plain_gradients(lambda: made(name).model, case.data, case.loss, double=case.double)


def plain_gradients(make: Callable[[], Any], data: Any, loss: Any, *, double: bool = True) -> np.ndarray:
    """One backward pass for each example alone, each on a model of its own."""
    if double:
        data = tree(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, data)
    found = []
    for number in range(EXAMPLES):
        model = make().double() if double else make()
        row = tree(partial(row_of, number), data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss(call(model, row), row if isinstance(row, dict) else row[1]).backward()
        trained = [each for each in model.parameters() if each.requires_grad]
        parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
        found.append(np.concatenate([part.detach().double().numpy().reshape(-1) for part in parts]))
    return np.stack(found)


def clip(gradients: np.ndarray, clip_norm: float) -> np.ndarray:
    """The sum of clipped gradients."""
    lengths = np.linalg.norm(gradients, axis=1)
    return np.minimum(1.0, clip_norm / np.maximum(lengths, 1e-300)) @ gradients


# -- data --------------------------------------------------------------------------------------------------------------


def floats(*shape: int) -> Any:
    return torch.randn(EXAMPLES, *shape)


def numbers(high: int, *shape: int) -> Any:
    return torch.randint(high, (EXAMPLES, *shape))


def flat(features: int = 6, classes: int = 3) -> Any:
    return floats(features), numbers(classes)


def images(channels: int = 2, size: int = 6, classes: int = 3) -> Any:
    return floats(channels, size, size), numbers(classes)


def tokens(length: int = 5, words: int = 9, classes: int = 3) -> Any:
    return numbers(words, length), numbers(classes)


def sequences(length: int = 5, features: int = 4, classes: int = 3) -> Any:
    return floats(length, features), numbers(classes)


class Lambda(nn.Module):  # type: ignore[name-defined]
    """A module with a function of its parts and inputs as the forward pass."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for key, part in parts.items():
            setattr(self, key, part)
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def parameter(*shape: int, scale: float = 0.5) -> Any:
    return nn.Parameter(scale * torch.randn(*shape))


def mlp(features: int = 6, hidden: int = 5, classes: int = 3) -> Any:
    return nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, classes))


# -- perceptrons -------------------------------------------------------------------------------------------------------


@family
def perceptron() -> Case:
    return Case(mlp(), flat())


@family
def linear_regression() -> Case:
    return Case(nn.Linear(6, 1), (floats(6), floats(1)), F.mse_loss)


@family
def in_place() -> Case:
    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        h[:, 0] = 0
        return self.b(F.relu(h.mul_(2), inplace=True))

    return Case(Lambda(forward, a=nn.Linear(6, 5), b=nn.Linear(5, 3)), flat())


@slow
def residual() -> Case:
    return Case(Lambda(lambda m, x: m.b(x + torch.tanh(m.a(x))), a=nn.Linear(6, 6), b=nn.Linear(6, 3)), flat())


@slow
def gated() -> Case:
    return Case(nn.Sequential(nn.Linear(6, 8), nn.GLU(), nn.PReLU(), nn.LayerNorm(4), nn.Linear(4, 3)), flat())


@slow
def bilinear() -> Case:
    return Case(Lambda(lambda m, x, y: m.a(x, y), a=nn.Bilinear(4, 3, 3)), ((floats(4), floats(3)), numbers(3)))


@family
def parameter_list() -> Case:
    def forward(self: Any, x: Any) -> Any:
        return (x @ self.some[0] + self.named["b"]) @ self.some[1]

    parts = {
        "some": nn.ParameterList([parameter(6, 4), parameter(4, 3)]),
        "named": nn.ParameterDict({"b": parameter(4)}),
    }
    return Case(Lambda(forward, **parts), flat())


@slow
def unused_parameter() -> Case:
    return Case(Lambda(lambda m, x: m.a(x), a=mlp(), b=nn.Linear(3, 3)), flat())


@family
def empty_and_scalar_parameters() -> Case:
    parts = {"a": mlp(), "none": nn.Parameter(torch.zeros(0, 3)), "scale": nn.Parameter(torch.tensor(1.5))}
    return Case(Lambda(lambda m, x: m.scale * m.a(x) + m.none.sum(), **parts), flat())


@slow
def mixture_of_experts_soft() -> Case:
    def forward(self: Any, x: Any) -> Any:
        found = torch.stack([each(x) for each in self.experts], 1)
        return (self.gate(x).softmax(-1).unsqueeze(-1) * found).sum(1)

    experts = nn.ModuleList(nn.Linear(6, 3) for _ in range(3))
    return Case(Lambda(forward, experts=experts, gate=nn.Linear(6, 3)), flat())


@family
def mixture_of_experts() -> Case:
    """Each expert takes its rows alone."""

    def forward(self: Any, x: Any) -> Any:
        weights, places = self.gate(x).softmax(-1).topk(2)
        out = x.new_zeros(len(x), 3)
        for number, expert in enumerate(self.experts):
            row, slot = torch.where(places == number)
            if len(row):
                out = out.index_add(0, row, weights[row, slot, None] * expert(x[row]))
        return out

    experts = nn.ModuleList(nn.Linear(6, 3) for _ in range(3))
    return Case(Lambda(forward, experts=experts, gate=nn.Linear(6, 3)), flat())


@family
def branch_on_data() -> Case:
    """A branch for the whole batch, which rows of a batch take together."""
    parts = {"a": nn.Linear(6, 3), "b": nn.Linear(6, 3)}
    return Case(Lambda(lambda m, x: m.a(x) if x.sum() > 0 else m.b(x), **parts), flat())


@family
def branch_on_data_declared() -> Case:
    case = branch_on_data()
    case.declared = True
    return case


@family
def branch_by_row() -> Case:
    parts = {"a": nn.Linear(6, 3), "b": nn.Linear(6, 3)}
    return Case(
        Lambda(lambda m, x: torch.cat([m.a(r) if r.sum() > 0 else m.b(r) for r in x.split(1)]), **parts), flat()
    )


@family
def branch_by_where() -> Case:
    parts = {"a": nn.Linear(6, 3), "b": nn.Linear(6, 3)}
    return Case(Lambda(lambda m, x: torch.where(x.sum(1, keepdim=True) > 0, m.a(x), m.b(x)), **parts), flat())


@family
def reads_a_number() -> Case:
    """``item`` and NumPy in the forward pass."""

    def forward(self: Any, x: Any) -> Any:
        scales = [1 + float(np.tanh(row.detach().double().numpy().sum())) for row in x]
        return self.a(x * torch.tensor(scales, dtype=x.dtype).unsqueeze(1))

    return Case(Lambda(forward, a=mlp()), flat())


@slow
def iterates() -> Case:
    """A recurrence of one layer over steps, as in networks with implicit depth."""

    def forward(self: Any, x: Any) -> Any:
        h = torch.zeros(x.shape[0], 4, dtype=x.dtype)
        for _ in range(3):
            h = torch.tanh(self.a(x) + self.b(h))
        return self.c(h)

    return Case(Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(4, 4), c=nn.Linear(4, 3)), flat())


@slow
def hypernetwork() -> Case:
    def forward(self: Any, x: Any) -> Any:
        return torch.bmm(self.a(x).view(-1, 3, 6), x.unsqueeze(2)).squeeze(2)

    return Case(Lambda(forward, a=nn.Linear(6, 18)), flat())


@family
def deep_sets() -> Case:
    """Sets with a mask as a tuple of inputs."""

    def forward(self: Any, x: Any, mask: Any) -> Any:
        h = torch.relu(self.a(x)).masked_fill(~mask.unsqueeze(-1), 0)
        return self.b(h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))

    mask = torch.arange(5) < 1 + numbers(5, 1)
    return Case(Lambda(forward, a=nn.Linear(4, 6), b=nn.Linear(6, 3)), ((floats(5, 4), mask), numbers(3)))


@slow
def graph_convolution() -> Case:
    """A graph for each example."""

    def forward(self: Any, x: Any, edges: Any) -> Any:
        return self.b(torch.relu(edges @ self.a(x))).mean(1)

    edges = (torch.rand(EXAMPLES, 5, 5) < 0.4).float()
    return Case(Lambda(forward, a=nn.Linear(4, 6), b=nn.Linear(6, 3)), ((floats(5, 4), edges), numbers(3)))


@family
def siamese() -> Case:
    def forward(self: Any, x: Any, y: Any) -> Any:
        return (self.a(x) - self.a(y)).square().sum(1)

    return Case(Lambda(forward, a=mlp()), ((floats(6), floats(6)), floats()), F.mse_loss)


@family
def several_tasks() -> Case:
    """A tuple of outputs and a tuple of targets."""

    def loss(outputs: Any, targets: Any) -> Any:
        return F.cross_entropy(outputs[0], targets[0]) + F.mse_loss(outputs[1], targets[1])

    parts = {"a": nn.Linear(6, 5), "b": nn.Linear(5, 3), "c": nn.Linear(5, 2)}
    model = Lambda(lambda m, x: (m.b(torch.tanh(m.a(x))), m.c(m.a(x))), **parts)
    return Case(model, (floats(6), (numbers(3), floats(2))), loss)


@family
def dictionary_inputs() -> Case:
    """Pairs whose inputs are a dictionary."""
    model = Lambda(lambda m, *, x, y: m.a(x) + m.b(y), a=nn.Linear(6, 3), b=nn.Embedding(4, 3))
    return Case(model, ({"x": floats(6), "y": numbers(4)}, numbers(3)))


@family
def dictionary_items() -> Case:
    """The loss takes the whole item."""
    model = Lambda(lambda m, x, label: m.a(x), a=mlp())
    return Case(model, {"x": floats(6), "label": numbers(3)}, lambda o, item: F.cross_entropy(o, item["label"]))


@slow
def dictionary_outputs() -> Case:
    model = Lambda(lambda m, x: {"logits": m.a(x)}, a=mlp())
    return Case(model, flat(), lambda o, t: F.cross_entropy(o["logits"], t))


@slow
def autoencoder() -> Case:
    data = floats(6)
    return Case(nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 6)), (data, data.clone()), F.mse_loss)


@slow
def multi_label() -> Case:
    targets = (torch.rand(EXAMPLES, 4) < 0.5).float()
    return Case(mlp(classes=4), (floats(6), targets), F.binary_cross_entropy_with_logits)


@slow
def fourier_features() -> Case:
    model = Lambda(
        lambda m, x: m.b(torch.cat([(x @ m.a).sin(), (x @ m.a).cos()], 1)), a=parameter(6, 4), b=nn.Linear(8, 3)
    )
    model.register_buffer("fixed", torch.ones(3))
    return Case(model, flat())


@slow
def sorts_its_input() -> Case:
    return Case(Lambda(lambda m, x: m.a(x.sort(1).values)[:, torch.tensor([2, 0, 1])], a=mlp()), flat())


@family
def one_hot_inputs() -> Case:
    return Case(Lambda(lambda m, x: m.a(F.one_hot(x, 9).to(m.a.weight.dtype).sum(1)), a=nn.Linear(9, 3)), tokens())


# -- convolutions and images -------------------------------------------------------------------------------------------


@family
def cnn_groups() -> Case:
    layers = [nn.Conv2d(2, 4, 3, groups=2), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4)]
    return Case(nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3)), images())


@slow
def cnn_pooled() -> Case:
    layers = [nn.Conv2d(2, 4, 3, dilation=2, padding="same", padding_mode="circular"), nn.GELU(), nn.MaxPool2d(2)]
    return Case(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)), images())


@family
def resnet_block() -> Case:
    def forward(self: Any, x: Any) -> Any:
        h = F.relu(self.n1(self.c1(x)))
        return self.head((F.relu(self.n2(self.c2(h)) + self.down(x))).mean((2, 3)))

    parts = {
        "c1": nn.Conv2d(2, 4, 3, padding=1, bias=False),
        "n1": nn.GroupNorm(2, 4),
        "c2": nn.Conv2d(4, 4, 3, padding=1, bias=False),
        "n2": nn.GroupNorm(4, 4),
        "down": nn.Conv2d(2, 4, 1),
        "head": nn.Linear(4, 3),
    }
    return Case(Lambda(forward, **parts), images())


@slow
def conv1d() -> Case:
    layers = [nn.Conv1d(4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(15, 3)]
    return Case(nn.Sequential(*layers), (floats(4, 5), numbers(3)))


@slow
def conv3d() -> Case:
    layers = [nn.Conv3d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3)]
    return Case(nn.Sequential(*layers), (floats(1, 3, 3, 3), numbers(3)))


@family
def conv_transposed() -> Case:
    layers = [nn.Conv2d(2, 3, 3, stride=2), nn.Tanh(), nn.ConvTranspose2d(3, 2, 4, stride=2)]
    data = floats(2, 6, 6)
    return Case(nn.Sequential(*layers), (data, data.clone()), F.mse_loss)


@family
def unet() -> Case:
    """Pixels with classes, and a skip connection."""

    def forward(self: Any, x: Any) -> Any:
        h = torch.relu(self.a(x))
        up = F.interpolate(self.b(F.avg_pool2d(h, 2)), scale_factor=2, mode="bilinear")
        return self.c(torch.cat([h, up], 1))

    parts = {"a": nn.Conv2d(2, 3, 3, padding=1), "b": nn.Conv2d(3, 3, 1), "c": nn.Conv2d(6, 3, 1)}
    return Case(Lambda(forward, **parts), (floats(2, 4, 4), numbers(3, 4, 4)))


@slow
def unet_declared() -> Case:
    case = unet()
    case.declared = True
    return case


@slow
def squeeze_and_excite() -> Case:
    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        return self.c((h * self.b(h.mean((2, 3))).sigmoid()[:, :, None, None]).mean((2, 3)))

    return Case(Lambda(forward, a=nn.Conv2d(2, 4, 3), b=nn.Linear(4, 4), c=nn.Linear(4, 3)), images())


@slow
def pixel_shuffle() -> Case:
    layers = [nn.Conv2d(2, 8, 3, padding=1), nn.PixelShuffle(2), nn.LocalResponseNorm(2), nn.Flatten()]
    return Case(nn.Sequential(*layers, nn.Linear(2 * 12 * 12, 3)), images())


@family
def patches() -> Case:
    """A convolution as unfolding and a linear layer."""
    model = Lambda(lambda m, x: m.b(torch.tanh(m.a(F.unfold(x, 3).mT)).mean(1)), a=nn.Linear(18, 4), b=nn.Linear(4, 3))
    return Case(model, images())


@slow
def mixer() -> Case:
    def forward(self: Any, x: Any) -> Any:
        h = x + self.a(self.n(x).mT).mT
        return self.c((h + self.b(h)).mean(1))

    return Case(
        Lambda(forward, n=nn.LayerNorm(4), a=nn.Linear(5, 5), b=nn.Linear(4, 4), c=nn.Linear(4, 3)), sequences()
    )


@slow
def channels_last() -> Case:
    case = cnn_groups()
    case.model.to(memory_format=torch.channels_last)
    return Case(case.model, (case.data[0].to(memory_format=torch.channels_last), case.data[1]))


@slow
def fourier_convolution() -> Case:
    """Products of spectra with real parameters."""

    def forward(self: Any, x: Any) -> Any:
        spectrum = torch.fft.rfft(x, dim=1) * torch.view_as_complex(self.a)
        return self.b(torch.fft.irfft(spectrum, n=6, dim=1))

    return Case(Lambda(forward, a=parameter(4, 2), b=nn.Linear(6, 3)), flat())


@slow
def rms_norm() -> Case:
    return Case(nn.Sequential(nn.Linear(6, 4), nn.RMSNorm(4), nn.SiLU(), nn.Linear(4, 3)), flat())


# -- normalisation over examples ---------------------------------------------------------------------------------------


@family
def instance_norm() -> Case:
    layers = [nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Flatten(), nn.Linear(64, 3)]
    return Case(nn.Sequential(*layers), images())


@family
def instance_norm_statistics() -> Case:
    layers = [nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, track_running_stats=True), nn.Flatten(), nn.Linear(64, 3)]
    return Case(nn.Sequential(*layers), images())


@family
def batch_norm_in_training() -> Case:
    return Case(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), flat())


@family
def batch_norm_in_evaluation() -> Case:
    norm = nn.BatchNorm1d(4)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    return Case(nn.Sequential(nn.Linear(6, 4), norm.eval(), nn.Linear(4, 3)), flat())


@slow
def batch_norm_frozen() -> Case:
    norm = nn.BatchNorm2d(4).eval().requires_grad_(False)
    norm.running_mean.normal_()
    return Case(nn.Sequential(nn.Conv2d(2, 4, 3), norm, nn.Flatten(), nn.Linear(64, 3)), images())


@family
def batch_norm_without_statistics() -> Case:
    norm = nn.BatchNorm1d(4, track_running_stats=False).eval()
    return Case(nn.Sequential(nn.Linear(6, 4), norm, nn.Linear(4, 3)), flat())


@family
def own_batch_norm() -> Case:
    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        return self.b((h - h.mean(0)) / (h.var(0, correction=0) + 1e-5).sqrt())

    return Case(Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(4, 3)), flat())


@family
def functional_batch_norm() -> Case:
    model = Lambda(
        lambda m, x: m.b(F.batch_norm(m.a(x), None, None, training=True)), a=nn.Linear(6, 4), b=nn.Linear(4, 3)
    )
    return Case(model, flat())


@family
def attention_over_examples() -> Case:
    model = Lambda(lambda m, x: m.b(torch.softmax(m.a(x) @ m.a(x).T, 1) @ x), a=nn.Linear(6, 4), b=nn.Linear(6, 3))
    return Case(model, flat())


@slow
def divides_by_the_batch() -> Case:
    return Case(Lambda(lambda m, x: m.a(x) / x.shape[0], a=mlp()), flat())


# -- recurrent layers --------------------------------------------------------------------------------------------------


def recurrent(layer: Any, width: int) -> Any:
    return Lambda(lambda m, x: m.b(m.a(x)[0][:, -1]), a=layer, b=nn.Linear(width, 3))


@family
def lstm() -> Case:
    return Case(recurrent(nn.LSTM(4, 5, num_layers=2, batch_first=True), 5), sequences())


@slow
def lstm_projected() -> Case:
    return Case(recurrent(nn.LSTM(4, 5, proj_size=3, batch_first=True, bidirectional=True), 6), sequences())


@family
def lstm_cell() -> Case:
    def forward(self: Any, x: Any) -> Any:
        state = None
        for step in x.unbind(1):
            state = self.a(step, state)
        return self.b(state[0])  # type: ignore[index]

    return Case(Lambda(forward, a=nn.LSTMCell(4, 5), b=nn.Linear(5, 3)), sequences())


@family
def gru_two_way() -> Case:
    return Case(recurrent(nn.GRU(4, 3, batch_first=True, bidirectional=True), 6), sequences())


@slow
def gru_cell() -> Case:
    def forward(self: Any, x: Any) -> Any:
        state = x.new_zeros(len(x), 5)
        for step in x.unbind(1):
            state = self.a(step, state)
        return self.b(state)

    return Case(Lambda(forward, a=nn.GRUCell(4, 5), b=nn.Linear(5, 3)), sequences())


@slow
def rnn_relu() -> Case:
    return Case(recurrent(nn.RNN(4, 5, nonlinearity="relu", batch_first=True), 5), sequences())


@slow
def recurrent_with_learned_start() -> Case:
    def forward(self: Any, x: Any) -> Any:
        start = self.start.expand(1, len(x), 5).contiguous()
        return self.b(self.a(x, (start, torch.zeros_like(start)))[0][:, -1])

    parts = {"a": nn.LSTM(4, 5, batch_first=True), "start": parameter(1, 1, 5), "b": nn.Linear(5, 3)}
    return Case(Lambda(forward, **parts), sequences())


@family
def packed_sequences() -> Case:
    def forward(self: Any, x: Any, lengths: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.b(self.a(packed)[1][0][-1])

    model = Lambda(forward, a=nn.LSTM(4, 5, batch_first=True), b=nn.Linear(5, 3))
    return Case(model, ((floats(5, 4), 1 + numbers(5)), numbers(3)))


@family
def sequence_first_square() -> Case:
    """A recurrent layer that takes the examples as time, with as many examples as positions."""
    model = Lambda(lambda m, x: m.b(m.a(x)[0][:, -1]), a=nn.LSTM(4, 5), b=nn.Linear(5, 3))
    return Case(model, sequences(length=EXAMPLES))


@slow
def sequence_first_inside() -> Case:
    """The time is first inside the model alone."""
    model = Lambda(lambda m, x: m.b(m.a(x.transpose(0, 1))[0][-1]), a=nn.LSTM(4, 5), b=nn.Linear(5, 3))
    return Case(model, sequences(length=EXAMPLES))


@family
def sequence_first_linear() -> Case:
    """Linear layers along (L, B), with L = B."""

    def forward(self: Any, x: Any) -> Any:
        return self.b(torch.tanh(self.a(x.transpose(0, 1)))).mean(0)

    return Case(Lambda(forward, a=nn.Linear(4, 5), b=nn.Linear(5, 3)), sequences(length=EXAMPLES))


@slow
def state_space() -> Case:
    """A linear recurrence by cumulative sums."""

    def forward(self: Any, x: Any) -> Any:
        decay = self.decay.sigmoid() ** torch.arange(x.shape[1], dtype=x.dtype).unsqueeze(1)
        return self.b(((self.a(x) / decay).cumsum(1) * decay)[:, -1])

    return Case(Lambda(forward, a=nn.Linear(4, 4), decay=parameter(4), b=nn.Linear(4, 3)), sequences())


# -- embeddings --------------------------------------------------------------------------------------------------------


def bag_of_words(embedding: Any, classes: int = 3) -> Any:
    return Lambda(lambda m, x: m.b(torch.tanh(m.a(x)).mean(1)), a=embedding, b=nn.Linear(4, classes))


@family
def embedding() -> Case:
    return Case(bag_of_words(nn.Embedding(9, 4)), tokens())


@family
def embedding_with_padding() -> Case:
    return Case(bag_of_words(nn.Embedding(9, 4, padding_idx=1)), tokens())


@slow
def embedding_with_negative_padding() -> Case:
    return Case(bag_of_words(nn.Embedding(9, 4, padding_idx=-1)), tokens())


@family
def tied_embedding() -> Case:
    """The same weight for tokens and outputs, with padding; two kinds of uses."""
    model = Lambda(lambda m, x: m.b(torch.tanh(m.a(x))), a=nn.Embedding(9, 4, padding_idx=0), b=nn.Linear(4, 9))
    model.b.weight = model.a.weight
    return Case(model, (numbers(9, 5), numbers(9, 5)), lambda o, t: F.cross_entropy(o.mT, t))


@slow
def embedding_of_frequencies() -> Case:
    return Case(bag_of_words(nn.Embedding(9, 4, scale_grad_by_freq=True)), tokens(words=3))


@family
def embedding_bag() -> Case:
    return Case(nn.Sequential(nn.EmbeddingBag(9, 4, mode="sum", padding_idx=2), nn.Linear(4, 3)), tokens())


@slow
def embedding_bag_of_frequencies() -> Case:
    return Case(
        nn.Sequential(nn.EmbeddingBag(9, 4, mode="mean", scale_grad_by_freq=True), nn.Linear(4, 3)), tokens(words=3)
    )


@family
def embedding_max_norm() -> Case:
    return Case(bag_of_words(nn.Embedding(9, 4, max_norm=0.5)), tokens())


@family
def functional_max_norm() -> Case:
    model = Lambda(
        lambda m, x: m.b(F.embedding(x, m.a, max_norm=0.5).mean(1)), a=parameter(9, 4, scale=2), b=nn.Linear(4, 3)
    )
    return Case(model, tokens())


@family
def frozen_max_norm() -> Case:
    """The rewritten weight is not trained, but released."""
    model = Lambda(
        lambda m, x: m.b(F.embedding(x, m.a, max_norm=0.5).mean(1)), a=parameter(9, 4, scale=2), b=nn.Linear(4, 3)
    )
    model.a.requires_grad_(False)
    return Case(model, tokens())


@family
def sparse_embedding() -> Case:
    return Case(bag_of_words(nn.Embedding(9, 4, sparse=True)), tokens())


@family
def functional_sparse() -> Case:
    model = Lambda(lambda m, x: m.b(F.embedding(x, m.a, sparse=True).mean(1)), a=parameter(9, 4), b=nn.Linear(4, 3))
    return Case(model, tokens())


@family
def indexed_table() -> Case:
    """An embedding by indexing a parameter."""
    return Case(Lambda(lambda m, x: m.b(m.a[x].mean(1)), a=parameter(9, 4), b=nn.Linear(4, 3)), tokens())


@family
def positions_of_one_row() -> Case:
    """A position table that is read with indices of shape (1, L), as in GPT-2 and BERT."""

    def forward(self: Any, x: Any) -> Any:
        return self.c(torch.tanh(self.a(x) + self.b(torch.arange(x.shape[1]).unsqueeze(0))).flatten(1))

    parts = {"a": nn.Embedding(9, 4), "b": nn.Embedding(5, 4), "c": nn.Linear(20, 3)}
    return Case(Lambda(forward, **parts), tokens())


@slow
def recommender() -> Case:
    """Factors of users and items."""
    parts = {"a": nn.Embedding(7, 4), "b": nn.Embedding(5, 4), "c": nn.Embedding(7, 1)}
    model = Lambda(lambda m, user, item: (m.a(user) * m.b(item)).sum(-1) + m.c(user).squeeze(-1), **parts)
    return Case(model, ((numbers(7), numbers(5)), floats()), F.mse_loss)


# -- attention ---------------------------------------------------------------------------------------------------------


@family
def attention() -> Case:
    model = Lambda(
        lambda m, x: m.b(m.a(x, x, x)[0].mean(1)), a=nn.MultiheadAttention(4, 2, batch_first=True), b=nn.Linear(4, 3)
    )
    return Case(model, sequences())


@slow
def attention_sequence_first() -> Case:
    def forward(self: Any, x: Any) -> Any:
        h = x.transpose(0, 1)
        return self.b(self.a(h, h, h, need_weights=False)[0].mean(0))

    return Case(Lambda(forward, a=nn.MultiheadAttention(4, 2), b=nn.Linear(4, 3)), sequences(length=EXAMPLES))


@family
def attention_along_the_batch() -> Case:
    """``batch_first`` was forgotten, so examples attend to each other."""
    model = Lambda(lambda m, x: m.b(m.a(x, x, x)[0].mean(1)), a=nn.MultiheadAttention(4, 2), b=nn.Linear(4, 3))
    return Case(model, sequences(length=EXAMPLES))


@slow
def encoder_layer() -> Case:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return Case(Lambda(lambda m, x: m.b(m.a(x).mean(1)), a=layer, b=nn.Linear(4, 3)), sequences())


@family
def encoder_with_mask() -> Case:
    """A padding mask of each example, and two layers."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = Lambda(lambda m, x, k: m.b(m.a(x, src_key_padding_mask=k)[:, 0]), a=encoder, b=nn.Linear(4, 3))
    return Case(model, ((floats(5, 4), torch.arange(5) > numbers(5, 1)), numbers(3)))


@family
def decoder() -> Case:
    def forward(self: Any, memory: Any, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=memory.dtype)
        return self.c(self.b(self.a(x), memory, tgt_mask=mask)).mT

    parts = {
        "a": nn.Embedding(9, 4),
        "b": nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True),
        "c": nn.Linear(4, 9),
    }
    return Case(Lambda(forward, **parts), ((floats(3, 4), numbers(9, 5)), numbers(9, 5)))


@slow
def decoder_declared() -> Case:
    case = decoder()
    case.declared = True
    return case


@slow
def causal_attention() -> Case:
    """Scaled products with a rotation of positions."""

    def forward(self: Any, x: Any) -> Any:
        angle = torch.arange(5, dtype=x.dtype).unsqueeze(1)
        q, k, v = self.a(x).chunk(3, -1)
        q, k = (each * angle.cos() + each.flip(-1) * angle.sin() for each in (q, k))
        return self.b(F.scaled_dot_product_attention(q, k, v, is_causal=True).mean(1))

    return Case(Lambda(forward, a=nn.Linear(4, 12), b=nn.Linear(4, 3)), sequences())


@slow
def class_token() -> Case:
    """A parameter that stands in front of each sequence."""

    def forward(self: Any, x: Any) -> Any:
        h = torch.cat([self.token.expand(len(x), 1, 4), x], 1) + self.place
        return self.b(self.a(h)[:, 0])

    layer = nn.TransformerEncoderLayer(4, 1, 6, dropout=0.0, batch_first=True)
    return Case(
        Lambda(forward, token=parameter(1, 1, 4), place=parameter(6, 4), a=layer, b=nn.Linear(4, 3)), sequences()
    )


# -- weights that are shared, changed or seen --------------------------------------------------------------------------


@family
def shared_layer() -> Case:
    return Case(Lambda(lambda m, x: m.b(m.a(torch.tanh(m.a(x)))), a=nn.Linear(6, 6), b=nn.Linear(6, 3)), flat())


@family
def weight_in_a_function() -> Case:
    """The last use is a function, the first one a module."""
    model = Lambda(lambda m, x: m.b(F.linear(torch.tanh(m.a(x)), m.a.weight)), a=nn.Linear(6, 6), b=nn.Linear(6, 3))
    return Case(model, flat())


@family
def weight_elsewhere() -> Case:
    return Case(Lambda(lambda m, x: m.b(m.a(x) + x @ m.a.weight), a=nn.Linear(6, 6), b=nn.Linear(6, 3)), flat())


@family
def weight_transposed() -> Case:
    model = Lambda(lambda m, x: F.linear(torch.tanh(m.a(x)), m.a.weight.T)[:, :3], a=nn.Linear(6, 5))
    return Case(model, flat())


@slow
def weight_in_parts() -> Case:
    model = Lambda(
        lambda m, x: m.b(torch.cat([F.linear(x, m.a.weight[:2]), F.linear(x, m.a.weight[2:])], 1)),
        a=nn.Linear(6, 5),
        b=nn.Linear(5, 3),
    )
    return Case(model, flat())


@family
def weight_without_gradient() -> Case:
    """The second use of the weight has no gradient."""

    def forward(self: Any, x: Any) -> Any:
        with torch.no_grad():
            extra = F.linear(x, self.a.weight)
        return self.b(self.a(x) * extra.sigmoid() + x @ self.a.weight.detach())

    return Case(Lambda(forward, a=nn.Linear(6, 6), b=nn.Linear(6, 3)), flat())


@slow
def penalty_inside() -> Case:
    """The model returns a penalty of its weights with each output."""
    model = Lambda(lambda m, x: m.a(x) * (1 + m.a.weight.square().sum()), a=nn.Linear(6, 3))
    return Case(model, flat())


@slow
def bias_in_the_input() -> Case:
    """The weight is also the input of its own layer."""
    model = Lambda(lambda m, x: m.b(x + F.linear(m.a.weight, m.a.weight).mean(0)), a=nn.Linear(6, 6), b=nn.Linear(6, 3))
    return Case(model, flat())


@family
def addmm() -> Case:
    """The layer of GPT-2."""
    model = Lambda(
        lambda m, x: m.c(torch.addmm(m.b, x, m.a).tanh()), a=parameter(6, 4), b=parameter(4), c=nn.Linear(4, 3)
    )
    return Case(model, flat())


@family
def einsum() -> Case:
    return Case(
        Lambda(lambda m, x: torch.einsum("blf,fc->bc", x, m.a) + m.b, a=parameter(4, 3), b=parameter(3)), sequences()
    )


@family
def forward_hook() -> Case:
    model = mlp()
    model[0].register_forward_hook(lambda module, given, output: 3 * output)
    return Case(model, flat())


@family
def forward_pre_hook() -> Case:
    model = mlp()
    model[2].register_forward_pre_hook(lambda module, given: (given[0] * 2 + 1,))
    return Case(model, flat())


@family
def backward_hook() -> Case:
    model = mlp()
    model[2].register_full_backward_hook(lambda module, given, output: (5 * given[0],))
    return Case(model, flat())


@family
def tensor_hook() -> Case:
    """A hook on a parameter changes its gradient."""
    model = mlp()
    model[0].weight.register_hook(lambda gradient: 3 * gradient)
    return Case(model, flat())


@slow
def overridden_forward() -> Case:
    class Scaled(nn.Linear):  # type: ignore[name-defined]
        def forward(self, x: Any) -> Any:
            return super().forward(x) * self.weight.shape[0] + x.sum(-1, keepdim=True)

    return Case(nn.Sequential(Scaled(6, 5), nn.Tanh(), nn.Linear(5, 3)), flat())


@family
def weight_norm_old() -> Case:
    return Case(nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 5)), nn.Tanh(), nn.Linear(5, 3)), flat())


@family
def weight_norm_new() -> Case:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
    return Case(nn.Sequential(layer, nn.Tanh(), nn.Linear(5, 3)), flat())


@family
def spectral_norm_old() -> Case:
    """A step of its power iteration in each forward pass changes a buffer."""
    return Case(nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 5)), nn.Linear(5, 3)), flat())


@slow
def spectral_norm_new() -> Case:
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5))
    return Case(nn.Sequential(layer, nn.Linear(5, 3)), flat())


@slow
def spectral_norm_frozen() -> Case:
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5))
    return Case(nn.Sequential(layer.eval(), nn.Linear(5, 3)), flat())


@slow
def orthogonal() -> Case:
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(6, 6), orthogonal_map="cayley")
    return Case(nn.Sequential(layer, nn.Linear(6, 3)), flat())


@family
def pruned() -> Case:
    import torch.nn.utils.prune as prune

    model = mlp()
    prune.random_unstructured(model[0], "weight", 0.4)
    return Case(model, flat())


@family
def frozen_parts() -> Case:
    model = mlp()
    model[0].requires_grad_(False)
    return Case(model, flat())


@family
def bias_alone() -> Case:
    model = mlp()
    for name, each in model.named_parameters():
        each.requires_grad_("bias" in name)
    return Case(model, flat())


@slow
def low_rank_by_hand() -> Case:
    model = Lambda(
        lambda m, x: m.c(m.w(x) + m.b(m.a(x))),
        w=nn.Linear(6, 5),
        a=nn.Linear(6, 2, False),
        b=nn.Linear(2, 5, False),
        c=nn.Linear(5, 3),
    )
    model.w.requires_grad_(False)
    return Case(model, flat())


@family
def lazy() -> Case:
    return Case(nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(3)), flat())


@slow
def lazy_with_shapes() -> Case:
    model = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(3))
    model(torch.zeros(1, 6))
    return Case(model, flat())


# -- types -------------------------------------------------------------------------------------------------------------


@family
def bfloat16() -> Case:
    x, t = flat()
    return Case(mlp().bfloat16(), (x.bfloat16(), t), half=True)


@slow
def bfloat16_transformer() -> Case:
    case = encoder_layer()
    return Case(case.model.bfloat16(), (case.data[0].bfloat16(), case.data[1]), half=True)


@family
def float16() -> Case:
    x, t = flat()
    return Case(mlp().half(), (x.half(), t), half=True)


@family
def float64() -> Case:
    x, t = flat()
    return Case(mlp().double(), (x.double(), t))


@family
def mixed_types() -> Case:
    parts = {"a": nn.Linear(6, 5).bfloat16(), "b": nn.Linear(5, 4), "c": nn.Linear(4, 3).double()}
    model = Lambda(lambda m, x: m.c(m.b(m.a(x.bfloat16()).float().tanh()).double()), **parts)
    return Case(model, flat(), double=False, half=True)


@slow
def float32_and_float64() -> Case:
    model = Lambda(lambda m, x: m.b(m.a(x).tanh().double()), a=nn.Linear(6, 5), b=nn.Linear(5, 3).double())
    return Case(model, flat(), double=False)


@family
def autocast() -> Case:
    def forward(self: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.a(x).float()

    return Case(Lambda(forward, a=mlp()), flat(), double=False, half=True)


@family
def complex_parameters() -> Case:
    model = Lambda(lambda m, x: (x.to(m.a.dtype) @ m.a).abs(), a=nn.Parameter(torch.randn(6, 3, dtype=torch.complex64)))
    return Case(model, flat(), double=False)


@slow
def complex_inside() -> Case:
    model = Lambda(
        lambda m, x: m.b(torch.view_as_real(m.a(x).to(torch.complex64) * 1j).flatten(1)),
        a=nn.Linear(6, 4),
        b=nn.Linear(8, 3),
    )
    return Case(model, flat(), double=False)


@slow
def fake_quantised() -> Case:
    """Rounded weights with a straight-through gradient."""

    def forward(self: Any, x: Any) -> Any:
        w = self.a.weight
        return self.b(F.linear(x, w + ((w * 8).round() / 8 - w).detach()).tanh())

    return Case(Lambda(forward, a=nn.Linear(6, 5, bias=False), b=nn.Linear(5, 3)), flat())


# -- state in the model ------------------------------------------------------------------------------------------------


class _Average(nn.Module):  # type: ignore[name-defined]
    mean: Any

    def __init__(self, assigned: bool) -> None:
        super().__init__()
        self.a, self.b, self.assigned = nn.Linear(6, 4), nn.Linear(4, 3), assigned
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        h = self.a(x)
        if self.assigned:
            self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        else:
            self.mean.mul_(0.9).add_(0.1 * h.detach().mean(0))
        return self.b(h)


@family
def average_in_place() -> Case:
    return Case(_Average(False), flat())


@family
def average_by_assignment() -> Case:
    return Case(_Average(True), flat())


@family
def average_in_data() -> Case:
    """A frozen parameter that is changed through ``.data``."""

    def forward(self: Any, x: Any) -> Any:
        self.mean.data.mul_(0.9).add_(x.detach().mean())
        return self.a(x)

    model = Lambda(forward, a=mlp(), mean=nn.Parameter(torch.zeros(3), requires_grad=False))
    return Case(model, flat())


@family
def average_by_numpy() -> Case:
    """A buffer that is changed through its array."""

    def forward(self: Any, x: Any) -> Any:
        self.mean.numpy()[:] += float(x.detach().mean())
        return self.a(x)

    model = Lambda(forward, a=mlp())
    model.register_buffer("mean", torch.zeros(3))
    return Case(model, flat())


@family
def frozen_parameter_by_assignment() -> Case:
    def forward(self: Any, x: Any) -> Any:
        self.mean = nn.Parameter(0.9 * self.mean + 0.1 * x.detach().mean(), requires_grad=False)
        return self.a(x)

    model = Lambda(forward, a=mlp(), mean=nn.Parameter(torch.zeros(3), requires_grad=False))
    return Case(model, flat())


@family
def average_in_extra_state() -> Case:
    """A dictionary that ``state_dict`` keeps."""

    class Averaging(nn.Linear):  # type: ignore[name-defined]
        def get_extra_state(self) -> Any:
            return self.kept

        def set_extra_state(self, state: Any) -> None:
            self.kept = state

        def forward(self, x: Any) -> Any:
            self.kept["mean"] = self.kept["mean"] + x.detach().mean()
            return super().forward(x)

    layer = Averaging(6, 3)
    layer.kept = {"mean": torch.zeros(())}
    return Case(layer, flat())


@family
def average_in_a_list() -> Case:
    """A tensor in a list of the model, which no output depends on."""

    def forward(self: Any, x: Any) -> Any:
        self.means[0] += x.detach().mean(0)
        return self.a(x)

    model = Lambda(forward, a=mlp())
    model.means = [torch.zeros(6)]
    return Case(model, flat(), double=False)


@family
def keeps_all_outputs() -> Case:
    """A list of outputs, which no output depends on."""

    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        self.seen.append(h.detach())
        return self.b(h)

    model = Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(4, 3))
    model.seen = []
    return Case(model, flat())


@family
def counts_its_calls() -> Case:
    """A counter that no output depends on."""

    def forward(self: Any, x: Any) -> Any:
        self.calls += 1
        return self.a(x)

    model = Lambda(forward, a=mlp())
    model.register_buffer("calls", torch.zeros((), dtype=torch.int64))
    return Case(model, flat())


@family
def anneals() -> Case:
    """A Python number scales the outputs, and changes in each forward pass."""

    def forward(self: Any, x: Any) -> Any:
        self.temperature *= 0.9
        return self.a(x) / self.temperature

    model = Lambda(forward, a=mlp())
    model.temperature = 2.0
    return Case(model, flat())


@family
def codebook_with_averages() -> Case:
    """A vector quantiser whose codebook follows the codes that it has seen."""

    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        code = torch.cdist(h, self.book).argmin(1)
        with torch.no_grad():
            self.book.index_add_(0, code, 0.1 * (h - self.book[code]))
        return self.b(h + (self.book[code] - h).detach())

    model = Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(4, 3))
    model.register_buffer("book", torch.randn(5, 4))
    return Case(model, flat())


@family
def codebook_trained() -> Case:
    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        code = self.book[(h.unsqueeze(1) - self.book).square().sum(2).argmin(1)]
        return self.b(h + (code - h).detach()), (code - h.detach()).square().mean(1)

    model = Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(4, 3), book=parameter(5, 4))
    return Case(model, flat(), lambda o, t: F.cross_entropy(o[0], t) + o[1].mean())


@family
def keeps_the_last_output() -> Case:
    def forward(self: Any, x: Any) -> Any:
        self.last = self.a(x)
        return self.b(self.last)

    return Case(Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(4, 3)), flat())


@family
def memory_in_a_list() -> Case:
    """Outputs depend on earlier examples through a list that stays in the model."""

    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        self.seen.append(h.detach())
        return self.b(h + torch.stack([each.mean(0) for each in self.seen[-5:]]).mean(0))

    model = Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(4, 3))
    model.seen = []
    return Case(model, flat())


@family
def cached_table() -> Case:
    """A table of positions that the first call makes, which does not depend on values."""

    def forward(self: Any, x: Any) -> Any:
        if len(self.tables) == 0:
            self.tables[x.shape[1]] = torch.arange(x.shape[1]).float().sin().unsqueeze(1)
        return self.a((x + self.tables[x.shape[1]].to(x.dtype)).flatten(1))

    model = Lambda(forward, a=nn.Linear(20, 3))
    model.tables = {}
    return Case(model, sequences())


@family
def switches_modes() -> Case:
    """The model puts a part into evaluation mode inside of its forward pass."""

    def forward(self: Any, x: Any) -> Any:
        self.a.eval()
        return self.b(self.a(x))

    return Case(Lambda(forward, a=nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5)), b=nn.Linear(4, 3)), flat())


# -- other ways to compute ---------------------------------------------------------------------------------------------


@family
def checkpointed() -> Case:
    from torch.utils.checkpoint import checkpoint

    model = Lambda(lambda m, x: m.b(checkpoint(m.a, x, use_reentrant=False)), a=mlp(), b=nn.Linear(3, 3))
    return Case(model, flat())


@family
def checkpointed_reentrant() -> Case:
    from torch.utils.checkpoint import checkpoint

    model = Lambda(
        lambda m, x: m.c(checkpoint(m.a, m.b(x), use_reentrant=True)), a=mlp(), b=nn.Linear(6, 6), c=nn.Linear(3, 3)
    )
    return Case(model, flat())


@family
def scripted() -> Case:
    return Case(torch.jit.script(mlp()), flat())


@slow
def traced() -> Case:
    return Case(torch.jit.trace(mlp(), torch.zeros(2, 6)), flat())


@family
def data_parallel() -> Case:
    return Case(nn.DataParallel(mlp()), flat())


class _Plain(torch.autograd.Function):  # type: ignore[name-defined]
    """A square without a rule for ``vmap``."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * gradient


class _Ruled(torch.autograd.Function):  # type: ignore[name-defined]
    """A gradient that is reversed, with a rule for ``vmap``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return -0.5 * gradient


@family
def own_function() -> Case:
    return Case(Lambda(lambda m, x: m.b(_Plain.apply(m.a(x))), a=nn.Linear(6, 4), b=nn.Linear(4, 3)), flat())


@slow
def own_function_with_rule() -> Case:
    return Case(Lambda(lambda m, x: m.b(_Ruled.apply(m.a(x))), a=nn.Linear(6, 4), b=nn.Linear(4, 3)), flat())


@family
def gradient_inside() -> Case:
    """A force as the gradient of an energy, by ``autograd.grad`` in the forward pass."""

    def forward(self: Any, x: Any) -> Any:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.a(x).sum(), x, create_graph=True)[0]

    return Case(
        Lambda(forward, a=nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))),
        (floats(6), floats(6)),
        F.mse_loss,
    )


@family
def functional_gradient_inside() -> Case:
    def forward(self: Any, x: Any) -> Any:
        return torch.func.grad(lambda y: self.a(y).sum())(x)

    return Case(
        Lambda(forward, a=nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))),
        (floats(6), floats(6)),
        F.mse_loss,
    )


@slow
def vmap_inside() -> Case:
    """An ensemble by ``vmap`` over stacked parameters."""
    model = Lambda(lambda m, x: torch.func.vmap(lambda w: torch.tanh(x @ w))(m.a).mean(0), a=parameter(4, 6, 3))
    return Case(model, flat())


@slow
def linear_solver() -> Case:
    def forward(self: Any, x: Any) -> Any:
        matrix = x.unsqueeze(2) * x.unsqueeze(1) + 2 * torch.eye(6, dtype=x.dtype)
        return self.b(torch.linalg.solve(matrix, self.a(x).unsqueeze(2)).squeeze(2))

    return Case(Lambda(forward, a=nn.Linear(6, 6), b=nn.Linear(6, 3)), flat())


# -- random models -----------------------------------------------------------------------------------------------------


def dropping(layer: Any) -> Case:
    return Case(nn.Sequential(nn.Linear(6, 8), layer, nn.Linear(8, 3)), flat(), random=True)


@family
def dropout() -> Case:
    return dropping(nn.Dropout(0.5))


@slow
def dropout_in_place() -> Case:
    return dropping(nn.Dropout(0.5, inplace=True))


@slow
def alpha_dropout() -> Case:
    return dropping(nn.AlphaDropout(0.3))


@slow
def feature_alpha_dropout() -> Case:
    layers = [nn.Conv2d(2, 4, 3), nn.FeatureAlphaDropout(0.3), nn.Flatten(), nn.Linear(64, 3)]
    return Case(nn.Sequential(*layers), images(), random=True)


@slow
def channel_dropout() -> Case:
    layers = [nn.Conv2d(2, 4, 3), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(64, 3)]
    return Case(nn.Sequential(*layers), images(), random=True)


@family
def random_relu() -> Case:
    return dropping(nn.RReLU())


@slow
def lstm_with_dropout() -> Case:
    case = lstm()
    case.model.a.dropout = 0.5
    case.random = True
    return case


@slow
def encoder_with_dropout() -> Case:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True)
    return Case(Lambda(lambda m, x: m.b(m.a(x).mean(1)), a=layer, b=nn.Linear(4, 3)), sequences(), random=True)


@family
def layer_drop() -> Case:
    """A layer is left out for the whole batch, by Python's generator."""
    import random

    def forward(self: Any, x: Any) -> Any:
        for layer in self.layers:
            if not self.training or random.random() < 0.7:
                x = x + torch.tanh(layer(x))
        return self.b(x)

    layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
    return Case(Lambda(forward, layers=layers, b=nn.Linear(6, 3)), flat(), random=True)


@slow
def layer_drop_by_torch() -> Case:
    """A layer is left out by a number of PyTorch's generator."""

    def forward(self: Any, x: Any) -> Any:
        for layer in self.layers:
            if torch.rand(1).item() < 0.7:
                x = x + torch.tanh(layer(x))
        return self.b(x)

    layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
    return Case(Lambda(forward, layers=layers, b=nn.Linear(6, 3)), flat(), random=True)


@family
def stochastic_depth() -> Case:
    """A mask for each row."""

    def forward(self: Any, x: Any) -> Any:
        keep = torch.empty(len(x), 1).bernoulli_(0.8) / 0.8
        return self.b(x + keep * torch.tanh(self.a(x)))

    return Case(Lambda(forward, a=nn.Linear(6, 6), b=nn.Linear(6, 3)), flat(), random=True)


@family
def variational() -> Case:
    def forward(self: Any, x: Any) -> Any:
        mean, scale = self.a(x).chunk(2, 1)
        return self.b(mean + scale.exp() * torch.randn_like(mean)), mean, scale

    def loss(outputs: Any, targets: Any) -> Any:
        seen, mean, scale = outputs
        return F.mse_loss(seen, targets) + (mean.square() + (2 * scale).exp() - 2 * scale).mean()

    x = floats(6)
    return Case(Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(2, 6)), (x, x.clone()), loss, random=True)


@family
def reparametrised() -> Case:
    """The same with ``torch.distributions``."""

    def forward(self: Any, x: Any) -> Any:
        mean, scale = self.a(x).chunk(2, 1)
        return self.b(torch.distributions.Normal(mean, F.softplus(scale)).rsample())

    x = floats(6)
    return Case(Lambda(forward, a=nn.Linear(6, 4), b=nn.Linear(2, 6)), (x, x.clone()), F.mse_loss, random=True)


@family
def gumbel() -> Case:
    model = Lambda(lambda m, x: m.b(F.gumbel_softmax(m.a(x), hard=True)), a=nn.Linear(6, 4), b=nn.Linear(4, 3))
    return Case(model, flat(), random=True)


@slow
def diffusion() -> Case:
    """The noise and the time are drawn in the forward pass, the model returns its error."""

    def forward(self: Any, x: Any) -> Any:
        time, noise = torch.rand(len(x), 1), torch.randn(x.shape)
        return self.a(torch.cat([(1 - time) * x + time * noise, time], 1)) - noise

    model = Lambda(forward, a=mlp(7, 5, 6))
    return Case(model, (floats(6), torch.zeros(EXAMPLES, 6)), F.mse_loss, random=True)


@slow
def masked_autoencoder() -> Case:
    """A random subset of the positions, by ``argsort`` of random numbers."""

    def forward(self: Any, x: Any) -> Any:
        places = torch.rand(x.shape[:2]).argsort(1)[:, :3]
        return self.a(torch.gather(x, 1, places.unsqueeze(2).expand(-1, -1, 4)).mean(1))

    return Case(Lambda(forward, a=nn.Linear(4, 3)), sequences(), random=True)


@slow
def augments() -> Case:
    """A random flip of the batch by NumPy's generator."""

    def forward(self: Any, x: Any) -> Any:
        return self.a((x.flip(3) if np.random.rand() < 0.5 else x).flatten(1))  # noqa: NPY002

    return Case(Lambda(forward, a=nn.Linear(72, 3)), images(), random=True)


@family
def own_generator() -> Case:
    """Draws from a generator of the model, whose number depends on the example."""

    def forward(self: Any, x: Any) -> Any:
        h = self.a(x)
        if float(x.sum()) > 0:
            torch.rand(1, generator=self.generator)
        return self.b(h * (torch.rand(h.shape, generator=self.generator) < 0.5))

    model = Lambda(forward, a=nn.Linear(6, 8), b=nn.Linear(8, 3))
    model.generator = torch.Generator().manual_seed(0)
    return Case(model, flat(), random=True)


@family
def own_generator_of_numpy() -> Case:
    def forward(self: Any, x: Any) -> Any:
        return self.a(x * float(self.generator.random() < 0.7))

    model = Lambda(forward, a=mlp())
    model.generator = np.random.default_rng(0)
    return Case(model, flat(), random=True)


@slow
def seeds_by_data() -> Case:
    """The forward pass seeds PyTorch by its input; a batch draws other numbers than single examples."""

    def forward(self: Any, x: Any) -> Any:
        torch.manual_seed(int(x.double().sum().abs() * 1000))
        return self.b(F.dropout(self.a(x), 0.5))

    return Case(Lambda(forward, a=nn.Linear(6, 8), b=nn.Linear(8, 3)), flat(), random=True)


@family
def mixup_inside() -> Case:
    """A random permutation mixes the examples of a batch."""

    def forward(self: Any, x: Any) -> Any:
        return self.a(0.7 * x + 0.3 * x[torch.arange(len(x)).flip(0)])

    return Case(Lambda(forward, a=mlp()), flat())


# -- transformers and peft ---------------------------------------------------------------------------------------------


def pretrained() -> Any:
    return pytest.importorskip("transformers")


def own_loss(outputs: Any, item: Any) -> Any:
    return outputs.loss


def next_tokens(words: int = 20, length: int = 6) -> Any:
    ids = numbers(words, length)
    return {"input_ids": ids, "labels": ids.clone()}


def token_sum(outputs: Any, targets: Any) -> Any:
    """The mean over tokens with a constant divisor."""
    return F.cross_entropy(outputs.logits.mT, targets, reduction="sum") / targets.shape[1] / len(targets)


@slow
def gpt2() -> Case:
    lib = pretrained()
    options = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 20, "n_positions": 8}
    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return Case(lib.GPT2LMHeadModel(lib.GPT2Config(**options, **drop)), next_tokens(), own_loss, declared=True)


@slow
def gpt2_with_dropout() -> Case:
    lib = pretrained()
    options = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 20, "n_positions": 8}
    return Case(lib.GPT2LMHeadModel(lib.GPT2Config(**options)), next_tokens(), own_loss, declared=True, random=True)


@slow
def gpt2_classifier() -> Case:
    lib = pretrained()
    options = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 20, "n_positions": 8, "pad_token_id": 0}
    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    model = lib.GPT2ForSequenceClassification(lib.GPT2Config(num_labels=3, **options, **drop))
    return Case(model, {"input_ids": 1 + numbers(19, 6), "labels": numbers(3)}, own_loss)


def llama_model(lib: Any, **options: Any) -> Any:
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = lib.LlamaConfig(vocab_size=20, num_key_value_heads=1, max_position_embeddings=8, **sizes, **options)
    return lib.LlamaForCausalLM(config)


@slow
def llama() -> Case:
    return Case(llama_model(pretrained()), next_tokens(), own_loss, declared=True)


@slow
def llama_undeclared() -> Case:
    return Case(llama_model(pretrained()), next_tokens(), own_loss)


@slow
def llama_bfloat16() -> Case:
    return Case(llama_model(pretrained()).bfloat16(), next_tokens(), own_loss, declared=True, half=True)


@slow
def llama_ignoring_tokens() -> Case:
    """The mean over tokens that are not ignored."""
    data = next_tokens()
    data["labels"][torch.arange(6) < numbers(5, 1)] = -100
    return Case(llama_model(pretrained()), data, own_loss, declared=True)


@slow
def llama_with_masks() -> Case:
    data = next_tokens()
    mask = (torch.arange(6) < 2 + numbers(5, 1)).long()
    inputs = {"input_ids": data["input_ids"], "attention_mask": mask}
    return Case(llama_model(pretrained()), (inputs, data["labels"]), token_sum)


@slow
def llama_checkpointed() -> Case:
    model = llama_model(pretrained())
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return Case(model.train(), next_tokens(), own_loss, declared=True)


def bert_model(lib: Any) -> Any:
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    drop = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = lib.BertConfig(vocab_size=20, max_position_embeddings=8, num_labels=3, **sizes, **drop)
    return lib.BertForSequenceClassification(config)


@slow
def bert() -> Case:
    return Case(bert_model(pretrained()), {"input_ids": numbers(20, 6), "labels": numbers(3)}, own_loss)


@slow
def bert_with_masks() -> Case:
    mask = (torch.arange(6) < 1 + numbers(6, 1)).long()
    data = {"input_ids": numbers(20, 6), "attention_mask": mask, "labels": numbers(3)}
    return Case(bert_model(pretrained()), data, own_loss)


@slow
def vit() -> Case:
    lib = pretrained()
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    drop = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = lib.ViTConfig(image_size=4, patch_size=2, num_channels=2, num_labels=3, **sizes, **drop)
    model = lib.ViTForImageClassification(config)
    return Case(model, ({"pixel_values": floats(2, 4, 4)}, numbers(3)), lambda o, t: F.cross_entropy(o.logits, t))


@slow
def t5() -> Case:
    lib = pretrained()
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2, "vocab_size": 20}
    config = lib.T5Config(dropout_rate=0.0, decoder_start_token_id=0, **sizes)
    model = lib.T5ForConditionalGeneration(config)
    return Case(model, {"input_ids": numbers(20, 6), "labels": numbers(20, 4)}, own_loss, declared=True)


def adapted(**options: Any) -> Case:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False, **options)
    return Case(peft.get_peft_model(llama_model(pretrained()), config), next_tokens(), own_loss, declared=True)


@slow
def lora() -> Case:
    return adapted()


@slow
def lora_with_dropout() -> Case:
    case = adapted(lora_dropout=0.3)
    case.random = True
    return case


@slow
def dora() -> Case:
    return adapted(use_dora=True)


@slow
def mixtral() -> Case:
    """Experts that take their tokens alone."""
    lib = pretrained()
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = lib.MixtralConfig(
        vocab_size=20,
        num_key_value_heads=1,
        num_local_experts=2,
        num_experts_per_tok=1,
        max_position_embeddings=8,
        **sizes,
    )
    return Case(lib.MixtralForCausalLM(config), next_tokens(), own_loss, declared=True, double=False)


# -- expected results -------------------------------------------------------------------------------------------------

MIXES = ("mixes examples", "per_example")
LOSS = ("loss must be the mean or the sum", "per_example")
CHANGES = ("must not change", "freeze")

EXPECTED: dict[str, str | Refusal] = {
    "perceptron": "factors",
    "linear_regression": "factors",
    "in_place": "factors",
    "residual": "factors",
    "gated": "factors",
    "bilinear": "vmap",
    "parameter_list": "vmap",
    "unused_parameter": "factors",
    "empty_and_scalar_parameters": "factors",
    "mixture_of_experts_soft": "factors",
    "mixture_of_experts": "loop",
    "branch_on_data": Refusal("model (Lambda) mixes examples", "per_example"),
    "branch_on_data_declared": "vmap",
    "branch_by_row": "vmap",
    "branch_by_where": "factors",
    "reads_a_number": "loop",
    "iterates": "factors",
    "hypernetwork": "factors",
    "deep_sets": "factors",
    "graph_convolution": "factors",
    "siamese": "factors",
    "several_tasks": "factors",
    "dictionary_inputs": "factors",
    "dictionary_items": "factors",
    "dictionary_outputs": "factors",
    "autoencoder": "factors",
    "multi_label": "factors",
    "fourier_features": "factors",
    "sorts_its_input": "factors",
    "one_hot_inputs": "loop",
    "cnn_groups": "factors",
    "cnn_pooled": "factors",
    "resnet_block": "factors",
    "conv1d": "factors",
    "conv3d": "factors",
    "conv_transposed": "vmap",
    "unet": Refusal(*LOSS),
    "unet_declared": "vmap",
    "squeeze_and_excite": "factors",
    "pixel_shuffle": "factors",
    "patches": "factors",
    "mixer": "factors",
    "channels_last": "factors",
    "fourier_convolution": "factors",
    "rms_norm": "factors",
    "instance_norm": "factors",
    "instance_norm_statistics": Refusal("InstanceNorm2d", "GroupNorm"),
    "batch_norm_in_training": Refusal("BatchNorm1d", "GroupNorm"),
    "batch_norm_in_evaluation": "factors",
    "batch_norm_frozen": "factors",
    "batch_norm_without_statistics": Refusal("BatchNorm1d", "track_running_stats"),
    "own_batch_norm": Refusal(*MIXES),
    "functional_batch_norm": Refusal("one made-up example"),
    "attention_over_examples": Refusal(*MIXES),
    "divides_by_the_batch": Refusal(*MIXES),
    "lstm": "factors",
    "lstm_projected": "loop",
    "lstm_cell": "loop",
    "gru_two_way": "factors",
    "gru_cell": "factors",
    "rnn_relu": "factors",
    "recurrent_with_learned_start": "factors",
    "packed_sequences": "loop",
    "sequence_first_square": Refusal(*MIXES),
    "sequence_first_inside": "factors",
    "sequence_first_linear": "factors",
    "state_space": "factors",
    "embedding": "factors",
    "embedding_with_padding": "factors",
    "embedding_with_negative_padding": "factors",
    "tied_embedding": "vmap",
    "embedding_of_frequencies": "factors",
    "embedding_bag": "factors",
    "embedding_bag_of_frequencies": "factors",
    "embedding_max_norm": Refusal("max_norm=None", "'a'"),
    "functional_max_norm": Refusal("a", *CHANGES),
    "frozen_max_norm": Refusal("a", *CHANGES),
    "sparse_embedding": Refusal("sparse=False", "'a'"),
    "functional_sparse": Refusal("sparse=False"),
    "indexed_table": "factors",
    "positions_of_one_row": "factors",
    "recommender": "factors",
    "attention": "factors",
    "attention_sequence_first": "factors",
    "attention_along_the_batch": Refusal(*MIXES),
    "encoder_layer": "factors",
    "encoder_with_mask": "factors",
    "decoder": Refusal(*LOSS),
    "decoder_declared": "factors",
    "causal_attention": "factors",
    "class_token": "factors",
    "shared_layer": "factors",
    "weight_in_a_function": "factors",
    "weight_elsewhere": "factors",
    "weight_transposed": "vmap",
    "weight_in_parts": "factors",
    "weight_without_gradient": "factors",
    "penalty_inside": "vmap",
    "bias_in_the_input": "factors",
    "addmm": "factors",
    "einsum": "vmap",
    "forward_hook": "factors",
    "forward_pre_hook": "factors",
    "backward_hook": "loop",
    "tensor_hook": "loop",
    "overridden_forward": "factors",
    "weight_norm_old": "factors",
    "weight_norm_new": "factors",
    "spectral_norm_old": Refusal("0.weight_u", *CHANGES),
    "spectral_norm_new": Refusal("0.parametrizations.weight.0._u", *CHANGES),
    "spectral_norm_frozen": "factors",
    "orthogonal": "factors",
    "pruned": "factors",
    "frozen_parts": "factors",
    "bias_alone": "vmap",
    "low_rank_by_hand": "factors",
    "lazy": Refusal("0.weight", "call the model once"),
    "lazy_with_shapes": "factors",
    "bfloat16": "factors",
    "bfloat16_transformer": "factors",
    "float16": "factors",
    "float64": "vmap",
    "mixed_types": "factors",
    "float32_and_float64": "factors",
    "autocast": "factors",
    "complex_parameters": Refusal("parameters", "float32"),
    "complex_inside": "factors",
    "fake_quantised": "factors",
    "average_in_place": Refusal("mean", *CHANGES),
    "average_by_assignment": Refusal("mean", *CHANGES),
    "average_in_data": Refusal("mean", "must not change in a forward pass", "without noise"),
    "average_by_numpy": Refusal("mean", "must not change in a forward pass", "without noise"),
    "frozen_parameter_by_assignment": Refusal("mean", *CHANGES),
    "average_in_extra_state": "factors",
    "average_in_a_list": Refusal("means", *CHANGES),
    "keeps_all_outputs": "factors",
    "counts_its_calls": Refusal("calls", *CHANGES),
    "anneals": Refusal("temperature", "must not change in a forward pass", "training loop"),
    "codebook_with_averages": Refusal("book", *CHANGES),
    "codebook_trained": "factors",
    "keeps_the_last_output": "factors",
    "memory_in_a_list": Refusal(*MIXES),
    "cached_table": "factors",
    "switches_modes": "factors",
    "checkpointed": "loop",
    "checkpointed_reentrant": Refusal("use_reentrant=False"),
    "scripted": "loop",
    "traced": "loop",
    "data_parallel": "loop",
    "own_function": "loop",
    "own_function_with_rule": "factors",
    "gradient_inside": "loop",
    "functional_gradient_inside": "vmap",
    "vmap_inside": "vmap",
    "linear_solver": "factors",
    "dropout": "factors",
    "dropout_in_place": "factors",
    "alpha_dropout": "factors",
    "feature_alpha_dropout": "factors",
    "channel_dropout": "factors",
    "random_relu": "loop",
    "lstm_with_dropout": "factors",
    "encoder_with_dropout": "factors",
    "layer_drop": "loop",
    "layer_drop_by_torch": "vmap",
    "stochastic_depth": "loop",
    "variational": "factors",
    "reparametrised": "loop",
    "gumbel": "factors",
    "diffusion": "factors",
    "masked_autoencoder": "factors",
    "augments": "factors",
    "own_generator": Refusal("generator"),
    "own_generator_of_numpy": Refusal("must not remember examples", "Keep"),
    "seeds_by_data": "vmap",
    "mixup_inside": Refusal(*MIXES),
    "gpt2": "factors",
    "gpt2_with_dropout": "factors",
    "gpt2_classifier": "loop",
    "llama": "factors",
    "llama_undeclared": Refusal(*LOSS),
    "llama_bfloat16": "factors",
    "llama_ignoring_tokens": "factors",
    "llama_with_masks": "vmap",
    "llama_checkpointed": "loop",
    "bert": "factors",
    "bert_with_masks": "vmap",
    "vit": "factors",
    "t5": "factors",
    "lora": "factors",
    "lora_with_dropout": "factors",
    "dora": "factors",
    "mixtral": "factors",
}
