"""Argument checks on the calling rank, before communication."""

from __future__ import annotations

from collections.abc import Sequence

from fl_dist import reduction
from fl_dist.errors import ArgumentError
from fl_tensor import Tensor

#: User tags are below this; larger ones carry the collectives that are built from send and recv.
TAG_LIMIT = 1 << 15


def tensor(operation: str, x: object) -> Tensor:
    if not isinstance(x, Tensor):
        hint = "; pass its .tensor" if hasattr(x, "tensor") else "; see ft.asarray"
        raise ArgumentError(f"[{operation}] expected a Tensor, got {type(x).__name__}{hint}")
    return x


def tensors(operation: str, xs: object, count: int | None = None) -> tuple[Tensor, ...]:
    """``count``: one tensor per rank, all of one dtype."""
    if isinstance(xs, Tensor) or not isinstance(xs, Sequence):
        raise ArgumentError(f"[{operation}] expected a list of Tensors, got {type(xs).__name__}")
    checked = tuple(tensor(operation, x) for x in xs)
    if count is not None:
        if len(checked) != count:
            raise ArgumentError(
                f"[{operation}] {len(checked)} tensors for {count} ranks: give one for each rank"
            )
        if len({x.dtype for x in checked}) > 1:
            names = ", ".join(str(x.dtype) for x in checked)
            raise ArgumentError(f"[{operation}] tensors of one dtype expected, got {names}")
    return checked


def reducible(operation: str, op: str, *xs: Tensor) -> str:
    for dtype in {x.dtype for x in xs}:
        reduction.check(operation, op, dtype)
    return reduction.check(operation, op)


def rows(operation: str, x: object) -> Tensor:
    """A tensor that has an axis 0."""
    checked = tensor(operation, x)
    if not checked.shape:
        raise ArgumentError(f"[{operation}] expected a tensor of at least one axis, got shape ()")
    return checked


def even_counts(length: int, world_size: int) -> tuple[int, ...]:
    """``length`` divided into a share per rank; shares differ by at most 1, larger ones first."""
    share, rest = divmod(length, world_size)
    return tuple([share + (r < rest) for r in range(world_size)])


def counts(
    operation: str, values: Sequence[int], world_size: int, total: int | None = None
) -> tuple[int, ...]:
    """``total``: what they must add up to."""
    if isinstance(values, (str, Tensor)) or not isinstance(values, Sequence):
        raise ArgumentError(f"[{operation}] counts {values!r}: expected a list of ints")
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in values):
        raise ArgumentError(f"[{operation}] counts {values!r}: expected ints of at least 0")
    if len(values) != world_size:
        raise ArgumentError(f"[{operation}] {len(values)} counts for {world_size} ranks")
    if total is not None and sum(values) != total:
        raise ArgumentError(
            f"[{operation}] counts {list(values)} add up to {sum(values)}, but axis 0 has {total}"
        )
    return tuple(values)


def rank(operation: str, name: str, value: object, world_size: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < world_size:
        raise ArgumentError(
            f"[{operation}] {name} {value!r}: ranks of this communicator are 0..{world_size - 1}"
        )
    return value


def peer(operation: str, name: str, value: object, me: int, world_size: int) -> int:
    other = rank(operation, name, value, world_size)
    if other == me:
        raise ArgumentError(f"[{operation}] {name} {other} is this rank itself: keep the value")
    return other


def tag(operation: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < TAG_LIMIT:
        raise ArgumentError(f"[{operation}] tag {value!r}: tags are 0..{TAG_LIMIT - 1}")
    return value


def integer(operation: str, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise ArgumentError(f"[{operation}] {name} {value!r}: expected a 32-bit integer")
    return value
