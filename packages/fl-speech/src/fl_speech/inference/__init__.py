"""What a recogniser says of recordings: transcripts, alignments, speech and silence."""

from fl_speech.inference.decoding import Decoder as Decoder
from fl_speech.inference.emissions import Emissions as Emissions
from fl_speech.inference.emissions import emissions_of as emissions_of
from fl_speech.inference.rescoring import rescore as rescore
