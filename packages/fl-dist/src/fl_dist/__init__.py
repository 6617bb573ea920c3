"""Collective communication over replaceable communicators."""

from __future__ import annotations

from fl_dist import launch as launch
from fl_dist import threads as threads
from fl_dist._version import __version__ as __version__
from fl_dist.arguments import even_counts as even_counts
from fl_dist.buckets import BucketReducer as BucketReducer
from fl_dist.communicator import Communicator as Communicator
from fl_dist.compression import CompressedReducer as CompressedReducer
from fl_dist.deadline import Deadline as Deadline
from fl_dist.errors import ArgumentError as ArgumentError
from fl_dist.errors import DistError as DistError
from fl_dist.errors import DistTimeoutError as DistTimeoutError
from fl_dist.errors import DTypeError as DTypeError
from fl_dist.errors import FlError as FlError
from fl_dist.errors import MismatchError as MismatchError
from fl_dist.errors import PeerError as PeerError
from fl_dist.errors import ProgramError as ProgramError
from fl_dist.initialize import init as init
from fl_dist.local import LocalCommunicator as LocalCommunicator
from fl_dist.local import local as local
from fl_dist.mesh import Mesh as Mesh
from fl_dist.mesh import mesh as mesh
from fl_dist.objects import all_gather_object as all_gather_object
from fl_dist.objects import broadcast_object as broadcast_object
from fl_dist.rank_info import RankInfo as RankInfo
from fl_dist.rank_info import environment as environment
from fl_dist.reducer import InlineReducer as InlineReducer
from fl_dist.reducer import Reducer as Reducer
from fl_dist.reducer import average_gradients as average_gradients
from fl_dist.registry import communicators as communicators
from fl_dist.registry import load as load
from fl_dist.store import Store as Store
from fl_dist.store import StoreError as StoreError
from fl_dist.store import open_store as open_store
from fl_dist.store.rendezvous import rendezvous as rendezvous
from fl_dist.threads import ThreadsCommunicator as ThreadsCommunicator
from fl_dist.work import Work as Work
from fl_dist.work import wait_any as wait_any
