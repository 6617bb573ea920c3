"""Tokenizers, dictionaries, text files, and datasets for language models. Decoders are in
``fl_text.decoder``, n-gram models in ``fl_text.ngram``."""

from fl_text._version import __version__ as __version__
from fl_text.corpus import TextFiles as TextFiles
from fl_text.counting import TokenCounts as TokenCounts
from fl_text.datasets.lm import lm_dataset as lm_dataset
from fl_text.datasets.masking import TokenMasking as TokenMasking
from fl_text.datasets.packing import PackedDocuments as PackedDocuments
from fl_text.datasets.packing import document_mask as document_mask
from fl_text.datasets.packing import document_positions as document_positions
from fl_text.datasets.shards import TextShards as TextShards
from fl_text.datasets.token_chunks import TokenChunks as TokenChunks
from fl_text.datasets.token_file import TokenFile as TokenFile
from fl_text.datasets.token_lines import TokenLines as TokenLines
from fl_text.datasets.token_stream import TokenStream as TokenStream
from fl_text.datasets.token_writing import write_tokens as write_tokens
from fl_text.dictionary import Dictionary as Dictionary
from fl_text.encoder import SpellingEncoder as SpellingEncoder
from fl_text.encoder import TextEncoder as TextEncoder
from fl_text.encoder import WordEncoder as WordEncoder
from fl_text.errors import FlError as FlError
from fl_text.errors import TextError as TextError
from fl_text.errors import TextFileError as TextFileError
from fl_text.file_parts import PartialFile as PartialFile
from fl_text.lexicon import Lexicon as Lexicon
from fl_text.lexicon import create_word_dict as create_word_dict
from fl_text.lexicon import load_words as load_words
from fl_text.lexicon import split_word as split_word
from fl_text.replabels import pack_replabels as pack_replabels
from fl_text.replabels import tkn2idx as tkn2idx
from fl_text.replabels import unpack_replabels as unpack_replabels
from fl_text.special import SpecialTokens as SpecialTokens
from fl_text.tokenizer import Tokenizer as Tokenizer
