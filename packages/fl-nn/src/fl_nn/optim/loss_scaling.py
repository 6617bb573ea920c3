"""Dynamic loss scaling for float16 gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import fl_autograd as ag
import fl_tensor as ft
from fl_dist import Communicator
from fl_memory.tags import GRADIENT
from fl_nn import distributed
from fl_nn.causes import in_update
from fl_nn.errors import ModuleError, StateDictError, TrainingError
from fl_nn.optim.optimizer import Optimizer
from fl_nn.optim.precision import to_float32
from fl_nn.optim.sparse import map_stored_gradient, stored_gradient_values
from fl_nn.parameter import Parameter
from fl_nn.settings import ABOVE_ZERO, COUNT, FLAG, WHOLE, misfits
from fl_tensor.annotations import Checked
from fl_tensor.assumptions import assume, is_captured

A = TypeVar("A", bound=ft.Array)
Target: TypeAlias = Optimizer | Parameter | Iterable[Parameter]


class DynamicLossScaler(Checked):
    """Multiplies the loss by a factor, so that small gradients do not vanish in float16, and
    divides the gradients by it before the step:

        scaler = nn.DynamicLossScaler()
        for x, y in batches:
            optimizer.zero_grad()
            with ag.autocast("O1"):
                loss = nn.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            if scaler.unscale(optimizer):
                nn.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()

    A factor that is too large shows in gradients that are infinite or NaN: such a step is skipped
    and the factor halved. After `growth_interval` steps in a row without, it doubles. Micikevicius
    et al., 2018; powers of 2 cost no digit.

    factor           the first factor
    growth_interval  how many steps in a row, without a skipped one, double it
    maximum          it grows no further
    minimum          TrainingError when it falls below: something else is wrong
    communicator     ranks that step together: what one has to skip, all skip

    `factor` is that of the next step, `successes` counts the steps since it changed, `skipped`
    those that were skipped in all. Its state can be a part of checkpoints.
    """

    kinds = {"growth_interval": COUNT, "maximum": ABOVE_ZERO, "minimum": ABOVE_ZERO}
    counters = {"factor": ABOVE_ZERO, "successes": WHOLE, "skipped": WHOLE, "pending": FLAG}

    def __init__(
        self,
        factor: float = 65536.0,
        growth_interval: int = 2000,
        maximum: float = 2.0**24,
        minimum: float = 1e-4,
        communicator: Communicator | None = None,
    ) -> None:
        self.growth_interval, self.maximum, self.minimum = growth_interval, maximum, minimum
        self.factor = factor
        self.successes = self.skipped = 0
        #: Whether a loss was scaled, and gradients not yet unscaled.
        self.pending = False
        self.communicator = communicator
        problems = self._problems(self._settings(), {"factor": factor})
        if problems:
            raise ModuleError(f"[DynamicLossScaler] {'; '.join(problems)}")

    def scale(self, loss: A) -> A:
        """`loss` times the factor, in float32 at least: differentiate this."""
        self.pending = True
        with ag.autocast("DEFAULT"):
            return to_float32(loss) * ft.per_step(self.factor, "factor of DynamicLossScaler")

    @in_update(GRADIENT)
    def unscale(self, *targets: Target) -> bool:
        """Divide the gradients of optimizers or parameters by the factor, and say whether they are
        fit for a step: finite, on every rank. Otherwise they are forgotten, the factor is halved,
        and the next step of the optimizers does nothing. Once per step, with all that the step
        updates.

        Parameters without gradient are passed over. Gradients of parameters in half precision
        become float32. Raises TrainingError when no loss was scaled since the last time, or when
        the factor falls below the minimum.
        """
        if not self.pending:
            raise TrainingError(
                "[DynamicLossScaler] unscale() without scale() before it: gradients would be "
                "divided twice. Differentiate scale(loss), then unscale everything that the step "
                "updates in one call: unscale(optimizer, other_optimizer)"
            )
        self.pending = False
        parameters = _parameters(targets)
        graded = [p for p in parameters if p.grad is not None]
        finite = [ft.all(ft.isfinite(stored_gradient_values(p))) for p in graded]
        bad: list[Parameter] = []
        if not is_captured():
            bad = [p for p, fine in zip(graded, finite) if not fine.item()]
        elif finite:
            self._refuse_ranks()
            assume(ft.all(ft.stack(finite)))
        if not distributed.all_agree(self.communicator, not bad):
            self._shrink(parameters, bad)
            for target in targets:
                if isinstance(target, Optimizer):
                    target.skips_next = True
            return False
        share = ft.per_step(1.0 / self.factor, "1 / factor of DynamicLossScaler")
        for parameter in graded:
            map_stored_gradient(parameter, lambda grad: to_float32(grad) * share)
        self.successes += 1
        if self.successes >= self.growth_interval:
            self.factor, self.successes = min(2.0 * self.factor, self.maximum), 0
        return True

    def _refuse_ranks(self) -> None:
        if self.communicator is not None and self.communicator.world_size > 1:
            raise ft.CaptureError("a loss scaler asks the other ranks whether to make the step")

    def _shrink(self, parameters: list[Parameter], bad: list[Parameter]) -> None:
        cause = _cause(parameters, bad)
        for parameter in parameters:
            parameter.zero_grad()
        self.factor, self.successes, self.skipped = self.factor / 2.0, 0, self.skipped + 1
        if self.factor < self.minimum:
            raise TrainingError(
                f"[DynamicLossScaler] the factor fell to {self.factor:g}, below its minimum "
                f"{self.minimum:g}: after {self.skipped} skipped steps, {cause}. No factor helps "
                "against that: look for values in the data or the loss that are not finite "
                "(ag.detect_anomaly() names the operation), or lower the learning rate"
            )

    # ---- state -------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.kinds}

    def _problems(self, settings: Mapping[str, Any], counters: Mapping[str, Any]) -> list[str]:
        known = {name: kind for name, kind in self.counters.items() if name in counters}
        found = misfits(self.kinds, settings) + misfits(known, counters)
        if not found and not settings["minimum"] <= counters["factor"] <= settings["maximum"]:
            found.append(
                f"factor={counters['factor']}: give one between minimum={settings['minimum']} and "
                f"maximum={settings['maximum']}"
            )
        return found

    def state_dict(self) -> dict[str, Any]:
        """Plain values: type, settings, factor and counters."""
        counters = {name: getattr(self, name) for name in self.counters}
        return {"type": "DynamicLossScaler", "settings": self._settings(), **counters}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state, settings included. Raises StateDictError, and changes nothing, when it
        is of something else."""
        settings = state.get("settings")
        if state.get("type") != "DynamicLossScaler" or not isinstance(settings, Mapping):
            raise StateDictError("this is not the state of a DynamicLossScaler")
        counters = {name: state.get(name) for name in self.counters}
        problems = self._problems(settings, counters)
        if problems:
            raise StateDictError(f"the state fits no DynamicLossScaler: {'; '.join(problems)}")
        for name, value in {**settings, **counters}.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"DynamicLossScaler(factor={self.factor:g}, successes={self.successes}, "
            f"skipped={self.skipped})"
        )


def _parameters(targets: Iterable[Target]) -> list[Parameter]:
    # Each once: two optimizers may share some.
    found: dict[int, Parameter] = {}
    for target in targets:
        if isinstance(target, Optimizer):
            target = target.parameters
        for parameter in [target] if isinstance(target, Parameter) else target:
            found[id(parameter)] = parameter
    return list(found.values())


def _cause(parameters: list[Parameter], bad: list[Parameter]) -> str:
    # What is wrong with the gradients, in words.
    if not bad:
        return "the gradients of another rank are not finite"
    number = next(i for i, p in enumerate(parameters) if p is bad[0])
    nan = ft.any(ft.isnan(stored_gradient_values(bad[0]))).item()
    return (
        f"the gradients of {len(bad)} of {len(parameters)} parameters are not finite, first that "
        f"of number {number}, {bad[0].dtype}{bad[0].shape}, with {'NaN' if nan else 'inf'}"
    )
