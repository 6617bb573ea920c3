"""Preferred memory layouts of results (``passes.layout_assignment``), and execution in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fl_jit.eager import conv_dispatch, gemm_dispatch, pool_dispatch
from fl_jit.kernels import registry
from fl_jit.kernels.codegen import instructions
from fl_jit.passes.layout_assignment import Order, channels_last
from fl_tensor.extend import is_reproducible
from fl_tensor.extend.numpy import memory
from fl_tensor.graph import Node


def preferred_layout(node: Node) -> Order | None:
    """The preferred axis order of a result. Convolutions and dgrads have channels last where a
    kernel library computes them. Wgrads have the order in which weights are best packed."""
    if node.op not in ("conv", "conv_data_gradient", "conv_weight_gradient"):
        return None
    first, second = node.operands
    (out,) = node.outputs
    if node.op == "conv_weight_gradient":
        work = conv_dispatch.work(first.shape, out.shape)
    else:
        work = conv_dispatch.work(out.shape, second.shape)
    if registry.active_library() is None or not gemm_dispatch.is_worth(work, out.dtype):
        return None
    return _of_weights(node) if node.op == "conv_weight_gradient" else channels_last(len(out.shape))


def _of_weights(node: Node) -> Order | None:
    """The axis order of a wgrad: C order, (features, channels, *places), as weights have. Where
    weights have more elements than the images and gradients together, packing takes a noticeable
    part of the time. The order is then (*places, channels, features): a packed panel is then rows
    of that array, or their transpose. An optimizer's state has the same order, and so have the
    weights from the first step on. Layers with 512 channels of 7x7 pixels are 7 to 10 % faster.
    Under ``reproducible`` weights stay in C order, since a resumed run begins with weights of a
    file."""
    gradient, images = node.operands
    (out,) = node.outputs
    weights, met = math.prod(out.shape), math.prod(images.shape) + math.prod(gradient.shape)
    if weights > met and not is_reproducible():
        return (*range(2, len(out.shape)), 1, 0)
    return None


def elementwise(op: str) -> bool:
    """Whether ``op`` is elementwise, with broadcasting operands."""
    return op in instructions.ELEMENTWISE or op in ("where", "cast")


def run(eager: Any, node: Node, operands: list[Any]) -> Any:
    """The result of a node with a parameter ``order``: a C-order array, with its axes in that
    order."""
    given = dict(node.parameters)
    order = given.pop("order")
    (out,) = node.outputs
    shape = tuple(out.shape[order.index(axis)] for axis in range(len(order)))
    arrays = [x.array for x in operands]
    made = _PROVIDED[node.op](*arrays, given, shape, order)
    if made is None:
        made = getattr(eager, node.op)(*operands, *given.values()).array
    made = made.transpose(order)
    return made if made.flags.c_contiguous else memory.cast(made, made.dtype)


def _conv(x: Any, w: Any, given: dict[str, Any], shape: Order, order: Order) -> Any:
    return conv_dispatch.convolve(x, w, **given, out_shape=shape, order=order)


def _conv_data_gradient(
    gradient: Any, w: Any, given: dict[str, Any], shape: Order, order: Order
) -> Any:
    return conv_dispatch.data_gradient(gradient, w, **given, order=order)


def _conv_weight_gradient(
    gradient: Any, x: Any, given: dict[str, Any], shape: Order, order: Order
) -> Any:
    return conv_dispatch.weight_gradient(gradient, x, **given, order=order)


def _max_pool(x: Any, given: dict[str, Any], shape: Order, order: Order) -> Any:
    return pool_dispatch.pool(x, shape, pool_dispatch.maximum(**given), order)


def _avg_pool(x: Any, given: dict[str, Any], shape: Order, order: Order) -> Any:
    return pool_dispatch.pool(x, shape, pool_dispatch.mean(**given), order)


def _max_pool_gradient(
    gradient: Any, x: Any, given: dict[str, Any], shape: Order, order: Order
) -> Any:
    return pool_dispatch.maximum_gradient(gradient, x, pool_dispatch.maximum(**given), order)


def _avg_pool_gradient(gradient: Any, given: dict[str, Any], shape: Order, order: Order) -> Any:
    to, *rest = given.values()
    return pool_dispatch.mean_gradient(gradient, to, pool_dispatch.mean(*rest), order)


_PROVIDED: dict[str, Callable[..., Any]] = {
    "conv": _conv,
    "conv_data_gradient": _conv_data_gradient,
    "conv_weight_gradient": _conv_weight_gradient,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "max_pool_gradient": _max_pool_gradient,
    "avg_pool_gradient": _avg_pool_gradient,
}
