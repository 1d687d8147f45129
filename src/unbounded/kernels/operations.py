"""The compiled contract of a likelihood: six operations, chosen while compiling by the type of the family.

A *family* is a NamedTuple of plain arrays and numbers (what the likelihood is), a *tail* another one (the collapsed
state of up to C atoms, one slot each, and the prior in slot C). A kernel sees a tuple of families, one per column group:
their log likelihoods add up. Rows come in blocks with rows in lanes: `features[f, r]` is feature f of row r of the block.

Every family is exponential: log f(x | atom k) = bias_k + eta_k . features(x) + a term that is the same for all atoms,
and an atom's sufficient statistics are the sum of its rows' features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from unbounded.kernels.compiled import FAST, inline, jit, over_parts, overload


def featurise(family: Any, data: Any, start: int, size: int, features: Any) -> None:
    """Write the features of rows start .. start+size of `data` into columns 0 .. size of `features`."""


def accumulate(family: Any, data: Any, rows: Any, statistics: Any) -> None:
    """Add the features of the given rows to one atom's statistics."""


def clear(family: Any, tail: Any, slot: int) -> None:
    """Make the slot the prior: no members."""


def update(family: Any, tail: Any, slot: int, data: Any, start: int, features: Any, r: int, sign: int) -> None:
    """Add (sign = 1) or remove (sign = -1) row r of the block to the members of a slot."""


def evaluate(
    family: Any, tail: Any, slot: int, data: Any, start: int, features: Any, begin: int, end: int, out: Any
) -> None:
    """Add the log predictive of rows begin .. end of the block, given the slot's members, to out[begin:end]."""


def bound(family: Any, tail: Any, slot: int) -> float:
    """An upper bound, over all rows, of what `evaluate` adds; infinity is always right."""
    return np.inf


def logits(family: Any, data: Any, start: int, size: int, eta: Any, features: Any, out: Any) -> None:
    """out[k, r] = eta_k . (features(row r), 1) for the block; fills `features` on the way, whose last row is 1."""


def _recurse_featurise(family: Any, data: Any, start: int, size: int, features: Any) -> None:
    featurise(family[0], data, start, size, features)
    featurise(family[1:], data, start, size, features)


def _recurse_accumulate(family: Any, data: Any, rows: Any, statistics: Any) -> None:
    accumulate(family[0], data, rows, statistics)
    accumulate(family[1:], data, rows, statistics)


def _recurse_clear(family: Any, tail: Any, slot: int) -> None:
    clear(family[0], tail[0], slot)
    clear(family[1:], tail[1:], slot)


def _recurse_update(
    family: Any, tail: Any, slot: int, data: Any, start: int, features: Any, r: int, sign: int
) -> None:
    update(family[0], tail[0], slot, data, start, features, r, sign)
    update(family[1:], tail[1:], slot, data, start, features, r, sign)


def _recurse_evaluate(
    family: Any, tail: Any, slot: int, data: Any, start: int, features: Any, begin: int, end: int, out: Any
) -> None:
    evaluate(family[0], tail[0], slot, data, start, features, begin, end, out)
    evaluate(family[1:], tail[1:], slot, data, start, features, begin, end, out)


def _recurse_bound(family: Any, tail: Any, slot: int) -> float:
    return bound(family[0], tail[0], slot) + bound(family[1:], tail[1:], slot)


over_parts(featurise, _recurse_featurise, lambda family, data, start, size, features: None)
over_parts(accumulate, _recurse_accumulate, lambda family, data, rows, statistics: None)
over_parts(clear, _recurse_clear, lambda family, tail, slot: None)
over_parts(update, _recurse_update, lambda family, tail, slot, data, start, features, r, sign: None)
over_parts(
    evaluate, _recurse_evaluate, lambda family, tail, slot, data, start, features, begin, end, out: None
)
over_parts(bound, _recurse_bound, lambda family, tail, slot: 0.0)


@inline
def _narrow_product(eta: Any, features: Any, out: Any) -> None:
    """eta @ features for a few features: the output row stays in cache, the loop over rows vectorises."""
    atoms, width = eta.shape
    lanes = features.shape[1]
    for k in range(atoms):
        row = out[k]
        constant = eta[k, width - 1]
        f = 0
        if width >= 6:
            a, b, c, d, e = eta[k, 0], eta[k, 1], eta[k, 2], eta[k, 3], eta[k, 4]
            for r in range(lanes):
                low = constant + a * features[0, r] + b * features[1, r]
                row[r] = low + c * features[2, r] + d * features[3, r] + e * features[4, r]
            f = 5
        else:
            for r in range(lanes):
                row[r] = constant
        while f + 1 < width - 1:
            a, b = eta[k, f], eta[k, f + 1]
            for r in range(lanes):
                row[r] += a * features[f, r] + b * features[f + 1, r]
            f += 2
        if f < width - 1:
            a = eta[k, f]
            for r in range(lanes):
                row[r] += a * features[f, r]


@jit
def dense_logits(family: Any, data: Any, start: int, size: int, eta: Any, features: Any, out: Any) -> None:
    featurise(family, data, start, size, features)
    if eta.shape[0] == 0:
        return
    if eta.shape[1] <= 16:
        _narrow_product(eta, features, out)
    else:
        np.dot(eta, features, out)


@overload(logits, jit_options={"nogil": True, "fastmath": FAST, "error_model": "numpy"}, strict=False)
def _choose_logits(
    family: Any, data: Any, start: int, size: int, eta: Any, features: Any, out: Any
) -> Any:
    if not isinstance(data, types.Array):
        return lambda family, data, start, size, eta, features, out: sparse_logits(data, start, size, eta, out)
    return lambda family, data, start, size, eta, features, out: dense_logits(
        family, data, start, size, eta, features, out
    )


@jit
def sparse_logits(data: Any, start: int, size: int, eta: Any, out: Any) -> None:
    """The same for rows of (column, value) pairs; eta comes transposed, so that atoms are contiguous."""
    atoms = eta.shape[1]
    sums = np.empty(atoms, eta.dtype)
    for r in range(size):
        sums[:] = eta[eta.shape[0] - 1]
        for j in range(data.indptr[start + r], data.indptr[start + r + 1]):
            value = eta.dtype.type(data.values[j])
            row = eta[data.indices[j]]
            for k in range(atoms):
                sums[k] += value * row[k]
        for k in range(atoms):
            out[k, r] = sums[k]
