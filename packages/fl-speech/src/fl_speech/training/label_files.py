"""Files of pseudo-labels: `RANK.lst` of each rank, and `RANK.fns` once that is complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fl_speech.datasets import ListFile, Utterance, write_list_file
from fl_speech.errors import SpeechDataError
from fl_text.extend import write_text


def write_labels(folder: Path, labels: Sequence[Utterance], rank: int, world_size: int) -> None:
    """Write the labels of a rank: a list file, then a marker that holds the number of ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / f"{rank}.fns"
    marker.unlink(missing_ok=True)
    write_list_file(folder / f"{rank}.lst", labels)
    write_text(marker, f"{world_size}\n")


def are_complete(folder: Path) -> bool:
    """Whether the labels of all ranks are in a folder."""
    return bool(_ranks(folder))


def read_labels(folder: Path, unlabelled: Sequence[Utterance]) -> list[Utterance]:
    """Recordings of a list with the words that a folder gives them.

    Raises `SpeechDataError` where labels of ranks are missing, and for those of a recording that
    the list does not have.
    """
    ranks = _ranks(folder)
    if not ranks:
        raise SpeechDataError(
            f"the labels of {folder} are not complete: RANK.lst or RANK.fns is missing",
            "restore the folder, or begin the training anew with --overwrite",
        )
    known = {one.id: one for one in unlabelled}
    found = []
    for label in ListFile(*(folder / f"{rank}.lst" for rank in ranks), transcripts="optional"):
        if label.id not in known:
            raise label.error(
                "the recordings without labels have no such sample",
                "give the lists that these labels were made for, or leave relabel_existing out",
            )
        found.append(replace(known[label.id], words=label.words))
    return found


def _ranks(folder: Path) -> range:
    """The ranks whose labels are in a folder; none unless all are."""
    try:
        ranks = range(int((folder / "0.fns").read_text()))
        same = {int((folder / f"{rank}.fns").read_text()) for rank in ranks}
    except (OSError, ValueError):
        return range(0)
    complete = same == {len(ranks)} and all((folder / f"{rank}.lst").is_file() for rank in ranks)
    return ranks if complete else range(0)
