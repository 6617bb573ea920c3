"""Sequences of different lengths in one batch: padding is told, and changes nothing."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft


def close(x, y):
    return ft.max(ft.absolute(x - y)).item() < 1e-5


def encoder(layer):
    """Steps become fewer before the layer that looks at several of them."""
    return nn.Sequential(
        nn.Conv1D(3, 8, 2, 2), nn.Reorder((0, 2, 1)), nn.Sequential(layer), nn.Linear(8, 2)
    ).eval()


LAYERS = {
    "Transformer": lambda: nn.TransformerEncoderLayer(8, 2, 16, relative=4),
    "Conformer": lambda: nn.Conformer(8, 2, 16, 3, relative=4),
    "Residual": lambda: nn.Residual(
        nn.TransformerEncoderLayer(8, 2, 16),
        shortcuts=[(0, 2, nn.TransformerEncoderLayer(8, 2, 16))],
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_padded_sequence_gives_what_it_gives_alone(name):
    model = encoder(LAYERS[name]())
    x = ft.randn((2, 3, 20))
    alone = model(x[1:, :, :12])
    y = model(x, lengths=nn.Durations([20, 12]))
    assert close(y[1:, :6], alone) and close(y[:1], model(x[:1]))
    assert not close(model(x)[1:, :6], alone)  # without being told, it sees the padding


def test_durations_are_in_any_unit_and_round_up():
    model = encoder(LAYERS["Transformer"]())
    x = ft.randn((2, 3, 20))
    expected = model(x, lengths=[10, 6])
    for lengths in ([20, 12], [1.0, 0.6], ft.asarray([5000, 3000]), [0.3, 0.18], [100, 51]):
        assert close(model(x, lengths=nn.Durations(lengths))[:, :6], expected[:, :6])
    assert not close(model(x, lengths=nn.Durations([100, 50]))[:, :5], expected[:, :5])


@pytest.mark.defect("P2")
@pytest.mark.parametrize("name", ["Transformer", "Conformer"])
def test_lengths_are_steps_also_where_the_longest_is_padded(name):
    layer, x = LAYERS[name]().eval(), ft.randn((2, 9, 8))
    y = layer(x, lengths=[6, 4])
    assert close(y[:1, :6], layer(x[:1, :6])) and close(y[1:, :4], layer(x[1:, :4]))
    assert close(layer(x, lengths=ft.asarray([9, 4]))[:1], layer(x[:1]))


@pytest.mark.defect("P2")
def test_lengths_beyond_the_steps_are_refused():
    layer, x = LAYERS["Transformer"](), ft.zeros((2, 4, 8))
    for lengths in ([5, 4], [400, 100], [4, 0], [4, -1]):
        with pytest.raises(ft.ShapeError, match=r"of 4 steps: .* from 1 to 4\. .*nn\.Durations"):
            layer(x, lengths=lengths)
    with pytest.raises(ft.DTypeError, match="lengths"):
        layer(x, lengths=[1.0, 0.5])
    with pytest.raises(ft.ShapeError, match="of 10 steps"):
        encoder(layer)(ft.zeros((2, 3, 20)), lengths=[20, 12])


def test_lengths_that_do_not_fit():
    layer, x = LAYERS["Transformer"](), ft.zeros((2, 4, 8))
    for lengths in ([1], [1, 2, 3], nn.Durations([1])):
        with pytest.raises(ft.ShapeError, match="one for each sequence"):
            layer(x, lengths=lengths)
    with pytest.raises(ft.ShapeError, match="no key_mask"):
        layer(x, lengths=[4, 2], key_mask=ft.ones((2, 4), ft.bool))
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ft.ShapeError, match="finite numbers above 0"):
            nn.Durations([4, wrong])
    for wrong in (3, ["a", "b"], None):
        with pytest.raises(ft.DTypeError, match="values"):
            nn.Durations(wrong)


def test_a_causal_layer_never_looks_ahead():
    layer = nn.TransformerEncoderLayer(8, 2, 16, causal=True).eval()
    x = ft.randn((1, 5, 8))
    assert close(layer(x)[:, :3], layer(x[:, :3]))
    twin = nn.TransformerEncoderLayer(8, 2, 16).eval()
    twin.load_state_dict(layer.state_dict())
    assert close(layer(x), twin(x, causal=True)) and not close(layer(x), twin(x))


def test_a_layer_of_three_axes_among_four():
    layer = nn.TransformerEncoderLayer(8, 2, 16).eval()
    wrapped, x = nn.FourAxes(layer), ft.randn((2, 5, 8))
    assert close(wrapped(x), layer(x))
    assert close(wrapped(x[None]), layer(x)[None])
    lengths = [5, 3]
    assert close(wrapped(x[None], lengths=lengths), layer(x, lengths=lengths)[None])


def test_of_several_results_the_first_counts():
    lstm, x = nn.LSTM(3, 4), ft.randn((5, 2, 3))
    assert close(nn.FourAxes(lstm)(x[None]), lstm(x)[0][None])


def test_the_axis_that_is_taken_off_has_size_1():
    conv, x = nn.Conv1D(3, 4, 2), ft.randn((2, 3, 1, 6))
    assert close(nn.FourAxes(conv, 2)(x), ft.expand_dims(conv(x[:, :, 0]), 2))
    with pytest.raises(ft.ShapeError, match="Conv1D has no place for axis 2"):
        nn.FourAxes(conv, 2)(ft.zeros((2, 3, 2, 6)))
    assert nn.FourAxes(nn.Embedding(9, 4))(ft.zeros((1, 1, 2, 3), ft.int64)).shape == (1, 2, 3, 4)
