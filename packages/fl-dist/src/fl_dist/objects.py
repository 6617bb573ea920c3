"""Collectives of plain values: numbers, texts, lists and dictionaries, as JSON carries them."""

from __future__ import annotations

import json
from typing import Any

import fl_tensor as ft
from fl_dist.communicator import Communicator, check_communicator
from fl_dist.errors import ArgumentError
from fl_tensor import Tensor


def all_gather_object(communicator: Communicator, value: Any) -> list[Any]:
    """Every rank's ``value``, in rank order. Floats keep every bit; tuples become lists.

    Raises ArgumentError, before anything is sent, for what JSON cannot carry.
    """
    check_communicator("all_gather_object", communicator)
    data = _pack("all_gather_object", value)
    if communicator.world_size == 1:
        return [_unpack(data)]
    lengths = communicator.all_gather(ft.asarray([data.size], ft.int64))
    counts = [length.item() for length in lengths]
    joined = bytes(communicator.all_gather_tensor(data, counts=counts).tobytes())
    found, start = [], 0
    for count in counts:
        found.append(json.loads(joined[start : start + count]))
        start += count
    return found


def broadcast_object(communicator: Communicator, value: Any, root: int = 0) -> Any:
    """Rank ``root``'s ``value``, on every rank; what the others pass does not count."""
    check_communicator("broadcast_object", communicator)
    data = _pack("broadcast_object", value if communicator.rank == root else None)
    if communicator.world_size == 1:
        return _unpack(data)
    length = communicator.broadcast(ft.asarray(data.size, ft.int64), root).item()
    if communicator.rank != root:
        data = ft.zeros((length,), ft.uint8)
    return _unpack(communicator.broadcast(data, root))


def _pack(operation: str, value: Any) -> Tensor:
    try:
        data = json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"[{operation}] JSON cannot carry the value: {error}") from None
    return ft.frombytes(data, (len(data),), ft.uint8)


def _unpack(data: Tensor) -> Any:
    return json.loads(bytes(data.tobytes()))
