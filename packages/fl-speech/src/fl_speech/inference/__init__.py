"""Inference with recognisers: transcripts, alignments, streams, voice activity."""

from fl_speech.inference.alignment import Aligned as Aligned
from fl_speech.inference.alignment import Segment as Segment
from fl_speech.inference.alignment import align as align
from fl_speech.inference.decoding import Decoder as Decoder
from fl_speech.inference.emissions import Emissions as Emissions
from fl_speech.inference.emissions import emissions_of as emissions_of
from fl_speech.inference.long import Word as Word
from fl_speech.inference.long import transcribe_long as transcribe_long
from fl_speech.inference.recognition import Heard as Heard
from fl_speech.inference.recognition import transcribe as transcribe
from fl_speech.inference.rescoring import Scored as Scored
from fl_speech.inference.rescoring import rescore as rescore
from fl_speech.inference.speech_detector import SpeechDetector as SpeechDetector
from fl_speech.inference.streaming import SpeechStream as SpeechStream
from fl_speech.inference.vad import Activity as Activity
from fl_speech.inference.vad import speech_by_blank as speech_by_blank
from fl_speech.inference.voice_activity import frame_size as frame_size
from fl_speech.inference.voice_activity import speech_by_level as speech_by_level
from fl_speech.inference.voice_activity import speech_in_file as speech_in_file
from fl_speech.inference.voice_activity import speech_segments as speech_segments
from fl_speech.inference.word_times import fit_to_speech as fit_to_speech
