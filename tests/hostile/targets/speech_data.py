"""Datasets of speech: list files, targets, features, reports."""

from __future__ import annotations

import fl_speech as speech
import fl_text as text
from bad_values import KINDS, Bad, value
from cases import Target
from fl_speech import datasets, reports
from targets.files import _wav
from targets.making import At, target, x

LINES = At("a.lst", b"one a.wav 100 hello\n")
DIGITS = At("digits", {"7_anna_3.wav": _wav()})
BOOK = At("book", {"84-1.trans.txt": b"84-1 HELLO\n", "84-1.wav": _wav()})


def single() -> list[datasets.Utterance]:
    return [datasets.Utterance("one", "/a.wav", 100.0, ("seven",), "anna")]


def tokens() -> text.Dictionary:
    return text.Dictionary(["|", "a", "b", "#"])


def spoken() -> list[datasets.Utterance]:
    return [datasets.Utterance("one", "/a.wav", 100.0, ("a",))]


def features() -> speech.LogMel:
    return speech.LogMel(speech.FeatureParams(sample_rate=8000))


def targets() -> datasets.TargetGenerator:
    return datasets.TargetGenerator(tokens())


def data_of() -> datasets.SpeechDataset:
    return datasets.SpeechDataset(spoken(), features(), targets())


TARGETS: list[Target] = [
    target(
        "speech.datasets.ListFile",
        {"0": LINES},
        _0=[
            *[bad for bad in KINDS["input_path"] if bad.label != "[]"],
            Bad("too few fields", At("a.lst", b"one a.wav\n").make),
            Bad("a wrong duration", At("a.lst", b"one a.wav long hello\n").make),
            Bad("an id twice", At("a.lst", b"one a.wav 1 x\none b.wav 1 y\n").make),
            Bad("no words", At("a.lst", b"one a.wav 1\n").make),
        ],
        root=[value(3.5), value([]), value({"a": 1})],
        transcripts="choice",
        on_error="choice",
    ),
    target(
        "speech.datasets.write_list_file",
        {"0": At("out.lst"), "1": spoken},
        _0="output_path",
        _1=[value(3), value([1]), value([datasets.Utterance("a b", "/a", 1.0)])],
    ),
    target("speech.datasets.named_lists", {"0": "a:b"}, _0="string"),
    target(
        "speech.datasets.read_digits", {"0": DIGITS}, _0="no_path", split="choice", words="mapping"
    ),
    target("speech.datasets.read_librispeech", {"0": BOOK}, _0="no_path", lower="flag"),
    target(
        "speech.datasets.TargetOptions",
        {},
        separator="string",
        sample="fraction",
        unknown="choice",
        surround="string",
        replabels="count",
    ),
    target(
        "speech.datasets.TargetGenerator",
        {"0": tokens, "options": lambda: datasets.TargetOptions()},
        _0="module",
        lexicon=[value(3), value("a"), value({"a": ["b"]})],
        options=[value(3), value(datasets.TargetOptions(surround="+"))],
    ),
    target(
        "speech.datasets.TargetGenerator called",
        {"0": ["a"]},
        call=lambda words: datasets.TargetGenerator(tokens())(words),
        _0=[value(3), value(None), value("ab"), value([3]), value(["z"]), value([None])],
    ),
    target(
        "speech.datasets.TranscriptReader",
        {"0": tokens},
        _0="module",
        decoding="choice",
        blank=[value(-1), value("no"), value(1.5), value([])],
    ),
    target(
        "speech.datasets.TranscriptReader reads",
        {"0": [1, 2, 0]},
        call=lambda numbers: datasets.TranscriptReader(tokens()).prediction(numbers),
        _0=[value(3), value(None), value("ab"), value([9]), value([1.5]), value([True])],
    ),
    target(
        "speech.datasets.SpeechDataset",
        {"utterances": spoken, "features": features, "targets": targets},
        utterances=[value(3), value([1]), value("ab")],
        features=[*KINDS["callable"], value(len)],
        targets="callable",
        effects="callable",
        effects_from="count",
        normalize="callable",
        subsampling="count",
        on_error="choice",
        load="callable",
        cache_bytes="count",
        cache_folder=[value(3.5), value([]), value("\0")],
        seed=[value(-1), value(1.5), value("1")],
    ),
    target(
        "speech.datasets.batches",
        {"ds": data_of, "size": 1},
        ds="module",
        size=[*KINDS["count"], value(0)],
        strategy="choice",
        max_duration_ms=[value(1.0), value("1")],
        rank=[value(-1), value(1), value("0")],
        world_size="positive",
    ),
    target(
        "speech.datasets.filter_utterances",
        {"utterances": spoken},
        utterances=[value(3), value([1])],
        targets="callable",
        minisz=[value(-1.0), value(float("nan")), value("1")],
        maxisz=[value(-1.0), value("1"), value(None)],
        mintsz="count",
        maxtsz=[value(-1.0), value("1"), value(3)],
    ),
    target(
        "speech.datasets.SpeechStatMeter",
        {"inputs": [1, 2], "targets": [3, 4]},
        call=lambda inputs, targets: datasets.SpeechStatMeter().add(inputs, targets),
        inputs=[value(3), value("ab"), value([1]), value([-1, 1]), value([1.5, 1])],
    ),
    target(
        "speech.datasets.Grammar",
        {},
        words=[value("ab"), value(["a"]), value(["a", "a"]), value(3)],
        perplexity=[value(1.0), value(11.0), value(float("nan")), value("6")],
        min_words="positive",
        max_words="positive",
    ),
    target(
        "speech.datasets.Grammar draws",
        {"count": 2},
        call=lambda count, **o: datasets.Grammar().strings(count, **o),
        count="count",
        without=[value(3)],
    ),
    target(
        "speech.datasets.ConnectedWords",
        {"0": single, "1": [("seven",)]},
        _0=[value(3), value([1]), value([datasets.Utterance("a", "/a", 1.0)])],
        _1=[value(3), value([1]), value([("eight",)]), value([()])],
        pause_ms=[value((2.0, 1.0)), value((-1.0, 1.0)), value(3), value("ab")],
        noise_db=[value((2.0, 1.0)), value((0.0, float("inf"))), value(3), value("ab")],
        seed=[value(-1), value(1.5), value("1")],
        name="string",
    ),
    target(
        "speech.datasets.word_bounds",
        {"samples": lambda: x(800), "sample_rate": 8000},
        samples="array",
        sample_rate="positive",
        below_db="rate",
        frame_ms="rate",
    ),
    target(
        "speech.reports.align_tokens",
        {"0": ["a"], "1": ["b"]},
        _0=[value(3), value("ab"), value(None)],
        _1=[value(3), value("ab"), value(None)],
    ),
    target("speech.reports.ErrorReport", {"title": "t"}, title="string"),
    target(
        "speech.reports.ErrorReport saved",
        {"0": At("r.html")},
        call=lambda path: reports.ErrorReport().save(path),
        _0="output_path",
    ),
    target("speech.datasets.collapse", {"0": [1, 1, 2]}, _0=[value(3), value("x"), value(None)]),
    target("speech.datasets.words_of", {"0": ["a", "|"]}, _0=[value(3), value([1]), value(None)]),
]
UNTRIED: dict[str, str] = {
    "speech.reports.Pair": "what align_tokens returns",
    "speech.reports.ReportLine": "what ErrorReport holds",
    "speech.datasets.Filtered": "what filter_utterances returns",
    "speech.datasets.SpeechStats": "what SpeechStatMeter gives",
    "speech.datasets.Transcript": "what TranscriptReader returns",
    "speech.datasets.WordTime": "what ConnectedWords gives",
    "speech.datasets.Utterance": "a record of what a list file says; datasets check it",
}
