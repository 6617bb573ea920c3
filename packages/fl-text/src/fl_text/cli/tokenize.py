"""``fl-text tokenize``: text to token numbers, and back."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from fl_memory.subcommands import at_least
from fl_tensor.files import replacing
from fl_text.corpus import TextFiles
from fl_text.datasets.token_file import TokenFile
from fl_text.datasets.token_writing import write_tokens
from fl_text.dictionary import Dictionary
from fl_text.encoder import SpellingEncoder, WordEncoder
from fl_text.errors import TextFileError
from fl_text.lexicon import load_words
from fl_text.tokenizer import Tokenizer

_Encoder: TypeAlias = Tokenizer | WordEncoder | SpellingEncoder


def main(arguments: list[str]) -> int:
    """Write a line for each line."""
    parser = argparse.ArgumentParser(
        prog="fl-text tokenize",
        description="Write the token numbers of each line of text files, or with --decode the text "
        "of each line of numbers. Tokens are the words of a dictionary, the tokens of a lexicon's "
        "spellings, or those of a tokenizer.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="UTF-8 text, or numbers")
    add("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    add("--decode", action="store_true", help="numbers to text")
    add("--bos", action="store_true", help="write the beginning token before each line")
    add("--eos", action="store_true", help="write the end token after each line")
    add("--token-file", action="store_true", help="write a token file, for training, without blank "
        "lines; input files may be compressed by gzip")  # fmt: skip
    kind = parser.add_mutually_exclusive_group(required=True).add_argument
    kind("--dictionary", type=Path, metavar="FILE", help="a token a line, numbered from 0")
    kind("--tokenizer", type=Path, metavar="FILE", help="a tokenizer.json")
    spelled = parser.add_argument_group("with --dictionary").add_argument
    spelled("--lexicon", type=Path, metavar="FILE", help="lines 'word token token ...'")
    spelled("--replabels", type=at_least(0), default=0, metavar="N", help="labels <1> .. <N>")
    spelled("--separator", default="|", metavar="TOKEN", help="token between words (%(default)s)")
    spelled("--letters", action="store_true", help="spell unknown words by their letters")
    given = parser.parse_args(arguments)
    if given.lexicon is not None and given.dictionary is None:
        parser.error("--lexicon needs --dictionary, which numbers the tokens of spellings")
    if given.token_file and (given.output is None or given.decode):
        parser.error("--token-file needs --output, and goes without --decode")
    encoder = _encoder(given)
    if given.token_file:
        texts, ends = TextFiles(*given.files), {"bos": given.bos, "eos": given.eos}
        count = write_tokens(given.output, texts, encoder, strip=True, **ends)
        documents = len(TokenFile(given.output))
        print(f"{given.output}: {count} tokens in {documents} lines; {encoder.fingerprint()}")
        return 0
    lines = _decoded(encoder, given.files) if given.decode else _encoded(encoder, given)
    if given.output is None:
        for line in lines:
            sys.stdout.write(line)
    else:
        with replacing(given.output) as file:
            file.writelines(line.encode() for line in lines)
    return 0


def _encoder(given: argparse.Namespace) -> _Encoder:
    if given.tokenizer is not None:
        return Tokenizer.load(given.tokenizer)
    tokens = Dictionary(given.dictionary)
    if given.lexicon is None:
        return WordEncoder(tokens)
    lexicon = load_words(given.lexicon)
    return SpellingEncoder(lexicon, tokens, given.replabels, given.separator, given.letters)


def _encoded(encoder: _Encoder, given: argparse.Namespace) -> Iterator[str]:
    stripped = (line.rstrip("\n") for line in TextFiles(*given.files))
    for numbers in encoder.encode_corpus(stripped, bos=given.bos, eos=given.eos):
        yield " ".join(map(str, numbers)) + "\n"


def _decoded(encoder: _Encoder, files: list[Path]) -> Iterator[str]:
    for path in files:
        for place, line in enumerate(TextFiles(path), 1):
            with _named(path, place):
                yield encoder.decode([int(field) for field in line.split()]) + "\n"


@contextlib.contextmanager
def _named(path: Path, place: int) -> Iterator[None]:
    """Errors of a line, with file and line."""
    try:
        yield
    except ValueError as error:
        raise TextFileError(
            path, f"line {place}: {error}", "write numbers of tokens with spaces between"
        ) from error
