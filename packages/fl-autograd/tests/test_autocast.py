"""Which dtype every operation computes in under ``autocast``, and what policies say of it."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend
from fl_tensor import contract
from fl_tensor.backend import TensorAdapter

pytestmark = pytest.mark.skipif(
    ft.float16 not in ft.current_backend().dtypes, reason="the backend has no float16"
)

VALUES = [[0.5, 0.25], [0.25, 0.75]]  # symmetric, positive definite, within every domain

PRODUCTS = {
    "matmul": lambda x: x @ x,
    "linear": lambda x: ft.linear(x, x, x[0]),
    "conv": lambda x: ft.conv(x.reshape(1, 1, 2, 2), x.reshape(1, 1, 2, 2)),
    "conv_data_gradient": lambda x: ft.conv_data_gradient(
        x.reshape(1, 1, 2, 2), x.reshape(1, 1, 2, 2), (1, 1, 3, 3)
    ),
    "conv_weight_gradient": lambda x: ft.conv_weight_gradient(
        x.reshape(1, 1, 2, 2), x.reshape(1, 1, 2, 2), (1, 1, 1, 1)
    ),
    "attention": lambda x: ft.attention(*[x.reshape(1, 1, 2, 2)] * 3),
    "recurrent": lambda x: ft.recurrent(x.reshape(2, 1, 2), x[:1].reshape(1, 1, 2), x),
    "dot": lambda x: ft.dot(x[0], x[1]),
    "inner": lambda x: ft.inner(x, x),
    "outer": lambda x: ft.outer(x[0], x[1]),
    "kron": lambda x: ft.kron(x, x),
    "vecdot": lambda x: ft.vecdot(x, x),
    "tensordot": lambda x: ft.tensordot(x, x, 1),
    "einsum": lambda x: ft.einsum("ij,jk->ik", x, x),
}
NORMALISATIONS = {
    "batch_norm": lambda x: ft.batch_norm(x, x[0], x[1]),
    "batch_norm_training": lambda x: ft.batch_norm_training(x)[0],
    "layer_norm": lambda x: ft.layer_norm(x),
}
SENSITIVE = {
    **{
        name: getattr(ft, name)
        for name in (
            "exp exp2 expm1 log log2 log10 log1p square reciprocal rsqrt erf gelu softplus logit "
            "tan sinh cosh acos asin asinh atanh "
            "sum prod mean var std norm logsumexp "
            "nansum nanprod nanmean nanvar nanstd softmax log_softmax"
        ).split()
    },
    "average": lambda x: ft.average(x, weights=x),
    "trace": lambda x: ft.linalg.trace(x),
    "acosh": lambda x: ft.acosh(x + 1.0),
    "power": lambda x: ft.power(x, x),
    "hypot": lambda x: ft.hypot(x, x),
    "logaddexp": lambda x: ft.logaddexp(x, x),
    "lgamma": ft.lgamma,
    "digamma": ft.digamma,
    "polygamma": lambda x: ft.polygamma(1, x),
    "erfinv": ft.erfinv,
    "cumulative_sum": lambda x: ft.cumulative_sum(x, 0),
    "cumulative_prod": lambda x: ft.cumulative_prod(x, 0),
    "cumulative_logsumexp": lambda x: ft.cumulative_logsumexp(x, 0),
    "cross_entropy": lambda x: ft.nll_loss(x, ft.asarray([0, 1])),
}
DECOMPOSITIONS = {
    name: getattr(ft.linalg, name)
    for name in ("cholesky qr svd svdvals eigh eigvalsh slogdet det inv pinv matrix_norm".split())
} | {
    "matrix_power": lambda x: ft.linalg.matrix_power(x, 2),
    "solve": lambda x: ft.linalg.solve(x, x),
    "lstsq": lambda x: ft.linalg.lstsq(x, x).solution,
    "rfft": lambda x: ft.fft.rfft(x),
}
# Of complex operands or results: only named here.
ALSO_DECOMPOSITIONS = "eig eigvals fft ifft irfft fftn ifftn rfftn irfftn hfft ihfft".split()
PROMOTED = (
    "reshape permute broadcast_to concatenate pad slice gather scatter scatter_max scatter_min "
    "sort expand_dims flip moveaxis roll slice_update split squeeze stack swapaxes "
    "take_along_axis tile topk pad_edges "
    "repeat unstack diag diagonal tril triu embedding unique where to_host cast "
    "negative absolute add subtract multiply divide remainder maximum minimum max min fmax fmin "
    "sqrt cbrt sin cos tanh atan atan2 sigmoid relu silu clip deg2rad rad2deg copysign nan_to_num "
    "diff cross cumulative_max cumulative_min nanmax nanmin median nanmedian quantile nanquantile "
    "bincount histogram avg_pool max_pool avg_pool_gradient max_pool_gradient "
    "batch_norm_gradient real imag conj angle"
).split()

F16, F32 = "float16", "float32"
TABLE = {
    #         products, sensitive, normalisations, decompositions
    "O1": (F16, F32, F32, F32),
    "O2": (F16, F16, F32, F32),
    "O3": (F16, F16, F16, F32),
}
CASES = [
    pytest.param(call, level, name, wanted, id=f"{level}-{name}")
    for level, row in TABLE.items()
    for calls, wanted in zip((PRODUCTS, SENSITIVE, NORMALISATIONS, DECOMPOSITIONS), row)
    for name, call in calls.items()
]


class Operands(ft.Wrapper):
    """The dtypes of the floating operands of each operation that the backend was asked for."""

    def __init__(self):
        self.seen = {}

    def call(self, operation, /, *arguments, **options):
        flat = [a for x in arguments for a in (x if isinstance(x, list) else [x])]
        found = {str(a.dtype) for a in flat if isinstance(a, TensorAdapter) and a.dtype.is_floating}
        self.seen.setdefault(operation.name, found)
        return operation.run(*arguments, **options)


def leaf(values=VALUES, dtype=ft.float32):
    return ag.Variable(ft.asarray(values, dtype), requires_grad=True)


# ---- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [F16, F32])
@pytest.mark.parametrize(("call", "level", "name", "wanted"), CASES)
def test_each_operation_computes_in_the_dtype_of_its_level(call, level, name, wanted, given):
    x = ag.Variable(ft.asarray(VALUES, given))
    with Operands() as operands, ag.autocast(level):
        call(x)
    assert operands.seen[name] == {wanted}


@pytest.mark.parametrize("given", [F16, F32])
@pytest.mark.parametrize(("level", "wanted"), [("O1", F32), ("O3", F16)])
def test_cross_entropy_of_logits_computes_all_of_it_in_the_dtype_of_its_level(level, wanted, given):
    x = ag.Variable(ft.asarray(VALUES, given), requires_grad=True)
    with Operands() as operands, ag.autocast(level):
        loss = ft.cross_entropy(x, ft.asarray([0, 1]))
    assert operands.seen["log_softmax"] == operands.seen["cross_entropy"] == {wanted}
    ft.sum(loss).backward()
    assert str(x.grad.dtype) == given


def test_every_operation_of_the_contract_has_a_place_in_the_table():
    named = [*PRODUCTS, *SENSITIVE, *NORMALISATIONS, *DECOMPOSITIONS, *ALSO_DECOMPOSITIONS]
    everything = {op.name for op in contract.OPERATIONS} - ag.NON_DIFFERENTIABLE
    assert sorted([*named, *PROMOTED]) == sorted(everything)
    for level in TABLE:
        policy = ag.Policy(level)
        assert {name for name in everything if policy.dtype_of(name) is None} == set(PROMOTED)


def test_other_operations_compute_in_the_common_dtype_of_their_operands():
    x, half = leaf(), leaf(dtype=ft.float16)
    with ag.autocast("O3"):
        assert (x + x).dtype is (x + half).dtype is ft.float32
        assert (half * 2.0).dtype is ft.relu(half).dtype is ft.float16
        assert ft.relu(x).dtype is x.reshape(4).dtype is ft.float32


def test_operands_of_two_dtypes_meet_where_the_operation_computes():
    half, x = leaf(dtype=ft.float16), leaf()
    with Operands() as operands, ag.autocast("O1"):
        assert (half @ x).dtype is ft.float16
        assert ft.power(half, x).dtype is ft.float32
    casts = ft.count()
    with casts, ag.autocast("O1"):
        half @ x  # not to float32 and back
    assert operands.seen["cast"] == {F32} and casts["cast"] == 1


def test_a_number_beside_an_operand_is_rounded_to_what_the_operation_computes_in():
    half = leaf([0.5, 0.25], ft.float16)
    with ag.autocast("O1"):
        assert (half**0.1).tolist() == (half.tensor.astype(F32) ** 0.1).tolist()
        assert (0.1**half).tolist() == (0.1 ** half.tensor.astype(F32)).tolist()


@pytest.mark.parametrize("level", TABLE)
def test_float64_integers_and_tensors_are_left_alone(level):
    wide, numbers = leaf(dtype=ft.float64), ag.Variable(ft.asarray([[1, 2], [3, 4]]))
    tensor = ft.asarray(VALUES)
    with ag.autocast(level):
        assert (wide @ wide).dtype is (wide @ leaf()).dtype is ft.exp(wide).dtype is ft.float64
        assert (numbers @ numbers).dtype is numbers.dtype
        assert (tensor @ tensor).dtype is ft.float32


def test_the_default_level_casts_nothing_and_ends_the_casts_of_a_block_around_it():
    x = leaf()
    with ag.autocast("O3"):
        with ag.autocast("DEFAULT"):
            assert (x @ x).dtype is ft.float32
        assert (x @ x).dtype is ft.float16
    assert (x @ x).dtype is ft.float32


def test_bfloat16():
    if ft.bfloat16 not in ft.current_backend().dtypes:
        pytest.skip("the backend has no bfloat16 (numpy: with ml_dtypes)")
    x = leaf()
    with ag.autocast("O1", compute="bfloat16"):
        assert (x @ x).dtype is ft.bfloat16
    with ag.autocast(ag.Policy("O3", compute="bfloat16")):
        y = ft.softmax(x)
    assert y.dtype is ft.bfloat16
    y.sum().backward()
    assert x.grad.dtype is ft.float32


def test_inside_no_grad_it_casts_as_well_and_records_nothing():
    x = leaf()
    with ag.autocast("O1"):
        with ag.no_grad():
            y = x @ x
        z = x @ x
    assert y.dtype is ft.float16 and not y.requires_grad
    z.sum().backward()
    assert x.grad is not None


# ---- policies ------------------------------------------------------------------------------------


def test_a_policy_can_move_an_operation():
    x = leaf()
    moved = {"softmax": "compute", "matmul": "float32", "exp": "promoted"}
    with ag.autocast(ag.Policy("O1", operations=moved)):
        assert ft.softmax(x).dtype is ft.float16
        assert (x @ x).dtype is ft.float32
        assert ft.exp(leaf(dtype=ft.float16)).dtype is ft.float16
        assert ft.linear(x, x).dtype is ft.float16
    with ag.autocast(ag.Policy("DEFAULT", operations={"matmul": "compute"})):
        assert (x @ x).dtype is ft.float16 and ft.linear(x, x).dtype is ft.float32


def test_what_modules_give_depends_on_the_level():
    results = {level: ag.Policy(level).results for level in ("DEFAULT", *TABLE)}
    assert results == {"DEFAULT": None, "O1": ft.float32, "O2": ft.float32, "O3": ft.float16}
    assert ag.Policy("O3", output="float32").results is ft.float32
    assert ag.Policy("O3").param is ft.float32


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ag.autocast("O4"), "no level 'O4': expected one of DEFAULT, O1, O2, O3"),
        (lambda: ag.autocast(1), "1 is no precision: expected a Policy or one of DEFAULT"),
        (lambda: ag.Policy(compute="float64"), "compute=float64: expected float16 or bfloat16"),
        (lambda: ag.Policy(output="int32"), "output=int32: expected a floating dtype"),
        (lambda: ag.Policy(operations={"sofmax": "compute"}), "'sofmax'; did you mean softmax"),
        (lambda: ag.Policy(operations={"exp": "half"}), "expected one of compute, float32, promo"),
        (lambda: ag.as_operation("mine", casts_like="matmull"), "did you mean matmul"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(ag.PolicyError, match=words) as caught:
        make()
    assert isinstance(caught.value, ValueError)


class OnlySingle:
    """The default backend as one that has float32 alone."""

    def __new__(cls):
        kind = type(ft.current_backend())
        dtypes = kind().dtypes - {ft.float16, ft.bfloat16}
        made = type("OnlySingle", (kind,), {"name": "single", "dtypes": dtypes})()
        made.dtypes = dtypes
        return made


def test_a_backend_without_the_dtype_says_so_and_names_the_way_out():
    with ft.use(OnlySingle()):
        x = leaf()
        with ag.autocast("O1"), pytest.raises(ft.DTypeError) as caught:
            x @ x
        words = str(caught.value)
        with ag.autocast("O1"):  # what is not cast is computed
            assert (x.astype("float64") @ x.astype("float64")).dtype is ft.float64
            assert ft.exp(x).dtype is ft.float32
    assert "matmul under O1 computes in float16" in words and "'single' has no float16" in words
    assert "leave the autocast block out" in words


def test_an_operation_of_your_own_is_cast_like_another_or_as_a_policy_says():
    def forward(ops, x, y):
        return ops.matmul(x, y)

    vjps = {
        "x": lambda ops, g, y: ops.matmul(g, ops.permute(y, (1, 0))),
        "y": lambda ops, g, x: ops.matmul(ops.permute(x, (1, 0)), g),
    }
    mine = extend.defop("test_autocast_like", forward, casts_like="matmul", **vjps)
    plain = extend.defop("test_autocast_plain", forward, **vjps)
    x = leaf()
    with ag.autocast("O1"):
        assert mine(x, x).dtype is ft.float16
        assert plain(x, x).dtype is ft.float32
    with ag.autocast(
        ag.Policy(operations={"test_autocast_like": "float32", "test_autocast_plain": "compute"})
    ):
        assert mine(x, x).dtype is ft.float32
        y = plain(x, x)
    assert y.dtype is ft.float16
    y.sum().backward()
    assert x.grad.dtype is ft.float32
    assert mine(x, x).dtype is ft.float32


def test_a_function_of_several_operations_counts_as_one():
    @ag.as_operation("test_autocast_block", casts_like="layer_norm")
    def block(x, weight, *, shift):
        return (x @ weight).exp() + shift

    x, shift = leaf(), ft.asarray([1.0, 2.0], ft.float16)
    with Operands() as operands, ag.autocast("O1"):
        y = block(x.astype("float16"), x, shift=shift)
    assert operands.seen["matmul"] == operands.seen["add"] == {F32}
    assert y.dtype is ft.float32
    with Operands() as operands, ag.autocast("O3"):
        block(x, x, shift=shift)
    assert operands.seen["matmul"] == operands.seen["exp"] == {F16}


def test_is_autocast_enabled_inside_a_block_of_any_level() -> None:
    assert not ag.is_autocast_enabled()
    with ag.autocast("O1"):
        assert ag.is_autocast_enabled()
        with ag.autocast("DEFAULT"):
            assert ag.is_autocast_enabled()
    assert not ag.is_autocast_enabled()
