"""The graph of a composition, found without data: what its calls are for operands of some types."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fl_jit.kernels.codegen import instructions
from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_tensor import CPU, rules
from fl_tensor.backends.null import NullAdapter
from fl_tensor.dispatch import registry
from fl_tensor.dispatch.stack import ops_for
from fl_tensor.dtypes import DType
from fl_tensor.errors import NoDataError
from fl_tensor.graph import Graph
from fl_tensor.graph.strides import VIEWS
from fl_tensor.wrappers.trace import trace

#: Recorded as themselves: a kernel library has them, and not what they are composed of.
CONVOLUTION_GRADIENTS = frozenset(("conv_data_gradient", "conv_weight_gradient"))
#: What may be in a composition that is put off: results do not depend on when it runs, and no error
#: on data.
_WHOLE = (
    frozenset(instructions.ELEMENTWISE)
    | VIEWS
    | REDUCTIONS
    | frozenset("where cast full concatenate pad matmul conv max_pool avg_pool".split())
    | CONVOLUTION_GRADIENTS
)


class Type(NamedTuple):
    """What is known of an array before it is computed."""

    shape: tuple[int, ...]
    dtype: DType


def graph_of(
    compute: Callable[[Any, Sequence[Any]], Sequence[Any]], types: Sequence[Type]
) -> Graph | None:
    """The graph of ``compute(ops, operands)``, whose outputs are the adapters that it returned in
    order. None where it looks at data, or calls what cannot be put off. Raises what ``compute``
    raises for such operands."""
    # In a context of its own: what is active here is no part of the composition.
    return contextvars.Context().run(_graph_of, compute, types)


def _graph_of(
    compute: Callable[[Any, Sequence[Any]], Sequence[Any]], types: Sequence[Type]
) -> Graph | None:
    operands = [NullAdapter(rules.Spec(t.shape, t.dtype, CPU)) for t in types]
    with trace(whole=CONVOLUTION_GRADIENTS) as graph:
        graph.inputs += [graph.add(x) for x in operands]
        try:
            results = compute(ops_for(registry.null_backend()), operands)
        except NoDataError:
            return None
        graph.outputs += [graph.find(x) or graph.add(x) for x in results]
    small = graph.prune()
    whole = all(
        node.op in _WHOLE and not (node.op == "power" and node.outputs[0].dtype.is_integer)
        for node in small.nodes
    )
    return small if whole and not small.constants else None
