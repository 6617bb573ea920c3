"""``Variable``: an array with a recorded history, for gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

from fl_autograd.dispatch import namespace_for, promoted_dtype, tape_for
from fl_autograd.errors import GradError
from fl_autograd.inplace import InPlace
from fl_autograd.mode import is_grad_enabled, note_cut, recording
from fl_autograd.node import Hook, Leaf, Node
from fl_tensor import Array, Device, Tensor
from fl_tensor.arguments import function_of
from fl_tensor.array_classes import TEMPORARY, VALUES, answer, getrefcount, warn_lost_assignment
from fl_tensor.dtypes import ALL, HALF, DType, float32
from fl_tensor.errors import DTypeError, ShapeError
from fl_tensor.extend import current_stack as layers

if TYPE_CHECKING:
    from typing_extensions import Self

    from fl_autograd.rules.table import Rule


def variable(adapter: Any, base: Any, node: Node | None) -> Variable:
    """A Variable around an adapter of backend ``base``: what operations return."""
    made = object.__new__(Variable)
    made._adapter = adapter
    made._backend = base
    made._node = node
    return made


def wrap(result: Any, base: Any, op: str) -> Any:
    """What a backend returned for ``op`` (an adapter, or several) as variables without history.
    Raises BackendError for what is no adapter."""
    if result.__class__ in VALUES:
        return variable(result, base, None)
    if isinstance(result, (tuple, list)):
        return type(result)(variable(answer(op, base, part), base, None) for part in result)
    return variable(answer(op, base, result), base, None)


def recorded(adapter: Any, base: Any, rule: Rule, ins: tuple[Any, ...], saved: Any) -> Variable:
    """The result of an operation that no namespace has, with a node of its own."""
    node = object.__new__(Node)
    node.rule, node.ins, node.saved, node.hooks = rule, ins, saved, None
    node.shape, node.base = adapter.shape, base
    result = variable(adapter, base, node)
    mode = recording()
    if not isinstance(mode, bool):
        mode.recorded(result)
    return result


class Variable(InPlace, Array):
    """An array that remembers where it came from.

    value          a Tensor, a Variable (its value is taken, not its history) or anything that
                   ``ft.asarray`` reads
    requires_grad  whether ``backward`` should leave a gradient here; floating and complex dtypes
                   only (DTypeError otherwise)
    """

    __slots__ = ("__weakref__", "_adapter", "_backend", "_node")
    _priority: ClassVar[int] = 10
    #: Whether it holds some rows of a table in place of the dense value: a gradient may.
    _is_sparse: ClassVar[bool] = False

    _adapter: Any
    _backend: Any  # a slot where Array declares a property
    _node: Node | None

    def __init__(self, value: Any, requires_grad: bool = False) -> None:
        if not isinstance(value, Array):
            from fl_tensor import asarray

            value = asarray(value)
        tensor = value._tensor()
        if isinstance(value, Variable) and value._node is not None:
            note_cut("Variable(x)")
        self._adapter = tensor._adapter
        self._backend = tensor._backend
        self._node = None
        if requires_grad:
            self.requires_grad = True

    # ---- what Array asks for -----------------------------------------------------------------

    @property
    def _raw(self) -> Variable:
        return self

    def _ops(self) -> Any:
        return tape_for(self._backend) if layers() is None else namespace_for(self._backend)

    def _wrap(self, raw: Any) -> Any:
        return raw

    def _promoted(self, op: str, dtype: DType) -> DType:
        return dtype if layers() is None else promoted_dtype(self._backend, op, dtype)

    def _lift(self, other: Array) -> Any:
        if isinstance(other, Variable):
            return other
        return variable(other._adapter, other._backend, None)

    def _tensor(self) -> Tensor:
        return Tensor(self._adapter, self._backend)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._adapter.shape

    @property
    def dtype(self) -> DType:
        return self._adapter.dtype

    @property
    def device(self) -> Device:
        return self._adapter.device

    # ---- value -------------------------------------------------------------------------------

    @property
    def tensor(self) -> Tensor:
        """The value. Assigning gives the variable another value of the same shape and dtype; graphs
        recorded before keep the old one. GradError for the result of a recorded operation."""
        if self._node is not None:
            note_cut("Variable.tensor")
        return Tensor(self._adapter, self._backend)

    @tensor.setter
    def tensor(self, value: Any) -> None:
        if not isinstance(value, Array):
            raise DTypeError(
                f"Variable.tensor is a Tensor, not {type(value).__name__}: use asarray"
            )
        if not self.is_leaf:
            raise GradError(
                "the result of a recorded operation has no value of its own: detach() it"
            )
        fresh = value._tensor()
        if fresh.shape != self.shape:
            raise ShapeError(f"Variable.tensor of shape {self.shape}: cannot become {fresh.shape}")
        if fresh.dtype is not self.dtype:
            raise DTypeError(f"Variable.tensor of dtype {self.dtype}: cannot become {fresh.dtype}")
        if fresh._backend is not self._backend:
            raise GradError(
                f"Variable.tensor is on backend {self._backend.name!r}, the new value on "
                f"{fresh._backend.name!r}: make a new Variable"
            )
        self._adapter = fresh._adapter

    def detach(self) -> Variable:
        """The same value without history."""
        if self._node is not None:
            note_cut("detach()")
        return variable(self._adapter, self._backend, None)

    def to(self, target: Any) -> Any:
        """The same values in another dtype, on another device or backend; gradients come back."""
        if isinstance(target, DType) or (isinstance(target, str) and target in ALL):
            return self.astype(target)
        moved = self.tensor.to(target)
        if moved.dtype is not self.dtype:  # a dtype under another name, as ``float``
            return self.astype(moved.dtype)
        if self._node is None or not is_grad_enabled():
            return self if moved._adapter is self._adapter else Variable(moved)
        from fl_autograd.transfer import record

        return self if moved._adapter is self._adapter else record(self, moved)

    def __setitem__(self, index: Any, value: Any) -> None:
        from fl_autograd.assignment import assign

        if getrefcount(self) <= TEMPORARY:
            warn_lost_assignment()
        assign(self, index, value)

    # ---- gradient ----------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this variable. Settable on leaves."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value == (self._node is not None):
            return
        if not self.is_leaf:
            raise GradError("only a leaf can stop to require a gradient: use detach()")
        if value and self.dtype.kind not in "fc":
            raise DTypeError(
                f"a Variable of {self.dtype} cannot require a gradient: cast it to a floating dtype"
            )
        if not value:
            note_cut("requires_grad = False")
        self._node = Leaf(self.shape, self.dtype, self._backend) if value else None

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by hand and not by a recorded operation."""
        return self._node is None or self._node.rule is None

    @property
    def grad_fn(self) -> Node | None:
        """The node of the operation that made it; None for a leaf."""
        return None if self.is_leaf else self._node

    @property
    def grad(self) -> Variable | None:
        """The gradient that backward passes have accumulated; None before the first, and on
        non-leaves. A ``SparseGradient`` where only ``lookup_rows`` used this variable. Assign a
        gradient of the same shape and dtype, or of float32 beside float16 and bfloat16."""
        node = self._node
        return node.grad if isinstance(node, Leaf) else None

    @grad.setter
    def grad(self, value: Any) -> None:
        node = self._node
        if value is None:
            self.zero_grad()
            return
        if not isinstance(node, Leaf):
            raise GradError("only a leaf that requires a gradient has a .grad")
        tracked = isinstance(value, Variable) and value.requires_grad
        # Else a handle of its own: backward rebinds it.
        sparse = isinstance(value, Variable) and value._is_sparse
        given = value if tracked or sparse else Variable(value)
        fits = given.dtype is self.dtype or (self.dtype in HALF and given.dtype is float32)
        if given.shape != self.shape or not fits:
            raise ShapeError(
                f"Variable.grad must be {self.shape} of {self.dtype}, "
                f"not {given.shape} of {given.dtype}"
            )
        node.grad = given

    def zero_grad(self) -> None:
        """Forget the gradient."""
        if isinstance(self._node, Leaf):
            self._node.grad = None

    def backward(
        self, grad: Any = None, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Add the gradient of this variable to ``.grad`` of every leaf that it depends on.

        grad          gradient of this variable: an array of its shape and dtype, or a number for
                      all elements; needed unless it has one element, a real one (then 1)
        retain_graph  keep the graph for another pass (it is freed on the way otherwise)
        create_graph  record the gradients themselves, for higher orders; keeps the graph

        The gradient of a real number L by a complex ``z = x + i y`` is ``dL/dx + i dL/dy``, as in
        PyTorch: the direction in which L grows.

        Raises GradError when it requires no gradient, GraphFreedError when the graph is gone.
        """
        from fl_autograd.engine import backward

        backward(self, grad, retain_graph or create_graph, create_graph)

    def register_hook(self, hook: Hook) -> Callable[[], None]:
        """Call ``hook(grad)`` when the gradient of this variable is complete in a backward pass,
        before it is used; a Variable that it returns replaces the gradient. Returns a function that
        removes the hook. On a leaf, ``grad`` is what this pass adds."""
        node = self._node
        if node is None:
            raise GradError("a variable that requires no gradient never calls its hooks")
        return node.register_prehook(function_of("register_hook", hook, "hook"))

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Variable], Any]
    ) -> Callable[[], None]:
        """Call ``hook(self)`` whenever a backward pass has added its gradient to ``.grad`` of this
        leaf, which the hook may take and set to None: what holds it no longer frees it during the
        pass. Returns a function that removes the hook. As PyTorch's. GradError for what is no leaf
        that requires a gradient."""
        node = self._node
        if not isinstance(node, Leaf):
            raise GradError("only a leaf that requires a gradient accumulates one")
        call, own = function_of("register_post_accumulate_grad_hook", hook, "hook"), ref(self)

        def accumulated() -> None:
            variable = own()
            if variable is not None:
                call(variable)

        return node.register_accumulated(accumulated)

    # ---- Python ------------------------------------------------------------------------------

    def _more_to_show(self) -> str:
        return "requires_grad=True" if self.requires_grad else ""

    def __hash__(self) -> int:  # type: ignore[override]
        """By identity: as keys of dicts and in sets two variables are one only if they are the same
        object. Equality is elementwise; `in` of a list or tuple uses it."""
        return object.__hash__(self)

    def _copy(self) -> Self:
        # The copy of a leaf is another leaf; that of a result has the same history.
        made = object.__new__(type(self))
        made._adapter, made._backend, made._node = self._adapter, self._backend, self._node
        if self.is_leaf:
            made._node = None
            made.requires_grad = self.requires_grad
        return made

    def __copy__(self) -> Self:
        return self._copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        self._require_leaf("deepcopy", "v.detach(), or copy.copy(v), which shares its history")
        return self._copy()

    def __reduce__(self) -> tuple[Any, ...]:
        self._require_leaf("pickle", "v.detach()")
        return type(self), (self.tensor, self.requires_grad)

    def _require_leaf(self, what: str, way: str) -> None:
        if not self.is_leaf:
            raise GradError(
                f"[{what}] the Variable {self.shape} is the result of a recorded operation, and "
                f"its history is not copied: only leaves can be; take {way}"
            )

    # ---- other libraries ---------------------------------------------------------------------

    def __dlpack__(self, /, **options: Any) -> Any:
        """As ``Tensor.__dlpack__``. Raises GradError where a gradient would be lost."""
        if self.requires_grad:
            raise GradError(
                f"[dlpack] the Variable {self.shape} requires a gradient, which another library "
                f"does not record: export v.detach()"
            )
        return self._tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor().__dlpack_device__()


Variable._operand_class = Variable
