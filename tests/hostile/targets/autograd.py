"""``fl_autograd``, and compiled functions."""

from __future__ import annotations

from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from cases import Target
from targets.making import Ready, ints, target, x


def v() -> Any:
    return ag.Variable(x(3), requires_grad=True)


def square(a: Any) -> Any:
    return ft.sum(a * a)


def differentiated(outputs: Any = None, inputs: Any = None) -> Any:
    a = v()
    return ag.grad(square(a) if outputs is None else outputs, a if inputs is None else inputs)


TARGETS: list[Target] = [
    target("ag.Variable", {"value": x}, value="required_array"),
    target(
        "ag.Variable hooked",
        {"0": Ready(lambda g: g)},
        _0="callable",
        call=lambda f: v().register_hook(f),
    ),
    target(
        "ag.grad", {"outputs": lambda: None}, outputs="module", inputs="module", call=differentiated
    ),
    target("ag.value_and_grad", {"function": Ready(square)}, function="callable", argnums="string"),
    target(
        "ag.jacobian",
        {"function": Ready(square), "inputs": v},
        function="callable",
        inputs="mapping",
        strategy="choice",
    ),
    target(
        "ag.hessian",
        {"function": Ready(square), "inputs": v},
        function="callable",
        inputs="mapping",
    ),
    target(
        "ag.jvp",
        {"function": Ready(square), "primals": lambda: [x(3)], "tangents": lambda: [x(3)]},
        function="callable",
        primals="iterable",
        tangents="iterable",
    ),
    target("ag.vjp", {"0": Ready(square), "1": lambda: x(3)}, _0="callable", _1="required_array"),
    target(
        "ag.check_grads",
        {"function": Ready(square), "inputs": lambda: [ft.ones(3, dtype="float64")]},
        function="callable",
        inputs="iterable",
        order="positive",
    ),
    *(
        target(name, {"0": Ready(square)}, _0="callable", check_every="count", strict="flag")
        for name in ("ft.compile", "nn.compile")
    ),
    target(
        "ft.cond",
        {"0": True, "1": Ready(square), "2": Ready(square), "3": v},
        _0="flag",
        _1="callable",
        _2="callable",
    ),
    target(
        "ft.while_loop",
        {"test": Ready(lambda x: ft.sum(x) < 0), "body": Ready(square), "carry": v},
        test="callable",
        body="callable",
        most="count",
    ),
    target(
        "ft.scan",
        {"body": Ready(lambda c, x: (c, x)), "carry": v, "xs": v},
        body="callable",
        length="count",
        reverse="flag",
    ),
    target(
        "nn.compile of modules", {"0": Ready(square), "1": lambda: nn.Linear(3, 4)}, _1="module"
    ),
    target("ag.checkpoint", {"0": Ready(square), "1": v}, _0="callable"),
    target("ag.autocast", {}, precision="choice", compute="dtype"),
    target("ag.Policy", {}, level="choice"),
    target("ag.as_operation", {"name": "mine"}, name="string"),
    target("ag.to_dot", {"0": lambda: square(v())}, _0="module"),
    target(
        "ag.lookup_rows",
        {"weight": x, "indices": lambda: ints(2)},
        weight="required_array",
        indices="required_array",
    ),
    target(
        "ag.SparseGradient",
        {"indices": lambda: ints(2), "values": x, "shape": (5, 3)},
        indices="required_array",
        values="required_array",
        shape="shape",
    ),
]
UNTRIED: dict[str, str] = {
    "ag.no_grad": "takes no arguments",
    "ag.enable_grad": "takes no arguments",
    "ag.detect_anomaly": "takes no arguments",
    "ag.is_grad_enabled": "takes no arguments",
    "ag.is_autocast_enabled": "takes no arguments",
    "ag.large_graph": "takes no arguments",
    "ag.Tape": "made by tape_for",
    "ag.tape_for": "takes a namespace of operations, which extensions alone have",
}
