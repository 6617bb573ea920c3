"""Blobs: samples as bytes, in one file or in memory."""

from fl_data.blobs.codec import RawTensor as RawTensor
from fl_data.blobs.datasets import Blob as Blob
from fl_data.blobs.datasets import FileBlob as FileBlob
from fl_data.blobs.datasets import MemoryBlob as MemoryBlob
