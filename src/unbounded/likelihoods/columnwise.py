"""What likelihoods of one value per column share: terms x and, only when there are holes, 1 where x is observed."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.compiled.jit import jit


def value_terms(X: Array, columns: Columns) -> Array:
    x = X[:, columns.index]
    seen = ~np.isnan(x)
    values = np.where(seen, x, 0.0)
    return np.concatenate([values, seen.astype(float)], axis=1) if columns.missing else values


def rows_seen(columns: Columns, counts: Array, observed: Array) -> Any:
    """How many of an atom's rows have each column; `observed` are its last statistics."""
    return observed if columns.missing else counts[:, None]


@jit
def values_in_lanes(spec, block):
    data, start, size, terms = block.data, block.start, block.size, block.terms
    d = spec.columns.size
    for j in range(d):
        c = spec.columns[j]
        for r in range(terms.shape[1]):
            x = data[start + r, c] if r < size else 0.0
            seen = not np.isnan(x)
            terms[spec.first + j, r] = x if seen else 0.0
            if spec.missing:
                terms[spec.first + d + j, r] = seen


@jit
def add_values(spec, data, rows, statistics):
    d = spec.columns.size
    for i in range(rows.size):
        for j in range(d):
            x = data[rows[i], spec.columns[j]]
            if not np.isnan(x):
                statistics[spec.first + j] += x
                if spec.missing:
                    statistics[spec.first + d + j] += 1.0
