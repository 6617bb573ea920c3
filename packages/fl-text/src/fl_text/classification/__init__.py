"""Classifiers of short texts, such as the languages of names: data, training, folders."""

from fl_text.classification.classifier import TextClassifier as TextClassifier
from fl_text.classification.classifier import load_text_classifier as load_text_classifier
from fl_text.classification.classifier import save_text_classifier as save_text_classifier
from fl_text.classification.labelled import LabelledTexts as LabelledTexts
from fl_text.classification.labelled import read_labelled_texts as read_labelled_texts
from fl_text.classification.recipe import ClassifierRecipe as ClassifierRecipe
from fl_text.classification.training import TrainedClassifier as TrainedClassifier
from fl_text.classification.training import train_text_classifier as train_text_classifier
