"""CTC in numbers of unlimited range: a float64 and a whole number of factors 2^256.

A cell is ``m * 2^(256 e)`` with m in [2^-128, 2^128), or m = 0. Sums and products need no logarithm
and no exponential, and nothing underflows.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import NamedTuple

import fl_tensor as ft
from fl_speech.criteria.kernel_rows import Values, load_row
from fl_tensor.kernels import Array

BIG = 2.0**256
SMALL = 2.0**-256
UPPER = 2.0**128
LOWER = 2.0**-128
LOG_BIG = 256.0 * math.log(2.0)
#: The exponent of 0: below all others.
NONE = -(2**40)


class WideWork(NamedTuple):
    """Memory for one sample: T frames, S = 2 U + 1 states, N classes."""

    row: Array[ft.float64]  # (N,)
    alpha: Array[ft.float64]  # (T, S)
    alpha_power: Array[ft.int64]
    beta: Array[ft.float64]  # (S + 2,)
    beta_power: Array[ft.int64]
    here: Array[ft.float64]  # (S,) the probability of each state in a frame
    here_power: Array[ft.int64]


@ft.kernel
def moved(m: float, powers: int) -> float:
    """``m`` times 2^256 to the power of at most 0, which is 0 below -1."""
    if powers == 0:
        return m
    if powers == -1:
        return m * SMALL
    return 0.0


@ft.kernel
def ctc_wide(
    scores: Values,
    shift: Array[ft.float64],
    grads: Values,
    with_grads: bool,
    at: int,
    T: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    occupied: Array[ft.float64],
    w: WideWork,
) -> float:
    """The loss of one sample; infinity if its target has no path. ``grads`` hold the softmax."""
    S = 2 * U + 1
    for t in range(T):
        probabilities(scores, shift[t], at + t * classes, classes, blank, targets, target, U, w)
        now = t * S
        before = now - S
        for s in range(S):
            m = 1.0 if s < 2 else 0.0
            e = 0
            if t > 0:
                e = w.alpha_power[before + s]
                if s > 0:
                    e = max(e, w.alpha_power[before + s - 1])
                skips = may_skip(targets, target, s)
                if skips:
                    e = max(e, w.alpha_power[before + s - 2])
                m = moved(w.alpha[before + s], w.alpha_power[before + s] - e)
                if s > 0:
                    m += moved(w.alpha[before + s - 1], w.alpha_power[before + s - 1] - e)
                if skips:
                    m += moved(w.alpha[before + s - 2], w.alpha_power[before + s - 2] - e)
            put(w.alpha, w.alpha_power, now + s, m * w.here[s], e + w.here_power[s])

    end = T * S - 1
    top = w.alpha_power[end]
    if U > 0:
        top = max(top, w.alpha_power[end - 1])
    total = moved(w.alpha[end], w.alpha_power[end] - top)
    if U > 0:
        total += moved(w.alpha[end - 1], w.alpha_power[end - 1] - top)
    if total == 0.0:
        return math.inf
    if with_grads:
        gradients(
            scores, shift, grads, at, T, classes, blank, targets, target, U, occupied, w, total, top
        )
    return -(math.log(total) + top * LOG_BIG)


@ft.kernel
def gradients(
    scores: Values,
    shift: Array[ft.float64],
    grads: Values,
    at: int,
    T: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    occupied: Array[ft.float64],
    w: WideWork,
    total: float,
    top: int,
) -> None:
    """Subtracts from the softmax in ``grads`` the share of each class in all paths."""
    S = 2 * U + 1
    for s in range(S):
        ends = s >= S - 2
        w.beta[s] = 1.0 if ends else 0.0
        w.beta_power[s] = 0 if ends else NONE
    for t in range(T - 1, -1, -1):
        o = at + t * classes
        now = t * S
        for s in range(S):
            n = targets[target + (s >> 1)] if s & 1 else blank
            power = w.alpha_power[now + s] + w.beta_power[s] - top
            share = w.alpha[now + s] * w.beta[s] / total
            if power == 1:
                occupied[n] += share * BIG
            else:
                occupied[n] += moved(share, power)
        for s in range(S):
            n = targets[target + (s >> 1)] if s & 1 else blank
            if grads.is_double:
                grads.double[o + n] -= occupied[n]
            else:
                grads.single[o + n] -= occupied[n]
            occupied[n] = 0.0
        if t > 0:
            probabilities(scores, shift[t], o, classes, blank, targets, target, U, w)
            for s in range(S):
                put(
                    w.beta,
                    w.beta_power,
                    s,
                    w.beta[s] * w.here[s],
                    w.beta_power[s] + w.here_power[s],
                )
            for s in range(S):
                e = w.beta_power[s]
                skips = s + 2 < S and may_skip(targets, target, s + 2)
                if s + 1 < S:
                    e = max(e, w.beta_power[s + 1])
                if skips:
                    e = max(e, w.beta_power[s + 2])
                m = moved(w.beta[s], w.beta_power[s] - e)
                if s + 1 < S:
                    m += moved(w.beta[s + 1], w.beta_power[s + 1] - e)
                if skips:
                    m += moved(w.beta[s + 2], w.beta_power[s + 2] - e)
                put(w.beta, w.beta_power, s, m, e)


@ft.kernel
def may_skip(targets: Array[ft.int64], target: int, s: int) -> bool:
    """Whether state ``s`` may follow state ``s - 2``: a label behind another label."""
    return s & 1 == 1 and s > 2 and targets[target + (s >> 1)] != targets[target + (s >> 1) - 1]


@ft.kernel
def probabilities(
    scores: Values,
    shift: float,
    o: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    w: WideWork,
) -> None:
    """The probability of each state in the frame at ``o``."""
    load_row(scores, o, classes, w.row)
    for s in range(2 * U + 1):
        n = targets[target + (s >> 1)] if s & 1 else blank
        logarithm = w.row[n] - shift
        if logarithm == -math.inf:
            w.here[s] = 0.0
            w.here_power[s] = NONE
        else:
            power = int(logarithm / LOG_BIG)
            w.here[s] = math.exp(logarithm - power * LOG_BIG)
            w.here_power[s] = power


@ft.kernel
def put(m: Array[ft.float64], powers: Array[ft.int64], at: int, value: float, power: int) -> None:
    """Stores a cell in its normal form."""
    if value == 0.0:
        power = NONE
    elif value < LOWER:
        value *= BIG
        power -= 1
    elif value >= UPPER:
        value *= SMALL
        power += 1
    m[at] = value
    powers[at] = power
