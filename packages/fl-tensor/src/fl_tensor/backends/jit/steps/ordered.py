"""Operations whose result lies in another order of axes than C order (``graph.axis_order``): which
ones should, and how they run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fl_tensor.backends.numpy import memory, provided, provided_conv, provided_pool
from fl_tensor.backends.providers import choose
from fl_tensor.codegen import instructions
from fl_tensor.graph.axis_order import Order, channels_last
from fl_tensor.graph.ir import Node


def wish(node: Node) -> Order | None:
    """Convolutions of a provider give images with channels last, and gradients of weights such that
    they lie in C order once their first two axes have been exchanged, as they will be."""
    if node.op != "conv":
        return None
    x, w = node.operands
    (out,) = node.outputs
    work = math.prod(out.shape) * math.prod(w.shape[1:])
    if choose.current() is None or not provided.is_worth(work, out.dtype):
        return None
    if not any(d > 1 for d in node.parameters["input_dilation"]):
        if provided_conv.is_weights(out.shape, w.shape):
            return (1, 0, *range(2, len(out.shape)))
    return channels_last(len(out.shape))


def elementwise(op: str) -> bool:
    """Whether the operands of ``op`` broadcast, and nothing else happens."""
    return op in instructions.ELEMENTWISE or op in ("where", "cast")


def run(eager: Any, node: Node, operands: list[Any]) -> Any:
    """The result of a node with a parameter ``order``: an array in C order, with its axes in that
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
    return provided_conv.convolve(x, w, **given, out_shape=shape, order=order)


def _max_pool(x: Any, given: dict[str, Any], shape: Order, order: Order) -> Any:
    return provided_pool.max_pool(x, shape, **given, order=order)


def _avg_pool(x: Any, given: dict[str, Any], shape: Order, order: Order) -> Any:
    return provided_pool.avg_pool(x, shape, **given, order=order)


def _max_pool_gradient(
    gradient: Any, x: Any, given: dict[str, Any], shape: Order, order: Order
) -> Any:
    return provided_pool.max_pool_gradient(gradient, x, **given, order=order)


def _avg_pool_gradient(gradient: Any, given: dict[str, Any], shape: Order, order: Order) -> Any:
    return provided_pool.avg_pool_gradient(gradient, **given, order=order)


_PROVIDED: dict[str, Callable[..., Any]] = {
    "conv": _conv,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "max_pool_gradient": _max_pool_gradient,
    "avg_pool_gradient": _avg_pool_gradient,
}
