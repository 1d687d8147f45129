"""Linear Gaussian factors, compiled (linear_gaussian.py): the mobile columns of a block, in lanes, and statistics.

Visits of single rows are in linear_gaussian_visits.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from unbounded.arrays import Array
from unbounded.compiled.draws import normal, stream
from unbounded.compiled.jit import OVERLOAD, implements, inline, jit
from unbounded.models.features.entries import draw_pair
from unbounded.models.features.laws import draw_column, is_binary
from unbounded.models.features.operations import collect, mobile_waits, prepare, sweep_mobile

NARROW = 24  # mobile columns up to which BLAS is faster with rows first


class LinearGaussianFamily(NamedTuple):
    centre: Array
    loadings: Array  # [shared, D]
    norms: Array  # [shared] squared lengths
    scaled: Array  # [usable, D] loadings / noise, in the precision of the vectorised part
    turned: Array  # the same, transposed
    offset: Array  # [usable] scaled . centre
    gram: Array  # [usable, shared] products of loadings / noise, zero where an atom meets itself
    noise: float
    loading: float


class LinearGaussianTail(NamedTuple):
    V: Array  # [slots, slots]
    a: Array  # [slots, D]
    zz: Array  # [slots, slots] products of entries
    h: Array  # [slots, D] entries times residuals / noise
    residual: Array  # [D] of the visited row, without its private atoms
    error: Array  # [D] the same minus what its private atoms expect
    Vz: Array  # [slots]
    numbers: Array  # variance that private atoms add, squared error, changes since the last refresh
    norms: Array  # [slots] squared lengths of a
    constant: Array  # [slots]
    inverse: Array  # [slots]
    block: Array  # flat: rows x D


@implements(mobile_waits, LinearGaussianFamily)
def _mobile_waits(family):
    return True


def _block(data: Any, start: int, size: int, scratch: Any) -> Any:
    """Rows of the data in the precision of the vectorised part: themselves, or a copy."""


@overload(_block, **OVERLOAD)
def _choose_block(data: Any, start: int, size: int, scratch: Any) -> Any:
    if data.dtype == scratch.dtype:
        return lambda data, start, size, scratch: data[start : start + size]

    def converted(data, start, size, scratch):
        d = data.shape[1]
        block = scratch[: size * d].reshape(size, d)
        for r in range(size):
            for j in range(d):
                block[r, j] = data[start + r, j]
        return block

    return converted


@implements(prepare, LinearGaussianFamily)
def _prepare(family, tail, rows, usable, work):
    """pull[k, r] = A_k . (x_r - what held columns explain) / noise."""
    z = rows.z
    size = z.shape[1]
    if usable == 0:
        return
    block = _block(rows.data, rows.start, size, tail.block)
    pull = work.pull[: usable * size].reshape(usable, size)
    if usable <= NARROW:
        turned = np.dot(block, family.turned)
        for k in range(usable):
            for r in range(size):
                pull[k, r] = turned[r, k] - family.offset[k]
    else:
        np.dot(family.scaled, block.T, pull)
        for k in range(usable):
            for r in range(size):
                pull[k, r] -= family.offset[k]
    for k in range(usable):
        for j in range(usable, family.loadings.shape[0]):
            g = family.gram[k, j]
            for r in range(size):
                pull[k, r] -= g * z[j, r]


@inline
def _explain(gram, k, z, usable, out):
    """Subtract what the mobile columns explain of column k's pull, four at a time."""
    size = z.shape[1]
    fours = usable - usable % 4
    for j in range(0, fours, 4):
        a, b, c, e = gram[k, j], gram[k, j + 1], gram[k, j + 2], gram[k, j + 3]
        for r in range(size):
            out[r] -= a * z[j, r] + b * z[j + 1, r] + (c * z[j + 2, r] + e * z[j + 3, r])
    for j in range(fours, usable):
        a = gram[k, j]
        for r in range(size):
            out[r] -= a * z[j, r]


@implements(sweep_mobile, LinearGaussianFamily)
def _sweep_mobile(family, law, tail, rows, mobile, key, work):
    """Gram form: what an entry gains is its pull minus what the other mobile columns explain already.

    0/1 columns go in pairs, neighbours in the random order.
    """
    z, order, weights = rows.z, mobile.order, mobile.weights
    size, usable = z.shape[1], order.size
    lanes, other = work.lanes[:size], work.other[:size]
    pull = work.pull[: usable * size].reshape(usable, size)
    pairs = usable // 2 if is_binary(law) else 0
    for q in range(pairs):
        j, k = order[2 * q], order[2 * q + 1]
        cross = family.gram[j, k]
        odds = pull.dtype.type(weights[j] - 0.5 * family.norms[j] / family.noise)
        other_odds = pull.dtype.type(weights[k] - 0.5 * family.norms[k] / family.noise)
        for r in range(size):
            lanes[r] = odds + pull[j, r] + cross * z[k, r]
            other[r] = other_odds + pull[k, r] + cross * z[j, r]
        _explain(family.gram, j, z, usable, lanes)
        _explain(family.gram, k, z, usable, other)
        draw_pair(z[j], z[k], lanes, other, cross, stream(key, j), rows.first, work.busy)
    for q in range(2 * pairs, usable):
        k = order[q]
        for r in range(size):
            lanes[r] = pull[k, r]
        _explain(family.gram, k, z, usable, lanes)
        draw_column(law, z[k], lanes, weights[k], family.norms[k] / family.noise, stream(key, k), rows.first, work)


# ---- statistics and missing values


@implements(collect, LinearGaussianFamily)
def _collect(family, tail, rows, key, sums):
    z = rows.z
    products, total = sums.products, sums.sums
    products += np.dot(z, z.T)
    total += np.dot(z, _block(rows.data, rows.start, z.shape[1], tail.block))


@jit
def impute(data, holes, Z, loadings, centre, deviation, key, first):
    d = data.shape[1]
    for q in range(holes.shape[0]):
        i, j = holes[q, 0], holes[q, 1]
        value = centre[j]
        for k in range(Z.shape[0]):
            value += Z[k, i] * loadings[k, j]
        data[i, j] = value + deviation * normal(key, (first + i) * d + j)
