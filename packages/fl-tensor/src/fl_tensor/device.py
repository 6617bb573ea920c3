"""A device is a value: where the bytes of a tensor lie. It belongs to a backend."""

from __future__ import annotations

from fl_tensor.errors import ArgumentError


class Device:
    """``Device("cuda", 1)`` or ``Device.parse("cuda:1")``; equal by value, prints as ``cuda:1``."""

    __slots__ = ("index", "kind")

    def __init__(self, kind: str = "cpu", index: int = 0) -> None:
        self.kind = kind
        self.index = index

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.kind, self.index) == (other.kind, other.index)

    def __hash__(self) -> int:
        return hash((self.kind, self.index))

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


CPU = Device()
