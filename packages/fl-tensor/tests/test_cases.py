"""The operation table is complete, its samples cover what they should, its references are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fl_tensor import contract, dtypes
from fl_tensor.testing import CASES, OpCase, Tolerance, cases, compare
from fl_tensor.testing.hostdata import decode, encode, round_to
from fl_tensor.testing.opcase import BROADCAST, EMPTY, LABELS, NON_CONTIGUOUS, PLAIN, ZERO_D
from fl_tensor.testing.references import philox, windows

OPERATIONS = contract.OPERATIONS
#: Which dtype kinds each role of a parameter admits; Q, R and S admit no complex.
KINDS = {"A": "biufc", "P": "biufc", "N": "iufc", "F": "fc", "I": "biu"}
KINDS |= {"Q": "biuf", "R": "iuf", "S": "f"}
#: Rows with fewer kinds than their operands' role: shifts and labels of bool mean nothing, float
#: log-probabilities are indexed by integers.
NARROWER = {"bitwise_left_shift", "bitwise_right_shift", "one_hot", "bincount"}
#: Transforms are of real or of complex numbers, which no role says.
NARROWER |= {op.name for op in OPERATIONS if op.capability == "fft"}
#: Rows of complex numbers alone.
NARROWER |= {"real", "imag", "conj", "angle"}
#: Operations of which an operand must have an axis.
NEED_AXES = {
    *("concatenate", "sort", "argsort", "nonzero", "cumulative_sum", "cumulative_prod", "argmax"),
    *("argmin", "matmul", "conv", "softmax", "log_softmax", "topk", "take_along_axis", "roll"),
    *("tril", "triu", "moveaxis", "swapaxes", "split", "layer_norm", "batch_norm", "max_pool"),
    *("avg_pool", "dot", "outer", "linear", "arange", "vecdot", "cross", "diagonal", "trace"),
    *("diag", "diff", "repeat", "unstack", "unique", "nanargmax", "nanargmin"),
    *("cumulative_max", "cumulative_min", "cumulative_logsumexp", "attention", "recurrent"),
    *("max_pool_gradient", "avg_pool_gradient", "batch_norm_training", "batch_norm_gradient"),
    *("conv_data_gradient", "conv_weight_gradient"),
    *(op.name for op in OPERATIONS if op.capability in ("linalg", "fft")),
}
#: Operations without array operands have no layout to vary.
MADE_FROM_NOTHING = {"full", "arange", "from_host", "random_bits", "uniform", "normal"}
MADE_FROM_NOTHING |= {"truncated_normal"}


def a_dtype(case: OpCase) -> dtypes.DType:
    return next(d for d in dtypes.ALL.values() if d.name != "bool" and case.accepts(d))


def labels(case: OpCase) -> set[str]:
    return {sample.label for sample in case.draw(a_dtype(case))}


def test_every_public_operation_has_exactly_one_row() -> None:
    assert cases.problems() == []
    assert len(CASES) == len(OPERATIONS)
    assert all(CASES[op.name].capability == op.capability for op in OPERATIONS)


def test_an_operation_without_row_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CASES, "add")
    assert cases.problems() == ["operation 'add' has no row in the operation table"]


def test_a_row_without_operation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CASES, "ad", CASES["add"])
    assert cases.problems() == ["row 'ad' is no operation"]


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_a_row_covers_the_dtypes_of_its_operation(op: contract.OpSpec) -> None:
    roles = [contract.role(p) for p in op.parameters if contract.role(p)]
    if not roles or op.name in NARROWER:
        return
    assert set(KINDS[roles[0]] if op.name != "where" else "biuf") <= set(CASES[op.name].kinds)
    assert roles[0] not in "QRS" or "c" not in CASES[op.name].kinds


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_a_row_has_every_kind_of_sample(case: OpCase) -> None:
    found = labels(case)
    assert found <= set(LABELS)
    wanted = {PLAIN, EMPTY, ZERO_D, NON_CONTIGUOUS}
    if case.name in MADE_FROM_NOTHING:
        wanted -= {NON_CONTIGUOUS}
    if case.name in NEED_AXES:
        wanted -= {ZERO_D}
    if case.name == "broadcast_to":
        wanted |= {BROADCAST}
    assert wanted <= found, f"no sample is {sorted(wanted - found)}"


@pytest.mark.parametrize(
    "op", [op for op in OPERATIONS if len(op.operands) == 2], ids=lambda op: op.name
)
def test_binary_operations_have_broadcasting_samples(op: contract.OpSpec) -> None:
    shapes = [[o.shape for o in s.operands()] for s in CASES[op.name].draw(a_dtype(CASES[op.name]))]
    elementwise = [s for s in shapes if len(s) == 2 and s[0] == s[1]]
    indexed = {"gather", "take_along_axis", "slice_update", "embedding", "cross_entropy", "conv"}
    if op.name in indexed | {"outer", "linear", "pinv", "matrix_rank", "bincount"}:
        return
    assert elementwise
    assert any(a != b for a, b in shapes)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_gradients_are_asked_for_on_samples_that_exist(case: OpCase) -> None:
    assert set(case.grad) <= set(LABELS)
    if case.grad:
        assert set("fc") & set(case.kinds)
        dtype = dtypes.float64 if "f" in case.kinds else dtypes.complex128
        assert [s for s in case.draw(dtype) if s.label in case.grad]


def test_samples_are_the_same_every_time() -> None:
    case = CASES["add"]
    fresh = OpCase(case.name, case.samples, case.reference, case.kinds)
    first, again = case.draw(dtypes.float32), fresh.draw(dtypes.float32)
    assert [str(s) for s in first] == [str(s) for s in again]


def test_the_table_gives_hundreds_of_cases() -> None:
    from fl_tensor.backends.numpy import NumpyBackend
    from fl_tensor.testing.suite.operations import operation_ids

    ids = list(operation_ids(NumpyBackend()))
    assert len(ids) == len(set(ids))
    assert len(ids) >= 500


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_philox_reference_gives_the_published_vectors(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    assert philox.block(counter, key) == words


def test_the_convolution_reference_on_a_case_done_by_hand() -> None:
    x, w = np.array([[[1.0, 2.0, 3.0]]]), np.array([[[1.0, 10.0]]])
    plain = windows.conv(x, w, (1,), ((0, 0),), (1,), (1,), 1)
    assert plain.tolist() == [[[21.0, 32.0]]]
    padded = windows.conv(x, w, (2,), ((1, -1),), (1,), (1,), 1)
    assert padded.tolist() == [[[10.0]]]
    dilated = windows.conv(x, w, (1,), ((0, 0),), (2,), (2,), 1)
    assert dilated.tolist() == [[[21.0, 0.0, 32.0]]]


@pytest.mark.parametrize("name", list(dtypes.ALL))
def test_values_survive_the_way_to_bytes_and_back(name: str) -> None:
    dtype = dtypes.ALL[name]
    values = round_to(np.array([[0, 1, 2], [3, 4, 100]]), dtype)
    data = encode(values, dtype)
    assert len(data) == 6 * dtype.itemsize
    assert np.array_equal(decode(data, (2, 3), dtype), values)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (1.0, 1.0),
        (1 + 2**-8, 1.0),
        (1 + 3 * 2**-8, 1 + 2**-6),
        (-1e39, -math.inf),
        (0.1, 0.10009765625),
    ],
)
def test_bfloat16_rounds_to_nearest_even(value: float, rounded: float) -> None:
    assert round_to(np.array(value), dtypes.bfloat16) == rounded


def test_bfloat16_keeps_nan() -> None:
    quiet = round_to(np.array([np.nan, -np.nan]), dtypes.bfloat16)
    assert np.isnan(decode(encode(quiet, dtypes.bfloat16), (2,), dtypes.bfloat16)).all()


def differs(got: object, want: object, tolerance: Tolerance, dtype: str = "float32") -> bool:
    kind = dtypes.ALL[dtype]
    return bool(compare.difference(np.asarray(got, dtype), want, kind, tolerance))


def test_exact_means_equal() -> None:
    assert not differs([1.0, math.nan, math.inf], [1.0, math.nan, math.inf], Tolerance())
    assert differs(1.0, 1.0 + 2**-23, Tolerance())
    assert differs(math.nan, 1.0, Tolerance())
    assert differs(1.0, math.nan, Tolerance())
    assert differs(math.inf, -math.inf, Tolerance(1e9))


def test_tolerance_is_relative_down_to_its_scale() -> None:
    assert not differs(1.0, 1.0 + 3 * 2**-23, Tolerance(4))
    assert differs(1.0, 1.0 + 6 * 2**-23, Tolerance(4))
    assert differs(1e-6, 1.1e-6, Tolerance(4))
    assert not differs(1e-7, 2e-7, Tolerance(4, scale=1.0))


def test_signs_of_zeros_matter_where_values_only_move() -> None:
    assert not differs(0.0, -0.0, Tolerance())
    assert differs(0.0, -0.0, Tolerance(signed=True))


def test_results_below_the_normal_range_may_be_flushed_unless_values_only_move() -> None:
    assert not differs(0.0, 1e-40, Tolerance())
    assert differs(0.0, 1e-40, Tolerance(signed=True))


def test_integers_are_compared_modulo_their_width() -> None:
    assert not differs(-128, np.array(128, object), Tolerance(), "int8")
    assert differs(127, np.array(128, object), Tolerance(), "int8")


def test_a_difference_names_the_place_and_the_values() -> None:
    got = np.array([[1.0, 2.0], [3.0, 4.5]], np.float32)
    message = compare.difference(
        got, np.arange(1.0, 5.0).reshape(2, 2), dtypes.float32, Tolerance()
    )
    assert "got 4.5 at (1, 1), expected 4.0" in message
    assert "1 of 4 elements" in message
