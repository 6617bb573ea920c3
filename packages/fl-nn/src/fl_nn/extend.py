"""Parts of fl-nn for packages that define layers, losses and models of their own.

Provisional: names may change before 1.0.
"""

from fl_nn.distributed import broadcast_buffers as broadcast_buffers
from fl_nn.layers.pool import Pool1D as Pool1D
from fl_nn.layers.pool import Pool2D as Pool2D
from fl_nn.layers.pool import Pool3D as Pool3D
from fl_nn.layers.reparametrization import Reparametrization as Reparametrization
from fl_nn.losses.reduction import check_reduction as check_reduction
from fl_nn.losses.reduction import reduce as reduce
from fl_nn.padding import padding_mask as padding_mask
from fl_nn.padding import whole_lengths as whole_lengths
from fl_nn.padding import with_lengths as with_lengths
from fl_nn.recipes.options import given_settings as given_settings
from fl_nn.recipes.options import recipe_options as recipe_options
from fl_nn.recipes.options import ruled_argument as ruled_argument
from fl_nn.recipes.options import runtime as runtime
from fl_nn.recipes.options import runtime_options as runtime_options
from fl_nn.recipes.rules import SettingRule as SettingRule
from fl_nn.recipes.rules import kind_of as kind_of
from fl_nn.recipes.rules import rule_of as rule_of
from fl_nn.recipes.rules import setting as setting
from fl_nn.recipes.runs import notes_of_run as notes_of_run
from fl_nn.recipes.runs import print_lines as print_lines
from fl_nn.recipes.runs import refuse_second_run as refuse_second_run
from fl_nn.recipes.runs import resumed_recipe as resumed_recipe
from fl_nn.recipes.runs import run_options as run_options
from fl_nn.recipes.settings import RecipeSettings as RecipeSettings
from fl_nn.sample_threads import in_threads as in_threads
from fl_nn.training.log import JsonLog as JsonLog
from fl_nn.values import arange_like as arange_like
from fl_nn.values import tensor_of as tensor_of
