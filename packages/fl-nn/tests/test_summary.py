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


def test_products_and_convolutions_count_their_multiply_adds():
    table = nn.summary(model(), (2, 1, 4, 4))
    convolution, linear = 2 * 4 * 4 * 4 * 9, 2 * 64 * 10
    assert [row.multiply_adds for row in table.rows] == [0, convolution, 0, 0, linear]
    assert table.flops == 2 * table.multiply_adds == 2 * (convolution + linear)


def test_attention_counts_its_products_and_a_module_that_runs_twice_counts_twice():
    layer = nn.MultiHeadAttention(8, 2)
    projections, scores = 3 * 5 * 8 * 8 + 5 * 8 * 8, 2 * 5 * 5 * 8
    assert nn.summary(layer, (1, 5, 8)).multiply_adds == projections + scores

    linear = nn.Linear(3, 3)
    assert nn.summary(nn.Sequential(linear, linear), (1, 3)).multiply_adds == 18


def test_the_table_is_aligned_text():
    lines = str(nn.summary(model(), (2, 1, 4, 4))).splitlines()
    titles = ["name", "type", "output", "shape", "parameters", "bytes", "multiply-adds"]
    assert lines[0].split() == titles
    assert lines[5].split() == ["2", "View", "(2,", "64)", "0", "0", "0"]
    assert lines[-1].split() == ["total", "698", "2,832", "2,432"]
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


@pytest.mark.defect("N34")
def test_notebooks_show_a_table_of_layers():
    shown = model()._repr_html_()
    rows = [row.replace("</td>", "").split("<td>")[1:] for row in shown.split("<tr>")[2:]]
    assert shown.startswith(
        "<div>Sequential: 698 parameters, 2,832 bytes with buffers</div><table>"
    )
    assert [row[:2] for row in rows] == [
        ["(model)", "Sequential"], ["0", "Conv2D"], ["1", "BatchNorm"], ["2", "View"],
        ["3", "Linear"],
    ]  # fmt: skip
    assert rows[1][3] == "weight (4, 1, 3, 3), bias (4,)"
    assert rows[4][3].startswith("weight (10, 64), bias (10,)")
    assert rows[1][2] == model()[0].extra_repr()
    assert [row[4].partition("<")[0] for row in rows] == ["0", "40", "8", "0", "650"]


@pytest.mark.defect("N34")
def test_a_summary_is_the_same_table_in_html():
    table = nn.summary(model(), (2, 1, 4, 4))
    shown = table._repr_html_()
    assert "<tr><th>name</th><th>type</th><th>output shape</th>" in shown
    assert "<td>3</td><td>Linear</td><td>(2, 10)</td><td>650</td>" in shown
    assert shown.endswith("<td>698</td><td>2,832</td><td>2,432</td></tr></table>")


@pytest.mark.defect("N34")
def test_text_in_the_table_is_escaped():
    class Odd(nn.Module):
        def extra_repr(self):
            return "<script>"

    assert "&lt;script&gt;" in Odd()._repr_html_()
