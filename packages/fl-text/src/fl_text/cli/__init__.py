"""The command ``fl-text``: one file per subcommand, imported when it is called.

Each has ``main(arguments) -> exit status``: 0 success, 1 an error of the library or of a file, 2 a
usage error.
"""

from __future__ import annotations

from fl_memory.subcommands import dispatch
from fl_text._version import __version__

__all__ = ["main"]

COMMANDS = {
    "bench": "how fast a language model learns and generates",
    "classify": "train, measure and use classifiers of short texts, such as names",
    "decode": "emissions of an acoustic model to words, by beam search",
    "dictionary": "count the words of files, and write a dictionary of the most frequent",
    "eval": "perplexity of models on a text, bits a character, accuracy of masked models",
    "generate": "continue prompts by a language model",
    "info": "what a language model is, its sizes and memory, and what can be done with it",
    "ngram": "estimate, score, prune and convert n-gram models",
    "train": "train a language model; writes checkpoint, log, weights and learning curves",
    "tokenize": "text to token numbers, and back",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-text``; returns the exit status."""
    return dispatch("fl-text", __version__, __name__, COMMANDS, arguments)
