"""Scheduling: an execution order with a low peak memory.

Tasks are groups of nodes. A task may run when its operands were computed. Values die after their
last reader, except those in ``live_out``. Values that no task computes existed before, and are not
counted. The best order takes exponential time (Sethi, "Complete register allocation problems", SIAM
J. Comput. 4, 1975), so the rule is greedy. Of the tasks that can run, it takes the one that adds
the fewest live bytes. Of several, it takes the one whose operands were computed last. It costs O(n
log n).

Precondition: the given order can run.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fl_tensor.graph import Value, cost


class Task(NamedTuple):
    """Operations that run together: the values that they read, and those that they compute."""

    reads: Collection[Value]
    makes: Collection[Value]


def schedule(tasks: Sequence[Task], live_out: Collection[Value]) -> list[int]:
    """The numbers of the tasks in a good order, never worse than the one given."""
    greedy = _Greedy(tasks, live_out).order()
    given = list(range(len(tasks)))
    return min(given, greedy, key=lambda order: max(memory(tasks, order, live_out), default=0))


def memory(tasks: Sequence[Task], order: Sequence[int], live_out: Collection[Value]) -> list[int]:
    """The live bytes while each task of ``order`` runs. These are its results, and earlier values
    that are in ``live_out``, or that it or a later task reads."""
    made = {v for task in tasks for v in task.makes}
    last: dict[Value, int] = {}
    for time, number in enumerate(order):
        for value in (*tasks[number].reads, *tasks[number].makes):
            last[value] = time
    dying: dict[int, list[Value]] = {}
    for value in made.difference(live_out):
        dying.setdefault(last[value], []).append(value)
    alive, live_bytes = 0, []
    for time, number in enumerate(order):
        alive += sum(map(cost.size, set(tasks[number].makes)))
        live_bytes.append(alive)
        alive -= sum(map(cost.size, dying.get(time, ())))
    return live_bytes


class _Greedy:
    def __init__(self, tasks: Sequence[Task], live_out: Collection[Value]) -> None:
        self.tasks = tasks
        self.live_out = frozenset(live_out)
        home = {v: number for number, task in enumerate(tasks) for v in task.makes}
        self.reads = [set(task.reads) & home.keys() for task in tasks]
        #: The tasks that still have to read a computed value.
        self.readers: dict[Value, set[int]] = {v: set() for v in home}
        for number, reads in enumerate(self.reads):
            for value in reads:
                self.readers[value].add(number)
        self.missing = [len({home[v] for v in reads} - {n}) for n, reads in enumerate(self.reads)]
        #: (additional live bytes afterwards, minus the time of the last operand, number)
        self.ready: list[tuple[int, int, int]] = []
        self.since = [0] * len(tasks)

    def order(self) -> list[int]:
        order: list[int] = []
        done = [False] * len(self.tasks)
        for number, count in enumerate(self.missing):
            if not count:
                self._offer(number)
        while self.ready:
            added, _, number = heapq.heappop(self.ready)
            if done[number] or added != self._added(number):  # pushed again since
                continue
            done[number] = True
            order.append(number)
            self._ran(number, len(order))
        return order

    def _offer(self, number: int) -> None:
        heapq.heappush(self.ready, (self._added(number), -self.since[number], number))

    def _added(self, number: int) -> int:
        task = self.tasks[number]
        stays = (v for v in set(task.makes) if v in self.live_out or self.readers[v])
        dies = (v for v in self.reads[number] - self.live_out if self.readers[v] == {number})
        return sum(map(cost.size, stays)) - sum(map(cost.size, dies))

    def _ran(self, number: int, now: int) -> None:
        for value in self.reads[number]:
            left = self.readers[value]
            left.discard(number)
            if len(left) == 1:  # its operand will now die with it
                (other,) = left
                if not self.missing[other]:
                    self._offer(other)
        waiting = {n for v in set(self.tasks[number].makes) for n in self.readers[v]}
        for other in waiting - {number}:
            self.missing[other] -= 1
            self.since[other] = now
            if not self.missing[other]:
                self._offer(other)
