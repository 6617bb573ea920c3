"""The command ``fl-speech``: one file per subcommand, imported when it is called.

Each has ``main(arguments) -> exit status``: 0 success, 1 an error of the library or of a file, 2 a
usage error. A training that a signal stopped has 128 and the number of the signal.
"""

from __future__ import annotations

from fl_memory.subcommands import dispatch
from fl_speech._version import __version__

__all__ = ["main"]

COMMANDS = {
    "prepare": "lists, tokens and lexicon of a folder of recordings that are named by their words",
    "train": "train a recogniser; writes checkpoint, log, weights and learning curves",
    "test": "word and letter error rates on lists, and a report of the errors",
    "decode": "transcripts by beam search with lexicon and language model, n-best lists, times",
    "tune": "the weight of a language model that makes the fewest errors on a list",
    "stream": "transcripts while recordings arrive",
    "align": "when the words of a list are said: CTM lines, Audacity labels",
    "attention": "pictures of where a sequence-to-sequence recogniser attends",
    "vad": "where recordings have speech, by the blanks of a CTC model",
    "segments": "when recordings of any length have speech, by their level; needs no recogniser",
    "detector": "train a network that finds speech in noise, for segments --model",
    "features": "features of recordings, as arrays and pictures",
    "augment": "sound effects on a recording",
    "bench": "how fast an acoustic model computes and learns",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-speech``; returns the exit status."""
    return dispatch("fl-speech", __version__, __name__, COMMANDS, arguments)
