"""``autocast`` with what else sees or replaces operations, and in several threads."""

from __future__ import annotations

import threading

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend

pytestmark = pytest.mark.skipif(
    ft.float16 not in ft.current_backend().dtypes, reason="the backend has no float16"
)

F16 = "float16"


def leaf(values=((0.5, 0.25), (0.25, 0.75)), dtype=ft.float32):
    return ag.Variable(ft.asarray(values, dtype), requires_grad=True)


def test_overrides_see_the_operands_that_were_cast_and_the_casts():
    seen = []

    def matmul(inner, x, y):
        seen.append((str(x.dtype), str(y.dtype)))
        return inner.matmul(x, y)

    def cast(inner, x, dtype):
        seen.append(str(dtype))
        return inner.cast(x, dtype)

    x = leaf()
    with ag.autocast("O1"):
        x @ x
        with ft.override(matmul=matmul, cast=cast):
            x @ x
    assert seen == [F16, F16, (F16, F16)]  # under an override nothing is taken from before
    seen.clear()
    with ft.override(matmul=matmul), ag.autocast("O1"):
        x @ x
    assert seen == [(F16, F16)]


def test_recorders_and_other_tapes_see_the_casts():
    class Names(extend.Recorder):
        def __init__(self):
            self.names = []

        def recorded(self, node, result):
            self.names.append(node.name)
            return node

    class Doubling(extend.Tape):
        def matmul(self, x, y):
            return super().matmul(x, y) * 2.0

    x = leaf()
    with ag.autocast("O1"), Names() as names:
        x @ x
    assert names.names == ["cast", "cast", "matmul"]
    with extend.using(Doubling), ag.autocast("O1"):
        y = x @ x
    with ag.autocast("O1"):
        assert (y / 2.0).tolist() == (x @ x).tolist() and y.dtype is ft.float16


def test_a_replaced_rule_is_used():
    x = leaf()
    with ag.autocast("O1"), extend.replace_rule("exp", x=lambda ops, g: g):
        ft.exp(x).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_replacing_the_rule_of_the_casts_themselves():
    x = leaf()
    with extend.replace_rule("cast", x=lambda ops, g, x_dtype: ops.cast(ops.negative(g), x_dtype)):
        with ag.autocast("O1"):
            (x @ x + x @ x).backward(ft.ones((2, 2), ft.float16))
    plain = leaf()
    ((plain @ plain) * 2.0).sum().backward()
    assert x.grad.tolist() == (-plain.grad).tolist()


def test_blocks_belong_to_their_thread():
    x, found = leaf(), []
    with ag.autocast("O1"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert found == [ft.float32]


def test_a_block_may_be_entered_again_and_by_several_threads():
    block, x, found = ag.autocast("O1"), leaf(), []

    def work():
        with block:
            for _ in range(50):
                found.append((x @ x).dtype)

    threads = [threading.Thread(target=work) for _ in range(3)]
    with block, block:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.append((x @ x).dtype)
    assert set(found) == {ft.float16} and len(found) == 151
