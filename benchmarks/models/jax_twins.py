"""AlexNet and the BERT-like encoder in JAX, and a training step: functions of the parameters, which
have the names that they have in `models`. For the full sizes alone.

Images are (N, height, width, channels) here, as XLA likes them on CPUs. The step is one compiled
function, which gets the old parameters to write the new ones to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from safetensors.flax import load_file

import fl_tensor as ft
from models.training import LR, MOMENTUM

State = Mapping[str, jax.Array]


class Dropout:
    """Drops elements out, of each call others; without a key none."""

    def __init__(self, key: jax.Array | None) -> None:
        self._key = key

    def __call__(self, x: jax.Array, p: float) -> jax.Array:
        if self._key is None:
            return x
        self._key, mine = jax.random.split(self._key)
        return jnp.where(jax.random.bernoulli(mine, 1 - p, x.shape), x / (1 - p), 0.0)


def linear(state: State, name: str, x: jax.Array) -> jax.Array:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def cross_entropy(scores: jax.Array, targets: jax.Array) -> jax.Array:
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), targets[..., None], -1)
    return -picked.mean()


def alexnet(state: State, batch: tuple[jax.Array, ...], drop: Dropout) -> jax.Array:
    images, labels = batch
    x = images.transpose(0, 2, 3, 1)
    for layer, stride, padding in ((0, 4, 2), (3, 1, 2), (6, 1, 1), (8, 1, 1), (10, 1, 1)):
        kernel = state[f"features.{layer}.weight"]
        x = jax.lax.conv_general_dilated(
            x,
            kernel,
            (stride,) * 2,
            [(padding,) * 2] * 2,
            dimension_numbers=("NHWC", "OIHW", "NHWC"),
        )
        x = jax.nn.relu(x + state[f"features.{layer}.bias"])
        if layer in (0, 3, 10):
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
    if x.shape[1:3] != (6, 6):
        raise ValueError(f"what is left of the images is {x.shape[1:3]}: the twin averages nothing")
    x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    for layer in (1, 4):
        x = jax.nn.relu(linear(state, f"classifier.{layer}", drop(x, 0.5)))
    return cross_entropy(linear(state, "classifier.6", x), labels)


def layer_norm(state: State, name: str, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * state[f"{name}.weight"] + state[f"{name}.bias"]


def attention(state: State, name: str, x: jax.Array, heads: int, drop: Dropout) -> jax.Array:
    n, steps, size = x.shape
    qkv = x @ state[f"{name}.in_proj_weight"].T + state[f"{name}.in_proj_bias"]
    q, k, v = qkv.reshape(n, steps, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (size // heads) ** -0.5)
    mixed = drop(scores, 0.1) @ v
    return linear(state, f"{name}.out_proj", mixed.swapaxes(1, 2).reshape(n, steps, size))


def bert(state: State, batch: tuple[jax.Array, ...], drop: Dropout) -> jax.Array:
    tokens, targets = batch
    table = state["embedding.weight"]
    x = drop(layer_norm(state, "norm", table[tokens] + state["positions.weight"]), 0.1)
    layers = sum(name.endswith("in_proj_bias") for name in state)
    for layer in (f"layers.{i}" for i in range(layers)):
        mixed = attention(state, f"{layer}.self_attn", x, HEADS, drop)
        x = layer_norm(state, f"{layer}.norm1", x + drop(mixed, 0.1))
        h = jax.nn.gelu(linear(state, f"{layer}.linear1", x), approximate=False)
        x = layer_norm(
            state, f"{layer}.norm2", x + drop(linear(state, f"{layer}.linear2", drop(h, 0.1)), 0.1)
        )
    return cross_entropy(x @ table.T + state["bias"], targets)


#: What no shape of a parameter tells.
HEADS = 12
#: Model -> its loss. The other models have no twin here.
LOSSES: dict[str, Callable[[State, tuple[jax.Array, ...], Dropout], jax.Array]] = {
    "alexnet": alexnet,
    "bert": bert,
}


class Training:
    """As `models.training.Training`."""

    def __init__(self, name: str, weights: Path, batch: tuple[ft.Tensor, ...]) -> None:
        self.state: Any = load_file(weights)
        self.velocity: Any = jax.tree.map(jnp.zeros_like, self.state)
        self.batch = tuple(jnp.asarray(x.numpy()) for x in batch)
        self.key = jax.random.key(0)
        loss_of = LOSSES[name]

        def update(state: Any, velocity: Any, batch: Any, key: jax.Array) -> Any:
            key, mine = jax.random.split(key)
            loss, slopes = jax.value_and_grad(lambda s: loss_of(s, batch, Dropout(mine)))(state)
            velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, slopes)
            return loss, jax.tree.map(lambda p, v: p - LR * v, state, velocity), velocity, key

        self._update = jax.jit(update, donate_argnums=(0, 1))
        self._loss = jax.jit(lambda state, batch: loss_of(state, batch, Dropout(None)))

    def loss(self) -> float:
        return float(self._loss(self.state, self.batch))

    def step(self) -> float:
        loss, self.state, self.velocity, self.key = self._update(
            self.state, self.velocity, self.batch, self.key
        )
        return float(jax.block_until_ready((loss, self.state))[0])
