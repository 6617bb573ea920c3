"""Modules, losses, optimizers, meters, checkpoints and a training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from fl_nn import arch as arch
from fl_nn import init as init
from fl_nn import lora as lora
from fl_nn import plot as plot
from fl_nn import quantization as quantization
from fl_nn import rename as rename
from fl_nn._version import __version__ as __version__
from fl_nn.arch import build_sequential as build_sequential
from fl_nn.checkpoint import Checkpoint as Checkpoint
from fl_nn.checkpoint import load_checkpoint as load_checkpoint
from fl_nn.checkpoint import save_checkpoint as save_checkpoint
from fl_nn.compiled import compile as compile
from fl_nn.config import from_config as from_config
from fl_nn.containers import Sequential as Sequential
from fl_nn.data_parallel import GradientAverage as GradientAverage
from fl_nn.errors import ArchError as ArchError
from fl_nn.errors import CheckpointError as CheckpointError
from fl_nn.errors import DivergenceError as DivergenceError
from fl_nn.errors import FlError as FlError
from fl_nn.errors import ModuleError as ModuleError
from fl_nn.errors import ParameterError as ParameterError
from fl_nn.errors import RunFolderError as RunFolderError
from fl_nn.errors import StateDictError as StateDictError
from fl_nn.errors import TrainingError as TrainingError
from fl_nn.errors import TrainingWarning as TrainingWarning
from fl_nn.errors import UnpackingError as UnpackingError
from fl_nn.evaluation import evaluating as evaluating
from fl_nn.files.shards import open_tensors as open_tensors
from fl_nn.files.shards import save_tensors as save_tensors
from fl_nn.layers import ELU as ELU
from fl_nn.layers import GELU as GELU
from fl_nn.layers import GRU as GRU
from fl_nn.layers import LSTM as LSTM
from fl_nn.layers import RNN as RNN
from fl_nn.layers import AdaptiveAvgPool1D as AdaptiveAvgPool1D
from fl_nn.layers import AdaptiveAvgPool2D as AdaptiveAvgPool2D
from fl_nn.layers import AdaptiveAvgPool3D as AdaptiveAvgPool3D
from fl_nn.layers import AdaptiveEmbedding as AdaptiveEmbedding
from fl_nn.layers import AdaptiveSoftMax as AdaptiveSoftMax
from fl_nn.layers import AdaptiveSoftMaxLoss as AdaptiveSoftMaxLoss
from fl_nn.layers import AsymmetricConv1D as AsymmetricConv1D
from fl_nn.layers import BatchNorm as BatchNorm
from fl_nn.layers import Cache as Cache
from fl_nn.layers import CacheStep as CacheStep
from fl_nn.layers import Cast as Cast
from fl_nn.layers import Conformer as Conformer
from fl_nn.layers import Conv1D as Conv1D
from fl_nn.layers import Conv2D as Conv2D
from fl_nn.layers import Conv3D as Conv3D
from fl_nn.layers import ConvTranspose1D as ConvTranspose1D
from fl_nn.layers import ConvTranspose2D as ConvTranspose2D
from fl_nn.layers import ConvTranspose3D as ConvTranspose3D
from fl_nn.layers import Dropout as Dropout
from fl_nn.layers import DropPath as DropPath
from fl_nn.layers import Embedding as Embedding
from fl_nn.layers import FixedKVCache as FixedKVCache
from fl_nn.layers import Flatten as Flatten
from fl_nn.layers import FourAxes as FourAxes
from fl_nn.layers import FrozenBatchNorm as FrozenBatchNorm
from fl_nn.layers import GatedLinearUnit as GatedLinearUnit
from fl_nn.layers import GroupNorm as GroupNorm
from fl_nn.layers import HardTanh as HardTanh
from fl_nn.layers import Identity as Identity
from fl_nn.layers import KVCache as KVCache
from fl_nn.layers import LayerNorm as LayerNorm
from fl_nn.layers import LeakyReLU as LeakyReLU
from fl_nn.layers import Linear as Linear
from fl_nn.layers import Log as Log
from fl_nn.layers import LogSoftmax as LogSoftmax
from fl_nn.layers import MultiHeadAttention as MultiHeadAttention
from fl_nn.layers import Normalize as Normalize
from fl_nn.layers import Padding as Padding
from fl_nn.layers import Pool1D as Pool1D
from fl_nn.layers import Pool2D as Pool2D
from fl_nn.layers import Pool3D as Pool3D
from fl_nn.layers import PositionEmbedding as PositionEmbedding
from fl_nn.layers import PReLU as PReLU
from fl_nn.layers import RawWavSpecAugment as RawWavSpecAugment
from fl_nn.layers import RelativePositionEmbedding as RelativePositionEmbedding
from fl_nn.layers import ReLU as ReLU
from fl_nn.layers import ReLU6 as ReLU6
from fl_nn.layers import Reorder as Reorder
from fl_nn.layers import RMSNorm as RMSNorm
from fl_nn.layers import RotaryEmbedding as RotaryEmbedding
from fl_nn.layers import ScalarLayerNorm as ScalarLayerNorm
from fl_nn.layers import Sigmoid as Sigmoid
from fl_nn.layers import SinusoidalPositionEmbedding as SinusoidalPositionEmbedding
from fl_nn.layers import Softmax as Softmax
from fl_nn.layers import Softplus as Softplus
from fl_nn.layers import SpecAugment as SpecAugment
from fl_nn.layers import SpectralNorm as SpectralNorm
from fl_nn.layers import Swish as Swish
from fl_nn.layers import SyncBatchNorm as SyncBatchNorm
from fl_nn.layers import Tanh as Tanh
from fl_nn.layers import TDSBlock as TDSBlock
from fl_nn.layers import ThresholdReLU as ThresholdReLU
from fl_nn.layers import Transform as Transform
from fl_nn.layers import TransformerDecoderLayer as TransformerDecoderLayer
from fl_nn.layers import TransformerEncoderLayer as TransformerEncoderLayer
from fl_nn.layers import Upsample as Upsample
from fl_nn.layers import View as View
from fl_nn.layers import WeightNorm as WeightNorm
from fl_nn.layers import attention as attention
from fl_nn.layers import convert_frozen_batchnorm as convert_frozen_batchnorm
from fl_nn.layers import convert_sync_batchnorm as convert_sync_batchnorm
from fl_nn.layers import derive_padding as derive_padding
from fl_nn.layers import interpolate as interpolate
from fl_nn.losses import BinaryCrossEntropy as BinaryCrossEntropy
from fl_nn.losses import BinaryCrossEntropyWithLogits as BinaryCrossEntropyWithLogits
from fl_nn.losses import CategoricalCrossEntropy as CategoricalCrossEntropy
from fl_nn.losses import CosineEmbeddingLoss as CosineEmbeddingLoss
from fl_nn.losses import CrossEntropy as CrossEntropy
from fl_nn.losses import FocalLoss as FocalLoss
from fl_nn.losses import HuberLoss as HuberLoss
from fl_nn.losses import KLDivergence as KLDivergence
from fl_nn.losses import MeanAbsoluteError as MeanAbsoluteError
from fl_nn.losses import MeanSquaredError as MeanSquaredError
from fl_nn.losses import NLLLoss as NLLLoss
from fl_nn.losses import binary_cross_entropy as binary_cross_entropy
from fl_nn.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from fl_nn.losses import categorical_cross_entropy as categorical_cross_entropy
from fl_nn.losses import cosine_embedding as cosine_embedding
from fl_nn.losses import cosine_similarity as cosine_similarity
from fl_nn.losses import cross_entropy as cross_entropy
from fl_nn.losses import focal as focal
from fl_nn.losses import huber as huber
from fl_nn.losses import kl_div as kl_div
from fl_nn.losses import mae as mae
from fl_nn.losses import mse as mse
from fl_nn.losses import nll_loss as nll_loss
from fl_nn.meters import AccuracyMeter as AccuracyMeter
from fl_nn.meters import AUCMeter as AUCMeter
from fl_nn.meters import AveragePrecisionMeter as AveragePrecisionMeter
from fl_nn.meters import AverageValueMeter as AverageValueMeter
from fl_nn.meters import CalibrationMeter as CalibrationMeter
from fl_nn.meters import ConfusionMeter as ConfusionMeter
from fl_nn.meters import CountMeter as CountMeter
from fl_nn.meters import EditDistanceMeter as EditDistanceMeter
from fl_nn.meters import F1Meter as F1Meter
from fl_nn.meters import FrameErrorMeter as FrameErrorMeter
from fl_nn.meters import Meter as Meter
from fl_nn.meters import MSEMeter as MSEMeter
from fl_nn.meters import PrecisionMeter as PrecisionMeter
from fl_nn.meters import RecallMeter as RecallMeter
from fl_nn.meters import TimeMeter as TimeMeter
from fl_nn.meters import TopKMeter as TopKMeter
from fl_nn.migrations import migration as migration
from fl_nn.module import Module as Module
from fl_nn.optim import EMA as EMA
from fl_nn.optim import LAMB as LAMB
from fl_nn.optim import LBFGS as LBFGS
from fl_nn.optim import NAG as NAG
from fl_nn.optim import SGD as SGD
from fl_nn.optim import Adadelta as Adadelta
from fl_nn.optim import Adafactor as Adafactor
from fl_nn.optim import Adagrad as Adagrad
from fl_nn.optim import Adam as Adam
from fl_nn.optim import AdamW as AdamW
from fl_nn.optim import AMSgrad as AMSgrad
from fl_nn.optim import DynamicLossScaler as DynamicLossScaler
from fl_nn.optim import GradientAccumulation as GradientAccumulation
from fl_nn.optim import Lion as Lion
from fl_nn.optim import Novograd as Novograd
from fl_nn.optim import Optimizer as Optimizer
from fl_nn.optim import RMSprop as RMSprop
from fl_nn.optim import SparseAdam as SparseAdam
from fl_nn.optim import clip_grad_norm_ as clip_grad_norm_
from fl_nn.optim import clip_grad_value_ as clip_grad_value_
from fl_nn.padding import Durations as Durations
from fl_nn.parameter import Parameter as Parameter
from fl_nn.parameter import SparseParameter as SparseParameter
from fl_nn.parameters import all_params_close as all_params_close
from fl_nn.parameters import num_total_params as num_total_params
from fl_nn.residual import Residual as Residual
from fl_nn.schedules import ConstantLR as ConstantLR
from fl_nn.schedules import CosineAnnealingLR as CosineAnnealingLR
from fl_nn.schedules import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from fl_nn.schedules import ExponentialLR as ExponentialLR
from fl_nn.schedules import InverseSquareRootLR as InverseSquareRootLR
from fl_nn.schedules import LambdaLR as LambdaLR
from fl_nn.schedules import LinearLR as LinearLR
from fl_nn.schedules import LRScheduler as LRScheduler
from fl_nn.schedules import MultiStepLR as MultiStepLR
from fl_nn.schedules import OneCycleLR as OneCycleLR
from fl_nn.schedules import PolynomialLR as PolynomialLR
from fl_nn.schedules import ReduceLROnPlateau as ReduceLROnPlateau
from fl_nn.schedules import SequentialLR as SequentialLR
from fl_nn.schedules import StepLR as StepLR
from fl_nn.summary import summary as summary
from fl_nn.training import Callback as Callback
from fl_nn.training import ClipGradNorm as ClipGradNorm
from fl_nn.training import EarlyStop as EarlyStop
from fl_nn.training import Interrupted as Interrupted
from fl_nn.training import JsonLog as JsonLog
from fl_nn.training import KeepBest as KeepBest
from fl_nn.training import LRSweep as LRSweep
from fl_nn.training import Progress as Progress
from fl_nn.training import StopSignals as StopSignals
from fl_nn.training import TensorBoard as TensorBoard
from fl_nn.training import Trainer as Trainer
from fl_nn.training import find_lr as find_lr
from fl_nn.training import run_folder as run_folder
from fl_nn.training import stop_signals as stop_signals
from fl_nn.weights import load_weights as load_weights
from fl_nn.weights import save_weights as save_weights

if not _TYPE_CHECKING:  # a type checker reports the name by itself

    def __getattr__(name: str) -> object:
        if name == "functional":
            from importlib import import_module

            return import_module(f"{__name__}.functional")
        from pathlib import Path

        from fl_tensor.foreign_names.tables import missing_attribute

        table = Path(__file__).with_name("foreign_names.txt")
        raise missing_attribute(f"module {__name__!r}", name, table)


def __dir__() -> list[str]:
    from fl_tensor.public_names import public_names

    return public_names(globals(), "arch", "init", "lora", "plot", "quantization", "rename")
