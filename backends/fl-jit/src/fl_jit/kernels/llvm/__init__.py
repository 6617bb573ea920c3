"""GEMMs and convolutions as generated machine code for the host processor.

A *micro-kernel* computes a tile of a result in registers. *Loop nests* partition a problem into
tiles and blocks that fit the caches. Neither depends on shapes: all sizes are run-time parameters,
so one compiled kernel serves every problem.

``tile.py`` and ``microkernel.py`` are the first modules to read, then ``gemm/gemm.py``.
"""

from pathlib import Path

#: Folder of these sources, which determine the key of cached machine code.
FOLDER = Path(__file__).parent
