"""Beam-search decoders: from emissions to words, with a lexicon and a language model."""

from fl_text.decoder.callbacks import per_hypothesis as per_hypothesis
from fl_text.decoder.hypothesis import Hypothesis as Hypothesis
from fl_text.decoder.hypothesis import Span as Span
from fl_text.decoder.lexicon import LexiconDecoder as LexiconDecoder
from fl_text.decoder.lexicon_free import LexiconFreeDecoder as LexiconFreeDecoder
from fl_text.decoder.options import DecoderOptions as DecoderOptions
from fl_text.decoder.seq2seq import LexiconFreeSeq2SeqDecoder as LexiconFreeSeq2SeqDecoder
from fl_text.decoder.seq2seq import LexiconSeq2SeqDecoder as LexiconSeq2SeqDecoder
from fl_text.decoder.stream import Stream as Stream
from fl_text.decoder.transducer import TransducerDecoder as TransducerDecoder
from fl_text.decoder.trie import Trie as Trie
