"""The call of a module: precision, hooks, conversion of inputs, and `forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import fl_autograd as ag
import fl_tensor as ft
from fl_memory.causes import observed
from fl_nn.causes import forward_observed
from fl_nn.errors import ModuleError, recursion_error
from fl_nn.inputs import PLAIN, convert_inputs
from fl_nn.tree import ModuleTree
from fl_nn.values import cast_results
from fl_tensor.annotations import misfit

#: ``hook(module, inputs, output)`` and ``hook(module, inputs)``.
Hook = Callable[[Any, tuple[Any, ...], Any], Any]
PreHook = Callable[[Any, tuple[Any, ...]], Any]

# As names of this file they are found at once.
float64, complex128 = ft.float64, ft.complex128


def _explained(
    module: Forward, inputs: tuple[Any, ...], options: dict[str, Any], error: Exception
) -> Exception:
    """The error for a `forward` of these packages that was given what its annotations do not
    allow; `error` where they do, and for errors that explain themselves."""
    forward = type(module).forward
    if isinstance(error, ft.FlError) or not forward.__module__.startswith("fl_"):
        return error
    problem = misfit(forward, (module, *inputs), options)
    return error if problem is None else ft.DTypeError(f"[{type(module).__name__}] {problem}")


class Forward(ModuleTree):
    """Inherited by `Module`."""

    #: Whether `forward` has an option `lengths`, which containers then pass on: see Sequential.
    takes_lengths: ClassVar[bool] = False
    _forward_hooks: tuple[Hook, ...] = ()
    _forward_pre_hooks: tuple[PreHook, ...] = ()
    _precision: ag.Policy | None = None

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The computation. Every concrete module defines it."""
        raise ModuleError(
            f"{type(self).__name__} defines no forward(); write it, or call its parts one by one"
        )

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if self._precision is None:
            return self._call_hooked(inputs, options)
        with ag.autocast(self._precision):
            output = self._call_hooked(inputs, options)
        return cast_results(output, self._precision.results)

    def _call_hooked(self: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        for before in self._forward_pre_hooks:
            replaced = before(self, inputs)
            if replaced is not None:
                inputs = replaced if isinstance(replaced, tuple) else (replaced,)
        for x in (*inputs, *options.values()):
            if type(x) in PLAIN:
                continue
            if not isinstance(x, ft.Array) or (dtype := x.dtype) is float64 or dtype is complex128:
                inputs, options = convert_inputs(self, inputs, options)
                break
        try:
            if observed:
                output = forward_observed(self, inputs, options)
            else:
                output = self.forward(*inputs, **options)
        except RecursionError as error:
            raise recursion_error(type(self).__name__) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise _explained(self, inputs, options, error) from error
        for hook in self._forward_hooks:
            replaced = hook(self, inputs, output)
            output = output if replaced is None else replaced
        return output

    def register_forward_hook(self, hook: Hook) -> Callable[[], None]:
        """Call `hook(module, inputs, output)` after every forward; a result other than None
        replaces the output. Returns a function that removes the hook. Under `checkpoint` it is
        called in the second run, too: there `fl_autograd.is_recomputing()` is true. Raises
        ModuleError for what cannot be called."""
        _check_hook("register_forward_hook", hook)
        self._forward_hooks = (*self._forward_hooks, hook)

        def remove() -> None:
            self._forward_hooks = tuple(h for h in self._forward_hooks if h is not hook)

        return remove

    def register_forward_pre_hook(self, hook: PreHook) -> Callable[[], None]:
        """Call `hook(module, inputs)` before every forward; a result other than None replaces the
        inputs (a tuple of them, or the only one). Returns a function that removes the hook. Raises
        ModuleError for what cannot be called."""
        _check_hook("register_forward_pre_hook", hook)
        self._forward_pre_hooks = (*self._forward_pre_hooks, hook)

        def remove() -> None:
            self._forward_pre_hooks = tuple(h for h in self._forward_pre_hooks if h is not hook)

        return remove


def _check_hook(where: str, hook: object) -> None:
    if not callable(hook):
        raise ModuleError(f"[{where}] {hook!r} is no function: give hook(module, ...)")
