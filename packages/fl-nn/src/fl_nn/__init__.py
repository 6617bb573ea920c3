"""Modules, losses, optimizers, meters, checkpoints and a training loop."""

from __future__ import annotations

from fl_nn import init as init
from fl_nn._version import __version__ as __version__
from fl_nn.checkpoint import Checkpoint as Checkpoint
from fl_nn.checkpoint import load_checkpoint as load_checkpoint
from fl_nn.checkpoint import load_weights as load_weights
from fl_nn.checkpoint import save_checkpoint as save_checkpoint
from fl_nn.checkpoint import save_weights as save_weights
from fl_nn.containers import Sequential as Sequential
from fl_nn.errors import CheckpointError as CheckpointError
from fl_nn.errors import FlError as FlError
from fl_nn.errors import ModuleError as ModuleError
from fl_nn.errors import StateDictError as StateDictError
from fl_nn.errors import TrainingError as TrainingError
from fl_nn.layers import BatchNorm as BatchNorm
from fl_nn.layers import Conv2D as Conv2D
from fl_nn.layers import Dropout as Dropout
from fl_nn.layers import Embedding as Embedding
from fl_nn.layers import LayerNorm as LayerNorm
from fl_nn.layers import Linear as Linear
from fl_nn.layers import LogSoftmax as LogSoftmax
from fl_nn.layers import Pool2D as Pool2D
from fl_nn.layers import ReLU as ReLU
from fl_nn.layers import View as View
from fl_nn.losses import CategoricalCrossEntropy as CategoricalCrossEntropy
from fl_nn.losses import MeanSquaredError as MeanSquaredError
from fl_nn.losses import cross_entropy as cross_entropy
from fl_nn.losses import mse as mse
from fl_nn.meters import AverageValueMeter as AverageValueMeter
from fl_nn.meters import FrameErrorMeter as FrameErrorMeter
from fl_nn.meters import Meter as Meter
from fl_nn.meters import TopKMeter as TopKMeter
from fl_nn.modes import evaluating as evaluating
from fl_nn.module import Module as Module
from fl_nn.optim import SGD as SGD
from fl_nn.optim import Adam as Adam
from fl_nn.optim import Optimizer as Optimizer
from fl_nn.parameter import Parameter as Parameter
from fl_nn.summary import summary as summary
from fl_nn.training import JsonLog as JsonLog
from fl_nn.training import Progress as Progress
from fl_nn.training import Trainer as Trainer
