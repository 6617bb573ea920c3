"""``fl-text generate``: continuations of prompts by a language model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_text.cli.model_options import causal_model_of, model_options
from fl_text.corpus import TextFiles
from fl_text.errors import TextError
from fl_text.generation import CompiledNetwork, Generation, beam_search, generate, stream
from fl_text.language_model_folder import LanguageModelFolder

#: The largest prompt from standard input, in characters.
_MOST = 1 << 24


def main(arguments: list[str]) -> int:
    """Print the continuation of each prompt."""
    parser = _parser()
    given = parser.parse_args(arguments)
    _check(parser, given)
    texts = _prompts(given)
    with runtime(given):
        model = causal_model_of(given)
        network = CompiledNetwork(model.network)
        prefix = prefix_of(model, given.bos)
        tokens = [[*prefix, *model.tokenizer.encode(text)] for text in texts]
        for number, row in enumerate(tokens):
            if not row:
                raise TextError(
                    f"prompt {number} has no tokens, and the model was trained without a token "
                    "before each text: give text"
                )
        if given.max_new_tokens is None:
            room = 128 if network.steps is None else network.steps + 1 - max(map(len, tokens))
            given.max_new_tokens = 128 if given.sliding else max(1, min(128, room))
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8", errors="replace")
        if _streams(given, len(texts)):
            _stream(network, model, texts[0], tokens, given)
            return 0
        several = len(texts) > 1
        for number, found in enumerate(_results(network, model, tokens, given)):
            if given.json:
                for result in found:
                    print(json.dumps(_described(number, texts[number], result), ensure_ascii=False))
                continue
            if several:
                print(f"==> {texts[number]} <==")
            print((texts[number] if given.echo else "") + found[0].text, flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fl-text generate",
        description="Continue prompts by a language model. Without --prompt and --prompts the "
        "prompt is standard input.",
        allow_abbrev=False,
    )
    model_options(parser)
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group().add_argument
    source("--prompt", metavar="TEXT", help="the text to continue")
    source("--prompts", type=Path, metavar="FILE", help="UTF-8 text, a prompt a line")
    what = "default: 128, or what is left of the context"
    add("--max-new-tokens", type=at_least(1), metavar="N", help=what)
    add("--stop", action="append", default=[], metavar="TEXT", help="ends a text; may be repeated")
    what = "begin with the token that stood before texts in training (where one stood)"
    add("--bos", action=argparse.BooleanOptionalAction, default=None, help=what)
    what = "go on where the context of the network ends, with the later half of the tokens"
    add("--sliding", action="store_true", help=what)
    chosen = parser.add_argument_group("choice of tokens").add_argument
    what = "0 takes the likeliest token, above 0 one is drawn (%(default)s)"
    chosen("--temperature", type=float, default=0.0, metavar="X", help=what)
    chosen("--top-k", type=at_least(0), default=0, metavar="N", help="of the N likeliest; 0: all")
    what = "of the likeliest with this probability together (%(default)s)"
    chosen("--top-p", type=float, default=1.0, metavar="P", help=what)
    what = "of those with this share of the highest probability (%(default)s)"
    chosen("--min-p", type=float, default=0.0, metavar="P", help=what)
    what = "above 1 tokens that occurred are less likely (%(default)s)"
    chosen("--repetition-penalty", type=float, default=1.0, metavar="X", help=what)
    chosen("--seed", type=at_least(0), default=0, metavar="N", help="of draws (%(default)s)")
    what = "search with N beams in place of drawing (1: none)"
    chosen("--beams", type=at_least(1), default=1, metavar="N", help=what)
    what = "continuations of each prompt, of the beams; needs --json (%(default)s)"
    chosen("--best", type=at_least(1), default=1, metavar="N", help=what)
    shown = parser.add_argument_group("output").add_argument
    shown("--batch-size", type=at_least(1), default=8, metavar="N", help="prompts (%(default)s)")
    what = "print tokens as they come (for one prompt, without --json and --beams)"
    shown("--stream", action=argparse.BooleanOptionalAction, default=None, help=what)
    shown("--echo", action="store_true", help="print the prompt before its continuation")
    what = "a line for each continuation: prompt, text, tokens, finish, score"
    shown("--json", action="store_true", help=what)
    runtime_options(parser)
    return parser


def _check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    if given.stream and (given.json or given.beams > 1 or given.prompts is not None):
        parser.error("--stream goes without --json, --beams and --prompts")
    if given.beams > 1 and (given.temperature or given.top_k or given.stop or given.sliding):
        parser.error("--beams goes without --temperature, --top-k, --stop and --sliding")
    if given.beams > 1 and (given.top_p != 1.0 or given.min_p):
        parser.error("--beams goes without --top-p and --min-p")
    if given.best > given.beams:
        parser.error(f"--best {given.best} of --beams {given.beams}: at most as many as beams")
    if given.best > 1 and not given.json:
        parser.error("--best needs --json")


def _prompts(given: argparse.Namespace) -> list[str]:
    if given.prompt is not None:
        return [given.prompt]
    if given.prompts is None:
        try:
            text = sys.stdin.read(_MOST + 1)
        except UnicodeDecodeError as error:
            raise TextError(f"standard input is no text ({error})") from error
        if len(text) > _MOST:
            raise TextError(f"standard input has more than {_MOST} characters: give less")
        return [text.removesuffix("\n")]
    found = [line.rstrip("\n") for line in TextFiles(given.prompts)]
    if not found:
        raise TextError(f"{given.prompts}: it has no lines: write a prompt a line")
    return found


def prefix_of(model: LanguageModelFolder, bos: bool | None) -> list[int]:
    """The tokens before each prompt: as in training, or with `bos` always or never one."""
    if bos is False:
        return []
    tokenizer = model.tokenizer
    first = tokenizer.eos_id if tokenizer.bos_id is None else tokenizer.bos_id
    if model.generation is not None:  # of Hugging Face
        found = tokenizer.prefix()
        first = model.generation.bos_id if model.generation.bos_id is not None else first
    elif model.sample in ("line", "documents"):
        found = [first]
    else:  # one stretch of text, in which lines end with the end token if at all
        found = [tokenizer.eos_id] if model.eos else []
    found = [token for token in found if token is not None]
    if bos and not found:
        if first is None:
            raise TextError("--bos: the tokenizer has no token that begins or ends a text")
        return [first]
    return found


def _ends(model: LanguageModelFolder) -> Any:
    generation = model.generation
    return generation.eos_ids if generation is not None and generation.eos_ids else None


def _streams(given: argparse.Namespace, prompts: int) -> bool:
    possible = prompts == 1 and not given.json and given.beams == 1
    return possible if given.stream is None else bool(given.stream and possible)


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    names = ("temperature", "top_k", "top_p", "min_p", "seed", "stop", "sliding")
    return {name: getattr(given, name) for name in names} | _shared(given)


def _shared(given: argparse.Namespace) -> dict[str, Any]:
    names = ("max_new_tokens", "repetition_penalty")
    return {name: getattr(given, name) for name in names}


def _stream(
    network: CompiledNetwork,
    model: LanguageModelFolder,
    text: str,
    tokens: list[list[int]],
    given: argparse.Namespace,
) -> None:
    pieces = stream(network, tokens, model.tokenizer, eos=_ends(model), **_settings(given))
    if given.echo:
        sys.stdout.write(text)
    for piece in pieces:
        if piece.text:
            sys.stdout.write(piece.text)
            sys.stdout.flush()
    print(flush=True)


def _results(
    network: CompiledNetwork,
    model: LanguageModelFolder,
    tokens: list[list[int]],
    given: argparse.Namespace,
) -> Iterator[Sequence[Generation]]:
    """The continuations of each prompt, in the order of the prompts."""
    for first in range(0, len(tokens), given.batch_size):
        rows = tokens[first : first + given.batch_size]
        shared: dict[str, Any] = {"eos": _ends(model)}
        if given.beams > 1:
            shared |= {"beams": given.beams, "best": given.best} | _shared(given)
            yield from beam_search(network, rows, model.tokenizer, **shared)
            continue
        shared |= {"first_row": first, "with_scores": given.json} | _settings(given)
        yield from ([one] for one in generate(network, rows, model.tokenizer, **shared))


def _described(number: int, prompt: str, result: Generation) -> dict[str, Any]:
    return {
        "number": number,
        "prompt": prompt,
        "text": result.text,
        "tokens": result.tokens,
        "finish": result.finish,
        "score": result.score,
    }
