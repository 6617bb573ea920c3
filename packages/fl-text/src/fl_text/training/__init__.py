"""Training of language models: data, optimizer, validation, loop."""

from fl_text.training.run import Output as Output
from fl_text.training.run import Trained as Trained
from fl_text.training.run import train_language_model as train_language_model
