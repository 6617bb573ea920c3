"""A provider written for tensor 1.0 works with this fl-tensor, and always will.

The package in ``compat/provider_1_0`` never changes, and imports only what the contract promises to
providers.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fl_tensor as ft
from fl_tensor import contract
from fl_tensor.dispatch.registry import REGISTRY
from fl_tensor.testing import TensorBackendSuite

FOLDER = Path(__file__).resolve().parent / "compat"
FILES = sorted(p for p in FOLDER.rglob("*") if p.suffix in (".py", ".txt") or p.name == "METADATA")

#: Never to be edited, as little as the files.
DIGEST = "0a133168597e8c8e"

#: What providers of 1.0 may import from fl-tensor: taking one away breaks somebody's package.
PROMISED = {
    "fl_tensor": """ArgumentError BackendError CPU CapabilityError DType DTypeError Device FlError
        IndexingError LinAlgError ShapeError TensorAdapter TensorBackend bfloat16 bool complex128
        complex64 dtype float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64
        uint8""".split(),
    "fl_tensor.backend": ["TensorAdapter", "TensorBackend"],
    "fl_tensor.dtypes": ["ALL", "sum_dtype"],
    "fl_tensor.rules": """Spec arange broadcast_to cast concatenate conv from_host full gather
        matmul pad permute random_bits reshape scatter slice where""".split(),
    "fl_tensor.capability_rules": """cholesky eig eigh fft ifft irfft qr rfft slogdet solve
        svd""".split(),
    "fl_tensor.backends.delegate": ["DelegatingAdapter", "DelegatingBackend"],
    "fl_tensor.testing": ["TensorBackendSuite"],
    "fl_memory": ["current"],
}


def _find() -> None:
    sys.path.insert(0, str(FOLDER))
    REGISTRY.refresh()


_find()  # the suite asks the backend what there is to test


class TestProvider(TensorBackendSuite):
    backend = "provider-1-0"


@pytest.fixture(scope="module", autouse=True)
def _path() -> Iterator[None]:
    if str(FOLDER) not in sys.path:  # a worker among several may come back to this file
        _find()
    yield
    sys.path.remove(str(FOLDER))
    REGISTRY.refresh()


def test_it_is_found_and_accepted() -> None:
    cls = REGISTRY.load("provider-1-0")
    assert cls.CONTRACT == (1, 0) <= tuple(REGISTRY.host)
    assert REGISTRY.origin("provider-1-0") == "provider-1-0 1.0"
    about = [problem.partition(";")[0] for problem in REGISTRY.problems()]  # then come all names
    assert not [problem for problem in about if "provider-1-0" in problem]
    with ft.use("provider-1-0"):
        assert ft.softmax(ft.zeros((2, 4)), -1).tolist() == [[0.25] * 4] * 2


def test_its_files_are_as_they_were() -> None:
    names = [str(path.relative_to(FOLDER).as_posix()) for path in FILES]
    texts = [path.read_text(encoding="utf-8") for path in FILES]
    assert hashlib.sha256(repr((names, texts)).encode()).hexdigest()[:16] == DIGEST


def used_names(source: str) -> set[str]:
    """``fl_tensor.Device``, ``fl_memory.current`` ...: what a file uses of the fl packages."""
    tree, names, aliases = ast.parse(source), set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("fl_"):
                    aliases[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fl_"):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in aliases:
                names.add(f"{aliases[node.value.id]}.{node.attr}")
    return names


def test_it_uses_promised_names_only() -> None:
    promised = {f"{module}.{name}" for module, names in PROMISED.items() for name in names}
    used = set().union(*(used_names(p.read_text()) for p in FILES if p.suffix == ".py"))
    assert used <= promised
    assert {"fl_tensor.TensorBackend", "fl_tensor.Device", "fl_memory.current"} <= used


#: What 1.1 adds: graphs, for a provider that compiles them.
ADDED = {
    "fl_tensor": ["Tensor", "per_step", "trace"],
    "fl_tensor.graph": ["Constant", "Fixed", "Graph", "Node", "Value"],
}


@pytest.mark.defect("O4", "item 8")
def test_what_providers_may_import_is_pinned_and_there() -> None:
    pinned = contract.PINNED.generated()["provider_names"]
    modules = {**PROMISED, **ADDED}
    promised = {m: sorted({*PROMISED.get(m, []), *ADDED.get(m, [])}) for m in modules}
    assert pinned == promised
    for module, names in promised.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_it_has_what_is_required_and_nothing_else() -> None:
    cls = REGISTRY.load("provider-1-0")
    own = {name for name in vars(cls) if callable(getattr(cls, name)) and not name.startswith("_")}
    assert own - {"devices", "synchronize"} == {op.name for op in contract.PRIMITIVES}
    duties = contract.PINNED.generated()["dtypes"]
    assert {str(dtype) for dtype in cls.dtypes} == {d for d in duties if duties[d] == "required"}


@pytest.mark.defect("O4", "item 8")
def test_how_a_provider_runs_a_recorded_graph_is_pinned() -> None:
    pinned = contract.PINNED.generated()["provider_calls"]
    assert pinned["fl_tensor.Tensor"].startswith("(adapter: TensorAdapter, backend: TensorBackend")
    assert pinned["fl_tensor.graph.Graph.run"] == (
        "(self, ops: Any, inputs: Sequence[Any], *, constants: bool = False) -> list[Any]"
    )
    assert {"fl_tensor.trace", "fl_tensor.graph.Graph", "fl_tensor.graph.Node"} <= pinned.keys()
    backend = REGISTRY.load("provider-1-0")()
    x = ft.asarray([1.0, 2.0], backend=backend)
    with ft.trace() as graph:
        graph.input(x)
        graph.output(x * 2.0)
    (result,) = graph.prune().run(backend, [x.adapter])
    assert ft.Tensor(result, backend).tolist() == [2.0, 4.0]
