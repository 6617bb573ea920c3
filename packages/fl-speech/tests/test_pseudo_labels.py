"""Iterative pseudo-labelling: recordings without words are labelled by the recogniser itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from runs import NUMPY, SMALL, records
from spoken_tones import write_recordings

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_data import as_dataset
from fl_nn.training import trainer as trainer_module
from fl_speech.cli import main
from fl_speech.datasets import ListFile, Utterance, write_list_file
from fl_speech.errors import RecipeError, SpeechDataError
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser, load_recogniser
from fl_speech.training.data import Source
from fl_speech.training.label_files import are_complete, write_labels
from fl_speech.training.pseudo_labels import PseudoLabels, usable_labels
from fl_text.ngram import estimate, write_arpa

LEXICON = {"relabel_epochs": "2", "relabel_decoder": "lexicon"}
SAID = ["bc", "bc bc", "bc bc bc"] * 9


@pytest.fixture(scope="module")
def lists(task: Path) -> Path:
    """`six.lst` with words and `rest.lst` without, next to the lists of the task."""
    whole = ListFile(write_recordings(task, 18, 5, "pl"))
    write_list_file(task / "six.lst", whole[:6])
    write_list_file(task / "rest.lst", [Utterance(u.id, u.path, u.duration_ms) for u in whole[6:]])
    return task


@pytest.fixture
def callback(run: Path, lists: Path) -> Callable[..., PseudoLabels]:
    """Pseudo-labels of `rest.lst` by a trained recogniser, with settings of its recipe changed."""

    def make(
        communicator: dist.Communicator | None = None, folder: Path | None = None, **settings: Any
    ) -> PseudoLabels:
        recogniser = with_recipe(run, **{**LEXICON, **settings})
        return PseudoLabels(
            Source(recogniser),
            ListFile(lists / "six.lst"),
            ListFile(lists / "rest.lst", transcripts="optional"),
            communicator or dist.local(),
            folder=folder,
            valid="test",
        )

    return make


def end_epoch(labels: PseudoLabels, epoch: int, wer: float = 0.0) -> dict[str, Any]:
    record = {"epoch": epoch, "test_wer": wer}
    with ft.use("numpy"):
        labels.on_epoch_end(SimpleNamespace(ema=None), record)  # type: ignore[arg-type]
    return record


def words(utterances: Any) -> dict[str, Any]:
    return {one.id: one.words for one in utterances}


def train(lists: Path, out: str, *options: str) -> int:
    return main(
        [
            *("train", "--train", str(lists / "six.lst")),
            *("--unlabelled", str(lists / "rest.lst"), "--valid", f"test:{lists / 'test.lst'}"),
            *("--tokens", str(lists / "tokens.txt"), "--lexicon", str(lists / "lexicon.txt")),
            *("--unknown", "skip", "--out", str(lists / out), *SMALL, *options),
        ]
    )


def test_labels_are_written_and_trained_on(
    callback: Callable[..., PseudoLabels], lists: Path, tmp_path: Path
) -> None:
    labels = callback(folder=tmp_path)
    before = labels.batches.sources[0]
    assert end_epoch(labels, 1) == {"epoch": 1, "test_wer": 0.0}  # not an epoch of the plan
    record = end_epoch(labels, 2)
    folder = tmp_path / "generated_pl" / "epoch_2"
    assert {path.name for path in folder.iterdir()} == {"0.lst", "0.fns"}
    truth, found = words(ListFile(lists / "pl.lst")), words(ListFile(folder / "0.lst"))
    assert found == {name: truth[name] for name in found} and len(found) == 12
    assert (record["pseudo_labels"], record["pseudo_labels_left_out"]) == (12, 0)
    assert labels.batches.sources[0] is not before
    assert trained_on(labels) == {**words(ListFile(lists / "six.lst")), **found}


def trained_on(labels: PseudoLabels) -> dict[str, Any]:
    """The words of the recordings that batches are made of."""
    source: Any = labels.batches
    while not hasattr(source, "utterances"):
        (source,) = source.sources
    assert len(source.utterances) == labels.size
    return words(source.utterances)


def test_labelled_recordings_come_again_while_labels_are_missing(
    callback: Callable[..., PseudoLabels], lists: Path
) -> None:
    labels = callback()
    assert trained_on(labels) == words(ListFile(lists / "six.lst"))
    steps = len(labels.batches)
    end_epoch(labels, 2)
    assert len(labels.batches) == steps == -(-18 // 4)
    with pytest.raises(SpeechDataError, match="1 batches in place of 5"):
        labels.batches.exchange(as_dataset([0]))


def test_a_share_is_drawn_anew_each_time(callback: Callable[..., PseudoLabels]) -> None:
    labels = callback(relabel_epochs="2,4,5", relabel_ratio="0.25,0.25,0.5")
    assert labels.size == 6 + 6
    assert [end_epoch(labels, epoch)["pseudo_labels"] for epoch in (2, 4, 5)] == [3, 3, 6]
    other = callback(relabel_epochs="2,4,5", relabel_ratio="0.25,0.25,0.5")
    end_epoch(other, 2)
    first = trained_on(other)
    end_epoch(other, 4)
    assert trained_on(other).keys() != first.keys()
    end_epoch(other, 5)
    assert trained_on(other) == trained_on(labels)


def test_a_labelling_waits_for_the_error_rate(callback: Callable[..., PseudoLabels]) -> None:
    labels = callback(relabel_wer=20.0)
    assert "pseudo_labels" not in end_epoch(labels, 2, wer=20.5)
    assert "pseudo_labels" not in end_epoch(labels, 3, wer=float("nan"))
    waiting = callback(relabel_wer=20.0)
    waiting.load_state_dict(labels.state_dict())
    assert end_epoch(waiting, 4, wer=20.0)["pseudo_labels"] == 12
    assert "pseudo_labels" not in end_epoch(waiting, 5, wer=0.0)


def test_labels_that_are_there_are_used(
    callback: Callable[..., PseudoLabels], lists: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "generated_pl" / "epoch_2"
    folder.mkdir(parents=True)
    one = ListFile(lists / "rest.lst", transcripts="optional")[3]
    write_list_file(folder / "0.lst", [Utterance(one.id, one.path, 5.0, ("bc",))])
    settings = {"folder": tmp_path, "relabel_existing": True}
    (folder / "0.fns").write_text("2\n")  # of two ranks, one of which is missing
    assert end_epoch(callback(**settings), 2)["pseudo_labels"] == 12
    write_list_file(folder / "0.lst", [Utterance(one.id, one.path, 5.0, ("bc",))])
    labels = callback(**settings)
    assert end_epoch(labels, 2)["pseudo_labels"] == 1
    assert trained_on(labels)[one.id] == ("bc",)
    write_list_file(folder / "0.lst", [Utterance("other", one.path, 5.0, ("bc",))])
    with pytest.raises(SpeechDataError, match="line 1, sample 'other': .* have no such sample"):
        end_epoch(callback(**settings), 2)


def test_labels_of_another_number_of_ranks_are_not_complete(tmp_path: Path) -> None:
    for rank in range(2):
        write_labels(tmp_path, [], rank, 2)
    assert are_complete(tmp_path)
    write_labels(tmp_path, [], 1, 3)
    assert not are_complete(tmp_path)


def test_two_ranks_label_what_one_does(
    callback: Callable[..., PseudoLabels], tmp_path: Path
) -> None:
    alone = callback()
    end_epoch(alone, 2)

    def both(communicator: dist.Communicator) -> dict[str, Any]:
        labels = callback(communicator, tmp_path)
        end_epoch(labels, 2)
        return trained_on(labels)

    found = dist.load("threads").run(2, both)
    assert found == [trained_on(alone)] * 2
    folder = tmp_path / "generated_pl" / "epoch_2"
    assert sorted(p.name for p in folder.iterdir()) == ["0.fns", "0.lst", "1.fns", "1.lst"]
    assert len(ListFile(folder / "0.lst")) == len(ListFile(folder / "1.lst")) == 6
    resumed = callback(folder=tmp_path)
    resumed.load_state_dict({"labelled_after": 2, "due": 0})
    assert trained_on(resumed) == trained_on(alone)
    (folder / "1.lst").unlink()
    with pytest.raises(SpeechDataError, match="are not complete.*restore the folder"):
        callback(folder=tmp_path).load_state_dict({"labelled_after": 2, "due": 0})


def test_labels_by_beam_search_with_a_language_model(
    callback: Callable[..., PseudoLabels], tmp_path: Path
) -> None:
    path = str(tmp_path / "lm.arpa")
    write_arpa(path, estimate(SAID, 2, discount_fallback=(0.5, 1.0, 1.5)))
    labels = callback(relabel_lm=path, relabel_lm_weight=500.0)
    end_epoch(labels, 2)
    heard = [said for name, said in trained_on(labels).items() if int(name[2:]) >= 6]
    assert {word for said in heard for word in said} == {"bc"}


def test_words_of_the_best_path_without_a_target_are_left_out(
    callback: Callable[..., PseudoLabels], lists: Path, tmp_path: Path
) -> None:
    labels = callback(folder=tmp_path, relabel_decoder="greedy")
    record = end_epoch(labels, 2)
    assert record["pseudo_labels"] + record["pseudo_labels_left_out"] == 12
    written = words(ListFile(tmp_path / "generated_pl" / "epoch_2" / "0.lst"))
    known = {line.split()[0] for line in (lists / "lexicon.txt").read_text().splitlines()}
    unknown = {name for name, said in written.items() if not known.issuperset(said)}
    assert len(unknown) == record["pseudo_labels_left_out"] > 0
    assert not unknown & trained_on(labels).keys()


def test_limits_leave_labels_out(run: Path) -> None:
    recogniser = with_recipe(run)
    labels = [
        Utterance("good", "x", 500.0, ("ab", "ba")),
        Utterance("none", "x", 500.0, None),
        Utterance("unknown", "x", 500.0, ("xyz",)),
        Utterance("short", "x", 99.0, ("ab", "ba")),
        Utterance("long", "x", 901.0, ("ab", "ba")),
        Utterance("few", "x", 500.0, ("ab",)),
        Utterance("many", "x", 500.0, ("cab", "cab", "cab")),
    ]
    assert len(usable_labels(recogniser, labels)) == 5
    recogniser = with_recipe(
        run, relabel_minisz=100.0, relabel_maxisz=900.0, relabel_mintsz=5, relabel_maxtsz=9
    )
    assert [one.id for one in usable_labels(recogniser, labels)] == ["good"]


def test_a_resumed_training_ends_with_the_same_bits(
    lists: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--epochs", "3", "--relabel-epochs", "1,2", "--checkpoint-every", "2"]
    assert train(lists, "pl-whole", *options) == 0
    assert "labelled " in capsys.readouterr().out
    steps = trainer_module.train_step

    def killed(trainer: nn.Trainer, *arguments: Any) -> float:
        if trainer.step == 13:  # in the third epoch, after the checkpoint of step 12
            raise KeyboardInterrupt
        return steps(trainer, *arguments)

    monkeypatch.setattr(trainer_module, "train_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train(lists, "pl-killed", *options)
    monkeypatch.undo()
    assert main(["train", "--out", str(lists / "pl-killed"), "--resume", "--quiet", *NUMPY]) == 0
    one, two = lists / "pl-whole", lists / "pl-killed"
    assert len(records(one, "step")) == 3 * 5
    losses = [[r["train_loss"] for r in records(run, "epoch")] for run in (one, two)]
    assert losses[0] == losses[1]
    assert (one / "weights.safetensors").read_bytes() == (two / "weights.safetensors").read_bytes()
    for epoch in (1, 2):
        name = f"generated_pl/epoch_{epoch}/0.lst"
        assert (one / name).read_bytes() == (two / name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"relabel_epochs": "0"}, "give rising epochs from 1 on"),
        ({"relabel_epochs": "4,2"}, "give rising epochs"),
        ({"relabel_epochs": "two"}, "give rising epochs"),
        ({"relabel_epochs": "2", "relabel_ratio": "1.5"}, "one share above 0 and at most 1"),
        ({"relabel_epochs": "2,3", "relabel_ratio": "1,1,1"}, "or one each"),
        ({"relabel_minisz": 9, "relabel_maxisz": 5}, "relabel_maxisz 5 is below relabel_minisz 9"),
    ],
)
def test_plans_that_make_no_sense(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        Recipe(**settings)


def test_plans_that_fit_no_data(callback: Callable[..., PseudoLabels], run: Path) -> None:
    with pytest.raises(RecipeError, match="say after which epochs"):
        callback(relabel_epochs="")
    with pytest.raises(RecipeError, match="batching random or none, not dynamic"):
        callback(batching="dynamic", max_batch_duration=10.0)
    plain = Source(with_recipe(run, relabel_epochs="1", relabel_wer=5.0))
    with pytest.raises(RecipeError, match="--unlabelled LIST; relabel_wer .* give --valid"):
        PseudoLabels(plain, [], [], dist.local())
    labels = callback()
    labels.source.recogniser.lexicon = None
    with pytest.raises(RecipeError, match="needs a lexicon"):
        end_epoch(labels, 2)
    with pytest.raises(nn.StateDictError):
        labels.load_state_dict({"labelled_after": -1, "due": 0})


def with_recipe(run: Path, **settings: Any) -> Recogniser:
    with ft.use("numpy"):
        recogniser = load_recogniser(run)
    recogniser.recipe = recogniser.recipe.changed(**settings)
    return recogniser
