"""Plots of traces, by matplotlib (install ``fl-memory[plot]``).

Each function takes a trace and its ``traces.timeline`` under a manager. It returns a
``matplotlib.figure.Figure``, and writes it to a file where ``path`` is given: the suffix says in
which format (png, pdf, svg, ...). No window is opened and no setting of matplotlib is changed.

Importing this package does not load matplotlib. A call raises ``MissingError`` where it is not
installed.
"""

from fl_memory.plot.block_map import block_map
from fl_memory.plot.free_chunks import free_chunks
from fl_memory.plot.over_time import over_time
from fl_memory.plot.waste import waste

__all__ = ["block_map", "free_chunks", "over_time", "waste"]
