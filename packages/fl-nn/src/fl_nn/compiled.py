"""``nn.compile``: a training step captured once as a graph, and run without its Python code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeVar

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


class _Layout(NamedTuple):
    """Where the state of a step is: lists that are made once, and what says that they are right."""

    modules: list[Module]
    parameters: list[Parameter]
    generators: list[ft.Generator]
    tensors: list[TensorSlot]
    numbers: list[NumberSlot]
    #: Containers, keys, and what each has there: modules, parameters and generators.
    links: list[tuple[Any, Any, Any]]
    #: Of each optimizer: its states and groups.
    optimizers: list[tuple[list[Any], list[Any]]]
    names: list[Any]

    def is_right(self, owner: StepState) -> bool:
        """Whether everything is still where it was."""
        for holder, key, held in self.links:
            if holder.get(key) is not held:
                return False
        if self.generators[-1] is not default_generator():
            return False
        for optimizer, (states, groups) in zip(owner.optimizers, self.optimizers, strict=True):
            if optimizer.state is not states or optimizer.param_groups is not groups:
                return False
        return self.names == _names(owner.optimizers)


class StepState:
    """What a training step reads and replaces: a ``fl_tensor.graph.capture.State``."""

    def __init__(self, owners: Collection[Module | Optimizer]) -> None:
        self.models = [owner for owner in owners if isinstance(owner, Module)]
        self.optimizers = [owner for owner in owners if isinstance(owner, Optimizer)]
        self._layout: _Layout | None = None
        self._version = 0
        #: Whether the step forgets the gradients that it finds: those before it do not matter.
        self._forgets = False

    # ---- what there is -----------------------------------------------------------------------

    @property
    def layout(self) -> _Layout:
        if self._layout is None:
            self._layout = self._found()
        return self._layout

    def signature(self) -> Hashable:
        if not self.layout.is_right(self):
            self._layout = None
            self._version += 1
        layout = self.layout
        return (
            self._version,
            tuple([module.training for module in layout.modules]),
            tuple([(p.requires_grad, p.dtype, id(p.backend)) for p in layout.parameters]),
            self._forgets or any(p.grad is not None for p in layout.parameters),
            tuple([_settings(optimizer) for optimizer in self.optimizers]),
        )

    def slots(self) -> tuple[list[TensorSlot], list[NumberSlot]]:
        layout = self.layout
        return layout.tensors, layout.numbers

    def _found(self) -> _Layout:
        modules = list({id(m): m for model in self.models for m in model.modules()}.values())
        parameters = {id(p): p for model in self.models for p in model.parameters()}
        parameters |= {id(p): p for optimizer in self.optimizers for p in optimizer.parameters}
        generators = {id(g): g for model in self.models for _, g in model.named_generators()}
        default = generators.pop(id(default_generator()), default_generator())
        tensors = self._of_models()
        numbers: list[NumberSlot] = []
        for n, optimizer in enumerate(self.optimizers):
            more, of_numbers = _of_optimizer(f"optimizer{n or ''}", optimizer)
            tensors, numbers = tensors + more, numbers + of_numbers
        known = {slot.put.parameter for slot in tensors if isinstance(slot.put, _Value)}
        tensors += [
            _parameter_slot(f"parameter{i}", parameter)
            for i, parameter in enumerate(parameters.values())
            if parameter not in known
        ]
        every = [*generators.values(), default]
        for i, generator in enumerate(every):
            numbers += generator_slots(f"generator{i}", generator)
        kept = (Module, Parameter, ft.Generator)
        return _Layout(
            modules,
            list(parameters.values()),
            every,
            tensors,
            numbers,
            [
                (vars(module), name, value)
                for module in modules
                for name, value in vars(module).items()
                if isinstance(value, kept)
            ],
            [(optimizer.state, optimizer.param_groups) for optimizer in self.optimizers],
            _names(self.optimizers),
        )

    def _of_models(self) -> list[TensorSlot]:
        found: dict[Hashable, TensorSlot] = {}
        for model in self.models:
            for entry in state_entries(model, persistent=False):
                if isinstance(entry.owner, Parameter):
                    slot = _parameter_slot(entry.name, entry.owner)
                else:
                    get = functools.partial(getattr, entry.owner, entry.attribute)
                    put = functools.partial(setattr, entry.owner, entry.attribute)
                    slot = TensorSlot(entry.name, get, put)
                found.setdefault(entry.key, slot)
        return list(found.values())

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
            for module in layout.modules:
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
        layout = self.layout
        used = [slot.put for slot in layout.tensors if slot.name in written]
        updated = {put.parameter for put in used if isinstance(put, _Value)}
        return [
            TensorSlot(f"gradient{i}", functools.partial(_gradient, p), _Gradient(p))
            for i, p in enumerate(layout.parameters)
            if p.grad is not None and p not in updated
        ]

    def begin(self) -> None:
        for parameter in self.layout.parameters:
            parameter.zero_grad()


def _of_optimizer(prefix: str, optimizer: Optimizer) -> tuple[list[TensorSlot], list[NumberSlot]]:
    tensors: list[TensorSlot] = []
    numbers: list[NumberSlot] = []
    for i, state in enumerate(optimizer.state):
        for name, value in state.items():
            get, put = _item(state, name)
            if isinstance(value, ft.Tensor):
                tensors.append(TensorSlot(f"{prefix}.{i}.{name}", get, put))
            else:
                numbers.append(NumberSlot(f"{prefix}.{i}.{name}", get, put))
    for i, group in enumerate(optimizer.param_groups):
        for name in _varying(optimizer, group):
            numbers.append(NumberSlot(f"{prefix}.group{i}.{name}", *_item(group, name)))
    return tensors, numbers


def _item(holder: dict[str, Any], name: str) -> tuple[Any, Any]:
    return (
        functools.partial(holder.__getitem__, name),
        functools.partial(holder.__setitem__, name),
    )


def _parameter_slot(name: str, parameter: Parameter) -> TensorSlot:
    return TensorSlot(
        name,
        functools.partial(getattr, parameter, "tensor"),
        _Value(parameter),
    )


def _gradient(parameter: Parameter) -> ft.Tensor:
    grad = parameter.grad
    assert grad is not None
    return grad.tensor


class _Value:
    """Gives a parameter another value."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def __call__(self, value: ft.Tensor) -> None:
        substitute(self.parameter, value)


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
    return optimizer.skips_next, tuple(groups)


def _names(optimizers: list[Optimizer]) -> list[Any]:
    # What each optimizer has of slots and numbers for each parameter.
    return [
        (
            list(map(tuple, optimizer.state)),
            [_varying(optimizer, g) for g in optimizer.param_groups],
        )
        for optimizer in optimizers
    ]


def _restore(held: dict[str, Any], before: dict[str, Any]) -> None:
    held.clear()
    held.update(before)
