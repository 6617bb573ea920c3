"""Matrix products and convolutions as machine code of this processor, without a library.

A *micro-kernel* computes a tile of a result in registers; *loop nests* cut problems into tiles and
blocks that fit the caches. Neither depends on shapes: all sizes are run-time parameters, so what
was compiled once serves every problem. Needs llvmlite.

A reader begins with ``tile.py`` and ``microkernel.py``, then ``products/gemm.py``.
"""

from importlib.util import find_spec
from pathlib import Path

from fl_tensor import extras

if find_spec("llvmlite") is None:
    raise extras.missing("generated products and convolutions", "llvmlite", "jit")

#: Of these sources, on which all machine code that is kept in files depends.
FOLDER = Path(__file__).parent
