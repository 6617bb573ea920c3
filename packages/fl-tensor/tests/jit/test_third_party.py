"""Passes, operations and kernels that come from outside, through ``ft.jit`` alone."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.backends.jit import JitBackend
from fl_tensor.backends.jit.plans import Plans
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.graph import Graph, Node

GENERATOR = ft.Generator(5)
X, GATE = (np.asarray(GENERATOR.normal((96, 128))) for _ in range(2))


def compose(ops, x, gate):
    return ops.multiply(x, ops.silu(gate))


swiglu = ft.jit.operation("tests.swiglu", compose)
#: x times y plus z, with nothing of its own: it can be found in a graph.
fma = ft.jit.operation("tests.fma", lambda ops, x, y, z: ops.add(ops.multiply(x, y), z))


def build(b, x, gate):
    return b("multiply", x, b("multiply", gate, b("sigmoid", gate)))


def callback(request):
    """A kernel without NumPy and without LLVM: x + gate, so that it can be told from the truth."""
    if request.result.dtype is not ft.float32:
        return None
    count = request.result.elements
    assert all(operand.shape == request.result.shape for operand in request.operands)
    if any(operand.strides != request.result.strides for operand in request.operands):
        return None

    def run(x, gate, out):
        kind = ctypes.c_float * count
        a, b, c = (kind.from_address(place) for place in (x, gate, out))
        for i in range(count):
            c[i] = a[i] + b[i]

    return run


@pytest.fixture(params=["kernels", "numpy"])
def backend(request):
    """A backend that plans at the second sighting; with generated kernels and without."""
    made = JitBackend()
    if request.param == "numpy":
        made.plans = Plans(NumpyBackend(), fusible=lambda node: False)
    else:
        pytest.importorskip("llvmlite", reason="generated kernels take llvmlite")
    return made


@pytest.fixture
def fused(request):
    pytest.importorskip("llvmlite", reason="generated kernels take llvmlite")
    return JitBackend()


def sighted(backend, function, *arrays, times=3):
    """The results of a function of arrays, called so often."""
    found = []
    for _ in range(times):
        with ft.use(backend):
            found.append(np.asarray(function(*map(ft.asarray, arrays))))
    return found


def steps(backend):
    """(kind, operations) of each step of the newest plan."""
    return [(s.kind, [n.op for n in s.nodes]) for s in ft.jit.plans(backend)[-1].steps]


def truth(function, *arrays):
    with ft.use("numpy"):
        return np.asarray(function(*map(ft.asarray, arrays)))


# --- operations -----------------------------------------------------------------------------------


def test_an_operation_is_its_composition_on_every_backend():
    wanted = truth(lambda x, g: x * ft.silu(g), X, GATE)
    np.testing.assert_array_equal(truth(swiglu, X, GATE), wanted)
    with ft.use("null"):
        assert swiglu(ft.ones((2, 3)), ft.ones((4, 1, 3))).shape == (4, 2, 3)


def test_an_operation_without_a_kernel_is_fused_as_its_composition(backend):
    wanted = truth(swiglu, X, GATE)
    for found in sighted(backend, swiglu, X, GATE):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert all("tests.swiglu" not in ops for _, ops in steps(backend))


def test_an_operation_may_hand_its_operand_back(backend):
    same = ft.jit.operation("tests.same", lambda ops, x: x)
    for found in sighted(backend, lambda x: ft.exp(same(x * 2.0)) + same(x), X):
        np.testing.assert_allclose(found, np.exp(X * np.float32(2)) + X, rtol=1e-5, atol=1e-6)


def test_operands_are_promoted_and_broadcast(backend):
    for found in sighted(backend, lambda x, g: swiglu(x, ft.cast(g[0], "float64")), X, GATE):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, truth(swiglu, X, GATE[0]), rtol=1e-5, atol=1e-6)


def test_errors_are_raised_where_the_operation_is_called(backend):
    with ft.use(backend):
        x, y = ft.asarray(X) * 2.0, ft.asarray(GATE)[:, :5]
        with pytest.raises(ft.ShapeError, match="multiply"):
            swiglu(x, y)


def test_an_override_reaches_into_the_composition(backend):
    seen = []

    def multiply(inner, x, y):
        seen.append(x.shape)
        return inner.multiply(x, y)

    with ft.use(backend), ft.override(multiply=multiply):
        found = swiglu(ft.asarray(X), ft.asarray(GATE))
    assert len(seen) == 2
    np.testing.assert_allclose(np.asarray(found), truth(swiglu, X, GATE), rtol=1e-6)


def test_what_depends_on_data_is_not_kept_whole(backend):
    def compose(ops, x, rows):
        return ops.gather(ops.exp(x), rows, 0)

    pick = ft.jit.operation("tests.pick", compose, roles="AA")
    with ft.use(backend):
        with pytest.raises(IndexError):
            pick(ft.asarray(X), ft.asarray([0, 96]))


def test_parameters_are_part_of_the_structure(backend):
    def compose(ops, x, *, power=2):
        for _ in range(power - 1):
            x = ops.multiply(x, x)
        return x

    powers = ft.jit.operation("tests.powers", compose)
    for power in (2, 3, 2, 3):
        (found,) = sighted(backend, lambda x, p=power: powers(x, power=p), X, times=1)
        np.testing.assert_allclose(found, X ** (2 ** (power - 1)), rtol=1e-5)
    assert len(ft.jit.plans(backend)) == 2
    np.testing.assert_allclose(truth(powers, X), X * X, rtol=1e-6)


def test_arrays_may_be_taken_as_they_are(backend):
    def compose(ops, mask, x):
        return ops.where(mask, x, ops.negative(x))

    sign = ft.jit.operation("tests.sign", compose, roles="AP")
    for found in sighted(backend, lambda mask, x: sign(mask, x), X > 0, X):
        np.testing.assert_array_equal(found, np.abs(X))


@pytest.mark.parametrize(
    ("arguments", "named"), [((X,), {}), ((X, X, X), {}), ((X, X), {"scale": 1})]
)
def test_arguments_that_do_not_fit(backend, arguments, named):
    with ft.use(backend), pytest.raises(ft.ArgumentError, match=r"expected \(x, gate\)"):
        swiglu(*map(ft.asarray, arguments), **named)


@pytest.mark.parametrize(
    ("name", "compose", "complaint"),
    [
        ("swiglu", compose, "the name of a package, a dot"),
        ("tests.swiglu", lambda ops, x, gate: x, "is taken by"),
        ("tests.other", lambda ops, x, scale=2.0: x, "plain values after it"),
        ("tests.other", lambda ops: 1, "arrays before the star"),
    ],
)
def test_operations_that_make_no_sense(name, compose, complaint):
    with pytest.raises(ft.ArgumentError, match=complaint):
        ft.jit.operation(name, compose)


# --- what operations are called with --------------------------------------------------------------

exponential = ft.jit.operation("tests.exponential", lambda ops, x: ops.exp(x))
floating = ft.jit.operation("tests.floating", lambda ops, x, y: ops.exp(ops.add(x, y)), roles="SS")
last = ft.jit.operation("tests.last", lambda ops, x: ops.sum(x, (len(x.shape) - 1,), False))


def data(ops, x, y):
    """A composition that looks at data before it does what its operands may not fit."""
    ops.to_host(x)
    return ops.exp(ops.add(x, y))


looking = ft.jit.operation("tests.looking", data, roles="AA")


@pytest.fixture(params=["numpy", "jit"])
def anywhere(request):
    with ft.use(request.param):
        yield


@pytest.mark.parametrize("shape", [(3,), (256, 1024)])
@pytest.mark.parametrize("others", [("float32", "int32"), ("int32", "int32"), ("bool", "int64")])
def test_integers_become_floating_where_roles_ask_for_it(anywhere, shape, others):
    x, y = (ft.ones(shape, dtype=dtype) for dtype in others)
    found = floating(x, y)
    assert found.dtype is ft.float32
    np.testing.assert_allclose(np.asarray(found), np.full(shape, np.exp(2)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3,), (256, 1024)])
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: exponential(x), ft.DTypeError, r"x int32\(.*\[exp\] x is int32: .* astype, or"),
        (lambda x: swiglu(x, x), ft.DTypeError, r"gate int32.*\[silu\] x is int32: expected"),
        (lambda x: looking(x, ft.ones_like(x, dtype="int64")), ft.DTypeError, "several dtypes"),
        (lambda x: looking(x, x), ft.DTypeError, "expected a floating or complex dtype"),
        (lambda x: looking(ft.ones((2, 7)), ft.ones((2, 9))), ft.ShapeError, "do not broadcast"),
        (lambda x: swiglu(ft.ones((3,)), ft.ones((4,))), ft.ShapeError, r"gate float32\(4,\): "),
        (lambda x: last(ft.ones(())), ft.AxisError, r"\[tests.last\] x float32\(\): \[sum\] axis"),
        (lambda x: last(x, []), ft.ArgumentError, "expected"),
    ],
)
def test_operands_that_do_not_fit_are_errors_for_people(anywhere, shape, call, error, words):
    with pytest.raises(error, match=words):
        call(ft.ones(shape, dtype="int32"))


def test_errors_name_the_operation_on_tapes_and_under_overrides_too(anywhere):
    ag = pytest.importorskip("fl_autograd")
    integers = ft.ones((3,), dtype="int32")
    with pytest.raises(ft.DTypeError, match="expected a floating or complex dtype"):
        looking(ag.Variable(integers), integers)
    with ft.override(exp=lambda inner, x: inner.exp(x)):
        for call in (exponential, lambda x: looking(x, x)):
            with pytest.raises(ft.DTypeError, match=r"\[exp\] x is int32"):
                call(integers)


def test_parameters_have_a_hash(anywhere):
    scaled = ft.jit.operation("tests.lists", lambda ops, x, *, axes: ops.sum(x, tuple(axes), False))
    assert scaled(ft.ones((2, 3)), axes=(1,)).tolist() == [3.0, 3.0]
    with pytest.raises(ft.ArgumentError, match="axes is a list, which has no hash"):
        scaled(ft.ones((2, 3)), axes=[1])


def test_operands_are_checked_once_for_each_type(anywhere):
    runs = []

    def compose(ops, x):
        runs.append(x.shape)
        return ops.exp(x)

    seen = ft.jit.operation("tests.seen_once", compose)
    for _ in range(5):
        seen(ft.ones((3,)))
    assert len(runs) == 6


# --- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("roles", ["P", "PX", "Pp"])
def test_roles_are_letters_for_each_array(roles):
    with pytest.raises(ft.ArgumentError, match="expected a letter of"):
        ft.jit.operation("tests.roles", lambda ops, x, y: x, roles=roles)


def test_instructions_become_part_of_the_kernel_around_them(fused):
    def function(x, gate):
        return ft.exp(swiglu(x * 2.0, gate)) + 1.0

    wanted = truth(function, X, GATE)
    with ft.jit.register_kernel("tests.swiglu", ft.jit.elementwise(build)):
        for found in sighted(fused, function, X, GATE):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert steps(fused) == [("kernel", ["multiply", "tests.swiglu", "exp", "add"])]


def test_a_program_is_a_kernel_of_its_own(fused):
    norm = ft.jit.operation(
        "tests.norm",
        lambda ops, x: ops.divide(x, ops.sum(ops.absolute(x), (-1 + len(x.shape),), True)),
    )

    def build(b, x):
        return b("divide", x, b.reduce("sum", b("absolute", x)))

    def function(x):
        return norm(ft.permute(x, (1, 0))) * 2.0

    wanted = truth(function, X)
    with ft.jit.register_kernel("tests.norm", ft.jit.program(build)):
        for found in sighted(fused, function, X):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert steps(fused) == [("external", ["tests.norm"]), ("kernel", ["multiply"])]


@pytest.mark.parametrize("keepdims", [False, True])
def test_a_program_may_give_one_number_per_row(fused, keepdims):
    def compose(ops, x, *, keepdims):
        return ops.log(ops.sum(ops.exp(x), (1,), keepdims))

    logsumexp = ft.jit.operation(f"tests.logsumexp{int(keepdims)}", compose)
    kernel = ft.jit.program(lambda b, x, keepdims: b("log", b.reduce("sum", b("exp", x))))
    with ft.jit.register_kernel(logsumexp.name, kernel):
        for found in sighted(fused, lambda x: logsumexp(x, keepdims=keepdims), X):
            wanted = np.log(np.exp(X).sum(1, keepdims=keepdims))
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
        assert steps(fused) == [("external", [logsumexp.name])]


def test_numbers_are_operands_of_a_program(fused):
    scaled = ft.jit.operation("tests.scaled", lambda ops, x, n: ops.multiply(x, n))
    with ft.jit.register_kernel(
        "tests.scaled", ft.jit.program(lambda b, x, n: b("multiply", x, n))
    ):
        for scale in (2.0, 3.0, 4.0):
            (found,) = sighted(fused, lambda x, s=scale: scaled(x, s), X, times=1)
            np.testing.assert_array_equal(found, X * np.float32(scale))
        assert len(ft.jit.plans(fused)) == 1


def test_a_kernel_of_addresses(backend):
    with ft.jit.register_kernel("tests.swiglu", callback):
        first, *later = sighted(backend, swiglu, X, GATE)
        np.testing.assert_allclose(first, truth(swiglu, X, GATE), rtol=1e-6)
        for found in later:
            np.testing.assert_array_equal(found, X + GATE)
        assert steps(backend) == [("external", ["tests.swiglu"])]


def test_a_kernel_reads_pieces_of_arrays_where_they_lie(backend):
    with ft.jit.register_kernel("tests.swiglu", callback):
        for found in sighted(backend, lambda x, g: swiglu(x[8:], g[:88]) * 1.0, X, GATE)[1:]:
            np.testing.assert_array_equal(found, X[8:] + GATE[:88])


def test_a_kernel_may_decline(backend):
    double = X.astype(np.float64)
    with ft.jit.register_kernel("tests.swiglu", callback):
        for found in sighted(backend, swiglu, double, GATE.astype(np.float64)):
            np.testing.assert_allclose(found, truth(swiglu, double, GATE), rtol=1e-6)
        for found in sighted(backend, lambda x, g: swiglu(x.T, g.T), X, GATE):
            np.testing.assert_allclose(found, truth(swiglu, X.T, GATE.T), rtol=1e-5, atol=1e-6)


def test_a_kernel_of_the_contract_is_asked_first(backend):
    asked = []

    def products(request):
        asked.append([x.shape for x in request.operands])
        return None

    with ft.jit.register_kernel("matmul", products):
        for found in sighted(backend, lambda x, y: x @ y, X, GATE.T):
            np.testing.assert_allclose(found, X @ GATE.T, rtol=1e-4, atol=1e-4)
    assert [(96, 128), (128, 96)] in asked


def test_plans_do_not_outlive_what_they_were_made_with(backend):
    with ft.jit.register_kernel("tests.swiglu", callback):
        assert (sighted(backend, swiglu, X, GATE)[-1] == X + GATE).all()
    for found in sighted(backend, swiglu, X, GATE):
        np.testing.assert_allclose(found, truth(swiglu, X, GATE), rtol=1e-5, atol=1e-6)
    with ft.jit.register_kernel("tests.swiglu", callback):
        assert (sighted(backend, swiglu, X, GATE)[-1] == X + GATE).all()


def test_a_kernel_that_fails_is_left_out(backend):
    def broken(request):
        raise ValueError("no such luck")

    with ft.jit.register_kernel("tests.swiglu", broken):
        with pytest.warns(RuntimeWarning, match="'tests.swiglu' was left out: ValueError: no such"):
            found = sighted(backend, swiglu, X, GATE)
    np.testing.assert_allclose(found[-1], truth(swiglu, X, GATE), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("made", [5, "kernel"])
def test_a_kernel_that_cannot_be_called_is_left_out(backend, made):
    with ft.jit.register_kernel("tests.swiglu", lambda request: made):
        with pytest.warns(ft.jit.KernelWarning, match="expected a function of addresses, or None"):
            found = sighted(backend, swiglu, X, GATE)
    np.testing.assert_allclose(found[-1], truth(swiglu, X, GATE), rtol=1e-5, atol=1e-6)


def test_what_is_put_off_in_a_block_runs_without_what_was_registered_there(backend):
    with ft.use(backend):
        x, gate = ft.asarray(X), ft.asarray(GATE)
        sighted(backend, swiglu, X, GATE)  # from here on there is a plan
        with ft.jit.register_kernel("tests.swiglu", callback):
            for _ in range(3):
                inside = swiglu(x, gate)
                ft.eval(inside)
            later = swiglu(x, gate)
        np.testing.assert_array_equal(np.asarray(inside), X + GATE)
        wanted = truth(swiglu, X, GATE)
        np.testing.assert_allclose(np.asarray(later), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "register",
    [
        lambda: ft.jit.register_kernel("exp", 3),
        lambda: ft.jit.register_pass("tests-nothing", 3),
        lambda: ft.jit.register_micro_kernel(3),
        lambda: ft.jit.operation("tests.number", 3),
        lambda: ft.jit.elementwise(3),
        lambda: ft.jit.program(3),
    ],
)
def test_what_is_no_function_is_refused_when_it_is_registered(register):
    pytest.importorskip("llvmlite", reason="micro-kernels take llvmlite")
    with pytest.raises(ft.ArgumentError, match="is a int: expected a function"):
        register()
    assert "tests-nothing" not in ft.jit.passes()


def test_an_operand_is_never_the_result(backend):
    """What a kernel reads may be seen by others: the result has memory of its own."""
    places = []

    def kernel(request):
        return lambda *addresses: places.append(addresses)

    with ft.jit.register_kernel("tests.swiglu", kernel):
        sighted(backend, lambda x, g: swiglu(x * 2.0, g * 3.0), X, GATE)
    assert all(len(set(each)) == 3 for each in places) and places


@pytest.mark.parametrize("op", ["tests.unknown", "reshape", "nothing"])
def test_kernels_of_what_is_no_operation(op):
    with pytest.raises(ft.ArgumentError, match="expected an operation"):
        ft.jit.register_kernel(op, callback)


def test_the_instructions_of_the_contract_are_fixed():
    with pytest.raises(ft.ArgumentError, match="instructions are fixed"):
        ft.jit.register_kernel("exp", ft.jit.elementwise(lambda b, x: b("exp", x)))


# --- passes ---------------------------------------------------------------------------------------


def test_a_pass_sees_every_graph_that_is_planned(backend):
    seen = []

    def watch(graph):
        seen.append([n.op for n in graph.nodes])
        return graph

    with ft.jit.register_pass("tests-watch", watch):
        assert ft.jit.passes()[-1] == "tests-watch"
        sighted(backend, lambda x, y: ft.exp(x) + ft.exp(x), X, GATE)
    assert seen == [["exp", "add"]], "after common subexpressions"
    assert "tests-watch" not in ft.jit.passes()


def test_a_pass_has_a_place():
    registered = ft.jit.register_pass("tests-first", lambda g: g, before="fold")
    other = ft.jit.register_pass("tests-second", lambda g: g, after="fold")
    names = ft.jit.passes()
    assert names.index("tests-first") + 1 == names.index("fold") == names.index("tests-second") - 1
    other.remove()
    registered.remove()
    registered.remove()


def test_a_pass_rewrites_what_is_planned(backend):
    def no_exp(graph):
        nodes = [Node("tanh", n.inputs, {}, n.outputs) if n.op == "exp" else n for n in graph.nodes]
        return Graph(graph.inputs, graph.constants, nodes, graph.outputs, graph.reads)

    with ft.jit.register_pass("tests-no-exp", no_exp):
        first, *later = sighted(backend, lambda x: ft.exp(x), X)
    np.testing.assert_allclose(first, np.exp(X), rtol=1e-6)
    for found in later:
        np.testing.assert_allclose(found, np.tanh(X), rtol=1e-5, atol=1e-6)


def twice(graph):
    return Graph(graph.inputs, (), [*graph.nodes, graph.nodes[0]], graph.outputs)


def lost(graph):
    return Graph(graph.inputs, graph.constants, graph.nodes[1:], graph.outputs)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda graph: 1 // 0, "ZeroDivisionError"),
        (lambda graph: None, "it gave a NoneType"),
        (lost, "is made by nobody"),
        (twice, "is made twice"),
        (lambda graph: Graph(graph.inputs, (), graph.nodes, graph.nodes[0].outputs), "outputs of"),
        (lambda graph: Graph((), (), graph.nodes, graph.outputs), "other inputs"),
    ],
)
def test_a_pass_that_fails_is_left_out(backend, function, complaint):
    with ft.jit.register_pass("tests-bad", function):
        with pytest.warns(RuntimeWarning, match=f"'tests-bad' was left out.*{complaint}"):
            found = sighted(backend, lambda x: ft.sum(ft.exp(x), 0), X)
    np.testing.assert_allclose(found[-1], np.exp(X).sum(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"before": "comon"}, "did you mean 'common'"),
        ({"before": "fold", "after": "fold"}, "say one"),
    ],
)
def test_places_that_make_no_sense(options, complaint):
    with pytest.raises(ft.ArgumentError, match=complaint):
        ft.jit.register_pass("tests-nowhere", lambda g: g, **options)
    with pytest.raises(ft.ArgumentError, match="already"):
        ft.jit.register_pass("common", lambda g: g)


# --- sub-graphs -----------------------------------------------------------------------------------


def found_by(backend, function, *arrays, operation=fma, shapes=((4, 4),) * 3):
    """The operations of the plan, with a pass that looks for an operation."""
    name = operation.name
    with ft.jit.register_pass("tests-find", ft.jit.replacing(operation, *shapes)):
        with ft.jit.register_kernel(name, lambda request: lambda *addresses: None):
            sighted(backend, function, *arrays)
            return [op for _, ops in steps(backend) for op in ops]


def test_a_composition_is_found_and_replaced(backend):
    assert found_by(backend, lambda x, y: ft.exp(x * y + x), X, GATE) == ["tests.fma", "exp"]


def test_it_is_found_with_operands_in_the_other_order(backend):
    assert found_by(backend, lambda x, y: ft.exp(x + y * x), X, GATE) == ["tests.fma", "exp"]


def test_it_is_not_found_where_somebody_needs_what_is_in_its_middle(backend):
    def function(x, y):
        z = x * y
        return ft.exp(z + x) - ft.tanh(z)

    assert "tests.fma" not in found_by(backend, function, X, GATE)


def test_matches_do_not_overlap(backend):
    twofold = ft.jit.operation("tests.twofold", lambda ops, x: ops.tanh(ops.tanh(x)))

    def function(x):
        return ft.tanh(ft.tanh(ft.tanh(ft.tanh(ft.tanh(x)))))

    found = found_by(backend, function, X, operation=twofold, shapes=((4, 4),))
    assert found == ["tests.twofold", "tests.twofold", "tanh"]


def test_an_operand_that_is_read_twice_is_one_operand(backend):
    squared = ft.jit.operation("tests.squared", lambda ops, x, y: ops.add(ops.multiply(x, x), y))
    options = {"operation": squared, "shapes": ((4, 4), (4, 4))}
    assert found_by(backend, lambda x, y: x * x + y, X, GATE, **options) == ["tests.squared"]
    assert "tests.squared" not in found_by(backend, lambda x, y: x * y + y, X, GATE, **options)


def test_parameters_are_part_of_a_pattern(backend):
    def compose(ops, x):
        return ops.exp(ops.sum(x, (len(x.shape) - 1,), False))

    total = ft.jit.operation("tests.total", compose)
    options = {"operation": total, "shapes": ((4, 4),)}
    assert found_by(backend, lambda x: ft.exp(ft.sum(x, 1)), X, **options) == ["tests.total"]
    assert "tests.total" not in found_by(backend, lambda x: ft.exp(ft.sum(x, 0)), X, **options)


def test_what_is_found_computes_the_same(backend):
    def function(x, y):
        return ft.exp((x * y + x) * 0.1)

    with ft.jit.register_pass("tests-fma", ft.jit.replacing(fma, (4, 4), (4, 4), (4, 4))):
        for found in sighted(backend, function, X, GATE):
            np.testing.assert_allclose(found, truth(function, X, GATE), rtol=1e-5)


def test_numbers_are_no_part_of_a_pattern():
    half = ft.jit.operation("tests.half", lambda ops, x: ops.multiply(x, ops.constant(0.5, x)))
    with pytest.raises(ft.ArgumentError, match="numbers of its own"):
        ft.jit.replacing(half, (4,))


def test_only_operations_from_outside_are_looked_for():
    with pytest.raises(ft.ArgumentError, match="'exp' is a str: expected what ft.jit.operation"):
        ft.jit.replacing("exp", (4,))


# --- packages -------------------------------------------------------------------------------------


def test_installed_packages_register_what_they_bring(monkeypatch):
    from importlib import metadata

    from fl_tensor.backends.jit import extensions

    called = []
    points = [
        metadata.EntryPoint("good", "tests_good:register", extensions.GROUP),
        metadata.EntryPoint("bad", "tests_no_such_module:register", extensions.GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(
        metadata.EntryPoint,
        "load",
        lambda point: (lambda: called.append(point.name)) if point.name == "good" else 1 // 0,
    )
    monkeypatch.setattr(extensions, "_loaded", False)
    with pytest.warns(RuntimeWarning, match="tests_no_such_module:register of fl.jit.v1"):
        extensions.current()
    extensions.current()
    assert called == ["good"]
