"""Programs of several passes over a row, with results per row, per column, and over all."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_programs import check, computed, run

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.grid import cut
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.codegen.schedule import schedule
from fl_tensor.dtypes import bfloat16, float32, float64, int64

#: Bytes of a partial result.
PARTIAL = 8
SIZES = [(1, 1), (3, 5), (5, 16), (4, 64), (7, 100), (2, 1003), (70, 768)]


def draw(*shapes, dtype="f4"):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def softmax(dtype=float32):
    b = Builder(2)
    x = b.input(dtype, "sc")
    e = b("exp", b("subtract", x, b.reduce("max", x)))
    b.output(b("divide", e, b.reduce("sum", e)), "sc")
    return b.program()


def log_softmax_gradient():
    b = Builder(2)
    g, y = b.input(float32, "sc"), b.input(float32, "sc")
    total = b.reduce("sum", g)
    b.output(b("subtract", g, b("multiply", b("exp", y), total)), "sc")
    return b.program()


def mean(b, x, n):
    return b("divide", b.reduce("sum", x), n)


def layer_norm(dtype=float32):
    b = Builder(2)
    x, w, bias, n = (
        b.input(dtype, "sc"),
        b.input(dtype, ".c"),
        b.input(dtype, ".c"),
        b.scalar(dtype),
    )
    centred = b("subtract", x, mean(b, x, n))
    variance = mean(b, b("multiply", centred, centred), n)
    scale = b("rsqrt", b("add", variance, b.constant(1e-5, dtype)))
    b.output(b("add", b("multiply", b("multiply", centred, scale), w), bias), "sc")
    b.output(scale, "s.")
    return b.program()


def layer_norm_gradient():
    b = Builder(2)
    g, x, w, n = (
        b.input(float32, "sc"),
        b.input(float32, "sc"),
        b.input(float32, ".c"),
        b.scalar(float32),
    )
    centred = b("subtract", x, mean(b, x, n))
    variance = mean(b, b("multiply", centred, centred), n)
    scale = b("rsqrt", b("add", variance, b.constant(1e-5, float32)))
    unit = b("multiply", centred, scale)
    gw = b("multiply", g, w)
    along = b("multiply", unit, mean(b, b("multiply", gw, unit), n))
    to_x = b("subtract", b("subtract", gw, mean(b, gw, n)), along)
    b.output(b("multiply", to_x, scale), "sc")
    b.output(b.reduce("sum", b("multiply", g, unit), "column"), ".c")
    b.output(b.reduce("sum", g, "column"), ".c")
    return b.program()


def cross_entropy():
    """Loss per row, its mean over rows, and the gradient of the mean, of logits and targets."""
    b = Builder(2)
    x, target_ = b.input(float32, "sc"), b.input(int64, "s.")
    share = b.scalar(float32)
    shifted = b("subtract", x, b.reduce("max", x))
    e = b("exp", shifted)
    total = b.reduce("sum", e)
    hit = b("equal", b.index(1), target_)
    zero = b.constant(0.0, float32)
    picked = b.reduce("sum", b("where", hit, shifted, zero))
    loss = b("subtract", b("log", total), picked)
    wanted = b("where", hit, b.constant(1.0, float32), zero)
    b.output(loss, "s.")
    b.output(b("multiply", b.reduce("sum", loss, "all"), share), "..")
    b.output(b("multiply", b("subtract", b("divide", e, total), wanted), share), "sc")
    return b.program()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_softmax(sizes):
    check(softmax(), draw(sizes), sizes, eps=16)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("columns", [3, 16, 100, 200])
def test_nan_is_the_largest_and_the_smallest_wherever_it_stands(columns, dtype):
    b = Builder(2)
    x = b.input(dtype, "sc")
    for op in ("max", "min"):
        b.output(b.reduce(op, x), "s.")
        b.output(b.reduce(op, x, "all"), "..")
    x = np.ones((columns, columns), dtype.name)
    np.fill_diagonal(x, np.nan)
    for found in run(b.program(), [x], x.shape):
        assert np.isnan(found).all()


def test_softmax_does_not_overflow():
    rows = [[1000.0, 1000.0, 999.0], [-np.inf, 1.0, 2.0], [-1000.0, 0.0, np.nan]]
    check(softmax(), [np.array(rows, np.float32)], (3, 3), eps=16)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradient_of_log_softmax(sizes):
    # The difference of two sums: narrow vectors add longer partial sums, and round more.
    scale = 4.0 if target.host().vector_bits == 512 else 32.0
    check(log_softmax_gradient(), draw(sizes, sizes), sizes, eps=32, scale=scale)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_layer_norm(sizes):
    n = sizes[1]
    check(layer_norm(), draw(sizes, (1, n), (1, n)), sizes, (n,), eps=64, scale=4.0)


def test_layer_norm_in_float64():
    inputs = draw((9, 77), (1, 77), (1, 77), dtype="f8")
    check(layer_norm(float64), inputs, (9, 77), (77,), eps=64, scale=4.0)


@pytest.mark.parametrize("sizes", SIZES[1:], ids=str)
def test_gradient_of_layer_norm_with_those_of_its_parameters(sizes):
    inputs = draw(sizes, sizes, (1, sizes[1]))
    check(layer_norm_gradient(), inputs, sizes, (sizes[1],), eps=128, scale=16.0)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_cross_entropy_forward_and_backward_in_one(sizes):
    rows, classes = sizes
    targets = np.random.default_rng(8).integers(0, classes, (rows, 1))
    check(cross_entropy(), [*draw(sizes), targets], sizes, (1 / rows,), eps=32, scale=4.0)


@pytest.mark.parametrize("machine", [target.generic, target.avx2], ids=["generic", "avx2"])
def test_narrow_vectors(machine):
    if machine is target.avx2 and target.host().vector_bits < 256:
        pytest.skip("this processor has no 256-bit vectors")
    kernel = Kernel(softmax(), machine())
    check(softmax(), draw((5, 77)), (5, 77), eps=16, kernel=kernel)
    kernel = Kernel(layer_norm_gradient(), machine())
    inputs = draw((5, 77), (5, 77), (1, 77))
    check(layer_norm_gradient(), inputs, (5, 77), (77,), eps=128, scale=16.0, kernel=kernel)


def test_half_precision_accumulates_in_float32():
    b = Builder(2)
    x = b.input(bfloat16, "sc")
    b.output(b.reduce("sum", x), "s.")
    b.output(b.reduce("sum", x, "column"), ".c")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    ones = np.ones((300, 1000), ml_dtypes.bfloat16)
    rows, columns = run(b.program(), [ones], (300, 1000))
    assert (rows == 1000).all() and (columns == 300).all()


@pytest.mark.parametrize("sizes", [(3, 2, 5), (2, 7, 33), (4, 3, 1)], ids=str)
def test_rows_of_several_axes(sizes):
    """Statistics of channels over batch and positions: the caller puts the channels first."""
    b = Builder(3, row_axes=2)
    x, n = b.input(float32, "ssc"), b.scalar(float32)
    centred = b("subtract", x, mean(b, x, n))
    variance = mean(b, b("multiply", centred, centred), n)
    e = b("exp", centred)
    b.output(b("divide", e, b.reduce("sum", e)), "ssc")
    b.output(variance, "s..")
    b.output(b.reduce("sum", x, "column"), ".sc")
    b.output(b.cast(b("add", b.index(1), b("multiply", b.index(0), b.index(2))), float32), "ssc")
    nchw = draw((sizes[1], sizes[0], sizes[2]))[0]
    inputs = [nchw.transpose(1, 0, 2)]
    check(b.program(), inputs, sizes, (sizes[1] * sizes[2],), eps=32, scale=8.0)


def test_rows_without_outer_axes():
    b = Builder(1)
    x = b.input(float32, "c")
    b.output(b("divide", x, b.reduce("sum", x)), "c")
    b.output(b.reduce("max", x), ".")
    check(b.program(), [abs(draw((1000,))[0])], (1000,), eps=16)


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 1023])
@pytest.mark.parametrize("columns", [1, 3, 64, 5000])
def test_column_sums_of_short_and_long_rows(rows, columns):
    """Of a batch normalisation behind a ReLU: the gradient of one, written where it was read, and
    two sums for the gradient of the other; and a total."""
    b = Builder(2)
    g, x, mean = b.input(float32, "sc"), b.input(float32, "sc"), b.input(float32, ".c")
    zero = b.constant(0, float32)
    passed = b("where", b("less", zero, x), g, zero)
    b.output(passed, "sc")
    b.output(b.reduce("sum", passed, "column"), ".c")
    b.output(b.reduce("sum", b("multiply", passed, b("subtract", x, mean)), "column"), ".c")
    b.output(b.reduce("max", x, "all"), "..")
    inputs = draw((rows, columns), (rows, columns), (1, columns))
    want = computed(b.program(), inputs, (rows, columns))
    outputs = [inputs[0], *np.empty((2, 1, columns), np.float32), np.empty((1, 1), np.float32)]
    run(b.program(), inputs, (rows, columns), outputs=outputs)
    for got, wanted in zip(outputs, want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [5, 1000, 300_000])
def test_one_long_row_by_totals(count):
    """Without outer axes, elements can be computed with totals, and threads share the row."""
    b = Builder(1)
    x = b.input(float32, "c")
    e = b("exp", b("subtract", x, b.reduce("max", x, "all")))
    b.output(e, "c")
    check(b.program(), draw((count,)), (count,), eps=8)
    b = Builder(1)
    x = b.input(float32, "c")
    b.output(b("divide", x, b.reduce("sum", b("multiply", x, x), "all")), "c")
    check(b.program(), draw((count,)), (count,), eps=16)


def test_random_words_do_not_wait_for_totals():
    b = Builder(1)
    bits = b("random_bits", b.scalar(int64), b.scalar(int64), parameter=(1, 0))
    b.output(b("maximum", bits, b.reduce("max", bits, "all")), "c")
    with pytest.raises(ProgramError, match="make it a second program"):
        Kernel.of(b.program())


def test_what_waits_for_all_rows_is_computed_with():
    """An update of a bias by the column sums, the mean of all, scaled by a number."""
    b = Builder(2)
    g, bias, rate = b.input(float32, "sc"), b.input(float32, ".c"), b.scalar(float32)
    step = b("multiply", b.reduce("sum", g, "column"), rate)
    norm = b("sqrt", b.reduce("sum", b("multiply", g, g), "all"))
    b.output(b("subtract", bias, b("divide", step, norm)), ".c")
    b.output(norm, "..")
    b.output(b("multiply", bias, rate), ".c")
    for sizes in ((3, 10), (500, 33), (2, 5000)):
        check(b.program(), draw(sizes, (1, sizes[1])), sizes, (0.1,), eps=64, scale=4.0)


@pytest.mark.parametrize("count", [1, 4095, 4097, 20_000, 1_000_000])
def test_totals(count):
    b = Builder(1)
    x = b.input(float32, "c")
    for op in ("sum", "max", "min"):
        b.output(b.reduce(op, x, "all"), ".")
    check(b.program(), draw((count,)), (count,), eps=4, scale=count**0.5)


def test_sums_are_at_least_as_accurate_as_numpys():
    rng = np.random.default_rng(9)
    b = Builder(2)
    x = b.input(float32, "sc")
    b.output(b.reduce("sum", x), "s.")
    per_row = b.program()
    b = Builder(1)
    b.output(b.reduce("sum", b.input(float32, "c"), "all"), ".")
    total = b.program()
    for count in (1000, 30_000, 1_000_000):
        x = rng.random((8, count), dtype=np.float32)
        exact = x.astype(np.float64).sum(1)
        rows = run(per_row, [x], x.shape)[0].ravel()
        flat = np.array([run(total, [line], (count,))[0][0] for line in x])
        theirs = np.sqrt(np.mean((x.sum(1) - exact) ** 2))
        # Narrow vectors have fewer partial sums.
        unit = np.spacing(np.float32(exact.max())) * (512 // target.host().vector_bits)
        for ours in (rows, flat):
            assert np.sqrt(np.mean((ours - exact) ** 2)) <= theirs + unit


def test_an_output_may_lie_where_an_input_does():
    for make, count in ((softmax, 1), (layer_norm, 3)):
        program = make()
        inputs = draw((20, 300), (1, 300), (1, 300))[:count]
        scalars = (300,) if count == 3 else ()
        want = computed(program, inputs, (20, 300), scalars)[0]
        outputs = [inputs[0], *(np.empty((20, 1), np.float32) for _ in program.outputs[1:])]
        run(program, inputs, (20, 300), scalars, outputs)
        np.testing.assert_allclose(inputs[0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_nothing(sizes):
    b = Builder(2)
    x = b.input(float32, "sc")
    b.output(b("exp", x), "sc")
    b.output(b.reduce("sum", x), "s.")
    b.output(b.reduce("sum", x, "column"), ".c")
    b.output(b.reduce("prod", x, "all"), "..")
    check(b.program(), [np.empty(sizes, np.float32)], sizes)


@pytest.mark.parametrize("extent", ["column", "all"])
def test_there_is_room_for_what_every_chunk_leaves_behind(extent):
    b = Builder(2)
    b.output(b.reduce("sum", b.input(float32, "sc"), extent), ".c" if extent == "column" else "..")
    plan = schedule(b.program())
    for sizes in ((1, 1), (1 << 20, 3), (1 << 14, 1 << 12)):
        grid = cut(b.program(), plan, sizes)
        left = grid.chunks if extent == "all" else grid.row_chunks * sizes[1]
        assert grid.partial_bytes >= PARTIAL * left
