"""The graph of a composition for given operand types, traced without data."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fl_jit.kernels.codegen import instructions
from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_tensor import CPU, get_backend, ops_for, trace
from fl_tensor.dtypes import DType
from fl_tensor.errors import NoDataError
from fl_tensor.graph import Graph
from fl_tensor.graph.strides import VIEWS

#: Recorded as single operations: a kernel library has them, but not their composition.
CONVOLUTION_GRADIENTS = frozenset(("conv_data_gradient", "conv_weight_gradient"))
#: Operations that a deferred composition may contain. Their results do not depend on when they run,
#: and their errors do not depend on data.
_DEFERRABLE = (
    frozenset(instructions.ELEMENTWISE)
    | VIEWS
    | REDUCTIONS
    | frozenset("where cast full concatenate pad matmul conv max_pool avg_pool".split())
    | CONVOLUTION_GRADIENTS
)


class Type(NamedTuple):
    """The shape and dtype of an array, known before it is computed."""

    shape: tuple[int, ...]
    dtype: DType


def graph_of(
    compute: Callable[[Any, Sequence[Any]], Sequence[Any]],
    types: Sequence[Type],
    every: bool = False,
) -> Graph | None:
    """The graph of ``compute(ops, operands)``. Its outputs are the returned adapters in order. None
    where ``compute`` reads data, or calls operations that cannot be deferred, unless ``every``
    operation is wanted. Raises the exceptions of ``compute`` for such operands."""
    # In a context of its own: active wrappers are not part of the composition.
    return contextvars.Context().run(_graph_of, compute, types, every)


def _graph_of(
    compute: Callable[[Any, Sequence[Any]], Sequence[Any]], types: Sequence[Type], every: bool
) -> Graph | None:
    null = get_backend("null")
    operands = [null.full(t.shape, 0, t.dtype, CPU) for t in types]
    with trace(whole=True if every else CONVOLUTION_GRADIENTS) as graph:
        graph.inputs += [graph.add(x) for x in operands]
        try:
            results = compute(ops_for(null), operands)
        except NoDataError:
            return None
        graph.outputs += [graph.find(x) or graph.add(x) for x in results]
    pruned = graph.prune()
    is_deferrable = every or all(
        node.op in _DEFERRABLE and not (node.op == "power" and node.outputs[0].dtype.is_integer)
        for node in pruned.nodes
    )
    return pruned if is_deferrable and not pruned.constants else None
