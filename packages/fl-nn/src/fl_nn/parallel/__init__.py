"""Training one model on several ranks that each hold a part of it.

from fl_nn import parallel
"""

from __future__ import annotations

from fl_nn.parallel import planner as planner
from fl_nn.parallel.attention import ParallelMultiHeadAttention as ParallelMultiHeadAttention
from fl_nn.parallel.checkpoint import load_checkpoint as load_checkpoint
from fl_nn.parallel.checkpoint import load_weights as load_weights
from fl_nn.parallel.checkpoint import save_checkpoint as save_checkpoint
from fl_nn.parallel.checkpoint import save_weights as save_weights
from fl_nn.parallel.clip import clip_grad_norm_ as clip_grad_norm_
from fl_nn.parallel.collectives import copy_to as copy_to
from fl_nn.parallel.collectives import exchange as exchange
from fl_nn.parallel.collectives import gather_from as gather_from
from fl_nn.parallel.collectives import reduce_from as reduce_from
from fl_nn.parallel.collectives import scatter_to as scatter_to
from fl_nn.parallel.pipeline import Pipeline as Pipeline
from fl_nn.parallel.sharded import Sharded as Sharded
from fl_nn.parallel.sharded_embedding import ShardedEmbedding as ShardedEmbedding
from fl_nn.parallel.sharded_parameter import ShardedParameter as ShardedParameter
from fl_nn.parallel.tensor_parallel import ColumnParallelLinear as ColumnParallelLinear
from fl_nn.parallel.tensor_parallel import RowParallelLinear as RowParallelLinear
from fl_nn.parallel.tensor_parallel import VocabParallelEmbedding as VocabParallelEmbedding
from fl_nn.parallel.whole_state import load_whole_state as load_whole_state
from fl_nn.parallel.whole_state import whole_state_dict as whole_state_dict
