"""The description of a call, which ranks compare to detect mismatches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeAlias

from fl_dist.errors import MismatchError
from fl_tensor import Tensor

__all__ = ["Call", "compare"]

#: What ranks must agree on: operation, operands as (dtype, shape) and parameters.
Signature: TypeAlias = tuple[Any, ...]

#: Operations whose operand is a list of tensors.
LIST_OPERATIONS = frozenset({"all_reduce_many", "reduce_scatter", "all_to_all", "scatter"})

_WORD = (1 << 63) - 1
_STRIDE = 0x9E3779B97F4A7C15  # odd, so that each number of a call changes the word
_words: dict[Signature, int] = {}


@dataclass
class Call:
    """``operation`` with its ``parameters`` (by name) and its tensor operands ``values``.

    number   counts the collectives of one communicator from 1; it is 0 for messages
    options  keyword arguments of this rank alone, which ranks need not agree on: ``into``, ``like``
    """

    operation: str
    values: tuple[Tensor, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    _signature: Signature | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def title(self) -> str:
        return f"{self.operation} #{self.number}" if self.number else self.operation

    @property
    def queue_key(self) -> Hashable:
        """What it must keep its order with: all collectives, or the messages of one address."""
        return "collectives" if self.number else (self.operation, *self.parameters.values())

    @property
    def signature(self) -> Signature:
        """Equal on all ranks iff they agree; the number is left out."""
        if self._signature is None:
            operands = tuple(self._operands())
            parameters = () if self.operation == "split" else tuple(self.parameters.items())
            self._signature = self.operation, operands, parameters
        return self._signature

    def _operands(self) -> list[tuple[Any, Any]]:
        if self.operation == "all_to_all":  # shapes are free
            return [(self.values[0].dtype, None)]
        if self.operation == "scatter":  # only the root has operands
            return []
        if self.operation == "all_gather_tensor":  # axis 0 is free
            return [(x.dtype, ("n", *x.shape[1:])) for x in self.values]
        return [(x.dtype, x.shape) for x in self.values]

    def describe(self) -> str:
        """``all_reduce #3 of float32 (2, 3), op='sum'``: equal on all ranks iff they agree."""
        return describe(self.signature, self.number)

    def fingerprint(self) -> int:
        """A word of 63 bits: equal on all ranks iff they agree, but for one case in 2^63."""
        signature = self.signature
        word = _words.get(signature)
        if word is None:
            if len(_words) >= 4096:
                _words.clear()
            digest = blake2b(describe(signature).encode(), digest_size=8).digest()
            word = _words[signature] = int.from_bytes(digest, "little")
        return (word + self.number * _STRIDE) & _WORD


def describe(signature: Signature, number: int = 0) -> str:
    """A signature in words."""
    operation, operands, parameters = signature
    text = f"{operation} #{number}" if number else operation
    if operands:
        text += " of " + ", ".join(
            str(dtype) if shape is None else f"{dtype} {_shape(shape)}" for dtype, shape in operands
        )
    return text + "".join(f", {name}={value!r}" for name, value in parameters)


def _shape(shape: tuple[Any, ...]) -> str:
    return str(shape).replace("'", "")


def compare(where: str, calls: Sequence[str]) -> None:
    """Raise MismatchError unless the descriptions (one per rank) are equal."""
    if any(text != calls[0] for text in calls):
        raise MismatchError(where, calls)
