"""The layers, one family per file."""

from fl_nn.layers.conv import Conv2D as Conv2D
from fl_nn.layers.dropout import Dropout as Dropout
from fl_nn.layers.embedding import Embedding as Embedding
from fl_nn.layers.linear import Linear as Linear
from fl_nn.layers.norm import BatchNorm as BatchNorm
from fl_nn.layers.norm import LayerNorm as LayerNorm
from fl_nn.layers.pool import Pool2D as Pool2D
from fl_nn.layers.simple import LogSoftmax as LogSoftmax
from fl_nn.layers.simple import ReLU as ReLU
from fl_nn.layers.simple import View as View
