"""Runs of JAX over trees of arrays, with ``item=``, both engines and shown losses, against loops over examples."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import jax as adapter
from corrnoise.simulations.adapters import training
from corrnoise.simulations.adapters.jax_run import JaxRun, make_private
from corrnoise.simulations.adapters.training import Unprotected, UnprotectedWarning
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.sums import MARGIN, Grid, Integer
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import counted

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
optax = pytest.importorskip("optax")

RNG = np.random.default_rng(5)
IMAGES = (3 * RNG.normal(size=(40, 4))).astype(np.float32)
MASKS = RNG.integers(2, size=(40, 4)).astype(bool)
DIGITS = RNG.integers(3, size=40).astype(np.int32)
PARAMETERS = {"weight": RNG.normal(size=(4, 3)).astype(np.float32), "bias": np.zeros(3, np.float32)}
SIZE, BATCH = 15, 8
KEY = jax.random.key(3)


def of_parts(parameters: Any, image: Any, mask: Any, digit: Any) -> Any:
    scores = jnp.where(mask, image, 0) @ parameters["weight"] + parameters["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, digit)


def of_nested(parameters: Any, x: Any, digit: Any) -> Any:
    return of_parts(parameters, x["image"], x["mask"], digit)


def of_dictionary(parameters: Any, row: Any) -> Any:
    return of_parts(parameters, row["image"], row["mask"], row["digit"])


def of_deep(parameters: Any, row: Any) -> Any:
    image, mask = row["x"]
    return of_parts(parameters, image, mask, row["digit"])


def dropped(parameters: Any, row: Any, key: Any) -> Any:
    kept = jax.random.bernoulli(key, 0.5, row["image"].shape)
    return of_dictionary(parameters, {**row, "image": row["image"] * kept, "mask": kept | True})


DICTIONARY = {"image": IMAGES, "mask": MASKS, "digit": DIGITS}
CASES: list[tuple[Any, Any]] = [
    ((IMAGES, MASKS, DIGITS), of_parts),
    (({"image": IMAGES, "mask": MASKS}, DIGITS), of_nested),
    (DICTIONARY, of_dictionary),
    (jax.tree.map(jnp.asarray, {"x": (IMAGES, MASKS), "digit": DIGITS}), of_deep),
]
EACH_ENGINE = pytest.mark.parametrize("engine", ["vmap", "loop"])


def made(data: Any, loss: Any, place: Path | None = None, **options: Any) -> JaxRun:
    settings: dict[str, Any] = {
        "budget": Budget(rho=0.5),
        "batch_size": BATCH,
        "epochs": 2,
        "mechanism": DPSGD(),
        "folder": None if place is None else Folder(place / "run", marks=place / "marks"),
    } | options
    return make_private(PARAMETERS, optax.sgd(0.1), data, loss=loss, **settings)


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(tree)])


@pytest.fixture
def _no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums in place of noisy sums; ``position`` goes on as usual."""
    whole = JaxRun.add_noise

    def shown(self: Any, total: Any, **options: Any) -> Any:
        whole(self, total, **options)
        return np.asarray(total, float) * self.grid.unit

    monkeypatch.setattr(JaxRun, "add_noise", shown)


def expected_of(batch: np.ndarray, scale: float = 1.0, keys: Any = None) -> tuple[Unprotected, np.ndarray]:
    """By a loop over examples, without a transformation for several rows."""
    total, norms, losses = np.zeros(SIZE), [], []
    for place, i in enumerate(batch):
        row = {name: each[i] for name, each in DICTIONARY.items()} | {"image": IMAGES[i] * np.float32(scale)}
        rest = () if keys is None else (keys[place],)
        function = of_dictionary if keys is None else dropped
        value, gradient = jax.value_and_grad(function)(PARAMETERS, row, *rest)
        norm = np.linalg.norm(flat(gradient))
        total += flat(gradient) * min(1.0, MARGIN / norm)
        norms.append(norm)
        losses.append(float(value))
    return Unprotected(float(np.mean(losses)), np.array(norms), float(np.mean(np.array(norms) > 1))), total / BATCH


@EACH_ENGINE
@pytest.mark.parametrize(("data", "loss"), CASES, ids=["tuple", "tuple of trees", "dictionary", "deep"])
@pytest.mark.usefixtures("_no_noise")
def test_gradients_are_those_of_a_loop_over_examples(engine: Any, data: Any, loss: Any) -> None:
    run = made(data, loss, engine=engine)
    assert run.engine.kind == engine
    batch = run.next_batch()
    with pytest.warns(UnprotectedWarning, match="not protected"):
        gradient, shown = run.gradient(batch, unprotected=True)
    expected, mean = expected_of(batch)
    np.testing.assert_allclose(flat(gradient), mean, atol=2e-6)
    np.testing.assert_allclose(shown.norms, expected.norms, rtol=1e-5)
    assert shown.loss == pytest.approx(expected.loss, rel=1e-5)
    assert shown.clipped == expected.clipped
    assert type(gradient) is dict
    assert np.abs(flat(gradient) - expected_of(batch[::-1] - 1)[1]).max() > 1e-3  # rows of other examples differ


@EACH_ENGINE
@pytest.mark.usefixtures("_no_noise")
def test_an_item_is_mapped_before_the_loss_and_the_key_is_last(engine: Any) -> None:
    def doubled(row: Any) -> Any:
        assert set(row) == set(DICTIONARY)
        assert row["image"].shape == (4,)
        return {**row, "image": 2 * row["image"]}

    run = made(DICTIONARY, of_dictionary, item=doubled, engine=engine)
    batch = run.next_batch()
    np.testing.assert_allclose(flat(run.gradient(batch)), expected_of(batch, 2.0)[1], atol=2e-6)

    def unpacked(row: Any) -> Any:
        image, _, _ = row
        return (2 * image, *row[1:])

    run = made(CASES[0][0], of_parts, item=unpacked, engine=engine)
    batch = run.next_batch()
    np.testing.assert_allclose(flat(run.gradient(batch)), expected_of(batch, 2.0)[1], atol=2e-6)

    run = made(DICTIONARY, dropped, item=lambda row: row, key=KEY, engine=engine)
    batch = run.next_batch()
    keys = [jax.random.fold_in(jax.random.fold_in(KEY, 0), number) for number in batch]
    found, mean = flat(run.gradient(batch)), expected_of(batch, keys=keys)[1]
    np.testing.assert_allclose(found, mean, atol=2e-6)
    assert np.abs(found - expected_of(batch, keys=keys[::-1])[1]).max() > 1e-3


@EACH_ENGINE
@pytest.mark.parametrize(("dtype", "sums"), [("float32", "exact"), ("bfloat16", "exact"), ("float32", "float32")])
def test_no_engine_exceeds_the_clipping_norm(
    engine: str, dtype: str, sums: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also gradients that are huge or not finite; the mutant clips to 1.01 times the norm."""
    rows = np.array([[1, 0], [1e-3, 1e-3], [3e4, -5], [1e19, 1], [np.inf, 1], [np.nan, 0], [0, 0]], np.float32)
    parameters = {"weight": jnp.zeros(2, dtype)}

    def linear(parameters: Any, x: Any) -> Any:
        return (parameters["weight"] * x.astype(dtype)).sum()

    def largest(mutant: bool) -> float:
        run = make_private(
            parameters,
            optax.sgd(0.1),
            (rows,),
            loss=linear,
            budget=Budget(rho=0.5, clip_norm=0.5),
            batch_size=1,
            epochs=1,
            mechanism=DPSGD(),
            sums=sums,  # type: ignore[arg-type]
            release="grid" if sums == "exact" else "float",
            engine=engine,  # type: ignore[arg-type]
        )
        found = []
        method = adapter.looped_sum if engine == "loop" else adapter.vmapped_sum
        for batch in run:
            total, _ = method(run, linear, parameters, (rows[batch],), None)
            unit = 1.0 if run.grid is None else run.grid.unit
            found.append(float(np.linalg.norm(np.asarray(total, float) * unit)))
            run.add_noise(np.zeros_like(total))
        return max(found)

    assert 0.5 * (MARGIN - 1e-3) <= largest(False) <= 0.5
    adapter.clipped_sum.cache_clear()
    adapter.clipped_addition.cache_clear()
    monkeypatch.setattr(adapter, "MARGIN", 1.01)
    assert largest(True) > 0.5
    adapter.clipped_sum.cache_clear()
    adapter.clipped_addition.cache_clear()


def test_the_loop_forms_a_gradient_once_and_computes_examples_alone() -> None:
    """Its program has one barrier and no products; integers of 64 bits leave the types of the loss as they are."""

    def loss(parameters: Any, x: Any) -> Any:
        assert jnp.zeros(1).dtype == jnp.float32
        return (parameters * x).sum()

    names: tuple[Integer, ...] = ("int32", "int64")
    for name in names:
        grid = Grid(-30 if name == "int64" else -20, name, 2**30)
        add = adapter.clipped_addition(loss, 1.0, grid)
        with jax.enable_x64(True):
            sums = [jnp.zeros(3, name)]
        text = add.lower(sums, jnp.zeros(3), np.ones(3, np.float32)).as_text()
        assert text.count("= stablehlo.optimization_barrier") == 1
        assert "dot_general" not in text
        found, value, norm = add(sums, jnp.zeros(3), np.array([0, 0.6, 0], np.float32))
        assert str(found[0].dtype) == name
        assert float(value) == 0.0
        assert float(norm) == pytest.approx(0.6)
        assert int(found[0][1]) == int(np.float32(0.6) / np.float32(grid.unit))


@EACH_ENGINE
def test_sampled_batches_of_any_size(engine: Any) -> None:
    """With empty ones; the loop compiles its program once."""
    run = made(
        DICTIONARY,
        of_dictionary,
        engine=engine,
        epochs=None,
        participation=Participation.poisson(12, 2 / 40),
        batch_size=2,
        budget=Budget(epsilon=2.0, delta=1e-5),
    )
    sizes = []
    for batch in run:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnprotectedWarning)
            shown = run.step(batch, unprotected=True)
        assert shown is not None
        assert shown.norms.shape == batch.shape
        sizes.append(batch.size)
    assert len(set(sizes)) > 1
    if engine == "loop":
        assert adapter.clipped_addition(run.loss, 1.0, run.grid)._cache_size() == 1


def test_the_automatic_engine() -> None:
    small, large = [np.zeros(5, np.float32)], [np.zeros(adapter.LOOP_SIZE, np.float32)]
    assert adapter.engine_for(small).kind == "vmap"
    assert adapter.engine_for(large).kind == "loop"
    assert adapter.engine_for(large, "auto", 4).kind == "vmap"
    assert adapter.engine_for(small, "loop").kind == "loop"
    assert adapter.engine_for([jnp.zeros(adapter.LOOP_SIZE)]).kind == "loop"


def test_default_steps_return_nothing_and_warn_of_nothing() -> None:
    run = made(DICTIONARY, of_dictionary)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.step(run.next_batch()) is None
        assert set(run.gradient(run.next_batch())) == set(PARAMETERS)
    with pytest.warns(UnprotectedWarning):
        assert isinstance(run.step(run.next_batch(), unprotected=True), Unprotected)


# -- checkpoints -------------------------------------------------------------------------------------------------------


class Counter:
    def __init__(self) -> None:
        self.steps = 0

    def save(self) -> dict[str, np.ndarray]:
        return {"steps": np.array(self.steps)}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        self.steps = int(arrays["steps"])


def test_what_is_carried_is_in_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "batches", partial(batches, rng=0))
    counter = Counter()
    with counted():
        run = made(DICTIONARY, of_dictionary, tmp_path, carry={"counter": counter})
        for batch in run:
            run.step(batch)
            counter.steps += 1
            if counter.steps == 3:
                break
        run.close()
    again = Counter()
    made(DICTIONARY, of_dictionary, tmp_path, carry={"counter": again}).close()
    assert again.steps == 3
    with pytest.raises(ValueError, match="carried"):
        made(DICTIONARY, of_dictionary, tmp_path)


def same(row: Any) -> Any:
    return row


def half(row: Any) -> Any:
    return {**row, "image": row["image"] / 2}


def test_a_restart_compares_item_and_names_of_parts(tmp_path: Path) -> None:
    made(DICTIONARY, of_dictionary, tmp_path, item=half).close()
    made(DICTIONARY, of_dictionary, tmp_path, item=half).close()
    for other, name in ((same, r"'.*\.same'"), (None, "None")):
        with pytest.raises(ValueError, match=rf"item was '.*\.half', is {name}"):
            made(DICTIONARY, of_dictionary, tmp_path, item=other)
    renamed = {"image": IMAGES, "mode": MASKS, "digit": DIGITS}
    with pytest.raises(ValueError, match=r"data parts was .*data\['mask'\].*, is .*data\['mode'\]"):
        made(renamed, lambda p, row: of_parts(p, row["image"], row["mode"], row["digit"]), tmp_path, item=half)


# -- what is refused ---------------------------------------------------------------------------------------------------


class Loader:
    """A stranger, such as a DataLoader."""

    def __len__(self) -> int:
        return 40


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({**DICTIONARY, "mask": MASKS[:39]}, r"got 40 in data\['digit'\] and 39 in data\['mask'\]"),
        ({**DICTIONARY, "digit": DIGITS.tolist()}, r"data\['digit'\] must be an array .* got list: stack items"),
        ([(IMAGES[0], DIGITS[0])], "data must be an array .* got list: stack items"),
        (Loader(), "data must be an array .* got Loader: .* DataLoader into arrays first"),
        ({"x": (IMAGES, Loader())}, r"data\['x'\]\[1\] must be an array .* got Loader"),
        (IMAGES, r"data must be a tuple or a dictionary of arrays, got one array: pass \(float32 \(40, 4\),\)"),
        ((), "data must have at least one array"),
        ({}, "data must have at least one array"),
        ((IMAGES, np.float32(1)), r"data\[1\] must be an array"),
        ((IMAGES, np.array(1)), r"data\[1\] must have the examples along axis 0, got a single number"),
        ((IMAGES, np.array(["a"] * 40)), r"data\[1\] must be an array of numbers, got <U1: encode"),
    ],
)
def test_data_that_are_no_tree_of_arrays_are_refused(data: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        made(data, of_dictionary)


def test_datasets_of_torch_are_refused() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.as_tensor(IMAGES), torch.as_tensor(DIGITS))
    for given in (data, torch.utils.data.DataLoader(data), (torch.as_tensor(IMAGES), torch.as_tensor(DIGITS))):
        with pytest.raises(TypeError, match=r"data.* must be an array of NumPy or JAX"):
            made(given, of_parts)


class Odd(Counter):
    def save(self) -> Any:
        return {"steps": "three"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clipping": "ghost"}, "clipping must be 'auto' or 'example' in JAX, got 'ghost': a compiled loss"),
        ({"clipping": "flat"}, "clipping must be one of 'auto', 'example', got 'flat'"),
        ({"engine": "hooks"}, "engine must be one of 'auto', 'vmap', 'loop', got 'hooks'"),
        ({"engine": "loop", "chunk_size": 4}, "chunk_size must be None with engine='loop'"),
        ({"chunk_size": 0}, "chunk_size must be an integer >= 1"),
        ({"item": 3}, "item must be a function, got 3"),
        ({"carry": {"optimizer": Counter()}}, "carry must have names without '/' other than"),
        ({"carry": {"a/b": Counter()}}, "carry must have names without '/' other than"),
        ({"carry": {"schedule": 3}}, r"carry must be objects with save\(\), .* got int for 'schedule'"),
        ({"carry": {"schedule": Odd()}}, r"carry\['schedule'\].save\(\) must return arrays of numbers"),
        ({"carry": {"schedule": Counter()}}, "folder must be given where there is something to carry"),
        ({"example": {"image": IMAGES[0]}}, "example must be one row of the data"),
        ({"example": DICTIONARY}, "example must be one row of the data"),
        ({"epochs": None}, "epochs .a number. or participation must be given"),
    ],
)
def test_arguments_without_sense_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Before there is a folder."""
    place = None if "folder must" in message else tmp_path
    with pytest.raises((ValueError, TypeError), match=message):
        made(DICTIONARY, of_dictionary, place, **options)
    assert not (tmp_path / "run").exists()


def test_a_public_example_takes_the_place_of_random_rows() -> None:
    """Where the loss has no gradient at random rows, such as the logarithm of a negative number in a host check."""

    def host(x: Any) -> Any:
        if (np.asarray(x) < 0).any():
            raise ValueError("negative")
        return np.asarray(x)

    def positive(parameters: Any, row: Any) -> Any:
        shape = jax.ShapeDtypeStruct(row["image"].shape, row["image"].dtype)
        checked = jax.pure_callback(host, shape, row["image"], vmap_method="sequential")
        return of_dictionary(parameters, {**row, "image": jnp.log(1 + checked)})

    with pytest.raises(ValueError, match=r"(?s)made-up example .*pass a public row as example="):
        made({**DICTIONARY, "image": np.abs(IMAGES)}, positive)
    row = {"image": np.ones(4, np.float32), "mask": MASKS[0], "digit": DIGITS[0]}
    run = made({**DICTIONARY, "image": np.abs(IMAGES)}, positive, example=row)
    run.step(run.next_batch())


def test_rules_that_mix_rows_still_mix_copies_of_a_public_example_and_not_the_loop() -> None:
    @jax.custom_batching.custom_vmap
    def centred(x: Any) -> Any:
        return x

    @centred.def_vmap
    def _centred_rows(size: Any, batched: Any, x: Any) -> Any:
        return x - x.mean(0), batched[0]

    def mixing(parameters: Any, row: Any) -> Any:
        return of_dictionary(parameters, {**row, "image": centred(row["image"])})

    row = {"image": np.ones(4, np.float32), "mask": np.ones(4, bool), "digit": DIGITS[0]}
    for engine in ("auto", "vmap"):
        with pytest.raises(ValueError, match=r"loss must treat each example by itself: .*engine='loop' does without"):
            made(DICTIONARY, mixing, example=row, engine=engine)
    run = made(DICTIONARY, mixing, engine="loop")
    batch = run.next_batch()
    with pytest.warns(UnprotectedWarning):
        shown = run.step(batch, unprotected=True)
    assert shown is not None
    np.testing.assert_allclose(shown.norms, expected_of(batch)[0].norms, rtol=1e-5)
