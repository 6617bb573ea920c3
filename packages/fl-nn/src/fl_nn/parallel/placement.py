"""Placement: which parameters of a model lie in which flat parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import fl_dist as dist
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.parallel.flat_parameter import FlatParameter
from fl_nn.parallel.sharded_parameter import ShardedParameter
from fl_nn.parameter import Parameter
from fl_nn.tree import join, members

Named = list[tuple[str, Parameter]]
MB = 1 << 20
#: Bytes of the first bucket, so that its reduction begins early, and of those after it.
FIRST_BUCKET, BUCKET = MB, 20 * MB


def group_numbers(model: Module, optimizer: Optimizer) -> dict[int, int]:
    """The group of the optimizer that each parameter is in, by id. Raises ModuleError for an
    optimizer that cannot be sharded."""
    name = type(optimizer).__name__
    if not optimizer.elementwise:
        raise ModuleError(
            f"[Sharded] {name} needs whole parameters, and a rank has a share of their elements: "
            "use Adam, AdamW, SGD, or an optimizer with elementwise = True"
        )
    if any(optimizer.state):
        raise ModuleError(
            f"[Sharded] this {name} has made steps already: give a new one, and load its state "
            "with load_optimizer_state_dict"
        )
    if not all(parameter.backend.has_values for parameter in model.parameters()):
        raise ModuleError(
            f"[Sharded] parameters of this {type(model).__name__} have no values: shard a model "
            "once, and build it on a backend that computes"
        )
    known = {id(parameter) for parameter in model.parameters()}
    strange = sum(id(parameter) not in known for parameter in optimizer.parameters)
    if strange:
        raise ModuleError(
            f"[Sharded] {strange} of {len(optimizer.parameters)} parameters of the {name} are not "
            f"of this {type(model).__name__}: build the optimizer over model.parameters()"
        )
    return {
        id(parameter): number
        for number, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    }


def buckets(
    comm: dist.Communicator, model: Module, groups: Mapping[int, int]
) -> list[FlatParameter]:
    """Vectors of the parameters in `bucketed`."""
    return [_flat(comm, bucket) for bucket in bucketed(model, groups)]


def bucketed(model: Module, groups: Mapping[int, int]) -> list[Named]:
    """Parameters that learn, in the order in which the backward pass is expected to reach them, in
    buckets of one group and dtype."""
    filled: list[Named] = []
    open_buckets: dict[object, Named] = {}
    limit = FIRST_BUCKET
    for name, parameter in reversed(list(model.named_parameters())):
        if id(parameter) not in groups or not parameter.requires_grad:
            continue
        key = _kind(parameter, groups)
        bucket = open_buckets.get(key)
        if bucket is not None and sum(p.nbytes for _, p in bucket) + parameter.nbytes > limit:
            bucket, limit = None, BUCKET
        if bucket is None:
            bucket = open_buckets[key] = []
            filled.append(bucket)
        bucket.append((name, parameter))
    return filled


def unit_parameters(
    comm: dist.Communicator,
    model: Module,
    groups: Mapping[int, int],
    units: Sequence[Module] | None,
) -> list[tuple[str, Module, list[FlatParameter]]]:
    """(name, module, flat parameters) of the model and of every unit that holds parameters. By
    default the modules directly below the model are units; what none of them holds belongs to the
    model itself."""
    chosen = [child for _, child in model.named_children()] if units is None else list(units)
    names = {id(module): name for name, module in model.named_modules()}
    for unit in chosen:
        if id(unit) not in names:
            raise ModuleError(
                f"[Sharded] units hold a {type(unit).__name__} that is no module of this "
                f"{type(model).__name__}: take them from model.named_modules()"
            )
    held: dict[int, Named] = {id(module): [] for module in (model, *chosen)}
    owners: dict[int, tuple[str, Module]] = {}
    _assign(model, model, "", held, owners, names)
    made = []
    for module in {id(module): module for module in (model, *chosen)}.values():
        kinds: dict[object, Named] = {}
        for name, parameter in held[id(module)]:
            kinds.setdefault(_kind(parameter, groups), []).append((name, parameter))
        if kinds or module is model:
            flats = [_flat(comm, named) for named in kinds.values()]
            made.append((names[id(module)], module, flats))
    return made


def _assign(
    module: Module,
    unit: Module,
    prefix: str,
    held: dict[int, Named],
    owners: dict[int, tuple[str, Module]],
    names: Mapping[int, str],
) -> None:
    unit = module if id(module) in held else unit
    for name, value in members(module):
        path = join(prefix, module.state_name(name))
        if isinstance(value, Module):
            _assign(value, unit, path, held, owners, names)
        elif isinstance(value, Parameter):
            first, owner = owners.setdefault(id(value), (path, unit))
            if owner is not unit:
                both = " and ".join(names[id(one)] or "the model itself" for one in (owner, unit))
                raise ModuleError(
                    f"[Sharded] {first} and {path} are one parameter, used by two units, {both}: "
                    "give units=[...] such that one unit, or the model itself, holds both"
                )
            if first == path:
                held[id(unit)].append((path, value))


def _kind(parameter: Parameter, groups: Mapping[int, int]) -> tuple[object, ...]:
    over = id(parameter.comm) if isinstance(parameter, ShardedParameter) else None
    return groups.get(id(parameter)), parameter.dtype, parameter.requires_grad, over


def _flat(comm: dist.Communicator, named: Iterable[tuple[str, Parameter]]) -> FlatParameter:
    names, parameters = zip(*named)
    return FlatParameter(comm, names, parameters)
