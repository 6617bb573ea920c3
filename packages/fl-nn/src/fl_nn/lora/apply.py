"""Adding adapters to a model, merging them into its weights, and removing them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.linear import Linear
from fl_nn.lora.layers import PARTS, WHOLE, LoRALinear, LoRAMultiHeadAttention, LowRank, rows_of
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.tree import join, parameter_slots
from fl_tensor.annotations import checked

M = TypeVar("M", bound=Module)
Targets = str | Sequence[str]


@dataclass(frozen=True)
class Place:
    """A weight that an adapter may be added to: all of a Linear, or rows of in_proj_weight.

    name  of the layer, or of MultiHeadAttention and the part: "layers.0.self_attn.q_proj"
    part  in_proj, q_proj, k_proj or v_proj of MultiHeadAttention; "" of Linear
    """

    name: str
    module: Module
    part: str

    @property
    def weight_name(self) -> str:
        """The name of the weight in the state of the model."""
        return (
            join(self.name, "weight")
            if not self.part
            else (f"{self.name.removesuffix(self.part)}in_proj_weight")
        )

    @property
    def lora(self) -> LowRank | None:
        """The adapter that is there."""
        found: LowRank | None = getattr(self.module, self.part or "lora", None)
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        if isinstance(self.module, Linear):
            return self.module.outputs, self.module.inputs
        assert isinstance(self.module, MultiHeadAttention)
        first, last = rows_of(self.module, self.part)
        return last - first, self.module.size

    def add(self, lora: LowRank) -> None:
        """Make the layer one with this adapter."""
        if self.part:
            self.module.__class__ = LoRAMultiHeadAttention
        else:
            self.module.__class__ = LoRALinear
        setattr(self.module, self.part or "lora", lora)

    def change_weight(self, sign: float) -> None:
        """Add the product of the adapter to the weight, or subtract it."""
        lora, module = self.lora, self.module
        assert lora is not None
        product = lora.product() * sign
        if isinstance(module, LoRAMultiHeadAttention):
            weight = module.in_proj_weight
            first, last = rows_of(module, self.part)
            parts = [weight.tensor[:first], weight.tensor[first:last] + product]
            weight.tensor = ft.concatenate([*parts, weight.tensor[last:]], 0)
        elif isinstance(module, LoRALinear):
            module.weight.tensor = module.weight.tensor + product
        lora.merged = sign > 0


def places(model: Module) -> Iterator[Place]:
    """All weights below that may have an adapter, in the order of the modules."""
    for name, module in model.named_modules():
        if type(module) in (Linear, LoRALinear):
            yield Place(name, module, "")
        elif type(module) in (MultiHeadAttention, LoRAMultiHeadAttention):
            for part in (WHOLE, *PARTS):
                yield Place(join(name, part), module, part)


def adapted(model: Module) -> list[Place]:
    """The weights that have an adapter."""
    return [place for place in places(model) if place.lora is not None]


@checked
def adapters(model: Module) -> dict[str, LowRank]:
    """The adapters of a model by the names of their layers."""
    return {place.name: lora for place in places(model) if (lora := place.lora) is not None}


@checked
def apply_lora(
    model: M,
    rank: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    targets: Targets = ("q_proj", "v_proj"),
    *,
    generator: ft.Generator | None = None,
) -> M:
    """Add adapters to layers of a model, in place, and freeze all else; the model. Its outputs stay
    as they are.

    rank     of the product of two matrices that is added to a weight
    alpha    the product is multiplied with alpha / rank
    dropout  probability of zeros in what the adapter reads, in training
    targets  last parts of names of layers, or one regular expression for whole names. Layers are
             each Linear, and of MultiHeadAttention q_proj, k_proj and v_proj, or in_proj for all
             rows together

    Raises ModuleError where no layer has such a name, or one has an adapter, and for a rank, alpha
    or dropout that does not fit; the model is then as it was. Hu et al., 2021.
    """
    fits = _matcher(targets)
    known = list(places(model))
    chosen = [place for place in known if fits(place.name)]
    if not chosen:
        names = sorted({place.name.rpartition(".")[2] for place in known})
        raise ModuleError(
            f"[apply_lora] targets {targets!r}: no layer of this {type(model).__name__} has such a "
            f"name; there are {', '.join(map(repr, names)) or 'none'}"
        )
    add_adapters(chosen, rank, alpha, dropout, generator)
    _freeze_all_but(model)
    return model


def add_adapters(
    chosen: Sequence[Place],
    rank: int,
    alpha: float,
    dropout: float,
    generator: ft.Generator | None = None,
) -> None:
    """New adapters in these places, all or none. Raises ModuleError."""
    made: list[LowRank] = []
    for place in chosen:
        weight = getattr(place.module, "in_proj_weight" if place.part else "weight", None)
        parts = {p.part for p in chosen if p.module is place.module}
        parts |= {p for p in (WHOLE, *PARTS) if getattr(place.module, p, None) is not None}
        if place.lora is not None or (WHOLE in parts and len(parts) > 1):
            raise ModuleError(
                f"[apply_lora] {place.name} would have two adapters: use remove_lora before, and "
                f"choose either {WHOLE} or {', '.join(PARTS)}"
            )
        if not isinstance(weight, Parameter):
            raise ModuleError(f"[apply_lora] {place.name} has no weight of its own: leave it out")
        outputs, inputs = place.shape
        with ft.use(weight.backend):
            lora = LowRank(
                inputs, outputs, rank, alpha, dropout, generator=generator, dtype=weight.dtype
            )
        made.append(lora.to(weight.device).train(place.module.training))
    for place, lora in zip(chosen, made):
        place.add(lora)


def _freeze_all_but(model: Module) -> None:
    model.freeze()
    for lora in adapters(model).values():
        lora.freeze(False)


@checked
def merge_lora(model: M) -> M:
    """Add every adapter to its weight, in place; the model. Its outputs stay as they are, and no
    longer cost more. The adapters are kept for `unmerge_lora` and `save_adapter`: before weights
    are saved call `remove_lora`.

    Raises ModuleError for a weight that another layer shares, which would change, too.
    """
    found = [place for place in adapted(model) if not _lora(place).merged]
    count: dict[int, int] = {}
    for _, slot in parameter_slots(model):
        count[id(slot.parameter)] = count.get(id(slot.parameter), 0) + 1
    for place in found:
        weight: Any = getattr(place.module, "in_proj_weight" if place.part else "weight")
        if count.get(id(weight), 0) > 1:
            raise ModuleError(
                f"[merge_lora] the weight of {place.name} belongs to another layer, too: give "
                "this one a copy, `layer.weight = nn.Parameter(layer.weight.tensor)`"
            )
    for place in found:
        place.change_weight(1.0)
    return model


@checked
def unmerge_lora(model: M) -> M:
    """Subtract from the weights what `merge_lora` added, in place; the model."""
    for place in adapted(model):
        if _lora(place).merged:
            place.change_weight(-1.0)
    return model


@checked
def remove_lora(model: M) -> M:
    """Make layers with adapters ordinary ones again, in place; the model. What is merged stays in
    the weights, other adapters are lost. Parameters stay frozen."""
    for place in adapted(model):
        delattr(place.module, place.part or "lora")
        if isinstance(place.module, LoRALinear):
            place.module.__class__ = Linear  # type: ignore[assignment]
        elif not any(getattr(place.module, part) is not None for part in (WHOLE, *PARTS)):
            place.module.__class__ = MultiHeadAttention
    return model


def _lora(place: Place) -> LowRank:
    assert place.lora is not None
    return place.lora


def _matcher(targets: Targets) -> Callable[[str], bool]:
    if not isinstance(targets, str):
        last = set(targets)
        return lambda name: name.rpartition(".")[2] in last
    try:
        pattern = re.compile(targets)
    except re.error as error:
        raise ModuleError(
            f"[apply_lora] targets {targets!r} is no regular expression ({error}): give one, or "
            "a list of names"
        ) from error
    return lambda name: pattern.fullmatch(name) is not None
