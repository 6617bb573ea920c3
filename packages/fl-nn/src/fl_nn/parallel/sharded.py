"""Sharded: data parallel training with optimizer state, gradients and parameters divided over
ranks.

Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models", 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import fl_dist as dist
import fl_tensor as ft
from fl_nn.distributed import broadcast_model
from fl_nn.errors import ModuleError, TrainingError
from fl_nn.inputs import convert_inputs
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.parallel import placement
from fl_nn.parallel.clip import clip_shares
from fl_nn.parallel.flat_optimizer import FlatOptimizer
from fl_nn.parallel.flat_parameter import FlatParameter
from fl_nn.parallel.sharded_parameter import ShardedParameter, assembled
from fl_nn.parallel.units import Unit, add, dense
from fl_nn.parallel.whole_state import load_whole_state
from fl_nn.parameter import Parameter
from fl_nn.state_dict import deduplicated
from fl_tensor.annotations import Checked


class Sharded(Checked):
    """Trains `model` on the ranks of `comm`, each with its own batches, along the mean gradient:

        sharded = parallel.Sharded(comm, model, nn.Adam(model.parameters()), stage=2)
        for x, y in batches:
            sharded.zero_grad()
            nn.cross_entropy(model(x), y).backward()
            sharded.step()

    comm       ranks that all call the same, in the same order; rank 0's weights are given to all
    optimizer  a new one over parameters of the model, elementwise: Adam, AdamW, SGD, ...; settings
               and schedules stay its own, its step is that of this object
    stage      1: each rank keeps the state of the optimizer for its share of the parameters;
               2: of gradients its share, too, averaged during the backward pass;
               3: and of the parameters. They are whole while their unit computes
    units      stage 3: modules of the model, one of which at a time is whole; by default those
               directly below it. Call them, and the model, as functions

    Bytes per rank for P parameters of float32, n ranks and Adam, after a step: 16 P without it;
    8 P + 8 P / n, 4 P + 12 P / n, 16 P / n at the stages, and at stage 3 the largest units while
    they compute. Parameters that the optimizer does not have stay as they are at stages 1 and 2.

    Freeze parameters, choose dtype and backend before. A parameter without a gradient counts as one
    with zeros. For a `DynamicLossScaler`, call `reduce_gradients` before `unscale(optimizer)`.
    Raises ModuleError for an optimizer or units that do not fit.
    """

    def __init__(
        self,
        comm: dist.Communicator,
        model: Module,
        optimizer: Optimizer,
        stage: int = 2,
        units: Sequence[Module] | None = None,
    ) -> None:
        if stage not in (1, 2, 3):
            raise ModuleError(f"[Sharded] stage={stage!r}: give 1, 2 or 3")
        if units is not None and stage != 3:
            raise ModuleError(f"[Sharded] units at stage {stage}: they are of stage 3")
        self.comm, self.model, self.optimizer, self.stage = comm, model, optimizer, stage
        groups = placement.group_numbers(model, optimizer)
        broadcast_model(comm, model)
        self.units: list[Unit] = []
        self.flats: list[FlatParameter] = []
        if stage == 3:
            found = placement.unit_parameters(comm, model, groups, units)
            self.flats = [flat for *_, flats in found for flat in flats]
        else:
            self.flats = placement.buckets(comm, model, groups)
        if not any(flat.trained for flat in self.flats):
            raise ModuleError("[Sharded] no parameter of the optimizer learns: unfreeze some")
        self._state = FlatOptimizer(optimizer, self.flats, groups)
        self._works: list[tuple[FlatParameter, dist.Work]] = []
        #: Stages 1 and 2: gradients that have come, by bucket and place; which bucket is next.
        self._pending: list[dict[int, ft.Tensor]] = [{} for _ in self.flats]
        self._next = self._rounds = 0
        self._reached = self._reduced = False
        if stage == 3:
            self._read_inputs_like(next(iter(model.parameters())))
            self.units = [Unit(*one, self._start_reduction) for one in found]
        else:
            self._register_hooks()

    # ---- a step ------------------------------------------------------------------------------

    def zero_grad(self) -> None:
        """Forget all gradients. All ranks call it."""
        if self._has_gradients() and self.stage > 1:
            self.reduce_gradients()  # what the ranks have begun together they end together
        self._rounds, self._reached, self._reduced = 0, False, False
        self.model.zero_grad()
        for flat in self.flats:
            flat.share.zero_grad()

    def reduce_gradients(self) -> None:
        """Finish the averages of the gradients since the last step. `step` does it; call it where
        something is done to the gradients of `optimizer.parameters`, the shares, in between."""
        if not self._has_gradients():
            raise TrainingError(
                "[Sharded] step(): no gradient has come since the last one. Call loss.backward() "
                "before; a rank that has no samples makes a pass of any batch with the loss times 0"
            )
        if self._reduced:
            return
        if self.stage == 1:
            for flat in self.flats:
                flat.share.zero_grad()
                flat.reduce(_gradients(flat))
        if self.stage == 2 and (self._next or any(self._pending) or not self._rounds):
            self._finish_round()
        for unit in self.units:
            unit.flush()
        for flat, work in self._works:
            flat.finish_reduction(work)
        self._works, self._reduced = [], True

    def step(self) -> None:
        """Average the gradients, and update the parameters on all ranks. All ranks call it. Raises
        TrainingError where this rank has made no backward pass since the last step."""
        self.reduce_gradients()
        if self.stage < 3:
            for flat in self.flats:
                flat.share.tensor = flat.own_elements(flat.value)
        self._state.step()
        if self.stage < 3:
            for flat in self.flats:
                vector = flat.gather(flat.share.tensor)
                for parameter, tensor in zip(flat.parameters, flat.unflatten(vector)):
                    parameter.tensor = tensor
                flat.share.tensor = vector[flat.start : flat.stop]
        if self.stage == 1:
            for flat in self.flats:
                flat.share.zero_grad()
        self._rounds, self._reached, self._reduced = 0, False, False

    def clip_grad_norm_(
        self,
        max_norm: float,
        norm_type: float = 2.0,
        *,
        over: Sequence[dist.Communicator] = (),
    ) -> ft.Tensor:
        """`fl_nn.parallel.clip_grad_norm_` of all gradients, between backward and `step`; the norm
        as it was, of the mean gradient. All ranks call it."""
        self.reduce_gradients()
        shares = [
            (flat.share, first.comm if isinstance(first, ShardedParameter) else None)
            for flat in self._state.flats
            if flat.trained
            for first in flat.parameters[:1]
        ]
        return clip_shares(shares, max_norm, norm_type, (self.comm, *over))

    # ---- gradients ---------------------------------------------------------------------------

    def _register_hooks(self) -> None:
        for number, flat in enumerate(self.flats):
            for index, parameter in enumerate(flat.parameters):
                parameter.register_post_accumulate_grad_hook(self._hook(number, index))

    def _hook(self, number: int, index: int) -> Any:
        def accumulated(parameter: Parameter) -> None:
            self._reached, self._reduced = True, False
            if self.stage == 1:
                return
            grad = parameter.grad
            assert grad is not None
            add(self._pending[number], index, dense(grad))
            parameter.grad = None
            # In the order of the buckets, which is the same on all ranks.
            while len(self._pending[self._next]) == len(self.flats[self._next].parameters):
                self._start_next()

        return accumulated

    def _start_next(self) -> None:
        flat, gradients = self.flats[self._next], self._pending[self._next]
        self._pending[self._next] = {}
        self._next = (self._next + 1) % len(self.flats)
        self._rounds += not self._next
        self._start_reduction(flat, gradients)

    def _finish_round(self) -> None:
        # Buckets of which gradients are missing on this rank: they may have come on others.
        self._start_next()
        while self._next:
            self._start_next()

    def _start_reduction(self, flat: FlatParameter, gradients: dict[int, ft.Tensor]) -> None:
        self._reached, self._reduced = True, False
        while self._works and self._works[0][1].done:
            done, work = self._works.pop(0)
            done.finish_reduction(work)
        self._works.append((flat, flat.start_reduction(gradients)))

    def _has_gradients(self) -> bool:
        return self._reached or any(unit.incomplete for unit in self.units)

    # ---- state -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, ft.Tensor]:
        """The state of the model as it is without sharding, on every rank. All ranks call it."""
        tensors = dict(self.named_tensors())
        _, shared = deduplicated(self.model)
        return tensors | {alias: tensors[name] for alias, name in shared.items()}

    def named_tensors(self) -> Iterator[tuple[str, ft.Tensor]]:
        """The same, one after another, what names share once: for files, which need one at a time.
        All ranks call it, and go to the end."""
        tensors, _ = deduplicated(self.model)
        own = dict(self.model.named_parameters())
        for unit in self.units:
            for flat in unit.flats:
                vector = flat.gather(flat.share.tensor)
                for name, tensor in zip(flat.names, flat.unflatten(vector)):
                    del tensors[name]
                    yield name, assembled(own[name], tensor)
        for name, tensor in tensors.items():
            yield name, assembled(own[name], tensor) if name in own else tensor

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the state of the model as it is without sharding: tensors, or what
        `ft.asarray` reads. StateDictError, and nothing is changed, where it does not fit."""
        values = load_whole_state(self.model, state)
        for unit in self.units:
            unit.take(values)

    def optimizer_state_dict(self) -> dict[str, Any]:
        """The state of the optimizer as it is without sharding, which its own `load_state_dict`
        takes, on every rank. All ranks call it."""
        return {**self.optimizer_numbers(), "tensors": dict(self.named_optimizer_tensors())}

    def optimizer_numbers(self) -> dict[str, Any]:
        """The same without tensors."""
        return self._state.plain()

    def named_optimizer_tensors(self) -> Iterator[tuple[str, ft.Tensor]]:
        """Its tensors, one after another. All ranks call it, and go to the end."""
        return self._state.named_tensors()

    def load_optimizer_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state of the optimizer as it is without sharding. StateDictError, and nothing
        is changed, where it does not fit."""
        self._state.load(state)

    def _read_inputs_like(self, parameter: Parameter) -> None:
        # What comes as lists or arrays of other libraries goes where the parameters are, which
        # have no values while the model is not called.
        like = Module()
        like.parameter = Parameter(
            ft.full((), 0.0, parameter.dtype, parameter.device, backend=parameter.backend)
        )
        self.model.register_forward_pre_hook(
            lambda module, inputs: convert_inputs(like, inputs, {})[0]
        )


def _gradients(flat: FlatParameter) -> dict[int, ft.Tensor]:
    return {
        index: dense(parameter.grad)
        for index, parameter in enumerate(flat.parameters)
        if parameter.grad is not None
    }
