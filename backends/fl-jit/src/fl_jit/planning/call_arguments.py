"""The arguments of native calls on fixed memory (``static_program``).

Each call has addresses and numbers in memory of its own. When the array of an operand is elsewhere,
or a number is another one, the calls that read it are written again, and no other ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from fl_jit.eager.array_layouts import address
from fl_jit.steps.native import NativePart
from fl_tensor.extend.numpy import TO_NUMPY
from fl_tensor.graph import Value


class Call:
    """A native call, and its arguments."""

    def __init__(self, part: NativePart) -> None:
        self.part = part
        self.addresses = [0] * len(part.operands)
        self.scalars: list[Any] = [0] * len(part.scalars) + part.constant


class CallArguments:
    """The arguments of ``calls``.

    addresses  of roots; kept up to date by ``move``
    numbers    the values that are numbers, not arrays
    constants  arrays and numbers that never change
    workspace  the address of the memory that all calls work in, one after the other
    """

    def __init__(
        self,
        calls: list[Call],
        addresses: dict[Value, int],
        numbers: set[Value],
        constants: Mapping[Value, Any],
        workspace: int,
    ) -> None:
        self._addresses, self._workspace = addresses, workspace
        self._known: dict[Value, Any] = {}
        self._readers: defaultdict[Value, list[tuple[Call, int, int]]] = defaultdict(list)
        self._number_readers: defaultdict[Value, list[tuple[Call, int]]] = defaultdict(list)
        #: Of numbers that kernels read from memory.
        self._number_arrays: dict[Value, Any] = {}
        self._stale = dict.fromkeys(calls)
        for root, constant in constants.items():
            if root.shape:
                addresses[root] = address(constant)
        for call in calls:
            for i, (root, offset) in enumerate(call.part.operands):
                if root in numbers and root not in self._number_arrays:
                    self._number_arrays[root] = made = np.empty((), TO_NUMPY[root.dtype])
                    addresses[root] = address(made)
                self._readers[root].append((call, i, offset))
                call.addresses[i] = addresses.get(root, 0) + offset
            for i, root in enumerate(call.part.scalars):
                self._number_readers[root].append((call, i))
        for root in numbers.intersection(constants):
            self.set_number(root, constants[root])

    def share(self, root: Value, source: Value) -> None:
        """``root`` is wherever ``source`` is."""
        self._readers[source] += self._readers.pop(root, [])

    def move(self, root: Value, at: int) -> None:
        """The array of a root begins at this address."""
        if self._addresses.get(root) == at:
            return
        self._addresses[root] = at
        for call, i, offset in self._readers.get(root, ()):
            call.addresses[i] = at + offset
            self._stale[call] = None

    def set_number(self, root: Value, number: Any) -> None:
        """A number has this value."""
        before = self._known.get(root)
        if before is not None and before == number and number:  # 0.0 is not -0.0
            return
        self._known[root] = number
        if root in self._number_arrays:
            self._number_arrays[root][...] = number
        for call, i in self._number_readers.get(root, ()):
            call.scalars[i] = number
            self._stale[call] = None

    def write(self) -> None:
        """Write the arguments that have changed."""
        for call in self._stale:
            call.part.call.write(call.addresses, call.scalars, self._workspace)
        self._stale.clear()
