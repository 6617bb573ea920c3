"""The contract as data: every operation with its signature, and the files generated from it.

    python -m fl_tensor.contract --check     compare the generated files with the code
    python -m fl_tensor.contract --write     write them
    python -m fl_tensor.contract --freeze    make this version of the contract final
    python -m fl_tensor.contract --card      print the contract as Markdown

Generated are ``functions/generated.py`` (public functions), ``derived_ops.py`` (the derived
operations as methods) and ``contracts/tensor-MAJOR.MINOR.json`` (the pinned contract of this
version). ``--write`` writes all of them, or none where the contract may not change so.

An operation that a later minor version brings says so: a derived one in its module's
``SINCE = {"name": "1.1"}``, an optional one in its decorator. Those of 1.0 say nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from fl_memory.contract.cards import meanings, whole
from fl_memory.contract.series import Contract
from fl_tensor import derived
from fl_tensor.cached import cached_property
from fl_tensor.capabilities import CAPABILITIES, OptionalOps

__all__ = ["DERIVED", "OPERATIONS", "OPTIONAL", "OpSpec", "PINNED", "is_sequence"]  # noqa: F822

FOLDER = Path(__file__).parent
ARRAY_ROLES = frozenset("APNFIZQRS")
FIRST = "1.0"

#: What a provider may import: these names stay as long as the contract's major version.
PROVIDER_NAMES = {
    "fl_tensor": (
        "ArgumentError BackendError CPU CapabilityError DType DTypeError Device FlError "
        "IndexingError LinAlgError ShapeError Tensor TensorAdapter TensorBackend dtype per_step "
        "trace bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 "
        "float64 complex64 complex128"
    ).split(),
    "fl_tensor.backend": ["TensorAdapter", "TensorBackend"],
    "fl_tensor.dtypes": ["ALL", "sum_dtype"],
    "fl_tensor.rules": (
        "Spec arange broadcast_to cast concatenate conv from_host full gather matmul pad permute "
        "random_bits reshape scatter slice where"
    ).split(),
    "fl_tensor.capability_rules": (
        "cholesky eig eigh fft ifft irfft qr rfft slogdet solve svd"
    ).split(),
    "fl_tensor.backends.delegate": ["DelegatingAdapter", "DelegatingBackend"],
    "fl_tensor.graph": ["Constant", "Fixed", "Graph", "Node", "Value"],
    "fl_tensor.testing": ["TensorBackendSuite"],
    "fl_memory": ["current"],
}
#: How providers call those that belong to no class of the contract.
PROVIDER_CALLS = {
    "fl_tensor": ["Tensor", "per_step", "trace"],
    "fl_tensor.graph": [
        "Graph",
        *(f"Graph.{name}" for name in ("from_json", "prune", "replace", "run", "to_json")),
        "Node",
        "Value",
    ],
}


@dataclass(frozen=True)
class OpSpec:
    """One operation: its name, ``kind`` ("required", "derived" or "optional"), the function that
    defines it, the capability that a backend needs for it, if any, and the contract version that
    brought it."""

    name: str
    kind: str
    function: Callable[..., Any]
    capability: str | None = None
    since: str = FIRST

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
        """``(x: A, axis: Axis = 0) -> tuple[A, A]``; a result of type Any goes without saying."""
        from fl_tensor._generate import source

        result = str(inspect.signature(self.function).return_annotation)
        arrow = "" if result in ("Any", "A") else f" -> {result}"
        return f"({', '.join(map(source, self.parameters))}){arrow}"


def role(parameter: inspect.Parameter) -> str:
    """The role letter of an array parameter (``fl_tensor.roles``), "" for any other."""
    kind = str(parameter.annotation).removesuffix(" | None")
    kind = kind.removeprefix("Sequence[").removesuffix("]")
    return kind if kind in ARRAY_ROLES else ""


def is_sequence(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).startswith("Sequence[")


def _derived() -> tuple[OpSpec, ...]:
    return tuple(
        OpSpec(
            name,
            "derived",
            getattr(module, name),
            getattr(module, "CAPABILITY", None),
            getattr(module, "SINCE", {}).get(name, FIRST),
        )
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
    OpSpec(name, "optional", function, function.capability, function.since)
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
    """What the contract promises, generated from the code."""
    from fl_memory import contract as pinned
    from fl_tensor import dtypes
    from fl_tensor.backend import TensorAdapter, TensorBackend

    operations = {
        op.name: {
            "signature": op.signature,
            "kind": op.kind,
            "capability": op.capability,
            "since": op.since,
        }
        for op in (*_primitives(), *DERIVED, *OPTIONAL)
    }
    fields = [name for name in vars(TensorBackend)["__annotations__"] if name[0] != "_"]
    return pinned.manifest(
        "tensor",
        TensorBackend.CONTRACT,
        {TensorAdapter: (), TensorBackend: fields},
        apart=operations,
        group=f"fl.tensor.v{TensorBackend.CONTRACT[0]}",
        capabilities=list(CAPABILITIES),
        dtypes={
            name: "required" if dtype in dtypes.REQUIRED else "optional"
            for name, dtype in dtypes.ALL.items()
        },
        provider_names={module: sorted(names) for module, names in PROVIDER_NAMES.items()},
        provider_calls={
            f"{module}.{name}": pinned.signature_text(attrgetter(name)(import_module(module)))
            for module, names in PROVIDER_CALLS.items()
            for name in names
        },
        operations=operations,
    )


def summaries() -> dict[str, str]:
    """What every operation means, and in a sentence every member of the contract's classes; under
    "" how to read the signatures."""
    from fl_tensor import roles
    from fl_tensor.backend import TensorAdapter, TensorBackend

    said = meanings((TensorAdapter, TensorBackend))
    operations = (*_primitives(), *DERIVED, *OPTIONAL)
    meant = {op.name: whole(op.doc) for op in operations}
    return {"": f"```\n{inspect.getdoc(roles)}\n```", **said, **meant}


PINNED = Contract(
    name="tensor",
    folder=FOLDER / "contracts",
    build=manifest,
    says=summaries,
    module="fl_tensor.contract",
    number="TensorBackend.CONTRACT (backend.py) and the host of REGISTRY (dispatch/registry.py)",
    mark='say "{version}" at the new operations: SINCE in a derived module, since= of an optional '
    "one, since of the OpCase row; a new required operation needs a new major version",
)


def generated() -> dict[Path, str]:
    """Every generated file and the text it should have."""
    from fl_memory.contract import dumps
    from fl_tensor import _generate

    operations = (*_primitives(), *DERIVED, *OPTIONAL)
    return {
        FOLDER / "derived_ops.py": _generate.derived_ops(DERIVED),
        FOLDER / "functions" / "generated.py": _generate.functions(operations),
        PINNED.path(): dumps(PINNED.generated()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or compare the generated files; the exit status is 1 when one is out of date, 2 where
    files may not be written."""
    given = sys.argv[1:] if arguments is None else arguments
    if {"--write", "--freeze"} & set(given) and PINNED.refusal():
        return PINNED.main(given)
    if "--write" in given:
        from fl_memory.contract import ContractError
        from fl_tensor import _generate

        try:
            PINNED.check_writable()
        except ContractError as error:
            print(error, file=sys.stderr)
            return 1
        # First the methods: the backend class inherits them.
        (FOLDER / "derived_ops.py").write_text(_generate.derived_ops(DERIVED))
        for path, text in generated().items():
            if path.suffix == ".py":
                path.write_text(text)
    elif "--card" not in given:
        stale = [
            p for p, text in generated().items() if p.suffix == ".py" and p.read_text() != text
        ]
        for path in stale:
            print(f"{path.name} is out of date: run python -m fl_tensor.contract --write")
        if stale:
            return 1
    return PINNED.main(given)


if __name__ == "__main__":
    sys.exit(main())
