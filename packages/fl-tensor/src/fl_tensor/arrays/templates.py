"""Functions made from a template: it is compiled once, and copied with other names and constants.

Compiling takes 0.2 ms, and ``Tensor`` has 35 such methods: ``import fl_tensor`` would be noticeably
slower if each were compiled.
"""

from __future__ import annotations

import functools
import sys
from types import FunctionType
from typing import Any


@functools.cache
def _compiled(source: str) -> FunctionType:
    scope: dict[str, Any] = {}
    exec(compile(source, "<template>", "exec"), scope)
    found: FunctionType = scope["METHOD"]
    return found


def method_from(source: str, name: str, replaced: dict[str, str], scope: dict[str, Any]) -> Any:
    """The function ``METHOD`` that ``source`` defines, as a method ``name`` of ``Tensor`` with the
    globals ``scope``. Attributes and string constants that are among ``replaced`` are replaced."""
    template = _compiled(source)
    code = template.__code__
    names: dict[str, Any] = {"co_name": name}
    if sys.version_info >= (3, 11):
        names["co_qualname"] = f"Tensor.{name}"
    code = code.replace(
        co_filename=f"<Tensor.{name}>",
        co_names=tuple([replaced.get(each, each) for each in code.co_names]),
        co_consts=tuple(
            [replaced.get(each, each) if type(each) is str else each for each in code.co_consts]
        ),
        **names,
    )
    made = FunctionType(code, scope, name, template.__defaults__)
    made.__qualname__ = f"Tensor.{name}"
    return made
