"""Tensor files: one safetensors file, or shards with an index."""

from fl_nn.files.shards import ShardedFile as ShardedFile
from fl_nn.files.shards import open_tensors as open_tensors
from fl_nn.files.shards import save_tensors as save_tensors
from fl_nn.files.stored import Stored as Stored
from fl_nn.files.tensorfile import TensorFile as TensorFile
