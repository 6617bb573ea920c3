"""The training loop: Trainer, callbacks, logs, checkpoints."""

from fl_nn.training.callback import Callback as Callback
from fl_nn.training.clip import ClipGradNorm as ClipGradNorm
from fl_nn.training.early_stop import EarlyStop as EarlyStop
from fl_nn.training.keep_best import KeepBest as KeepBest
from fl_nn.training.log import JsonLog as JsonLog
from fl_nn.training.lr_sweep import LRSweep as LRSweep
from fl_nn.training.lr_sweep import find_lr as find_lr
from fl_nn.training.on_ranks import on_ranks as on_ranks
from fl_nn.training.progress import Progress as Progress
from fl_nn.training.run_folder import run_folder as run_folder
from fl_nn.training.signals import Interrupted as Interrupted
from fl_nn.training.signals import StopSignals as StopSignals
from fl_nn.training.signals import stop_signals as stop_signals
from fl_nn.training.tensorboard import TensorBoard as TensorBoard
from fl_nn.training.trainer import Trainer as Trainer
