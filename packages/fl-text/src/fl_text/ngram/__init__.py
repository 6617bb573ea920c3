"""n-gram language models: ARPA files, scores, estimation, pruning."""

from fl_text.ngram.arpa import read_arpa as read_arpa
from fl_text.ngram.estimation import estimate as estimate
from fl_text.ngram.model import NGramModel as NGramModel
from fl_text.ngram.model import Perplexity as Perplexity
from fl_text.ngram.ngrams import NGrams as NGrams
from fl_text.ngram.ngrams import Order as Order
from fl_text.ngram.ngrams import write_arpa as write_arpa
from fl_text.ngram.pruning import prune as prune
from fl_text.ngram.tables import NGramTables as NGramTables
