"""`fl_tensor.extend`, `array_classes` and `derived.parts`: few names, each documented."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import fl_tensor as ft

#: The draft `extend 1.0`. A name that is added here is a promise; there may be 60.
EXTEND = """
    Layer Stack active current_stack operation_names revived cached_composition gc_paused under
""".split()
ARRAY_CLASSES = """
    BINARY KINDS TEMPORARY UNARY VALUES Answers answer getrefcount prepare same_value
    warn_lost_assignment
""".split()
PARTS = "PAD_MODES attention_weights columns grouped masks row rows scaled scales".split()


@pytest.mark.parametrize(
    "module, names",
    [("extend", EXTEND), ("array_classes", ARRAY_CLASSES), ("derived.parts", PARTS)],
)
def test_each_module_offers_these_names_documented_where_they_are_defined(module, names):
    found = importlib.import_module(f"fl_tensor.{module}")
    assert sorted(found.__all__) == sorted(names)
    assert len(names) <= 60 and found.__doc__
    for name in names:
        value = getattr(found, name)
        if callable(value):
            assert value.__doc__, name


def test_the_stack_of_this_context_is_empty_outside_of_blocks():
    from fl_tensor import extend

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
    code = "import sys, fl_tensor; print(*(m for m in sys.modules if m.endswith('extend')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
