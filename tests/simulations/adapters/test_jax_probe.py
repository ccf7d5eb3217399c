"""What mixes or remembers examples in a loss of JAX is refused before the first step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.adapters import jax_probe
from corrnoise.simulations.adapters.jax_probe import check_loss

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
jnp = jax.numpy

PARAMETERS = {"weight": np.linspace(-1, 1, 18, dtype=np.float32).reshape(6, 3)}
DATA = np.ones((8, 6), np.float32), np.arange(8) % 3


def scores(parameters: Any, x: Any) -> Any:
    return jnp.tanh(x @ parameters["weight"])


def loss(parameters: Any, x: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(scores(parameters, x), y)


@jax.custom_batching.custom_vmap
def centred(x: Any) -> Any:
    return x


@centred.def_vmap
def _centred_rows(size: Any, batched: Any, x: Any) -> Any:
    return x - x.mean(0), batched[0]


def centred_loss(parameters: Any, x: Any, y: Any) -> Any:
    return loss(parameters, centred(x), y)


def through_a_callback(method: str) -> Any:
    def host(x: Any) -> Any:
        return np.asarray(x - np.mean(x, axis=0, keepdims=x.ndim > 1) * (x.ndim > 1))

    def of_example(parameters: Any, x: Any, y: Any) -> Any:
        return loss(
            parameters, jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=method), y
        )

    return of_example


def mixing_large_rows(of_others: bool) -> Any:
    """A loss whose rule for rows subtracts a mean for numbers above 10 only, from the other rows or from the large."""

    @jax.custom_batching.custom_vmap
    def shifted(x: Any) -> Any:
        return x

    @shifted.def_vmap
    def _(size: Any, batched: Any, x: Any) -> Any:
        large = jnp.abs(x).max(1, keepdims=True) > 10
        shift = jnp.where(large, x, 0.0).mean(0) if of_others else jnp.where(large, x.mean(0), 0.0)
        return x - shift, batched[0]

    return lambda parameters, x, y: loss(parameters, shifted(x) / 1000, y)


@pytest.mark.parametrize(
    "mixing", [centred_loss, through_a_callback("expand_dims"), mixing_large_rows(True), mixing_large_rows(False)]
)
def test_batching_rules_that_mix_rows_are_refused(mixing: Any) -> None:
    with pytest.raises(ValueError, match=r"loss must treat each example by itself: .*vmap_method='sequential'"):
        cn.jax.make_private(
            PARAMETERS, optax.sgd(0.1), DATA, loss=mixing, budget=cn.Budget(1.0), batch_size=4, epochs=1
        )


@pytest.mark.parametrize("of_others", [True, False])
def test_rules_that_mix_large_rows_need_large_rows(of_others: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_probe, "LARGE_FACTOR", 2)
    check_loss(mixing_large_rows(of_others), PARAMETERS, DATA)


def only_usual_rows(parameters: Any, x: Any, y: Any) -> Any:
    def host(x: Any) -> Any:
        if np.abs(x).max() > 10:
            raise ValueError("too large")
        return np.asarray(x)

    return loss(
        parameters, jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential"), y
    )


def sensitive(parameters: Any, x: Any, y: Any) -> Any:
    """A loss that rounding changes for large rows."""
    return loss(parameters, jnp.sin(jnp.exp(jnp.sin(1e3 * x)) * 1e3), y)


def test_losses_of_single_examples_are_accepted() -> None:
    check_loss(only_usual_rows, PARAMETERS, DATA)
    check_loss(lambda p, x, y: jnp.where(jnp.abs(x).max() > 10, sensitive(p, x, y), loss(p, x, y)), PARAMETERS, DATA)
    for right in (loss, through_a_callback("sequential"), lambda parameters, x, y: 1e6 * loss(parameters, x, y)):
        check_loss(right, PARAMETERS, DATA)
    check_loss(
        lambda p, x, y, key: loss(p, x * jax.random.bernoulli(key, 0.5, (6,)), y), PARAMETERS, DATA, jax.random.key(0)
    )
    half = {"weight": PARAMETERS["weight"].astype(jnp.bfloat16)}
    check_loss(loss, half, DATA)


def test_a_loss_that_remembers_is_refused() -> None:
    seen: list[float] = []

    def host(x: Any) -> Any:
        seen.append(float(np.sum(x)))
        return np.float32(len(seen))

    def remembering(parameters: Any, x: Any, y: Any) -> Any:
        count = jax.pure_callback(host, jax.ShapeDtypeStruct((), np.float32), x, vmap_method="sequential")
        return loss(parameters, x, y) * count

    with pytest.raises(ValueError, match="loss must not remember examples"):
        check_loss(remembering, PARAMETERS, DATA)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda parameters, x, y: scores(parameters, x), "scalar-output"),
        (lambda parameters, x: x.sum(), "positional argument"),
    ],
)
def test_what_is_no_loss_of_an_example_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"loss must return a number for the parameters and one example: .*{message}"):
        check_loss(wrong, PARAMETERS, DATA)
