"""Data larger than memory: a source knows where rows are, and reads only those it is asked for (docs/data.md).

    source = unbounded.open_source("pieces/")    # or one file, a list, a glob, a Zarr array, an fsspec URL
    source.shape, source[10:20], source[rows]

- `files.py` reaches bytes, on the local disk or through fsspec.
- `formats.py` reads the rows of one piece: .npy, CSR .npz, .parquet, .zarr, .csv.
- `source.py` joins pieces into one table of rows, and keeps the manifest that `unbounded shard` writes.
- `writing.py` cuts any source into pieces.
"""

from os import PathLike
from typing import TypeAlias

from numpy.typing import ArrayLike
from scipy import sparse

from unbounded.sources.files import SourceError
from unbounded.sources.source import Source, open, source_of
from unbounded.sources.writing import shard

# What a fit takes; of objects that `datasets.load` knows, those that have types.
Rows: TypeAlias = ArrayLike | sparse.csr_matrix | sparse.csr_array | Source | PathLike[str]

__all__ = ["Rows", "Source", "SourceError", "open", "shard", "source_of"]
