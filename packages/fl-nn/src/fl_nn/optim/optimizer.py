"""Optimizer: the base class of update rules, with parameter groups and state.

An update rule is arithmetic on tensors: any backend runs it and an override sees it. No tape
records it, and parameters are rebound, never written to: graphs keep the values they saw.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_memory.causes import observed
from fl_memory.tags import STATE, tagged
from fl_nn.causes import update_observed
from fl_nn.errors import ModuleError, StateDictError, TrainingError
from fl_nn.optim import state_checks as states
from fl_nn.optim.groups import Group as Group
from fl_nn.optim.groups import Params as Params
from fl_nn.optim.groups import parameter_groups, remedy
from fl_nn.optim.joined import JoinedStates
from fl_nn.optim.joined import State as State
from fl_nn.optim.precision import update_in_float32
from fl_nn.optim.vectors import cut, join, remember
from fl_nn.parameter import Parameter
from fl_nn.settings import AT_LEAST_ZERO, Kind, misfits, plain
from fl_nn.values import defers, like
from fl_tensor.annotations import Checked
from fl_tensor.assumptions import assume


class _Update(NamedTuple):
    """Parameters that are updated together; of several, `state` is that of one vector."""

    parameters: list[Parameter]
    state: State
    group: Group


class Optimizer(Checked, ABC):
    """Holds groups of parameters and, for each parameter, the values gathered over the steps.

    params     parameters, or groups such as `{"params": [...], "lr": 0.1}`
    defaults   the settings of groups that do not say otherwise

    `param_groups` is a list of dicts with "params" and every setting; change a setting there at any
    time. A subclass describes its settings (`kinds`), names what it gathers (`slots`), and writes
    `update` for one parameter.

    Parameters in float16 or bfloat16 have float32 master weights: `update` sees values, gradients
    and state in float32, and what the parameter loses in rounding is part of the state, as
    "rounding".
    """

    #: What each setting may be.
    kinds: Mapping[str, Kind] = {"lr": AT_LEAST_ZERO}
    #: Names of the tensors that a parameter may have in its state, and of the numbers.
    slots: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ("step",)
    #: Whether `update` may be given complex numbers: it is linear in values and gradients.
    takes_complex: bool = False
    #: Whether `update` treats each element by itself: small parameters are then updated as one
    #: vector, and pieces of a parameter may be updated apart, as `fl_nn.parallel.Sharded` does.
    #: A class that overrides `update` has to say so anew.
    elementwise: bool = False
    #: Whether it holds shares of parameters, which `fl_nn.parallel.Sharded` gave it.
    sharded: bool = False
    #: Whether the next step is skipped: a loss scaler has found and forgotten its gradients.
    skips_next: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "update" in vars(cls):
            cls.elementwise = vars(cls).get("elementwise", False)

    def __init__(self, params: Params, **defaults: Any) -> None:
        self.defaults = defaults
        #: Settings that change from step to step, as those of a schedule do: a graph that
        #: ``ft.trace`` records lists their values.
        self.scheduled: set[str] = set()
        self._rates: list[Any] = []
        self.param_groups: list[Group] = []
        self._states = JoinedStates([])
        for group in parameter_groups(self._name, params):
            self.add_param_group(group)
        if not self.parameters:
            raise ModuleError(f"[{self._name}] no parameters to update; pass model.parameters()")

    @property
    def state(self) -> list[State]:
        """Per parameter, what it has of `slots` and `numbers`; "step" counts its updates. Ask for
        it anew after each step: the next one joins the states of small parameters."""
        return self._states.separate(self.parameters)

    @state.setter
    def state(self, value: list[State]) -> None:
        self._states = JoinedStates(value)

    @abstractmethod
    def update(self, value: ft.Tensor, grad: ft.Tensor, state: State, group: Group) -> ft.Tensor:
        """The new value of one parameter. `state` is the parameter's own, to be read and replaced;
        `state["step"]` counts this update too, and numbers computed from it go through
        `ft.per_step`. `group` has the settings. With `elementwise`, small parameters of a group
        come as one vector."""

    def update_rows(
        self, parameter: Parameter, grad: SparseGradient, state: State, group: Group
    ) -> None:
        """Update a parameter from a gradient of rows, which Embedding(sparse=True) leaves.
        TrainingError in optimizers that do not leave rows without a gradient alone."""
        raise self._sparse_error("moves every row at every step")

    def step(self) -> None:
        """Update every parameter that has a gradient. Raises TrainingError where none has one,
        unless all are frozen or a loss scaler skips the step."""
        self._run(self._updates())
        self._states.separate_if_watched(self.parameters)

    def step_if(self, condition: ft.Tensor) -> bool:
        """A step if `condition`, one bool, is true; parameters and state stay as they are
        otherwise. Gives the condition. Raises TrainingError as `step`.

        A deferred backend computes condition and step together: `where` selects the new values or
        the old ones, and the condition is read last. A compiled step takes it for true, and runs
        itself where it is not.
        """
        rows = any(isinstance(parameter.grad, SparseGradient) for parameter in self.parameters)
        if rows or not defers(condition.backend):
            wanted = assume(condition)
            if wanted:
                self.step()
            return wanted
        # Of tensors the names alone: who holds their values keeps them from being overwritten.
        updates = self._updates()
        before = [
            {k: None if isinstance(v, ft.Tensor) else v for k, v in update.state.items()}
            for update in updates
        ]
        self._run(updates, condition)
        wanted = bool(condition.item())
        if not wanted:
            for update, held in zip(updates, before):
                kept = {k: update.state[k] if v is None else v for k, v in held.items()}
                update.state.clear()
                update.state.update(kept)
        self._states.separate_if_watched(self.parameters)
        return wanted

    def _updates(self) -> list[_Update]:
        """What a step updates together. Raises TrainingError where no parameter has a gradient."""
        parameters = self.parameters
        graded = [i for i, parameter in enumerate(parameters) if parameter.grad is not None]
        if not graded and not self.skips_next and any(p.requires_grad for p in parameters):
            raise TrainingError(
                f"[{self._name}] step(): none of the {len(parameters)} parameters has a "
                "gradient. Call loss.backward() after zero_grad() and before step(); build the "
                "optimizer over the parameters of the model that computed the loss; make no step "
                "where DynamicLossScaler.unscale() is False"
            )
        # Where memory is observed, each request names the module of its parameter.
        sets: list[tuple[int, ...]] = [(i,) for i in graded]
        groups = [n for n, group in enumerate(self.param_groups) for _ in group["params"]]
        # Without values there is no time to save.
        joins = self.elementwise and not observed
        if joins and all(parameters[i].backend.has_values for i in graded):
            sets = self._states.sets(parameters, groups, graded)
        return [
            _Update([parameters[i] for i in key], state, self.param_groups[groups[key[0]]])
            for key, state in zip(sets, self._states.of(sets, parameters))
        ]

    def _run(self, updates: list[_Update], condition: ft.Tensor | None = None) -> None:
        self._record_settings()
        one = update_observed(self._update_one) if observed else self._update_one
        joined: list[tuple[list[Parameter], ft.Tensor]] = []
        with tagged(STATE):
            for update in updates:
                parameters, state, group = update
                if len(parameters) == 1:
                    one(parameters[0], state, group, condition)
                    continue
                grads = [p.grad for p in parameters if p.grad is not None]
                vector = self._new_value(join(parameters), join(grads), state, group, condition)
                joined.append((parameters, vector))
            alone = [u.parameters[0] for u in updates if len(u.parameters) == 1]
            # Where operations are put off, a step ends here; pieces of values are views.
            ft.eval(*alone, *(vector for _, vector in joined))
            for parameters, vector in joined:
                for parameter, piece in zip(parameters, cut(vector, [p.shape for p in parameters])):
                    parameter.tensor = piece
                remember(parameters, vector)
        self.skips_next = False

    def _update_one(
        self, parameter: Parameter, state: State, group: Group, condition: ft.Tensor | None
    ) -> None:
        grad = parameter.grad
        assert grad is not None
        if isinstance(grad, SparseGradient):
            state["step"] = state.get("step", 0) + 1
            self.update_rows(parameter, grad, state, group)
            self._record_first_step(state)
        else:
            parameter.tensor = self._new_value(
                parameter.tensor, grad.tensor, state, group, condition
            )

    def _new_value(
        self,
        value: ft.Tensor,
        grad: ft.Tensor,
        state: State,
        group: Group,
        condition: ft.Tensor | None,
    ) -> ft.Tensor:
        state["step"] = state.get("step", 0) + 1
        new = update_in_float32(self.update, value, grad, state, group, condition)
        self._record_first_step(state)
        return new

    def _record_settings(self) -> None:
        # A rate that is not that of the step before is scheduled, too, by hand. A compiled step
        # takes it for one that may change.
        if any(type(group.get("lr")) is not float for group in self.param_groups):
            return
        rates = [group.get("lr") for group in self.param_groups]
        if any(now != before for now, before in zip(rates, self._rates)):
            self.scheduled.add("lr")
        self._rates = rates
        for group in self.param_groups if self.scheduled else ():
            for name in sorted(self.scheduled & group.keys()):
                value = group[name]
                for number in value if isinstance(value, tuple) else (value,):
                    ft.per_step(number, f"scheduled {name} of {self._name}")

    def _record_first_step(self, state: State) -> None:
        # Later steps go on from the state that is there.
        if state["step"] == 1 and len(state) > 1:
            ft.per_step(1, f"step that begins the state of {self._name}")

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.zero_grad()

    # ---- groups ------------------------------------------------------------------------------

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Also update `group["params"]`, with the default settings where the group has none.
        Raises ModuleError when a parameter is listed twice or a setting makes no sense."""
        given = dict(group)
        params = given.pop("params", [])
        params = [params] if isinstance(params, Parameter) else list(params)
        for parameter in params:
            if not isinstance(parameter, Parameter):
                raise ModuleError(f"[{self._name}] {remedy(self._name, parameter)}")
            if parameter.dtype.kind == "c" and not self.takes_complex:
                raise ModuleError(
                    f"[{self._name}] a parameter {parameter.shape} is {parameter.dtype}: train it "
                    "with SGD or NAG, or keep its real and imaginary parts as two parameters"
                )
        everyone = [id(parameter) for parameter in (*self.parameters, *params)]
        if len(set(everyone)) != len(everyone):
            raise ModuleError(f"[{self._name}] a parameter is listed twice; list each once")
        settings = {**self.defaults, **given}
        problems = self.problems(settings)
        if problems:
            raise ModuleError(f"[{self._name}] {'; '.join(problems)}")
        self.param_groups.append({"params": params, **settings})
        self._states.own += [{} for _ in params]

    def problems(self, settings: Mapping[str, Any]) -> list[str]:
        """What is wrong with the settings of a group, in words. Extend it where settings depend on
        one another."""
        # A schedule notes the rate it started from beside the settings.
        initial = {"initial_lr": AT_LEAST_ZERO} if "initial_lr" in settings else {}
        return misfits({**self.kinds, **initial}, settings)

    @property
    def parameters(self) -> list[Parameter]:
        """All parameters, group by group: the order of `state`."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @property
    def lr(self) -> float:
        """The learning rate of the first group; assigning sets that of all groups."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group["lr"] = value

    # ---- state -------------------------------------------------------------------------------

    def slot_shape(self, slot: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that `slot` has for a parameter of `shape`: the same, unless a subclass says
        otherwise."""
        return shape

    def state_dict(self) -> dict[str, Any]:
        """A snapshot. `tensors` is keyed "0.exp_avg", parameter number and slot, and so are
        `numbers`; "params" of a group are numbers of parameters. All but `tensors` is plain."""
        numbers = iter(range(len(self.state)))
        return {
            "type": self._name,
            "param_groups": [
                {**group, "params": [next(numbers) for _ in group["params"]]}
                for group in self.param_groups
            ],
            "numbers": {k: v for k, v in self._entries() if not isinstance(v, ft.Tensor)},
            "tensors": {k: copy.copy(v) for k, v in self._entries() if isinstance(v, ft.Tensor)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state, settings included. Raises StateDictError, and changes nothing, when it
        is of another optimizer or does not fit the parameters."""
        problems = states.mismatches(self, self._name, state)
        if problems:
            raise StateDictError(
                f"the state does not fit this {self._name}: {'; '.join(problems)}. "
                "Build the optimizer over the same parameters in the same order"
            )
        for group, saved in zip(self.param_groups, state["param_groups"]):
            params = group["params"]
            group.clear()
            group["params"] = params
            group.update({name: plain(v) for name, v in saved.items() if name != "params"})
        self._rates = []
        parameters = self.parameters
        self.state = [{} for _ in parameters]
        for key, value in {**state["numbers"], **state["tensors"]}.items():
            index, slot = key.split(".")
            if isinstance(value, ft.Tensor):
                value = like(value, parameters[int(index)].tensor)
            self.state[int(index)][slot] = value

    def _entries(self) -> Iterator[tuple[str, Any]]:
        for index, state in enumerate(self.state):
            for slot, value in state.items():
                yield f"{index}.{slot}", value

    def _sparse_error(self, why: str) -> TrainingError:
        return TrainingError(
            f"[{self._name}] a gradient of rows, of Embedding(sparse=True), where {self._name} "
            f"{why}: give this table to SparseAdam, Adagrad or SGD without weight decay, or look "
            "rows up with sparse=False"
        )

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        parts = [
            ", ".join(
                [f"{len(group['params'])} parameters"]
                + [f"{name}={value}" for name, value in group.items() if name != "params"]
            )
            for group in self.param_groups
        ]
        return f"{self._name}({'; '.join(parts)})"
