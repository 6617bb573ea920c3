"""``nn.compile``: a training step captured once as a graph, and run without its Python code."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

import fl_tensor as ft
from fl_autograd.extend import preserved, recording, substitute
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.optim.ema import EMA
from fl_nn.optim.loss_scaling import DynamicLossScaler
from fl_nn.optim.optimizer import Optimizer
from fl_nn.parameter import Parameter
from fl_nn.step_slots import (
    AssignValue,
    average_slots,
    gradient_slot,
    module_slots,
    optimizer_slots,
    parameter_slot,
    scaler_slots,
    varying_settings,
)
from fl_tensor.graph.capture import NumberSlot, TensorSlot, Unready, placeholder
from fl_tensor.graph.closures import places
from fl_tensor.graph.compiled import SETTINGS, Compiled, generator_slots
from fl_tensor.random import default_generator

R = TypeVar("R")


Owner: TypeAlias = Module | Optimizer | ft.Generator | EMA | DynamicLossScaler
OWNERS = (Module, Optimizer, ft.Generator, EMA, DynamicLossScaler)


def compile(
    step: Callable[..., R],
    *owners: Owner,
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

        step = nn.compile(train_step)
        for x, y in batches:
            loss = step(x, y)

    owners       modules, optimizers, generators, averages of weights and loss scalers whose values
                 the step reads and replaces; those that it finds in variables around it are known
                 anyway
    check_every  run the step itself at each call of such a number, as ``ft.compile``
    strict       raise CaptureError where the step has no graph, as ``ft.compile``

    Models and optimizers have the new values after each call. Learning rates, step counts and
    random streams go on as they do without. Gradients that the step has used for an update are
    gone after it. Results are Tensors. The step may be called, changed by ``model.eval()``, saved
    and loaded as before. It may be a module itself. Raises ModuleError for other owners.
    """
    for owner in owners:
        if not isinstance(owner, OWNERS):
            raise ModuleError(
                f"[compile] a {type(owner).__name__}: give the modules, optimizers and generators "
                f"of the step, as nn.compile(step, model, optimizer)"
            )
    if isinstance(step, Module):
        owners = (step, *owners)
    return Compiled(step, StepState(step, owners), check_every, strict)


def _recording() -> Hashable:
    # Recorders see every operation of the step itself: a kind of call that never comes again.
    mode = recording()
    return mode if isinstance(mode, bool) else object()


SETTINGS.append(_recording)


class _Layout(NamedTuple):
    """Where the state of a step is: lists that are made once, and what says that they are right."""

    modules: list[Module]
    optimizers: list[Optimizer]
    parameters: list[Parameter]
    generators: list[ft.Generator]
    averages: list[EMA]
    scalers: list[DynamicLossScaler]
    tensors: list[TensorSlot]
    numbers: list[NumberSlot]
    #: Ways to modules, parameters, optimizers and generators, and what was there.
    links: list[tuple[Callable[[], Any], Any]]
    #: Of each optimizer: its states, groups and parameters.
    held: list[tuple[list[Any], list[Any], list[Parameter]]]
    names: list[Any]

    def is_right(self) -> bool:
        """Whether everything is still where it was."""
        try:
            for get, value in self.links:
                if get() is not value:
                    return False
        except (AttributeError, LookupError, NameError, ValueError):
            return False
        if self.generators[-1] is not default_generator():
            return False
        for optimizer, (states, groups, parameters) in zip(self.optimizers, self.held, strict=True):
            if optimizer.state is not states or optimizer.param_groups is not groups:
                return False
            now = optimizer.parameters
            if len(now) != len(parameters) or not all(map(operator.is_, now, parameters)):
                return False
        return self.names == _names(self.optimizers)


class StepState:
    """What a training step reads and replaces: a ``fl_tensor.graph.capture.State``."""

    owned: tuple[type, ...] = (*OWNERS, Parameter)

    def __init__(self, step: Callable[..., Any], owners: Collection[Owner] = ()) -> None:
        self.step, self.owners = step, owners
        self._layout: _Layout | None = None
        self._version = 0
        #: During a capture: the symbols of gradients that were there, by parameter.
        self._found_gradients: dict[int, ft.Tensor] = {}
        #: Whether the step forgets the gradients that it finds: those before it do not matter.
        self._forgets = False

    # ---- what there is -----------------------------------------------------------------------

    @property
    def layout(self) -> _Layout:
        if self._layout is None:
            self._layout = self._found()
        return self._layout

    def signature(self) -> Hashable:
        if not self.layout.is_right():
            self._layout = None
            self._version += 1
        layout = self.layout
        return (
            self._version,
            tuple([module.training for module in layout.modules]),
            tuple([(p.requires_grad, p.dtype, id(p.backend)) for p in layout.parameters]),
            self._forgets or any(p.grad is not None for p in layout.parameters),
            tuple([_settings(optimizer) for optimizer in layout.optimizers]),
            tuple([(e.decay, e.warm_up, e.buffers, tuple(e.averages)) for e in layout.averages]),
            tuple([(s.pending, *s._settings().values()) for s in layout.scalers]),
        )

    def slots(self) -> tuple[list[TensorSlot], list[NumberSlot]]:
        layout = self.layout
        return layout.tensors, layout.numbers

    def _found(self) -> _Layout:
        found = places(self.step, self.owned)
        reached = [place for place in found if isinstance(place.value, self.owned)]
        every = [*self.owners, *(place.value for place in reached)]
        averages = _each(x for x in every if isinstance(x, EMA))
        scalers = _each(x for x in every if isinstance(x, DynamicLossScaler))
        models = _each(
            [*(x for x in every if isinstance(x, Module)), *(ema.model for ema in averages)]
        )
        modules = _each(m for model in models for m in model.modules())
        optimizers = _each(x for x in every if isinstance(x, Optimizer))
        parameters = _each(
            [
                *(p for model in models for p in model.parameters()),
                *(p for optimizer in optimizers for p in optimizer.parameters),
                *(x for x in every if isinstance(x, Parameter)),
            ]
        )
        default = default_generator()
        generators = _each(
            [
                *(x for x in every if isinstance(x, ft.Generator)),
                *(g for model in models for _, g in model.named_generators()),
            ]
        )
        generators = [*(g for g in generators if g is not default), default]
        tensors = module_slots(models)
        numbers: list[NumberSlot] = []
        for n, optimizer in enumerate(optimizers):
            more, of_numbers = optimizer_slots(f"optimizer{n or ''}", optimizer)
            tensors, numbers = tensors + more, numbers + of_numbers
        for n, ema in enumerate(averages):
            more, updates = average_slots(f"average{n or ''}", ema)
            tensors, numbers = tensors + more, [*numbers, updates]
        for n, scaler in enumerate(scalers):
            numbers += scaler_slots(f"scaler{n or ''}", scaler)
        known = {slot.put.parameter for slot in tensors if isinstance(slot.put, AssignValue)}
        tensors += [
            parameter_slot(f"parameter{i}", parameter)
            for i, parameter in enumerate(parameters)
            if parameter not in known
        ]
        for i, generator in enumerate(generators):
            numbers += generator_slots(f"generator{i}", generator)
        inside = [
            (functools.partial(vars(module).__getitem__, name), value)
            for module in modules
            for name, value in vars(module).items()
            if isinstance(value, (Module, Parameter, ft.Generator))
        ]
        inside += [(functools.partial(getattr, ema, "model"), ema.model) for ema in averages]
        return _Layout(
            modules,
            optimizers,
            parameters,
            generators,
            averages,
            scalers,
            tensors,
            numbers,
            inside + [(place.get, place.value) for place in reached],
            [(each.state, each.param_groups, each.parameters) for each in optimizers],
            _names(optimizers),
        )

    # ---- capture -----------------------------------------------------------------------------

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """As before at the end of the block; inside, gradients that were there are symbols."""
        layout = self.layout
        parameters = layout.parameters
        had = [p for p in parameters if p.grad is not None or (self._forgets and p.requires_grad)]
        with ExitStack() as stack:
            for generator in layout.generators:
                stack.callback(generator.set_state, generator.state())
            attributes = [dict(vars(module)) for module in layout.modules]
            for module, before in zip(layout.modules, attributes, strict=True):
                stack.callback(_restore, vars(module), before)
            slots = [list(map(tuple, optimizer.state)) for optimizer in layout.optimizers]
            for optimizer in layout.optimizers:
                stack.callback(_restore, vars(optimizer), dict(vars(optimizer)))
                for held in (*optimizer.state, *optimizer.param_groups):
                    stack.callback(_restore, held, dict(held))
            for ema in layout.averages:
                stack.callback(setattr, ema, "averages", dict(ema.averages))
                stack.callback(setattr, ema, "updates", ema.updates)
            for scaler in layout.scalers:
                stack.callback(_restore, vars(scaler), dict(vars(scaler)))
            stack.enter_context(preserved(parameters))
            self._found_gradients = {}
            for parameter in had:
                # No input of the graph: a step that uses it is refused.
                inner = placeholder(parameter)
                substitute(parameter, inner)
                parameter.grad = self._found_gradients[id(parameter)] = inner
            yield
            for module, before in zip(layout.modules, attributes, strict=True):
                _refuse_changes(module, before)
            if slots != [list(map(tuple, optimizer.state)) for optimizer in layout.optimizers]:
                raise Unready("an optimizer has not made the state of all parameters")
        if had:
            self._forgets = True

    def made(self, written: Collection[str]) -> tuple[list[TensorSlot], Callable[[], None]]:
        layout = self.layout
        used = [slot.put for slot in layout.tensors if slot.name in written]
        updated = {put.parameter for put in used if isinstance(put, AssignValue)}
        left, cleared = [], []
        for i, parameter in enumerate(layout.parameters):
            grad = parameter.grad
            found = self._found_gradients.get(id(parameter))
            if grad is None or found is None or grad.tensor.adapter is not found.adapter:
                cleared.append(parameter)
                if grad is not None and parameter not in updated:
                    left.append(gradient_slot(f"gradient{i}", parameter))

        stepped = [optimizer for optimizer in layout.optimizers if not optimizer.skips_next]

        def clear() -> None:
            for parameter in cleared:
                parameter.zero_grad()
            for optimizer in stepped:
                optimizer.skips_next = False

        return left, clear


def _each(found: Iterable[Any]) -> list[Any]:
    return list({id(x): x for x in found}.values())


def _settings(optimizer: Optimizer) -> Hashable:
    groups = []
    for group in optimizer.param_groups:
        varying = varying_settings(optimizer, group)
        fixed = {k: v for k, v in group.items() if k not in varying and k != "params"}
        groups.append((len(group["params"]), tuple(varying), tuple(fixed.items())))
    return optimizer.skips_next, tuple(groups)


def _names(optimizers: list[Optimizer]) -> list[Any]:
    # What each optimizer has of slots and numbers for each parameter.
    return [
        (
            list(map(tuple, optimizer.state)),
            [varying_settings(optimizer, g) for g in optimizer.param_groups],
        )
        for optimizer in optimizers
    ]


def _refuse_changes(module: Module, before: dict[str, Any]) -> None:
    for name, value in vars(module).items():
        if name not in module._buffers and value is not before.get(name):
            raise ft.CaptureError(
                f"it changes the attribute {name} of {type(module).__name__}, which is no buffer: "
                f"register_buffer makes a tensor part of the state"
            )


def _restore(held: dict[str, Any], before: dict[str, Any]) -> None:
    held.clear()
    held.update(before)
