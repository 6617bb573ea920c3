"""``nn.compile``: a training step captured once as a graph, and run without its Python code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import fl_tensor as ft
from fl_autograd.extend import preserved, substitute
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.optim.optimizer import Optimizer
from fl_nn.parameter import Parameter
from fl_nn.tree import state_entries
from fl_tensor.graph.capture import NumberSlot, TensorSlot, placeholder
from fl_tensor.graph.compiled import Compiled, generator_slots
from fl_tensor.random import default_generator

R = TypeVar("R")


def compile(
    step: Callable[..., R],
    *owners: Module | Optimizer,
    check_every: int = 0,
    strict: bool = False,
) -> Compiled[R]:
    """``step``, with its operations recorded once and run without its code:

        def train_step(x, y):
            optimizer.zero_grad()
            loss = nn.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = nn.compile(train_step, model, optimizer)
        for x, y in batches:
            loss = step(x, y)

    owners       the modules and optimizers whose parameters, buffers, gradients and numbers the
                 step reads and replaces
    check_every  run the step itself at each call of such a number, as ``ft.compile``
    strict       raise CaptureError where the step has no graph, as ``ft.compile``

    Models and optimizers have the new values after each call. Learning rates, step counts and
    random streams go on as they do without. Gradients that the step has used for an update are
    gone after it. Results are Tensors. The step may be called, changed by ``model.eval()``, saved
    and loaded as before. Raises ModuleError for what is neither Module nor Optimizer.
    """
    for owner in owners:
        if not isinstance(owner, (Module, Optimizer)):
            raise ModuleError(
                f"[compile] a {type(owner).__name__}: give the modules and optimizers of the step, "
                f"as nn.compile(step, model, optimizer)"
            )
    return Compiled(step, StepState(owners), check_every, strict)


class StepState:
    """What a training step reads and replaces: a ``fl_tensor.graph.capture.State``."""

    def __init__(self, owners: Collection[Module | Optimizer]) -> None:
        self.modules = [owner for owner in owners if isinstance(owner, Module)]
        self.optimizers = [owner for owner in owners if isinstance(owner, Optimizer)]
        #: Whether the step forgets the gradients that it finds: those before it do not matter.
        self._forgets = False

    # ---- what there is -----------------------------------------------------------------------

    def parameters(self) -> list[Parameter]:
        found = {id(p): p for owner in self.modules for p in owner.parameters()}
        found |= {id(p): p for owner in self.optimizers for p in owner.parameters}
        return list(found.values())

    def generators(self) -> list[ft.Generator]:
        found = {id(g): g for owner in self.modules for _, g in owner.named_generators()}
        default = default_generator()
        return [*found.values(), *([] if id(default) in found else [default])]

    def signature(self) -> Hashable:
        parameters = self.parameters()
        return (
            tuple([m.training for owner in self.modules for m in owner.modules()]),
            tuple([(p.requires_grad, p.dtype, id(p.backend)) for p in parameters]),
            self._forgets or any(p.grad is not None for p in parameters),
            tuple([_settings(optimizer) for optimizer in self.optimizers]),
            tuple(map(id, self.generators())),
        )

    def slots(self) -> tuple[list[TensorSlot], list[NumberSlot]]:
        tensors: list[TensorSlot] = []
        numbers: list[NumberSlot] = []
        seen: set[Any] = set()
        for owner in self.modules:
            for entry in state_entries(owner, persistent=False):
                if entry.key in seen:
                    continue
                seen.add(entry.key)
                tensors.append(
                    _parameter_slot(entry.name, entry.owner)
                    if isinstance(entry.owner, Parameter)
                    else TensorSlot(
                        entry.name,
                        functools.partial(getattr, entry.owner, entry.attribute),
                        functools.partial(setattr, entry.owner, entry.attribute),
                    )
                )
        for n, optimizer in enumerate(self.optimizers):
            prefix = f"optimizer{n or ''}"
            for i, parameter in enumerate(optimizer.parameters):
                if (id(parameter), "tensor") not in seen:
                    tensors.append(_parameter_slot(f"{prefix}.parameter{i}", parameter))
            for i, state in enumerate(optimizer.state):
                for name, value in state.items():
                    where = f"{prefix}.{i}.{name}"
                    get = functools.partial(state.__getitem__, name)
                    put = functools.partial(state.__setitem__, name)
                    if isinstance(value, ft.Tensor):
                        tensors.append(TensorSlot(where, get, put))
                    else:
                        numbers.append(NumberSlot(where, get, put))
            for i, group in enumerate(optimizer.param_groups):
                for name in _varying(optimizer, group):
                    get = functools.partial(group.__getitem__, name)
                    put = functools.partial(group.__setitem__, name)
                    numbers.append(NumberSlot(f"{prefix}.group{i}.{name}", get, put))
        for i, generator in enumerate(self.generators()):
            numbers += generator_slots(f"generator{i}", generator)
        return tensors, numbers

    # ---- capture -----------------------------------------------------------------------------

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """As before at the end of the block; inside, gradients that were there are symbols."""
        parameters = self.parameters()
        had = [p for p in parameters if p.grad is not None or (self._forgets and p.requires_grad)]
        with ExitStack() as stack:
            for generator in self.generators():
                stack.callback(generator.set_state, generator.state())
            for owner in self.modules:
                for module in owner.modules():
                    stack.callback(_restore, vars(module), dict(vars(module)))
            for optimizer in self.optimizers:
                stack.callback(_restore, vars(optimizer), dict(vars(optimizer)))
                for held in (*optimizer.state, *optimizer.param_groups):
                    stack.callback(_restore, held, dict(held))
            stack.enter_context(preserved(parameters))
            for parameter in had:
                # No input of the graph: a step that uses it is refused.
                inner = placeholder(parameter)
                substitute(parameter, inner)
                parameter.grad = inner
            yield
        if had:
            self._forgets = True

    def made(self, written: Collection[str]) -> list[TensorSlot]:
        tensors, _ = self.slots()
        used = {id(slot.put.args[0]) for slot in tensors if slot.name in written}  # type: ignore[attr-defined]
        return [
            TensorSlot(f"gradient{i}", functools.partial(_gradient, p), _Gradient(p))
            for i, p in enumerate(self.parameters())
            if p.grad is not None and id(p) not in used
        ]

    def begin(self) -> None:
        for parameter in self.parameters():
            parameter.zero_grad()


def _parameter_slot(name: str, parameter: Parameter) -> TensorSlot:
    return TensorSlot(
        name,
        functools.partial(getattr, parameter, "tensor"),
        functools.partial(substitute, parameter),
    )


def _gradient(parameter: Parameter) -> ft.Tensor:
    grad = parameter.grad
    assert grad is not None
    return grad.tensor


class _Gradient:
    """Assigns the gradient of a parameter."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def __call__(self, value: ft.Tensor) -> None:
        self.parameter.grad = value


def _varying(optimizer: Optimizer, group: dict[str, Any]) -> list[str]:
    # Settings of a group that a schedule may change at each step.
    return [n for n in ("lr", *sorted(optimizer.scheduled - {"lr"})) if type(group.get(n)) is float]


def _settings(optimizer: Optimizer) -> Hashable:
    groups = []
    for group in optimizer.param_groups:
        varying = _varying(optimizer, group)
        fixed = {k: v for k, v in group.items() if k not in varying and k != "params"}
        groups.append((len(group["params"]), tuple(varying), tuple(fixed.items())))
    states = [
        tuple([(name, type(value)) for name, value in state.items()]) for state in optimizer.state
    ]
    return type(optimizer), optimizer.skips_next, tuple(groups), tuple(states)


def _restore(held: dict[str, Any], before: dict[str, Any]) -> None:
    held.clear()
    held.update(before)
