"""``ErrorReport``: error rates of words and letters, and where the errors are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from fl_nn.meters import EditDistanceMeter
from fl_speech.errors import SpeechDataError
from fl_speech.reports.alignment import Pair, align_tokens
from fl_tensor.annotations import Checked, checked
from fl_tensor.html import element, table
from fl_text.extend import write_text

_STYLE = (
    "body{font-family:sans-serif}table{border-collapse:collapse}td,th{border:1px solid #ccc;"
    "padding:2px 6px}.substitution{background:#fd8}.deletion{background:#f99}"
    ".insertion{background:#9cf}"
)


class ReportLine(NamedTuple):
    """An utterance of a report: its id, and its aligned words."""

    id: str
    pairs: list[Pair]

    @property
    def errors(self) -> int:
        return sum(pair.kind != "correct" for pair in self.pairs)


class ErrorReport(Checked):
    """Word and letter error rates (WER, LER) in percent, with the alignment of each utterance.

    `words` and `letters` are `fl_nn.EditDistanceMeter`s. Letters are the tokens given to `add`,
    or else the characters of the words and a space between them.
    """

    def __init__(self, title: str = "Recognition errors") -> None:
        self.title = title
        self.words, self.letters = EditDistanceMeter(), EditDistanceMeter()
        self.lines: list[ReportLine] = []

    def add(
        self,
        id: str,
        reference: Sequence[str],
        hypothesis: Sequence[str],
        *,
        reference_tokens: Sequence[str] | None = None,
        hypothesis_tokens: Sequence[str] | None = None,
    ) -> None:
        """An utterance: its words, and those that were recognised. Raises `SpeechDataError` for a
        text in place of a list of words, and for tokens of one of the two alone."""
        if (reference_tokens is None) != (hypothesis_tokens is None):
            raise SpeechDataError("tokens of one side alone", "give both or none", id=id)
        pairs = align_tokens(reference, hypothesis)
        self.lines.append(ReportLine(id, pairs))
        self.words.add(hypothesis, reference)
        self.letters.add(
            " ".join(hypothesis) if hypothesis_tokens is None else hypothesis_tokens,
            " ".join(reference) if reference_tokens is None else reference_tokens,
        )

    @property
    def wer(self) -> float:
        """Word errors in percent of the words of references: NaN without words."""
        return self.words.result()

    @property
    def ler(self) -> float:
        """Letter errors in percent of the letters of references."""
        return self.letters.result()

    def confusions(self) -> list[tuple[str, str, int]]:
        """`(reference, hypothesis, count)` of each error, the most frequent first; "" stands for
        nothing, in deletions and insertions."""
        counts = Counter(
            (pair.reference or "", pair.hypothesis or "")
            for line in self.lines
            for pair in line.pairs
            if pair.kind != "correct"
        )
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [(reference, hypothesis, count) for (reference, hypothesis), count in ordered]

    def summary(self) -> str:
        """One line: both rates and the counts of word errors."""
        counts = self.words.value
        return (
            f"WER {self.wer:.2f} % ({counts.errors} of {counts.n} words: {counts.substitutions} "
            f"substitutions, {counts.deletions} deletions, {counts.insertions} insertions), LER "
            f"{self.ler:.2f} %, {len(self.lines)} utterances"
        )

    def text(self, *, errors_only: bool = True) -> str:
        """The report as text: the summary, confusions, and utterances with reference above
        hypothesis, `*` for nothing. `errors_only` leaves out those without errors."""
        parts = [self.title, self.summary(), ""]
        parts += [f"{n:6}  {a or '*'} -> {b or '*'}" for a, b, n in self.confusions()]
        for line in self._shown(errors_only):
            rows = [(pair.reference or "*", pair.hypothesis or "*") for pair in line.pairs]
            widths = [max(map(len, row)) for row in rows]
            parts += ["", f"{line.id}: {line.errors} errors"]
            for side, name in ((0, "REF"), (1, "HYP")):
                cells = (row[side].ljust(n) for row, n in zip(rows, widths, strict=True))
                parts.append(f"{name}: {' '.join(cells)}".rstrip())
        return "\n".join(parts) + "\n"

    def html(self, *, errors_only: bool = True) -> str:
        """The report as one HTML page without other files; everything in it is escaped."""
        head = ("reference", "hypothesis", "count")
        rows = [(a or "*", b or "*", str(n)) for a, b, n in self.confusions()]
        shown = "".join(_aligned(line) for line in self._shown(errors_only))
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            f"{element('title', self.title)}<style>{_STYLE}</style></head><body>"
            f"{element('h1', self.title)}{element('p', self.summary())}"
            f"{table('Confusions', head, rows)}{shown}</body></html>\n"
        )

    @checked
    def save(self, path: str | os.PathLike[str], *, errors_only: bool = True) -> None:
        """Write the report: HTML to a path that ends in `.html`, else text. Raises
        `fl_text.TextFileError` for a file that cannot be written."""
        page = os.fsdecode(path).lower().endswith(".html")
        write_text(path, (self.html if page else self.text)(errors_only=errors_only))

    def _shown(self, errors_only: bool) -> list[ReportLine]:
        return [line for line in self.lines if line.errors or not errors_only]

    def __repr__(self) -> str:
        return f"ErrorReport({self.summary()})"


def _aligned(line: ReportLine) -> str:
    rows = []
    for side in (0, 1):
        cells = (f'<td class="{pair.kind}">{escape(pair[side] or "*")}</td>' for pair in line.pairs)
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"{element('h3', f'{line.id}: {line.errors} errors')}<table>{''.join(rows)}</table>"
