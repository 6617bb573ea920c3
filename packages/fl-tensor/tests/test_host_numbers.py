"""Host numbers: they compute as Python's numbers do, and know how."""

from __future__ import annotations

import operator
import random

import pytest

from fl_tensor.graph.host_numbers import HostNumber, Recorder, evaluator, expression_of

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.floordiv,
    operator.mod,
]  # fmt: skip


def test_expressions_give_the_bits_of_python():
    rng = random.Random(0)
    for _ in range(300):
        recorder = Recorder()
        numbers = [rng.randrange(1, 9) if rng.random() < 0.5 else rng.uniform(0.1, 3) for _ in "ab"]
        pool = [recorder.number(x, f"n{i}") for i, x in enumerate(numbers)]
        plain = list(numbers)
        for _ in range(6):
            i, j, function = (
                rng.randrange(len(pool)),
                rng.randrange(len(pool)),
                rng.choice(OPERATORS),
            )
            constant = rng.choice([2, -0.5, 1.5])
            left, right = (pool[i], pool[j]) if rng.random() < 0.5 else (pool[i], constant)
            p_left, p_right = plain[i], plain[j] if right is pool[j] else constant
            if rng.random() < 0.5:
                left, right, p_left, p_right = right, left, p_right, p_left
            try:
                value = function(p_left, p_right)
            except ArithmeticError:
                continue
            if type(value) in (int, float) and abs(value) < 1e6:
                pool.append(function(left, right))
                plain.append(value)
        sources = [x.source for x in pool]
        assert list(evaluator(sources, ["n0", "n1"])(*numbers)) == plain


def test_the_same_expression_for_other_numbers():
    n = Recorder().number(3, "n0")
    bias = 0.1 * (1.0 - 0.999**n) ** 0.5 / (1.0 - 0.9**n)
    (evaluate,) = [evaluator([bias.source], ["n0"])]
    for step in (1, 3, 100):
        assert evaluate(step) == (0.1 * (1.0 - 0.999**step) ** 0.5 / (1.0 - 0.9**step),)


@pytest.mark.parametrize(
    "decide, source",
    [
        (lambda n: n > 2, "(n0 > 2)"),
        (lambda n: n == 3, "(n0 == 3)"),
        (lambda n: bool(n), "bool(n0)"),
        (lambda n: min(n, 5), "(n0 > 5)"),
        (lambda n: int(n), "n0"),
        (lambda n: [10, 20, 30, 40][n], "n0"),
        (lambda n: {n: 1}, "n0"),
        (lambda n: round(n), "n0"),
    ],
)
def test_a_decision_is_a_guard(decide, source):
    recorder = Recorder()
    decide(recorder.number(3, "n0"))
    assert list(recorder.guards) == [source]


def test_parameters_become_expressions():
    n = Recorder().number(3, "n0")
    assert expression_of((1, (n + 1, "text"))) == (1, (("(n0 + 1)",), "text"))
    assert expression_of(2.0) == 2.0
    assert isinstance(n + 1, HostNumber) and type(float(n)) is float
