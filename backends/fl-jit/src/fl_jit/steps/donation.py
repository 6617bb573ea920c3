"""Results that take the places of operands: an update of all parameters needs no second copy of
them, and memory that was just read is there to be written.

A plan may write over an array that nobody but the plan can see: the adapter is held by the trace
alone, and the array by the adapter alone. Reference counts show it, as where values are donated to
the NumPy backend; views, exports and results that share memory hold references, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from fl_jit.eager.gemm_dispatch import address
from fl_jit.steps.lower import Lowered
from fl_tensor.graph import Value
from fl_tensor.graph.strides import contiguous
from fl_tensor.refcounts import count_if_alone, getrefcount


class Values(dict[Value, Any]):
    """The arrays of a plan that runs, by root. ``donated``: leaves that the plan may write over,
    and results that have; ``overwritten``: what was written over; ``places``: addresses found."""

    __slots__ = ("donated", "overwritten", "places")

    def __init__(self, constants: Mapping[Value, Any]) -> None:
        super().__init__(constants)
        self.places: dict[Value, int] = {}
        self.donated: set[Value] = set()
        self.overwritten: set[Value] = set()

    def place(self, root: Value) -> int:
        """The address of an array, looked up once: what a root lies in stays the same."""
        found = self.places.get(root)
        if found is None:
            found = self.places[root] = address(self[root])
        return found

    def take(self, roots: list[Value], result: Value) -> Any:
        """The array of one of ``roots`` for ``result`` to be written to; None if others see them
        all, as other results do that have taken one."""
        for root in roots:
            if _holders(self, root) - (root in self.donated) <= _HELD:
                array = _owner(self[root])
                if array is not None and array.shape == result.shape:
                    if root in self.donated:
                        self.overwritten.add(root)
                        self.donated.add(result)
                    return array
        return None


def _holders(values: dict[Any, Any], root: Any) -> int:
    return getrefcount(values[root])


def _owner(array: Any) -> Any:
    """The array in C order whose memory this is: itself or, as after an exchange of axes, the one
    that it shows and nobody else does. None if there is none; borrowed memory, which is somebody
    else's, cannot be written to."""
    if _is_view(array) and array.flags.writeable and _showing(array) <= _SHOWN:
        array = array.base
    return array if array.flags.carray and not _is_view(array) else None


def _is_view(array: Any) -> bool:
    return array.base.__class__ is array.__class__


def _showing(array: Any) -> int:
    return getrefcount(array.base)


#: What ``_showing`` finds where nothing else shows the same memory.
_SHOWN = count_if_alone(_showing, lambda: SimpleNamespace(base=object()), lambda array: array.base)
#: What ``_holders`` finds where nobody but the values of a plan holds an array. The adapter of a
#: leaf is one more.
_HELD = count_if_alone(
    lambda values: _holders(values, None), lambda: {None: object()}, lambda values: values[None]
)


def donated(leaves: list[Any]) -> list[bool]:
    """Which leaves only this list holds."""
    return [count <= _LISTED for count in _listed(leaves)]


def _listed(leaves: list[Any]) -> list[int]:
    return [getrefcount(leaf) for leaf in leaves]


_LISTED = count_if_alone(
    lambda leaves: _listed(leaves)[0], lambda: [object()], lambda leaves: leaves[0]
)


def places(lowered: Lowered) -> list[list[Value]]:
    """For each output of a kernel the roots that it may be written over, if they die: those read by
    one operand only, element by element, in C order and from the beginning, as it is written."""
    order = contiguous(lowered.sizes)
    roots = [o.root for o in lowered.inputs]
    found = [
        o.root
        for o in lowered.inputs
        if o.strides == order and not o.offset and roots.count(o.root) == 1
    ]

    def fits(root: Value, result: Value) -> bool:
        # Their axes may be in another order: ``Values.take`` looks how the array lies.
        return root.dtype is result.dtype and sorted(root.shape) == sorted(result.shape)

    return [
        [r for r in found if fits(r, o.root)] if o.strides == order else [] for o in lowered.outputs
    ]
