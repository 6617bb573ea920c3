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

__all__ = ["on_device"]

Method = TypeVar("Method", bound=Callable[..., Any])


class _Place(threading.local):
    """The device on which this thread is within an operation; -1 outside of all."""

    index = -1


_place = _Place()


def on_device(method: Method) -> Method:
    """A method of the backend that runs on the device of its first operand, or on the device among
    its arguments, and allocates from the memory manager."""

    @functools.wraps(method)
    def operation(self: Any, *arguments: Any, **options: Any) -> Any:
        index = _index(arguments)
        before = _place.index
        if before == index:
            return method(self, *arguments, **options)
        _place.index = index
        try:
            with cupy.cuda.Device(index), cupy.cuda.using_allocator(_allocate):
                return method(self, *arguments, **options)
        finally:
            _place.index = before

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


def _allocate(nbytes: int) -> Any:
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
