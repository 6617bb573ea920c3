"""The public functions, on tensors and variables alike.

``generated`` has those that promote their operands and pass them on; the other files those whose
arguments take some reading. ``import fl_tensor as ft`` offers them all.
"""

from typing import TYPE_CHECKING

from fl_tensor.functions.generated import *  # noqa: F403 - generated, with an explicit __all__

if TYPE_CHECKING:  # they need ``Array``: the package loads them when that is there
    from fl_tensor.functions import reducing as reducing
    from fl_tensor.functions import searching as searching
