"""To another backend by its name, and made there from the first: ``to`` and ``backend=``."""

from __future__ import annotations

import inspect

import pytest

import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.dispatch import registry

defect = pytest.mark.defect("O7", "item 8")


class Moon(NumpyBackend):
    """A backend with two devices, one of which has the name of a backend."""

    CONTRACT = (1, 0)
    name = "far-moon"

    def devices(self):
        return [ft.CPU, ft.Device("numpy")]


@pytest.fixture
def moon():
    registry.REGISTRY.register("far-moon", Moon)
    yield registry.get_backend("far-moon")
    del registry.REGISTRY._own["far-moon"], registry._instances["far-moon"]
    registry.REGISTRY._loaded.pop("far-moon", None)


@pytest.fixture
def x():
    return ft.asarray([[1.0, 2.0]], backend="numpy")


@defect
def test_a_tensor_goes_to_a_backend_by_name(x, moon):
    moved = x.to("far-moon")
    assert moved.backend is moon and moved.tolist() == [[1.0, 2.0]] and moved.dtype is x.dtype
    assert x.to("numpy").backend is x.backend and x.to("numpy") is not x


@defect
def test_dtypes_and_devices_come_before_backends(x, moon):
    assert x.to("float64").dtype is ft.float64
    assert x.to("cpu").backend is x.backend
    assert x.to("far-moon").to("numpy").backend is moon, "a device of its own"


@defect
def test_a_name_of_nothing_lists_what_there_is(x, moon):
    with pytest.raises(
        ft.BackendError,
        match=r"\[to\] 'far_moon' is no dtype, no device of backend 'numpy' \(cpu\) and no "
        r"installed backend \(.*far-moon.*\)",
    ):
        x.to("far_moon")


@defect
@pytest.mark.parametrize("call", [lambda x, y: x + y, lambda x, y: x[y.astype("int64")]])
def test_operands_on_two_backends_name_the_way_for_tensors_and_models(x, moon, call):
    with pytest.raises(
        ft.BackendError,
        match=r"on backends 'numpy' and 'far-moon': move one with x\.to\('numpy'\), a whole model "
        r"with model\.to\('numpy'\)",
    ):
        call(x, x.to("far-moon"))


CREATORS = {
    "arange": lambda **options: ft.arange(3, **options),
    "asarray": lambda **options: ft.asarray([1, 2], **options),
    "empty": lambda **options: ft.empty(3, **options),
    "eye": lambda **options: ft.eye(3, k=1, **options),
    "frombytes": lambda **options: ft.frombytes(b"\x01\x02", 2, "uint8", **options),
    "full": lambda **options: ft.full(3, 2, **options),
    "geomspace": lambda **options: ft.geomspace(1.0, 8.0, 4, **options),
    "linspace": lambda **options: ft.linspace(0.0, 1.0, 5, **options),
    "logspace": lambda **options: ft.logspace(0.0, 1.0, 5, **options),
    "ones": lambda **options: ft.ones(3, **options),
    "rand": lambda **options: ft.rand(3, ft.Generator(1), **options),
    "randn": lambda **options: ft.randn(3, ft.Generator(1), **options),
    "tril_indices": lambda **options: ft.tril_indices(3, **options)[1],
    "triu_indices": lambda **options: ft.triu_indices(3, **options)[1],
    "zeros": lambda **options: ft.zeros(3, **options),
    "uniform": lambda **options: ft.Generator(1).uniform(3, 2.0, 3.0, **options),
    "normal": lambda **options: ft.Generator(1).normal(3, 1.0, 2.0, **options),
    "truncated_normal": lambda **options: ft.Generator(1).truncated_normal(3, 1.0, **options),
    "integers": lambda **options: ft.Generator(1).integers(0, 9, 3, **options),
    "bernoulli": lambda **options: ft.Generator(1).bernoulli(3, **options),
    "permutation": lambda **options: ft.Generator(1).permutation(3, **options),
    "choice": lambda **options: ft.Generator(1).choice(3, 2, False, [0.5, 0.5, 0.0], **options),
}


#: Those that took a backend from the first.
ALWAYS = {"asarray", "frombytes", "full", "rand", "randn"}
ALWAYS |= {name for name in CREATORS if hasattr(ft.Generator, name)}


@pytest.mark.parametrize(
    "name", [n if n in ALWAYS else pytest.param(n, marks=defect) for n in CREATORS]
)
def test_whatever_makes_a_tensor_takes_a_backend_by_name(name, moon):
    make = CREATORS[name]
    made = make(backend="far-moon")
    assert made.backend is moon and made.device is ft.CPU
    assert made.tolist() == make(backend="numpy").tolist()
    assert make(backend="far-moon", device="numpy").backend is moon, "a device of its own"
    with pytest.raises(ft.FlError, match="moonless"):
        make(backend="moonless")


@defect
def test_every_function_with_a_device_has_a_backend():
    """But those that make something like a tensor that is there: on its backend."""
    lacking = {
        name
        for name in dir(ft)
        if inspect.isfunction(function := getattr(ft, name))
        and "device" in (names := inspect.signature(function).parameters)
        and "backend" not in names
    }
    assert lacking == {"astype", "empty_like", "full_like", "ones_like", "zeros_like"}


@defect
def test_a_tensor_given_to_asarray_goes_to_the_backend_asked_for(x, moon):
    assert ft.asarray(x, backend="far-moon").backend is moon
    assert ft.asarray(x, backend=moon, device="numpy").backend is moon
    assert ft.asarray(x, backend="numpy") is x
    with pytest.raises(ft.ArgumentError, match="from backend 'numpy' to 'far-moon' only by a copy"):
        ft.asarray(x, backend="far-moon", copy=False)
