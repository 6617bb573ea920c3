"""Training of recognisers: data, optimizer, validation, loop."""

from fl_speech.training.pseudo_labels import PseudoLabels as PseudoLabels
from fl_speech.training.run import Lists as Lists
from fl_speech.training.run import Output as Output
from fl_speech.training.run import Trained as Trained
from fl_speech.training.run import train_recogniser as train_recogniser
