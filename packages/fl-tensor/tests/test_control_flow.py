"""``cond``, ``while_loop`` and ``scan``: on values, in graphs, in compiled functions, in files."""

import json
from pathlib import Path

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.errors import (
    ArgumentError,
    CaptureError,
    DTypeError,
    FlError,
    NoDataError,
    ShapeError,
)
from fl_tensor.graph import Graph
from fl_tensor.graph.constant_folding import fold_constants
from fl_tensor.graph.cse import cse

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "acme-backend" / "src"


@pytest.fixture(params=["numpy", "jit", "acme"], autouse=True)
def backend(request, monkeypatch):
    """Two of ours, and one in pure Python from outside, which knows nothing of control flow."""
    if request.param == "acme":
        monkeypatch.syspath_prepend(str(EXAMPLE))
        made = pytest.importorskip("acme_backend").AcmeBackend()
    else:
        pytest.importorskip("fl_jit" if request.param == "jit" else "numpy")
        made = request.param
    with ft.use(made) as used:
        yield used


def array(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return ft.asarray(values.tolist()).astype("float32")


def flat(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [x for part in tree for x in flat(part)] if isinstance(tree, (tuple, list)) else [tree]


def assert_close(got, wanted):
    pairs = list(zip(flat(got), flat(wanted), strict=True))
    assert pairs
    for a, b in pairs:
        assert a.shape == b.shape and a.dtype is b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-6, atol=1e-6)


def check(function, *operands):
    """Equal on values, by a graph, by a graph from a file, and compiled. Returns the graph."""
    wanted = function(*operands)
    with ft.trace() as graph:
        for x in operands:
            graph.input(x)
        graph.output(*flat(function(*operands)))
    more = [] if len(graph.inputs) == len(operands) else None
    if more is not None:
        assert_close(graph(*operands), wanted)
        again = Graph.from_json(graph.to_json())
        assert str(again) == str(graph) and again.to_json() == graph.to_json()
        assert_close(again(*operands), wanted)
    compiled = ft.compile(function, strict=True)
    for _ in range(3):
        assert_close(compiled(*operands), wanted)
    assert compiled.compiled_calls == 2
    return graph


def names(graph):
    return [node.op for node in graph.nodes]


# ---- what they compute ---------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_is_one_node_and_takes_the_branch_of_its_operands(sign):
    def f(x):
        return ft.cond(ft.sum(x) > 0, lambda x: x * 2, lambda x: -x, x)

    x = ft.asarray([1.0, 2.0, 3.0]) * sign
    assert_close(f(x), x * 2 if sign > 0 else -x)
    graph = check(f, x)
    assert names(graph).count("cond") == 1 and "multiply" not in names(graph)
    assert_close(graph(-x), [f(-x)])


def test_while_loop_ends_by_its_test():
    def f(a, b):
        return ft.while_loop(lambda a, b: ft.all(b > 0.1), lambda a, b: (a + 1, b / 2), (a, b))

    a, b = f(ft.asarray(0.0), ft.asarray([1.0, 4.0]))
    assert a.item() == 4 and b.tolist() == [0.0625, 0.25]
    graph = check(f, ft.asarray(0.0), ft.asarray([1.0, 4.0]))
    assert names(graph) == ["while_loop"]
    assert_close(
        graph(ft.asarray(0.0), ft.asarray([100.0, 4.0])),
        f(ft.asarray(0.0), ft.asarray([100.0, 4.0])),
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_gives_the_last_carry_and_the_values_of_steps(reverse):
    def f(c, xs):
        return ft.scan(lambda c, x: (c + x, c * x), c, xs, reverse=reverse)

    start, xs = array(2), array(4, 2, seed=1)
    carry, ys = f(start, xs)
    now, wanted = start, [None] * 4
    for t in reversed(range(4)) if reverse else range(4):
        now, wanted[t] = now + xs[t], now * xs[t]
    assert_close([carry, ys], [now, ft.stack(wanted)])
    assert names(check(f, start, xs)) == ["scan"]


@pytest.mark.parametrize("steps", [0, 1])
def test_no_steps_and_one(steps):
    def f(c, xs):
        return ft.scan(lambda c, x: (c + x, {"sum": c, "sign": x > 0}), c, xs)

    start, xs = array(3), array(steps, 3)
    carry, ys = f(start, xs)
    assert ys["sum"].shape == (steps, 3) and ys["sign"].dtype is ft.bool
    assert steps or carry.tolist() == start.tolist()
    check(f, start, xs)


def test_what_gives_nothing_is_no_node():
    with ft.trace() as graph:
        x = array(3) + 0
        ft.cond(ft.sum(x) > 0, lambda: (), lambda: ())
        assert ft.scan(lambda c, x: (None, None), None, x) == (None, None)
        graph.output(x)
    assert not {"cond", "scan"}.intersection(names(graph))


def test_passes_keep_their_meaning():
    def f(x):
        c, ys = ft.scan(lambda c, x: (c * x, ft.sin(c)), ft.ones((3,)), ft.ones((4, 3)))
        one, other = [
            ft.cond(ft.sum(x) > 0, lambda v=v: ft.asarray([v]), lambda: ft.zeros((1,)))
            for v in (1.0, 2.0)
        ]
        return c + x, ys, one, other

    x = ft.asarray([1.0, 2.0, 3.0])
    with ft.trace() as graph:
        graph.input(x)
        graph.output(*f(x))
    for apply in (cse, fold_constants):  # both conds have the same text
        assert_close(apply(graph).prune()(x), f(x))
    assert names(cse(graph)).count("cond") == 2


def test_no_trips():
    def f(x):
        return ft.while_loop(lambda x: ft.sum(x) < -100, lambda x: x * 2, x)

    x = array(3)
    assert f(x).tolist() == x.tolist()
    check(f, x)


def test_trees_and_numbers_of_carries():
    def f(x):
        start = {"n": 0, "pair": [x, None], "half": 0.5}

        def body(carry, _):
            pair = [carry["pair"][0] * carry["half"], None]
            return {"n": carry["n"] + 1, "pair": pair, "half": 0.25}, None

        carry, ys = ft.scan(body, start, length=3)
        assert ys is None and carry["pair"][1] is None
        return carry["n"], carry["pair"][0], carry["half"]

    n, x, half = f(array(2))
    assert n.item() == 3 and n.dtype.is_integer and half.item() == 0.25
    assert_close(x, array(2) * (0.5 * 0.25 * 0.25))
    check(f, array(2))


def test_bodies_in_bodies():
    def f(x, xs):
        def row(c, x):
            def halve(a):
                return ft.while_loop(lambda a: ft.max(a) > 1, lambda a: a / 2, a)

            c = ft.cond(ft.sum(c) > 0, halve, lambda a: a * a + x, c + x)
            inner, ys = ft.scan(lambda d, _: (d * 0.5 + c, d), x, length=2)
            return inner, ys

        return ft.scan(row, x, xs)

    for seed in range(3):
        graph = check(f, array(3, seed=seed), array(4, 3, seed=9 - seed) * 3)
    assert names(graph) == ["scan"]


def test_what_a_body_uses_from_around_it_is_an_operand():
    w, b = array(3, 3, seed=1), array(3, seed=2)

    def f(x, xs):
        inside = x * 2
        shift = ft.sum(w)

        def body(c, x):
            return ft.tanh(c @ w + w[0] + inside), c + b + shift + x

        c, ys = ft.scan(body, x, xs)
        d = ft.cond(ft.sum(c) > 0, lambda: w @ c, lambda: inside)
        return c, ys, d

    check(f, array(3), array(2, 3))
    compiled = ft.compile(f, strict=True)
    compiled(array(3), array(2, 3))
    for seed in (3, 4):  # another value of a variable is seen
        w = array(3, 3, seed=seed)
        assert_close(compiled(array(3), array(2, 3)), f(array(3), array(2, 3)))
    assert compiled.compiled_calls == 2


def test_a_number_that_changes_is_an_operand():
    compiled = ft.compile(
        lambda x, p: ft.scan(
            lambda c, x: (c * p + x, ft.cond(ft.sum(c) > p, lambda: c * p, lambda: c)), x[0], x
        ),
        strict=True,
    )
    x = array(3, 2)
    for p in (0.5, 0.25, 2.0):
        got = compiled(x, p)
        assert_close(got[0], ((x[0] * p + x[0]) * p + x[1]) * p + x[2])
    assert compiled.compiled_calls == 2


def test_branches_hand_back_what_they_are_given():
    def f(x, y):
        kept, other, zero = ft.cond(
            ft.sum(x) > 0, lambda: (x, y, ft.zeros(())), lambda: (y, y, ft.zeros(()))
        )
        return kept + 1, other, zero, ft.zeros(()) + 1

    for sign in (1, -1):
        check(f, ft.asarray([1.0, 2.0]) * sign, ft.asarray([3.0, 4.0]))
    with ft.trace() as graph:
        x, y = ft.asarray([1.0, 2.0]) + 0, ft.asarray([3.0, 4.0]) + 0
        graph.output(*f(x, y))
    assert names(graph).count("cond") == 1


def test_over_null_types_alone():
    with ft.use("null"):
        x = ft.zeros((3,))
        y = ft.cond(ft.sum(x) > 0, lambda: x @ ft.zeros((3, 4)), lambda: ft.ones((4,)))
        z = ft.while_loop(lambda a: ft.all(a > 0), lambda a: a - 1, x)
        c, ys = ft.scan(lambda c, x: (c, x > 0), z, ft.zeros((10**6, 3)))
    assert (y.shape, z.shape, c.shape, ys.shape) == ((4,), (3,), (3,), (10**6, 3))


def test_layers_see_the_parts_and_replace_them():
    def f(x):
        return ft.scan(lambda c, x: (c + x, c), x[0], x)

    x = array(3, 2)
    with ft.trace() as graph:
        graph.input(x)
        graph.output(*f(x))
    with ft.override(add=lambda inner, x, y: inner.subtract(x, y)):
        assert_close(graph(x)[0], x[0] - x[0] - x[1] - x[2])
        with ft.trace() as again:
            again.output(*f(x))
    assert "scan" in names(again)


def test_on_values_the_functions_themselves_run():
    seen = []
    ft.scan(lambda c, x: (seen.append(c.item()) or c + x, None), ft.asarray(0.0), ft.arange(3.0))
    assert seen == [0.0, 0.0, 1.0]
    assert ft.cond(True, lambda: 1, lambda: 2) == 1


# ---- what is refused -----------------------------------------------------------------------------


def both(function):
    """The errors on values, and while something captures."""
    found = []
    for capture in (False, True):
        with pytest.raises(FlError) as error:
            if capture:
                with ft.trace():
                    function()
            else:
                function()
        found.append(error.value)
    return found


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (lambda c, x: (c.astype("int32"), None), DTypeError, "array 0 .* float32.* int32"),
        (lambda c, x: (c[0], None), ShapeError, r"array 0 .*\(2,\), .*float32\(\)"),
        (lambda c, x: ((c, c), None), ArgumentError, "the same structure"),
        (lambda c, x: c, ArgumentError, "expected .carry, y."),
        (lambda c, x: (c, "text"), DTypeError, "a str: expected arrays"),
    ],
)
def test_the_next_carry_is_like_the_carry(body, kind, text):
    for error in both(lambda: ft.scan(body, ft.zeros((2,)), ft.zeros((3,)))):
        assert type(error) is kind
        assert error.args[0].startswith("[scan]") and pytest.raises(kind, match=text)
        with pytest.raises(kind, match=text):
            raise error


def test_branches_give_the_same_types():
    x = array(3)
    for other, kind in (
        (lambda: x[0], ShapeError),
        (lambda: (x,), ArgumentError),
        (lambda: x > 0, DTypeError),
    ):
        with ft.trace(), pytest.raises(kind, match="the branches"):
            ft.cond(ft.sum(x) > 0, lambda: x, other)


def test_loops_end():
    def f(x):
        return ft.while_loop(lambda a: a < 10, lambda a: a + 1, x, most=5)

    with ft.trace() as graph:
        graph.output(f(ft.asarray(6.0) + 0))
    assert graph.run(ft.current_backend(), [])
    for run in (f, ft.compile(f)):
        for _ in range(3):
            assert run(ft.asarray(5.0)).item() == 10
            with pytest.raises(ArgumentError, match="after 5 trips"):
                run(ft.asarray(4.0))


def test_random_numbers_and_reads_in_bodies_are_no_graph():
    def draws(x):
        return ft.scan(lambda c, x: (c + ft.random.default_generator().normal((2,)), c), x[0], x)

    def reads(x):
        return ft.scan(lambda c, x: (c * x[0].item(), c), x[0], x)

    x = array(3, 2)
    with ft.trace(), pytest.raises(CaptureError, match="draw random numbers before"):
        draws(x)
    with ft.trace(), pytest.raises(NoDataError, match=r"ft\.cond"):
        reads(x)
    compiled = ft.compile(reads)
    for _ in range(3):
        assert_close(compiled(x), reads(x))
    assert compiled.compiled_calls == 0 and "ft.cond" in compiled.explain()


@pytest.mark.parametrize(
    "call",
    [
        lambda: ft.scan(lambda c, x: (c, x), 0.0),
        lambda: ft.scan(lambda c, x: (c, x), 0.0, ft.zeros((2,)), length=3),
        lambda: ft.scan(lambda c, x: (c, x), 0.0, (ft.zeros((2,)), ft.zeros((3,)))),
        lambda: ft.scan(lambda c, x: (c, x), 0.0, ft.zeros(())),
        lambda: ft.scan(lambda c, x: (c, x), 0.0, length=-1),
        lambda: ft.scan(None, 0.0, length=1),
        lambda: ft.scan(lambda c, x: (c, x), object(), length=1),
        lambda: ft.cond(ft.zeros((2,)) > 0, lambda: 1, lambda: 2),
        lambda: ft.cond("yes", lambda: 1, lambda: 2),
        lambda: ft.cond(True, 1, lambda: 2),
        lambda: ft.while_loop(lambda a: a > 0, lambda a: a, 0.0, most=-1),
        lambda: ft.while_loop(lambda a: ft.zeros((2,)), lambda a: a, 0.0),
    ],
)
def test_arguments_that_make_no_sense(call):
    both(call)


# ---- files ---------------------------------------------------------------------------------------


def saved():
    with ft.trace() as graph:
        x = array(3, 2) + 0
        graph.output(*flat(ft.scan(lambda c, x: (c + x, c), x[0], x)))
        graph.output(ft.cond(ft.sum(x) > 0, lambda: x, lambda: -x))
        graph.output(ft.while_loop(lambda x: ft.sum(x) < 1, lambda x: x + 1, x))
    return json.loads(graph.to_json())


def nodes(data, op):
    return next(node for node in data["nodes"] if node["op"] == op)


def deeper(data, levels=20):
    scan = nodes(data, "scan")
    plain = json.dumps(scan["parameters"]["body"]["graph"])
    inner = json.loads(plain)
    for _ in range(levels):
        body = json.loads(plain)
        given = {**scan["parameters"], "body": {"graph": inner}, "scanned": 0}
        made = [{**v, "id": 100 + i} for i, v in enumerate(scan["outputs"])]
        body["nodes"].append(
            {"op": "scan", "inputs": [[0, 1], None], "parameters": given, "outputs": made}
        )
        inner = body
    scan["parameters"]["body"] = {"graph": inner}


def test_bodies_may_be_some_levels_deep():
    data = saved()
    deeper(data, 10)
    Graph.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: nodes(data, "scan")["parameters"].update(carries=2),
        lambda data: nodes(data, "scan")["parameters"].update(steps=10**9),
        lambda data: nodes(data, "scan")["parameters"].update(body=3),
        lambda data: nodes(data, "scan")["parameters"].update(body={"graph": {}}),
        lambda data: nodes(data, "scan")["parameters"].pop("reverse"),
        lambda data: nodes(data, "scan")["outputs"].pop(),
        lambda data: nodes(data, "cond").update(outputs=[]),
        lambda data: nodes(data, "scan")["outputs"][0].update(shape=[7]),
        lambda data: nodes(data, "while_loop")["parameters"].update(most=-1),
        lambda data: nodes(data, "while_loop")["parameters"].update(most=None),
        lambda data: nodes(data, "cond")["parameters"]["then"]["graph"].update(outputs=[]),
        lambda data: nodes(data, "cond").update(inputs=[[0], [0]]),
        lambda data: nodes(data, "cond").update(inputs=[None, []]),
        deeper,
    ],
)
def test_files_that_are_unsound(change):
    data = saved()
    Graph.from_json(json.dumps(data))
    change(data)
    with pytest.raises(ArgumentError, match=r"^\[graph\]"):
        Graph.from_json(json.dumps(data))
