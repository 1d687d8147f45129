"""Linear Gaussian factors, compiled (linear_gaussian.py): visits of single rows and the collapsed private atoms.

Given the shard's other rows, the loadings of its private atoms are Gaussian with mean `a` and covariance `V` (the same
for all columns), which change by rank one when a row comes or goes.
"""

from __future__ import annotations

import math

import numpy as np

from unbounded.compiled.draws import stream, uniform
from unbounded.compiled.jit import implements, inline, jit
from unbounded.models.features.entries import Entry, Quadratic, draw_entry
from unbounded.models.features.laws import entry_ratio, is_binary
from unbounded.models.features.linear_gaussian_compiled import LinearGaussianFamily
from unbounded.models.features.operations import (
    apply,
    arrive,
    depart,
    entry_number,
    open_slot,
    seek,
    shift,
    visit_mobile,
)

REFRESH = 256  # rank-one changes after which V and a are computed afresh


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
def _residual(family, data, i, z, r, out):
    for j in range(out.size):
        out[j] = data[i, j] - family.centre[j]
    for k in range(family.loadings.shape[0]):
        if z[k, r] > 0:
            _add(out, -float(z[k, r]), family.loadings[k])


@jit
def _measure_row(family, tail, z, r, shared):
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
def _rank_one(family, tail, z, r, shared, sign):
    """Add (1) or remove (-1) the visited row: V -+ Vz z'V / (noise +- z'Vz), and a with it."""
    slots = tail.Vz.size
    factor = 1.0 / (family.noise + sign * tail.numbers[0])
    for k in range(slots):
        if tail.Vz[k] != 0.0:
            gain = sign * tail.Vz[k] * factor
            _add(tail.a[k], gain, tail.error)
            _add(tail.V[k], -gain, tail.Vz)
            tail.norms[k] = _dot(tail.a[k], tail.a[k])
    for k in range(slots):
        entry = float(z[shared + k, r])
        if entry > 0.0:
            _add(tail.h[k], sign * entry / family.noise, tail.residual)
            for j in range(slots):
                tail.zz[k, j] += sign * entry * z[shared + j, r]
    tail.numbers[2] += 1.0


@jit
def _refresh(family, tail):
    slots = tail.Vz.size
    precision = np.empty((slots, slots))
    for k in range(slots):
        for j in range(slots):
            precision[k, j] = tail.zz[k, j] / family.noise
        precision[k, k] += 1.0 / family.loading
    inverse = np.linalg.inv(precision)
    for k in range(slots):
        for j in range(slots):
            tail.V[k, j] = inverse[k, j]
    np.dot(tail.V, tail.h, tail.a)
    for k in range(slots):
        tail.norms[k] = _dot(tail.a[k], tail.a[k])
    tail.numbers[2] = 0.0


@jit
def _any_private(z, r, shared):
    found = False
    for k in range(shared, z.shape[0]):
        found |= z[k, r] > 0
    return found


@implements(seek, LinearGaussianFamily)
def _seek(family, law, private, rows, r, turn, work):
    """A row without private entries stays so if each of its private columns says no while all others are out."""
    tail, members, z = private.tail, private.members, rows.z
    size, slots = z.shape[1], members.size
    if not is_binary(law):
        return r
    error, noise = tail.residual, family.noise
    constant, inverse = tail.constant, tail.inverse
    for k in range(slots):
        inverse[k] = 1.0 / (noise + tail.V[k, k])
        constant[k] = -np.inf
        if members[k] > 0:
            odds = entry_ratio(law, float(members[k]), 0.0, 0)
            constant[k] = math.log(odds) + 0.5 * error.size * math.log(noise * inverse[k])
    while r < size:
        if work.busy[r] or turn.born[r] > 0:
            return r
        _residual(family, rows.data, rows.start + r, z, r, error)
        square = _dot(error, error)
        own = stream(turn.visits, rows.first + r)
        for k in range(slots):
            if members[k] > 0:
                moved = square - 2.0 * _dot(error, tail.a[k]) + tail.norms[k]
                gain = constant[k] + 0.5 * (square / noise - moved * inverse[k])
                if uniform(own, entry_number(k)) * (1.0 + math.exp(min(gain, 700.0))) >= 1.0:  # mutant: seek condition
                    return r
        r += 1
    return r


@implements(arrive, LinearGaussianFamily)
def _arrive(family, private, rows, r):
    tail, members, z, shared = private.tail, private.members, rows.z, rows.shared
    _residual(family, rows.data, rows.start + r, z, r, tail.residual)
    _measure_row(family, tail, z, r, shared)
    if not _any_private(z, r, shared):
        return
    _rank_one(family, tail, z, r, shared, -1)
    for k in range(tail.Vz.size):
        if z[shared + k, r] > 0 and members[k] == z[shared + k, r]:
            open_slot(family, tail, k, np.uint64(0))
    _measure_row(family, tail, z, r, shared)


@implements(open_slot, LinearGaussianFamily)
def _open_slot(family, tail, slot, key):
    """A new atom knows nothing yet: its loadings have their prior."""
    tail.V[slot, :] = 0.0
    tail.V[:, slot] = 0.0
    tail.V[slot, slot] = family.loading
    tail.a[slot] = 0.0
    tail.norms[slot] = 0.0
    tail.h[slot] = 0.0
    tail.zz[slot, :] = 0.0
    tail.zz[:, slot] = 0.0


@implements(visit_mobile, LinearGaussianFamily)
def _visit_mobile(family, law, tail, rows, r, mobile, key, work):
    z = rows.z
    variance = family.noise + tail.numbers[0]
    for q in range(mobile.order.size):
        k = mobile.order[q]
        old = int(z[k, r])
        pull = (_dot(family.loadings[k], tail.error) + old * family.norms[k]) / variance
        quadratic = Quadratic(pull, family.norms[k] / variance)
        u = uniform(stream(key, k), rows.first + r)
        new = draw_entry(law, quadratic, 0, Entry(r, 0, 0, -1.0, mobile.weights[k]), u, work.ladder)
        if new != old:
            z[k, r] = new
            _add(tail.error, float(old - new), family.loadings[k])
            _add(tail.residual, float(old - new), family.loadings[k])
    tail.numbers[1] = _dot(tail.error, tail.error)


@implements(shift, LinearGaussianFamily)
def _shift(family, tail, r, column, step):
    """Of a private column: mobile ones have a quadratic of their own."""
    if step == 0.0:
        return 0.0
    k = column - family.loadings.shape[0]
    added, square = tail.numbers[0], tail.numbers[1]
    before = family.noise + added
    after = before + step * (2.0 * tail.Vz[k] + step * tail.V[k, k])
    moved = square - step * (2.0 * _dot(tail.error, tail.a[k]) - step * tail.norms[k])
    return 0.5 * (square / before - moved / after) - 0.5 * tail.error.size * math.log(after / before)


@implements(apply, LinearGaussianFamily)
def _apply(family, tail, r, column, step):
    k = column - family.loadings.shape[0]
    tail.numbers[0] += step * (2.0 * tail.Vz[k] + step * tail.V[k, k])
    _add(tail.error, -step, tail.a[k])
    _add(tail.Vz, step, tail.V[k])
    tail.numbers[1] = _dot(tail.error, tail.error)


@implements(depart, LinearGaussianFamily)
def _depart(family, tail, rows, r):
    if _any_private(rows.z, r, rows.shared):
        _rank_one(family, tail, rows.z, r, rows.shared, 1)
        if tail.numbers[2] > REFRESH:
            _refresh(family, tail)


@jit
def fill(family, tail, data, Z, shared):
    for i in range(Z.shape[1]):
        if _any_private(Z, i, shared):
            _residual(family, data, i, Z, i, tail.residual)
            tail.numbers[0] = 0.0
            _rank_one(family, tail, Z, i, shared, 1)
    _refresh(family, tail)
