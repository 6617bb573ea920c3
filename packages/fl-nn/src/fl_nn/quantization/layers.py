"""Layers whose weights are 8-bit integers."""

from __future__ import annotations

from typing import Any

import fl_autograd as ag
import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.embedding import Embedding
from fl_nn.layers.linear import Linear
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.quantization.kernels import product_on_host
from fl_nn.values import check_classes, tensor_of
from fl_tensor.annotations import explained
from fl_tensor.assumptions import is_captured
from fl_tensor.kernels.compilers import compiler_name

#: Rows of x whose products are sums of integers times x; of more, a matrix product of floats is
#: faster.
FEW = 2


class Int8Linear(Module):
    """Linear for evaluation, with weights as integers in -127 .. 127 and a scale for each output:
    `x @ weight^T * scale + bias`. `quantize_weights` makes it of a Linear.

    Buffers weight (outputs, inputs) int8, as Linear has it, and scale (outputs,); parameter bias
    (outputs,), frozen. Gradients go to x, not to the weight.
    """

    weight: ft.Tensor
    scale: ft.Tensor

    def __init__(
        self,
        inputs: int,
        outputs: int,
        bias: bool = True,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        linear = Linear(inputs, outputs, bias, generator=generator, dtype=dtype)
        self.inputs, self.outputs = inputs, outputs
        self.bias = linear.bias
        self.freeze()
        keep_quantized(self, linear.weight)

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.inputs, self.outputs, self.bias is not None), {}

    def forward(self, x: ft.Array) -> ft.Array:
        return times_int8(x, self.weight, self.scale, self.bias)

    def extra_repr(self) -> str:
        return f"{self.inputs}, {self.outputs}" + ("" if self.bias is not None else ", bias=False")


class Int8Embedding(Module):
    """Embedding for evaluation, with rows as integers in -127 .. 127 and a scale for each row.
    `quantize_weights` makes it of an Embedding.

    Buffers weight (count, size) int8 and scale (count,).
    """

    weight: ft.Tensor
    scale: ft.Tensor

    def __init__(self, count: int, size: int, *, generator: ft.Generator | None = None) -> None:
        self.count, self.size = count, size
        keep_quantized(self, Embedding(count, size, generator=generator).weight)

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.count, self.size), {}

    def forward(self, indices: ft.Array) -> ft.Array:
        check_classes("[Int8Embedding] indices", indices, self.count, "give Embedding more rows")
        rows = ft.embedding(self.weight, indices).astype(self.scale.dtype)
        return rows * ft.embedding(ft.expand_dims(self.scale, 1), indices)

    def extra_repr(self) -> str:
        return f"{self.count}, {self.size}"


class Int8MultiHeadAttention(MultiHeadAttention):
    """MultiHeadAttention for evaluation, whose projections have weights of 8 bits.
    `quantize_weights` makes it of a MultiHeadAttention.

    Buffers in_proj_weight (rows, size) int8, as MultiHeadAttention has it, and in_proj_scale
    (rows,); out_proj is an Int8Linear.
    """

    in_proj_scale: ft.Tensor

    def _project(
        self, query: ft.Array, key: ft.Array, value: ft.Array, itself: bool
    ) -> tuple[ft.Array, ft.Array, ft.Array]:
        inner, shared = self.heads * self.head_size, self.kv_heads * self.head_size
        sizes = (inner, shared, shared)
        weight: Any = self.in_proj_weight
        if itself:
            together = times_int8(query, weight, self.in_proj_scale, self.in_proj_bias)
            q, k, v = ft.split(together, sizes, -1)
        else:
            scales = ft.split(self.in_proj_scale, sizes, 0)
            biases: list[Any] = [None] * 3
            if self.in_proj_bias is not None:
                biases = ft.split(self.in_proj_bias, sizes, 0)
            weights = ft.split(weight, sizes, 0)
            q, k, v = map(times_int8, (query, key, value), weights, scales, biases)
        return self._heads(q), self._heads(k), self._heads(v)

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        raise ModuleError(
            "[quantize_weights] a configuration does not hold attention of 8 bits: build the model "
            "without, and call quantize_weights again"
        )


@explained
def times_int8(
    x: ft.Array, weight: ft.Tensor, scale: ft.Tensor, bias: ft.Array | None = None
) -> ft.Array:
    """`x @ weight^T * scale + bias`: x (..., inputs), weight (outputs, inputs) int8.

    Few rows of float32 on the host go through a kernel that reads each weight as it is. In a graph
    a few rows are sums of products, which backends with fused operations compute so, too.
    Everything else, and whatever has a gradient, converts the weight to the dtype of x first.
    """
    if weight.ndim != 2 or weight.dtype is not ft.int8 or scale.shape != weight.shape[:1]:
        raise ft.ShapeError(
            f"[times_int8] weight {weight.shape} of {weight.dtype}, scale {scale.shape}: expected "
            "int8 (outputs, inputs) and (outputs,)"
        )
    outputs, inputs = weight.shape
    if x.ndim == 0 or x.shape[-1] != inputs:
        raise ft.ShapeError(f"[Int8Linear] x {x.shape}: expected (..., {inputs})")
    rows = x.size // inputs
    if 1 <= rows <= FEW and _kernel_applies(x, weight, scale):
        flat = tensor_of(x).reshape((rows, inputs))
        y: ft.Array = product_on_host(flat, weight, scale).reshape((*x.shape[:-1], outputs))
    elif 1 <= rows <= FEW and _is_captured_inference(x):
        sums = ft.sum(weight.astype(x.dtype) * x.reshape((rows, 1, inputs)), -1)
        y = (sums * scale.astype(x.dtype)).reshape((*x.shape[:-1], outputs))
    else:
        product = ft.matmul(x, ft.swapaxes(weight.astype(x.dtype), 0, 1))
        y = product * scale.astype(x.dtype)
    return y if bias is None else y + bias


def _kernel_applies(x: ft.Array, weight: ft.Tensor, scale: ft.Tensor) -> bool:
    return (
        not _is_recorded(x)
        and x.dtype is ft.float32
        and scale.dtype is ft.float32
        and x.device.kind == "cpu"
        and weight.device.kind == "cpu"
        and x.backend.has_values
        and weight.backend.has_values
        and not is_captured()
        and compiler_name() != "interpreter"
    )


def _is_captured_inference(x: ft.Array) -> bool:
    return x.dtype is ft.float32 and is_captured() and not _is_recorded(x)


def _is_recorded(x: ft.Array) -> bool:
    return isinstance(x, ag.Variable) and x.requires_grad and ag.is_grad_enabled()


def quantized(weight: ft.Tensor) -> tuple[ft.Tensor, ft.Tensor]:
    """Integers (outputs, inputs) and scales (outputs,): the largest of each output is 127."""
    largest = ft.max(ft.abs(weight), 1)
    scale = ft.where(largest > 0.0, largest / 127.0, 1.0).astype(weight.dtype)
    integers = ft.round(weight / ft.expand_dims(scale, 1))
    return ft.clip(integers, -127.0, 127.0).astype(ft.int8), scale


def keep_quantized(
    module: Module, parameter: Parameter, name: str = "weight", scale_name: str = "scale"
) -> None:
    """Make a weight of a module a buffer of integers with scales beside it."""
    integers, scale = quantized(parameter.tensor)
    if name in vars(module):
        delattr(module, name)
    module.register_buffer(name, integers)
    module.register_buffer(scale_name, scale)
