"""Configurations: a module as plain values, and back. No pickles, no code: a configuration names a
class and the arguments it was built with, and only classes that the reader knows are built.

    config = model.to_config()                  # what JSON can carry
    twin = nn.from_config(config)               # the same structure, weights of its own
    twin.load_state_dict(model.state_dict())
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError, not_too_deep
from fl_nn.module import Module
from fl_tensor.annotations import explained

_MODULE, _DTYPE, _TENSOR = "$module", "$dtype", "$tensor"


def to_config(module: Module) -> dict[str, Any]:
    """`{"type": class name, "arguments": {...}}`: what the module was built with.

    Random generators are left out, weights too (`state_dict` has them). Raises ModuleError for an
    argument that is neither plain nor a module, a dtype or a tensor.
    """
    with not_too_deep("to_config"):
        return _configuration(module)


def _configuration(module: Module) -> dict[str, Any]:
    name, cls = type(module).__name__, type(module)
    args, kwargs = module.constructor_arguments()
    bound = inspect.signature(cls).bind(*args, **kwargs)
    arguments = {
        key: _encode(value, f"{name}: argument {key!r}")
        for key, value in bound.arguments.items()
        if not isinstance(value, ft.Generator)
    }
    return {"type": name, "arguments": arguments}


@explained
def from_config(config: Mapping[str, Any], types: Iterable[type[Module]] = ()) -> Module:
    """The module that `config` describes, with fresh weights.

    types   classes of yours that it may name; those of fl_nn are known

    Raises ModuleError for a configuration that names another class or does not fit it.
    """
    with not_too_deep("from_config"):
        return _build(config, {cls.__name__: cls for cls in types})


def _build(config: Mapping[str, Any], types: Mapping[str, type[Module]]) -> Module:
    try:
        name, arguments = config["type"], dict(config["arguments"])
        foreign = sorted(map(str, config.keys() - {"type", "arguments"}))
    except (KeyError, TypeError, ValueError):
        raise ModuleError(
            f"[from_config] {config!r} is no configuration: expected a dict with 'type' and "
            "'arguments'"
        ) from None
    if foreign:
        raise ModuleError(
            f"[from_config] {name}: unknown keys {', '.join(foreign)}; expected 'type' and "
            "'arguments'"
        )
    cls = types.get(name) or _known(name)
    if cls is None:
        raise ModuleError(
            f"[from_config] no module {name!r} is known; pass its class in types=[...]"
        )
    decoded = {key: _decode(value, types) for key, value in arguments.items()}
    signature = inspect.signature(cls)
    unknown = sorted(decoded.keys() - signature.parameters.keys())
    if unknown:
        raise ModuleError(f"[from_config] {name} takes no argument {', '.join(unknown)}")
    bound = inspect.BoundArguments(signature, decoded)
    try:
        return cls(*bound.args, **bound.kwargs)
    except TypeError as error:
        raise ModuleError(f"[from_config] {name}: {error}") from error


def _known(name: str) -> type[Module] | None:
    import fl_nn  # all public classes; not yet there when this module is imported

    found = vars(fl_nn).get(name)
    return found if isinstance(found, type) and issubclass(found, Module) else None


def _encode(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Module):
        return {_MODULE: _configuration(value)}
    if isinstance(value, ft.DType):
        return {_DTYPE: value.name}
    if isinstance(value, ft.Array):
        return {_TENSOR: value.tolist(), _DTYPE: value.dtype.name}
    if isinstance(value, (list, tuple)):
        return [_encode(part, where) for part in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and not key.startswith("$") for key in value):
            raise ModuleError(f"[to_config] {where}: keys of a dict are strings without $")
        return {key: _encode(part, where) for key, part in value.items()}
    raise ModuleError(
        f"[to_config] {where} is a {type(value).__name__}, which has no plain form; override "
        "constructor_arguments(), or build this model by its own code"
    )


def _decode(value: Any, types: Mapping[str, type[Module]]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(part, types) for part in value)
    if not isinstance(value, Mapping):
        return value
    if _MODULE in value:
        return _build(value[_MODULE], types)
    if _TENSOR in value:
        return ft.asarray(value[_TENSOR], ft.dtype(value[_DTYPE]))
    if _DTYPE in value:
        return ft.dtype(value[_DTYPE])
    return {key: _decode(part, types) for key, part in value.items()}
