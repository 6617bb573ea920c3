"""``fl-text dictionary``: a dictionary of the words of files."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_memory.subcommands import at_least
from fl_text.counting import TokenCounts


def main(arguments: list[str]) -> int:
    """Count, and write the dictionary."""
    parser = argparse.ArgumentParser(
        prog="fl-text dictionary",
        description="Count the words of UTF-8 files and write a dictionary: a word a line, the "
        "most frequent first, equally frequent ones in alphabetical order.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="text, words between white space")
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="the dictionary")
    add("--max-size", type=at_least(1), metavar="N", help="keep the N most frequent words")
    add("--min-count", type=at_least(1), default=1, metavar="N", help="seen so often (%(default)s)")
    add("--first", nargs="+", default=[], metavar="TOKEN", help="begin with these, such as '<unk>'")
    add("--workers", type=at_least(1), default=1, metavar="N", help="processes (%(default)s)")
    add("--counts", action="store_true", help="print each word with its count")
    given = parser.parse_args(arguments)
    found = TokenCounts.from_files(given.files, given.workers)
    different = len(found.counts)
    found.prune(-1 if given.max_size is None else given.max_size, given.min_count)
    dictionary = found.dictionary(given.first)
    dictionary.save(given.output)
    if given.counts:
        for token, count in found.most_common():
            print(token, count)
    print(
        f"{given.output}: {len(dictionary)} tokens; {found.total_sentences} lines have "
        f"{found.total_tokens} words, {different} different"
    )
    return 0
