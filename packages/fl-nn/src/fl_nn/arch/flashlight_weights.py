"""Weights of Flashlight and wav2letter for networks of architecture files.

Their models are archives of cereal, which only their own library reads. A small program of
docs/flashlight-weights.md writes `module->params()` into a safetensors file: the tensors "0", "1",
... in order. Flashlight keeps columns together, so the axes of each tensor are reversed there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import fl_tensor as ft
from fl_nn.errors import CheckpointError, ModuleError
from fl_nn.files.shards import open_tensors
from fl_nn.layers.activations import PReLU
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.conv import Conv1D, Conv2D
from fl_nn.layers.embedding import Embedding
from fl_nn.layers.linear import Linear
from fl_nn.layers.norm import LayerNorm, ScalarLayerNorm
from fl_nn.layers.original import OriginalConformer, OriginalTransformer
from fl_nn.layers.tds import TDSBlock
from fl_nn.layers.weight_norm import WeightNorm
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_tensor.annotations import checked

#: Parameters that some of their tensors fill, how many those are, and how.
Slot: TypeAlias = tuple[Parameter, int, Callable[..., Any]]


@checked
def load_flashlight_weights(path: str | os.PathLike[str], model: Module) -> None:
    """Fill `model`, a network of an architecture file, with the weights of Flashlight's.

    path   safetensors file with the tensors "0", "1", ..., axes reversed
    model  `build_sequential(..., as_flashlight=True)`, or a module around one

    Every tensor of the file is used, and every parameter filled. Raises `CheckpointError` where
    numbers or shapes of tensors do not fit, before anything is changed, and `ModuleError` for
    layers whose weights cannot be taken over: recurrent layers and AdaptiveEmbedding, which keep
    theirs another way, and BatchNorm, whose statistics are no parameters.
    """
    slots = [(name, slot) for name, layer in _layers(model, "") for slot in _slots(name, layer)]
    filled = {id(slot[0]) for _, slot in slots}
    for name, parameter in model.named_parameters():
        if id(parameter) not in filled:
            raise ModuleError(f"[load_flashlight_weights] no weights of Flashlight fill {name}")
    needed = sum(count for _, (_, count, _) in slots)
    with open_tensors(path) as file:
        if set(file.tensors) != {str(number) for number in range(needed)}:
            raise CheckpointError(
                f"{os.fspath(path)}: {len(file.tensors)} tensors, and the network has {needed} of "
                f'Flashlight\'s, "0" to "{needed - 1}": build it from the same architecture file '
                "with as_flashlight=True"
            )
        found, place = [], 0
        for name, (parameter, count, convert) in slots:
            theirs = [file.tensors[str(place + i)].load() for i in range(count)]
            place += count
            shapes = ", ".join(str(tensor.shape) for tensor in theirs)
            try:
                value = convert(*theirs)
            except ft.FlError as error:
                raise _misfit(path, place - count, shapes, name, parameter) from error
            if value.shape != parameter.shape:
                raise _misfit(path, place - count, shapes, name, parameter)
            found.append((parameter, value))
    for parameter, value in found:
        parameter.tensor = value.astype(parameter.dtype)


def _misfit(
    path: str | os.PathLike[str], number: int, shapes: str, name: str, parameter: Parameter
) -> CheckpointError:
    return CheckpointError(
        f'{os.fspath(path)}: tensor "{number}" has shape {shapes}, which is no parameter '
        f"{parameter.shape} of {name}: build the network from the same architecture file"
    )


def _layers(module: Module, name: str) -> Iterator[tuple[str, Module]]:
    """Layers whose weights are known, in the order of the network."""
    if type(module) in _KNOWN:
        yield name, module
        return
    for child, one in module.named_children():
        yield from _layers(one, f"{name}.{child}".lstrip("."))


def _slots(name: str, layer: Module) -> list[Slot]:
    return _KNOWN[type(layer)](layer)


# ---- how tensors become parameters -------------------------------------------------------------


def _turned(x: ft.Tensor) -> Any:
    """A matrix (out, in) of theirs, which is (in, out) in the file."""
    return ft.swapaxes(_matrix(x), 0, 1)


def _matrix(x: ft.Tensor) -> Any:
    """Without the axes of length 1 in front, of which Flashlight's arrays may have two."""
    while x.ndim > 2 and x.shape[0] == 1:
        x = x[0]
    return x


def _of_size(parameter: Parameter) -> Callable[[ft.Tensor], Any]:
    return lambda x: x.reshape(parameter.shape)


def _plain(*parameters: Parameter | None) -> list[Slot]:
    """Parameters whose numbers lie in the same order."""
    return [(one, 1, _of_size(one)) for one in parameters if one is not None]


def _linear(layer: Any) -> list[Slot]:
    return [(layer.weight, 1, _turned), *_plain(layer.bias)]


def _conv(layer: Any) -> list[Slot]:
    return _plain(layer.weight, layer.bias)


def _norm(layer: Any) -> list[Slot]:
    return _plain(layer.weight, layer.bias)


def _weight_norm(layer: Any) -> list[Slot]:
    linear = isinstance(layer.module, Linear)
    directions = [(layer.weight_v, 1, _turned)] if linear else _plain(layer.weight_v)
    return [*directions, *_plain(layer.weight_g, layer.module.bias)]


def _attention(layer: MultiHeadAttention) -> list[Slot]:
    """wq, wk, wv and wf."""
    joined: Slot = (
        layer.in_proj_weight, 3, lambda *parts: ft.concatenate([_turned(x) for x in parts], 0)
    )  # fmt: skip
    return [joined, (layer.out_proj.weight, 1, _turned)]


def _positions(layer: MultiHeadAttention) -> list[Slot]:
    return [] if layer.relative is None else [(layer.relative.weight, 1, _turned)]


def _transformer(layer: Any) -> list[Slot]:
    return [
        *_positions(layer.self_attn),
        *_linear(layer.linear1), *_linear(layer.linear2), *_attention(layer.self_attn),
        *_norm(layer.norm1), *_norm(layer.norm2),
    ]  # fmt: skip


def _conformer(layer: Any) -> list[Slot]:
    return [
        *_positions(layer.self_attn),
        *_linear(layer.linear11), *_linear(layer.linear12), *_norm(layer.norm1),
        *_linear(layer.linear21), *_linear(layer.linear22), *_norm(layer.norm2),
        *_attention(layer.self_attn), *_norm(layer.norm_attn),
        *_linear(layer.pointwise1), *_linear(layer.pointwise2), *_conv(layer.depthwise),
        *_norm(layer.norm_conv1), *_norm(layer.norm_conv2), *_norm(layer.norm3),
    ]  # fmt: skip


def _tds(layer: Any) -> list[Slot]:
    channels, width = layer.channels, layer.width

    def features(x: Any, axis: int) -> Any:
        """Theirs count channels first, ours widths first."""
        shape = (*x.shape[:axis], width, channels, *x.shape[axis + 1 :])
        return ft.swapaxes(x.reshape(shape), axis, axis + 1).reshape(x.shape)

    first, second = layer.linear1, layer.linear2
    return [
        *_conv(layer.conv), *_norm(layer.norm1),
        (first.weight, 1, lambda x: features(_turned(x), 1)), *_plain(first.bias),
        (second.weight, 1, lambda x: features(_turned(x), 0)),
        (second.bias, 1, lambda x: features(x.reshape(second.bias.shape), 0)),
        *_norm(layer.norm2),
    ]  # fmt: skip


_KNOWN: dict[type, Callable[[Any], list[Slot]]] = {
    Linear: _linear, Conv1D: _conv, Conv2D: _conv, LayerNorm: _norm, ScalarLayerNorm: _norm,
    WeightNorm: _weight_norm, Embedding: lambda layer: _plain(layer.weight),
    PReLU: lambda layer: _plain(layer.weight), OriginalTransformer: _transformer,
    OriginalConformer: _conformer, TDSBlock: _tds,
}  # fmt: skip
