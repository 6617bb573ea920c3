"""The public functions, on tensors and variables.

``generated`` has those that only promote their operands. The other files have those with arguments
to parse. ``import fl_tensor as ft`` exports all of them.
"""

from fl_tensor.functions.generated import *  # noqa: F403 - generated, with an explicit __all__
