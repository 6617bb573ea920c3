"""Kernels that select: the k-th largest number, the best tokens of a frame."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_text.decoder.records import Settings


@ft.kernel
def kth_largest(x: Array[ft.float64], n: int, k: int) -> float:
    """The k-th largest (from 1) of ``x[:n]``, which is reordered. Hoare, 1961."""
    low = 0
    high = n - 1
    want = k - 1
    while low < high:
        a = x[low]
        b = x[(low + high) >> 1]
        c = x[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i = low
        j = high
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                swapped = x[i]
                x[i] = x[j]
                x[j] = swapped
                i += 1
                j -= 1
        if want <= j:
            high = j
        elif want >= i:
            low = i
        else:
            return x[want]
    return x[want]


@ft.kernel
def choose_tokens(
    o: Settings,
    emissions: Array[ft.float32],
    at: int,
    n: int,
    chosen: Array[ft.int32],
    work: Array[ft.float64],
) -> int:
    """Puts the ``beam_size_token`` best tokens of a frame into ``chosen``; how many there are."""
    if n <= o.beam_size_token:
        for k in range(n):
            chosen[k] = k
        return n
    for k in range(n):
        work[k] = emissions[at + k]
    limit = kth_largest(work, n, o.beam_size_token)
    count = 0
    for k in range(n):
        if emissions[at + k] > limit:
            chosen[count] = k
            count += 1
    for k in range(n):
        if count < o.beam_size_token and emissions[at + k] == limit:
            chosen[count] = k
            count += 1
    return count


@ft.kernel
def mark_tokens(
    o: Settings, n: int, chosen: Array[ft.int32], count: int, allowed: Array[ft.int32]
) -> None:
    """``allowed[token]`` is 1 for the chosen tokens, 0 for the others."""
    for k in range(n):
        allowed[k] = 0
    for k in range(count):
        allowed[chosen[k]] = 1


@ft.kernel
def sort_tokens(emissions: Array[ft.float32], at: int, count: int, chosen: Array[ft.int32]) -> None:
    """Sorts tokens by falling emission. Shell, 1959, with the gaps of Knuth, 1973."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, count):
            token = chosen[k]
            value = emissions[at + token]
            j = k
            while j >= gap and emissions[at + chosen[j - gap]] < value:
                chosen[j] = chosen[j - gap]
                j -= gap
            chosen[j] = token
        gap = gap // 3


@ft.kernel
def highest(emissions: Array[ft.float32], at: int, n: int) -> float:
    """The largest emission of a frame."""
    largest = emissions[at]
    for k in range(1, n):
        largest = max(largest, emissions[at + k])
    return largest
