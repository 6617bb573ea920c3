"""Layers: what they compute, how they start, and what they refuse."""

from __future__ import annotations

import math

import pytest
from bits import same

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError


def numbers(*shape):
    return ft.arange(math.prod(shape), dtype=ft.float32).reshape(shape)


# ---- starting values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, bound",
    [
        (lambda g: nn.Linear(64, 50, generator=g), 1 / 8),
        (lambda g: nn.Conv2D(4, 50, 4, generator=g), 1 / 8),
        (lambda g: nn.Conv2D(8, 50, 4, groups=2, generator=g), 1 / 8),
    ],
)
def test_weights_and_bias_start_uniform_within_one_over_root_fan_in(make, bound):
    layer = make(ft.Generator(0))
    for parameter in (layer.weight, layer.bias):
        values = parameter.tensor
        assert 0.8 * bound < ft.max(ft.absolute(values)).item() <= bound
    assert ft.std(layer.weight.tensor).item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_embedding_starts_standard_normal():
    weight = nn.Embedding(200, 50, generator=ft.Generator(0)).weight.tensor
    assert ft.mean(weight).item() == pytest.approx(0.0, abs=0.03)
    assert ft.std(weight).item() == pytest.approx(1.0, abs=0.03)


def test_starting_values_follow_the_default_generator_or_the_given_one():
    ft.seed(3)
    first = nn.Linear(4, 4).weight.tolist()
    assert nn.Linear(4, 4).weight.tolist() != first
    assert nn.Linear(4, 4, generator=ft.Generator(3)).weight.tolist() == first
    ft.seed(3)
    assert nn.Linear(4, 4).weight.tolist() == first


@pytest.mark.parametrize("dtype", [ft.float32, ft.float64])
def test_layers_are_made_in_the_given_dtype(dtype):
    model = nn.Sequential(
        nn.Conv2D(1, 2, 1, dtype=dtype), nn.BatchNorm(2, dtype=dtype), nn.LayerNorm(3, dtype=dtype)
    )
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert model(ft.randn((2, 1, 3, 3), dtype=dtype)).dtype is dtype


# ---- Conv2D and Pool2D ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 6, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_same_padding_gives_size_over_stride_rounded_up(size, stride, kernel):
    x = ft.ones((1, 1, size, size + 1))
    expected = (1, 1, math.ceil(size / stride), math.ceil((size + 1) / stride))
    assert nn.Conv2D(1, 1, kernel, stride, "same")(x).shape == expected
    assert nn.Pool2D(kernel, stride, "same")(x).shape == expected


def test_same_padding_covers_dilated_kernels():
    layer = nn.Conv2D(1, 1, 3, padding="same", dilation=2)
    assert layer(ft.ones((1, 1, 7, 8))).shape == (1, 1, 7, 8)


def test_an_odd_zero_of_same_padding_goes_behind():
    layer = nn.Conv2D(1, 1, (1, 2), padding="same", bias=False)
    layer.weight.tensor = ft.ones((1, 1, 1, 2))
    assert layer(ft.asarray([[[[1.0, 2.0, 3.0]]]])).tolist() == [[[[3.0, 5.0, 3.0]]]]


@pytest.mark.parametrize(("size", "window", "stride", "dilation"), [(7, 3, 1, 1), (8, 4, 3, 2)])
def test_derived_padding_is_what_same_does(size, window, stride, dilation):
    inside = nn.Conv1D(1, 1, window, stride, "same", dilation)
    none = nn.Conv1D(1, 1, window, stride, 0, dilation)
    none.load_state_dict(inside.state_dict())
    sides = nn.derive_padding(size, window, stride, "same", dilation)
    x = ft.randn((1, 1, size))
    # Generated kernels add the taps of padded images in another order.
    assert same(none(ft.pad(x, ((0, 0), (0, 0), sides))).tolist(), inside(x).tolist())


def test_derived_padding_of_a_number_is_that_on_both_sides():
    assert nn.derive_padding(10, 3, padding=2) == (2, 2)
    assert nn.derive_padding(10, 4) == (1, 2)
    with pytest.raises(ModuleError, match="derive_padding.*stride 0"):
        nn.derive_padding(10, 3, 0)


def test_convolution_is_a_cross_correlation_plus_bias():
    layer = nn.Conv2D(1, 1, 2)
    layer.weight.tensor = ft.asarray([[[[1.0, 0.0], [0.0, 10.0]]]])
    layer.bias.tensor = ft.asarray([0.5])
    assert layer(numbers(1, 1, 2, 3)).tolist() == [[[[40.5, 51.5]]]]


def test_groups_do_not_see_one_another():
    layer = nn.Conv2D(2, 2, 1, groups=2, bias=False)
    layer.weight.tensor = ft.asarray([1.0, 10.0]).reshape(2, 1, 1, 1)
    assert layer(numbers(1, 2, 1, 2)).tolist() == [[[[0.0, 1.0]], [[20.0, 30.0]]]]


def test_pooling_modes_treat_padding_differently():
    x = ft.full((1, 1, 2, 2), -4.0)
    corner = {
        mode: nn.Pool2D(2, 2, 1, mode)(x).tolist()[0][0][0][0]
        for mode in ("max", "avg", "avg_exclude_padding")
    }
    assert corner == {"max": -4.0, "avg": -1.0, "avg_exclude_padding": -4.0}


@pytest.mark.defect("item 7")
def test_settings_of_windows_are_shown():
    layer = nn.Pool2D(3, 2, ceil_mode=True, dilation=(1, 2))
    assert repr(layer) == "Pool2D(max, window=3, stride=2, dilation=(1, 2), ceil_mode=True)"
    assert repr(nn.from_config(layer.to_config())) == repr(layer)
    assert layer(ft.ones((1, 1, 6, 6))).shape == (1, 1, 3, 2)
    same = nn.Pool2D(3, padding="same", stride=1, dilation=2)
    assert same(ft.ones((1, 1, 4, 6))).shape == (1, 1, 4, 6)


@pytest.mark.defect("item 7")
def test_of_equal_elements_of_a_dilated_window_the_first_in_c_order_has_the_gradient():
    x = nn.Parameter(ft.asarray([[[[0.0, 9.0, 1.0], [9.0, 9.0, 9.0], [1.0, 9.0, 0.0]]]]))
    ft.sum(nn.Pool2D(2, 1, dilation=2)(x)).backward()
    assert x.grad.tolist() == [[[[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]]


@pytest.mark.defect("item 7")
def test_a_layer_norm_over_channels_sees_one_pixel():
    layer = nn.LayerNorm(3, axis=1)
    x = ft.randn((2, 3, 4, 5), ft.Generator(3))
    wanted = ft.moveaxis(nn.LayerNorm(3)(ft.moveaxis(x, 1, -1)), -1, 1)
    assert ft.allclose(layer(x), wanted, atol=1e-6)
    assert layer(x[0, :, 0, 0][None]).shape == (1, 3)
    assert repr(layer) == "LayerNorm((3,), eps=1e-05, axis=(1,))"
    assert repr(nn.from_config(layer.to_config())) == repr(layer)
    assert nn.summary(layer, (2, 3, 4, 5)).rows[0].output == (2, 3, 4, 5)
    assert {name: v.shape for name, v in layer.state_dict().items()} == {
        "weight": (3,), "bias": (3,)
    }  # fmt: skip


@pytest.mark.defect("item 7")
@pytest.mark.parametrize(
    "sizes, axis, shape",
    [(3, 1, (3,)), (3, 1, (2, 4, 3)), ((3, 4), (2, 1), (2, 4, 3)), (3, -3, (2, 3))],
)
def test_axes_without_these_sizes_are_refused(sizes, axis, shape):
    layer = nn.LayerNorm(sizes, axis=axis)
    with pytest.raises(ft.ShapeError, match="LayerNorm.* expected sizes"):
        layer(ft.ones(shape))


def test_the_stride_of_pooling_is_the_window_unless_given():
    assert nn.Pool2D((2, 3))(ft.ones((1, 1, 4, 6))).shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: nn.Conv2D(3, 4, 3, groups=2), "groups"),
        (lambda: nn.Conv2D(1, 1, 0), "kernel"),
        (lambda: nn.Conv2D(1, 1, 3, stride=(1, 2, 3)), "stride"),
        (lambda: nn.Conv2D(1, 1, 3, padding="valid"), "'same'"),
        (lambda: nn.Conv2D(1, 1, 3, padding=-1), "padding"),
        (lambda: nn.Pool2D(2, mode="mean"), "avg_exclude_padding"),
        (lambda: nn.Pool2D(2, dilation=0), "dilation"),
        (lambda: nn.Pool2D(2, mode="avg", dilation=2), "only of 'max'"),
        (lambda: nn.Linear(0, 1), "at least 1"),
        (lambda: nn.Embedding(3, 0), "at least 1"),
        (lambda: nn.Dropout(1.5), "probability"),
        (lambda: nn.BatchNorm(0), "feature"),
        (lambda: nn.BatchNorm(1, momentum=2.0), "momentum"),
        (lambda: nn.LayerNorm(()), "last axes"),
        (lambda: nn.LayerNorm(3, axis=(1, 2)), "one axis for each size"),
        (lambda: nn.View((-1, -1)), "at most one"),
        (lambda: nn.Conv3D(1, 1, (3, 3)), "3 ints"),
        (lambda: nn.ConvTranspose2D(1, 1, 3, 2, output_padding=2), "output_padding"),
        (lambda: nn.AdaptiveAvgPool2D((1, 0)), "at least 1"),
        (lambda: nn.GroupNorm(2, 3), "divide"),
        (lambda: nn.RMSNorm(()), "last axes"),
        (lambda: nn.Embedding(3, 1, padding_idx=3), "padding_idx"),
        (lambda: nn.PReLU(0), "at least 1"),
        (lambda: nn.HardTanh(1.0, 1.0), "low < high"),
        (lambda: nn.GELU("erf"), "'none' or 'tanh'"),
        (lambda: nn.Normalize(p=0.0), "p > 0"),
        (lambda: nn.Transform(3), "no function"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ModuleError, match=words):
        make()


@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.Conv2D(3, 4, 3), (1, 2, 8, 8)),
        (nn.Conv2D(3, 4, 3), (3, 8, 8)),
        (nn.Conv2D(1, 1, 5), (1, 1, 3, 3)),
        (nn.Pool2D(2), (4, 4)),
        (nn.Linear(3, 2), (4, 2)),
        (nn.BatchNorm(3), (2, 4)),
        (nn.BatchNorm(3), (3,)),
        (nn.LayerNorm((2, 3)), (4, 3)),
        (nn.View((5, -1)), (3, 3)),
        (nn.View((1, 0, 0)), (3,)),
        (nn.Conv1D(3, 4, 1), (1, 2, 8)),
        (nn.ConvTranspose1D(3, 4, 1), (1, 2, 8)),
        (nn.AdaptiveAvgPool2D(1), (2, 3, 4)),
        (nn.GroupNorm(1, 3), (2, 4)),
        (nn.RMSNorm(3), (2, 4)),
        (nn.PReLU(3), (2, 4)),
        (nn.GatedLinearUnit(), (2, 3)),
        (nn.Flatten(1, 4), (2, 3)),
        (nn.TDSBlock(2, 3, 4), (1, 2, 5, 6)),
        (nn.TDSBlock(2, 3, 4), (1, 2, 4)),
    ],
)
def test_inputs_that_do_not_fit_are_shape_errors(layer, shape):
    with pytest.raises(ft.ShapeError, match=str(shape[0])):
        layer(ft.ones(shape))


def test_padding_may_be_same_on_one_axis_alone():
    x = numbers(1, 1, 5, 6)
    assert nn.Conv2D(1, 1, 3, padding=("same", 0))(x).shape == (1, 1, 5, 4)
    assert nn.Pool2D((1, 3), (1, 2), (0, "same"))(x).shape == (1, 1, 5, 3)
    assert "padding=(same, 0)" in repr(nn.Conv2D(1, 1, 3, padding=("same", 0)))
    for wrong in ("full", ("same",), ("same", -1), ("same", "full"), -1):
        with pytest.raises(ModuleError, match="or 'same', or 2 of these"):
            nn.Conv2D(1, 1, 3, padding=wrong)


# ---- View, ReLU, LogSoftmax, Embedding -----------------------------------------------------------


def test_view_takes_sizes_from_the_input_where_it_says_zero():
    assert nn.View((0, -1))(numbers(2, 3, 4)).shape == (2, 12)
    assert nn.View((-1, 1, 2, 2))(numbers(3, 4)).shape == (3, 1, 2, 2)


def test_view_counts_axes_from_the_end_if_so_asked():
    assert nn.View((1, 1, 0, -1), from_end=True)(numbers(5, 4)).shape == (1, 1, 5, 4)
    assert nn.View((-1, 0), from_end=True)(numbers(2, 3, 4)).shape == (6, 4)
    with pytest.raises(ft.ShapeError, match="no axis for a 0"):
        nn.View((0, -1, 2), from_end=True)(numbers(3, 4))


def test_relu_and_log_softmax():
    assert nn.ReLU()(ft.asarray([-1.0, 0.0, 2.0])).tolist() == [0.0, 0.0, 2.0]
    probabilities = ft.exp(nn.LogSoftmax(axis=0)(numbers(3, 2)))
    assert ft.sum(probabilities, 0).tolist() == pytest.approx([1.0, 1.0])


def test_embedding_gives_rows_and_their_gradients_add_up():
    layer = nn.Embedding(4, 2)
    y = layer(ft.asarray([[1, 1], [3, 1]]))
    assert y.shape == (2, 2, 2) and y[1, 0].tolist() == layer.weight.tolist()[3]
    ft.sum(y).backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [3.0, 3.0], [0.0, 0.0], [1.0, 1.0]]


def test_the_padding_row_of_an_embedding_starts_at_zero_and_stays():
    layer = nn.Embedding(3, 2, padding_idx=-1)
    assert layer.weight.tolist()[2] == [0.0, 0.0]
    ft.sum(layer(ft.asarray([2, 0, 2]))).backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("index", [-1, 4])
def test_embedding_refuses_indices_out_of_range(index):
    with pytest.raises(IndexError, match=f"hold {index}: expected 0 .. 3"):
        nn.Embedding(4, 2)(ft.asarray([0, index]))


def test_embedding_refuses_floating_indices():
    with pytest.raises(ft.DTypeError, match="integers"):
        nn.Embedding(4, 2)(ft.ones(2))


def test_a_transposed_convolution_brings_back_the_size():
    x = ft.ones((1, 2, 7, 8))
    down = nn.Conv2D(2, 3, 3, 2, 1)
    up = nn.ConvTranspose2D(3, 2, 3, 2, 1, output_padding=(0, 1))
    assert up(down(x)).shape == x.shape
    gradient = nn.Parameter(x)
    up.weight.tensor = down.weight.tensor
    up.bias = None
    y = down(gradient)
    ft.sum(y * y.tensor).backward()
    assert ft.allclose(gradient.grad, up(y.tensor), atol=1e-5).item()


def test_adaptive_pooling_takes_means_of_windows_that_may_overlap():
    x = ft.asarray([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    assert nn.AdaptiveAvgPool1D(2)(x).tolist() == [[[2.0, 4.0]]]
    assert nn.AdaptiveAvgPool1D(1)(x).tolist() == [[[3.0]]]
    assert nn.AdaptiveAvgPool2D((None, 1))(x.reshape(1, 1, 5, 1)).shape == (1, 1, 5, 1)


def test_identity_passes_any_number_of_values():
    x = ft.ones(1)
    assert nn.Identity()(x) is x and nn.Identity()(x, 2) == (x, 2)


def test_activations_at_their_corners():
    x = ft.asarray([-1e4, -1.0, 0.0, 1.0, 7.0, 1e4])
    assert nn.ReLU6()(x).tolist() == [0.0, 0.0, 0.0, 1.0, 6.0, 6.0]
    assert nn.ThresholdReLU(1.0)(x).tolist() == [0.0, 0.0, 0.0, 0.0, 7.0, 1e4]
    assert nn.LeakyReLU(0.5)(x).tolist() == [-5e3, -0.5, 0.0, 1.0, 7.0, 1e4]
    parameter = nn.Parameter(x)
    ft.sum(nn.ELU()(parameter) + nn.Swish()(parameter) + nn.Softplus()(parameter)).backward()
    assert ft.all(ft.isfinite(parameter.grad)).item()


def test_rms_norm_makes_the_mean_square_one():
    y = nn.RMSNorm(8)(ft.randn((3, 8)) * 5.0)
    assert ft.mean(ft.square(y), -1).tolist() == pytest.approx([1.0] * 3, rel=1e-4)


def test_rms_norm_of_half_precision_squares_in_single():
    if ft.float16 not in ft.current_backend().dtypes:
        pytest.skip("the backend has no float16")
    half = nn.RMSNorm(8, dtype=ft.float16)(ft.full((1, 8), 300.0, ft.float16))
    assert half.dtype is ft.float16 and half.tolist() == [[1.0] * 8]


# ---- Dropout -------------------------------------------------------------------------------------


def test_dropout_zeroes_a_share_and_scales_the_rest():
    y = nn.Dropout(0.25, generator=ft.Generator(0))(ft.ones(10_000))
    assert sorted(set(y.tolist())) == pytest.approx([0.0, 4 / 3])
    assert ft.mean(y).item() == pytest.approx(1.0, abs=0.02)


def test_dropout_is_the_identity_in_evaluation():
    x = ft.ones(100)
    assert nn.Dropout(0.5).eval()(x) is x


def test_dropout_of_nothing_and_of_everything():
    x = ft.ones(3)
    assert nn.Dropout(0.0)(x).tolist() == [1.0] * 3
    assert nn.Dropout(1.0)(x).tolist() == [0.0] * 3


def test_dropout_draws_from_its_own_generator():
    first, second = (nn.Dropout(0.5, generator=ft.Generator(1)) for _ in range(2))
    x = ft.ones(64)
    once = first(x).tolist()
    ft.rand((100,))
    assert second(x).tolist() == once
    assert first(x).tolist() != once


def test_the_gradient_of_dropout_passes_where_values_did():
    x = nn.Parameter(ft.ones(50))
    y = nn.Dropout(0.5)(x)
    ft.sum(y).backward()
    assert x.grad.tolist() == y.tolist()


# ---- normalisation -------------------------------------------------------------------------------


def test_batch_norm_normalises_each_feature_over_the_batch():
    y = nn.BatchNorm(3)(ft.randn((16, 3, 4, 4)) * 5.0 + 2.0)
    assert ft.mean(y, (0, 2, 3)).tolist() == pytest.approx([0.0] * 3, abs=1e-5)
    assert ft.std(y, (0, 2, 3)).tolist() == pytest.approx([1.0] * 3, abs=1e-4)


def test_batch_norm_follows_the_statistics_of_its_batches():
    layer = nn.BatchNorm(1, momentum=0.5)
    layer(ft.asarray([[1.0], [3.0]]))
    assert layer.running_mean.tolist() == [1.0]
    assert layer.running_var.tolist() == [1.5]  # half of 1 and half of 2, the unbiased variance
    assert layer.num_batches_tracked.item() == 1


def test_batch_norm_without_momentum_averages_over_all_batches():
    layer = nn.BatchNorm(1, momentum=None)
    for low in (0.0, 6.0, 9.0):
        layer(ft.asarray([[low], [low + 2.0]]))
    assert layer.running_mean.tolist() == pytest.approx([6.0])
    assert layer.running_var.tolist() == pytest.approx([2.0])


def test_batch_norm_names_the_momentum_of_an_average():
    with pytest.raises(ModuleError, match=r"momentum=-0.1.*None to average over all batches"):
        nn.BatchNorm(3, momentum=-0.1)


def test_batch_norm_in_evaluation_uses_running_statistics_and_leaves_them():
    layer = nn.BatchNorm(1, eps=0.0).eval()
    layer.running_mean, layer.running_var = ft.asarray([1.0]), ft.asarray([4.0])
    assert layer(ft.asarray([[5.0]])).tolist() == [[2.0]]
    assert layer.num_batches_tracked.item() == 0


def test_batch_norm_without_tracking_or_affine_has_no_state():
    layer = nn.BatchNorm(2, affine=False, track_stats=False)
    assert layer.state_dict() == {}
    x = ft.randn((8, 2))
    assert same(layer.eval()(x).tolist(), layer.train()(x).tolist())


def test_batch_norm_normalises_along_another_axis():
    x = ft.randn((6, 5, 3))
    last = nn.BatchNorm(3, axis=-1)(x)
    second = nn.BatchNorm(3)(x.permute(0, 2, 1)).permute(0, 2, 1)
    assert ft.max(ft.absolute(last - second)).item() < 1e-6  # sums run in another order


def test_batch_norm_refuses_to_train_on_one_value_per_feature():
    with pytest.raises(ft.ShapeError, match="skip_last"):
        nn.BatchNorm(3)(ft.ones((1, 3)))


def test_layer_norm_normalises_each_sample():
    y = nn.LayerNorm((3, 4))(ft.randn((5, 3, 4)) * 7.0 + 1.0)
    assert ft.mean(y, (1, 2)).tolist() == pytest.approx([0.0] * 5, abs=1e-5)
    assert ft.std(y, (1, 2)).tolist() == pytest.approx([1.0] * 5, abs=1e-4)
    assert nn.LayerNorm(4, bias=False).bias is None
    assert nn.LayerNorm(4, affine=False).state_dict() == {}


def test_batch_norm_over_several_axes_has_a_feature_for_each_place_on_them():
    x = ft.randn((5, 3, 4, 2)) * 2.0 + 1.0
    layer, twin = nn.BatchNorm(6, (-1, 1)), nn.BatchNorm(6)
    places = x.permute(0, 2, 1, 3).reshape(20, 6)
    for training in (True, False):
        layer.train(training), twin.train(training)
        expected = twin(places).reshape(5, 4, 3, 2).permute(0, 2, 1, 3)
        assert ft.max(ft.absolute(layer(x) - expected)).item() < 1e-5
    for axes in [(1, 2), (1, -3), (1, 9)]:
        with pytest.raises(ft.ShapeError, match="6 features on axis"):
            nn.BatchNorm(6, axes)(x)


def test_prelu_has_its_channels_on_any_axis():
    layer = nn.PReLU(2, axis=-1)
    layer.weight.tensor = ft.asarray([0.5, 2.0])
    assert layer(ft.asarray([[-1.0, -1.0], [4.0, -3.0]])).tolist() == [[-0.5, -2.0], [4.0, -6.0]]
    with pytest.raises(ft.ShapeError, match="2 channels, axis -1"):
        layer(ft.zeros((2, 3)))
