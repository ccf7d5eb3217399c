"""Noise of a run on a device of PyTorch or JAX: the bits of the host, and refusals of devices that make others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.adapters import array_noise, array_normals, jax_noise, torch_noise, torch_normals, training
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.journal import Journal
from corrnoise.simulations.run.model_noise import ModelNoise, NoiseMaker
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import Grid
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import known_key
from tests.simulations.run.test_draws import SECRET

HAS_TORCH, HAS_JAX = find_spec("torch") is not None, find_spec("jax") is not None


def has_cuda() -> bool:
    if not HAS_TORCH:
        return False
    import torch

    return bool(torch.cuda.is_available())


class Kind(NamedTuple):
    """A device of a library."""

    name: str
    compiled: bool | None = None

    def maker(self) -> Callable[..., NoiseMaker]:
        if self.name == "jax":
            import jax

            return partial(jax_noise.JaxNoise, device=jax.devices()[0])
        return partial(torch_noise.TorchNoise, device=self.name, compiled=self.compiled)

    def array(self, values: Any, dtype: Any = np.float32) -> Any:
        """Numbers as an array of the library on the device."""
        noise: Any = self.maker()(streaming(DPSGD(), ONCE), 1)
        return noise.on_device(np.asarray(values, dtype))


STEPS = 4
ONCE = Participation.single(STEPS)
SPANS = [(5000, 3000), (17, 1), (20, 4000)]
MECHANISMS: dict[str, Mechanism] = {
    "independent": DPSGD(),
    "poles": NuFTRL(0.02),
    "delay line": FiniteNoise([1.0, -0.5, 0.25]),
    "scaled": ScaledNoise(NuFTRL(0.1), step_scales=[1, 2, 3, 4], draw_scales=[4, 3, 2, 1]),
    "buffers": TimeVaryingBuffers([0.9, 0.3], [[0.1, 0.2]] * STEPS, [[1.0, 0.5], [0.7, 0.1]] * 2, [1.0, 2.0, 0.7, 1.1]),
}
KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Kind("cpu"), marks=pytest.mark.skipif(not HAS_TORCH, reason="needs PyTorch"), id="torch"),
        pytest.param(
            Kind("cuda"),
            marks=[pytest.mark.gpu, pytest.mark.skipif(not has_cuda(), reason="needs a graphics processor")],
            id="cuda",
        ),
        pytest.param(Kind("jax"), marks=pytest.mark.skipif(not HAS_JAX, reason="needs JAX"), id="jax"),
    ],
)


@KINDS
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_noise_on_a_device_has_the_bits_of_the_host(mechanism: Mechanism, wide: bool, kind: Kind) -> None:
    """A run begins on one and goes on on the other, both ways, with the memory of the other."""
    program = streaming(mechanism, ONCE)
    host: NoiseMaker = ModelNoise(program, 10_000, 1, spans=SPANS)
    own = kind.maker()(program, 10_000, spans=SPANS)
    alone = kind.maker()(program, 10_000, spans=SPANS)  # keeps its memory, which is not rounded by the host
    for step in range(STEPS):
        first = host.made(SECRET, step, bytes([step]), 2.5, wide=wide)
        second = own.made(SECRET, step, bytes([step]), 2.5, wide=wide)
        assert second.device == own.device
        np.testing.assert_array_equal(own.on_host(second), first)
        np.testing.assert_array_equal(alone.on_host(alone.made(SECRET, step, bytes([step]), 2.5, wide=wide)), first)
        np.testing.assert_array_equal(own.memory, host.memory)
        assert own.memory.dtype == host.memory.dtype
        one, other = host.memory, own.memory
        host = ModelNoise(program, 10_000, 1, spans=SPANS)
        own = kind.maker()(program, 10_000, spans=SPANS)
        host.memory, own.memory = other, one


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler
def test_a_compiled_recurrence_has_the_same_bits() -> None:
    """For more kinds than PyTorch compiles of one function."""
    pytest.importorskip("torch")
    if shutil.which("g++") is None:
        pytest.skip("needs a compiler of C++")
    for count in range(10):
        program = streaming(FiniteNoise([1.0, *[0.1] * count]), Participation.single(20))
        for noise in (program, streaming(MECHANISMS["poles"], ONCE), streaming(MECHANISMS["buffers"], ONCE)):
            host = ModelNoise(noise, 5000, 1)
            own = Kind("cpu", compiled=True).maker()(noise, 5000)
            for step in range(STEPS):
                found = own.made(SECRET, step, b"", 2.5)
                np.testing.assert_array_equal(own.on_host(found), host.made(SECRET, step, b"", 2.5))
            np.testing.assert_array_equal(own.memory, host.memory)


@KINDS
def test_other_forms_are_refused_on_devices(kind: Kind) -> None:
    message = "program must be a cascade, a delay line with a ring or buffers on a device, got"
    with pytest.raises(ValueError, match=message):
        kind.maker()(streaming(MatrixNoise(np.tril(np.ones((4, 4)))), ONCE), 3)
    with pytest.raises(ValueError, match=message):
        kind.maker()(streaming(MECHANISMS["delay line"], ONCE), 3, memory="replay")


@KINDS
@pytest.mark.parametrize("mutant", ["draws", "recurrence"])
def test_a_device_that_makes_other_numbers_is_refused(mutant: str, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Radii and angles exchanged, normals of another generator; a draw that is off by a millionth."""
    philox = array_normals._philox
    following = array_noise.following
    jax_noise._step.cache_clear()
    if mutant == "draws":
        monkeypatch.setattr(array_normals, "_philox", lambda seed, counter: philox(seed, counter)[::-1])
        monkeypatch.setattr(torch_normals, "fill", lambda values, *others: values.normal_())
    else:
        monkeypatch.setattr(
            array_noise, "following", lambda form, now, draw, *others: following(form, now, draw + 1e-6, *others)
        )
    noise = kind.maker()(streaming(NuFTRL(0.1), ONCE), 3000)
    with pytest.raises(RuntimeError, match="makes other numbers than the host"):
        noise.made(SECRET, 0, b"", 1.0)
    jax_noise._step.cache_clear()


@KINDS
def test_noisy_sums_are_those_of_the_host(kind: Kind) -> None:
    """Sums of floats and of integers, and releases on the grid, with ties and an empty shard."""
    program = streaming(NuFTRL(0.1), ONCE)
    grid = Grid(-21, "int32", 1000 * 2**21)
    rng = np.random.default_rng(0)
    noise = np.concatenate([rng.normal(size=2000) * 8, np.arange(-9, 9) * grid.unit / 2])
    host = ModelNoise(program, noise.size, 1)
    own = kind.maker()(program, noise.size)
    whole = rng.integers(-(2**31) + 1, 2**31, noise.size).astype(np.int32)
    whole[1000:] = rng.integers(-100, 100, noise.size - 1000)  # so small that float32 shows each unit
    real = rng.normal(size=noise.size).astype(np.float32)
    for total, given, made, on_grid in (
        (real, None, noise.astype(np.float32), False),
        (whole, grid, noise, False),
        (whole, grid, noise, True),
        (whole.astype(np.int64) * 3, grid, noise, True),
    ):
        there = kind.array(total, total.dtype), kind.array(made, made.dtype)
        found = own.on_host(own.noisy(*there, given, on_grid=on_grid))
        true = host.noisy(total.copy(), made, given, on_grid=on_grid)
        assert found.dtype == true.dtype
        np.testing.assert_array_equal(found, true)
        assert own.norm(there[0]) == pytest.approx(host.norm(total), rel=1e-12)
        if given is not None:
            assert own.extremes(there[0]) == host.extremes(total)
    far = kind.array(np.full(2, 2.0**40 * grid.unit), float)
    with pytest.raises(RuntimeError, match="noise must be below"):
        own.noisy(kind.array([0, 0], np.int32), far, grid, on_grid=True)
    empty = kind.maker()(program, 5, spans=[])
    nothing = empty.noisy(kind.array([], np.int32), empty.made(SECRET, 0, b"", 1.0, wide=True), grid, on_grid=True)
    assert empty.on_host(nothing).shape == (0,)


@KINDS
@pytest.mark.parametrize("keeps", [False, True])
def test_a_run_begins_on_the_host_and_goes_on_on_a_device(kind: Kind, keeps: bool, tmp_path: Path) -> None:
    """And back, through crashes: sums and releases are arrays there, refused where the host refuses them."""
    who = Participation.single(6)

    class Nothing:
        def save(self) -> dict[str, Any]:
            return {}

        def load(self, arrays: dict[str, Any], /) -> None:
            pass

    def released(path: Path, last: int, maker: Any) -> list[Any]:
        folder = Folder(path, checkpoint_every=2, keep_releases=keeps, marks=path.with_name(f"{path.name} marks"))
        run = PrivateRun(Budget(0.5), who, NuFTRL(0.1), 5, folder=folder, carry=Nothing(), maker=maker)
        found = []
        for step in run:
            total: Any = np.full(5, step / 4, np.float32)
            if run.device is not None:
                for wrong, dtype in (
                    (np.ones(4), np.float32),
                    (np.ones(5), np.int32),
                    (np.full(5, np.nan), np.float32),
                ):
                    with pytest.raises(ValueError, match="total must be"):
                        run.add_noise(kind.array(wrong, dtype))
                with pytest.raises(ValueError, match="total must be an array on"):
                    run.add_noise(np.zeros(5))
                total = kind.array(total)
            noisy = run.add_noise(total)
            assert run.device is None or noisy.device == run.device
            found.append((step, noisy.tolist()))
            if run.position == last:
                run._durable.home.close()  # type: ignore[union-attr]  # the process dies
                break
        return found

    in_step = mock.patch.object(Journal, "nonce", lambda _, step: step.to_bytes(16, "little"))
    with mock.patch.object(draws, "fresh", lambda size: bytes(range(size))), in_step:
        true = dict(released(tmp_path / "one", 6, ModelNoise))
        made = [released(tmp_path / "run", 3, ModelNoise), released(tmp_path / "run", 5, kind.maker())]
        made.append(released(tmp_path / "run", 6, ModelNoise))
    for step, values in chain(*made):
        assert values == true[step]
    assert {step for part in made for step, _ in part} == set(range(6))


# -- runs in one call --------------------------------------------------------------------------------------------------

INPUTS = np.random.default_rng(3).normal(size=(50, 6)).astype(np.float32)
TARGETS = np.random.default_rng(4).integers(3, size=50)
ARITHMETIC = pytest.mark.parametrize("exact", [True, False])


def chosen(exact: bool) -> dict[str, Any]:
    kinds = {"sums": "exact", "release": "grid"} if exact else {"sums": "float32", "release": "float"}
    return {"budget": Budget(rho=0.5), "batch_size": 12, "epochs": 3, "mechanism": NuFTRL(0.05), **kinds}


@ARITHMETIC
def test_a_model_of_torch_is_trained_alike_with_noise_of_a_device(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from corrnoise.simulations.adapters import torch_run

    def trained(maker: Any) -> list[float]:
        monkeypatch.setattr(torch_run, "maker_for", lambda device: maker)
        torch.manual_seed(1)
        model = torch.nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        data = torch.from_numpy(INPUTS), torch.from_numpy(TARGETS)
        loss = torch.nn.functional.cross_entropy
        with known_key(), mock.patch.object(training, "batches", partial(batches, rng=0)):
            run = torch_run.make_private(model, optimizer, data, loss=loss, **chosen(exact))
        assert (run.device is None) == (maker is ModelNoise)
        for batch in run:
            run.step(batch)
        found: list[float] = torch.cat([each.detach().reshape(-1) for each in model.parameters()]).tolist()
        return found

    assert trained(Kind("cpu").maker()) == trained(ModelNoise)


@ARITHMETIC
def test_parameters_of_jax_are_trained_alike_with_noise_of_a_device(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the division by the batch size, which XLA rounds otherwise than NumPy."""
    jax = pytest.importorskip("jax")
    optax = pytest.importorskip("optax")
    from corrnoise.simulations.adapters import jax_run

    def loss(parameters: Any, image: Any, digit: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(image @ parameters["weight"] + parameters["bias"], digit)

    def trained(maker: Any) -> Any:
        monkeypatch.setattr(jax_run, "maker_for", lambda leaves: maker)
        parameters = {"weight": np.full((6, 3), 0.1, np.float32), "bias": np.zeros(3, np.float32)}
        with known_key(), mock.patch.object(training, "batches", partial(batches, rng=0)):
            run = jax_run.make_private(parameters, optax.sgd(0.3), (INPUTS, TARGETS), loss=loss, **chosen(exact))
        assert (run.device is None) == (maker is ModelNoise)
        for batch in run:
            run.step(batch)
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(run.parameters)])

    np.testing.assert_allclose(trained(Kind("jax").maker()), trained(ModelNoise), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not HAS_JAX, reason="needs JAX")
def test_noise_is_made_where_the_model_is() -> None:
    """On the host for CPUs, and for forms that it alone runs."""
    device = mock.Mock(type="cuda", platform="gpu")
    leaf, here = mock.Mock(), mock.Mock()
    leaf.devices.return_value = {device}
    here.devices.return_value = {mock.Mock(platform="cpu")}
    assert torch_noise.maker_for(mock.Mock(type="cpu")) is ModelNoise
    assert jax_noise.maker_for([here]) is ModelNoise
    assert jax_noise.maker_for([leaf, here]) is ModelNoise
    elsewhere = mock.Mock()
    elsewhere.devices.return_value = {mock.Mock(platform="gpu")}
    assert jax_noise.maker_for([leaf, elsewhere]) is ModelNoise  # on several devices
    dense = streaming(MatrixNoise(np.tril(np.ones((4, 4)))), ONCE)
    for maker, name in ((torch_noise.maker_for(device), "torch_noise.TorchNoise"), (jax_noise.maker_for([leaf]), "")):
        assert maker is not ModelNoise, name
        assert isinstance(maker(dense, 3, 1, memory="ring"), ModelNoise)
        assert isinstance(maker(streaming(MECHANISMS["delay line"], ONCE), 3, 1, memory="replay"), ModelNoise)
    made = mock.Mock()
    assert array_noise.where_possible(made)(streaming(NuFTRL(0.1), ONCE), 3, 1, memory="ring") is made.return_value
