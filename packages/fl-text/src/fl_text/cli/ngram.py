"""``fl-text ngram``: estimate, score, prune and convert n-gram models."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_memory.subcommands import at_least
from fl_text.corpus import TextFiles
from fl_text.ngram import NGramModel, estimate, prune, read_arpa, write_arpa


def main(arguments: list[str]) -> int:
    """Run one of train, score, prune and convert."""
    parser = argparse.ArgumentParser(
        prog="fl-text ngram",
        description="n-gram language models: ARPA files, and binary files that are mapped.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_train(commands.add_parser("train", help="estimate a model, and write an ARPA file"))
    _add_score(commands.add_parser("score", help="log probabilities and perplexity of text"))
    _add_prune(commands.add_parser("prune", help="leave out n-grams by relative entropy"))
    _add_convert(commands.add_parser("convert", help="ARPA to the binary form"))
    given = parser.parse_args(arguments)
    given.run(given)
    return 0


def _output(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=what)


def _add_train(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="UTF-8 text, a sentence a line; blanks separate")
    _output(parser, "the ARPA file")
    add("--order", type=at_least(1), default=3, metavar="N", help="longest n-grams (%(default)s)")
    what = "leave out n-grams that occur at most so often: a number an order, the first 0"
    add("--prune", type=at_least(0), nargs="+", default=[], metavar="COUNT", help=what)
    what = "where discounts cannot be estimated, such as 0.5 1 1.5"
    add("--discount-fallback", type=float, nargs=3, metavar="D", help=what)
    parser.set_defaults(run=_train)


def _train(given: argparse.Namespace) -> None:
    sentences = (line for line in TextFiles(*given.files) if line.strip())
    ngrams = estimate(
        sentences, given.order, prune=given.prune, discount_fallback=given.discount_fallback
    )
    write_arpa(given.output, ngrams)
    print(f"{given.output}: {_sizes([len(order.words) for order in ngrams.orders])}")


def _add_score(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="an ARPA or binary file")
    add("files", nargs="+", metavar="FILE", help="UTF-8 text, a sentence a line")
    add("--sentences", action="store_true", help="print log10 p of each sentence before it")
    parser.set_defaults(run=_score)


def _score(given: argparse.Namespace) -> None:
    model = NGramModel.open(given.model)
    sentences = [line for line in TextFiles(*given.files) if line.strip()]
    if given.sentences:
        for score, sentence in zip(model.score_sentences(sentences), sentences):
            print(f"{score:.6f}\t{sentence.strip()}")
    found = model.perplexity(sentences)
    print(
        f"perplexity {found.value:.4f}; log10 p {found.log_prob:.4f}; {found.sentences} sentences, "
        f"{found.words} words with ends of sentences, {found.unknown} unknown"
    )


def _add_prune(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="an ARPA file")
    _output(parser, "the ARPA file of what is left")
    what = "leave out what raises perplexity by less, such as 1e-8"
    add("--threshold", type=float, required=True, metavar="SHARE", help=what)
    parser.set_defaults(run=_prune)


def _prune(given: argparse.Namespace) -> None:
    whole = read_arpa(given.model)
    left = prune(whole, given.threshold)
    write_arpa(given.output, left)
    before, after = ([len(order.words) for order in grams.orders] for grams in (whole, left))
    print(f"{given.output}: {_sizes(after)}; before: {_sizes(before)}")


def _add_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ARPA file")
    _output(parser, "the binary file")
    parser.set_defaults(run=_convert)


def _convert(given: argparse.Namespace) -> None:
    model = NGramModel.from_arpa(given.model)
    model.save(given.output)
    print(f"{given.output}: {given.output.stat().st_size} bytes, {model}")


def _sizes(rows: list[int]) -> str:
    return ", ".join(f"{count} {n}-grams" for n, count in enumerate(rows, 1))
