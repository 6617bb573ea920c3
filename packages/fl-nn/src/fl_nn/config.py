"""Configurations: a module as plain values, and back. No pickles, no code: a configuration names a
class and the arguments it was built with, and only classes that the reader knows are built.

    config = model.to_config()                  # what JSON can carry
    twin = nn.from_config(config)               # the same structure, weights of its own
    twin.load_state_dict(model.state_dict())
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.causes import constructor_observed
from fl_nn.errors import ModuleError, recursion_guard
from fl_tensor.annotations import explained

if TYPE_CHECKING:
    from typing_extensions import Self

_MODULE, _DTYPE, _TENSOR = "$module", "$dtype", "$tensor"


#: The classes of fl_nn by name: what a configuration may name without `types`.
_CLASSES: dict[str, type[Configurable]] = {}


class Configurable:
    """Base of `Module`: it remembers the arguments that it was built with."""

    _built: ConstructorArguments

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", constructor_observed(vars(cls)["__init__"]))  # noqa: B010
        if cls.__module__.startswith("fl_nn.") and not cls.__name__.startswith("_"):
            register_class(cls.__name__, cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made: Self = super().__new__(cls, *args, **kwargs)
        made._built = ConstructorArguments(args, kwargs)
        return made

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What builds a module like this one: positional arguments and those by name. As given to
        the constructor; override it where later calls change the structure."""
        return self._built.args, self._built.kwargs

    def to_config(self) -> dict[str, Any]:
        """The structure as plain values, which `nn.from_config` reads: see `fl_nn.config`."""
        return to_config(self)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], types: Iterable[type[Configurable]] = ()
    ) -> Self:
        """`nn.from_config` of a configuration of this class, which it then knows. Raises
        ModuleError for one of another class."""
        made = from_config(config, (cls, *types))
        if not isinstance(made, cls):
            raise ModuleError(f"[from_config] it describes a {type(made).__name__}, not a {cls}")
        return made


def register_class(name: str, cls: type[Configurable]) -> None:
    """Let configurations name a class of fl_nn without `types`."""
    _CLASSES[name] = cls


class ConstructorArguments:
    """The arguments that a module was built with. Not a tuple or dict: what modules hold in those
    is part of their tree."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs


def to_config(module: Configurable) -> dict[str, Any]:
    """`{"type": class name, "arguments": {...}}`: what the module was built with.

    Random generators are left out, weights too (`state_dict` has them). Raises ModuleError for an
    argument that is neither plain nor a module, a dtype or a tensor.
    """
    with recursion_guard("to_config"):
        return _configuration(module)


def _configuration(module: Configurable) -> dict[str, Any]:
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
def from_config(config: Mapping[str, Any], types: Iterable[type[Configurable]] = ()) -> Any:
    """The Module that `config` describes, with fresh weights.

    types   classes of yours that it may name; those of fl_nn are known

    Raises ModuleError for a configuration that names another class or does not fit it.
    """
    with recursion_guard("from_config"):
        return _build(config, {cls.__name__: cls for cls in types})


def _build(config: Mapping[str, Any], types: Mapping[str, type[Configurable]]) -> Any:
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
    cls = types.get(name) or _CLASSES.get(name)
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


def _encode(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Configurable):
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


def _decode(value: Any, types: Mapping[str, type[Configurable]]) -> Any:
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
