"""Parts of fl-text for packages that read and write files of words of their own.

Provisional: names may change before 1.0.
"""

from fl_text.corpus import write_text as write_text
from fl_text.words import is_word as is_word
from fl_text.words import split_words as split_words
