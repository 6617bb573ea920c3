"""Tokenizers, text files, and datasets for language models."""

from fl_text._version import __version__ as __version__
from fl_text.corpus import TextFiles as TextFiles
from fl_text.counting import TokenCounts as TokenCounts
from fl_text.dictionary import Dictionary as Dictionary
from fl_text.errors import FlError as FlError
from fl_text.errors import TextError as TextError
from fl_text.errors import TextFileError as TextFileError
from fl_text.file_parts import PartialFile as PartialFile
from fl_text.lm import TokenLines as TokenLines
from fl_text.lm import TokenStream as TokenStream
from fl_text.lm import lm_dataset as lm_dataset
from fl_text.special import SpecialTokens as SpecialTokens
from fl_text.tokenizer import Tokenizer as Tokenizer
