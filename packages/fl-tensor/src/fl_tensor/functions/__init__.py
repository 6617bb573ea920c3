"""The public functions, on tensors and variables.

``generated`` has those that only promote their operands. The other files have those with arguments
to parse. ``import fl_tensor as ft`` exports all of them.
"""

from typing import TYPE_CHECKING

from fl_tensor.functions.generated import *  # noqa: F403 - generated, with an explicit __all__

if TYPE_CHECKING:  # they need ``Array``: the package loads them when that is there
    from fl_tensor.functions import reducing as reducing
    from fl_tensor.functions import searching as searching
