"""Image data sets, networks, and the command `fl-vision` that trains them."""

from fl_vision._version import __version__ as __version__
from fl_vision.datasets import DataOptions as DataOptions
from fl_vision.datasets import ImageData as ImageData
from fl_vision.datasets import ImageFolder as ImageFolder
from fl_vision.datasets import RandomCrops as RandomCrops
from fl_vision.datasets import dataset_names as dataset_names
from fl_vision.datasets import load_dataset as load_dataset
from fl_vision.errors import DataFileError as DataFileError
from fl_vision.errors import DataMissingError as DataMissingError
from fl_vision.errors import ExtraMissingError as ExtraMissingError
from fl_vision.errors import UsageError as UsageError
from fl_vision.idx import read_idx as read_idx
from fl_vision.images import decode_image as decode_image
from fl_vision.images import open_image as open_image
from fl_vision.images import pixels_of as pixels_of
from fl_vision.images import read_image as read_image
from fl_vision.models import cnn as cnn
from fl_vision.transforms import Normalise as Normalise
