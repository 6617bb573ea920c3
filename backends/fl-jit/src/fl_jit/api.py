"""``ft.jit``: profiles and extensions of deferred execution. See docs/jit.md.

    with ft.jit.profile() as report:
        step()
    print(report)

The tutorial on passes, operations and kernels is docs/tutorials/jit-pass-and-kernel.md. Packages
register theirs in a function that is an entry point of the group ``fl.jit.v1``.
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
from fl_jit.kernels.layout import Layout as Layout
from fl_jit.planning.plan_future import JitWarning as JitWarning
from fl_jit.reports.profile import Row as Row
from fl_jit.reports.profile import profile as profile
from fl_tensor.dispatch import registry
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.pipeline import Function
from fl_tensor.graph.pipeline import PassWarning as PassWarning
from fl_tensor.registration import KernelWarning as KernelWarning
from fl_tensor.registration import Registration as Registration

if TYPE_CHECKING:
    from fl_jit.kernels.codegen.target import Target
    from fl_jit.kernels.llvm.microkernel import MicroKernel
    from fl_jit.kernels.llvm.microkernel_registry import KernelFactory as MicroKernelMaker
    from fl_jit.planning.plan import Plan
    from fl_tensor.dispatch.registry import BackendLike

__all__ = [
    "ExtensionWarning", "JitWarning", "KernelWarning", "Layout", "KernelFactory", "Operation",
    "PassWarning", "Registration", "Request", "Row", "built_in_micro_kernel", "elementwise",
    "operation", "passes", "plans", "profile", "program", "register_kernel",
    "register_micro_kernel", "register_pass", "replacing", "wait",
]  # fmt: skip


def plans(backend: BackendLike = "jit") -> list[Plan]:
    """The plans that a deferred backend keeps, least recently used first. ``print`` one for its
    steps, ``plan.to_dot()`` draws it. Raises ArgumentError for a backend that makes none."""
    return _deferred("plans", backend).plans.entries()


def wait(backend: BackendLike = "jit") -> None:
    """Return when no plan is being made in the background any more; all are used from now on.
    Raises ArgumentError as ``plans``."""
    _deferred("wait", backend).plans.wait()


def passes() -> list[str]:
    """The names of the passes that a graph goes through before it is planned, in their order."""
    return extensions.current().pipeline.names


def register_pass(
    name: str, function: Function, *, before: str | None = None, after: str | None = None
) -> Registration:
    """Have every computation that is planned from now on go through ``function``, which takes a
    ``fl_tensor.graph.Graph`` and returns one that computes the same: right before or right after
    another pass, or last. It stays until ``remove()`` of what is returned is called, or for a
    block, ``with register_pass(...):``, in which ``ft.eval`` has things computed: what is put off
    and not looked at there runs after the block, without the pass.

    What a pass gives is checked (``graph.pipeline.check``) and pruned. A pass that raises, or gives
    no sound graph, is left out with a ``PassWarning``. Raises ArgumentError for a name that is
    taken, for one in ``before`` or ``after`` that is not there, and for what is no function.
    """
    return extensions.register_pass(name, function, before=before, after=after)


def register_kernel(op: str, kernel: KernelFactory | elementwise) -> Registration:
    """Have ``kernel`` compute ``op`` in every plan that is made from now on; it stays as a pass
    does.

    op       the name of an ``operation``, or one of the contract such as ``"matmul"``
    kernel   ``elementwise(build)``, which becomes part of the kernels around it;
             ``program(build)``; or a function ``kernel(request)`` that gives ``run(*addresses)``,
             or None where it has nothing for this ``Request``. Of several the latest is asked first

    Operands are never written to, results never overlap them. A maker that raises, or gives what
    cannot be called, is left out with a ``KernelWarning``. Raises ArgumentError for an operation
    that there is not, or one that moves no data, and for what is no function.
    """
    return extensions.register_kernel(op, kernel)


def register_micro_kernel(maker: MicroKernelMaker) -> Registration:
    """Have generated products and convolutions, all three passes of them, use micro-kernels of
    yours: the innermost loops, which compute a tile of the result in registers. It stays as a pass
    does; kernels that were made before are made anew.

    maker    a function ``maker(kernel, machine)`` that gives a module in LLVM IR, as text, with a
             function ``micro``, or None for those that it leaves to others. ``kernel`` says which
             (dtype, tile, how A and B lie, masked), ``machine`` what the processor has;
             ``built_in_micro_kernel`` is one, to begin with, and the file that it is in has the
             signature. Of several makers the latest is asked first

    The kernel library ``generated`` must be in use (``FL_KERNEL_LIBRARIES``). A maker that raises,
    or whose module LLVM refuses or has no ``micro``, is left out with a ``KernelWarning`` where a
    product needs it. Raises ArgumentError for an object that cannot be called.
    """
    from fl_jit.kernels.llvm import microkernel_registry

    return microkernel_registry.register(maker)


def built_in_micro_kernel(kernel: MicroKernel, machine: Target) -> str:
    """The module of the micro-kernel that is used where ``register_micro_kernel`` has no other: in
    LLVM IR, as text. It is a maker itself."""
    from fl_jit.kernels.llvm import amx, microkernel

    return amx.maker(kernel, machine) or microkernel.assembly(kernel, machine)


def _deferred(op: str, backend: BackendLike) -> JitBackend:
    found = registry.get_backend(backend)
    if not isinstance(found, JitBackend):
        raise ArgumentError(f"[{op}] backend {found.name!r} makes no plans: expected 'jit'")
    return found
