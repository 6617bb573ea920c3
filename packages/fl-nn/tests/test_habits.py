"""What people type by habit from other libraries works, or the error says what to type."""

from __future__ import annotations

from typing import Any

import pytest

import fl_autograd as ag
import fl_data as data
import fl_nn as nn
import fl_tensor as ft


def batches() -> list[Any]:
    return [(ft.ones((4, 3)), ft.ones((4, 2)))] * 2


def trainer(model: nn.Module, **options: Any) -> nn.Trainer:
    return nn.Trainer(model, nn.SGD(model.parameters()), nn.mse, progress=False, **options)


# ---- optimizers ----------------------------------------------------------------------------------


@pytest.mark.defect("N30")
@pytest.mark.parametrize(
    "params, words",
    [
        (lambda model: model, r"a module, Linear: give model\.parameters\(\)"),
        (lambda model: [model], r"a module, Linear: give model\.parameters\(\)"),
        (lambda model: [ag.Variable(ft.ones(3))], r"p = nn\.Parameter\(x\)"),
        (lambda model: [ft.ones(3)], r"a Tensor \(3,\), which is not a Parameter"),
        (lambda model: model.weight, r"give a list, Adam\(\[p\], \.\.\.\)"),
        (lambda model: dict(model.named_parameters()), "hold a str: give parameters"),
    ],
)
def test_an_optimizer_says_what_it_takes(params, words):
    with pytest.raises(nn.ModuleError, match=rf"\[Adam\] params .*{words}"):
        nn.Adam(params(nn.Linear(3, 2)))


@pytest.mark.defect("N29")
def test_parameters_are_keys_and_members_by_identity():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    unique = set(model.parameters())
    assert len(unique) == 4 and model[0].weight in unique
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert names[model[1].bias] == "1.bias"
    model[1].bias.tensor = ft.ones(2)  # a new value is the same parameter
    assert names[model[1].bias] == "1.bias"
    assert nn.Parameter(model[1].bias) not in names


# ---- buffers -------------------------------------------------------------------------------------


class Average(nn.Module):
    """Keeps a running average of a parameter."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(ft.ones(3))
        self.register_buffer("average", ft.zeros(3))


@pytest.mark.defect("N31")
def test_a_buffer_takes_the_value_of_what_has_a_history():
    model = Average()
    model.average = 0.5 * model.average + 0.5 * model.weight
    assert type(model.average) is ft.Tensor
    assert model.state_dict()["average"].tolist() == [0.5, 0.5, 0.5]


@pytest.mark.defect("N31")
def test_a_buffer_assigned_from_a_parameter_is_no_second_parameter():
    model = Average()
    model.average = model.weight
    model.register_buffer("first", model.weight)
    assert [name for name, _ in model.named_parameters()] == ["weight"]
    assert [name for name, _ in model.named_buffers()] == ["average", "first"]
    model.weight.tensor = ft.zeros(3)
    assert model.average.tolist() == model.first.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.defect("N31")
def test_a_buffer_refuses_what_is_no_array():
    model = Average()
    with pytest.raises(nn.ModuleError, match=r"\[Average\] average is a buffer .* float"):
        model.average = 3.0
    model.average = None
    assert list(model.state_dict()) == ["weight"]


# ---- lengths -------------------------------------------------------------------------------------


@pytest.mark.defect("N30")
@pytest.mark.parametrize("shape", [(), (2, 1), (2, 1, 1)])
def test_lengths_of_other_than_one_axis_are_refused(shape):
    lengths = ft.ones(shape, ft.int64)
    with pytest.raises(ft.ShapeError, match=r"\[LSTM\] lengths .* of shape \(2,\)"):
        nn.LSTM(3, 2)(ft.ones((4, 2, 3)), lengths=lengths)
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    with pytest.raises(ft.ShapeError, match=r"\[Transformer.*\] lengths .* of shape \(2,\)"):
        layer(ft.ones((2, 4, 8)), lengths=lengths)


def test_lengths_of_recurrent_layers_are_whole():
    with pytest.raises(ft.DTypeError, match=r"\[LSTM\] lengths hold 1\.5: expected an int"):
        nn.LSTM(3, 2)(ft.ones((4, 2, 3)), lengths=[4, 1.5])


# ---- the trainer ---------------------------------------------------------------------------------


@pytest.mark.defect("N30")
@pytest.mark.parametrize("model", [nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2))])
def test_predict_says_how_to_leave_the_targets_out(model):
    run = trainer(model)
    with pytest.raises(nn.TrainingError, match="the 2 fields of a batch") as caught:
        run.predict(batches())
    assert "fl_data.Transform(batches, lambda batch: batch[:1])" in str(caught.value)
    inputs = data.Transform(batches(), lambda batch: batch[:1])
    assert [y.shape for y in run.predict(inputs)] == [(4, 2), (4, 2)]


def test_an_error_of_a_model_with_one_input_stays_as_it_is():
    def broken(x):
        raise TypeError("of the model")

    model = nn.Sequential(nn.Linear(3, 2), nn.Transform(broken))
    with pytest.raises(TypeError, match="of the model") as caught:
        trainer(model).predict([(ft.ones((4, 3)),)])
    assert not isinstance(caught.value, ft.FlError)


@pytest.mark.defect("N30")
@pytest.mark.parametrize(
    "meter, words",
    [
        (nn.mae, r"is a function: give a Meter, such as nn\.MSEMeter\(\)"),
        (nn.MSEMeter, r"is the class MSEMeter: give a meter, MSEMeter\(\)"),
        (3, "is a int: give a Meter"),
    ],
)
def test_meters_that_are_none_are_refused(meter, words):
    with pytest.raises(nn.TrainingError, match=rf"meters\['error'\] {words}"):
        trainer(nn.Linear(3, 2), meters={"error": meter})


@pytest.mark.defect("N30")
def test_the_value_of_a_meter_is_a_property():
    with pytest.raises(nn.ModuleError, match=r"\[Count\] value is a method: write @property"):

        class Count(nn.Meter):
            def value(self) -> int:
                return 0
