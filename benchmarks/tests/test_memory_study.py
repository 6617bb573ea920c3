"""The tables of the study of memory managers."""

from __future__ import annotations

from memory_study import MANAGERS, rows_of, tables

import fl_tensor as ft
from cases.lengths import NextToken
from fl_memory import traces


def test_tables_have_a_line_for_each_manager_and_a_column_for_each_trace():
    trace = traces.random_lengths(steps=4, layers=2, width=32)
    trace.append("reserve_hint", nbytes=1000)
    trace.facts["steps"] = "4"
    rows = [*rows_of("lstm", "numpy", trace), *rows_of("lstm", "jit", trace)]
    fits, shares, waste, last = tables(rows).split("\n\n")
    first, _, *lines = fits.splitlines()
    assert first == "| fits (over) | lstm numpy | lstm jit |"
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    assert set(names) == {*MANAGERS, "caching, with hints", "planned off line"}
    assert lines[0] == "| system | 1.000 (1.00) | 1.000 (1.00) |"
    assert shares.splitlines()[2] == "| system | 0.0 / 0.0 | 0.0 / 0.0 |"
    assert all(line.endswith("| +0 | +0 |") for line in waste.splitlines()[2:])  # no large chunks
    assert last.splitlines()[2].startswith("| planned | ")


def test_batches_of_random_length_repeat_and_differ():
    with ft.use("numpy"):
        model = NextToken("lstm", tokens=20, size=8, batch=8, steps=32)
        shapes = [model.batch(step)[0].shape for step in range(8)]
        assert model.batch(3)[0].tolist() == model.batch(3)[0].tolist()
    assert len(set(shapes)) > 4
    assert all(4 <= count <= 8 and 8 <= length <= 32 for count, length in shapes)
