"""Rows: what kernels read, cut into shards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unbounded.arrays import Array, block_rows, is_csr, is_sparse

FEW = 2**18  # cells, below which a copy costs less than another compilation


class Csr(NamedTuple):
    """Sparse rows as compiled code sees them."""

    indptr: Array
    indices: Array
    values: Array


def rows_of(X: Any, start: int, stop: int) -> Any:
    """Rows start .. stop in the form that compiled code takes; a view where the array allows it.

    Kernels are compiled for each kind of array that they are given. A few rows of an unusual kind (read-only, or of
    single precision) are copied instead.
    """
    part = X[start:stop]
    if is_csr(part):
        return Csr(part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data.astype(np.float64))
    whole = np.ascontiguousarray(part)
    usual = np.dtype(np.float64) if whole.dtype.kind == "f" else whole.dtype
    if whole.size > FEW or (whole.dtype == usual and whole.flags.writeable):
        return whole
    return whole.astype(usual)


def some_rows(data: Any, rows: Array, n_columns: int) -> Any:
    """A copy of some of the rows that `rows_of` gave: an array, or a sparse matrix."""
    if not isinstance(data, Csr):
        return data[rows]
    begin = data.indptr[rows]
    sizes = data.indptr[rows + 1] - begin
    ends = np.append(0, np.cumsum(sizes))
    cells = np.arange(ends[-1]) + np.repeat(begin - ends[:-1], sizes)
    return sparse.csr_matrix((data.values[cells], data.indices[cells], ends), (len(rows), n_columns))


def boundaries(n_rows: int, n_shards: int) -> Array:
    """Shard p holds rows boundaries[p] .. boundaries[p + 1]."""
    return np.arange(n_shards + 1) * n_rows // n_shards


def row_blocks(X: Any, most: int = 2**16) -> Iterator[slice]:
    """Slices that cover all rows of an array, CSR or a source, few at a time: what is made of them stays small."""
    n, d = X.shape
    step = min(most, block_rows(d, is_sparse(X)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def fingerprint(X: Any) -> str:
    """A short digest of the data, to recognise a checkpoint that belongs to other data."""
    if hasattr(X, "fingerprint"):  # rows that are not in memory
        return str(X.fingerprint())
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((X.shape, str(X.dtype), is_csr(X))).encode())
    step = block_rows(1)
    for array in (X.indptr, X.indices, X.data) if is_csr(X) else (X,):
        for start in range(0, len(array), step):
            digest.update(np.ascontiguousarray(array[start : start + step]).view(np.uint8).data)
    return digest.hexdigest()
