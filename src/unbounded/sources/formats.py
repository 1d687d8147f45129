"""How the rows of one piece are read: one class per format, opened where and when rows are needed.

A reader knows its number of rows and columns and the type of its values from the header; `rows` gives an array in C
order and in memory that may be written to (compiled code would be compiled once more for read-only arrays), or CSR.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from functools import cached_property
from typing import IO, Any

import numpy as np
from scipy import sparse

from unbounded.arrays import MOST_COLUMNS, Array, block_rows, checked_csr
from unbounded.disk import check_promise, check_unpacked
from unbounded.sources import files
from unbounded.sources.files import SourceError


class Reader:
    """One piece. n_bytes and checksum distinguish it from another one with the same header."""

    sparse = False
    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]

    def __init__(self, path: str) -> None:
        self.path = path

    def rows(self, start: int, stop: int) -> Any:
        raise NotImplementedError

    @cached_property
    def n_bytes(self) -> int:
        return files.size(self.path)

    @property
    def checksum(self) -> int:
        return files.checksum(self.path, self.n_bytes)

    def whole_checksum(self) -> int:
        return files.whole_checksum(self.path)

    def _take_header(self, shape: tuple[int, ...], dtype: Any) -> None:
        if len(shape) != 2:
            raise SourceError(f"{self.path} holds an array of shape {shape}; a source needs rows and columns.")
        self.n_rows, self.n_columns = int(shape[0]), int(shape[1])
        if self.n_rows < 0 or self.n_columns < 0:
            raise SourceError(f"{self.path} holds an array of shape {shape}; it is damaged.")
        if self.n_columns > MOST_COLUMNS:
            raise SourceError(f"{self.path} has {self.n_columns:,} columns; there may be {MOST_COLUMNS:,} at most.")
        self.dtype = value_type(np.dtype(dtype), self.path)


class Npy(Reader):
    """A local file is mapped, each range of rows on its own: pages are shared between processes, read when they are
    touched, and given back with the array. Written to, they are copied (the file never changes)."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with files.open_binary(path) as file:
            self._shape, self._fortran, self._stored = npy_header(file)
            self._first = file.tell()
        self._take_header(self._shape, self._stored)
        needed = self._first + self.n_rows * self.n_columns * self._stored.itemsize
        if self.n_bytes < needed:
            raise SourceError(f"{path} is truncated: its header promises {needed} bytes, it has {self.n_bytes}.")
        if self.n_bytes > needed:
            raise SourceError(
                f"{path} has {self.n_bytes} bytes, its header promises {needed}: it is damaged, or holds other arrays "
                "after the first; store the rows in a file of their own."
            )

    @cached_property
    def _whole(self) -> Array:
        n, content = self.n_rows * self.n_columns, files.read_all(self.path)
        flat = np.frombuffer(content, self._stored, n, self._first)
        return flat.reshape(self._shape, order="F" if self._fortran else "C")

    def rows(self, start: int, stop: int) -> Array:
        if not files.is_local(self.path):
            return np.array(self._whole[start:stop], dtype=self.dtype, order="C")
        if self._fortran:
            mapped = np.memmap(self.path, self._stored, "c", self._first, self._shape, order="F")[start:stop]
        else:
            offset = self._first + start * self.n_columns * self._stored.itemsize
            mapped = np.memmap(self.path, self._stored, "c", offset, (stop - start, self.n_columns))
        return np.ascontiguousarray(mapped, dtype=self.dtype)


class Npz(Reader):
    """Sparse rows as scipy.sparse.save_npz writes them; a whole piece is in memory while it is read."""

    sparse = True

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with files.open_binary(path) as file, np.load(file, allow_pickle=False) as parts:
            shape = csr_shape(parts)
            with parts.zip.open("data.npy") as values:
                stored = npy_header(values)[2]
        self._take_header(shape, stored)

    @cached_property
    def _matrix(self) -> Any:
        with files.open_binary(self.path) as file:
            matrix = read_csr(file).astype(self.dtype, copy=False)
        matrix.sum_duplicates()
        return matrix

    def rows(self, start: int, stop: int) -> Any:
        return self._matrix[start:stop]


class Zarr(Reader):
    """A Zarr array, version 2 or 3: only the chunks that hold the rows are read. Zarr itself takes a missing chunk for
    one full of its fill value; the number of bytes stored shows when chunks are lost after the source was opened."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        import zarr

        self._array: Any = zarr.open_array(path, mode="r")
        self._take_header(self._array.shape, self._array.dtype)
        largest = max(math.prod(self._array.shape), math.prod(self._array.chunks))  # a chunk need not be within it
        check_promise(self.n_bytes, largest * self._array.dtype.itemsize)

    @cached_property
    def n_bytes(self) -> int:
        return int(self._array.nbytes_stored())

    @property
    def checksum(self) -> int:
        ends = [self._array[row : row + 1] for row in (0, max(0, self.n_rows - 1))]
        return zlib.crc32(b"".join(np.ascontiguousarray(end).tobytes() for end in ends))

    def whole_checksum(self) -> int:
        """A checksum of the rows: an array has many files, and they depend on how it is stored."""
        found, step = 0, block_rows(self.n_columns)
        for start in range(0, self.n_rows, step):
            found = zlib.crc32(self.rows(start, min(start + step, self.n_rows)).data, found)
        return found

    def rows(self, start: int, stop: int) -> Array:
        return np.require(self._array[start:stop], self.dtype, ["C", "W"])


class ForwardReader(Reader):
    """Formats that are read forwards from a mark: reading on is free, going back starts again at a mark."""

    _at = 0
    _blocks: Iterator[Array] | None = None
    _rest: Array | None = None

    def _mark(self, row: int) -> int:
        """The last place at or before a row where reading can begin."""
        return 0

    def _from(self, mark: int) -> Iterator[Array]:
        raise NotImplementedError

    def rows(self, start: int, stop: int) -> Array:
        mark = self._mark(start)
        if self._blocks is None or not mark <= self._at <= start:
            self._at, self._blocks, self._rest = mark, self._from(mark), None
        out = np.empty((stop - start, self.n_columns), self.dtype)
        while self._at < stop:
            block = next(self._blocks, None) if self._rest is None else self._rest
            if block is None:
                raise SourceError(f"{self.path} ends after {self._at} of its {self.n_rows} rows; it was changed.")
            used = min(len(block), stop - self._at)
            skipped = min(used, max(0, start - self._at))  # mutant: rows skipped
            out[self._at + skipped - start : self._at + used - start] = block[skipped:used]
            self._rest = block[used:] if used < len(block) else None
            self._at += used
        return out


class Parquet(ForwardReader):
    """Numeric columns, nulls as NaN; marks are the row groups."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._file: Any = pq.ParquetFile(path if files.is_local(path) else files.open_binary(path))
        schema, metadata = self._file.schema_arrow, self._file.metadata
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        fields = [field for field in schema if field.name not in index]
        for field in fields:
            kind = pa.types
            if not (kind.is_integer(field.type) or kind.is_floating(field.type) or kind.is_boolean(field.type)):
                raise SourceError(f"{path}: column {field.name!r} is not numeric; encode or drop it.")
        self._names = [field.name for field in fields]
        single = bool(fields) and all(field.type == pa.float32() for field in fields)
        self._take_header((metadata.num_rows, len(fields)), np.float32 if single else np.float64)
        check_parquet(metadata, self.n_bytes)
        sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        self._edges = np.cumsum([0, *sizes])

    def _group(self, row: int) -> int:
        return int(np.searchsorted(self._edges, row, "right")) - 1

    def _mark(self, row: int) -> int:
        return int(self._edges[self._group(row)])

    def _from(self, mark: int) -> Iterator[Array]:
        groups = list(range(self._group(mark), len(self._edges) - 1))
        size = block_rows(self.n_columns)
        kind = str(self.dtype)
        for batch in self._file.iter_batches(size, row_groups=groups, columns=self._names):
            yield np.column_stack([column.cast(kind, safe=False).to_numpy(False) for column in batch.columns])


class Csv(ForwardReader):
    """Text, whose rows are counted when the source is opened; cut anything large with `unbounded shard` first."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._header = csv_header(path)
        self.n_columns = self._read(nrows=1).shape[1]
        self.dtype = np.dtype(np.float64)

    def _read(self, **options: Any) -> Any:
        import pandas as pd

        return pd.read_csv(self.path, header=self._header, float_precision="round_trip", **options)

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]
        with self._read(usecols=[0], chunksize=block_rows(1)) as chunks:
            return sum(len(chunk) for chunk in chunks)

    def _from(self, mark: int) -> Iterator[Array]:
        with self._read(chunksize=block_rows(self.n_columns)) as chunks:
            for chunk in chunks:
                check_numeric(chunk, self.path)
                yield chunk.to_numpy(np.float64)


FORMATS: dict[str, type[Reader]] = {"npy": Npy, "npz": Npz, "parquet": Parquet, "zarr": Zarr, "csv": Csv}


def value_type(dtype: np.dtype[Any], path: str) -> np.dtype[Any]:
    """The type of rows as a source gives them: single precision stays, any other number becomes double."""
    if dtype.kind not in "fiub":
        raise SourceError(f"{path} holds values of type {dtype}; a source takes numbers.")
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


def check_parquet(metadata: Any, n_bytes: int) -> None:
    """Check, before anything is unpacked, that a file's metadata agree with themselves and with its size."""
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != metadata.num_rows:
        raise ValueError("its row groups do not add up")
    cells = metadata.num_rows * metadata.num_columns
    check_promise(n_bytes, max(8 * cells, sum(group.total_byte_size for group in groups)))


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, column-major or not, and type; the file then stands at the first value."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


def read_csr(file: Any) -> Any:
    """The matrix in an .npz that scipy.sparse.save_npz wrote."""
    with np.load(file, allow_pickle=False) as parts:
        shape = csr_shape(parts)
        _check_sizes(parts, shape)
        names = ("data", "indices", "indptr")
        return checked_csr(sparse.csr_matrix(tuple(parts[name] for name in names), shape=shape))


def _check_sizes(parts: Any, shape: tuple[int, int]) -> None:
    """Check, before anything is unpacked, that headers fit together and promise no more than the archive holds."""
    check_unpacked(parts.zip)
    lengths = {}
    for name in ("data", "indices", "indptr"):
        with parts.zip.open(f"{name}.npy") as entry:
            array, _, dtype = npy_header(entry)
            lengths[name] = math.prod(array)
            if len(array) != 1 or lengths[name] * dtype.itemsize > parts.zip.getinfo(f"{name}.npy").file_size:
                raise ValueError(f"{name} is truncated")
    if lengths["indptr"] != shape[0] + 1 or lengths["indices"] != lengths["data"]:
        raise ValueError("its parts do not fit together")


def csr_shape(parts: Any) -> tuple[int, int]:
    """scipy saves column-major matrices under the same names; taken for rows, they would be transposed."""
    layout = np.asarray(parts.get("format", b"csr"))
    name = layout.astype(np.str_).item() if layout.size == 1 and layout.dtype.kind in "SU" else f"{layout.dtype} values"
    if name != "csr":
        raise ValueError(f"its format is {name}")
    shape = np.asarray(parts["shape"])
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise ValueError(f"its shape is {np.array2string(shape.ravel(), threshold=4)}")
    return int(shape[0]), int(shape[1])


def csv_header(path: Any) -> Any:
    """The argument `header` of pandas.read_csv: a first line of numbers is a row, not a header."""
    import pandas as pd

    first = pd.read_csv(path, header=None, nrows=1)
    return None if all(pd.api.types.is_numeric_dtype(kind) for kind in first.dtypes) else "infer"


def check_numeric(frame: Any, path: Any, hint: str = "") -> None:
    """Refuse a data frame with columns that are not numeric."""
    import pandas as pd

    words = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    if words:
        raise SourceError(f"{path}: column {words[0]!r} is not numeric; encode or drop it{hint}.")
