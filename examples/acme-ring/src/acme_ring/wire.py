"""Frames on a socket: a fixed header, a short text, a payload."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

import fl_tensor as ft
from fl_tensor import Tensor

DATA, ENDED, FAILED = range(3)
_HEADER = struct.Struct("!BiiIIIQ")


class Frame(NamedTuple):
    """``text``: dtype and shape of DATA, the cause of FAILED. ENDED and FAILED go to every rank."""

    kind: int
    src: int
    dst: int
    address: tuple[int, int]  # tag and channel
    text: str
    payload: bytes | memoryview


def data(src: int, dst: int, address: tuple[int, int], x: Tensor) -> Frame:
    text = " ".join([str(x.dtype), *map(str, x.shape)])
    return Frame(DATA, src, dst, address, text, x.tobytes())


def tensor(frame: Frame) -> Tensor:
    dtype, *shape = frame.text.split()
    return ft.frombytes(frame.payload, tuple(map(int, shape)), ft.dtype(dtype))


def write(to: socket.socket, frame: Frame) -> None:
    text = frame.text.encode()
    sizes = len(text), len(frame.payload)
    to.sendall(_HEADER.pack(frame.kind, frame.src, frame.dst, *frame.address, *sizes) + text)
    to.sendall(frame.payload)


def read(source: socket.socket) -> Frame:
    """The next frame. Raises ConnectionError when the other side is gone."""
    kind, src, dst, tag, channel, text, payload = _HEADER.unpack(_read(source, _HEADER.size))
    words, body = _read(source, text).decode(), _read(source, payload)
    return Frame(kind, src, dst, (tag, channel), words, body)


def _read(source: socket.socket, count: int) -> bytes:
    received = bytearray(count)
    view = memoryview(received)
    while view:
        got = source.recv_into(view)
        if not got:
            raise ConnectionError("the connection was closed")
        view = view[got:]
    return bytes(received)
