"""Buffer donation: results that reuse the memory of operands.

An update of all parameters then needs no second copy of them, and writes to memory that is still
cached. A plan may overwrite an array that is not shared: only the trace refers to the adapter, and
only the adapter to the array. Reference counts show this, as for values donated to the NumPy
backend. Views, exports and results that share memory hold references, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from fl_jit.eager.array_layouts import address
from fl_jit.steps.lower import Lowered
from fl_tensor.extend import count_if_alone, getrefcount
from fl_tensor.graph import Value
from fl_tensor.graph.strides import contiguous


class Values(dict[Value, Any]):
    """The arrays of a running plan, by root. ``donated``: leaves that the plan may overwrite, and
    results in their memory; ``overwritten``: leaves that were overwritten; ``addresses``: known
    addresses."""

    __slots__ = ("donated", "overwritten", "addresses")

    def __init__(self, constants: Mapping[Value, Any]) -> None:
        super().__init__(constants)
        self.addresses: dict[Value, int] = {}
        self.donated: set[Value] = set()
        self.overwritten: set[Value] = set()

    def address_of(self, root: Value) -> int:
        """The address of an array, looked up once: the memory of a root does not change."""
        at = self.addresses.get(root)
        if at is None:
            at = self.addresses[root] = address(self[root])
        return at

    def take(self, roots: list[Value], result: Value) -> Any:
        """The array of one of ``roots``, to hold ``result``. None if all have other references, as
        results have that took one."""
        for root in roots:
            if _references(self, root) - (root in self.donated) <= _UNSHARED:
                array = _owner(self[root])
                if array is not None and array.shape == result.shape:
                    if root in self.donated:
                        self.overwritten.add(root)
                        self.donated.add(result)
                    return array
        return None


def _references(values: dict[Any, Any], root: Any) -> int:
    return getrefcount(values[root])


def _owner(array: Any) -> Any:
    """The C-order array that owns this memory: ``array`` itself, or its base if ``array`` is the
    only view of it, as after a transpose. None if there is none; borrowed memory cannot be
    overwritten."""
    if _is_view(array) and array.flags.writeable and _base_references(array) <= _ONLY_VIEW:
        array = array.base
    return array if array.flags.carray and not _is_view(array) else None


def _is_view(array: Any) -> bool:
    return array.base.__class__ is array.__class__


def _base_references(array: Any) -> int:
    return getrefcount(array.base)


#: The count of ``_base_references`` where no other view shares the memory.
_ONLY_VIEW = count_if_alone(
    _base_references, lambda: SimpleNamespace(base=object()), lambda array: array.base
)
#: The count of ``_references`` where only the values of a plan refer to an array. The adapter of a
#: leaf is one more.
_UNSHARED = count_if_alone(
    lambda values: _references(values, None), lambda: {None: object()}, lambda values: values[None]
)


def donated(leaves: list[Any]) -> list[bool]:
    """Which leaves are referred to by this list only."""
    return [getrefcount(leaf) <= _ONLY_LISTED for leaf in leaves]


def _list_references(leaves: list[Any]) -> list[int]:
    return [getrefcount(leaf) for leaf in leaves]


_ONLY_LISTED = count_if_alone(
    lambda leaves: _list_references(leaves)[0], lambda: [object()], lambda leaves: leaves[0]
)


def overwritable(lowered: Lowered) -> list[list[Value]]:
    """For each output of a kernel the roots that it may overwrite, if they die. Such a root is read
    by one operand only, elementwise, in C order and from its beginning, as the output is
    written."""
    order = contiguous(lowered.sizes)
    roots = [o.root for o in lowered.inputs]
    elementwise = [
        o.root
        for o in lowered.inputs
        if o.strides == order and not o.offset and roots.count(o.root) == 1
    ]

    def fits(root: Value, result: Value) -> bool:
        # Their axes may have another order: ``Values.take`` checks the array.
        return root.dtype is result.dtype and sorted(root.shape) == sorted(result.shape)

    return [
        [r for r in elementwise if fits(r, o.root)] if o.strides == order else []
        for o in lowered.outputs
    ]
