"""The compiled operations of linear Gaussian factors (linear_gaussian.py).

Given the shard's other rows, the loadings of its private atoms are Gaussian with mean `a` and covariance `V` (the same
for all columns), which get a rank-one update when a row is added or removed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from unbounded.arrays import Array
from unbounded.compiled.draws import normal, stream, uniform
from unbounded.compiled.jit import OVERLOAD, implements, inline, jit
from unbounded.compiled.products import invert, multiply, read_only
from unbounded.models.features.entries import Entry, Quadratic, draw_entry, draw_pair
from unbounded.models.features.laws import draw_column, entry_ratio, is_binary
from unbounded.models.features.operations import (
    apply,
    begin_visit,
    collect,
    end_visit,
    entry_number,
    fill,
    log_change,
    mobile_waits,
    next_visit,
    open_slot,
    prepare,
    reset,
    sweep_mobile,
    visit_mobile,
)

NARROW = 24  # mobile columns up to which BLAS is faster with rows first
REFRESH = 256  # rank-one updates after which V and a are computed afresh


class LinearGaussianSpec(NamedTuple):
    centre: Array
    loadings: Array  # [shared, D]
    norms: Array  # [shared] squared lengths
    scaled: Array  # flat: usable x D, or D x usable where they are few: loadings / noise, in the precision of lanes
    gram: Array  # [usable, shared] products of loadings / noise, zero where an atom meets itself
    noise: float
    loading: float


class LinearGaussianTail(NamedTuple):
    V: Array  # [slots, slots]
    a: Array  # [slots, D]
    zz: Array  # [slots, slots] products of entries
    h: Array  # [slots, D] entries times residuals / noise
    residual: Array  # [D] of the visited row, without its private atoms
    error: Array  # [D] the same less the expected contribution of its private atoms
    Vz: Array  # [slots]
    numbers: Array  # variance added by private atoms, squared error, updates since the last refresh
    norms: Array  # [slots] squared lengths of a
    odds: Array  # [2, slots] of the search for rows that may change
    block: Array  # flat: rows x D
    wide: Array  # flat, for single precision: rows x D, columns x rows and their product, in double precision


@implements(mobile_waits, LinearGaussianSpec)
def _mobile_waits(spec):
    return True


def _block(data: Any, start: int, size: int, centre: Any, scratch: Any) -> Any:
    """Centred rows in the precision of the vectorised part: as `_copy_block` copied them, or as they are."""


def _copy_block(data: Any, start: int, size: int, centre: Any, scratch: Any) -> Any:
    """Make a centred copy, unless the rows can be used as they are.

    Rows far from zero would lose too many digits in products and sums: in single precision all of them.
    """


def _copied(data: Any, centre: Any, scratch: Any) -> Any:
    """Whether a block is a copy."""


@overload(_copied, **OVERLOAD)
def _choose_copied(data: Any, centre: Any, scratch: Any) -> Any:
    if data.dtype != scratch.dtype:
        return lambda data, centre, scratch: True
    return lambda data, centre, scratch: _any(centre)


@overload(_copy_block, **OVERLOAD)
def _choose_copy(data: Any, start: int, size: int, centre: Any, scratch: Any) -> Any:
    def copy(data, start, size, centre, scratch):
        if _copied(data, centre, scratch):
            d = data.shape[1]
            block = scratch[: size * d].reshape(size, d)
            for r in range(size):
                for j in range(d):
                    block[r, j] = data[start + r, j] - centre[j]

    return copy


@overload(_block, **OVERLOAD)
def _choose_block(data: Any, start: int, size: int, centre: Any, scratch: Any) -> Any:
    if data.dtype != scratch.dtype:
        return lambda data, start, size, centre, scratch: scratch[: size * data.shape[1]].reshape(size, data.shape[1])

    def chosen(data, start, size, centre, scratch):
        if _any(centre):
            return read_only(scratch[: size * data.shape[1]].reshape(size, data.shape[1]))
        return data[start : start + size]

    return chosen


@jit
def _any(values):
    found = False
    for j in range(values.size):
        found |= values[j] != 0.0
    return found


# ---- the mobile columns of a block, in lanes


@implements(prepare, LinearGaussianSpec)
def _prepare(spec, tail, rows, usable, work):
    """pull[k, r] = A_k . (x_r - centre - what frozen columns explain) / noise."""
    z = rows.z
    size, d = z.shape[1], rows.data.shape[1]
    _copy_block(rows.data, rows.start, size, spec.centre, tail.block)
    if usable == 0:
        return
    block = _block(rows.data, rows.start, size, spec.centre, tail.block)
    pull = work.pull[: usable * size].reshape(usable, size)
    if usable <= NARROW:
        products = work.scratch[: size * usable].reshape(size, usable)
        multiply(block, spec.scaled.reshape(d, usable), products)
        for k in range(usable):
            for r in range(size):
                pull[k, r] = products[r, k]
    else:
        multiply(spec.scaled.reshape(usable, d), block.T, pull)
    for k in range(usable):
        for j in range(usable, spec.loadings.shape[0]):
            g = spec.gram[k, j]
            for r in range(size):
                pull[k, r] -= g * z[j, r]


@jit
def _explain(gram, k, z, usable, out):
    """Subtract from column k's pull what the mobile columns explain, four at a time."""
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


@implements(sweep_mobile, LinearGaussianSpec)
def _sweep_mobile(spec, law, tail, rows, mobile, key, work):
    """In Gram form: the gain of an entry is its pull less what the other mobile columns already explain.

    0/1 columns are drawn in pairs of neighbours in the random order.
    """
    z, order, weights = rows.z, mobile.order, mobile.weights
    size, usable = z.shape[1], order.size
    lanes, other = work.scratch[:size], work.scratch[size : 2 * size]
    pull = work.pull[: usable * size].reshape(usable, size)
    pairs = usable // 2 if is_binary(law) else 0
    for q in range(pairs):
        j, k = order[2 * q], order[2 * q + 1]
        cross = spec.gram[j, k]
        odds = pull.dtype.type(weights[j] - 0.5 * spec.norms[j] / spec.noise)
        other_odds = pull.dtype.type(weights[k] - 0.5 * spec.norms[k] / spec.noise)
        for r in range(size):
            lanes[r] = odds + pull[j, r] + cross * z[k, r]
            other[r] = other_odds + pull[k, r] + cross * z[j, r]
        _explain(spec.gram, j, z, usable, lanes)
        _explain(spec.gram, k, z, usable, other)
        draw_pair(z[j], z[k], lanes, other, cross, stream(key, j), rows.first, work.busy)
    for q in range(2 * pairs, usable):
        k = order[q]
        for r in range(size):
            lanes[r] = pull[k, r]
        _explain(spec.gram, k, z, usable, lanes)
        draw_column(law, z[k], lanes, weights[k], spec.norms[k] / spec.noise, stream(key, k), rows.first, work)


# ---- visits of single rows, and the collapsed private atoms


@inline
def _dot(x, y):
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@inline
def _add(x, factor, y):
    for j in range(x.size):
        x[j] += factor * y[j]


@jit
def _residual(loadings, centre, data, i, z, r, out):
    for j in range(out.size):
        out[j] = data[i, j] - centre[j]
    for k in range(loadings.shape[0]):
        if z[k, r] > 0:
            _add(out, -float(z[k, r]), loadings[k])


@jit
def _measure_row(tail, z, r, shared):
    """Vz, z'Vz, and the error of the visited row given its private entries."""
    slots = tail.Vz.size
    tail.Vz[:] = 0.0
    for j in range(tail.error.size):
        tail.error[j] = tail.residual[j]
    added = 0.0
    for k in range(slots):
        if z[shared + k, r] > 0:
            _add(tail.Vz, float(z[shared + k, r]), tail.V[k])
            _add(tail.error, -float(z[shared + k, r]), tail.a[k])
    for k in range(slots):
        added += z[shared + k, r] * tail.Vz[k]
    tail.numbers[0] = added
    tail.numbers[1] = _dot(tail.error, tail.error)


@jit
def _rank_one(tail, noise, z, r, shared, sign):
    """Add (1) or remove (-1) the visited row: V -+ Vz z'V / (noise +- z'Vz), and a with it."""
    slots = tail.Vz.size
    factor = 1.0 / (noise + sign * tail.numbers[0])
    for k in range(slots):
        if tail.Vz[k] != 0.0:
            gain = sign * tail.Vz[k] * factor
            _add(tail.a[k], gain, tail.error)
            _add(tail.V[k], -gain, tail.Vz)
            tail.norms[k] = _dot(tail.a[k], tail.a[k])
    for k in range(slots):
        entry = float(z[shared + k, r])
        if entry > 0.0:
            _add(tail.h[k], sign * entry / noise, tail.residual)
            for j in range(slots):
                tail.zz[k, j] += sign * entry * z[shared + j, r]
    tail.numbers[2] += 1.0


@jit
def _refresh(tail, noise, loading):
    """Compute V and a afresh from sums over rows."""
    slots, V = tail.Vz.size, tail.V
    for k in range(slots):
        for j in range(slots):
            V[k, j] = tail.zz[k, j] / noise
        V[k, k] += 1.0 / loading
    invert(V, tail.odds)
    for k in range(slots):
        for j in range(k):
            V[k, j], V[j, k] = V[j, k], V[k, j]
    multiply(V, tail.h, tail.a)
    for k in range(slots):
        tail.norms[k] = _dot(tail.a[k], tail.a[k])
    tail.numbers[2] = 0.0


@jit
def _any_private(z, r, shared):
    found = False
    for k in range(shared, z.shape[0]):
        found |= z[k, r] > 0
    return found


@implements(next_visit, LinearGaussianSpec)
def _next_visit(spec, law, private, rows, r, draws, work):
    """A row without private entries keeps none if each private column would be 0 with all the others at 0."""
    tail, members, z = private.tail, private.members, rows.z
    size, slots = z.shape[1], members.size
    if not is_binary(law):
        return r
    error, noise = tail.residual, spec.noise
    constant, inverse = tail.odds[0], tail.odds[1]
    for k in range(slots):
        inverse[k] = 1.0 / (noise + tail.V[k, k])
        constant[k] = -np.inf
        if members[k] > 0:
            odds = entry_ratio(law, float(members[k]), 0.0, 0)
            constant[k] = math.log(odds) + 0.5 * error.size * math.log(noise * inverse[k])
    while r < size:
        if work.busy[r] or draws.born[r] > 0:
            return r
        _residual(spec.loadings, spec.centre, rows.data, rows.start + r, z, r, error)
        square = _dot(error, error)
        own = stream(draws.visits, rows.first + r)
        for k in range(slots):
            if members[k] > 0:
                moved = square - 2.0 * _dot(error, tail.a[k]) + tail.norms[k]
                gain = constant[k] + 0.5 * (square / noise - moved * inverse[k])
                if uniform(own, entry_number(k)) * (1.0 + math.exp(min(gain, 700.0))) >= 1.0:  # mutant: seek condition
                    return r
        r += 1
    return r


@implements(begin_visit, LinearGaussianSpec)
def _begin_visit(spec, private, rows, r):
    tail, members, z, shared = private.tail, private.members, rows.z, rows.shared
    _residual(spec.loadings, spec.centre, rows.data, rows.start + r, z, r, tail.residual)
    _measure_row(tail, z, r, shared)
    if not _any_private(z, r, shared):
        return
    _rank_one(tail, spec.noise, z, r, shared, -1)
    for k in range(tail.Vz.size):
        if z[shared + k, r] > 0 and members[k] == z[shared + k, r]:
            open_slot(spec, tail, k, np.uint64(0))
    _measure_row(tail, z, r, shared)


@implements(open_slot, LinearGaussianSpec)
def _open_slot(spec, tail, slot, key):
    """The loadings of a new atom have their prior."""
    tail.V[slot, :] = 0.0
    tail.V[:, slot] = 0.0
    tail.V[slot, slot] = spec.loading
    tail.a[slot] = 0.0
    tail.norms[slot] = 0.0
    tail.h[slot] = 0.0
    tail.zz[slot, :] = 0.0
    tail.zz[:, slot] = 0.0


@implements(visit_mobile, LinearGaussianSpec)
def _visit_mobile(spec, law, tail, rows, r, mobile, key, work):
    z = rows.z
    variance = spec.noise + tail.numbers[0]
    for q in range(mobile.order.size):
        k = mobile.order[q]
        old = int(z[k, r])
        pull = (_dot(spec.loadings[k], tail.error) + old * spec.norms[k]) / variance
        quadratic = Quadratic(pull, spec.norms[k] / variance)
        u = uniform(stream(key, k), rows.first + r)
        new = draw_entry(law, quadratic, 0, Entry(r, 0, 0, -1.0, mobile.weights[k]), u, work.ladder)
        if new != old:
            z[k, r] = new
            _add(tail.error, float(old - new), spec.loadings[k])
            _add(tail.residual, float(old - new), spec.loadings[k])
    tail.numbers[1] = _dot(tail.error, tail.error)


@implements(log_change, LinearGaussianSpec)
def _log_change(spec, tail, r, column, step):
    """Used for private columns only: mobile ones have `Quadratic`."""
    if step == 0.0:
        return 0.0
    k = column - spec.loadings.shape[0]
    added, square = tail.numbers[0], tail.numbers[1]
    before = spec.noise + added
    after = before + step * (2.0 * tail.Vz[k] + step * tail.V[k, k])
    moved = square - step * (2.0 * _dot(tail.error, tail.a[k]) - step * tail.norms[k])
    return 0.5 * (square / before - moved / after) - 0.5 * tail.error.size * math.log(after / before)


@implements(apply, LinearGaussianSpec)
def _apply(spec, tail, r, column, step):
    k = column - spec.loadings.shape[0]
    tail.numbers[0] += step * (2.0 * tail.Vz[k] + step * tail.V[k, k])
    _add(tail.error, -step, tail.a[k])
    _add(tail.Vz, step, tail.V[k])
    tail.numbers[1] = _dot(tail.error, tail.error)


@implements(end_visit, LinearGaussianSpec)
def _end_visit(spec, tail, rows, r):
    if _any_private(rows.z, r, rows.shared):
        _rank_one(tail, spec.noise, rows.z, r, rows.shared, 1)
        if tail.numbers[2] > REFRESH:
            _refresh(tail, spec.noise, spec.loading)


@implements(reset, LinearGaussianSpec)
def _reset(spec, tail):
    for slot in range(tail.Vz.size):
        open_slot(spec, tail, slot, np.uint64(0))
        tail.Vz[slot] = 0.0
    for j in range(tail.numbers.size):
        tail.numbers[j] = 0.0


@implements(fill, LinearGaussianSpec)
def _fill(spec, tail, part, shared, work):
    columns, n = part.Z.shape
    z = work.z[:columns].reshape(columns, 1)
    for i in range(n):
        any_private = False
        for k in range(shared, columns):
            any_private |= part.Z[k, i] > 0
        if any_private:
            for k in range(columns):
                z[k, 0] = part.Z[k, i]
            _residual(spec.loadings, spec.centre, part.data, i, z, 0, tail.residual)
            _rank_one(tail, spec.noise, z, 0, shared, 1)
    _refresh(tail, spec.noise, spec.loading)


# ---- statistics and missing values


@implements(collect, LinearGaussianSpec)
def _collect(spec, tail, rows, key, sums, work):
    z = rows.z
    multiply(z, z.T, work.scratch)
    _add_up(work.scratch, sums.products)
    _add_rows(spec, tail, rows, z, sums.sums, work)


def _add_rows(spec: Any, tail: Any, rows: Any, z: Any, out: Any, work: Any) -> None:
    """Centred rows times entries, in double precision even where lanes are in single precision: the error of a sum of a
    million rows would cost nats of their density."""


@overload(_add_rows, **OVERLOAD)
def _choose_add_rows(spec: Any, tail: Any, rows: Any, z: Any, out: Any, work: Any) -> Any:
    def product(spec, tail, rows, z, out, work):
        multiply(z, _block(rows.data, rows.start, z.shape[1], spec.centre, tail.block), work.scratch)
        _add_up(work.scratch, out)

    def widened(spec, tail, rows, z, out, work):
        data, start, (columns, size), d = rows.data, rows.start, z.shape, out.shape[1]
        cells, entries = size * d, columns * size
        X = tail.wide[:cells].reshape(size, d)
        Z = tail.wide[cells : cells + entries].reshape(columns, size)
        product = tail.wide[cells + entries :]
        for r in range(size):
            for j in range(d):
                X[r, j] = data[start + r, j] - spec.centre[j]  # mutant: sums in double
        for k in range(columns):
            for r in range(size):
                Z[k, r] = z[k, r]
        multiply(Z, X, product)
        _add_up(product, out)

    return widened if z.dtype.bitwidth == 32 else product


@inline
def _add_up(flat, out):
    size = out.shape[1]
    for k in range(out.shape[0]):
        row = flat[k * size : (k + 1) * size]
        for j in range(size):
            out[k, j] += row[j]


@jit
def impute(data, holes, Z, loadings, centre, deviation, key, first):
    d = data.shape[1]
    for q in range(holes.shape[0]):
        i, j = holes[q, 0], holes[q, 1]
        value = centre[j]
        for k in range(Z.shape[0]):
            value += Z[k, i] * loadings[k, j]
        data[i, j] = value + deviation * normal(key, (first + i) * d + j)
