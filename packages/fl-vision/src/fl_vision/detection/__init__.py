"""Object detection: boxes, matching, criteria, masks and COCO's evaluation."""

from fl_vision.detection.anchor_matching import match_anchors as match_anchors
from fl_vision.detection.anchors import AnchorGenerator as AnchorGenerator
from fl_vision.detection.anchors import decode_boxes as decode_boxes
from fl_vision.detection.anchors import encode_boxes as encode_boxes
from fl_vision.detection.assignment import (
    batched_linear_sum_assignment as batched_linear_sum_assignment,
)
from fl_vision.detection.assignment import linear_sum_assignment as linear_sum_assignment
from fl_vision.detection.boxes import box_area as box_area
from fl_vision.detection.boxes import box_convert as box_convert
from fl_vision.detection.boxes import box_iou as box_iou
from fl_vision.detection.boxes import box_iou_and_union as box_iou_and_union
from fl_vision.detection.boxes import clip_boxes_to_image as clip_boxes_to_image
from fl_vision.detection.boxes import generalized_box_iou as generalized_box_iou
from fl_vision.detection.boxes import paired_box_iou as paired_box_iou
from fl_vision.detection.boxes import remove_small_boxes as remove_small_boxes
from fl_vision.detection.coco_figures import ClassPrecision as ClassPrecision
from fl_vision.detection.coco_figures import CocoFigures as CocoFigures
from fl_vision.detection.coco_inputs import Detections as Detections
from fl_vision.detection.coco_inputs import GroundTruth as GroundTruth
from fl_vision.detection.coco_meter import CocoMeter as CocoMeter
from fl_vision.detection.masks import RLE as RLE
from fl_vision.detection.masks import mask_iou as mask_iou
from fl_vision.detection.masks import merge_masks as merge_masks
from fl_vision.detection.matcher import HungarianMatcher as HungarianMatcher
from fl_vision.detection.nms import batched_nms as batched_nms
from fl_vision.detection.nms import nms as nms
from fl_vision.detection.nms import soft_nms as soft_nms
from fl_vision.detection.postprocess import detr_detections as detr_detections
from fl_vision.detection.postprocess import retinanet_detections as retinanet_detections
from fl_vision.detection.retinanet_criterion import DensePrediction as DensePrediction
from fl_vision.detection.retinanet_criterion import RetinaNetCriterion as RetinaNetCriterion
from fl_vision.detection.set_criterion import SetCriterion as SetCriterion
from fl_vision.detection.targets import Objects as Objects
from fl_vision.detection.targets import SetPrediction as SetPrediction
from fl_vision.detection.voc_meter import VocFigures as VocFigures
from fl_vision.detection.voc_meter import VocMeter as VocMeter
from fl_vision.detection.voc_meter import VocPrecision as VocPrecision
