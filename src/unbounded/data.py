"""Rows: what kernels read, cut into shards, and the summary of columns that likelihoods are bound to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, block_rows, is_csr, is_sparse
from unbounded.likelihoods.base import Columns


class Csr(NamedTuple):
    """Sparse rows as compiled code sees them."""

    indptr: Array
    indices: Array
    values: Array


def rows_of(X: Any, start: int, stop: int) -> Any:
    """Rows start .. stop in the form that compiled code takes; a view where the array allows it."""
    part = X[start:stop]
    if is_csr(part):
        return Csr(part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data.astype(np.float64))
    return np.ascontiguousarray(part)


def boundaries(n_rows: int, n_shards: int) -> Array:
    """Shard p holds rows boundaries[p] .. boundaries[p + 1]."""
    return np.arange(n_shards + 1) * n_rows // n_shards


def row_blocks(X: Any, most: int = 2**16) -> Iterator[slice]:
    """All rows of an array, CSR or a source, some at a time: what is made of them stays small."""
    n, d = X.shape
    step = min(most, block_rows(d, is_sparse(X)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def describe(X: Any) -> Columns:
    """Column means, standard deviations, ranges and holes of an array, CSR or a source, block by block.

    Blocks depend on the shape alone: a source gives the same bits as its rows in memory. Infinite values show in the
    ranges, whoever binds a likelihood refuses them.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return _describe_sparse(X) if is_sparse(X) else _describe_dense(X)


def _describe_sparse(X: Any) -> Columns:
    """Values are added one by one in the order of rows, so that blocks do not matter at all."""
    n, d = X.shape
    total, square, low, high = np.zeros(d), np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    stored, holes, whole = np.zeros(d, np.int64), np.zeros(d, np.int64), np.ones(d, bool)
    for rows in row_blocks(X):
        part = X[rows]
        column, value = part.indices, part.data.astype(np.float64)
        np.add.at(total, column, value)
        np.add.at(square, column, value**2)
        np.minimum.at(low, column, value)
        np.maximum.at(high, column, value)
        stored += np.bincount(column, minlength=d)
        holes += np.bincount(column[np.isnan(value)], minlength=d)
        whole[column[value != np.rint(value)]] = False
    zeros = stored < n
    low[zeros], high[zeros] = np.minimum(low[zeros], 0.0), np.maximum(high[zeros], 0.0)
    mean = total / n
    sd = np.sqrt(np.maximum(square / n - mean**2, 0.0))
    return Columns(np.arange(d), n, mean, sd, low, high, holes, whole, sparse=True)


def _describe_dense(X: Any) -> Columns:
    n, d = X.shape
    seen, total = np.zeros(d), np.zeros(d)
    low, high, whole = np.full(d, np.inf), np.full(d, -np.inf), np.ones(d, bool)
    for rows in row_blocks(X):
        x = np.asarray(X[rows], dtype=np.float64)
        there = ~np.isnan(x)
        filled = np.where(there, x, 0.0)
        seen += there.sum(0)
        total += filled.sum(0)
        low = np.minimum(low, np.where(there, x, np.inf).min(0))
        high = np.maximum(high, np.where(there, x, -np.inf).max(0))
        whole &= (filled == np.rint(filled)).all(0)
    mean = total / np.maximum(seen, 1)
    reach = np.maximum(high - mean, mean - low)
    unit = np.where((reach > 0) & np.isfinite(reach), reach, 1.0)  # squares of very large or small gaps would be lost
    square = np.zeros(d)
    for rows in row_blocks(X):
        gap = (np.asarray(X[rows], dtype=np.float64) - mean) / unit
        square += np.where(np.isnan(gap), 0.0, gap**2).sum(0)
    sd = unit * np.sqrt(square / np.maximum(seen, 1))
    return Columns(np.arange(d), n, mean, sd, low, high, (n - seen).astype(np.int64), whole)


def fingerprint(X: Any) -> str:
    """A short digest of the data, to recognise a checkpoint that belongs to other data."""
    if hasattr(X, "fingerprint"):
        return str(X.fingerprint())
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((X.shape, str(X.dtype), is_csr(X))).encode())
    step = block_rows(1)
    for array in (X.indptr, X.indices, X.data) if is_csr(X) else (X,):
        for start in range(0, len(array), step):
            digest.update(np.ascontiguousarray(array[start : start + step]).view(np.uint8).data)
    return digest.hexdigest()
