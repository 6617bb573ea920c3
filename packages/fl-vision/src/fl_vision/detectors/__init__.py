"""Detectors: recipes, training, evaluation, and boxes in images."""

from fl_vision.detectors.detector import Detector as Detector
from fl_vision.detectors.detector import load_detector as load_detector
from fl_vision.detectors.evaluation import evaluate_detector as evaluate_detector
from fl_vision.detectors.network import load_published as load_published
from fl_vision.detectors.network import make_anchors as make_anchors
from fl_vision.detectors.network import make_criterion as make_criterion
from fl_vision.detectors.network import make_network as make_network
from fl_vision.detectors.pictures import decoder_attention as decoder_attention
from fl_vision.detectors.pictures import draw_boxes as draw_boxes
from fl_vision.detectors.recipe import DetectionRecipe as DetectionRecipe
from fl_vision.detectors.training import DetectorRun as DetectorRun
from fl_vision.detectors.training import TrainedDetector as TrainedDetector
from fl_vision.detectors.training import train_detector as train_detector
