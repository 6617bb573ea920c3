"""The contract as data: every operation with its signature, and the files generated from it.

    python -m fl_tensor.contract --check     compare the generated files with the code
    python -m fl_tensor.contract --write     write them

Generated are ``functions.py`` (the public functions), ``derived_ops.py`` (the derived operations as
methods) and ``contracts/tensor-1.0.json`` (the pinned contract).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fl_tensor import derived
from fl_tensor.capabilities import OptionalOps

FOLDER = Path(__file__).parent
ARRAY_ROLES = frozenset("APNFI")


@dataclass(frozen=True)
class OpSpec:
    """One operation: its name, ``kind`` ("required", "derived" or "optional"), the function that
    defines it, and the capability that a backend needs for it, if any."""

    name: str
    kind: str
    function: Callable[..., Any]
    capability: str | None = None

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters after ``self`` or ``ops``; annotations are strings."""
        return list(inspect.signature(self.function).parameters.values())[1:]

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of the array parameters (a sequence of arrays counts as one)."""
        return tuple(p.name for p in self.parameters if role(p))

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def signature(self) -> str:
        return ", ".join(str(p) for p in self.parameters)


def role(parameter: inspect.Parameter) -> str:
    """The role letter of an array parameter (``fl_tensor.roles``), "" for any other."""
    kind = str(parameter.annotation).removesuffix(" | None")
    kind = kind.removeprefix("Sequence[").removesuffix("]")
    return kind if kind in ARRAY_ROLES else ""


def is_sequence(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).startswith("Sequence[")


def _derived() -> tuple[OpSpec, ...]:
    return tuple(
        OpSpec(name, "derived", getattr(module, name), getattr(module, "CAPABILITY", None))
        for module in derived.MODULES
        for name in module.__all__
    )


def _primitives() -> tuple[OpSpec, ...]:
    from fl_tensor.backend import TensorBackend

    return tuple(
        OpSpec(name, "required", value)
        for name, value in vars(TensorBackend).items()
        if getattr(value, "__isabstractmethod__", False) and name not in ("devices", "synchronize")
    )


DERIVED: tuple[OpSpec, ...] = _derived()
OPTIONAL: tuple[OpSpec, ...] = tuple(
    OpSpec(name, "optional", function, function.capability)
    for name, function in vars(OptionalOps).items()
    if hasattr(function, "capability")
)


def __getattr__(name: str) -> tuple[OpSpec, ...]:
    # Read late: the generator has to run when derived_ops.py, which the backend inherits, is stale.
    if name == "PRIMITIVES":
        return _primitives()
    if name == "OPERATIONS":
        return (*_primitives(), *DERIVED, *OPTIONAL)
    raise AttributeError(name)


def manifest() -> dict[str, Any]:
    """The pinned contract: operation -> signature, kind, capability, since."""
    from fl_memory import contract as pinned
    from fl_tensor.backend import TensorBackend

    operations = {
        op.name: {
            "signature": op.signature,
            "kind": op.kind,
            "capability": op.capability,
            "since": "1.0",
        }
        for op in (*_primitives(), *DERIVED, *OPTIONAL)
    }
    version = pinned.Version(*TensorBackend.CONTRACT)
    return pinned.pin("tensor", version, operations)


def generated() -> dict[Path, str]:
    """Every generated file and the text it should have."""
    from fl_memory import contract as pinned
    from fl_tensor import _codegen

    return {
        FOLDER / "derived_ops.py": _codegen.derived_ops(DERIVED),
        FOLDER / "functions.py": _codegen.functions((*_primitives(), *DERIVED, *OPTIONAL)),
        FOLDER / "contracts" / "tensor-1.0.json": pinned.dumps(manifest()),
    }


def main(arguments: list[str]) -> int:
    """Write or compare the generated files; the exit status is 1 when one is out of date."""
    if arguments not in (["--check"], ["--write"]):
        print(__doc__)
        return 2
    if arguments == ["--write"]:
        from fl_tensor import _codegen

        # Twice, because the methods come first: the backend class inherits them.
        (FOLDER / "derived_ops.py").write_text(_codegen.derived_ops(DERIVED))
    stale = []
    for path, text in generated().items():
        if arguments == ["--write"]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    for name in stale:
        print(f"{name} is out of date: run python -m fl_tensor.contract --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
