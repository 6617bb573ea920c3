"""Compiled functions as CUDA graphs: ``ft.compile`` launches all kernels of a graph at once.

The first call runs the operations one by one, which compiles their kernels. The second one captures
them in a CUDA graph (CUDA C++ Programming Guide, "CUDA Graphs"), which it and later calls launch.
Kernels of a CUDA graph have fixed addresses. So operands are copied into buffers of the graph
before each launch, and results out of them afterwards. Numbers of the host that change from call to
call are arrays on the device. Graphs that wait for the device run operation by operation.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import cupy
import numpy as np

from fl_cupy.tensors.adapter import TO_CUPY, CupyAdapter
from fl_cupy.tensors.placement import allocate, within
from fl_tensor import Device
from fl_tensor.graph import Graph, HostExpression, Node, Value
from fl_tensor.graph.host_numbers import evaluator

__all__ = ["CudaGraph", "captured"]

#: Operations that read values of the device.
_WAITING = frozenset("cholesky cond eig eigh nonzero qr scan slogdet solve svd while_loop".split())
#: The parameter that may change from call to call.
_NUMBER = {"full": "value", "random_bits": "offset"}
#: Bytes of each number in the array of them.
_SLOT = 16


def captured(backend: Any, graph: Graph, names: Sequence[str]) -> CudaGraph | None:
    """``graph`` as a function of a list of adapters and of the numbers ``names``; None where it
    cannot be captured."""
    varying = [node for node in graph.nodes if any(map(_varies, node.parameters.values()))]
    if any(node.op in _WAITING for node in graph.nodes) or not all(map(_is_number, varying)):
        return None
    device = backend.devices()[0]
    numbers = HostNumbers(varying, names, device)
    always = dict(numbers.scalars())
    for value, data in graph.constants:
        always[value] = backend.from_host(memoryview(data), value.shape, value.dtype, device)
    nodes = numbers.replaced(graph.nodes)
    rewritten = Graph([*graph.inputs, *always], (), nodes, graph.outputs)
    return CudaGraph(type(backend)(), rewritten, list(always.values()), numbers, device)


def _varies(parameter: Any) -> bool:
    if isinstance(parameter, HostExpression):
        return True
    return type(parameter) is tuple and any(map(_varies, parameter))


def _is_number(node: Node) -> bool:
    """Whether an array on the device can stand for what varies: a scalar of the graph, or the
    offset of a random stream."""
    name = _NUMBER.get(node.op)
    rest = (value for key, value in node.parameters.items() if key != name)
    is_single = node.op == "random_bits" or node.parameters.get("shape") == ()
    return name is not None and is_single and not any(map(_varies, rest))


class HostNumbers:
    """The numbers of nodes that change from call to call, in one array on the device."""

    def __init__(self, nodes: Sequence[Node], names: Sequence[str], device: Device) -> None:
        self._nodes, self._device = nodes, device
        sources = [node.parameters[_NUMBER[node.op]].source for node in nodes]
        self._evaluate = evaluator(sources, names)
        self._host = np.zeros(_SLOT * len(nodes), "uint8")
        self._array = cupy.zeros(_SLOT * len(nodes), "uint8")
        self._host_views = self._views(self._host)
        self._views_on_device = self._views(self._array)

    def _views(self, array: Any) -> list[Any]:
        found = []
        for place, node in enumerate(self._nodes):
            is_offset = node.op == "random_bits"
            dtype = np.dtype("uint64") if is_offset else TO_CUPY[node.outputs[0].dtype]
            start = _SLOT * place
            found.append(array[start : start + dtype.itemsize].view(dtype).reshape(()))
        return found

    def scalars(self) -> Iterable[tuple[Value, CupyAdapter]]:
        """The values of the graph that are numbers, and where they are."""
        for node, array in zip(self._nodes, self._views_on_device):
            if node.op == "full":
                yield node.outputs[0], CupyAdapter(array, self._device)

    def replaced(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes of the graph without ``scalars``, with arrays as offsets."""
        arrays = dict(zip(self._nodes, self._views_on_device))
        found = []
        for node in nodes:
            if node not in arrays:
                found.append(node)
            elif node.op == "random_bits":
                parameters = {**node.parameters, "offset": arrays[node]}
                found.append(Node(node.op, node.inputs, parameters, node.outputs))
        return found

    def upload(self, numbers: Sequence[Any]) -> None:
        """Put the numbers of this call into the array."""
        if self._nodes:
            for view, value in zip(self._host_views, self._evaluate(*numbers)):
                view[...] = value
            cupy.copyto(self._array, cupy.asarray(self._host))


class CudaGraph:
    """A graph as a function ``run(inputs, numbers)``. Calls wait for one another on the device, as
    the buffers are the same."""

    def __init__(
        self,
        backend: Any,
        graph: Graph,
        always: list[CupyAdapter],
        numbers: HostNumbers,
        device: Device,
    ) -> None:
        # A backend of its own: scalars that are made during the capture have no data before it is
        # launched, and are not for others.
        self._backend = backend
        self._graph, self._always, self._numbers, self._device = graph, always, numbers, device
        self._lock = threading.Lock()
        self._calls = 0
        self._executable: Any = None
        self._buffers: list[Any] = []
        self._seen: list[Any] = []
        self._outputs: list[Any] = []
        with within(device.index):
            self._done = cupy.cuda.Event(disable_timing=True)
        # Its memory may serve others when it is no more: then the last launch has to be over.
        weakref.finalize(self, self._done.synchronize).atexit = False

    def __call__(self, inputs: list[Any], numbers: Sequence[Any]) -> tuple[Any, ...]:
        with self._lock, within(self._device.index):
            stream = cupy.cuda.get_current_stream()
            stream.wait_event(self._done)
            self._numbers.upload(numbers)
            if self._calls == 1:
                self._capture(inputs)
            self._calls += 1
            found = self._launch(inputs, stream) if self._executable else self._run(inputs)
            self._done.record(stream)
        return tuple(found)

    def _run(self, inputs: Sequence[Any]) -> list[Any]:
        return self._graph.run(self._backend, [*inputs, *self._always])

    def _capture(self, inputs: Sequence[Any]) -> None:
        buffers = [cupy.empty(x.shape, x.array.dtype) for x in inputs]
        stream = cupy.cuda.Stream(non_blocking=True)
        # What is freed during the capture is free for the graph alone.
        self._pool = cupy.cuda.MemoryPool(allocate)
        try:
            with stream, within(self._device.index, self._pool.malloc):
                stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)
                try:
                    outputs = self._run([CupyAdapter(each, self._device) for each in buffers])
                finally:
                    executable = stream.end_capture()
        except Exception as error:
            warnings.warn(
                f"[compile] this graph cannot become a CUDA graph ({error}): it runs operation by "
                "operation",
                RuntimeWarning,
                stacklevel=3,
            )
            return
        self._executable, self._buffers = executable, buffers
        self._outputs = [x.array for x in outputs]
        self._seen = [_nothing] * len(buffers)

    def _launch(self, inputs: Sequence[Any], stream: Any) -> list[Any]:
        for place, (buffer, x) in enumerate(zip(self._buffers, inputs)):
            if self._seen[place]() is x:  # values do not change
                continue
            if x.array.flags.c_contiguous:
                buffer.data.copy_from_device_async(x.array.data, buffer.nbytes, stream)
            else:
                buffer[...] = x.array
            self._seen[place] = weakref.ref(x)
        self._executable.launch(stream)
        return [CupyAdapter(array.copy(), self._device) for array in self._outputs]


def _nothing() -> None:
    """As a reference to what is no more."""
