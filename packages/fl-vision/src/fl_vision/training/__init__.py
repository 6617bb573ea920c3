"""Training of image classifiers: changes of images, batches, optimizer, loop."""

from fl_vision.training.augmentation import augmentation as augmentation
from fl_vision.training.augmentation import augmentation_names as augmentation_names
from fl_vision.training.run import Output as Output
from fl_vision.training.run import Trained as Trained
from fl_vision.training.run import Workers as Workers
from fl_vision.training.run import train_classifier as train_classifier
