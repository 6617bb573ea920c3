"""Meters: metrics accumulated over batches and ranks."""

from fl_nn.meters.average import Average as Average
from fl_nn.meters.average import AverageValueMeter as AverageValueMeter
from fl_nn.meters.calibration import CalibrationMeter as CalibrationMeter
from fl_nn.meters.calibration import ReliabilityBin as ReliabilityBin
from fl_nn.meters.classification import AccuracyMeter as AccuracyMeter
from fl_nn.meters.classification import FrameErrorMeter as FrameErrorMeter
from fl_nn.meters.classification import TopKMeter as TopKMeter
from fl_nn.meters.confusion import ClassFigures as ClassFigures
from fl_nn.meters.confusion import ConfusionMeter as ConfusionMeter
from fl_nn.meters.confusion import F1Meter as F1Meter
from fl_nn.meters.confusion import PrecisionMeter as PrecisionMeter
from fl_nn.meters.confusion import RecallMeter as RecallMeter
from fl_nn.meters.count import CountMeter as CountMeter
from fl_nn.meters.edit_distance import EditDistanceMeter as EditDistanceMeter
from fl_nn.meters.edit_distance import ErrorCounts as ErrorCounts
from fl_nn.meters.edit_distance import ErrorRates as ErrorRates
from fl_nn.meters.mean_squared_error import MSEMeter as MSEMeter
from fl_nn.meters.meter import Meter as Meter
from fl_nn.meters.ranking import AUCMeter as AUCMeter
from fl_nn.meters.ranking import AveragePrecisionMeter as AveragePrecisionMeter
from fl_nn.meters.time import TimeMeter as TimeMeter
