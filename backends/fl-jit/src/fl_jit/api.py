"""``ft.jit``: the public API for profiling, inspecting and extending deferred execution.

    with ft.jit.profile() as report:
        step()
    print(report)

Manual: docs/jit.md. Tutorial on passes, operations and kernels:
docs/tutorials/jit-pass-and-kernel.md. Packages register extensions in a function that is an entry
point of the group ``fl.jit.v1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_jit.backend import JitBackend
from fl_jit.extensions import registry as extensions
from fl_jit.extensions.kernels import KernelFactory as KernelFactory
from fl_jit.extensions.kernels import Request as Request
from fl_jit.extensions.kernels import elementwise as elementwise
from fl_jit.extensions.kernels import program as program
from fl_jit.extensions.operations import Operation as Operation
from fl_jit.extensions.pattern_rewrite import replacing as replacing
from fl_jit.extensions.registry import ExtensionWarning as ExtensionWarning
from fl_jit.extensions.registry import operation as operation
from fl_jit.extensions.registry import register_kernel as register_kernel
from fl_jit.extensions.registry import register_pass as register_pass
from fl_jit.kernels.layout import Layout as Layout
from fl_jit.kernels.registration import KernelWarning as KernelWarning
from fl_jit.kernels.registration import Registration as Registration
from fl_jit.planning.plan_future import JitWarning as JitWarning
from fl_jit.reports.profile import Row as Row
from fl_jit.reports.profile import profile as profile
from fl_tensor import get_backend
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.pipeline import PassWarning as PassWarning

if TYPE_CHECKING:
    from fl_jit.kernels.codegen.target import Target
    from fl_jit.kernels.llvm.microkernel import MicroKernel
    from fl_jit.kernels.llvm.microkernel_registry import KernelFactory as MicroKernelFactory
    from fl_jit.planning.plan import Plan
    from fl_tensor.extend import BackendLike

__all__ = [
    "ExtensionWarning", "JitWarning", "KernelWarning", "Layout", "KernelFactory", "Operation",
    "PassWarning", "Registration", "Request", "Row", "built_in_micro_kernel", "elementwise",
    "operation", "passes", "plans", "profile", "program", "register_kernel",
    "register_micro_kernel", "register_pass", "replacing", "wait",
]  # fmt: skip


def plans(backend: BackendLike = "jit") -> list[Plan]:
    """The plans in the plan cache of a deferred backend, least recently used first. ``print`` of a
    plan lists its steps; ``plan.to_dot()`` draws them. Raises ArgumentError for a backend without
    plans."""
    return _deferred("plans", backend).plans.entries()


def wait(backend: BackendLike = "jit") -> None:
    """Return when no plan is being compiled in the background. All plans are used from then on.
    Raises ArgumentError as ``plans`` does."""
    _deferred("wait", backend).plans.wait()


def passes() -> list[str]:
    """The names of the graph passes that run before planning, in execution order."""
    return extensions.current().pipeline.names


def register_micro_kernel(factory: MicroKernelFactory) -> Registration:
    """Register a factory of micro-kernels for generated GEMMs and convolutions (forward, dgrad and
    wgrad). A micro-kernel is the innermost loop, which computes a register tile of the result. It
    stays registered as a pass does. Kernels that were compiled before are compiled again.

    factory  a function ``factory(kernel, machine)`` that returns a module in LLVM IR, as text,
             with a function ``micro``, or None to decline. ``kernel`` describes the micro-kernel
             (dtype, tile, layouts of A and B, masked), ``machine`` the features of the processor.
             ``built_in_micro_kernel`` is an example; its file documents the signature. The latest
             registration is called first

    The kernel library ``generated`` must be in use (``FL_KERNEL_LIBRARIES``). A factory is skipped
    with a ``KernelWarning`` if it raises, or if its module is rejected by LLVM or has no ``micro``.
    The warning appears where a GEMM needs the micro-kernel. Raises ArgumentError for a
    non-callable.
    """
    from fl_jit.kernels.llvm import microkernel_registry

    return microkernel_registry.register(factory)


def built_in_micro_kernel(kernel: MicroKernel, machine: Target) -> str:
    """The built-in micro-kernel, used where ``register_micro_kernel`` provides no other: a module
    in LLVM IR, as text. This function is itself a valid factory."""
    from fl_jit.kernels.llvm import microkernel

    return microkernel.assembly(kernel, machine)


def _deferred(op: str, backend: BackendLike) -> JitBackend:
    deferred = get_backend(backend)
    if not isinstance(deferred, JitBackend):
        raise ArgumentError(f"[{op}] backend {deferred.name!r} makes no plans: expected 'jit'")
    return deferred
