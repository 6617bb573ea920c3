"""Networks for images."""

from fl_vision.models.cnn import cnn as cnn
