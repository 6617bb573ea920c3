"""Speech datasets: list files, targets, features, batches by duration."""

from fl_speech.datasets.batches import batches as batches
from fl_speech.datasets.connected import ConnectedWords as ConnectedWords
from fl_speech.datasets.connected import WordTime as WordTime
from fl_speech.datasets.connected import word_bounds as word_bounds
from fl_speech.datasets.dataset import SpeechDataset as SpeechDataset
from fl_speech.datasets.filters import Filtered as Filtered
from fl_speech.datasets.filters import filter_utterances as filter_utterances
from fl_speech.datasets.folders import DIGITS as DIGITS
from fl_speech.datasets.folders import read_digits as read_digits
from fl_speech.datasets.folders import read_librispeech as read_librispeech
from fl_speech.datasets.grammar import Grammar as Grammar
from fl_speech.datasets.list_file import ListFile as ListFile
from fl_speech.datasets.list_file import named_lists as named_lists
from fl_speech.datasets.list_file import write_list_file as write_list_file
from fl_speech.datasets.statistics import SpeechStatMeter as SpeechStatMeter
from fl_speech.datasets.statistics import SpeechStats as SpeechStats
from fl_speech.datasets.targets import TargetGenerator as TargetGenerator
from fl_speech.datasets.targets import TargetOptions as TargetOptions
from fl_speech.datasets.transcripts import Transcript as Transcript
from fl_speech.datasets.transcripts import TranscriptReader as TranscriptReader
from fl_speech.datasets.transcripts import collapse as collapse
from fl_speech.datasets.transcripts import words_of as words_of
from fl_speech.datasets.utterance import Utterance as Utterance
