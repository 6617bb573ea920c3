"""Which dtype every operation computes in under ``autocast``, and that gradients are as before."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend
from fl_tensor import contract

pytestmark = pytest.mark.skipif(
    ft.float16 not in ft.current_backend().dtypes, reason="the backend has no float16"
)

VALUES = [[0.5, 0.25], [0.25, 0.75]]  # symmetric, positive definite, within every domain

PRODUCTS = {
    "matmul": lambda x: x @ x,
    "linear": lambda x: ft.linear(x, x, x[0]),
    "conv": lambda x: ft.conv(x.reshape(1, 1, 2, 2), x.reshape(1, 1, 2, 2)),
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
    "cumulative_sum": lambda x: ft.cumulative_sum(x, 0),
    "cumulative_prod": lambda x: ft.cumulative_prod(x, 0),
    "cumulative_logsumexp": lambda x: ft.cumulative_logsumexp(x, 0),
    "cross_entropy": lambda x: ft.cross_entropy(x, ft.asarray([0, 1])),
}
DECOMPOSITIONS = {
    name: getattr(ft.linalg, name)
    for name in ("cholesky qr svd svdvals eigh eigvalsh slogdet det inv pinv matrix_norm".split())
} | {
    "matrix_power": lambda x: ft.linalg.matrix_power(x, 2),
    "solve": lambda x: ft.linalg.solve(x, x),
    "lstsq": lambda x: ft.linalg.lstsq(x, x),
    "rfft": lambda x: ft.fft.rfft(x),
}
# Of complex results, which no gradient passes through: only named here.
ALSO_DECOMPOSITIONS = "eig eigvals fft ifft irfft fftn ifftn rfftn irfftn hfft ihfft".split()
PROMOTED = (
    "reshape permute broadcast_to concatenate pad slice gather scatter sort expand_dims flip "
    "moveaxis roll slice_update split squeeze stack swapaxes take_along_axis tile topk pad_edges "
    "repeat unstack diag diagonal tril triu embedding unique where to_host cast "
    "negative absolute add subtract multiply divide remainder maximum minimum max min fmax fmin "
    "sqrt cbrt sin cos tanh atan atan2 sigmoid relu silu clip deg2rad rad2deg copysign nan_to_num "
    "diff cross cumulative_max cumulative_min nanmax nanmin median nanmedian quantile nanquantile "
    "bincount histogram avg_pool max_pool avg_pool_gradient max_pool_gradient "
    "batch_norm_gradient real imag conj"
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
        found = {str(a.dtype) for a in flat if hasattr(a, "dtype") and a.dtype.is_floating}
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


# ---- gradients -----------------------------------------------------------------------------------


def network(x, weights):
    a, b, scale = weights
    h = ft.layer_norm(ft.gelu(ft.linear(x, a)), scale)
    return ft.cross_entropy(ft.log_softmax(ft.tanh(h @ b)), ft.asarray([0, 1, 2, 0])).mean()


def weights_of(network_seed=0):
    g = ft.Generator(network_seed)
    shapes = [(8, 5), (8, 3), (8,)]
    return [ag.Variable(g.normal(shape) * 0.5, requires_grad=True) for shape in shapes]


def gradients(level, compute="float16", seed=0):
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of(seed)
    with ag.autocast(level, compute=compute):
        loss = network(x, weights)
    loss.backward()
    return loss, [w.grad for w in weights]


@pytest.mark.parametrize("level", TABLE)
def test_gradients_arrive_in_float32_and_are_close_to_those_of_float32(level):
    loss, expected = gradients("DEFAULT")
    found, made = gradients(level)
    assert found.item() == pytest.approx(loss.item(), rel=5e-3)
    for one, other in zip(made, expected):
        assert one.dtype is ft.float32
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=0.01 * abs(other).max().item())


def test_a_weight_is_cast_once_in_a_block_and_its_gradients_are_added_in_float32():
    w = leaf([[1.0]])
    tiny = ag.Variable(ft.asarray([[2.0**-12]]))
    seen = ft.count()
    with ag.autocast("O1"), seen:
        big = w @ ag.Variable(ft.asarray([[1.0]], ft.float16))
        small = [w @ tiny.astype("float16") for _ in range(8)]
    assert seen["cast"] == 2  # w, and tiny
    total = sum((y.astype("float32") for y in small), big.astype("float32"))
    total.backward()
    # Each gradient alone is exact in float16; added up there, the small ones would be lost.
    assert w.grad.item() == 1.0 + 8 * 2.0**-12


def test_a_weight_that_changes_inside_a_block_is_cast_anew():
    w, x = leaf([[1.0]]), ag.Variable(ft.asarray([[1.0]]))
    with ag.autocast("O1"):
        assert (x @ w).item() == 1.0
        w.tensor = ft.asarray([[2.0]])
        assert (x @ w).item() == 2.0
        y = w * 1.0
        assert (x @ y).item() == 2.0
        y[0, 0] = 3.0
        assert (x @ y).item() == 3.0


def test_casts_do_not_outlive_their_variables():
    block = ag.autocast("O1")
    x = leaf()
    with block:
        for _ in range(5):
            (x * 1.0) @ (x * 2.0)
        assert len(block._casts) == 0
        x @ x
        assert len(block._casts) == 1
    assert len(block._casts) == 0


def test_a_backward_pass_inside_the_block_gives_the_same_gradients():
    _, expected = gradients("O1")
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of()
    with ag.autocast("O1"):
        network(x, weights).backward()
        network(x, weights).backward()
    for weight, other in zip(weights, expected):
        assert weight.grad.tolist() == (other + other).tolist()


@pytest.mark.parametrize("inside", [False, True])
def test_second_order(inside):
    def slope(level):
        x = leaf([[0.5, -1.0]])
        with ag.autocast(level):
            y = (ft.tanh(x @ x.T) ** 2).sum()
            if inside:
                first = ag.grad(y, x, create_graph=True)
        if not inside:
            first = ag.grad(y, x, create_graph=True)
        assert first.dtype is ft.float32
        (first * first).sum().backward()
        return x.grad

    np.testing.assert_allclose(slope("O1").numpy(), slope("DEFAULT").numpy(), rtol=2e-2)


def test_gradients_are_added_as_they_are_whatever_the_policy_says_of_add():
    x = leaf()
    with ag.autocast(ag.Policy("O1", operations={"add": "compute", "multiply": "compute"})):
        y = ft.exp(x).sum()
        slope = ag.grad([y, y], x, create_graph=True)
        slope.sum().backward()
    assert slope.dtype is x.grad.dtype is ft.float32
    assert slope.tolist() == (2.0 * ft.exp(x.tensor)).tolist()


# ---- with the rest of the library ----------------------------------------------------------------


def test_overrides_see_the_operands_that_were_cast_and_the_casts():
    seen = []

    def matmul(inner, x, y):
        seen.append((str(x.dtype), str(y.dtype)))
        return inner.matmul(x, y)

    def cast(inner, x, dtype):
        seen.append(str(dtype))
        return inner.cast(x, dtype)

    x = leaf()
    with ag.autocast("O1"):
        x @ x
        with ft.override(matmul=matmul, cast=cast):
            x @ x
    assert seen == [F16, F16, (F16, F16)]  # under an override nothing is taken from before
    seen.clear()
    with ft.override(matmul=matmul), ag.autocast("O1"):
        x @ x
    assert seen == [(F16, F16)]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("policy", [(), ("matmul", "linear")])
def test_checkpoints_compute_again_in_the_same_dtypes(policy, inside):
    _, expected = gradients("O1")
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of()
    with ag.autocast("O1"):
        loss = ag.checkpoint(network, x, weights, policy=policy)
        if inside:
            loss.backward()
    if not inside:
        with ag.autocast("O3"):  # what surrounds the backward pass does not matter
            loss.backward()
    assert [w.grad.tolist() for w in weights] == [g.tolist() for g in expected]


def test_a_checkpoint_outside_computes_again_without_casts():
    _, expected = gradients("DEFAULT")
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of()
    loss = ag.checkpoint(network, x, weights)
    with ag.autocast("O1"):
        loss.backward()
    assert [w.grad.tolist() for w in weights] == [g.tolist() for g in expected]


def test_recorders_and_other_tapes_see_the_casts():
    class Names(extend.Recorder):
        def __init__(self):
            self.names = []

        def recorded(self, node, result):
            self.names.append(node.name)
            return node

    class Doubling(extend.Tape):
        def matmul(self, x, y):
            return super().matmul(x, y) * 2.0

    x = leaf()
    with ag.autocast("O1"), Names() as names:
        x @ x
    assert names.names == ["cast", "cast", "matmul"]
    with extend.using(Doubling), ag.autocast("O1"):
        y = x @ x
    with ag.autocast("O1"):
        assert (y / 2.0).tolist() == (x @ x).tolist() and y.dtype is ft.float16


def test_a_replaced_rule_is_used():
    x = leaf()
    with ag.autocast("O1"), extend.replace_rule("exp", x=lambda ops, g: g):
        ft.exp(x).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_replacing_the_rule_of_the_casts_themselves():
    x = leaf()
    with extend.replace_rule("cast", x=lambda ops, g, x_dtype: ops.cast(ops.negative(g), x_dtype)):
        with ag.autocast("O1"):
            (x @ x + x @ x).backward(ft.ones((2, 2), ft.float16))
    plain = leaf()
    ((plain @ plain) * 2.0).sum().backward()
    assert x.grad.tolist() == (-plain.grad).tolist()


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


def test_blocks_belong_to_their_thread():
    x, found = leaf(), []
    with ag.autocast("O1"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert found == [ft.float32]


def test_a_block_may_be_entered_again_and_by_several_threads():
    block, x, found = ag.autocast("O1"), leaf(), []

    def work():
        with block:
            for _ in range(50):
                found.append((x @ x).dtype)

    threads = [threading.Thread(target=work) for _ in range(3)]
    with block, block:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.append((x @ x).dtype)
    assert set(found) == {ft.float16} and len(found) == 151
