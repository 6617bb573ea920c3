"""The cost model of fusion: what each rule says of a few operations and arrays, alone."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_jit.passes import fusion_cost
from fl_jit.passes.fusion_cost import ARRAYS, CACHED, FASTER, HIDDEN, LARGE, LAUNCH, ROWS, Verdict
from fl_tensor.graph import Graph, Node, Value

NAMES = ("rows are short", "there are few rows", "it reads many arrays")


def value(shape, dtype=ft.float32):
    return Graph().value(shape, dtype)


def node(op, shape, dtype=ft.float32):
    x = value(shape, dtype)
    given = {"axis": (len(shape) - 1,), "keepdims": False} if op == "sum" else {}
    return Node(op, (x,), given, (value(shape[:-1] if op == "sum" else shape, dtype),))


def losses(*, one=(), other=(), joining=(), space=(64, 64), row_axes=0, has_row_results=False):
    found = fusion_cost.losses(list(one), list(other), joining, space, row_axes, has_row_results)
    assert tuple(found) == NAMES
    return found


def test_a_verdict_pays_if_more_is_saved_than_lost():
    assert Verdict(2.0, 1.0).pays and not Verdict(1.0, 1.0).pays
    assert str(Verdict(3e6)) == "saves 3.00 MB"
    assert str(Verdict(3e6, 1e6, "rows")) == "saves 3.00 MB, costs 1.00 MB (rows)"


def test_arithmetic_goes_by_elements_and_reductions_are_free():
    add, exp, total = (node(op, (10, 10)) for op in ("negative", "exp", "sum"))
    assert fusion_cost.arithmetic([add, exp, total]) == 100 * (1 + 8)
    assert fusion_cost.arithmetic([add, exp, total], HIDDEN) == 100 * (HIDDEN + 8)
    assert fusion_cost.arithmetic([node("reshape", (10, 10))], HIDDEN) == 0


@pytest.mark.parametrize("length,wasted", [(16, 0.0), (3, 13 / 3), (17, 15 / 17), (160, 0.0)])
def test_what_is_wasted_is_the_rest_of_the_last_vector_of_each_row(length, wasted):
    joining = [node("negative", (100, length))]
    found = losses(joining=joining, space=(100, length), row_axes=1)
    assert found["rows are short"] == pytest.approx(100 * length * wasted)
    assert losses(joining=joining, space=(100, length))["rows are short"] == 0, "no rows"
    assert losses(space=(100, length), row_axes=1)["rows are short"] == 0, "nobody joins"


def test_wider_elements_fill_a_vector_sooner():
    joining = [node("negative", (100, 8), ft.float64)]
    assert losses(joining=joining, space=(100, 8), row_axes=1)["rows are short"] == 0


def test_few_whole_rows_are_the_work_of_few_threads():
    joining = [node("negative", (2, 64))]
    given = {"joining": joining, "space": (2, 64), "row_axes": 1}
    assert losses(**given, has_row_results=True)["there are few rows"] == 128 * (1 - 2 / ROWS)
    assert losses(**given)["there are few rows"] == 0, "rows can be cut"
    many = [node("negative", (ROWS, 64))]
    found = losses(joining=many, space=(ROWS, 64), row_axes=1, has_row_results=True)
    assert found["there are few rows"] == 0


def test_each_array_more_than_are_prefetched_slows_all_of_them():
    arrays = [value((LARGE,)) for _ in range(ARRAYS + 2)]
    one, other = arrays[:ARRAYS], arrays[ARRAYS:]
    found = losses(one=one, other=other)["it reads many arrays"]
    assert found == 2 * fusion_cost.SLOWER * sum(4 * LARGE for _ in arrays)
    assert losses(one=one, other=other[:0])["it reads many arrays"] == 0
    assert losses(one=one, other=one)["it reads many arrays"] == 0, "the same arrays"
    small = [value((4,)) for _ in range(50)]
    assert losses(one=small, other=arrays[:1])["it reads many arrays"] == 0


def test_arrays_that_were_too_many_before_are_no_new_loss():
    arrays = [value((LARGE,)) for _ in range(ARRAYS + 4)]
    found = losses(one=arrays, other=[])["it reads many arrays"]
    assert found == 0


def test_together_saves_a_start_and_what_is_shared():
    lost = {"a": 1.0, "b": 2.0}
    verdict = fusion_cost.together([value((1000,)), value((10,), ft.int8)], lost)
    assert verdict == Verdict(LAUNCH + 4010, 3.0, "b")


class TestComputedAgain:
    """One reader besides the producer, unless said otherwise."""

    large = value((CACHED,))
    bytes = 4 * CACHED

    def rematerialized(self, which, nodes=(), read=0.0, written=(), lost=({},)):
        nodes = dict.fromkeys(nodes, 1)
        return fusion_cost.recomputed(which, nodes, read, written, list(lost))

    def test_it_is_not_written_and_not_read_by_each_reader(self):
        assert self.rematerialized(self.large).saved == 2 * self.bytes
        assert self.rematerialized(self.large, lost=({}, {}, {})).saved == 4 * self.bytes

    def test_what_is_read_or_written_instead_is_lost(self):
        verdict = self.rematerialized(self.large, read=7.0, written=[value((100,))])
        assert (verdict.lost, verdict.by) == (7.0 + 400, "computing")

    def test_cheap_arithmetic_is_hidden_behind_memory_and_counts_for_each_reader(self):
        cheap, exp = node("negative", (CACHED,)), node("exp", (CACHED,))
        assert self.rematerialized(self.large, [cheap, exp]).lost == CACHED * (HIDDEN + 8)
        twice = fusion_cost.recomputed(self.large, {exp: 2}, 0, (), [{}, {}])
        assert twice.lost == CACHED * 8 * 2

    def test_what_stays_in_caches_moves_faster_and_hides_nothing(self):
        small, cheap = value((1000,)), node("negative", (1000,))
        verdict = self.rematerialized(small, [cheap], read=400.0, written=[value((100,))])
        assert verdict.saved == 8000 / FASTER
        assert verdict.lost == 800 / FASTER + 1000

    def test_what_readers_lose_by_rows_and_arrays_is_lost(self):
        verdict = self.rematerialized(self.large, lost=({"a": 1.0, "b": 2.0}, {"a": 3.0}))
        assert (verdict.lost, verdict.by) == (6.0, "its rows, or arrays")


def test_values_of_a_graph_have_numbers_of_their_own():
    """What these tests build values with."""
    graph = Graph([Value(5, (), ft.float32, ft.CPU)])
    assert [graph.value((), ft.float32).id for _ in range(2)] == [6, 7]
