"""Horizontal fusion: small independent tasks that run together as one.

An optimizer updates many parameters, most of which have a few thousand elements. A kernel launch
for each takes longer than its computation. Operator fusion (``fusion.py``) joins operations that
read each other's results. Horizontal fusion joins tasks whose results no other task reads.

Their operands live until the last task has run. Tasks are therefore joined up to ``MOST`` bytes.
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
    """The numbers of the tasks, in order, in groups that run one after the other.

    Tasks for which ``joins(number)`` holds may be part of a group, others run alone. A group runs
    when the last of its tasks would have run.
    """
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
