"""profile, check, count: what they report, alone and on top of one another."""

from __future__ import annotations

import contextvars
import json
import math
import threading

import pytest

import fl_memory
import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend


def matrix(*shape):
    return ft.arange(math.prod(shape)).astype("float32").reshape(shape)


# ---- count ------------------------------------------------------------------------------------


def test_count_by_name_and_in_total():
    x = ft.ones((2, 3))
    with ft.count() as counts:
        x + x
        x + x
        x * x
    assert (counts["add"], counts["multiply"], counts["exp"]) == (2, 1, 0)
    assert counts.total == 3
    assert counts.elements == 18
    assert counts.bytes == 3 * 3 * 6 * 4
    assert counts.flops == 0
    x - x
    assert counts.total == 3, "outside the block nothing is counted"


def test_count_charges_a_number_with_its_own_bytes():
    x = ft.ones(1000)
    with ft.count() as counts:
        x * 2.0
    assert (counts["constant"] + counts["scalar"], counts["multiply"]) == (1, 1)
    assert counts.bytes == 4 + (4000 + 4 + 4000)


def test_count_of_compositions_is_apart():
    with ft.count() as counts:
        ft.softmax(ft.ones(3))
    assert counts["softmax"] == counts["exp"] == 1
    assert counts.tallies["softmax"].composed == 1
    assert counts.tallies["softmax"].elements == 0
    assert counts.total == sum(t.calls for n, t in counts.tallies.items() if n != "softmax")


def test_count_flops_by_the_stated_formulas():
    x, y = ft.ones((5, 2, 3)), ft.ones((3, 4))
    image, w = ft.ones((2, 4, 8, 8)), ft.ones((6, 2, 3, 3))
    with ft.count() as counts:
        x @ y
    assert counts.flops == 2 * 5 * 2 * 3 * 4
    with ft.count() as counts:
        ft.conv(image, w, padding=1, groups=2)
    assert counts.flops == 2 * (2 * 6 * 8 * 8) * 2 * 3 * 3
    with ft.count() as counts:
        ft.linear(ft.ones((5, 3)), ft.ones((4, 3)))
    assert counts.flops == 2 * 5 * 3 * 4


def test_count_prints_a_table():
    with ft.count() as counts:
        ft.softmax(ft.ones((10, 300)))
    lines = str(counts).splitlines()
    assert lines[0].split() == ["operation", "calls", "elements", "bytes", "flops"]
    exp = next(line.split() for line in lines if line.startswith("exp"))
    assert exp == ["exp", "1", "3,000", "24,000", "0"]
    assert any(line.startswith("(softmax)") for line in lines)


def test_count_in_threads_loses_nothing():
    x = ft.ones(2)

    def work():
        for _ in range(200):
            x + x

    with ft.count() as counts:
        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts["add"] == 800


# ---- check ------------------------------------------------------------------------------------


def test_check_names_the_operation_the_operands_and_the_line():
    x = ft.asarray([4.0, -1.0])
    with pytest.raises(FloatingPointError) as caught, ft.check():
        ft.log(x)  # the line of the user
    message = str(caught.value)
    assert isinstance(caught.value, ft.NonFiniteError)
    assert "[log] NaN in 1 of 2 elements of the result float32(2,) on cpu" in message
    assert "x float32(2,) on cpu: no NaN" in message
    assert "test_wrappers.py" in message
    assert "ft.log(x)  # the line of the user" in message


OPERATORS = {
    "x + y": "add",
    "x - y": "subtract",
    "x * y": "multiply",
    "x / y": "divide",
    "x // y": "floor_divide",
    "x % y": "remainder",
    "x ** y": "power",
    "x & y": "bitwise_and",
    "x | y": "bitwise_or",
    "x ^ y": "bitwise_xor",
    "x << y": "bitwise_left_shift",
    "x >> y": "bitwise_right_shift",
    "x == y": "equal",
    "x != y": "not_equal",
    "x < y": "less",
    "x <= y": "less_equal",
    "x > y": "greater",
    "x >= y": "greater_equal",
    "x @ y": "matmul",
    "-x": "negative",
    "abs(x)": "absolute",
    "~x": "bitwise_invert",
    "x + 1": "add",
    "1 - x": "subtract",
    "x[0]": "slice",
}


@pytest.mark.parametrize("text", OPERATORS)
def test_check_names_the_users_line_of_every_operator(text, tmp_path):
    class Lies(NumpyBackend):
        CONTRACT = (1, 0)

    op, path = OPERATORS[text], tmp_path / "theirs.py"
    setattr(Lies, op, lambda self, *arguments: NumpyBackend().full((9,), 1, ft.bool, ft.CPU))
    path.write_text(f"def run(x, y):\n    return {text}\n")
    scope = {"__name__": "theirs"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    x = ft.asarray([[3, 2], [1, 1]], backend=Lies())
    with ft.check(), pytest.raises(ft.FlError, match="the rule says") as caught:
        scope["run"](x, x)
    assert str(caught.value).splitlines()[-1].strip() == f"at {path}:2: return {text}"


def test_check_says_what_the_operands_had_already():
    x, y = ft.asarray([1.0, math.nan]), ft.asarray([2.0, math.inf])
    with pytest.raises(ft.NonFiniteError, match=r"x .*: has NaN already\n.*y .*: no NaN, has inf"):
        with ft.check():
            x * y


def test_check_finds_the_piece_inside_a_composition():
    x = ft.full(3, -math.inf)
    with pytest.raises(ft.NonFiniteError, match=r"(?s)\[subtract\] NaN.*inside log_softmax"):
        with ft.check():
            ft.log_softmax(x)


def test_check_reports_infinities_that_are_made_here_and_no_others():
    x = ft.asarray([1.0, 1000.0])
    with pytest.raises(ft.NonFiniteError, match=r"\[exp\] infinity in 1 of 2"), ft.check():
        ft.exp(x)
    with pytest.raises(ft.NonFiniteError, match=r"\[divide\] infinity"), ft.check():
        1 / (x - 1)
    with ft.check():
        masked = ft.where(x > 2, -math.inf, x)  # asked for, and passed on
        assert ft.softmax(masked).tolist() == [1, 0]
        ft.max_pool(ft.ones((1, 1, 4, 4)), 3, padding=1)


def test_check_is_configurable():
    x = ft.asarray([-1.0, 0.0])
    with ft.check(nan=False, inf=False):
        ft.log(x)
    with pytest.raises(ft.NonFiniteError, match="infinity"), ft.check(nan=False):
        ft.log(x)
    with ft.check(nan=False, inf=False):
        assert ft.count_nonzero(ft.isnan(ft.log(x))).item() == 1


def test_check_of_large_finite_values_whose_sum_overflows():
    with ft.check():
        assert (ft.full(4, 3e38) * 1).tolist() == pytest.approx([3e38] * 4)


class Faulty(NumpyBackend):
    CONTRACT = (1, 0)
    name = "faulty"

    def cumulative_sum(self, x, axis=-1):
        return self.cast(super().cumulative_sum(x, axis), x.dtype)

    def negative(self, x):
        x.array *= -1
        return x


def test_check_finds_a_backend_that_breaks_the_rule():
    x = ft.asarray([1, 2], "int32", backend=Faulty())
    with pytest.raises(ft.BackendError, match=r"\[cumulative_sum\] backend 'faulty': gave int32"):
        with ft.check():
            ft.cumulative_sum(x)
    with ft.check(contract=False):
        ft.cumulative_sum(x)


def test_check_finds_a_backend_that_changes_an_operand():
    x = ft.asarray([1, 2], "int32", backend=Faulty())
    with pytest.raises(ft.BackendError, match=r"\[negative\].*operand was changed.*x int32"):
        with ft.check():
            ft.negative(x)
    with ft.check(operands=False):
        ft.negative(x)


def test_check_finds_an_operation_that_is_asked_for_a_dtype_it_does_not_take():
    x = ft.asarray([1, 2], "int32")
    with ft.override(negative=lambda inner, v: inner.exp(v)), ft.check():
        ft.exp(x)  # which the front end casts
    with ft.check(), ft.override(negative=lambda inner, v: inner.exp(v)):
        with pytest.raises(ft.BackendError, match="front end: x is int32: expected a floating or"):
            ft.negative(x)


def test_check_finds_an_override_that_gives_another_shape():
    x = ft.ones((2, 3))
    with ft.override(exp=lambda inner, v: inner.sum(v, (0,))), ft.check():
        with pytest.raises(ft.BackendError, match=r"\[exp\].*float32\(3,\).*rule says"):
            ft.exp(x)


def test_check_leaves_shapes_without_data_alone():
    with ft.use("null"), ft.check():
        assert ft.log(ft.ones(3)).shape == (3,)


def test_check_lets_assignments_be():
    x = ft.zeros(3)
    with ft.check():
        x[1] = 5
        x[[0, 2]] = 1
    assert x.tolist() == [1, 5, 1]


# ---- profile ----------------------------------------------------------------------------------


def events_of(path):
    found = json.loads(path.read_text())["traceEvents"]
    return found, {e["name"]: e for e in found if e["ph"] == "X"}


def test_profile_writes_complete_events(tmp_path):
    x = ft.ones((2, 3))
    with ft.profile(tmp_path / "trace.json") as p:
        with p.range("forward"):
            ft.softmax(x @ x.T)
    every, spans = events_of(tmp_path / "trace.json")
    assert all({"ph", "name", "pid"} <= set(e) for e in every)
    matmul = spans["matmul"]
    assert matmul["args"] == {"operands": ["float32(2, 3)", "float32(3, 2)"], "backend": "numpy"}
    assert matmul["dur"] > 0
    assert spans["softmax"]["cat"] == "composition"
    assert spans["forward"]["cat"] == "range"
    for outer, inner in (("forward", "softmax"), ("softmax", "exp"), ("forward", "matmul")):
        a, b = spans[outer], spans[inner]
        assert a["ts"] <= b["ts"]
        assert b["ts"] + b["dur"] <= a["ts"] + a["dur"]
        assert a["tid"] == b["tid"]


def test_profile_is_valid_json_after_an_exception(tmp_path):
    x = ft.ones((2, 3))
    with pytest.raises(ft.ShapeError), ft.profile(tmp_path / "trace.json"):
        with ft.profile.range("wrong"):
            x @ x.T
            ft.ops_for(x.backend).matmul(x.adapter, x.adapter)
    _, spans = events_of(tmp_path / "trace.json")
    assert spans["matmul"]["args"]["error"] == spans["wrong"]["args"]["error"] == "ShapeError"


def test_profile_follows_the_bytes_in_use(tmp_path):
    path = tmp_path / "trace.json"
    with fl_memory.use(fl_memory.get("system")):
        before = fl_memory.current().stats().live_bytes
        with ft.profile(path):
            x = ft.ones((64, 64))
            y = x + x
            del x
            with fl_memory.use("caching"):
                z = y + y
    every, _ = events_of(path)
    track = [e["args"]["bytes"] for e in every if e["name"] == "memory in use (system)"]
    assert track[0] == before
    assert max(track) == before + 2 * 64 * 64 * 4
    assert track[-1] == before + 64 * 64 * 4
    assert any(e["name"] == "memory in use (caching)" for e in every)
    count = len(every)
    z + z
    assert len(events_of(path)[0]) == count


def test_profile_numbers_threads(tmp_path):
    x = ft.ones(2)
    with ft.profile(tmp_path / "trace.json"):
        x + x
        thread = threading.Thread(target=contextvars.copy_context().run, args=(lambda: x * x,))
        thread.start()
        thread.join()
    _, spans = events_of(tmp_path / "trace.json")
    assert (spans["add"]["tid"], spans["multiply"]["tid"]) == (1, 2)


def test_profile_summary():
    x = ft.ones((50, 50))
    with ft.profile() as p:
        ft.softmax(x)
        ft.softmax(x)
    rows = {row.operation: row for row in p.summary()}
    assert rows["softmax"].calls == rows["exp"].calls == 2
    assert rows["softmax"].self_ms < rows["softmax"].total_ms
    assert rows["exp"].self_ms == rows["exp"].total_ms
    inside = sum(row.total_ms for name, row in rows.items() if name != "softmax")
    assert rows["softmax"].total_ms - rows["softmax"].self_ms == pytest.approx(inside)
    assert sum(row.share for row in rows.values()) == pytest.approx(100)
    text = str(p.summary()).splitlines()
    assert text[0].split()[0] == "operation"
    assert len(text) == 2 + len(rows)


def test_profile_waits_for_the_device_when_asked():
    waited = []

    class Asynchronous(NumpyBackend):
        CONTRACT = (1, 0)
        name = "asynchronous"

        def synchronize(self, device):
            waited.append(device)

    x = ft.asarray([1.0, 2.0], backend=Asynchronous())
    with ft.profile():
        x + x
    assert waited == []
    with ft.profile(synchronize=True):
        x + x
    assert waited == [x.device]


def test_profile_refuses_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ft.ArgumentError, match="folder does not exist"):
        with ft.profile(tmp_path / "none" / "trace.json"):
            raise AssertionError("the block must not begin")


def test_a_range_without_a_profile_does_nothing():
    with ft.profile.range("nothing"):
        assert (ft.ones(1) + 1).item() == 2


# ---- together ---------------------------------------------------------------------------------


def test_all_of_them_see_the_same_calls():
    x, order = matrix(3, 4), []

    def exp(inner, v):
        order.append("override")
        return inner.exp(v)

    with ft.profile() as p, ft.check(), ft.override(exp=exp), ft.count() as counts:
        with ft.trace() as graph:
            y = ft.softmax(x)
    plain = ft.softmax(x)
    assert y.tolist() == plain.tolist()
    assert order == ["override"]
    profiled = {row.operation: row.calls for row in p.summary()}
    assert profiled == {name: counts[name] for name in counts.tallies}
    recorded = sorted(node.op for node in graph.nodes)
    assert recorded == sorted(n for n, t in counts.tallies.items() if t.calls > t.composed)


def test_a_wrapped_backend_goes_with_its_tensors():
    counts, doubled = ft.count(), ft.override(add=lambda inner, x, y: inner.multiply(x, y))
    backend = ft.wrapped("numpy", counts, doubled)
    x = ft.asarray([3.0], backend=backend)
    assert (x + x).tolist() == [9.0]
    assert (counts["from_host"], counts["add"], counts["to_host"]) == (1, 1, 1)
    y = ft.asarray([3.0])
    assert (y + y).tolist() == [6.0]
    assert counts["add"] == 1
    with pytest.raises(ft.BackendError):
        x + y


def test_wrappers_above_a_wrapped_backend():
    backend = ft.wrapped("numpy", inner := ft.count())
    x = ft.asarray([3.0], backend=backend)
    with ft.count() as outer:
        x + x
    assert outer["add"] == inner["add"] == 1
