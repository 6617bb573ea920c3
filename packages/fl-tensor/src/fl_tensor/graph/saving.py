"""Content of the file of a compiled function: its graph, and its state as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_tensor.arrays.tensor import Tensor
from fl_tensor.errors import ArgumentError
from fl_tensor.graph import expressions, pytree, trees
from fl_tensor.graph.capture import Capture
from fl_tensor.graph.file_head import Content, Number, Stored
from fl_tensor.graph.verify import expressions_of

if TYPE_CHECKING:
    from fl_tensor.graph.compiled import Compiled

__all__ = ["content"]


def content(compiled: Compiled[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Content:
    """The content of a file for ``compiled``, as ``Compiled.save``."""
    if args or kwargs:
        captured, structure = compiled._capture(args, kwargs), pytree.flatten((args, kwargs))[1]
        if captured.written and not compiled.calls:
            raise ArgumentError(
                "[save] the step has not been called yet, and makes its state when it is: call it "
                "once, then save"
            )
    else:
        captured, structure = _only(compiled)
    if captured.assumed:
        raise ArgumentError(
            "[save] the step falls back on its function where a check of values fails, as a loss "
            "scaler does: a file has no function"
        )
    tensors, numbers = compiled._state.slots()
    graph, (count, floats) = captured.graph, trees.count(structure)
    sources = [
        *captured.guards,
        *(s for node in graph.nodes for p in node.parameters.values() for s in expressions_of(p)),
        *(x.source for x in captured.result.expressions),
    ]
    updates = {}
    for i, source in captured.updates:
        value = numbers[i].get()
        if type(value) in (int, float):
            updates[captured.names[floats + i]] = source
        elif source != repr(value):
            raise ArgumentError(f"[save] {numbers[i].name} is {value!r}: a file keeps numbers")
    used = expressions.names_in(" ".join([*sources, *updates.values()])) | set(updates)
    state = [(slot.name, slot.get()) for slot in tensors]
    state += [(place.name, place.get()._tensor()) for place in captured.closure]
    written = [slot.name for slot in captured.written]
    taken: set[str] = set()
    named = [(_unused(name, taken), x) for name, x in state]
    values = {v for node in graph.nodes for v in node.operands} | set(graph.outputs)
    kept = [
        (name, x, value)
        for (name, x), value in zip(named, graph.inputs[count:], strict=True)
        if value in values
    ]
    stored = {name: _stored(x) for name, x, _ in kept}
    stored |= {name: _stored(x) for name, x in named if name in written}
    return Content(
        getattr(compiled, "__name__", type(compiled._function).__name__),
        structure,
        captured.result,
        graph.replace(inputs=[*graph.inputs[:count], *(value for _, _, value in kept)]),
        tuple(name for name, _, _ in kept),
        tuple(written),
        stored,
        {
            symbol: Number(slot.name, slot.get())
            for symbol, slot in zip(captured.names[floats:], numbers, strict=True)
            if symbol in used
        },
        updates,
        dict(captured.guards),
        captured.assumed,
    )


def _only(compiled: Compiled[Any]) -> tuple[Capture, pytree.Structure]:
    found: list[tuple[Any, Any]] = [
        (key, x) for key, each in compiled._executables.items() for x in each
    ]
    if len(found) != 1:
        raise ArgumentError(
            f"[save] it has {len(found) or 'no'} graphs{'' if found else ' yet'}: give the "
            f"arguments of one, as save(path, x, y)"
        )
    ((key, executable),) = found
    kind, signature = key
    if signature != compiled._state.signature():
        raise ArgumentError(
            "[save] its graph is for another state than there is now, such as the other of "
            "training and evaluation: give arguments, as save(path, x, y)"
        )
    return executable.capture, kind[0]


def _unused(name: str, taken: set[str]) -> str:
    made, count = name, 2
    while made in taken:
        made, count = f"{name}_{count}", count + 1
    taken.add(made)
    return made


def _stored(x: Tensor) -> Stored:
    """A tensor as it is in memory: a plan is made for the order of its axes."""
    order = tuple(range(len(x.shape)))
    if hasattr(x.adapter, "__array__"):
        array = x.adapter.__array__()
        found = tuple(sorted(order, key=lambda axis: -abs(array.strides[axis])))
        if array.transpose(found).flags.c_contiguous:
            order = found
            data = memoryview(array.transpose(found).reshape(-1).view("u1"))
            return Stored(tuple(x.shape), x.dtype, order, data)
    return Stored(tuple(x.shape), x.dtype, order, x.tobytes())
