"""New operations and rules."""

from __future__ import annotations

from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend


def _forward(ops: Any, x: Any, y: Any, power: float = 2.0) -> Any:
    """x to a fixed power, times y."""
    return ops.multiply(ops.power(x, ops.constant(power, x)), y)


def _to_x(ops: Any, g: Any, x: Any, y: Any, power: float) -> Any:
    slope = ops.multiply(ops.constant(power, x), ops.power(x, ops.constant(power - 1.0, x)))
    return ops.multiply(g, ops.multiply(slope, y))


def _to_y(ops: Any, g: Any, x: Any, power: float) -> Any:
    return ops.multiply(g, ops.power(x, ops.constant(power, x)))


scaled_power = extend.defop("scaled_power", _forward, x=_to_x, y=_to_y)


def test_a_new_operation_works_on_tensors_and_variables(leaf: Any, close: Any) -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    plain = scaled_power(x.tensor, y.tensor, power=3.0)
    assert isinstance(plain, ft.Tensor)
    close(plain, [3.0, 32.0])
    z = scaled_power(x, y.tensor, power=3.0)
    assert isinstance(z, ag.Variable)
    z.sum().backward()
    close(x.grad, [9.0, 48.0])
    assert scaled_power.__doc__ == _forward.__doc__


def test_a_new_operation_broadcasts_and_has_higher_orders(normal: Any) -> None:
    x, y = abs(normal(2, 3)).detach() + 1.0, normal(3)
    ag.check_grads(lambda a, b: scaled_power(a, b, 2.5), [x, y], order=2)


def test_operands_of_a_jit_operation_are_promoted_as_it_asks(leaf: Any, close: Any) -> None:
    jit = pytest.importorskip("fl_jit", reason="the deferred backend is not installed")
    whole = jit.operation("tests.damped", lambda ops, x, y: ops.multiply(x, ops.exp(y)), roles="SS")
    damped = extend.defop(
        "damped",
        whole.run,
        x=lambda ops, g, y: ops.multiply(g, ops.exp(y)),
        y=lambda ops, g, out: ops.multiply(g, out),
    )
    integers = ft.asarray([0, 0], "int32")
    close(damped(ft.asarray([2.0, 3.0]), integers), [2.0, 3.0])
    close(damped(integers, integers), [0.0, 0.0])
    x = leaf([2.0, 3.0])
    damped(x, integers).sum().backward()
    close(x.grad, [1.0, 1.0])
    with pytest.raises(ft.ShapeError, match="tests.damped"):
        damped(x, ft.zeros(3))


def test_operands_of_a_new_operation_are_promoted_to_one_dtype(leaf: Any, close: Any) -> None:
    seen = []

    def forward(ops: Any, x: Any, y: Any) -> Any:
        seen.append((x.dtype, y.dtype))
        return ops.multiply(x, y)

    product = extend.defop(
        "product",
        forward,
        x=lambda ops, g, y: ops.multiply(g, y),
        y=lambda ops, g, x: ops.multiply(g, x),
    )
    x, y = leaf([2.0, 3.0], "float32"), leaf([5.0, 7.0], "float64")
    z = product(x, y)
    assert z.dtype is ft.float64
    z.sum().backward()
    assert x.grad.dtype is ft.float32 and y.grad.dtype is ft.float64
    close(x.grad, [5.0, 7.0])
    assert product(x, ft.asarray([1, 2])).dtype is ft.float32
    assert product(y, 0.5).dtype is ft.float64, "a number is what the other operand is"
    assert all(left is right for left, right in seen)


def test_operands_of_no_common_dtype_are_refused_by_name() -> None:
    if ft.uint64 not in ft.current_backend().dtypes:
        pytest.skip("the backend has no uint64")
    vjps: Any = {name: lambda ops, g: g for name in "xy"}
    product = extend.defop("product", lambda ops, x, y: ops.multiply(x, y), **vjps)
    with pytest.raises(ft.DTypeError, match=r"\[product\].*uint64"):
        product(ft.asarray([1], "uint64"), ft.asarray([1], "int64"))


def test_roles_say_which_operands_stay_as_they_are(leaf: Any) -> None:
    def forward(ops: Any, x: Any, y: Any) -> Any:
        return ops.add(ops.cast(x, y.dtype), y)

    vjps: Any = {"x": lambda ops, g, x_dtype: ops.cast(g, x_dtype), "y": lambda ops, g: g}
    mixed = extend.defop("mixed", forward, roles="AA", **vjps)
    x = leaf([1.0], "float32")
    y = mixed(x, ft.asarray([2.0], "float64"))
    assert y.grad_fn.ins[0].name == "leaf", "nothing was cast on the way"
    y.backward()
    assert x.grad.dtype is ft.float32
    whole = extend.defop("whole", lambda ops, x: ops.exp(x), roles="F", x=lambda ops, g, out: g)
    assert whole(ft.asarray([0])).dtype is ft.float32
    for roles in ("A", "AX"):
        with pytest.raises(ag.GradError, match=r"\[bad\] roles 'AX?': expected a letter for each"):
            extend.defop("bad", forward, roles=roles, **vjps)


def test_an_integer_operand_is_named_apart(leaf: Any, close: Any) -> None:
    rows = extend.defop(
        "rows",
        lambda ops, x, at: ops.gather(x, at, 0),
        operands=("x", "at"),
        x=lambda ops, g, x_shape, at: ops.scatter(
            ops.full(x_shape, 0, g.dtype, g.device), at, g, 0, "add"
        ),
    )
    x = leaf([1.0, 2.0, 3.0])
    rows(x, ft.asarray([2, 2])).sum().backward()
    close(x.grad, [0.0, 0.0, 2.0])


def test_a_joint_rule(leaf: Any, close: Any) -> None:
    def both(ops: Any, g: Any, needs: Any, x: Any, y: Any) -> Any:
        assert needs == (True, False)
        return ops.multiply(g, y), None

    product = extend.defop(
        "product", lambda ops, x, y: ops.multiply(x, y), joint=both, differentiable=("x", "y")
    )
    x = leaf([2.0])
    product(x, ft.asarray([5.0], dtype="float64")).sum().backward()
    close(x.grad, [5.0])


def test_a_rule_is_replaced_and_restored(leaf: Any, close: Any) -> None:
    x = leaf([-1.0, 2.0])

    def slope() -> list[float]:
        return ag.grad(ft.relu(x).sum(), x).tolist()

    assert slope() == [0.0, 1.0]
    with extend.replace_rule("relu", x=lambda ops, g: g):  # straight through
        assert slope() == [1.0, 1.0]
    assert slope() == [0.0, 1.0]


def test_a_primitive_without_a_rule_says_so_by_name(
    leaf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fl_autograd import tape

    monkeypatch.delitem(ag.RULES, "expm1")
    tape.install("expm1")
    try:
        x = leaf([1.0])
        with pytest.raises(ag.MissingRuleError, match=r"\[expm1\] has no gradient rule"):
            ft.expm1(x)
        with pytest.raises(NotImplementedError):
            ft.sinh(x)
        assert not ft.expm1(x.detach()).requires_grad
    finally:
        monkeypatch.undo()
        tape.install("expm1")
    assert ft.expm1(leaf([1.0])).requires_grad


def test_a_new_rule_for_an_operation_that_has_none(leaf: Any, close: Any) -> None:
    assert "tan" not in ag.RULES
    extend.register_rule(
        "tan", x=lambda ops, g, out: ops.multiply(g, ops.add(ops.constant(1.0, g), ops.square(out)))
    )
    try:
        x = leaf([0.3, -0.5])
        assert ft.tan(x)._node.rule.name == "tan"
        ag.check_grads(ft.tan, [x], order=2)
        with pytest.raises(ag.GradError, match="use replace_rule"):
            extend.register_rule("tan", x=lambda ops, g: g)
    finally:
        extend.replace_rule("tan", x=lambda ops, g: g)
        del ag.RULES["tan"]
        from fl_autograd import tape

        tape.install("tan")


def test_mistakes_are_reported(leaf: Any) -> None:
    with pytest.raises(ag.GradError, match="no operation 'sofmax'.*softmax"):
        extend.register_rule("sofmax", x=lambda ops, g: g)
    with pytest.raises(ag.GradError, match="differentiates 'z'"):
        extend.replace_rule("exp", z=lambda ops, g: g)
    with pytest.raises(ag.GradError, match="asks for 'yy'"):
        extend.replace_rule("exp", x=lambda ops, g, yy: g)
    assert ft.exp(leaf([0.0])).requires_grad  # the rule from before is still there
    with pytest.raises(ag.GradError, match="no parameter 'q'"):
        extend.defop("bad", lambda ops, x: x, q=lambda ops, g: g)
    with pytest.raises(ag.GradError, match="cannot be called 'base'"):
        extend.defop("bad", lambda ops, x, base: x, x=lambda ops, g: g)
    wrong = extend.defop(
        "wrong",
        lambda ops, x: ops.multiply(x, x),
        x=lambda ops, g: ops.reshape(g, (g.shape[0], 1)),
    )
    with pytest.raises(ValueError, match=r"\[wrong\] its gradient rule returned \(3, 1\)"):
        wrong(leaf([1.0, 2.0, 3.0])).sum().backward()


def test_the_short_way_of_single_numbers_is_the_general_one(leaf: Any, close: Any) -> None:
    x, y = leaf(2.0), leaf(3.0)
    seen = []

    class Note(ft.Wrapper):
        def call(self, operation: Any, /, *arguments: Any, **options: Any) -> Any:
            seen.append(operation.name)
            return operation.run(*arguments, **options)

    product = extend.defop(
        "product",
        lambda ops, x, y: ops.multiply(x, y),
        x=lambda ops, g, y: ops.multiply(g, y),
        y=lambda ops, g, x: ops.multiply(g, x),
    )
    with Note():
        z = product(x, y)
    assert seen == ["multiply"] and z.item() == 6.0
    close(ag.grad(product(x, y) + product(y=y, x=x), [x, y])[0], 6.0)
    with ag.no_grad():
        assert product(x, y).grad_fn is None
    wrong = extend.defop("wrong", lambda ops, x: 2.0 * x, x=lambda ops, g: g)
    with pytest.raises(ft.DTypeError, match=r"\[wrong\].*ops.multiply"):
        wrong(x)
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        product(x)
    whole = extend.defop("whole", lambda ops, x: ops.add(x, x), roles="I", x=lambda ops, g: g)
    with pytest.raises(ft.DTypeError, match=r"\[whole\]"):
        whole(x)
