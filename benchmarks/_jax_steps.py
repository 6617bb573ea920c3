"""The five models of `static_steps.py` and their training step in plain JAX.

Parameters have the names of ours. Layouts are those that users of JAX have: weights (inputs,
outputs), kernels (height, width, inputs, outputs), images (N, height, width, channels). Loss,
gradients and update are one compiled function, which may reuse the memory of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Parameters = dict[str, jax.Array]
HEADS = 4
LSTM_SIZE = 64
ENCODER_LAYERS = 2


def shapes_of(case: str) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter by its name."""
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, inputs: int, outputs: int) -> None:
        shapes[f"{name}.weight"] = inputs, outputs
        shapes[f"{name}.bias"] = (outputs,)

    if case in ("tiny", "mlp"):
        sizes = (16, 16, 16, 16) if case == "tiny" else (784, 256, 256, 10)
        for layer, (inputs, outputs) in enumerate(zip(sizes, sizes[1:], strict=False)):
            linear(f"{2 * layer}", inputs, outputs)
    elif case == "cnn":
        shapes |= {"0.weight": (5, 5, 1, 32), "0.bias": (32,)}
        shapes |= {"3.weight": (5, 5, 32, 64), "3.bias": (64,)}
        linear("7", 64 * 7 * 7, 128)
        linear("9", 128, 10)
    elif case == "lstm":
        shapes["body.weight_ih_l0"] = 32, 4 * LSTM_SIZE
        shapes["body.weight_hh_l0"] = LSTM_SIZE, 4 * LSTM_SIZE
        shapes |= dict.fromkeys(("body.bias_ih_l0", "body.bias_hh_l0"), (4 * LSTM_SIZE,))
        linear("head", LSTM_SIZE, 10)
    else:
        for layer in range(ENCODER_LAYERS):
            shapes[f"body.{layer}.self_attn.in_proj_weight"] = 64, 3 * 64
            shapes[f"body.{layer}.self_attn.in_proj_bias"] = (3 * 64,)
            linear(f"body.{layer}.self_attn.out_proj", 64, 64)
            linear(f"body.{layer}.linear1", 64, 256)
            linear(f"body.{layer}.linear2", 256, 64)
            for norm in ("norm1", "norm2"):
                shapes |= dict.fromkeys(
                    (f"body.{layer}.{norm}.weight", f"body.{layer}.{norm}.bias"), (64,)
                )
        linear("head", 64, 10)
    return shapes


def parameters_of(case: str, key: jax.Array) -> Parameters:
    """Scales of norms are 1, other vectors 0, weights uniform within 1 / sqrt(inputs)."""
    parameters: Parameters = {}
    for name, shape in shapes_of(case).items():
        if len(shape) == 1:
            is_scale = name.endswith((".norm1.weight", ".norm2.weight"))
            parameters[name] = jnp.ones(shape) if is_scale else jnp.zeros(shape)
            continue
        key, mine = jax.random.split(key)
        inputs = shape[-2] * (25 if len(shape) == 4 else 1)
        parameters[name] = jax.random.uniform(mine, shape, minval=-1, maxval=1) * inputs**-0.5
    return parameters


def linear(parameters: Parameters, name: str, x: jax.Array) -> jax.Array:
    return x @ parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def perceptron(parameters: Parameters, x: jax.Array) -> jax.Array:
    x = jax.nn.relu(linear(parameters, "0", x))
    x = jax.nn.relu(linear(parameters, "2", x))
    return linear(parameters, "4", x)


def convolutional(parameters: Parameters, images: jax.Array) -> jax.Array:
    x = images.transpose(0, 2, 3, 1)
    for name in ("0", "3"):
        kernel = parameters[f"{name}.weight"]
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + parameters[f"{name}.bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(linear(parameters, "7", x.reshape(len(x), -1)))
    return linear(parameters, "9", x)


def recurrent(parameters: Parameters, x: jax.Array) -> jax.Array:
    """An LSTM, whose inputs are multiplied for all steps at once, and a layer on its last state."""
    from_inputs = x @ parameters["body.weight_ih_l0"] + parameters["body.bias_ih_l0"]

    def cell(
        state: tuple[jax.Array, jax.Array], of_step: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        hidden, memory = state
        from_state = hidden @ parameters["body.weight_hh_l0"] + parameters["body.bias_hh_l0"]
        entry, forget, candidate, output = jnp.split(of_step + from_state, 4, axis=-1)
        memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(entry) * jnp.tanh(candidate)
        return (jax.nn.sigmoid(output) * jnp.tanh(memory), memory), None

    zeros = jnp.zeros((len(x), LSTM_SIZE))
    (hidden, _), _ = jax.lax.scan(cell, (zeros, zeros), from_inputs.swapaxes(0, 1))
    return linear(parameters, "head", hidden)


def layer_norm(parameters: Parameters, name: str, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def attention(parameters: Parameters, name: str, x: jax.Array) -> jax.Array:
    batch, steps, size = x.shape
    projected = x @ parameters[f"{name}.in_proj_weight"] + parameters[f"{name}.in_proj_bias"]
    queries, keys, values = projected.reshape(batch, steps, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
    shares = jax.nn.softmax(queries @ keys.swapaxes(-1, -2) * (size // HEADS) ** -0.5)
    mixed = (shares @ values).swapaxes(1, 2).reshape(batch, steps, size)
    return linear(parameters, f"{name}.out_proj", mixed)


def transformer(parameters: Parameters, x: jax.Array) -> jax.Array:
    for layer in (f"body.{i}" for i in range(ENCODER_LAYERS)):
        mixed = attention(parameters, f"{layer}.self_attn", x)
        x = layer_norm(parameters, f"{layer}.norm1", x + mixed)
        hidden = jax.nn.relu(linear(parameters, f"{layer}.linear1", x))
        hidden = linear(parameters, f"{layer}.linear2", hidden)
        x = layer_norm(parameters, f"{layer}.norm2", x + hidden)
    return linear(parameters, "head", x[:, -1])


MODELS: dict[str, Callable[[Parameters, jax.Array], jax.Array]] = {
    "tiny": perceptron,
    "mlp": perceptron,
    "cnn": convolutional,
    "lstm": recurrent,
    "transformer": transformer,
}


def cross_entropy(scores: jax.Array, classes: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), classes[:, None], axis=1).mean()


def compiled_step(case: str, rate: float, momentum: float) -> Callable[..., Any]:
    """``step(parameters, velocity, x, y)``: the loss, and what the first two are after it."""

    def step(
        parameters: Parameters, velocity: Parameters, x: jax.Array, y: jax.Array
    ) -> tuple[jax.Array, Parameters, Parameters]:
        def loss_of(parameters: Parameters) -> jax.Array:
            return cross_entropy(MODELS[case](parameters, x), y)

        loss, gradients = jax.value_and_grad(loss_of)(parameters)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradients)
        return loss, jax.tree.map(lambda p, v: p - rate * v, parameters, velocity), velocity

    return jax.jit(step, donate_argnums=(0, 1))


def jax_step(
    case: str, shape: Sequence[int], classes: int, rate: float, momentum: float
) -> Callable[[], object]:
    """A call is one step on one batch of random numbers, and returns when it is done."""
    for_model, for_inputs, for_classes = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(for_inputs, shape)
    y = jax.random.randint(for_classes, shape[:1], 0, classes)
    parameters = parameters_of(case, for_model)
    velocity = jax.tree.map(jnp.zeros_like, parameters)
    step = compiled_step(case, rate, momentum)

    def run() -> None:
        nonlocal parameters, velocity
        loss, parameters, velocity = step(parameters, velocity, x, y)
        loss.block_until_ready()

    return run
