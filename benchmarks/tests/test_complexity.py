"""What `complexity.py` counts."""

from __future__ import annotations

import complexity
import pytest

TEXT = '''"""A docstring
of two lines."""

import os  # counts


class C:
    """Another."""

    text = """three
    lines of
    code"""

    def f(self):  # a comment
        # and one alone
        return (
            1,
        )
'''


def test_lines_of_code_are_those_that_do_something():
    assert complexity.code_lines(TEXT) == 1 + 1 + 3 + 1 + 3


@pytest.mark.parametrize(
    ("name", "word", "does"),
    [
        ("aten::add_", "add", True),
        ("aten::_foreach_add", "add", True),
        ("aten::addmm", "add", False),
        ("quantized::conv2d_relu", "conv", True),
        ("quantized::conv2d_prepack", "conv", False),
        ("sum", "sum", True),
        ("cumsum", "sum", False),
    ],
)
def test_operators_are_counted_by_the_words_of_their_names(name, word, does):
    assert complexity.performs(name, word) is does


def test_an_operation_is_defined_in_a_few_places():
    assert complexity.places("conv") == ["contract", "shape rule", "numpy", "jit", "gradient"]


def test_what_a_distribution_needs_is_counted_with_it():
    assert {"fl-nn", "fl-tensor", "fl-memory", "numpy"} <= complexity.needed(["fl-nn"])
    assert complexity.size_of("no-such-distribution") == ""
