"""Launches of loop nests: phases, workspace, and work that is divided or stolen."""

from __future__ import annotations

import pytest
from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.arg_struct import address, array
from fl_jit.kernels.codegen.vectors import i64
from fl_jit.kernels.llvm import launcher, work_stealing
from fl_jit.kernels.llvm.launcher import Division, Launcher
from fl_jit.kernels.llvm.loop_nest import LoopNestBuilder
from fl_tensor.dtypes import float32

FIELDS = launcher.arguments("x out", "factor workers queue_count")
ITEMS = 37
#: A nanosecond is no reason for a thread; so many are.
LONG = 1e6


class _Fill(LoopNestBuilder):
    """workspace[i] = x * factor + i"""

    def __init__(self, module):
        super().__init__(module, "fill", FIELDS, target.host(), float32)
        b, args = self.b, self.args
        with self.loop(self.begin, self.end) as item:
            at = self.address(self.sum(args["workspace"], (item, i64(8))))
            b.store(b.add(b.mul(args["x"], args["factor"]), item), at)
        b.ret_void()


class _Add(LoopNestBuilder):
    """out[i] += workspace[i]; with ``stolen`` of items in queues."""

    def __init__(self, module, name, stolen):
        super().__init__(module, name, FIELDS, target.host(), float32)
        b, args = self.b, self.args
        if stolen:
            queues = args["queues"], args["queue_count"]
            with work_stealing.steal(self, self.begin, *queues) as item:
                self._add(item)
        else:
            with self.loop(self.begin, self.end) as item:
                self._add(item)
        b.ret_void()

    def _add(self, item):
        b, args = self.b, self.args
        value = self.entry(self.address(args["workspace"]), item)
        out = self.address(self.sum(args["out"], (item, i64(8))))
        b.atomic_rmw("add", out, value, "monotonic")


def assembly():
    module = ir.Module("launches")
    module.triple = target.triple()
    _Fill(module)
    _Add(module, "add", False)
    _Add(module, "steal", True)
    return str(module)


@pytest.mark.parametrize("work", [1.0, LONG])
@pytest.mark.parametrize("stolen", [False, True], ids=["divided", "stolen"])
def test_every_item_is_computed_once(threads, work, stolen):
    code = compile.load("test of launches", assembly, target.host())
    divided = []

    def divide(workers):
        divided.append(workers)
        items = (ITEMS, workers if stolen else ITEMS)
        return Division(items, {"workers": workers}, 8 * ITEMS, stolen=ITEMS if stolen else 0)

    phases = "fill", "steal" if stolen else "add"
    call = Launcher(code, FIELDS, {"factor": 100}, divide, work, phases=phases)
    for count in (1, 2, 5, 64, 2):
        threads(count)
        for x in (3, 4):
            out = array([0] * ITEMS)
            call((x, address(out)))
            assert list(out) == [100 * x + i for i in range(ITEMS)]
    assert divided == ([1] * 5 if work == 1.0 else [1, 2, 5, 64, 2]), "once per number of threads"


def test_phases_without_items_are_skipped(threads):
    code = compile.load("test of launches", assembly, target.host())
    for items, expected in (((ITEMS, 0), 1), ((0, 0), 1), ((ITEMS, ITEMS), 1 + 500)):
        call = Launcher(
            code,
            FIELDS,
            {"factor": 100},
            lambda workers, items=items: Division(items, {}, 8 * ITEMS),
            LONG,
            phases=("fill", "add"),
        )
        for count in (1, 2):
            threads(count)
            out = array([1] * ITEMS)
            call((5, address(out)))
            assert out[0] == expected


def test_constants_are_fields(threads):
    code = compile.load("test of launches", assembly, target.host())
    division = Division((1, 1), {}, 8)
    phases = "fill", "add"
    call = Launcher(code, FIELDS, {"depth": 1}, lambda workers: division, 1.0, phases=phases)
    with pytest.raises(TypeError, match="no fields .'depth'. in the struct"):
        call((0, 0))


def test_queues_are_equal_parts():
    fields = work_stealing.queues(10, 4)
    assert len(fields) == 4 * work_stealing.QUEUE
    assert [tuple(fields[i : i + 2]) for i in range(0, len(fields), work_stealing.QUEUE)] == [
        *[(0, 2), (2, 5), (5, 7), (7, 10)]
    ]
