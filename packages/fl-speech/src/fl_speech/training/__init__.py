"""Training of recognisers: data, optimizer, validation, loop."""

from fl_speech.training.run import Lists as Lists
from fl_speech.training.run import Output as Output
from fl_speech.training.run import Trained as Trained
from fl_speech.training.run import train_recogniser as train_recogniser
from fl_speech.training.speech_detector import train_speech_detector as train_speech_detector
