"""Where operations run and where their results lie: the device of the operands, and blocks of the
installed memory manager."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import cupy

import fl_memory
from fl_cupy.tensors.adapter import CupyAdapter
from fl_tensor import Device

__all__ = ["allocate", "on_device", "within"]

Method = TypeVar("Method", bound=Callable[..., Any])


class _Place(threading.local):
    """The device on which this thread is within an operation; -1 outside of all."""

    index = -1


_place = _Place()


class within:
    """As within an operation: on a device, with memory of the manager or of another allocator."""

    # A class, as entering a generator would take longer than the rest.
    __slots__ = ("_before", "_device", "_index", "_memory")

    def __init__(self, index: int, allocator: Callable[[int], Any] | None = None) -> None:
        self._index = index
        self._device = cupy.cuda.Device(index)
        self._memory = cupy.cuda.using_allocator(allocator or allocate)

    def __enter__(self) -> None:
        self._before, _place.index = _place.index, self._index
        self._device.__enter__()
        self._memory.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._memory.__exit__(*error)
        self._device.__exit__(*error)
        _place.index = self._before


def on_device(method: Method) -> Method:
    """A method of the backend that runs on the device of its first operand, or on the device among
    its arguments, and allocates from the memory manager."""

    @functools.wraps(method)
    def operation(self: Any, *arguments: Any, **options: Any) -> Any:
        index = _index(arguments)
        if _place.index == index:
            return method(self, *arguments, **options)
        with within(index):
            return method(self, *arguments, **options)

    return operation  # type: ignore[return-value]


def _index(arguments: tuple[Any, ...]) -> int:
    for each in arguments:
        if isinstance(each, CupyAdapter):
            return each.device.index
        if isinstance(each, (list, tuple)) and each and isinstance(each[0], CupyAdapter):
            return each[0].device.index
        if isinstance(each, Device):
            return each.index
    raise AssertionError("an operation has an operand or a device")


def allocate(nbytes: int) -> Any:
    """The allocator of CuPy: memory of the manager, and of CuPy's pool where that is allowed."""
    manager = fl_memory.current()
    if nbytes == 0 or nbytes < manager.small_bytes:
        return cupy.get_default_memory_pool().malloc(nbytes)
    index, stream = cupy.cuda.get_device_id(), cupy.cuda.get_current_stream().ptr
    tag = fl_memory.current_tag()
    block = manager.alloc(nbytes, device=f"cuda:{index}", stream=stream or None, tag=tag)
    # The array keeps the block alive, which is freed with the last array over it.
    memory = cupy.cuda.UnownedMemory(block.address, nbytes, block, index)
    return cupy.cuda.MemoryPointer(memory, 0)
