"""Fusion: what can run together does where it pays, by each rule of the cost model."""

from __future__ import annotations

import pytest
from planned import crossing_shapes, operations, planned, same_on_jit

import fl_tensor as ft
from fl_jit.passes import fusion_cost

SHAPE = (256, 1024)


def deep(x):
    """Much to compute for each element."""
    return ft.exp(ft.tanh(ft.exp(x)))


# --- costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape,groups", [((20000, 3), 2), ((20000, 64), 1)])
def test_much_work_is_not_done_in_rows_that_are_shorter_than_a_vector(axis, shape, groups):
    fusion, _ = planned(lambda x: ft.sum(deep(x), axis), shape)
    assert len(fusion.groups) == groups
    said = " ".join(fusion.explain())
    assert ("rows are short" in said) is (groups == 2)


def test_little_work_is():
    fusion, _ = planned(lambda x: ft.sum(x * x, 1), (20000, 3))
    assert len(fusion.groups) == 1


@pytest.mark.parametrize("shape,groups", [((1, 1 << 18), 2), ((64, 1 << 12), 1)])
def test_much_work_is_not_left_to_a_few_threads(shape, groups):
    fusion, _ = planned(lambda x: ft.sum(deep(x), 1), shape)
    assert len(fusion.groups) == groups
    assert ("there are few rows" in " ".join(fusion.explain())) is (groups == 2)
    assert len(planned(lambda x: ft.sum(deep(x), 0), shape)[0].groups) == 1, "columns are shared"


@pytest.mark.parametrize("count,several", [(8, False), (60, True)])
def test_a_group_reads_no_more_arrays_than_processors_prefetch(count, several):
    def total(*arrays):
        found = arrays[0]
        for x in arrays[1:]:
            found = found + x
        return found

    fusion, _ = planned(total, *[SHAPE] * count)
    assert (len(fusion.groups) > 1) is several
    assert ("it reads many arrays" in " ".join(fusion.explain())) is several


def test_small_arrays_are_in_caches_however_many():
    fusion, _ = planned(lambda *xs: sum(xs[1:], xs[0]), *[(4, 4)] * 60)
    assert len(fusion.groups) == 1


# --- savings --------------------------------------------------------------------------------------


def gradients(g, x, mean):
    """Of rows and of columns, as layer normalisation has them."""
    y = x - mean
    return ft.sum(g * y, 0), g - ft.sum(g * y, 1, keepdims=True) * y


def test_groups_that_read_the_same_array_read_it_once():
    def function(x):
        return ft.exp(x), ft.tanh(x)

    fusion, _ = planned(function, SHAPE)
    assert operations(fusion) == [["exp", "tanh"]]
    same_on_jit(function, SHAPE)


def test_also_rows_and_columns():
    fusion, _ = planned(gradients, SHAPE, SHAPE, SHAPE[:1] + (1,))
    assert len(fusion.groups) == 1
    same_on_jit(gradients, SHAPE, SHAPE, SHAPE[:1] + (1,))


def test_rows_of_one_are_rows_of_both():
    def function(x):
        return ft.sum(ft.exp(x), 1), ft.tanh(x)

    fusion, _ = planned(function, SHAPE)
    (group,) = fusion.groups
    assert (group.row_axes, [m.form for m in group.members]) == (1, ["full", "row", "full"])
    same_on_jit(function, SHAPE)


def test_small_arrays_are_read_by_each():
    function = lambda x: (ft.exp(x), ft.tanh(x))  # noqa: E731
    assert operations(planned(function, (64, 128))[0]) == [["exp"], ["tanh"]]


def test_rows_of_other_lengths_stay_apart():
    def function(x):
        return ft.sum(ft.exp(x), 2), ft.sum(ft.tanh(x), (1, 2))

    fusion, _ = planned(function, (64, 64, 128))
    assert operations(fusion) == [["exp", "sum"], ["tanh", "sum"]]
    same_on_jit(function, (64, 64, 128))


def test_no_row_is_torn_apart_for_a_reader_of_another_shape():
    def function(x):
        y = ft.exp(x)
        return ft.sum(y, 1), ft.tanh(ft.reshape(y, (512, 64)))

    fusion, _ = planned(function, (1024, 32))
    assert [g.space for g in fusion.groups if g.row_axes] == [(1024, 32)]
    same_on_jit(function, (1024, 32))


def norms(*arrays):
    """Of each array, and of all."""
    each = [ft.sqrt(ft.sum(x * x)) for x in arrays]
    return ft.sqrt(ft.sum(ft.stack(each) * 2.0))


def test_numbers_for_the_same_readers_are_made_together():
    shapes = [(64, 64), (100,), (7, 8, 9), (50, 2)]
    fusion, _ = planned(norms, *shapes)
    assert operations(fusion).count(["sqrt"] * len(shapes)) == 1
    assert sum("sqrt" in group for group in operations(fusion)) == 2
    same_on_jit(norms, *shapes)
    few, _ = planned(norms, *shapes, most=2)
    assert operations(few).count(["sqrt"] * 2) == 2


def test_large_arrays_for_the_same_readers_stay_apart():
    fusion, _ = planned(lambda x, y: ft.exp(x) @ ft.tanh(y), (256, 256), (256, 256))
    assert operations(fusion) == [["exp"], ["tanh"], ["matmul"]]


def test_numbers_for_others_keep_nobody_waiting():
    def function(x, y, w):
        first, second = ft.sqrt(ft.sum(x * x)), ft.sqrt(ft.sum(y * y))
        return (x / first) @ w, (y / second) @ w, ft.stack([first, second])

    fusion, _ = planned(function, (64, 64), (64, 64), (64, 64))
    assert [group.count("sqrt") for group in operations(fusion) if "sqrt" in group] == [1, 1]


def test_not_where_one_waits_for_the_other():
    def function(x, w):
        return ft.tanh(x) * ft.sum(ft.exp(x) @ w)

    assert ["exp", "tanh"] not in operations(planned(function, SHAPE, SHAPE[::-1])[0])


def test_columns_of_other_shapes_are_the_same_columns():
    def function(x):
        y = ft.exp(x)
        return ft.sum(y, (0, 1)), ft.sum(ft.reshape(y, (512, 64)), 0), ft.sum(y, 2)

    fusion, _ = planned(function, (4, 128, 64))
    assert len(fusion.groups) == 1
    same_on_jit(function, (4, 128, 64))


# --- decisions ------------------------------------------------------------------------------------


def test_each_value_between_kernels_has_a_reason():
    def function(x, w):
        y = ft.exp(x)
        total = ft.sum(y, 0)
        return y * total, ft.tanh(total @ w)

    fusion, _ = planned(function, SHAPE, (1024, 4))
    assert set(fusion.unfused) >= set(crossing_shapes(fusion, SHAPE)) != set()
    assert "known only when the first has run" in " ".join(fusion.explain())


def test_a_plan_explains_itself():
    with ft.use("jit"):
        for _ in range(3):
            x = ft.ones((256, 128))
            y = ft.exp(x)
            ft.eval(y * ft.sum(y, 0))
            ft.jit.wait()
        plan = ft.jit.plans()[-1]
    assert "float32(128,)" in plan.explain()
    assert "known only when the first has run" in plan.to_dot()


def test_time_grows_with_the_graph(monkeypatch):
    """As many questions for each operation of a long graph as of a short one."""
    requested = [0]
    original = fusion_cost.together

    def together(*given):
        requested[0] += 1
        return original(*given)

    monkeypatch.setattr(fusion_cost, "together", together)

    def layers(count):
        def function(x, w):
            for _ in range(count):
                y = x @ w
                x = ft.exp(y) * ft.sum(y * y, 0) + ft.tanh(y) + x
            return x

        return function

    found = []
    for count in (10, 40):
        requested[0] = 0
        planned(layers(count), (64, 64), (64, 64))
        found.append(requested[0])
    assert found[1] <= 4.5 * found[0]
