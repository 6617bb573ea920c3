"""The table of a model's layers."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError


def model():
    return nn.Sequential(
        nn.Conv2D(1, 4, 3, padding="same"), nn.BatchNorm(4), nn.View((0, -1)), nn.Linear(64, 10)
    )


def test_rows_have_shapes_parameters_and_bytes():
    table = nn.summary(model(), (2, 1, 4, 4))
    rows = {row.name: row for row in table.rows}
    assert list(rows) == ["(model)", "0", "1", "2", "3"]
    assert [row.output for row in table.rows] == [
        (2, 10), (2, 4, 4, 4), (2, 4, 4, 4), (2, 64), (2, 10)
    ]  # fmt: skip
    assert [row.parameters for row in table.rows] == [0, 40, 8, 0, 650]
    assert rows["1"].nbytes == 4 * 4 * 4 + 8  # weight, bias, two statistics, a count of int64
    assert table.parameters == 698


def test_the_table_is_aligned_text():
    lines = str(nn.summary(model(), (2, 1, 4, 4))).splitlines()
    assert lines[0].split() == ["name", "type", "output", "shape", "parameters", "bytes"]
    assert lines[5].split() == ["2", "View", "(2,", "64)", "0", "0"]
    assert lines[-1].split() == ["total", "698", "2,832"]
    assert len({len(line) for line in lines}) == 1


def test_it_computes_nothing_and_leaves_the_model_alone():
    net = model()
    net[3].weight.grad = ft.ones((10, 64))
    before, generator = net.state_dict(), ft.default_generator().state()
    calls = []

    def counting(inner, *args):
        calls.append(1)
        return inner.matmul(*args)

    nn.summary(net, (10**6, 1, 4, 4))  # 40 GB of values, were there any
    with ft.override(matmul=counting):
        nn.summary(net, (2, 1, 4, 4))
    assert net.training and net[3].weight.grad is not None
    assert net[3].weight.backend is ft.current_backend()
    assert ft.default_generator().state() == generator
    assert all(net.state_dict()[name].tolist() == x.tolist() for name, x in before.items())


def test_inputs_may_be_tensors_of_other_dtypes():
    net = nn.Sequential(nn.Embedding(7, 3), nn.LayerNorm(3))
    table = nn.summary(net, ft.zeros((2, 5), ft.int64))
    assert table.rows[-1].output == (2, 5, 3)


def test_a_shared_parameter_counts_once_and_an_unused_module_has_no_output():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    net.spare = nn.Linear(1, 1)
    table = nn.summary(net, (1, 2))
    assert table.parameters == 4 + 2
    assert table.rows[-1].name == "spare" and table.rows[-1].output is None


def test_wrong_inputs_are_errors():
    with pytest.raises(ft.ShapeError):
        nn.summary(model(), (2, 3, 4, 4))
    with pytest.raises(ModuleError, match="a tensor or a shape"):
        nn.summary(model(), "2x1x4x4")
    with pytest.raises(ModuleError, match="each input"):
        nn.summary(model())
