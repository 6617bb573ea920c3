"""Plots of runs and models, by matplotlib (install ``fl-nn[plot]``).

Each function returns a ``matplotlib.figure.Figure``, and writes it to a file where ``path`` is
given: the suffix says in which format (png, pdf, svg, ...). Arrays are tensors, variables, nested
lists, or anything else that ``ft.asarray`` reads. No window is opened and no setting of matplotlib
is changed: figures are objects of their own, without ``pyplot``.

Importing this package does not load matplotlib. A call raises ``fl_tensor.MissingError`` where it
is not installed.
"""

from fl_nn.plot.attention import attention
from fl_nn.plot.bars import bars
from fl_nn.plot.confusion import confusion
from fl_nn.plot.curves import curves
from fl_nn.plot.images import images
from fl_nn.plot.lr_sweep import lr_sweep
from fl_nn.plot.reliability import reliability

__all__ = ["attention", "bars", "confusion", "curves", "images", "lr_sweep", "reliability"]
