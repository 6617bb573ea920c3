"""``fl-speech prepare``: list files, tokens and lexicon of folders of recordings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fl_speech.datasets import Utterance, read_digits, read_librispeech, write_list_file
from fl_speech.recogniser import LEXICON, TOKENS
from fl_text import Dictionary, Lexicon


def main(arguments: list[str]) -> int:
    """Write the files."""
    parser = argparse.ArgumentParser(
        prog="fl-speech prepare",
        description="Write what `fl-speech train` needs: list files of recordings, the tokens "
        "(letters and the separator) and a lexicon that spells each word.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("layout", choices=("digits", "librispeech"), help="of the folders")
    add("folder", type=Path, nargs="+", metavar="FOLDER", help="recordings; tests last if several")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="for the files")
    add("--hold-out", metavar="SPEAKER", help="digits: test on all recordings of this speaker")
    add("--separator", default="|", metavar="TOKEN", help="token between words (%(default)s)")
    given = parser.parse_args(arguments)
    if given.layout == "digits":
        lists = _digits(parser, given.folder, given.hold_out)
    else:
        folders = [read_librispeech(folder) for folder in given.folder]
        names = ["train", *(f"test{n}" for n in range(2, len(folders)))]
        names = names[: len(folders) - 1] + ["test"] if len(folders) > 1 else ["train"]
        lists = dict(zip(names, folders))
    given.output.mkdir(parents=True, exist_ok=True)
    for name, utterances in lists.items():
        path = given.output / f"{name}.lst"
        write_list_file(path, utterances)
        seconds = sum(one.duration_ms for one in utterances) / 1000
        print(f"{path}: {len(utterances)} recordings, {seconds:.0f} s")
    words = sorted(
        {word for utterances in lists.values() for one in utterances for word in one.words or ()}
    )
    letters = sorted({letter for word in words for letter in word})
    Dictionary([given.separator, *letters]).save(given.output / TOKENS)
    lexicon = Lexicon({word: [[*word, given.separator]] for word in words})
    lexicon.save(given.output / LEXICON)
    print(f"{given.output / TOKENS}: {len(letters) + 1} tokens")
    print(f"{given.output / LEXICON}: {len(words)} words")
    return 0


def _digits(
    parser: argparse.ArgumentParser, folders: Sequence[Path], held: str | None
) -> dict[str, list[Utterance]]:
    if len(folders) != 1:
        parser.error("digits has one folder")
    if held is None:
        return {split: read_digits(folders[0], split) for split in ("train", "test")}
    every = read_digits(folders[0])
    if held not in (speakers := sorted({one.speaker for one in every})):
        parser.error(f"--hold-out {held}: the speakers are {', '.join(speakers)}")
    return {
        "train": [one for one in every if one.speaker != held],
        "test": [one for one in every if one.speaker == held],
    }
