"""PyTorch as an independent witness: forward values, and memory that both libraries share."""

from __future__ import annotations

import contextlib
import gc
import weakref

import numpy as np
import pytest

import fl_tensor as ft

torch = pytest.importorskip("torch")
F = torch.nn.functional


def sample(*shape, seed=0, dtype="float64"):
    """The same numbers for both libraries."""
    values = np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)
    return ft.asarray(values), torch.from_numpy(values.copy())


def integers(low, high, shape, seed=0):
    values = np.random.default_rng(seed).integers(low, high, size=shape)
    return ft.asarray(values), torch.from_numpy(values.copy())


def agree(found, expected, rtol=1e-12, atol=1e-12):
    assert found.shape == tuple(expected.shape)
    assert str(expected.dtype) == f"torch.{found.dtype}"
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=rtol, atol=atol)


# ---- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float32 float64".split()
)
def test_dlpack_shares_memory_in_every_dtype(dtype):
    x = ft.ones((64, 64), dtype=dtype)
    shared = torch.from_dlpack(x)
    assert str(shared.dtype) == f"torch.{dtype}"
    assert shared.data_ptr() == x.numpy().__array_interface__["data"][0]
    back = ft.from_dlpack(shared)
    assert np.shares_memory(back.numpy(), x.numpy())
    assert (back == x).all()


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[1:, ::2],
        lambda x: x[2],
        lambda x: x[2, 1],
        lambda x: ft.broadcast_to(x[:1], (5, 6)),
        lambda x: x[:0],
        lambda x: ft.flip(x),
        lambda x: ft.sort(x, descending=True),
    ],
)
def test_dlpack_of_every_layout(layout):
    x = layout(ft.arange(24).reshape(4, 6))
    agree(x, torch.from_dlpack(x))
    source = torch.from_dlpack(x)
    agree(ft.from_dlpack(source), source)


def test_a_torch_tensor_keeps_the_block_alive():
    x = ft.ones((64, 64))
    block = weakref.ref(x.adapter.array.base.owner)
    shared = torch.from_dlpack(x)
    row = shared[3]
    del x, shared
    gc.collect()
    assert block() is not None and row.sum().item() == 64
    del row
    gc.collect()
    assert block() is None


def test_a_tensor_keeps_torch_memory_alive():
    source = torch.full((5000,), 2.0)
    storage = weakref.ref(source)
    x = ft.from_dlpack(source)
    row = x[10:]
    del source, x
    gc.collect()
    assert storage() is not None and row.sum().item() == 2 * 4990
    del row
    gc.collect()
    assert storage() is None


def test_assignment_here_never_reaches_torch():
    x = ft.zeros((64, 64))
    shared = torch.from_dlpack(x)
    x[0, 0] = 5.0
    assert shared[0, 0].item() == 0
    source = torch.zeros(5000)
    y = ft.from_dlpack(source)
    y[0] = 5.0
    y += 1
    assert source.sum().item() == 0


def test_from_dlpack_borrows_and_asarray_copies_what_torch_changes():
    source = torch.zeros(3)
    borrowed, copied = ft.from_dlpack(source), ft.asarray(source)
    source[0] = 1.0
    assert borrowed.tolist() == [1, 0, 0], "the caller promised not to"
    assert copied.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "source",
    [
        lambda: torch.zeros(2).to(torch.float8_e4m3fn),
        lambda: torch.zeros(2, requires_grad=True),
        lambda: torch.zeros(2, device="meta"),
    ],
)
def test_what_cannot_be_borrowed_is_refused(source):
    with pytest.raises(ft.BackendError, match=r"\[from_dlpack\] a Tensor"):
        ft.from_dlpack(source())


# ---- contractions and windows -------------------------------------------------------------------

CONVOLUTIONS = [
    # spatial sizes, channels, features, kernel, stride, padding, dilation, groups
    ((9,), 2, 3, (3,), 1, 0, 1, 1),
    ((10,), 4, 4, (3,), 2, 2, 2, 4),
    ((8, 7), 3, 5, (3, 2), (2, 1), (1, 0), 1, 1),
    ((8, 8), 4, 6, (3, 3), 1, 2, (1, 2), 2),
    ((5, 5), 1, 1, (5, 5), 1, 0, 1, 1),
    ((4, 5, 6), 2, 4, (2, 3, 1), (1, 2, 3), 1, 1, 2),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_conv(case, batch):
    spatial, channels, features, kernel, stride, padding, dilation, groups = case
    (x, tx), (w, tw) = (
        sample(batch, channels, *spatial),
        sample(features, channels // groups, *kernel),
    )
    convolve = getattr(F, f"conv{len(spatial)}d")
    expected = convolve(tx, tw, None, stride, padding, dilation, groups)
    agree(ft.conv(x, w, stride, padding, 1, dilation, groups), expected)


@pytest.mark.parametrize(
    ("padding", "output_padding"), [((0, 0), (0, 0)), ((1, 2), (1, 0)), ((2, 0), (0, 1))]
)
def test_conv_over_a_dilated_input_is_the_transposed_convolution(padding, output_padding):
    kernel, stride = (3, 4), (2, 3)
    (x, tx), (w, tw) = sample(2, 3, 5, 4), sample(3, 6, *kernel)
    expected = F.conv_transpose2d(tx, tw, None, stride, padding, output_padding)
    pairs = [
        (k - 1 - p, k - 1 - p + o) for k, p, o in zip(kernel, padding, output_padding, strict=True)
    ]
    flipped = ft.flip(ft.permute(w, (1, 0, 2, 3)), (2, 3))
    agree(ft.conv(x, flipped, 1, pairs, stride), expected)


def test_conv_crops_where_padding_is_negative():
    (x, tx), (w, tw) = sample(2, 3, 9, 8), sample(4, 3, 2, 2)
    expected = F.conv2d(F.pad(tx, (1, -2, -3, 2)), tw)
    agree(ft.conv(x, w, padding=[(-3, 2), (1, -2)]), expected)


POOLS = [
    ((9,), 3, None, 0),
    ((10,), 4, 2, 2),
    ((7, 8), 2, 2, 1),
    ((7, 8), (3, 2), (2, 1), (1, 0)),
    ((5, 6, 7), 2, 3, 1),
]


@pytest.mark.parametrize("case", POOLS, ids=str)
@pytest.mark.parametrize("batch", [0, 2])
def test_pools(case, batch):
    spatial, window, stride, padding = case
    x, tx = sample(batch, 3, *spatial)
    n = len(spatial)
    if batch:  # PyTorch refuses to pool an empty batch of some ranks
        agree(
            ft.max_pool(x, window, stride, padding),
            getattr(F, f"max_pool{n}d")(tx, window, stride, padding),
        )
        for include in (True, False):
            expected = getattr(F, f"avg_pool{n}d")(tx, window, stride, padding, False, include)
            agree(ft.avg_pool(x, window, stride, padding, include), expected)
    else:
        assert ft.max_pool(x, window, stride, padding).shape[:2] == (0, 3)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (4, 3, 2)),
        ((2, 3), (3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((2, 0), (0, 3)),
        ((0, 2, 3), (3, 1)),
    ],
)
def test_matmul(left, right):
    (x, tx), (y, ty) = sample(*left), sample(*right, seed=1)
    agree(x @ y, tx @ ty)


@pytest.mark.parametrize("lead", [(), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(lead, bias):
    (x, tx), (w, tw), (b, tb) = sample(*lead, 5), sample(7, 5), sample(7)
    agree(ft.linear(x, w, b if bias else None), F.linear(tx, tw, tb if bias else None))


# ---- normalisation and losses -------------------------------------------------------------------


@pytest.mark.parametrize("axes", [(2,), (1, 2), (0, 1, 2)])
def test_layer_norm(axes):
    x, tx = sample(3, 4, 5)
    sizes = [x.shape[a] for a in axes]
    (w, tw), (b, tb) = sample(*sizes, seed=1), sample(*sizes, seed=2)
    agree(ft.layer_norm(x, w, b, axes), F.layer_norm(tx, sizes, tw, tb))
    agree(ft.layer_norm(x, axis=axes, eps=0.1), F.layer_norm(tx, sizes, eps=0.1))


def test_batch_norm():
    x, tx = sample(3, 4, 5)
    (m, tm), (w, tw), (b, tb) = (sample(4, seed=s) for s in range(3))
    agree(ft.batch_norm(x, m, w * w, w, b), F.batch_norm(tx, tm, tw * tw, tw, tb))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_softmax_and_its_logarithms(axis, scale):
    x, tx = sample(3, 4, 5)
    x, tx = x * scale, tx * scale
    agree(ft.softmax(x, axis), F.softmax(tx, axis))
    agree(ft.log_softmax(x, axis), F.log_softmax(tx, axis))
    agree(ft.logsumexp(x, axis), torch.logsumexp(tx, axis))


def test_softmax_and_its_logarithms_of_infinities():
    inf = float("inf")
    rows = [[-inf, -inf], [0.0, -inf], [inf, 0.0], [inf, -inf], [inf, inf]]
    x, tx = ft.asarray(rows), torch.tensor(rows)
    agree(ft.softmax(x), F.softmax(tx, -1))
    agree(ft.log_softmax(x), F.log_softmax(tx, -1))
    agree(ft.logsumexp(x, -1), torch.logsumexp(tx, -1))


@pytest.mark.defect("V6", "item 2")
@pytest.mark.parametrize(("shape", "axis"), [((6, 4), 1), ((2, 5, 3), 1), ((4, 6), 0)])
def test_cross_entropy_takes_logits_and_nll_loss_log_probabilities(shape, axis):
    x, tx = sample(*shape)
    classes = shape[axis]
    labels, tlabels = integers(0, classes, [n for i, n in enumerate(shape) if i != axis])
    tx = tx if axis == 1 else tx.T
    agree(ft.cross_entropy(x, labels, axis), F.cross_entropy(tx, tlabels, reduction="none"))
    agree(ft.nll_loss(x, labels, axis), F.nll_loss(tx, tlabels, reduction="none"))


@pytest.mark.parametrize("name", "gelu silu softplus sigmoid relu".split())
def test_activations(name):
    x, tx = sample(500)
    x, tx = x * 5, tx * 5
    # PyTorch's softplus is the identity past its threshold of 20
    agree(getattr(ft, name)(x), getattr(F, name)(tx), rtol=1e-10, atol=1e-8)
    agree(ft.gelu(x, "tanh"), F.gelu(tx, approximate="tanh"), rtol=1e-10)


@pytest.mark.parametrize("correction", [0, 1, 4, 5])
@pytest.mark.parametrize("axis", [0, (0, 2), -1])
def test_var(correction, axis):
    x, tx = sample(4, 3, 2)
    with (
        pytest.warns(UserWarning)
        if correction and (np.prod([x.shape[a] for a in np.atleast_1d(axis)]) <= correction)
        else contextlib.nullcontext()
    ):
        expected = torch.var(tx, axis, correction=correction, keepdim=True)
    agree(ft.var(x, axis, True, correction), expected)


# ---- by index -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,)])
def test_embedding(shape):
    (w, tw), (i, ti) = sample(6, 3), integers(0, 6, shape)
    agree(ft.embedding(w, i), F.embedding(torch.as_tensor(ti), tw))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_scatter_and_take_along_axis(axis):
    x, tx = sample(4, 5, 6)
    i, ti = integers(0, 4, (7,))
    agree(ft.gather(x, i, axis), tx.index_select(axis, ti))
    shape = [7 if a == axis else n for a, n in enumerate(x.shape)]
    u, tu = sample(*shape, seed=1)
    agree(ft.scatter(x, i, u, axis, "add"), tx.index_add(axis, ti, tu))
    once, tonce = ft.asarray([3, 0]), torch.tensor([3, 0])
    two = [slice(None)] * axis + [slice(2)]
    expected = tx.index_copy(axis, tonce, tu[tuple(two)])
    agree(ft.scatter(x, once, u[tuple(two)], axis), expected)
    along, talong = integers(0, x.shape[axis], shape, seed=2)
    agree(ft.take_along_axis(x, along, axis), torch.take_along_dim(tx, talong, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_and_puts_nan_last(axis, descending):
    values = np.random.default_rng(0).integers(0, 4, (6, 7, 8)).astype("float32")
    values[values == 3] = np.nan
    x, tx = ft.asarray(values), torch.from_numpy(values)
    order = torch.sort(tx, dim=axis, descending=descending, stable=True)
    agree(ft.sort(x, axis, descending), order.values)
    agree(ft.argsort(x, axis, descending), order.indices)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_topk(axis, largest, k):
    x, tx = sample(5, 6)  # no ties: PyTorch may take either of equals
    values, indices = ft.topk(x, k, axis, largest)
    expected = torch.topk(tx, k, axis, largest)
    agree(values, expected.values)
    agree(indices, expected.indices)


@pytest.mark.parametrize(
    "index",
    [
        (1,),
        (slice(None), -1),
        (Ellipsis, None, 2),
        (slice(1, None, 2), slice(None, 3)),
        ([0, 2, -1],),
        ([0, 1], [2, 3]),
        (slice(None), [[0], [1]], [3, 4]),
        ([1, 0], slice(None), [2, 5]),
        (None, [1], Ellipsis),
    ],
    ids=str,
)
def test_indexing_reads_and_writes(index):
    x, tx = sample(4, 5, 6)
    agree(x[index], tx[index])
    value, tvalue = sample(*tx[index].shape, seed=3)
    x[index], tx[index] = value, tvalue
    agree(x, tx)


def test_masks():
    x, tx = sample(4, 5, 6)
    agree(x[x > 0], tx[tx > 0])
    row, trow = x[:, 0, 0] > 0, tx[:, 0, 0] > 0
    agree(x[row], tx[trow])
    x[x > 0], tx[tx > 0] = 1.5, 1.5
    x[row], tx[trow] = -1.0, -1.0
    agree(x, tx)


@pytest.mark.parametrize("shift", [-9, -1, 0, 2, 7])
def test_rearrangements(shift):
    x, tx = sample(3, 4, 5)
    agree(ft.roll(x, shift, 1), torch.roll(tx, shift, 1))
    agree(ft.tril(x, shift), torch.tril(tx, shift))
    agree(ft.triu(x, shift), torch.triu(tx, shift))
    agree(ft.flip(x, (0, 2)), torch.flip(tx, (0, 2)))
    agree(ft.tile(x, (2, 0, 1)), torch.tile(tx, (2, 0, 1)))
    agree(ft.cumulative_sum(x, 1), torch.cumsum(tx, 1))
    agree(ft.cumulative_prod(x, 1), torch.cumprod(tx, 1))


def test_bfloat16_goes_through_dlpack_both_ways_without_a_copy():
    source = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    borrowed = ft.from_dlpack(source.T)
    copied = ft.asarray(source)
    assert (borrowed.dtype, copied.dtype) == (ft.bfloat16, ft.bfloat16)
    source[0, 0] = 9
    assert borrowed.tolist() == [[9, 3], [1, 4], [2, 5]]
    assert copied.tolist() == [[0, 1, 2], [3, 4, 5]]
    back = torch.from_dlpack(borrowed)
    assert (back.dtype, back.data_ptr()) == (torch.bfloat16, source.data_ptr())
    lent = torch.from_dlpack(ft.ones((64, 64), dtype="bfloat16"))  # outlives the tensor
    assert lent.float().sum().item() == 64 * 64


@pytest.mark.parametrize("dtype", ["float16", "complex64", "complex128"])
def test_other_dtypes_go_both_ways(dtype):
    source = torch.arange(4).to(getattr(torch, dtype))
    assert ft.asarray(source).dtype.name == dtype
    assert torch.equal(torch.from_dlpack(ft.asarray(source)), source)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_accumulated_as_torch_does(dtype):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 300), (5, 300)))
    ours = [ft.asarray(v).astype(dtype) for v in (x, w)]
    theirs = [torch.asarray(v).to(getattr(torch, dtype)) for v in (x, w)]
    for name in ("softmax", "log_softmax"):
        found = getattr(ft, name)(ours[0], 1).astype("float32").numpy()
        want = getattr(torch, name)(theirs[0], 1).float().numpy()
        np.testing.assert_allclose(found, want, rtol=2.0**-7, atol=1e-6, err_msg=name)
    found = ft.linear(*ours).astype("float32").numpy()
    want = torch.nn.functional.linear(*theirs).float().numpy()
    np.testing.assert_allclose(found, want, rtol=2.0**-7, atol=2e-2)


NEWER = [
    (lambda x: ft.einsum("ij,kj->ik", x, x), lambda x: torch.einsum("ij,kj->ik", x, x)),
    (lambda x: ft.quantile(x, [0.1, 0.7], 1), lambda x: torch.quantile(x, double([0.1, 0.7]), 1)),
    (lambda x: ft.nanquantile(x, 0.3, 0), lambda x: torch.nanquantile(x, 0.3, 0)),
    (lambda x: ft.cumulative_logsumexp(x, 1), lambda x: torch.logcumsumexp(x, 1)),
    (lambda x: ft.cumulative_max(x, 0), lambda x: torch.cummax(x, 0).values),
    (lambda x: ft.logaddexp(x, x[::-1]), lambda x: torch.logaddexp(x, x.flip(0))),
    (lambda x: ft.pad(x, 2, mode="wrap"), lambda x: _padded(x, "circular")),
    (lambda x: ft.pad(x, 2, mode="reflect"), lambda x: _padded(x, "reflect")),
    (lambda x: ft.pad(x, 2, mode="edge"), lambda x: _padded(x, "replicate")),
    (lambda x: ft.diff(x, 2, 0), lambda x: torch.diff(x, 2, 0)),
    (lambda x: ft.max_with_index(x, 1)[0], lambda x: x.max(1).values),
    (lambda x: ft.diag(x[0], -1), lambda x: torch.diag(x[0], -1)),
]


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def _padded(x, mode):
    return torch.nn.functional.pad(x[None, None], (2, 2, 2, 2), mode=mode)[0, 0]


@pytest.mark.parametrize(("ours", "theirs"), NEWER)
def test_newer_operations(ours, theirs):
    x = np.random.default_rng(4).normal(size=(4, 5))
    agree(ours(ft.asarray(x)), theirs(torch.tensor(x)))
