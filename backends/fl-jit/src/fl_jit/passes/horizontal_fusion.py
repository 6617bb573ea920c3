"""Horizontal fusion: small tasks that do not need one another run together, as one.

An optimizer updates many parameters, of which most have a few thousand elements: to start a kernel
for each takes longer than it computes. Fusion (``fuse.py``) joins what reads from one another; here
is joined what only ends at the same time: tasks whose results no other task reads.

What they read lives until the last of them has run, so they are put together up to ``MOST`` bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fl_jit.passes.schedule import Task
from fl_tensor.graph import cost

#: Bytes that tasks of one group read and write.
MOST = 32 << 20


def together(
    tasks: Sequence[Task], joins: Callable[[int], bool], most: int = MOST
) -> list[list[int]]:
    """The numbers of the tasks, in their order, in groups that run one after the other. Those for
    which ``joins(number)`` holds may be part of one, others run alone. A group runs when the last
    of its tasks would have."""
    read = {value for task in tasks for value in task.reads}
    groups: list[list[int]] = []
    group: list[int] = []
    size = 0
    for number, task in enumerate(tasks):
        if not joins(number) or read.intersection(task.makes):
            groups.append([number])
            continue
        own = sum(map(cost.size, {*task.reads, *task.makes}))
        if group and size + own <= most:
            groups.remove(group)
        else:
            group, size = [], 0
        group.append(number)
        size += own
        groups.append(group)
    return groups
