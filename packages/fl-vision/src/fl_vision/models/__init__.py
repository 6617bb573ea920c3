"""Networks for images, and rename tables for published weights."""

from fl_vision.models.cnn import cnn as cnn
from fl_vision.models.resnet import RESNET_HUGGING_FACE as RESNET_HUGGING_FACE
from fl_vision.models.resnet import ResNet as ResNet
from fl_vision.models.vit import VIT_HUGGING_FACE as VIT_HUGGING_FACE
from fl_vision.models.vit import VIT_TORCHVISION as VIT_TORCHVISION
from fl_vision.models.vit import ViT as ViT
