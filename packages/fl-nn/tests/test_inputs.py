"""What modules are called with: arrays are read in the dtype of the module, doubles refused."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = needs("float64")
DOUBLES = np.linspace(-1.0, 1.0, 6).reshape(2, 3)

LAYERS: dict[str, Any] = {
    "Linear": lambda: nn.Linear(3, 2),
    "Sequential": lambda: nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(3, 2)),
    "LayerNorm": lambda: nn.LayerNorm(3),
    "BatchNorm": lambda: nn.BatchNorm(3),
    "weight normalisation": lambda: nn.WeightNorm(nn.Linear(3, 2)),
    "parameters in a list": lambda: Scaled(),
}


class Scaled(nn.Module):
    """Has its parameters in a list."""

    def __init__(self) -> None:
        self.scales = [nn.Parameter(ft.ones(3)), nn.Parameter(ft.ones(3))]

    def forward(self, x: Any) -> Any:
        return x * self.scales[0] * self.scales[1]


@pytest.mark.defect("N8", "V8")
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=needs("float16"))])
def test_an_array_of_numpy_is_read_in_the_dtype_of_the_module(layer: str, dtype: str) -> None:
    module = LAYERS[layer]().to(dtype)
    found = module(DOUBLES)
    assert found.dtype is ft.dtype(dtype)
    assert found.tolist() == module(ft.asarray(DOUBLES, dtype)).tolist()


@pytest.mark.defect("N8", "V8")
def test_a_module_in_double_precision_reads_every_digit_of_arrays_and_lists() -> None:
    layer = nn.Linear(3, 1, bias=False).to("float64")
    layer.weight.tensor = ft.asarray([[1.0, 0.0, 0.0]], ft.float64)
    for x in (np.asarray([[0.1, 0.0, 0.0]]), [[0.1, 0.0, 0.0]], ((0.1, 0.0, 0.0),)):
        assert layer(x).dtype is ft.float64 and layer(x).item() == 0.1


@pytest.mark.defect("N8", "V8")
def test_arrays_of_any_library_are_read() -> None:
    layer = nn.Linear(3, 2)
    expected = layer(ft.ones((3,))).tolist()
    ones = np.ones(3)
    for x in (array.array("d", [1.0] * 3), memoryview(ones), Exporter(ones), Column(ones)):
        assert layer(x).dtype is ft.float32 and layer(x).tolist() == expected


class Column:
    """A column of pandas: NumPy can read it."""

    def __init__(self, values: Any) -> None:
        self._values, self.shape = values, values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._values


class Exporter:
    """An array that others see through DLPack alone."""

    def __init__(self, values: Any) -> None:
        self._values, self.shape = values, values.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


@pytest.mark.defect("N8", "V8")
def test_every_input_of_a_recurrent_layer_is_read() -> None:
    lstm = nn.LSTM(3, 2)
    state = (np.zeros((1, 1, 2)), np.ones((1, 1, 2)))
    y, (h, c) = lstm(np.ones((4, 1, 3)), state)
    assert {y.dtype, h.dtype, c.dtype} == {ft.float32}
    y, _ = lstm(np.ones((4, 1, 3)), state=state, lengths=[4])
    assert y.dtype is ft.float32


@pytest.mark.defect("N8", "V8")
def test_integers_stay_integers() -> None:
    table = nn.Embedding(5, 2)
    expected = table(ft.asarray([1, 4])).tolist()
    for indices in (np.asarray([1, 4]), [1, 4], (1, 4), np.asarray([1, 4], "uint8")):
        assert table(indices).tolist() == expected
    images = np.full((1, 3), 255, "uint8")
    assert nn.Linear(3, 1)(images).dtype is ft.float32


@needs("complex64")
@pytest.mark.defect("N8", "V8")
def test_complex_numbers_are_read_in_the_precision_of_the_module() -> None:
    found = Seen()(DOUBLES * 1j)[0]
    assert found.dtype is ft.complex64


class Seen(nn.Module):
    """Returns its inputs."""

    def __init__(self) -> None:
        self.inner = nn.Linear(1, 1)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return inputs


def test_what_is_no_array_is_handed_on_as_it_is() -> None:
    odd = [None, "text", b"bytes", 2.5, np.float32(2.5), object(), {"x": 1}, ["a", "b"], [], (3, 4)]
    odd += [[[1.0], [1.0, 2.0]], np.asarray(["a"])]
    found = Seen()(ft.ones(1), *odd)
    assert all(got is given for got, given in zip(found[1:], odd, strict=True))


def test_a_module_without_parameters_leaves_its_inputs_alone() -> None:
    assert nn.ReLU()(DOUBLES).dtype is ft.float64


@pytest.mark.defect("N8", "V8")
@pytest.mark.parametrize("layer", LAYERS)
def test_a_tensor_in_double_precision_is_refused_naming_both_ways(layer: str) -> None:
    x, module = ft.asarray(DOUBLES), LAYERS[layer]()
    ways = r'float64.*float32.*x\.astype\("float32"\).*model\.astype\("float64"\)'
    with pytest.raises(ft.DTypeError, match=ways):
        module(x)
    with pytest.raises(ft.DTypeError, match=ways):
        module(ag.Variable(x))
    assert module(x.astype("float32")).dtype is ft.float32
    assert module.astype("float64")(x).dtype is ft.float64


@pytest.mark.defect("N8", "V8")
def test_the_message_says_which_input_it_is() -> None:
    lstm, x = nn.LSTM(3, 2), ft.ones((4, 1, 3))
    state = (ft.zeros((1, 1, 2)), ft.zeros((1, 1, 2), ft.float64))
    with pytest.raises(ft.DTypeError, match=r"\[LSTM\] input 1"):
        lstm(x, state)
    with pytest.raises(ft.DTypeError, match=r"\[LSTM\] state"):
        lstm(x, state=state)


@needs("float16")
@pytest.mark.defect("N8", "V8")
def test_a_tensor_in_double_precision_is_refused_by_modules_in_half_precision() -> None:
    with pytest.raises(ft.DTypeError, match="float16"):
        nn.Linear(3, 1).to("float16")(ft.asarray(DOUBLES))


@needs("float16")
def test_single_and_half_precision_meet_as_arrays_do() -> None:
    single, half = nn.Linear(3, 1), nn.Linear(3, 1).astype("float16")
    x = ft.asarray(DOUBLES, ft.float32)
    assert single(x.astype("float16")).dtype is ft.float32
    assert half(x).dtype is ft.float32


@needs("float16")
def test_under_autocast_double_precision_is_there_on_purpose() -> None:
    layer, x = nn.Linear(3, 1), ft.asarray(DOUBLES)
    with ag.autocast("O1"):
        assert ag.is_autocast_enabled()
        assert layer(x).dtype is ft.float64
    assert not ag.is_autocast_enabled()
    layer.set_precision("O1")
    layer(x)


def test_double_precision_may_pass_through_modules_without_parameters_of_their_own() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Cast("float32"), nn.Linear(3, 1))
    assert model(ft.asarray(DOUBLES)).dtype is ft.float32


def test_lengths_keep_every_digit() -> None:
    class TakesLengths(Seen):
        takes_lengths = True

        def forward(self, *inputs: Any, **options: Any) -> Any:
            return options["lengths"]

    for lengths in (np.asarray([0.1, 0.3]), [0.1, 0.3], ft.asarray([0.1, 0.3], ft.float64)):
        assert nn.Sequential(TakesLengths())(ft.ones(1), lengths=lengths) is lengths


def test_pre_hooks_come_first_and_what_they_give_is_read() -> None:
    layer, seen = nn.Linear(3, 1), []
    layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    layer.register_forward_pre_hook(lambda module, inputs: inputs[0] * 2.0)
    assert layer(DOUBLES).dtype is ft.float32
    assert seen[0] is DOUBLES


def test_astype_converts_the_floating_state_as_to_does() -> None:
    model = nn.BatchNorm(3)
    assert model.astype(ft.float64) is model
    assert {value.dtype for value in model.state_dict().values()} <= {ft.float64, ft.int64}
    with pytest.raises(nn.ModuleError, match="floating"):
        model.astype("int32")
    with pytest.raises(ft.DTypeError):
        model.astype("cpu")
