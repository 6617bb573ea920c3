"""Composable datasets of tensors: batches, shuffling, prefetching, exact resume."""

from typing import TYPE_CHECKING

from fl_data._version import __version__ as __version__
from fl_data.arrays.mapped import MappedArray as MappedArray
from fl_data.arrays.mapped import MappedDataset as MappedDataset
from fl_data.arrays.tensors import TensorDataset as TensorDataset
from fl_data.batches.batch import Batch as Batch
from fl_data.batches.bucket_batch import BucketBatch as BucketBatch
from fl_data.batches.collate import Collate as Collate
from fl_data.batches.collate import collate as collate
from fl_data.batches.collate import field_collate as field_collate
from fl_data.batches.collate import join as join
from fl_data.batches.collate import pad_collate as pad_collate
from fl_data.batches.collate import pad_to as pad_to
from fl_data.batches.dynamic_batch import DynamicBatch as DynamicBatch
from fl_data.batches.histogram import Histogram as Histogram
from fl_data.batches.round_robin import (
    dynamic_partition_by_round_robin as dynamic_partition_by_round_robin,
)
from fl_data.batches.round_robin import partition_by_round_robin as partition_by_round_robin
from fl_data.blobs import Blob as Blob
from fl_data.blobs import FileBlob as FileBlob
from fl_data.blobs import MemoryBlob as MemoryBlob
from fl_data.blobs import RawTensor as RawTensor
from fl_data.dataset import Dataset as Dataset
from fl_data.dataset import EpochDataset as EpochDataset
from fl_data.dataset import as_dataset as as_dataset
from fl_data.errors import BlobError as BlobError
from fl_data.errors import DataError as DataError
from fl_data.errors import FileFormatError as FileFormatError
from fl_data.errors import FlError as FlError
from fl_data.errors import IterationError as IterationError
from fl_data.errors import SampleIndexError as SampleIndexError
from fl_data.errors import SampleTypeError as SampleTypeError
from fl_data.errors import WorkerError as WorkerError
from fl_data.files import decoded_file_name as decoded_file_name
from fl_data.iterate import DataIterator as DataIterator
from fl_data.iterate import iterate as iterate
from fl_data.prefetching.prefetch import Prefetch as Prefetch
from fl_data.retries import retry_with_backoff as retry_with_backoff
from fl_data.samples import Sample as Sample
from fl_data.samples import check_count as check_count
from fl_data.samples import check_index as check_index
from fl_data.samples import check_indices as check_indices
from fl_data.seeds import drawn_seeds as drawn_seeds
from fl_data.seeds import mix as mix
from fl_data.seeds import restore_seeds as restore_seeds
from fl_data.streams.shards import IterableStream as IterableStream
from fl_data.streams.shards import ShardStream as ShardStream
from fl_data.streams.stream import Stream as Stream
from fl_data.streams.stream import StreamIterator as StreamIterator
from fl_data.tables.table import Table as Table
from fl_data.tables.table_stream import TableStream as TableStream
from fl_data.transforms.cache import CachedTransform as CachedTransform
from fl_data.transforms.fingerprint import fingerprint as fingerprint
from fl_data.transforms.transform import RandomTransform as RandomTransform
from fl_data.transforms.transform import Transform as Transform
from fl_data.views.concat import Concat as Concat
from fl_data.views.merge import Merge as Merge
from fl_data.views.repeated import Repeated as Repeated
from fl_data.views.resample import Resample as Resample
from fl_data.views.select import Partition as Partition
from fl_data.views.select import Span as Span
from fl_data.views.select import Subset as Subset
from fl_data.views.select import share as share
from fl_data.views.shuffle import Shuffle as Shuffle
from fl_data.views.splits import k_fold as k_fold
from fl_data.views.splits import random_split as random_split
from fl_data.views.weighted import Weighted as Weighted

if not TYPE_CHECKING:  # a type checker reports the name by itself

    def __getattr__(name: str) -> object:
        short = name.removesuffix("Dataset")
        if short != name and short in globals():  # Flashlight's name for it
            # Without its context: Python would add the name that looks most like it.
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}: it is {short!r} here",
                name="",
                obj=None,
            )
        from pathlib import Path

        from fl_tensor.foreign_names.tables import missing_attribute

        table = Path(__file__).with_name("foreign_names.txt")
        raise missing_attribute(f"module {__name__!r}", name, table)


def __dir__() -> list[str]:
    from fl_tensor.public_names import public_names

    return public_names(globals())
