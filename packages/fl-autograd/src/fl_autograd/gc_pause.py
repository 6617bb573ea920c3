"""Pausing Python's garbage collector for graphs of millions of nodes."""

from __future__ import annotations

from fl_tensor.extend import gc_paused


class large_graph(gc_paused):
    """``with large_graph():`` around recording and differentiating a graph of very many nodes.

    Inside, nothing looks for reference cycles, in all threads. Nodes make none, but every full
    collection walks all of them, which takes more than half of the time of recording a million.
    Cycles that other code leaves behind are collected after the block. Blocks nest.
    """
