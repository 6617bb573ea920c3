"""Pipeline: a model cut into stages, one on each rank, through which microbatches pass.

While a stage computes one microbatch, the others compute others. "1f1b" (Narayanan et al.,
"PipeDream", 2019) alternates forward and backward passes, so that stage r of n holds at most n - r
microbatches; "gpipe" (Huang et al., 2019) makes all forward passes first and holds all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_nn.errors import ModuleError, TrainingError
from fl_nn.module import Module
from fl_nn.parallel.links import Links, as_tuple
from fl_nn.parallel.whole_state import load_whole_state, whole_state_dict, whole_tensors
from fl_nn.values import tensor_of
from fl_tensor.annotations import Checked

SCHEDULES = ("1f1b", "gpipe")


class Pipeline(Checked):
    """Stage `comm.rank` of a model on this rank:

        pipe = parallel.Pipeline([encoder, decoder], comm, microbatches=4)
        optimizer = nn.Adam(pipe.model.parameters())
        for x, y in batches:
            optimizer.zero_grad()
            loss = pipe.forward_backward(x, y, nn.cross_entropy)
            optimizer.step()

    stages        a module for each rank, in order; those of other ranks may be None
    microbatches  how many parts of a batch are on their way
    schedule      "1f1b" or "gpipe"

    Each stage takes what the one before gives: an array, or a tuple of arrays, with the samples
    along axis 0. Gradients pass to the floating ones. `model` is the stage of this rank, and
    `forward_backward` leaves the gradients of the mean loss over the batch in its parameters: the
    same as the whole model does at once.

    Raises ModuleError where the number of stages is not that of ranks, or two stages share a
    parameter.
    """

    def __init__(
        self,
        stages: Sequence[Module | None],
        comm: dist.Communicator,
        microbatches: int,
        schedule: str = "1f1b",
    ) -> None:
        if len(stages) != comm.world_size:
            raise ModuleError(
                f"[Pipeline] {len(stages)} stages for {comm.world_size} ranks: give one for each"
            )
        module = stages[comm.rank]
        if module is None:
            raise ModuleError(f"[Pipeline] stage {comm.rank} is None on its own rank")
        if microbatches < 1:
            raise ModuleError(f"[Pipeline] microbatches={microbatches}: give at least 1")
        if schedule not in SCHEDULES:
            raise ModuleError(f"[Pipeline] schedule={schedule!r}: give {' or '.join(SCHEDULES)}")
        _check_disjoint(stages)
        self.comm, self.model = comm, module
        self.microbatches, self.schedule = microbatches, schedule
        self.is_first, self.is_last = comm.rank == 0, comm.rank == comm.world_size - 1
        self._links = Links(comm)

    def forward_backward(self, x: Any, target: Any, loss: Callable[[Any, Any], ft.Array]) -> float:
        """One batch forward and backward; the mean loss, on all ranks, which all call it.

        x       the batch, an array or a tuple of arrays: read on the first rank
        target  read on the last rank
        loss    `loss(output, target)`: the mean over the samples of a microbatch

        Raises TrainingError for a batch of fewer samples than microbatches.
        """
        sizes = self._agree(x)
        parts = list(_parts(x, sizes)) if self.is_first else []
        targets = list(_parts(target, sizes)) if self.is_last else []
        total, held = 0.0, deque[tuple[Any, Any]]()

        def forward(number: int) -> None:
            nonlocal total
            given = parts[number] if self.is_first else self._links.receive(number)
            output = _called(self.model, given)
            if self.is_last:
                output = loss(output, targets[number]) * (sizes[number] / sum(sizes))
                total += float(tensor_of(output).item())
            else:
                self._links.send(number, output)
            held.append((given, output))

        def backward(number: int) -> None:
            given, output = held.popleft()
            if self.is_last:
                output.backward()
            else:
                _backward(output, self._links.receive_gradients(output))
            if not self.is_first:
                self._links.send_gradients(given)
            # What is put off would hold the activations.
            ft.eval(*[p.grad.tensor for p in self.model.parameters() if p.grad is not None])

        count = len(sizes)
        early = count if self.schedule == "gpipe" else self.comm.world_size - self.comm.rank - 1
        early = min(early, count)
        for number in range(early):
            forward(number)
        for number in range(early, count):
            forward(number)
            backward(number - early)
        for number in range(count - early, count):
            backward(number)
        last = self.comm.world_size - 1
        found: float = self.comm.broadcast(ft.asarray(total, ft.float64), last).item()
        return found

    def forward(self, x: Any) -> Any:
        """The output of the model for a batch, without gradients, on the last rank; None on the
        others. All ranks call it; `x` is read on the first."""
        sizes = self._agree(x)
        parts = list(_parts(x, sizes)) if self.is_first else []
        outputs = []
        with ag.no_grad():
            for number in range(len(sizes)):
                given = parts[number] if self.is_first else self._links.receive(number)
                output = _called(self.model, given)
                if self.is_last:
                    outputs.append(output)
                else:
                    self._links.send(number, output)
        if not self.is_last:
            return None
        if isinstance(outputs[0], tuple):
            return tuple(ft.concatenate(list(column)) for column in zip(*outputs))
        return ft.concatenate(outputs)

    def state_dict(self) -> dict[str, ft.Tensor]:
        """The state of this rank's stage, named as in `Sequential(*stages)`."""
        prefix = f"{self.comm.rank}."
        return {prefix + name: x for name, x in whole_state_dict(self.model).items()}

    def named_tensors(self) -> Iterator[tuple[str, ft.Tensor]]:
        """The same, one after another, what names share once."""
        for name, tensor in whole_tensors(self.model):
            yield f"{self.comm.rank}.{name}", tensor

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over this stage's part of a state of `Sequential(*stages)`. Raises StateDictError,
        and changes nothing, where it does not fit."""
        prefix = f"{self.comm.rank}."
        own = {k[len(prefix) :]: x for k, x in state.items() if k.startswith(prefix)}
        load_whole_state(self.model, own)

    def _agree(self, x: Any) -> list[int]:
        """The sizes of the microbatches, as the first rank has them."""
        shapes = [part.shape for part in as_tuple(_read(x))] if self.is_first else []
        samples = self._links.agree(shapes)
        if samples < self.microbatches:
            raise TrainingError(
                f"[Pipeline] {samples} samples for {self.microbatches} microbatches: give at least "
                "one for each, or leave short batches out"
            )
        return list(dist.even_counts(samples, self.microbatches))


def _parts(batch: Any, sizes: Sequence[int]) -> Iterator[Any]:
    """Microbatches: the same of every array."""
    given = _read(batch)
    arrays = as_tuple(given)
    for array in arrays:
        if not array.ndim or array.shape[0] != sum(sizes):
            raise TrainingError(
                f"[Pipeline] an array {array.shape} in a batch of {sum(sizes)} samples: give "
                "inputs and targets with the same samples along axis 0"
            )
    start = 0
    for size in sizes:
        part = tuple(array[start : start + size] for array in arrays)
        yield part if isinstance(given, tuple) else part[0]
        start += size


def _read(batch: Any) -> Any:
    if isinstance(batch, tuple):
        return tuple(x if isinstance(x, ft.Array) else ft.asarray(x) for x in batch)
    return batch if isinstance(batch, ft.Array) else ft.asarray(batch)


def _called(module: Module, given: Any) -> Any:
    return module(*given) if isinstance(given, tuple) else module(given)


def _backward(output: Any, gradients: Sequence[ft.Tensor | None]) -> None:
    """Propagate the gradients of what a stage gave."""
    reached = [
        (x, g)
        for x, g in zip(as_tuple(output), gradients)
        if g is not None and isinstance(x, ag.Variable) and x.requires_grad
    ]
    if len(reached) == 1:
        reached[0][0].backward(reached[0][1])
    elif reached:  # one pass for all
        sum(ft.sum(x * g) for x, g in reached).backward()


def _check_disjoint(stages: Sequence[Module | None]) -> None:
    owners: dict[int, str] = {}
    for number, stage in enumerate(stages):
        for name, parameter in stage.named_parameters() if stage is not None else ():
            first = owners.setdefault(id(parameter), f"{name} of stage {number}")
            if first != f"{name} of stage {number}":
                raise ModuleError(
                    f"[Pipeline] {first} and {name} of stage {number} are one parameter: give each "
                    "stage its own, or put the layers that share it into one stage"
                )
