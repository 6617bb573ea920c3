"""`fl_tensor.extend`, `array_classes` and `derived.parts`: few names, each documented."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import fl_tensor as ft
from fl_tensor import extend

#: The draft `extend 1.0`. A name that is added here is a promise; there may be 60, those of the
#: modules among them included.
EXTEND = """
    BackendLike Layer Preconditions Scalar Shape Stack active apply_operation cache_files
    cached_composition cached_property count_if_alone current_stack gc_paused getrefcount
    is_reproducible operation_attributes operation_names render_table revived settings threads
    through under
""".split()
RULES = "check_conv_gradient check_pool_gradient check_recurrent pool_output_sizes".split()
NUMPY = """
    FROM_NUMPY TO_NUMPY Number NumpyAdapter NumpyBackend adapt errstate is_sole_owner memory
    slice_index
""".split()
ARRAY_CLASSES = """
    BINARY KINDS TEMPORARY UNARY VALUES Answers answer getrefcount prepare same_value
    warn_lost_assignment
""".split()
PARTS = "PAD_MODES attention_weights columns grouped masks row rows scaled scales".split()


@pytest.mark.parametrize(
    "module, names",
    [
        ("extend", EXTEND),
        ("extend.rules", RULES),
        ("extend.numpy", NUMPY),
        ("array_classes", ARRAY_CLASSES),
        ("derived.parts", PARTS),
    ],
)
def test_each_module_offers_these_names_documented_where_they_are_defined(module, names):
    found = importlib.import_module(f"fl_tensor.{module}")
    assert sorted(found.__all__) == sorted(names)
    assert found.__doc__
    for name in names:
        value = getattr(found, name)
        if callable(value) or inspect.ismodule(value):
            assert value.__doc__, name


def test_there_are_at_most_sixty_names():
    count = 0
    for module in ("extend", "extend.rules", "extend.numpy"):
        found = importlib.import_module(f"fl_tensor.{module}")
        count += len(found.__all__)
        parts = [value for name in found.__all__ if inspect.ismodule(value := getattr(found, name))]
        for part in parts:
            functions = [f for name in part.__all__ if inspect.isfunction(f := getattr(part, name))]
            assert all(f.__doc__ for f in functions), part
            count += len(part.__all__)
    assert count <= 60


def test_the_stack_of_this_context_is_empty_outside_of_blocks():
    assert extend.current_stack() is None
    with ft.override(add=lambda inner, x, y: inner.subtract(x, y)) as replaced:
        stack = extend.current_stack()
        assert stack.layer is replaced and list(extend.active(ft.override)) == [replaced]
        with extend.under(None):
            assert (ft.asarray(5.0) + 2.0).item() == 7.0
        assert (ft.asarray(5.0) + 2.0).item() == 3.0
    assert (ft.asarray(5.0) + 2.0).item() == 7.0
    with extend.under(extend.revived(stack)):
        assert (ft.asarray(5.0) + 2.0).item() == 3.0


def test_importing_the_library_does_not_load_them():
    code = "import sys, fl_tensor; print(*(m for m in sys.modules if 'extend' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_importing_the_interface_does_not_load_numpy():
    code = "import sys, fl_tensor.extend, fl_tensor.extend.rules; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_an_operation_applied_to_arrays_promotes_and_wraps_as_the_front_end_does():
    def scaled(ops, x, y):
        return ops.multiply(x, ops.add(x, y))

    result = extend.apply_operation("scaled", "PP", scaled, ft.asarray([1, 2]), 3.0)
    assert isinstance(result, ft.Tensor) and result.dtype is ft.float32
    assert result.tolist() == [4.0, 10.0]
    with ft.override(add=lambda inner, x, y: inner.subtract(x, y)):
        assert extend.apply_operation("scaled", "PP", scaled, ft.asarray([1.0]), 3.0).tolist() == [
            -2.0
        ]
    elsewhere = ft.ones(2, backend="null")
    with pytest.raises(ft.BackendError, match=r"\[scaled\] operands are on backends"):
        extend.apply_operation("scaled", "PP", scaled, ft.ones(2), elsewhere)


def test_attributes_are_the_parameters_that_are_no_arrays():
    assert extend.operation_attributes("conv")[:2] == ("stride", "padding")
    assert extend.operation_attributes("scatter") == ("axis", "mode")
    assert extend.operation_attributes("add") == ()
    with pytest.raises(AttributeError):
        extend.operation_attributes("no_operation")


def test_a_layer_over_a_namespace_sees_its_operations():
    backend = ft.get_backend("null")
    x = backend.full((2,), 0, ft.float32, ft.CPU)
    y = backend.full((2,), 0, ft.int32, ft.CPU)
    seen = extend.through(extend.Preconditions(), backend)
    assert seen.add(x, x).shape == (2,)
    with pytest.raises(ft.DTypeError, match="several dtypes"):
        seen.add(x, y)
    assert extend.through(extend.Preconditions(), object()) is None


def test_reproducible_blocks_are_seen():
    with ft.reproducible():
        assert extend.is_reproducible()
        with ft.reproducible(False):
            assert not extend.is_reproducible()


def test_a_table_aligns_numbers_to_the_right():
    lines = extend.render_table(("name", "calls"), [("add", 1200), ("exp", 0.5)]).splitlines()
    assert lines == ["name  calls", "----  -----", "add   1,200", "exp   0.500"]


def test_pooling_rules():
    from fl_tensor.extend import rules

    window, stride, padding = (2, 3), (2, 1), ((0, 0), (1, 1))
    shape = (1, 4, 6, 5)
    assert rules.pool_output_sizes("max_pool", shape, window, stride, padding) == (3, 5)
    with pytest.raises(ft.ShapeError, match=r"\[max_pool\]"):
        rules.pool_output_sizes("max_pool", shape, (7, 3), stride, padding)
    fit, unfit = ft.ones((1, 4, 3, 5)), ft.ones((1, 4, 3, 4))
    rules.check_pool_gradient("avg_pool_gradient", fit, shape, window, stride, padding)
    with pytest.raises(ft.ShapeError, match=r"\[avg_pool_gradient\] gradient"):
        rules.check_pool_gradient("avg_pool_gradient", unfit, shape, window, stride, padding)


def test_convolution_gradients_have_the_shape_of_the_convolution():
    from fl_tensor.extend import rules

    x, w = (2, 3, 8, 8), (5, 3, 3, 3)
    rest = ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)
    rules.check_conv_gradient("conv_data_gradient", (2, 5, 8, 8), x, w, *rest)
    with pytest.raises(ft.ShapeError, match=r"gives \(2, 5, 8, 8\)"):
        rules.check_conv_gradient("conv_data_gradient", (2, 5, 6, 6), x, w, *rest)


def test_recurrent_operands_fit_the_cell():
    from fl_tensor.extend import rules

    x, state = ft.ones((7, 2, 16)), ft.ones((2, 2, 4))
    weight, bias = ft.ones((16, 4)), ft.ones(16)
    assert rules.check_recurrent(x, state, weight, bias, "lstm", None) == (4, 2)
    with pytest.raises(ft.ShapeError, match=r"\[recurrent\]"):
        rules.check_recurrent(x, state, weight, ft.ones(4), "lstm", None)
    with pytest.raises(ft.ArgumentError, match="cell"):
        rules.check_recurrent(x, state, weight, bias, "none", None)
