"""The registry of extensions: passes, kernels, and packages that register them.

Every plan is made with the current state, ``current()``. The ``version`` of the state is part of
the key of the plan cache. No plan outlives the registrations that it was made with.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from fl_jit.extensions import operations
from fl_jit.extensions.kernels import KernelFactory, Kernels, elementwise
from fl_jit.kernels import registration
from fl_jit.kernels.registration import Registration
from fl_memory import free_after_fork
from fl_tensor.errors import ArgumentError
from fl_tensor.extend import operation_names, settings
from fl_tensor.graph import Graph, Node
from fl_tensor.graph.constant_folding import fold_constants
from fl_tensor.graph.cse import cse
from fl_tensor.graph.inline import inline
from fl_tensor.graph.pipeline import Function, Pass, Pipeline
from fl_tensor.graph.strides import VIEWS

#: The entry point group of packages that register something. Entry points are functions without
#: arguments.
GROUP = "fl.jit.v1"


class ExtensionWarning(RuntimeWarning):
    """An installed package whose registration failed."""


class State(NamedTuple):
    """The registrations at one moment."""

    version: int
    pipeline: Pipeline
    kernels: Kernels

    def rewritten(self, graph: Graph, fusible: Callable[[Node], bool]) -> Graph:
        """``graph`` after all passes. Custom operations without a kernel are replaced by their
        compositions."""
        graph = self.pipeline.run(graph)

        def body(node: Node) -> Graph | None:
            custom = operations.find(node.op)
            if custom is None or fusible(node) or self.kernels.make(node) is not None:
                return None
            return custom.body(node.operands, node.parameters)

        made = inline(graph, body)
        return graph if made is graph else cse(fold_constants(made)).prune()


_state = State(
    0,
    Pipeline(
        [
            Pass("fold", fold_constants, True),
            Pass("common", cse, True),
            Pass("prune", lambda graph: graph.prune(), True),
        ]
    ),
    Kernels(),
)
_versions = itertools.count(1)
_lock = free_after_fork(threading.RLock())
_loaded = False


def current() -> State:
    """The current state, after installed packages have registered their extensions."""
    if not _loaded:
        load()
    return _state


def operation(name: str, compose: Callable[..., Any], roles: str = "") -> operations.Operation:
    """See ``operations.operation``. No plan outlives the composition that it was made with. Calls
    that were deferred before a composition is replaced run with the new one."""
    is_new = operations.find(name) is None
    made = operations.operation(name, compose, roles)
    if not is_new:
        _set()
    return made


def register_pass(
    name: str, function: Function, *, before: str | None = None, after: str | None = None
) -> Registration:
    """Register ``function`` as a graph pass for every computation planned from now on.

    ``function`` takes a ``fl_tensor.graph.Graph`` and returns a graph that computes the same. It
    runs right before or right after another pass, or last. The pass stays registered until
    ``remove()`` of the returned registration, or for a block, ``with register_pass(...):``.
    Computations in such a block need ``ft.eval``: deferred work that is still pending at the end of
    the block runs after it, without the pass.

    The result of a pass is checked (``graph.pipeline.check``) and pruned (DCE). A pass that raises
    or returns an invalid graph is skipped with a ``PassWarning``. Raises ArgumentError for a name
    that is taken, for an unknown name in ``before`` or ``after``, and for a non-callable.
    """
    registration.function(f"[pass] {name!r}", function)
    _set(pipeline=lambda p: p.adding(name, function, before, after))
    return Registration(lambda: _set(pipeline=lambda p: p.without(name)))


def register_kernel(op: str, kernel: KernelFactory | elementwise) -> Registration:
    """Register ``kernel`` as the implementation of ``op`` in every plan compiled from now on. It
    stays registered as a pass does.

    op       the name of an ``operation``, or one of the contract such as ``"matmul"``
    kernel   ``elementwise(build)``, which is fused into the kernels around it; ``program(build)``;
             or a function ``kernel(request)`` that returns ``run(*addresses)``, or None to decline
             this ``Request``. The latest registration is called first

    Operands are never written to, and results never overlap them. A factory that raises or returns
    a non-callable is skipped with a ``KernelWarning``. Raises ArgumentError for an unknown
    operation, for one that moves no data, and for a non-callable.
    """
    custom = operations.find(op)
    if custom is None and (op not in operation_names() or op in VIEWS):
        raise ArgumentError(
            f"[kernel] {op!r}: expected an operation of ft.jit.operation, or one of the contract "
            f"that moves or computes data"
        )
    if custom is None and isinstance(kernel, elementwise):
        raise ArgumentError(f"[kernel] {op!r} is of the contract, whose instructions are fixed")
    if not isinstance(kernel, elementwise):
        registration.function(f"[kernel] of {op!r}", kernel)
    _set(kernels=lambda k: k.adding(op, kernel))
    return Registration(lambda: _set(kernels=lambda k: k.without(op, kernel)))


def load() -> None:
    """Load the entry points of the group ``fl.jit.v1`` of installed packages, once.
    FL_JIT_EXTENSIONS=0 disables them."""
    global _loaded
    with _lock:
        if _loaded:
            return
        is_enabled = settings.switch("FL_JIT_EXTENSIONS", True)
        _loaded = True
    if not is_enabled:
        return
    from importlib.metadata import entry_points

    # Without the lock: another thread may be importing the same module, which registers something.
    for point in entry_points(group=GROUP):
        try:
            point.load()()
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"{point.value} of {GROUP} was left out: {message}", ExtensionWarning, stacklevel=2
            )


def _set(
    pipeline: Callable[[Pipeline], Pipeline] = lambda p: p,
    kernels: Callable[[Kernels], Kernels] = lambda k: k,
) -> None:
    global _state
    with _lock:
        _state = State(next(_versions), pipeline(_state.pipeline), kernels(_state.kernels))
