"""Primitives and plans. A plan is a primitive with the reorders around it, ready to be called.

A call costs a few microseconds of Python. All that depends only on shapes is prepared. A call sets
the addresses and executes.

The library stores addresses in memory objects. Each call therefore uses its own *frame* of such
objects. There are as many frames as calls have overlapped.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from fl_jit.kernels import Packed, Placement, UnsupportedError
from fl_memory import SMALL_BYTES, current
from fl_memory.tags import SCRATCH
from onednn_kernels.binding import Binding, Handle
from onednn_kernels.forks import check_process
from onednn_kernels.memory_descriptors import Descriptor, attributes, copied, describe

#: DNNL_ARG_*: the roles of a primitive's arguments.
SRC, DST, WEIGHTS = 1, 17, 33
SCRATCHPAD = 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS, DIFF_BIAS = 129, 145, 161, 169

_EXEC_ARG_MD, _IMPL_INFO = 255, 8  # dnnl_query_t
_ALIGNMENT = 64


class _Argument(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int), ("memory", ctypes.c_void_p))


class Primitive:
    """A primitive of the library, created from its descriptor."""

    __slots__ = ("about", "binding", "descriptor", "handle", "scratch")

    def __init__(self, binding: Binding, descriptor: Handle) -> None:
        self.binding = binding
        self.descriptor = descriptor
        text = ctypes.c_char_p()
        binding.call("dnnl_primitive_desc_query", descriptor, _IMPL_INFO, 0, ctypes.byref(text))
        self.about = (text.value or b"").decode()
        if self.about.startswith("ref"):
            raise UnsupportedError(f"oneDNN has only its reference loops for this ({self.about})")
        self.handle = binding.create(
            "dnnl_primitive_create", descriptor, destroy="dnnl_primitive_destroy"
        )
        self.scratch = self.nbytes(SCRATCHPAD)

    def layout(self, argument: int) -> Descriptor:
        """The layout of an argument in the primitive."""
        return copied(self.binding, self._queried(argument))

    def nbytes(self, argument: int) -> int:
        """Bytes of an argument; 0 if the primitive does not have it."""
        return int(self.binding.c.dnnl_memory_desc_get_size(self._queried(argument)))

    def _queried(self, argument: int) -> int:
        query = self.binding.c.dnnl_primitive_desc_query_md
        return int(query(self.descriptor, _EXEC_ARG_MD, argument) or 0)


class Operand(NamedTuple):
    """An argument of a primitive, in the caller's layout."""

    argument: int
    given: Placement
    output: bool = False


class Step(NamedTuple):
    """One execution: argument index -> slot. A slot is an operand of the call or a temporary."""

    primitive: Primitive
    slots: dict[int, int]


class _Frame:
    # State that belongs to one call at a time: a stream, memory objects with their addresses, and
    # a small scratch area. ``keep`` owns the objects that the others refer to by address.
    __slots__ = ("executions", "keep", "known", "memories", "places", "scratch")

    def __init__(
        self, memories: list[tuple[int, int]], executions: list[tuple[Any, ...]], keep: Any
    ) -> None:
        self.memories = memories  # memory object, slot
        self.executions = executions
        self.keep = keep
        self.known: dict[int, int] = {}
        self.places: tuple[int, ...] = ()
        self.scratch = 0


class Plan:
    """A kernel: reorders of the inputs, the primitive, reorders of its results."""

    __slots__ = (
        "_binding", "_frames", "_layouts", "_offsets", "_room", "_slots", "_steps", "_threads",
        "about", "operands",
    )  # fmt: skip

    def __init__(
        self,
        operands: Sequence[Placement],
        temporaries: Sequence[int],
        steps: Sequence[Step],
        about: str,
    ) -> None:
        self.operands = tuple(operands)
        self.about = about
        self._binding = steps[0].primitive.binding
        self._threads = self._binding.used_threads()  # the number it was prepared for
        self._steps = list(steps)
        self._frames: deque[_Frame] = deque()
        # One block for all temporaries, followed by the steps' scratch memory.
        offsets, end = [], 0
        for nbytes in [*temporaries, max(step.primitive.scratch for step in steps)]:
            offsets.append(end)
            end += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        self._offsets, self._room = offsets, end
        scratch = len(operands) + len(temporaries)
        self._layouts: list[tuple[int, int, Descriptor]] = []  # step, argument, layout
        self._slots: list[int] = []
        for number, (primitive, slots) in enumerate(steps):
            every = dict(slots)
            if primitive.scratch:
                every[SCRATCHPAD] = scratch
            for argument, slot in every.items():
                self._layouts.append((number, argument, primitive.layout(argument)))
                self._slots.append(slot)

    def __call__(self, *addresses: int) -> None:
        binding = self._binding
        check_process()
        binding.use_threads(self._threads)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self._frame()
        block = None
        if self._room >= SMALL_BYTES:
            block = current().alloc(self._room, tag=SCRATCH)
            start = block.address
        else:
            start = frame.scratch
        places = (*addresses, start)
        if places != frame.places:
            self._point(frame, addresses, start)
        execute = binding.c.dnnl_primitive_execute
        for execution in frame.executions:
            if status := execute(*execution):
                binding.check("dnnl_primitive_execute", status)
        if block is not None:
            block.free()
        self._frames.append(frame)

    def _point(self, frame: _Frame, addresses: tuple[int, ...], start: int) -> None:
        # Set the addresses of a frame's memory objects; temporaries begin at ``start``.
        every = (*addresses, *[start + offset for offset in self._offsets])
        point, known = self._binding.brief.dnnl_memory_set_data_handle, frame.known
        for memory, slot in frame.memories:
            address = every[slot]
            if known.get(memory) != address:
                point(memory, address)
                known[memory] = address
        frame.places = (*addresses, start)

    def _frame(self) -> _Frame:
        binding = self._binding
        stream = binding.create(
            "dnnl_stream_create", binding.engine, 1, destroy="dnnl_stream_destroy"
        )
        memories: list[Handle] = []
        per_step: list[list[_Argument]] = [[] for _ in self._steps]
        for number, argument, layout in self._layouts:
            memory = binding.create(
                "dnnl_memory_create", layout, binding.engine, None, destroy="dnnl_memory_destroy"
            )
            memories.append(memory)
            per_step[number].append(_Argument(argument, memory.address))
        arrays = [(_Argument * len(given))(*given) for given in per_step]
        executions = [
            # Converted to ctypes once, not at every call.
            (
                ctypes.c_void_p(step.primitive.handle.address),
                ctypes.c_void_p(stream.address),
                ctypes.c_int(len(array)),
                ctypes.c_void_p(ctypes.addressof(array)),
            )
            for step, array in zip(self._steps, arrays, strict=True)
        ]
        room = ctypes.create_string_buffer(_ALIGNMENT + min(self._room, SMALL_BYTES))
        pointed = [(m.address, slot) for m, slot in zip(memories, self._slots, strict=True)]
        frame = _Frame(pointed, executions, (stream, memories, arrays, room))
        start = ctypes.addressof(room)
        frame.scratch = start + -start % _ALIGNMENT
        return frame


def reorder(binding: Binding, source: Descriptor, target: Descriptor) -> Primitive:
    """The primitive that copies from one layout to another."""
    engine, attribute = binding.engine, attributes(binding)
    made = binding.create(
        *("dnnl_reorder_primitive_desc_create", source, engine, target, engine, attribute),
        destroy="dnnl_primitive_desc_destroy",
    )
    return Primitive(binding, made)


def assemble(primitive: Primitive, operands: Sequence[Operand]) -> Plan:
    """A plan for operands in the caller's layouts.

    Where the primitive uses another layout, a reorder through a temporary is added before or after
    it. Where the caller left the choice open (strides None), the operand has the primitive's
    layout.
    """
    binding = primitive.binding
    slots: dict[int, int] = {}
    placements: list[Placement] = []
    temporaries: list[int] = []
    before: list[Step] = []
    after: list[Step] = []
    for place, (argument, given, output) in enumerate(operands):
        slots[argument] = place
        has = primitive.layout(argument)
        if not isinstance(given, Packed) and given.strides is None:
            placements.append(Packed(given.dtype, given.shape, has.nbytes, has))
            continue
        placements.append(given)
        wants = describe(binding, given)
        if wants == has:
            continue
        slots[argument] = len(operands) + len(temporaries)
        temporaries.append(has.nbytes)
        if output:
            step = Step(reorder(binding, has, wants), {SRC: slots[argument], DST: place})
            after.append(step)
        else:
            step = Step(reorder(binding, wants, has), {SRC: place, DST: slots[argument]})
            before.append(step)
    steps = [*before, Step(primitive, slots), *after]
    about = " + ".join(step.primitive.about for step in steps)
    return Plan(placements, temporaries, steps, about)
