"""Finite checks of losses and gradients, and the diagnosis of non-finite values.

`diagnose` runs a failing batch again under hooks, and names the first non-finite value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import fl_autograd as ag
import fl_tensor as ft
from fl_nn.module import Module
from fl_nn.optim.precision import to_float32
from fl_nn.optim.sparse import stored_gradient_values
from fl_nn.parameter import Parameter

#: Elements of a vector that costs less to copy than to sum in a kernel of its own.
_SHORT = 4096


def sums_are_finite(parameters: Iterable[Parameter], losses: Iterable[ft.Tensor]) -> ft.Tensor:
    """Whether losses and the sums of all gradients are finite: a bool of shape (), which stays
    deferred. A sum may overflow where no element does."""
    # Grouped by number of axes: one concatenate joins the sums of a group, without reshapes.
    # Short vectors (biases, norms) are joined whole: one sum for all of them.
    sums: dict[int, list[ft.Tensor]] = {0: [loss.astype(ft.float32) for loss in losses]}
    with ag.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                values = to_float32(stored_gradient_values(parameter))
                if values.ndim != 1 or values.size > _SHORT:
                    values = ft.sum(values, keepdims=True)
                sums.setdefault(values.ndim, []).append(values.astype(ft.float32))
        found = sums.pop(0) + [ft.sum(ft.concatenate(same)) for same in sums.values()]
        return ft.isfinite(sum(found[1:], found[0])) if found else ft.asarray(True)


def gradients_are_finite(parameters: Iterable[Parameter]) -> bool:
    """Whether all elements of all gradients are."""
    graded = (parameter for parameter in parameters if parameter.grad is not None)
    return not any(describe(stored_gradient_values(parameter)) for parameter in graded)


def describe(value: Any) -> str:
    """What is not finite in an array, in words; nothing for an array that is finite."""
    if not isinstance(value, ft.Array) or not value.dtype.is_floating:
        return ""
    with ag.no_grad():
        nan, inf = (int(ft.sum(test(value)).item()) for test in (ft.isnan, ft.isinf))
    found = " and ".join(f"{n} {name}" for n, name in ((nan, "NaN"), (inf, "inf")) if n)
    return f"{found} among {value.size} values of {value.dtype}{value.shape}" if found else ""


def diagnose(
    model: Module,
    loss: Callable[..., Any],
    batches: Sequence[tuple[Any, ...]],
    casting: Callable[[], AbstractContextManager[Any]],
) -> str:
    """The first value that is not finite when the batches (input, ..., target) are trained on once
    more: a parameter, a field of the batch, the output of a layer, the loss, or a gradient. Leaves
    the model as it was, without gradients."""
    for name, parameter in model.named_parameters():
        if describe(parameter.tensor):
            return f"parameter {name} has {describe(parameter.tensor)} already before this step"
    for batch in batches:
        for i, field in enumerate(batch):
            if describe(field):
                what = "the target" if i == len(batch) - 1 else f"input {i}"
                return f"{what} of the batch has {describe(field)}"
    before = model.state_dict()
    try:
        for batch in batches:
            found = _run(model, loss, batch, casting)
            if found:
                return found
    finally:
        model.load_state_dict(before)
        for parameter in model.parameters():
            parameter.zero_grad()
    return "nothing is when the batch is run again: the cause is random, or outside the model"


def _run(
    model: Module,
    loss: Callable[..., Any],
    batch: tuple[Any, ...],
    casting: Callable[[], AbstractContextManager[Any]],
) -> str:
    forward: list[str] = []
    backward: list[str] = []

    def watch(name: str, module: Module, output: Any) -> None:
        where = (
            f"{type(module).__name__} {name!r}" if name else f"the model, {type(module).__name__}"
        )
        for value in output if isinstance(output, (tuple, list)) else [output]:
            if describe(value):
                forward.append(f"the output of {where} has {describe(value)}")
            elif isinstance(value, ag.Variable) and value.requires_grad:
                value.register_hook(lambda grad: _note(backward, where, grad))

    with _watched(model, watch):
        anomalies = ag.detect_anomaly()
        with anomalies, casting():
            output, refused = model(*batch[:-1]), ""
            try:
                value = loss(output, batch[-1])
            except ft.FlError as error:
                refused = f"the loss: it refuses the output of the model, {error}"
        if forward:
            return f"{forward[0]}, what came before it is finite"
        if refused:
            return refused
        if describe(value):
            return "the loss has, the output of the model is finite" + _operation(anomalies.first)
        operation = ""
        try:
            value.backward()
        except ag.AnomalyError as error:
            operation = str(error)
    graded = [(name, p) for name, p in model.named_parameters() if p.grad is not None]
    bad = [name for name, p in graded if describe(stored_gradient_values(p))]
    if not (bad or backward or operation):
        return ""
    said = [backward[0]] if backward else []
    said += [f"the gradient of parameter {bad[0]}, {len(bad)} in all"] if bad else []
    return "; ".join([*said, *([operation] if operation else [])])


def _note(backward: list[str], where: str, grad: Any) -> None:
    if describe(grad):
        backward.append(f"the gradient of the output of {where} has {describe(grad)}")


def _operation(first: str) -> str:
    return f"; the first NaN is the result of {first}" if first else ""


@contextmanager
def _watched(model: Module, watch: Callable[[str, Module, Any], None]) -> Iterator[None]:
    def hook(name: str) -> Callable[..., None]:
        return lambda module, inputs, output: watch(name, module, output)

    removals = [module.register_forward_hook(hook(n)) for n, module in model.named_modules()]
    try:
        yield
    finally:
        for remove in removals:
            remove()
