"""What a plan needs at once is taken from the memory manager in one piece."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import fl_memory as mem
import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.passes import profitability
from fl_jit.planning import reserve
from fl_memory.managers.caching import CachingManager
from fl_tensor.graph import Node, Value


class Values(dict):
    """Values by name; ``"x:8"`` has 8 bytes."""

    def __missing__(self, name):
        self[name] = Value(len(self), (int(name.split(":")[1]),), ft.int8, ft.CPU, name)
        return self[name]


class Step(NamedTuple):
    in_place: list
    nodes: list
    roots: list
    dying: list


def steps(*lines):
    """``"kernel x:8 y:4! -> z:8"``: one that reads x and y, which dies, and makes z. Results of a
    kernel may reuse the memory of operands, and so may all but the first of a contraction."""
    values, made = Values(), []
    for line in lines:
        before, after = line.split("->")
        kind, *names = before.split()
        reads = [values[name.rstrip("!")] for name in names]
        makes = [values[name.rstrip("!")] for name in after.split()]
        dying = [values[n.rstrip("!")] for n in (*names, *after.split()) if n.endswith("!")]
        in_place = {"kernel": makes, "contraction": makes[1:], "numpy": []}[kind]
        made.append(Step(in_place, [Node("add", (), {}, tuple(makes))], [*reads, *makes], dying))
    return made, values


@pytest.mark.parametrize(
    "bytes,given,lines",
    [
        (12, "", ["numpy x:8 -> y:8", "numpy y:8! -> z:4"]),
        (16, "", ["numpy x:8 -> y:8", "numpy y:8! -> z:8"]),
        (12, "", ["numpy x:8 -> y:8", "numpy y:8! -> z:4", "numpy z:4! -> u:1 v:2!"]),
        (12, "", ["numpy x:8 -> y:8", "kernel y:8! -> z:8", "numpy z:8! -> u:4"]),
        (16, "", ["numpy x:8 -> y:8", "contraction y:8! -> z:8", "numpy z:8! -> u:4"]),
        (16, "", ["numpy x:8 -> y:8", "contraction y:8! -> z:8 v:8"]),
        (16, "", ["numpy x:8 -> y:8", "kernel y:8! -> z:8 v:8"]),
        (8, "", ["kernel x:8! -> y:8"]),
        (0, "x:8", ["kernel x:8! -> y:8"]),
        (8, "x:8", ["numpy x:8! -> y:8"]),
        (8, "x:8", ["kernel x:8! -> y:8 z:8"]),
        (4, "x:8", ["kernel x:8! -> y:8", "kernel y:8 -> z:4"]),
    ],
)
def test_what_is_needed_at_once(bytes, given, lines):
    made, values = steps(*lines)
    assert reserve.needed(made, [values[name] for name in given.split()]) == bytes


class HintRecorder(CachingManager):
    """Notes what it was to have."""

    nbytes = 0

    def reserve_hint(self, nbytes, **options):
        self.nbytes = nbytes
        return 0


def test_a_little_more_than_is_needed_is_requested():
    with mem.use(HintRecorder()) as manager:
        reserve.reserve(reserve.LEAST - 1)
        assert manager.nbytes == 0
        reserve.reserve(64 << 20)
        assert manager.nbytes == 66 << 20


def products(x, weights):
    # Of growing size, each dead when the next one is there: none fits where another was.
    for w in weights:
        x = x @ w
    return x


@pytest.fixture
def manager():
    made = CachingManager()
    with mem.use(made):
        yield made


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.setattr(reserve, "LEAST", 1 << 20)
    made = JitBackend()
    made.plans.background, made.plans.compile_after = False, 1
    with ft.use(made):
        yield made


SIZES = (8, 700, 800, 900, 1000)


def operands():
    made = [ft.ones((4096, SIZES[0])), *(ft.ones(pair) for pair in zip(SIZES, SIZES[1:]))]
    ft.eval(*made)
    return made[0], made[1:]


def test_a_plan_takes_no_buffer_for_each_of_its_results(backend, manager):
    x, weights = operands()
    sizes = []
    manager.on_event(lambda e: sizes.append(e.nbytes) if e.kind == "device_alloc" else None)
    buffers = []
    for _ in range(2):  # what a plan needs is taken before it runs first
        manager.release_cached()
        sizes.clear()
        ft.eval(products(x, weights))
        # Results have more than 8 MiB, what kernels pack has less, by the caches of the processor.
        buffers.append(sum(size > 1 << 23 for size in sizes))
        assert len(sizes) <= 5 and sum(sizes) < 64 << 20
    assert buffers == [2, 4]


def test_a_manager_that_keeps_no_memory_is_left_alone(backend):
    with mem.use("system") as manager:
        x, weights = operands()
        assert products(x, weights)[0, 0].item() == 8 * 700 * 800 * 900
        assert manager.stats().cached_bytes == 0


@pytest.mark.parametrize("is_held", [False, True])
def test_nothing_is_reserved_for_what_takes_the_place_of_operands(backend, is_held):
    with mem.use(HintRecorder()) as manager:
        x = ft.ones((1024, 1024))
        ft.eval(x)
        manager.nbytes = 0
        held = x if is_held else None
        x = ft.exp(x) + 1.0
        ft.eval(x)
        assert manager.nbytes == (66 << 16 if is_held else 0)
        assert (held is None) is not is_held


def test_further_results_of_an_epilogue_take_the_place_of_operands(backend, monkeypatch):
    monkeypatch.setattr(profitability, "epilogue_pays", lambda *given: True)
    x, w, y = ft.ones((512, 512)), ft.ones((512, 512)), ft.ones((512, 512))
    ft.eval(x, w, y)
    product = x @ w
    results = ft.relu(product), product * y
    del product
    ft.eval(*results)
    plan = backend.plans.entries()[-1]
    (step,) = plan.steps
    assert {node.op for node in step.nodes} == {"matmul", "maximum", "multiply"}
    (y_value,) = {v for node in step.nodes for v in node.operands if node.op == "multiply"} & {
        v for v, *_ in plan.inputs
    }
    assert reserve.needed(plan.steps, []) == 2 * x.nbytes
    assert reserve.needed(plan.steps, [y_value]) == x.nbytes, "the second result overwrites y"


def test_managers_hear_what_memory_is_for(backend, manager):
    told = []
    manager.on_event(lambda event: told.append((event.kind, event.tag)))
    x, weights = operands()
    with mem.tagged("layer"):  # the layer that reads a value has not asked for all that is deferred
        ft.eval(products(x, weights))
    assert ("reserve_hint", None) in told
    tags = {tag for kind, tag in told if kind == "alloc"}
    assert {"scratch", "result"} <= tags and "layer" not in tags
