"""A figure that notebooks show. Importing this module loads matplotlib."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

__all__ = ["NotebookFigure"]


class NotebookFigure(Figure):
    """A figure of its own, without ``pyplot``, that a notebook shows as it shows those of
    ``pyplot``."""

    def _repr_png_(self) -> bytes:
        with io.BytesIO() as file:
            self.savefig(file, format="png")
            return file.getvalue()
