"""Image transforms for training and evaluation, alone, in chains, and from JSON files.

A transform is a frozen dataclass, called with a tensor (C, H, W), a picture of Pillow, or an
`AnnotatedImage`. Random ones draw from an `ft.Generator`.
"""

from fl_vision.transforms.affine import Affine as Affine
from fl_vision.transforms.affine import RandomAffine as RandomAffine
from fl_vision.transforms.affine import Rotate as Rotate
from fl_vision.transforms.affine import ShearX as ShearX
from fl_vision.transforms.affine import ShearY as ShearY
from fl_vision.transforms.affine import TranslateX as TranslateX
from fl_vision.transforms.affine import TranslateY as TranslateY
from fl_vision.transforms.annotated import AnnotatedImage as AnnotatedImage
from fl_vision.transforms.blur import GaussianBlur as GaussianBlur
from fl_vision.transforms.blur import RandomGaussianBlur as RandomGaussianBlur
from fl_vision.transforms.blur import Sharpness as Sharpness
from fl_vision.transforms.colour import ColorJitter as ColorJitter
from fl_vision.transforms.colour import Grayscale as Grayscale
from fl_vision.transforms.colour import Hue as Hue
from fl_vision.transforms.colour import RandomGrayscale as RandomGrayscale
from fl_vision.transforms.colour import Saturation as Saturation
from fl_vision.transforms.config import create_transforms as create_transforms
from fl_vision.transforms.config import read_transforms as read_transforms
from fl_vision.transforms.config import write_transforms as write_transforms
from fl_vision.transforms.crops import CenterCrop as CenterCrop
from fl_vision.transforms.crops import Crop as Crop
from fl_vision.transforms.crops import Pad as Pad
from fl_vision.transforms.detection import detection_evaluation as detection_evaluation
from fl_vision.transforms.detection import detection_training as detection_training
from fl_vision.transforms.draws import Draws as Draws
from fl_vision.transforms.erasing import Erase as Erase
from fl_vision.transforms.erasing import RandomErasing as RandomErasing
from fl_vision.transforms.flips import HorizontalFlip as HorizontalFlip
from fl_vision.transforms.flips import RandomHorizontalFlip as RandomHorizontalFlip
from fl_vision.transforms.flips import RandomVerticalFlip as RandomVerticalFlip
from fl_vision.transforms.flips import VerticalFlip as VerticalFlip
from fl_vision.transforms.mixing import MixedBatches as MixedBatches
from fl_vision.transforms.mixing import Mixing as Mixing
from fl_vision.transforms.mixing import label_distributions as label_distributions
from fl_vision.transforms.normalise import Normalise as Normalise
from fl_vision.transforms.normalise import channel_statistics as channel_statistics
from fl_vision.transforms.pixels import picture_of as picture_of
from fl_vision.transforms.rand_augment import RandAugment as RandAugment
from fl_vision.transforms.random_crops import RandomCrop as RandomCrop
from fl_vision.transforms.random_crops import RandomResizedCrop as RandomResizedCrop
from fl_vision.transforms.random_crops import RandomSizeCrop as RandomSizeCrop
from fl_vision.transforms.resize import RandomResize as RandomResize
from fl_vision.transforms.resize import Resize as Resize
from fl_vision.transforms.resize import ResizeShortestSide as ResizeShortestSide
from fl_vision.transforms.shift import RandomShift as RandomShift
from fl_vision.transforms.shift import random_shift as random_shift
from fl_vision.transforms.tables import histogram as histogram
from fl_vision.transforms.tones import AutoContrast as AutoContrast
from fl_vision.transforms.tones import Brightness as Brightness
from fl_vision.transforms.tones import Contrast as Contrast
from fl_vision.transforms.tones import Equalize as Equalize
from fl_vision.transforms.tones import Invert as Invert
from fl_vision.transforms.tones import Posterize as Posterize
from fl_vision.transforms.tones import Solarize as Solarize
from fl_vision.transforms.tones import SolarizeAdd as SolarizeAdd
from fl_vision.transforms.transform import Compose as Compose
from fl_vision.transforms.transform import DrawnTransform as DrawnTransform
from fl_vision.transforms.transform import FixedTransform as FixedTransform
from fl_vision.transforms.transform import ImageTransform as ImageTransform
from fl_vision.transforms.transform import RandomApply as RandomApply
from fl_vision.transforms.transform import RandomSelect as RandomSelect
