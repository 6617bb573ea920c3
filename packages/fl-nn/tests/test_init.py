"""Initial values."""

from __future__ import annotations

import math

import pytest

import fl_tensor as ft
from fl_nn import ModuleError, init
from fl_tensor.testing import needs

SHAPE = (60, 30, 3, 3)
FAN_IN, FAN_OUT = 270, 540


def spread(x):
    return ft.std(x).item(), ft.max(ft.absolute(x)).item()


@pytest.mark.parametrize(
    "draw, std",
    [
        (init.kaiming_uniform, math.sqrt(2 / FAN_IN)),
        (init.kaiming_normal, math.sqrt(2 / FAN_IN)),
        (init.glorot_uniform, math.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.glorot_normal, math.sqrt(2 / (FAN_IN + FAN_OUT))),
    ],
)
def test_the_standard_deviation_follows_the_fans(draw, std):
    found, largest = spread(draw(SHAPE, generator=ft.Generator(0)))
    assert found == pytest.approx(std, rel=0.02)
    if "uniform" in draw.__name__:
        assert largest <= std * math.sqrt(3)


def test_fans_can_be_given():
    std, _ = spread(init.kaiming_normal((100, 100), fan_in=50, generator=ft.Generator(0)))
    assert std == pytest.approx(math.sqrt(2 / 50), rel=0.05)
    std, _ = spread(init.glorot_normal((10_000,), 3, 5, gain=2.0, generator=ft.Generator(0)))
    assert std == pytest.approx(1.0, rel=0.05)


def test_slope_narrows_kaiming():
    _, largest = spread(init.kaiming_uniform((100, 100), a=math.sqrt(5), generator=ft.Generator(0)))
    assert 0.099 < largest <= 0.1


def test_uniform_normal_and_constant():
    x = init.uniform((10_000,), -2.0, 4.0, generator=ft.Generator(0))
    assert -2.0 <= ft.min(x).item() < -1.9 and 3.9 < ft.max(x).item() < 4.0
    x = init.normal((10_000,), 5.0, 2.0, generator=ft.Generator(0), dtype=ft.float64)
    assert x.dtype is ft.float64 and ft.mean(x).item() == pytest.approx(5.0, abs=0.1)
    assert init.constant((2, 1), 3).tolist() == [[3.0], [3.0]]


def test_the_same_generator_state_gives_the_same_values():
    draws = [init.normal((5,), generator=ft.Generator(4)).tolist() for _ in range(2)]
    assert draws[0] == draws[1]


@pytest.mark.parametrize(
    "draw",
    [
        init.uniform,
        init.normal,
        init.kaiming_uniform,
        init.kaiming_normal,
        init.glorot_uniform,
        init.glorot_normal,
        init.truncated_normal,
        pytest.param(init.orthogonal, marks=needs("linalg")),
    ],
)
def test_a_generator_of_ones_own_is_used_in_place_of_the_default_one(draw):
    def drawn(seed, **options):
        ft.seed(seed)
        return draw((3, 4), **options).tolist()

    assert drawn(1) == drawn(1) != drawn(2)
    assert drawn(1, generator=ft.Generator(4)) == drawn(2, generator=ft.Generator(4)) != drawn(1)


def test_a_vector_has_no_fans():
    with pytest.raises(ModuleError, match="pass fan_in"):
        init.kaiming_uniform((3,))


def test_truncated_normals_stay_within_values_not_deviations():
    x = init.truncated_normal((1000,), std=5.0, generator=ft.Generator(0))
    assert -2.0 <= ft.min(x).item() < -1.5 and 1.5 < ft.max(x).item() <= 2.0


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 2)])
def test_orthogonal_rows_or_columns_have_length_gain_and_right_angles(shape):
    if "linalg" not in ft.current_backend().capabilities:
        pytest.skip("the backend has no linalg")
    x = init.orthogonal(shape, 2.0, generator=ft.Generator(0)).reshape(shape[0], -1)
    x = x if x.shape[0] <= x.shape[1] else ft.swapaxes(x, 0, 1)
    product = ft.matmul(x, ft.swapaxes(x, 0, 1))
    assert ft.allclose(product, ft.eye(x.shape[0]) * 4.0, atol=1e-5).item()


def test_identity_has_ones_on_the_diagonal():
    assert init.identity(2).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert init.identity(1, 2).tolist() == [[1.0, 0.0]]


def test_a_vector_is_not_orthogonal():
    with pytest.raises(ModuleError, match="two axes"):
        init.orthogonal((3,))
