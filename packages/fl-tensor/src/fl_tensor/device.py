"""``Device``: the place of a tensor's bytes, a value that belongs to a backend."""

from __future__ import annotations

from typing import TypeAlias

from fl_tensor.called_modules import refuse_calls
from fl_tensor.errors import ArgumentError

_made: dict[tuple[str, int], Device] = {}


class Device:
    """``Device("cuda", 1)`` or ``Device.parse("cuda:1")``; prints as ``cuda:1``. There is one
    object per device, so that comparing and hashing cost nothing."""

    __slots__ = ("index", "kind")

    kind: str
    index: int

    def __new__(cls, kind: str = "cpu", index: int = 0) -> Device:
        """Raises ArgumentError unless ``kind`` is a word and ``index`` an int from 0 on."""
        known = isinstance(kind, str) and type(index) is int
        found = _made.get((kind, index)) if known else None
        if found is None:
            if not known or not kind.isidentifier() or index < 0:
                raise ArgumentError(
                    f"Device({kind!r}, {index!r}): expected a word and an index, as ('cuda', 0)"
                )
            found = object.__new__(cls)
            found.kind, found.index = kind, index
            found = _made.setdefault((kind, index), found)
        return found

    @classmethod
    def parse(cls, text: str | Device) -> Device:
        """Read ``"cpu"`` or ``"kind:index"``. Raises ArgumentError for anything else."""
        if isinstance(text, Device):
            return text
        kind, colon, index = str(text).partition(":")
        if not kind.isidentifier() or (colon and not index.isdigit()):
            raise ArgumentError(
                f"device {text!r}: expected 'cpu' or 'kind:index', such as 'cuda:0'"
            )
        return cls(kind, int(index or 0))

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __reduce__(self) -> tuple[type[Device], tuple[str, int]]:
        return Device, (self.kind, self.index)


CPU = Device()

#: What users name a device by; None is the first one of the backend.
DeviceLike: TypeAlias = Device | str | None

refuse_calls(
    __name__,
    "[device] ft.device is a module, and no class: a device is named by a string, x.to('cuda:0'), "
    "or is ft.Device('cuda', 0)",
)
