"""ft.compile: a function captured once, and the graph run in its place."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest

import fl_tensor as ft

BACKENDS = [name for name in ft.available_backends() if name in ("numpy", "jit")]


@pytest.fixture(autouse=True, params=BACKENDS)
def backend(request):
    with ft.use(request.param):
        yield request.param


def array(*shape, seed=0):
    return ft.Generator(seed).normal(shape)


def bits(x):
    return ft.asarray(x).numpy().tobytes()


def close(x, y):
    return ft.allclose(x, y, rtol=1e-5, atol=1e-6)


# ---- what runs, and when -------------------------------------------------------------------------


def test_first_call_is_eager_and_later_calls_run_the_graph():
    compiled = ft.compile(lambda x: ft.exp(x) + 1)
    for seed in range(5):
        x = array(3, seed=seed)
        assert close(compiled(x), ft.exp(x) + 1)
    assert (compiled.calls, compiled.compiled_calls) == (5, 4)


def test_every_kind_of_arguments_has_a_graph_of_its_own():
    compiled = ft.compile(lambda x, n: x * n if n > 2 else x - n)
    for x in (array(3), array(2, 2), array(3).astype("float64")):
        for n in (1, 5):
            for _ in range(3):
                got = compiled(x, n)
                assert got.dtype == x.dtype and close(got, x * n if n > 2 else x - n)
    assert compiled.compiled_calls == 6 * 2


def test_floats_are_no_part_of_the_kind():
    compiled = ft.compile(lambda x, lr: (x * lr + lr / 2, lr * 3))
    for i in range(6):
        y, number = compiled(array(3), 0.5 + i)
        assert close(y, array(3) * (0.5 + i) + (0.5 + i) / 2) and number == (0.5 + i) * 3
    assert compiled.compiled_calls == 5


def test_a_decision_by_a_float_is_taken_anew():
    compiled = ft.compile(lambda x, p: x * p if p > 0.5 else x - p)
    for p in (0.1, 0.2, 0.9, 0.3, 0.8, 0.5):
        assert close(compiled(array(3), p), array(3) * p if p > 0.5 else array(3) - p)
    assert compiled.compiled_calls == 5


@pytest.mark.parametrize("use", [int, round, lambda p: hash(p) % 7, lambda p: range(int(p)).stop])
def test_a_float_that_becomes_a_plain_number_is_a_guard(use):
    compiled = ft.compile(lambda x, p: x + use(p))
    for p in (1.0, 2.0, 1.0, 2.0, 3.0):
        assert close(compiled(array(3), p), array(3) + use(p))


def test_a_float_that_loses_its_expression_is_never_frozen():
    """C code reads the value of a float without asking it."""
    compiled = ft.compile(lambda x, p: x * math.sqrt(p))
    for p in (1.0, 4.0, 9.0, 16.0):
        assert close(compiled(array(3), p), array(3) * math.sqrt(p))
    assert compiled.compiled_calls == 0 and "not do the same twice" in compiled.explain()


def test_trees_go_in_and_come_out():
    def f(pair, *, options):
        return {"sum": pair[0] + pair[1], "rest": [options["scale"] * pair[0], None, "text"]}

    compiled = ft.compile(f)
    for _ in range(3):
        got = compiled((array(2), array(2, seed=1)), options={"scale": array(2, seed=2)})
        assert list(got) == ["sum", "rest"] and got["rest"][1:] == [None, "text"]
        assert close(got["sum"], array(2) + array(2, seed=1))
        assert close(got["rest"][0], array(2) * array(2, seed=2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x,  # a result that is an argument, an argument that is not used
        lambda x, y: (y, y, x),  # one value several times
        lambda x, y: (),
        lambda x, y: ft.zeros((2, 2)),  # nothing of the arguments
        lambda x, y: ft.asarray([1.0, 2.0]) + x,
        lambda x, y: ft.topk(x, 2),  # an operation with two results
        lambda x, y: ft.concatenate([x, y, x]),
        lambda x, y: ft.gather(x, ft.asarray([0, 2, 1])),
    ],
)
def test_results_of_every_kind(function):
    compiled = ft.compile(function, strict=True)
    x, y = array(3), array(3, seed=1)
    if "1.0, 2.0" in str(function.__code__.co_consts):
        x = x[:2]
    for _ in range(3):
        got, wanted = compiled(x, y), function(x, y)
        parts = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
        assert all(close(a, b) for a, b in parts)


# ---- variables around the function ---------------------------------------------------------------


class Holder:
    def __init__(self):
        self.arrays = {"scale": array(3, seed=4)}

    def __call__(self, x):
        return x * self.arrays["scale"]


def test_arrays_around_a_function_are_read_at_each_call():
    weight, table = array(3, seed=1), array(5, 3, seed=2)

    def inner(x):
        return ft.take(table, ft.argmax(x, 0), 0) + ft.exp(weight)

    def f(x):
        return inner(x) * 2

    compiled = ft.compile(f, strict=True)
    for seed in range(3):
        assert close(compiled(array(3, seed=seed)), f(array(3, seed=seed)))
    weight = array(3, seed=9)
    table = table * 2
    assert close(compiled(array(3)), f(array(3)))
    weight = array(1, seed=9)  # of another shape
    assert close(compiled(array(3)), f(array(3)))
    assert compiled.compiled_calls == 4 and len(compiled.explain().splitlines()) == 3


def test_arrays_of_an_object_are_found():
    holder = Holder()
    compiled = ft.compile(holder, strict=True)
    for _ in range(2):
        assert close(compiled(array(3)), holder(array(3)))
    holder.arrays["scale"] = array(3, seed=8)
    assert close(compiled(array(3)), holder(array(3)))
    assert compiled.compiled_calls == 2


def test_data_of_arrays_around_a_function_are_not_looked_at():
    flag = array(1)
    compiled = ft.compile(lambda x: x if flag.item() > 0 else -x)
    for _ in range(3):
        compiled(array(3))
    assert compiled.compiled_calls == 0 and "looks at data" in compiled.explain()


# ---- random streams ------------------------------------------------------------------------------


def test_random_numbers_go_on_as_without(backend):
    def f(x):
        return x + ft.rand((4,)), ft.random.permutation(5)

    compiled = ft.compile(f, strict=True)
    ft.seed(7)
    wanted = [f(array(4)) for _ in range(5)]
    after = ft.default_generator().state()
    ft.seed(7)
    got = [compiled(array(4)) for _ in range(5)]
    assert ft.default_generator().state() == after
    assert [bits(b) for _, b in got] == [bits(b) for _, b in wanted]
    assert all(close(a, b) for (a, _), (b, _) in zip(got, wanted, strict=True))


def test_reseeding_between_calls():
    compiled = ft.compile(lambda: ft.rand((3,)))
    for seed in (1, 1, 2, 3, 2):
        ft.seed(seed)
        assert bits(compiled()) == bits(ft.Generator(seed).uniform((3,)))
    assert compiled.compiled_calls == 4


# ---- what has no graph ---------------------------------------------------------------------------


NUMBERS = itertools.count()


def counter():
    state = {"n": 0}

    def f(x):
        state["n"] += 1
        return x * state["n"]

    return f


def rebinding():
    n = 1000

    def f(x):
        nonlocal n
        n += 1
        return x * n

    return f


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: x if x.sum().item() > 0 else -x, "no data"),
        (lambda x: x if ft.any(x > 0) else -x, "no data"),
        (lambda x: x + float(x[0]), "no data"),
        (lambda x: ft.nonzero(x), "not zero"),
        (counter(), "it changes state"),
        (rebinding(), "it changes"),
        (lambda x: x + next(NUMBERS), "not do the same twice"),
    ],
)
def test_it_runs_as_it_is_and_says_why(function, reason):
    compiled = ft.compile(function)
    for _ in range(3):
        compiled(array(3))
    assert compiled.compiled_calls == 0
    assert "not compiled" in compiled.explain()
    with pytest.raises(ft.CaptureError, match=reason):
        strict = ft.compile(function, strict=True)
        for _ in range(3):
            strict(array(3))


def test_arrays_that_no_variable_holds_are_refused():
    hidden = itertools.cycle([array(3)])
    compiled = ft.compile(lambda x: x + next(hidden))
    for _ in range(3):
        compiled(array(3))
    assert compiled.compiled_calls == 0 and "nor variables around it" in compiled.explain()


def test_a_function_with_effects_has_them_once_a_call():
    seen, counts = [], {"calls": 0}

    def f(x):
        seen.append(x)
        counts["calls"] += 1
        return x + 1

    compiled = ft.compile(f)
    given = [array(3, seed=i) for i in range(4)]
    for x in given:
        compiled(x)
    assert all(a is b for a, b in zip(seen, given, strict=True)) and counts == {"calls": 4}
    assert compiled.compiled_calls == 0 and "it changes counts, seen" in compiled.explain()


def test_a_function_that_changes_its_arguments_has_no_graph():
    def assign(x):
        x[0] = 7.0
        return x * 2

    def take_out(options):
        return options.pop("x") + 1

    compiled = ft.compile(assign)
    for _ in range(3):
        x = array(3)
        compiled(x)
        assert x[0].item() == 7.0
    assert compiled.compiled_calls == 0 and "it changes its arguments" in compiled.explain()
    compiled = ft.compile(take_out)
    for _ in range(3):
        options = {"x": array(3)}
        compiled(options)
        assert options == {}
    assert compiled.compiled_calls == 0 and "it changes its arguments" in compiled.explain()


def test_a_function_that_assigns_to_an_array_around_it_has_no_graph():
    weight = array(3)

    def f(x):
        weight[0] = weight[0] + 1.0
        return x * weight

    compiled = ft.compile(f)
    first = weight[0].item()
    for i in range(4):
        compiled(array(3))
        assert weight[0].item() == pytest.approx(first + i + 1)
    assert compiled.compiled_calls == 0 and "it changes weight" in compiled.explain()


def test_large_containers_around_a_function_cost_nothing():
    table = list(range(1_000_000))
    compiled = ft.compile(lambda x: x + len(table), strict=True)
    for _ in range(3):
        assert close(compiled(array(3)), array(3) + 1_000_000)


def test_the_reason_names_the_line():
    def f(x):
        y = x * 2
        return y if y.sum().item() > 0 else -y

    compiled = ft.compile(f)
    compiled(array(3)), compiled(array(3))
    assert f"test_compile.py:{f.__code__.co_firstlineno + 2}" in compiled.explain()


def test_an_error_of_the_function_is_raised_as_without():
    compiled = ft.compile(lambda x, y: x + y)
    for _ in range(3):
        with pytest.raises(ft.ShapeError):
            compiled(array(3), array(4))
    assert compiled.compiled_calls == 0


def test_values_are_checked_by_the_first_call_and_by_every_nth():
    compiled = ft.compile(ft.cross_entropy, check_every=4)
    good, bad = ft.asarray([0, 1]), ft.asarray([0, 9])
    with pytest.raises(ft.FlError):
        compiled(array(2, 3), bad)
    for _ in range(2):
        compiled(array(2, 3), good)
    with pytest.raises(ft.FlError):
        compiled(array(2, 3), bad)
    assert compiled.calls == 4


def test_cache_limit_falls_back_to_eager_with_a_warning():
    compiled = ft.compile(lambda x: x + 1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, 12):
            for _ in range(2):
                assert close(compiled(array(n)), array(n) + 1)
    assert compiled.compiled_calls == 8
    assert [str(w.message) for w in seen if "8 graphs" in str(w.message)]


def test_layers_see_the_operations_of_the_function():
    compiled = ft.compile(lambda x: ft.exp(x) + 1)
    for _ in range(3):
        compiled(array(3))
    with ft.override(add=lambda inner, x, y: inner.subtract(x, y)):
        assert close(compiled(array(3)), ft.exp(array(3)) - 1)
    x = array(3)
    with ft.trace() as graph:
        compiled(x)
    assert [node.op for node in graph.nodes if node.op != "full"] == ["exp", "add"]


def test_settings_are_part_of_the_kind():
    compiled = ft.compile(lambda: ft.zeros((2,)) + 1)
    for _ in range(3):
        assert compiled().dtype == ft.float32
    with ft.default_dtype("float64"):
        for _ in range(3):
            assert compiled().dtype == ft.float64


def test_arguments_without_a_hash_are_no_error():
    compiled = ft.compile(lambda x, s: x + len(s))
    for _ in range(3):
        assert close(compiled(array(3), {1, 2}), array(3) + 2)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ft.DTypeError, match="compile"):
        ft.compile(3)


# ---- the graph -----------------------------------------------------------------------------------


def test_the_graph_has_names_and_expressions():
    graph = ft.compile(lambda x, p: x * (p + 1.0)).graph(array(3), 0.5)
    assert [v.type for v in graph.inputs] == ["float32(3,)"]
    assert "float((n0 + 1.0))" in str(graph)


def test_explain_tells_what_was_captured():
    compiled = ft.compile(lambda x: ft.exp(x) * 2)
    for _ in range(3):
        compiled(array(3))
    head, line = compiled.explain().splitlines()
    assert head.endswith("2 of 3 calls ran a graph")
    assert line.startswith("captured 3 operations in") and "float32(3,)" in line


def test_the_variables_of_libraries_are_theirs():
    """They may fill caches."""
    namespace: dict = {"cache": {}}
    exec("def twice(x):\n    cache[len(cache)] = x.shape\n    return x * 2\n", namespace)
    twice = namespace["twice"]
    compiled = ft.compile(lambda x: twice(x) + 1, strict=True)
    for _ in range(3):
        assert close(compiled(array(3)), array(3) * 2 + 1)
    assert compiled.compiled_calls == 2


def test_a_compiled_function_may_call_another_one():
    held = [array(3, seed=1)]
    inner = ft.compile(lambda x: x * held[0])
    outer = ft.compile(lambda x: inner(x) + 1, strict=True)
    for seed in range(4):
        held[0] = array(3, seed=seed)
        assert close(outer(array(3)), array(3) * held[0] + 1)
    assert outer.compiled_calls == 3
