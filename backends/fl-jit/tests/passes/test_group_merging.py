"""Merging groups: which two run together, why others do not, and what one group is made of then."""

from __future__ import annotations

import pytest
from planned import fusible

import fl_tensor as ft
from fl_jit.passes import fusion_cost
from fl_jit.passes.group import Group, Member, form_of, iteration_space, read, rows_of
from fl_jit.passes.group_merging import Merging
from fl_jit.passes.reduction_forms import split, without_keepdims
from fl_tensor.graph.cse import cse
from fl_tensor.graph.strides import VIEWS, layouts
from fl_tensor.testing.graphs import recorded

SHAPE = (256, 1024)
#: So small that it is in a cache.
SMALL = (4, 4)


def apart(function, *shapes, most=96):
    """Each operation of a function in a group of its own, views in none."""
    graph, _ = recorded(function, *shapes)
    graph = split(cse(without_keepdims(graph))).prune()
    merging = Merging(layouts(graph), most)
    for number, node in enumerate(graph.nodes):
        if node.op in VIEWS and merging.layouts[node.outputs[0]].root is not node.outputs[0]:
            continue
        reads = dict.fromkeys(merging.layouts[v].root for v in node.operands)
        group = Group(number, iteration_space(node) if fusible(node) else None)
        merging.by_number[number] = group
        before = [merging.home[r].number for r in reads if r in merging.home]
        merging.precedence.add(number, before)
        member = Member(node, [], "full")
        if group.space is not None:
            member.form = form_of(node, 0)
            group.row_axes = rows_of(node, member.form, 0)
            member.strides = [
                read(v, merging.layouts, group.space, group.space) for v in node.operands
            ]
        merging.add_member(member, group, reads)
    return merging


def group_of(merging, op):
    (found,) = [g for g in merging.by_number.values() if op in [node.op for node in g.nodes]]
    return found


def obstacle(merging, one, other):
    return merging.obstacle(group_of(merging, one), group_of(merging, other))


def operations(merging):
    return sorted([node.op for node in group.nodes] for group in merging.by_number.values())


# --- obstacles ------------------------------------------------------------------------------------


def chain(x):
    return ft.tanh(ft.exp(x))


def test_what_one_makes_is_read_by_the_other():
    assert obstacle(apart(chain, SHAPE), "exp", "tanh") is None


def test_kernels_of_others_run_alone():
    merging = apart(lambda x, w: ft.exp(x @ w), SHAPE, SHAPE[::-1])
    assert obstacle(merging, "matmul", "exp") == "one of them runs alone"


@pytest.mark.parametrize("most,said", [(2, None), (1, "together they have more than 1 operations")])
def test_a_group_has_so_many_operations_at_most(most, said):
    assert obstacle(apart(chain, SHAPE, most=most), "exp", "tanh") == said


def test_rows_are_of_one_length():
    def function(x):
        return ft.sum(x, 2), ft.max(x, (1, 2))

    assert obstacle(apart(function, (64, 32, 128)), "sum", "max") == "their rows differ"


def test_rows_and_elements_go_together():
    assert obstacle(apart(lambda x: (ft.sum(x, 1), ft.exp(x)), SHAPE), "sum", "exp") is None


def test_no_third_group_runs_between_them():
    merging = apart(lambda x, w: ft.exp(x) + ft.tanh(ft.exp(x) @ w), (256, 256), (256, 256))
    assert obstacle(merging, "exp", "tanh") == "a third group has to run between them"
    assert obstacle(merging, "exp", "add") == "a third group has to run between them"
    assert obstacle(merging, "tanh", "add") is None


def test_they_go_over_as_many_elements():
    merging = apart(lambda x, y: (ft.exp(x), ft.tanh(y)), SHAPE, (256, 512))
    said = "they go over elements in different ways"
    assert obstacle(merging, "exp", "tanh") == said
    assert obstacle(merging, "tanh", "exp") == said


def test_in_another_shape_elements_are_the_same_but_rows_are_not():
    def elements(x):
        return ft.tanh(ft.reshape(ft.exp(x), (1024, 256)))

    def rows(x, y):
        return ft.sum(x, 1), ft.reshape(x, (512, 512)) + y

    assert obstacle(apart(elements, SHAPE), "exp", "tanh") is None
    assert obstacle(apart(rows, SHAPE, (512, 512)), "sum", "add") is None
    assert obstacle(apart(rows, SHAPE, (512, 512)), "add", "sum") is None
    said = "they go over elements in different ways"
    assert obstacle(apart(rows, SHAPE, (512, 1)), "sum", "add") == said


def test_a_sum_of_columns_is_known_when_all_has_run():
    merging = apart(lambda x: ft.exp(x) - ft.sum(x, 0), SHAPE)
    assert obstacle(merging, "sum", "subtract") == "it is known only when the first has run"


def test_a_sum_of_rows_is_known_in_time():
    merging = apart(lambda x: ft.exp(x) - ft.sum(x, 1, keepdims=True), SHAPE)
    assert obstacle(merging, "sum", "subtract") is None


@pytest.mark.parametrize(
    "moved",
    [
        lambda y: ft.permute(y, (1, 0)),
        lambda y: y[::-1],
        lambda y: ft.broadcast_to(y[:1], (256, 256)),
    ],
    ids=["transposed", "backwards", "the first row alone"],
)
def test_elements_are_read_where_they_are_made(moved):
    merging = apart(lambda x: ft.tanh(moved(ft.exp(x))), (256, 256))
    assert obstacle(merging, "exp", "tanh") == "elements are read elsewhere than they are made"


def test_what_does_not_pay_says_by_how_much(monkeypatch):
    merging = apart(chain, SHAPE)
    monkeypatch.setattr(
        fusion_cost, "losses", lambda *_: {"rows are short": 1e9, "it reads many arrays": 0.0}
    )
    said = obstacle(merging, "exp", "tanh")
    saved = (fusion_cost.LAUNCH + 4 * 256 * 1024) / 1e6
    assert said == f"saves {saved:.2f} MB, costs 1000.00 MB (rows are short)"


# --- merged ---------------------------------------------------------------------------------------


def test_a_merged_group_reads_only_what_comes_from_outside():
    merging = apart(lambda x, y: ft.tanh(ft.exp(x) + y), SHAPE, SHAPE)
    exp, add, tanh = (group_of(merging, op) for op in ("exp", "add", "tanh"))
    x, y = (root for group in (exp, add) for root in group.reads if root not in merging.home)
    merging.merge(exp, add)
    assert operations(merging) == [["exp", "add"], ["tanh"]] and list(add.reads) == [x, y]
    merging.merge(add, tanh)
    assert operations(merging) == [["exp", "add", "tanh"]] and list(tanh.reads) == [x, y]
    assert set(merging.home.values()) == {tanh}
    assert merging.precedence.order() == [tanh.number]


def test_others_wait_for_all_of_a_merged_group():
    def function(x, y, w):
        return ft.exp(x), ft.tanh(y @ w), ft.negative(ft.exp(x) @ w)

    merging = apart(function, (256, 256), (256, 256), (256, 256))
    exp, tanh, negative = (group_of(merging, op) for op in ("exp", "tanh", "negative"))
    assert not merging.precedence.needs(negative.number, tanh.number)
    merging.merge(exp, tanh)
    assert merging.precedence.needs(negative.number, tanh.number)
    order = merging.precedence.order()
    assert exp.number not in order and order.index(tanh.number) < order.index(negative.number)


def test_a_merged_group_has_the_rows_of_either_and_one_space():
    def function(x):
        return ft.sum(x, 1), ft.exp(ft.reshape(x, (16, 16, 1024)))

    for first, second in (("sum", "exp"), ("exp", "sum")):
        merging = apart(function, SHAPE)
        one, other = group_of(merging, first), group_of(merging, second)
        assert merging.obstacle(one, other) is None
        merging.merge(one, other)
        assert other.row_axes == 1 and other.space in (SHAPE, (16, 16, 1024))
        assert all(len(s) == len(other.space) for m in other.members for s in m.strides)


# --- who joins ------------------------------------------------------------------------------------


def readers(x):
    return ft.exp(x), ft.tanh(x), ft.negative(x)


def test_readers_of_one_large_array_become_one():
    merging = apart(readers, SHAPE)
    merging.join_readers()
    (found,) = operations(merging)
    assert sorted(found) == ["exp", "negative", "tanh"]


def test_readers_of_a_small_array_do_not():
    merging = apart(readers, SMALL)
    merging.join_readers()
    assert operations(merging) == [["exp"], ["negative"], ["tanh"]]


def test_readers_that_repeat_an_array_do_not():
    shapes = (512, 512), (2, 512, 512), (2, 512, 512)
    merging = apart(lambda x, y, z: (x + y, x * z), *shapes)
    merging.join_readers()
    assert operations(merging) == [["add"], ["multiply"]]


def test_a_reader_that_makes_what_another_reads_comes_first():
    # Readers of x: add and multiply; then those of y: these two, and tanh.
    merging = apart(lambda x, y: (x + y, x * ft.tanh(y)), SHAPE, SHAPE)
    merging.join_readers()
    (members,) = operations(merging)
    assert members.index("tanh") < members.index("multiply")


def norms(x, y, w):
    first, second = ft.sqrt(ft.sum(x)), ft.sqrt(ft.sum(y))
    return ft.stack([first, second]) @ w


def test_numbers_for_the_same_readers_become_one_group():
    merging = apart(norms, SMALL, (5, 5), (2, 2))
    merging.join_numbers()
    assert operations(merging).count(["sqrt", "sqrt"]) == 1


def test_numbers_for_other_readers_do_not():
    def function(x, y, w):
        return ft.stack([ft.sqrt(ft.sum(x))] * 2) @ w, ft.stack([ft.sqrt(ft.sum(y))] * 2) @ w

    merging = apart(function, SMALL, (5, 5), (2, 2))
    merging.join_numbers()
    assert operations(merging).count(["sqrt"]) == 2


def test_arrays_for_the_same_readers_do_not():
    merging = apart(lambda x, y: ft.exp(x) @ ft.tanh(y), (256, 256), (256, 256))
    merging.join_numbers()
    assert operations(merging) == [["exp"], ["matmul"], ["tanh"]]
