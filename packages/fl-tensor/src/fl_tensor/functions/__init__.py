"""The public functions, on tensors and variables alike.

``generated`` has those that promote their operands and pass them on; the other files those whose
arguments take some reading. ``import fl_tensor as ft`` offers them all.
"""

from fl_tensor.functions.generated import *  # noqa: F403 - generated, with an explicit __all__
