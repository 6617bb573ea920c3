"""Targets of words and transcripts of targets."""

from __future__ import annotations

import pytest

import fl_tensor as ft
import fl_text as text
from fl_speech.datasets import TargetGenerator, TargetOptions, TranscriptReader, collapse, words_of
from fl_speech.errors import SpeechDataError

TOKENS = ["|", "a", "b", "l", "<1>", "</s>", "ab|"]


@pytest.fixture
def tokens() -> text.Dictionary:
    return text.Dictionary(TOKENS)


@pytest.fixture
def lexicon() -> text.Lexicon:
    return text.Lexicon({"ab": [["a", "b", "|"], ["ab|"]], "ball": [["b", "a", "l", "l", "|"]]})


def spelled(generator: TargetGenerator, *words: str) -> str:
    return " ".join(TOKENS[number] for number in generator(words))


def test_words_are_spelled_by_the_lexicon(tokens: text.Dictionary, lexicon: text.Lexicon) -> None:
    assert spelled(TargetGenerator(tokens, lexicon), "ball", "ab") == "b a l l | a b |"


@pytest.mark.parametrize(
    ("unknown", "expected"), [("skip", "a b |"), ("left", "| l a a b |"), ("right", "l a | a b |")]
)
def test_words_without_spelling(
    tokens: text.Dictionary, lexicon: text.Lexicon, unknown: str, expected: str
) -> None:
    with pytest.raises(SpeechDataError, match="'la' has no spelling.*unknown='right'"):
        TargetGenerator(tokens, lexicon)(["la"])
    options = TargetOptions(unknown=unknown)  # type: ignore[arg-type]
    assert spelled(TargetGenerator(tokens, lexicon, options), "la", "ab") == expected


def test_without_a_lexicon_words_are_letters(tokens: text.Dictionary) -> None:
    assert spelled(TargetGenerator(tokens), "la", "b") == "l a | b |"
    options = TargetOptions(unknown="left")
    assert spelled(TargetGenerator(tokens, options=options), "la") == "| l a"


def test_surround_replabels_and_the_end(tokens: text.Dictionary, lexicon: text.Lexicon) -> None:
    options = TargetOptions(surround="|", replabels=1, eos=True)
    made = TargetGenerator(tokens, lexicon, options)
    assert spelled(made, "ball") == "| b a l <1> | <1> </s>"
    assert spelled(made) == "| <1> </s>"


def test_spellings_are_drawn(tokens: text.Dictionary, lexicon: text.Lexicon) -> None:
    made = TargetGenerator(tokens, lexicon, TargetOptions(sample=0.5))
    drawn = [made(["ab"], ft.Generator(seed)) for seed in range(200)]
    assert drawn == [made(["ab"], ft.Generator(seed)) for seed in range(200)]
    second = sum(target == [TOKENS.index("ab|")] for target in drawn)
    assert 25 <= second <= 75  # half of the time one of two: a quarter of 200
    assert made(["ab"]) == [1, 2, 0]


def test_tokens_outside_the_dictionary(tokens: text.Dictionary) -> None:
    with pytest.raises(SpeechDataError, match="the token 'z' is not in"):
        TargetGenerator(tokens)(["za"])
    for options in (TargetOptions(surround="+"), TargetOptions(separator="+")):
        with pytest.raises(SpeechDataError, match="'[+]' of"):
            TargetGenerator(tokens, None, options)
    with pytest.raises(SpeechDataError, match="'</s>' of eos"):
        TargetGenerator(text.Dictionary(["a", "|"]), None, TargetOptions(eos=True))
    with pytest.raises(text.TextError, match="<2>"):
        TargetGenerator(tokens, None, TargetOptions(replabels=2))
    tokens.set_default_index(3)
    assert TargetGenerator(tokens)(["za"]) == [3, 1, 0]


@pytest.mark.parametrize("wrong", [{"sample": 2.0}, {"unknown": "x"}, {"replabels": -1}])
def test_wrong_options(wrong: dict[str, object]) -> None:
    with pytest.raises(ft.FlError, match=next(iter(wrong))):
        TargetOptions(**wrong)  # type: ignore[arg-type]


def test_paths_collapse() -> None:
    assert collapse([1, 1, 9, 1, 2, 2, 9, 9], blank=9) == [1, 1, 2]
    assert collapse([1, 1, 2, 1]) == [1, 2, 1]
    assert collapse([]) == []


def test_words_are_cut_at_the_separator() -> None:
    assert words_of(["|", "a", "b|", "c", "|", "|"]) == ["ab", "c"]
    assert words_of(["ab", "c"], "") == ["ab", "c"]


@pytest.mark.parametrize(
    "options",
    [
        TargetOptions(),
        TargetOptions(surround="|"),
        TargetOptions(replabels=1),
        TargetOptions(surround="|", replabels=1, eos=True),
    ],
)
def test_targets_are_read_back(
    tokens: text.Dictionary, lexicon: text.Lexicon, options: TargetOptions
) -> None:
    target = TargetGenerator(tokens, lexicon, options)(["ball", "ab"])
    found = TranscriptReader(tokens, options).target([*target, -1, -1])
    assert found.words == ["ball", "ab"] and found.text == "ball ab"
    assert "".join(found.tokens) == "ball|ab|"
    assert TranscriptReader(tokens, options).target(ft.asarray(target)).words == found.words


def test_predictions_of_criteria(tokens: text.Dictionary) -> None:
    after = len(TOKENS)
    ctc = TranscriptReader(tokens)
    assert ctc.prediction([1, 1, after, 1, 0, 2, after]).words == ["aa", "b"]
    assert TranscriptReader(tokens, blank="<1>").prediction([1, 4, 1]).words == ["aa"]
    with_blank = text.Dictionary(["a", "#"])
    assert TranscriptReader(with_blank).prediction([0, 1, 0, 0]).words == ["aa"]
    asg = TranscriptReader(tokens, TargetOptions(replabels=1), "asg")
    assert asg.prediction([2, 2, 1, 3, 4, 4, 0]).words == ["ball"]
    seq2seq = TranscriptReader(tokens, TargetOptions(eos=True), "seq2seq")
    assert seq2seq.prediction([1, 1, 0, 5, 2]).words == ["aa"]


def test_word_pieces_as_letters(tokens: text.Dictionary) -> None:
    found = TranscriptReader(tokens, letters=True).target([6, 1])
    assert found.tokens == ["a", "b", "|", "a"] and found.words == ["ab", "a"]


@pytest.mark.parametrize("numbers", [[7], [-2], [True], [1.5], 3, "ab"])
def test_numbers_that_are_no_tokens(tokens: text.Dictionary, numbers: object) -> None:
    with pytest.raises(SpeechDataError):
        TranscriptReader(tokens).target(numbers)  # type: ignore[arg-type]


def test_readers_that_cannot_be(tokens: text.Dictionary) -> None:
    with pytest.raises(ft.DTypeError, match="decoding 'x'"):
        TranscriptReader(tokens, None, "x")  # type: ignore[arg-type]
    for blank in ("no", -1, True):
        with pytest.raises(SpeechDataError, match="blank"):
            TranscriptReader(tokens, blank=blank)
