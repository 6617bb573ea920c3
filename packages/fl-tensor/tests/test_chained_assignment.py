"""``x[0][1] = 5`` assigns to a value that nothing holds: a warning says so."""

from __future__ import annotations

import operator
import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import Any

import pytest

import fl_tensor as ft

ag = pytest.importorskip("fl_autograd", reason="gradients are those of fl-autograd")

MAKE: dict[str, Any] = {
    "tensor": lambda: ft.zeros((2, 3)),
    "variable": lambda: ag.Variable(ft.zeros((2, 3))),
}

HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()

if sys.implementation.name != "cpython" or sys.version_info >= (3, 14) or not HAS_LOCK:
    pytest.skip("reference counts do not tell temporaries here", allow_module_level=True)


@pytest.fixture(params=MAKE)
def x(request: pytest.FixtureRequest) -> Any:
    return MAKE[request.param]()


@pytest.mark.defect("N12")
def test_assigning_to_a_temporary_warns(x: Any) -> None:
    for _ in range(20):  # also once the interpreter has specialised the statement
        with pytest.warns(ft.ChainedAssignmentWarning, match=r"x\[i, j\] = v") as found:
            x[0][1] = 55
        assert found[0].filename == __file__
    with pytest.warns(ft.ChainedAssignmentWarning):
        x[0][1] += 1
    with pytest.warns(ft.ChainedAssignmentWarning):
        x.reshape(6)[0] = 1
    with pytest.warns(ft.ChainedAssignmentWarning):
        (x + 1)[0] = 1
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


HELD: list[Any] = []


def held() -> Any:
    return HELD[0]


def test_assigning_to_what_somebody_holds_does_not_warn(x: Any) -> None:
    HELD[:] = [x]
    a, numbers = SimpleNamespace(b=x.copy(), c=SimpleNamespace(d=x.copy())), {"x": x.copy()}

    def local(given: Any) -> None:
        given[0] = 1

    def closed() -> None:
        x[0] = 2

    for _ in range(20):
        x[0, 1] = 55
        x[0] += 1
        a.b[0] = 3
        a.c.d[1:, 0] = 3
        numbers["x"][0] = 3
        HELD[0][0] = 3
        held()[0] = 3
        local(x[0])
        closed()
        operator.setitem(x, 0, 3)
        x.__setitem__(0, 3)
        for row in (x[0], x[1]):
            row[0] = 3
        [row.__setitem__(0, 3) for row in (x[0], x[1])]
        (y := x[0])[1] = 3
    assert a.b[0].tolist() == [3, 3, 3]
    assert y[1].item() == 3


PROGRAM = """
    import sys, warnings
    {interpreter}
    import fl_tensor as ft

    warnings.simplefilter("error")
    x = ft.zeros((2, 3))
    x[0] = 1
    try:
        x[0][1] = 55
    except ft.ChainedAssignmentWarning:
        print("warned")
    else:
        print("silent")
"""


@pytest.mark.parametrize(
    "interpreter",
    ["sys._is_gil_enabled = lambda: False", "sys.getrefcount = lambda x: 2"],
    ids=["without the lock", "constant counts"],
)
def test_where_counts_say_nothing_nothing_is_said(interpreter: str) -> None:
    code = textwrap.dedent(PROGRAM).format(interpreter=interpreter)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["silent"], done.stderr
