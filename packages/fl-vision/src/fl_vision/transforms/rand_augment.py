"""RandAugment, as DeiT trains with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fl_vision.errors import ImageError
from fl_vision.transforms.affine import Rotate, ShearX, ShearY, TranslateX, TranslateY
from fl_vision.transforms.blur import Sharpness
from fl_vision.transforms.colour import Saturation
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import Fill, require_share
from fl_vision.transforms.resize import require_interpolation
from fl_vision.transforms.tones import (
    AutoContrast,
    Brightness,
    Contrast,
    Equalize,
    Invert,
    Posterize,
    Solarize,
    SolarizeAdd,
)
from fl_vision.transforms.transform import Compose, DrawnTransform, FixedTransform, ImageTransform

OPERATIONS = (
    *("auto_contrast", "equalize", "invert", "rotate", "posterize", "solarize", "solarize_add"),
    *("saturation", "contrast", "brightness", "sharpness"),
    *("shear_x", "shear_y", "translate_x", "translate_y"),
)
"""Their names, in the order in which numbers draw them."""

_FACTORS: dict[str, Callable[[float], FixedTransform]] = {
    "saturation": Saturation,
    "contrast": Contrast,
    "brightness": Brightness,
    "sharpness": Sharpness,
}
#: The mean colour of ImageNet.
_MEAN_COLOUR = (124.0, 116.0, 104.0)


@dataclass(frozen=True)
class RandAugment(DrawnTransform):
    """`operations` of 15 after one another, each applied with probability `p`.

    How strong one is follows from a magnitude from 0 to 10, normal with mean `magnitude` and
    deviation `deviation`. At 10 they are: rotation by 30 degrees, shear by 0.3, translation by 0.45
    of the image, factors of saturation, contrast, brightness and sharpness 0.1 or 1.9, 0 bits,
    all levels inverted, 110 levels more for dark ones. Both signs are equally likely.

    `fill` is the colour that comes in from outside. For uint8 images and pictures of 1 or 3
    channels. Cubuk et al. (2020); the settings are those of Touvron
    et al. (2021).
    """

    operations: int = 2
    magnitude: float = 9.0
    deviation: float = 0.5
    p: float = 0.5
    interpolation: str = "bicubic"
    fill: Fill = _MEAN_COLOUR

    def __post_init__(self) -> None:
        where = "RandAugment"
        if not 0 <= self.operations <= 100:
            raise ImageError(where, f"operations {self.operations}", "give 0 to 100")
        if not (0.0 <= self.magnitude <= 10.0 and 0.0 <= self.deviation <= 10.0):
            raise ImageError(
                where, f"magnitude {self.magnitude}, deviation {self.deviation}", "give 0 to 10"
            )
        require_share(where, p=self.p)
        require_interpolation(where, self.interpolation)

    def choose(self, height: int, width: int, draws: Draws) -> ImageTransform:
        chosen: list[ImageTransform] = []
        for _ in range(self.operations):
            name = draws.choice(OPERATIONS)
            if draws.chance(self.p):
                magnitude = draws.normal(self.magnitude, self.deviation)
                strength = min(max(magnitude, 0.0), 10.0) / 10.0
                sign = 1.0 if draws.chance(0.5) else -1.0
                chosen.append(self.operation(name, strength * sign, height, width))
        return Compose(tuple(chosen))

    def operation(self, name: str, strength: float, height: int, width: int) -> FixedTransform:
        """The operation of this name in `OPERATIONS` with a strength from -1 to 1, for an image of
        this size. Raises `ImageError` for other names and strengths."""
        share = abs(strength)
        if not share <= 1.0:
            raise ImageError("RandAugment", f"strength {strength}", "give -1 to 1")
        if name in _FACTORS:
            return _FACTORS[name](max(0.1, 1.0 + 0.9 * strength))
        warp = (self.interpolation, self.fill)
        match name:
            case "auto_contrast":
                return AutoContrast()
            case "equalize":
                return Equalize()
            case "invert":
                return Invert()
            case "rotate":
                return Rotate(30.0 * strength, *warp)
            case "posterize":
                return Posterize(4 - int(4.0 * share))
            case "solarize":
                return Solarize(256.0 - int(256.0 * share))
            case "solarize_add":
                return SolarizeAdd(min(128, int(110.0 * share)))
            case "shear_x":
                return ShearX(0.3 * strength, *warp)
            case "shear_y":
                return ShearY(0.3 * strength, *warp)
            case "translate_x":
                return TranslateX(0.45 * strength * width, *warp)
            case "translate_y":
                return TranslateY(0.45 * strength * height, *warp)
        raise ImageError(
            "RandAugment", f"operation {name!r}", f"give one of {', '.join(OPERATIONS)}"
        )
