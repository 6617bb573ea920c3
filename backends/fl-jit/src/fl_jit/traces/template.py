"""Templates: the recorded calls of a composition, deferred together when it is repeated.

Recording a composition call by call runs the Python front end of every operation in it. The calls
depend only on the shapes and dtypes of its operands, and on its other arguments. So it is traced
once without data (``tracing.py``), and later its calls are copied into the trace. The calls, and so
the structure of the plan, are the same as without a template.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fl_jit.traces.cache_keys import exact
from fl_jit.traces.loop_detection import head_of
from fl_jit.traces.recording import Call
from fl_jit.traces.tracing import Type, graph_of
from fl_tensor.dtypes import DType
from fl_tensor.errors import FlError
from fl_tensor.extend import operation_attributes
from fl_tensor.extend.numpy import NumpyAdapter
from fl_tensor.graph import Graph, Value

#: Classes of arguments that are not adapters.
PLAIN = frozenset((bool, int, float, str, tuple, type(None), DType))
_tuple = tuple.__new__  # cheaper than a constructor
_INTEGERS, _FLAGS = frozenset((int,)), frozenset((bool,))
#: The capacity for templates, and for the positions of each.
MOST, MOST_NUMBERINGS = 256, 64


class Template:
    """The calls of a ``graph``, with the ``numbers`` that they need beside its inputs. The
    composition returned one result (``single``) or a tuple. ``present`` marks the elements of the
    tuple that are not None."""

    def __init__(
        self,
        graph: Graph,
        number: Callable[[Any, DType], Any],
        present: Sequence[bool] = (True,),
        single: bool = True,
    ) -> None:
        self.numbers: list[Any] = []
        self.calls: list[Call] = []
        self._present, self._single = present, single
        numbers: dict[Value, int] = {value: ~i for i, value in enumerate(graph.inputs)}
        for node in graph.nodes:
            (made,) = node.outputs
            operands = tuple([numbers[value] for value in node.operands])
            parameters: tuple[Any, ...] = ()
            if node.op == "full":
                operands = (~(len(graph.inputs) + len(self.numbers)),)
                self.numbers.append(number(node.parameters["value"], made.dtype))
                if not made.shape:
                    numbers[made] = operands[0]
                    continue
            else:
                names = operation_attributes(node.op)
                parameters = tuple([node.parameters[name] for name in names])
            numbers[made] = len(self.calls)
            self.calls.append(Call(node.op, operands, parameters, made.shape, made.dtype))
        #: Of each result: the number of a call, or ``~i`` for an operand, as in ``Call``.
        self.results = [numbers[value] for value in graph.outputs]
        #: The head of its first call, which is equal in all iterations of a loop.
        self.head = head_of(self.calls[0]) if self.calls else None
        self._numbered: dict[Any, tuple[Call, ...]] = {}

    def at(self, first: int, given: tuple[int, ...]) -> tuple[Call, ...]:
        """The calls with numbers from ``first`` on, and with ``given`` as the numbers of operands
        and constants."""
        key = first, given
        numbered = self._numbered.get(key)
        if numbered is None:
            numbered = tuple(
                [
                    call._replace(
                        operands=tuple([first + i if i >= 0 else given[~i] for i in call.operands])
                    )
                    for call in self.calls
                ]
            )
            if len(self._numbered) >= MOST_NUMBERINGS:
                self._numbered.clear()
            self._numbered[key] = numbered
        return numbered

    def returned(self, results: list[Any]) -> Any:
        """The return value of the composition, given its results in order."""
        if self._single:
            return results[0]
        remaining = iter(results)
        return tuple([next(remaining) if is_there else None for is_there in self._present])


class Templates:
    """The templates of a backend, whose numbers are made by ``number(value, dtype)``."""

    def __init__(self, number: Callable[[Any, DType], Any]) -> None:
        self._number = number
        self._cached = functools.lru_cache(maxsize=MOST)(self._trace)

    def of(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Template | None:
        """The template of the function for such arguments; None where it has to run."""
        key = []
        for x in arguments:
            kind = x.__class__
            if kind not in PLAIN:
                shape = x.array.shape if kind is NumpyAdapter else x.shape
                x = _tuple(Type, (shape, x.dtype))
            elif kind is bool or (kind is float and x.is_integer()):  # some integer equals it
                x = _tuple(_Plain, (kind, x if x else repr(x)))
            elif kind is tuple and not _INTEGERS.issuperset(map(type, x)):
                flags = _FLAGS.issuperset(map(type, x))  # the common case: compared without Python
                x = _tuple(_Plain, (tuple, x)) if flags else exact(x)
            key.append(x)
        return self._cached(function, tuple(key))

    def _trace(self, function: Callable[..., Any], key: tuple[Any, ...]) -> Template | None:
        types = [x for x in key if x.__class__ is Type]
        present: list[bool] = []
        single = False

        def compute(ops: Any, operands: Sequence[Any]) -> Sequence[Any]:
            nonlocal single, present
            remaining = iter(operands)
            arguments = [next(remaining) if x.__class__ is Type else _value(x) for x in key]
            made = function(ops, *arguments)
            single = made.__class__ is not tuple
            results = (made,) if single else made
            present = [x is not None for x in results]
            return [x for x in results if x is not None]

        try:
            graph = graph_of(compute, types)
        except FlError:  # the function itself raises it, for the actual operands
            return None
        if graph is None or not graph.outputs:
            return None
        return Template(graph, self._number, present, single)


class _Plain(NamedTuple):
    """The key of a float, a boolean, or a tuple of booleans. True and 1.0 are equal, and so are 0.0
    and -0.0, but they give different numbers."""

    kind: type
    value: Any  # as text where it is zero


def _value(key: Any) -> Any:
    if key.__class__ is not _Plain:
        return key
    if key.kind is tuple:
        return key.value
    return float(key.value) if key.kind is float else key.value is True
