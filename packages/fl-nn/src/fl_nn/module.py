"""Module: the base class of layers, with a tree of parameters by attribute names.

There is no registry beside the object: see `fl_nn.tree`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import fl_autograd as ag
import fl_tensor as ft
from fl_nn import state_dict as states
from fl_nn.config import Configurable
from fl_nn.errors import ModuleError, ParameterError, StateDictError
from fl_nn.files.lazy import as_loadable
from fl_nn.forward import Forward
from fl_nn.parameter import Parameter
from fl_nn.settings import FLAG
from fl_nn.tree import state_entries
from fl_nn.values import snapshot, tensor_of
from fl_tensor import dtypes
from fl_tensor.annotations import Checked

if TYPE_CHECKING:
    pass

M = TypeVar("M", bound="Module")


class Module(Forward, Configurable, Checked):
    """Base class of layers and models: assign parameters and modules to attributes, write
    `forward`.

    `training` tells layers such as Dropout which of their two behaviours is wanted.
    """

    training: bool = True

    def __setattr__(self, name: str, value: Any) -> None:
        """An attribute that holds a Parameter takes another Parameter or None. Raises
        ParameterError for anything else, which would be neither trained nor saved.

        A buffer takes an array or None (ModuleError). Of a Variable or Parameter it takes the
        value, without history."""
        if (
            isinstance(self.__dict__.get(name), Parameter)
            and value is not None
            and not isinstance(value, Parameter)
        ):
            raise ParameterError(
                f"[{type(self).__name__}] {name} is a Parameter and cannot become a "
                f"{type(value).__name__}: write `layer.{name}.tensor = x` for another value, "
                f"`layer.{name} = nn.Parameter(x)` for another parameter"
            )
        if name in self._buffers and value is not None:
            if not isinstance(value, ft.Array):
                raise ModuleError(
                    f"[{type(self).__name__}] {name} is a buffer and cannot become a "
                    f"{type(value).__name__}: give ft.asarray(x), or None"
                )
            value = tensor_of(value)
        super().__setattr__(name, value)

    def register_buffer(self, name: str, value: ft.Array | None, persistent: bool = True) -> None:
        """Keep a tensor that is state but not learned as attribute `name`: it moves with `to` and,
        when persistent, is part of `state_dict`. Later plain assignments keep it a buffer. Of a
        Variable it takes the value, without history. Raises ModuleError for a name that cannot be
        one, and for what is no array."""
        if not isinstance(name, str) or not name.isidentifier():
            raise ModuleError(f"[register_buffer] name {name!r}: give the name of an attribute")
        if value is not None and not isinstance(value, ft.Array):
            raise ModuleError(
                f"[register_buffer] {name} is a {type(value).__name__}: give ft.asarray(x), or None"
            )
        _check_flag("register_buffer", "persistent", persistent)
        self._buffers = {**self._buffers, name: persistent}
        setattr(self, name, value)

    # ---- the tree ----------------------------------------------------------------------------

    if TYPE_CHECKING:  # inherited; every module below is a Module, too

        def named_children(self) -> Iterator[tuple[str, Module]]: ...

        def named_modules(self) -> Iterator[tuple[str, Module]]: ...

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    # ---- state -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, ft.Tensor]:
        """Parameters and persistent buffers by name: a snapshot, which later training leaves alone.
        What two names share is there under both."""
        return {entry.name: snapshot(entry.value) for entry in state_entries(self, persistent=True)}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Take over the values of `state`, tensors or what `ft.asarray` reads; they move to the
        backend and device of this model, unless it was built on `null` and has no values yet. What
        two names share here may come under either or, if equal, under both.

        Raises StateDictError, and changes nothing, when a shape or dtype differs or, with `strict`,
        when a name is missing or unexpected.
        """
        if not isinstance(state, Mapping):
            raise StateDictError(
                f"[load_state_dict] {type(state).__name__}: expected a mapping of names to tensors"
            )
        found = as_loadable(state)
        problems = states.mismatches(self, found, strict)
        if problems:
            raise StateDictError(states.mismatch_message(self, problems))
        states.load_values(self, found)

    def to(self: M, target: Any) -> M:
        """Move all parameters and buffers, in place, to a dtype (the floating ones), a device or a
        backend, or what has one of these names: as ``Tensor.to``. Gradients are dropped. Optimizers
        keep their hold on the parameters, but state that they have gathered stays behind: move the
        model before building them, or take the state along:

            state = optimizer.state_dict()
            model.to("jit")
            optimizer.load_state_dict(state)
        """
        if isinstance(target, str) and target in dtypes.ALL:
            target = ft.dtype(target)
        only_floating = isinstance(target, ft.DType)
        if only_floating and not target.is_floating:
            raise ModuleError(f"to({target}): parameters are floating; give a floating dtype")
        for entry in {entry.key: entry for entry in state_entries(self, persistent=False)}.values():
            if not only_floating or entry.value.dtype.is_floating:
                moved = entry.value.to(target)
                if isinstance(entry.owner, Parameter):
                    entry.owner.replace(moved)
                else:
                    entry.value = moved
        self.zero_grad()
        return self

    def astype(self: M, dtype: ft.DType | str) -> M:
        """Convert the floating parameters and buffers, in place: `to(dtype)`. Raises DTypeError for
        what names no dtype, ModuleError for one that is not floating."""
        return self.to(ft.dtype(dtype))

    def set_precision(self: M, precision: ag.Policy | str | None) -> M:
        """Compute in mixed precision whenever this module is called, whoever calls it: `forward`
        and hooks run under `ag.autocast(precision)`, and floating results (in tuples, lists and
        dicts, too) become what the policy gives. Parameters are kept in its `param`: `to(param)` is
        called if one has another dtype.

        "DEFAULT" exempts a part of a model from the precision around it; its results are as they
        come. None ends that: it computes as the context says. State and configuration do not hold
        it. Raises PolicyError for an unknown level.
        """
        policy = None if precision is None else ag.autocast(precision).policy
        if policy is not None and policy.casts:
            if any(p.dtype is not policy.param for p in self.parameters()):
                self.to(policy.param)
        self._precision = policy
        return self

    def train(self: M, mode: bool = True) -> M:
        """Set `training` here and below. Raises ModuleError for what is not a bool."""
        _check_flag("train", "mode", mode)
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """The same as `train(False)`."""
        return self.train(False)

    def freeze(self: M, frozen: bool = True) -> M:
        """Let no parameter here and below learn, or with False all of them again. Optimizers pass
        over frozen parameters; Dropout and BatchNorm behave as `train` and `eval` say. Raises
        ModuleError for what is not a bool."""
        _check_flag("freeze", "frozen", frozen)
        for parameter in self.parameters():
            parameter.requires_grad = not frozen
        return self

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters():
            parameter.zero_grad()

    # ---- text --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the first line of `repr` says in brackets: the settings."""
        return ""

    def __repr__(self) -> str:
        head = type(self).__name__
        children = [
            f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()
        ]
        if not children:
            return f"{head}({self.extra_repr()})"
        lines = [self.extra_repr(), *children] if self.extra_repr() else children
        return "\n  ".join([f"{head}(", *lines]) + "\n)"

    def _repr_html_(self) -> str:
        from fl_nn.summary import layer_table

        return layer_table(self)


def _check_flag(where: str, name: str, value: object) -> None:
    if not FLAG.fits(value):
        raise ModuleError(f"[{where}] {name}={value!r}: give {FLAG.words}")
