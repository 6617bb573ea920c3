"""Kernels that read and link n-grams: the fast paths of `arpa` and `linking`.

They stop at what is not ordinary, and leave that, and all errors, to the array operations there.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

from typing import NamedTuple

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_text.ngram.kernels import next_state, slot_of
from fl_text.ngram.tables import MULTIPLIER, NGramTables

TAB, NEWLINE, MINUS, POINT, ZERO, NINE, SMALL_E = 9, 10, 45, 46, 48, 57, 101
MIX_1 = 0x9E3779B97F4A7C15 - (1 << 64)
MIX_2 = 0xBF58476D1CE4E5B9 - (1 << 64)


class WordTable(NamedTuple):
    """The bytes of a file, and a hash table of the words of its vocabulary."""

    data: Array[ft.uint8]
    key: Array[ft.int64]
    word: Array[ft.int32]
    buckets: int


class Lines(NamedTuple):
    """What is read: `state` has how many n-grams there are, the offset of the next line, and where
    the last field that a kernel looked at ends, -1 for one that is not ordinary."""

    words: Array[ft.int32]
    log_prob: Array[ft.float32]
    backoff: Array[ft.float32]
    power: Array[ft.float64]
    state: Array[ft.int64]


@ft.kernel
def mix(hashed: int, chunk: int) -> int:
    """One step of `Text.hashes`."""
    hashed = (hashed ^ chunk) * MIX_1
    hashed ^= (hashed >> 29) & 0x7FFFFFFFF
    hashed *= MIX_2
    return hashed ^ ((hashed >> 32) & 0xFFFFFFFF)


@ft.kernel
def word_at(v: WordTable, state: Array[ft.int64], start: int) -> int:
    """The index of the word at an offset, -1 if it is not in the vocabulary."""
    hashed = 0
    chunk = 0
    shift = 0
    at = start
    while v.data[at] > 32:
        chunk |= int(v.data[at]) << shift
        shift += 8
        at += 1
        if shift == 64:
            hashed = mix(hashed, chunk)
            chunk = 0
            shift = 0
    if shift > 0:
        hashed = mix(hashed, chunk)
    state[2] = at
    slot = slot_of(v.key, v.buckets, (hashed >> 1) & 0x7FFFFFFFFFFFFFFF)
    if slot < 0 or at == start:
        return -1
    return v.word[slot]


@ft.kernel
def number_at(v: WordTable, state: Array[ft.int64], power: Array[ft.float64], start: int) -> float:
    """The value of a plain decimal: sign, at most 15 digits, a point among them, and perhaps a
    negative exponent of at most two digits."""
    state[2] = -1
    at = start
    negative = v.data[at] == MINUS
    if negative:
        at += 1
    value = 0
    digits = 0
    places = 0
    points = 0
    c = int(v.data[at])
    while c > 32 and c != SMALL_E:
        if c == POINT:
            points += 1
        elif ZERO <= c and c <= NINE:
            value = value * 10 + c - ZERO
            digits += 1
            places += points
        else:
            return 0.0
        at += 1
        c = int(v.data[at])
    if digits == 0 or digits > 15 or points > 1:
        return 0.0
    if c == SMALL_E:
        if v.data[at + 1] != MINUS:
            return 0.0
        at += 2
        first = at
        exponent = 0
        while v.data[at] > 32:
            c = int(v.data[at])
            if c < ZERO or c > NINE or at > first + 1:
                return 0.0
            exponent = exponent * 10 + c - ZERO
            at += 1
        if at == first:
            return 0.0
        places += exponent
    state[2] = at
    result = float(value) / power[places]
    if negative:
        return -result
    return result


@ft.kernel
def read_lines(v: WordTable, lines: Lines, n: int, highest: bool, stop: int) -> None:
    """Reads n-grams of n words up to `stop`, or to the first line that is not an ordinary one: a
    log probability, a tab, words between single blanks, and, but for the highest order, perhaps a
    tab and a backoff."""
    row = lines.state[0]
    line = lines.state[1]
    while line < stop:
        value = number_at(v, lines.state, lines.power, line)
        at = lines.state[2]
        if at < 0 or v.data[at] != TAB or value > 0.0:
            break
        known = True
        for k in range(n):
            word = word_at(v, lines.state, at + 1)
            at = lines.state[2]
            if word < 0 or (k < n - 1 and v.data[at] != 32):
                known = False
                break
            lines.words[row * n + k] = word
        if not known:
            break
        backoff = 0.0
        if v.data[at] == TAB and not highest:
            backoff = number_at(v, lines.state, lines.power, at + 1)
            at = lines.state[2]
            if at < 0:
                break
        if v.data[at] != NEWLINE:
            break
        lines.log_prob[row] = value
        lines.backoff[row] = backoff
        row += 1
        line = at + 1
    lines.state[0] = row
    lines.state[1] = line


@ft.kernel
def link_order(
    g: NGramTables,
    words: Array[ft.int32],
    log_probs: Array[ft.float32],
    backoffs: Array[ft.float32],
    extended: Array[ft.uint8],
    n: int,
    first: int,
    highest: bool,
) -> bool:
    """Puts the n-grams of one order into the tables, in which those of lower orders are; states
    are numbered from `first`. False where one comes twice, a context is missing, or the table has
    no room."""
    for row in range(len(log_probs)):
        state = int(words[row * n]) + 1
        for k in range(1, n - 1):
            slot = slot_of(g.key, g.buckets, (state << 32) | words[row * n + k])
            if slot < 0:
                return False
            state = int(g.next[slot])
        word = int(words[row * n + n - 1])
        extended[state] = 1
        after = next_state(g, g.suffix[state], word)
        if not highest:
            g.suffix[first + row] = after
            g.backoff[first + row] = backoffs[row]
            after = first + row
        key = (state << 32) | word
        slot = ((((key ^ (key >> 32)) * MULTIPLIER) >> 32 & 0xFFFFFFFF) * g.buckets) >> 32
        while g.key[slot] >= 0:
            if g.key[slot] == key:
                return False
            slot += 1
        if slot >= len(g.key) - 1:
            return False
        g.key[slot] = key
        g.log_prob[slot] = log_probs[row]
        g.next[slot] = after
    return True
