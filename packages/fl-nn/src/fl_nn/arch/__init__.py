"""Architecture files: networks as text, in the grammar of Flashlight's SequentialBuilder. See
docs/arch-files.md.
"""

from fl_nn.arch.arguments import Axis as Axis
from fl_nn.arch.arguments import Padding as Padding
from fl_nn.arch.arguments import Probability as Probability
from fl_nn.arch.arguments import Size as Size
from fl_nn.arch.arguments import Whole as Whole
from fl_nn.arch.builder import build_sequential as build_sequential
from fl_nn.arch.flashlight_weights import load_flashlight_weights as load_flashlight_weights
from fl_nn.arch.tokens import TOKENS as TOKENS
from fl_nn.settings import Kind as Kind
