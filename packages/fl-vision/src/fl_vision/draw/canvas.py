"""A picture with text: fonts, colours, anchored strings, an atomic save."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from fl_tensor.files import replacing
from fl_vision.errors import DataFileError

INK = "#1f2933"
FAINT = "#7b8794"
GRID = "#e4e7eb"
PAPER = "#ffffff"
BLUE = "#2563a8"
ORANGE = "#d9730d"
GREEN = "#18794e"
RED = "#c62a2f"

# Pillow does not smooth lines: everything is drawn this many times larger, then reduced.
_SCALE = 3


class Canvas:
    """A drawing surface in pixels of the final picture, origin top left."""

    def __init__(self, width: int, height: int, background: str = PAPER) -> None:
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * _SCALE, height * _SCALE), background)
        self._draw = ImageDraw.Draw(self._image)

    def text(
        self,
        at: tuple[float, float],
        string: str,
        *,
        size: int = 13,
        colour: str = INK,
        anchor: str = "la",
        weight: float = 0.0,
    ) -> None:
        """Write `string`; `anchor` as in Pillow ("mm" centred ...); `weight` above 0 is bold."""
        self._draw.text(
            _scaled(at),
            string,
            font=ImageFont.load_default(size * _SCALE),
            fill=colour,
            anchor=anchor,
            stroke_width=round(weight * _SCALE / 3),
            stroke_fill=colour,
        )

    def text_width(self, string: str, size: int = 13) -> float:
        """The width of `string` in pixels."""
        return ImageFont.load_default(size * _SCALE).getlength(string) / _SCALE

    def line(self, points: list[tuple[float, float]], colour: str, width: float = 1.0) -> None:
        """A polyline with round joints."""
        self._draw.line(
            [_scaled(point) for point in points],
            fill=colour,
            width=max(1, round(width * _SCALE)),
            joint="curve",
        )

    def dot(self, at: tuple[float, float], radius: float, colour: str) -> None:
        """A filled circle with a thin rim in the colour of the paper."""
        for reach, fill in ((radius + 1, PAPER), (radius, colour)):
            (x, y), r = _scaled(at), reach * _SCALE
            self._draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)

    def box(
        self,
        corner: tuple[float, float],
        width: float,
        height: float,
        *,
        fill: str | None = None,
        outline: str | None = None,
        line: float = 1.0,
        radius: float = 0.0,
    ) -> None:
        """A rectangle, with round corners if `radius` is positive."""
        x, y = _scaled(corner)
        self._draw.rounded_rectangle(
            (x, y, x + width * _SCALE, y + height * _SCALE),
            radius=radius * _SCALE,
            fill=fill,
            outline=outline,
            width=max(1, round(line * _SCALE)),
        )

    def picture(self, corner: tuple[float, float], picture: Image.Image, side: int) -> None:
        """A square of `side` pixels showing `picture` with its pixels visible."""
        scale = side * _SCALE / max(picture.size)
        size = tuple(max(1, round(extent * scale)) for extent in picture.size)
        enlarged = picture.convert("RGB").resize((size[0], size[1]), Image.Resampling.NEAREST)
        x, y = _scaled(corner)
        offset = ((side * _SCALE - size[0]) // 2, (side * _SCALE - size[1]) // 2)
        self._image.paste(enlarged, (round(x) + offset[0], round(y) + offset[1]))

    def save(self, path: str | Path) -> Path:
        """Write a PNG, all of it or nothing."""
        path = Path(path)
        final = self._image.resize((self.width, self.height), Image.Resampling.LANCZOS)
        data = io.BytesIO()
        final.save(data, "PNG")
        try:
            with replacing(path) as file:
                file.write(data.getvalue())
        except OSError as error:
            raise DataFileError(
                "picture", path, str(error.strerror), "give another folder with --out"
            ) from None
        return path


def _scaled(at: tuple[float, float]) -> tuple[float, float]:
    return at[0] * _SCALE, at[1] * _SCALE
