"""Rows: what kernels read, cut into shards, and the summary of columns that likelihoods are bound to."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, is_csr
from unbounded.likelihoods.base import Columns

_BLOCK = 65536


class Csr(NamedTuple):
    """Sparse rows as compiled code sees them."""

    indptr: Array
    indices: Array
    values: Array


def rows_of(X: Any, start: int, stop: int) -> Any:
    """Rows start .. stop in the form that compiled code takes; a view where the array allows it."""
    if is_csr(X):
        part = X[start:stop]
        return Csr(part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data.astype(np.float64))
    return np.ascontiguousarray(X[start:stop])


def boundaries(n_rows: int, n_shards: int) -> Array:
    """Shard p holds rows boundaries[p] .. boundaries[p + 1]."""
    return np.arange(n_shards + 1) * n_rows // n_shards


def describe(X: Any) -> Columns:
    """Column means, standard deviations, ranges and holes, block by block."""
    n, d = X.shape
    if is_csr(X):
        total = np.asarray(X.sum(axis=0)).ravel()
        square = np.asarray(X.multiply(X).sum(axis=0)).ravel()
        mean = total / n
        whole, holes = np.ones(d, bool), np.zeros(d, np.int64)
        whole[X.indices[X.data != np.rint(X.data)]] = False
        np.add.at(holes, X.indices[np.isnan(X.data)], 1)
        low, high = (np.asarray(getattr(X, which)(axis=0).todense()).ravel() for which in ("min", "max"))
        sd = np.sqrt(np.maximum(square / n - mean**2, 0.0))
        return Columns(np.arange(d), n, mean, sd, low, high, holes, whole, sparse=True)
    seen, total = np.zeros(d), np.zeros(d)
    low, high, whole = np.full(d, np.inf), np.full(d, -np.inf), np.ones(d, bool)
    for start in range(0, n, _BLOCK):
        x = np.asarray(X[start : start + _BLOCK], dtype=np.float64)
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
    for start in range(0, n, _BLOCK):
        gap = (np.asarray(X[start : start + _BLOCK], dtype=np.float64) - mean) / unit
        square += np.where(np.isnan(gap), 0.0, gap**2).sum(0)
    sd = unit * np.sqrt(square / np.maximum(seen, 1))
    return Columns(np.arange(d), n, mean, sd, low, high, (n - seen).astype(np.int64), whole)


def fingerprint(X: Any) -> str:
    """A short digest of the data, to recognise a checkpoint that belongs to other data."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((X.shape, str(X.dtype), is_csr(X))).encode())
    for array in (X.indptr, X.indices, X.data) if is_csr(X) else (X,):
        for start in range(0, len(array), _BLOCK):
            digest.update(np.ascontiguousarray(array[start : start + _BLOCK]).view(np.uint8).data)
    return digest.hexdigest()
