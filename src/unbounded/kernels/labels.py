"""The local step for labels: every row has one atom.

A row's label moves over the shard's *mobile* atoms (instantiated: shared weight and parameters), the shard's *private*
atoms (collapsed) and a new atom. Labels are coded 0 .. usable-1 for mobile atoms, up to shared-1 for atoms that are
held (nobody leaves, nobody joins), and shared + slot for private ones.

For a block of rows the mobile part is one matrix product and one vectorised draw. Whether a row leaves for the tail
needs the tail's weights, but an upper bound on them settles almost every row: with u uniform, the row stays mobile
whenever u (M + bound) < M, M being its mobile weight. Only the rest take the sequential path (docs/sampler.md).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unbounded.kernels.compiled import inline, jit, lane_exp, uniform
from unbounded.kernels.operations import accumulate, bound, clear, evaluate, featurise, logits, update

LOOK_AHEAD = 32


class TailLaw(NamedTuple):
    """Weights in the tail of a shard with `rows` rows in `atoms` private atoms (the moving row left out).

    An atom with m rows weighs c (m - discount), a new one c (birth + extra * atoms), with c = scale / (base + step * rows).
    Ghosts: scale = base = 1, step = extra = 0. As published: the Dirichlet rest mass shared out among the tail.
    """

    discount: float
    birth: float
    extra: float = 0.0
    scale: float = 1.0
    base: float = 1.0
    step: float = 0.0


class Scratch(NamedTuple):
    """Everything a sweep writes besides labels: a few arrays as wide as a block of rows."""

    features: Any
    logits: Any
    top: Any
    total: Any
    aim: Any
    choice: Any
    escape: Any
    needs: Any
    columns: Any
    fresh: Any
    weights: Any


def lanes_for(rows: int, features: int, atoms: int, itemsize: int, sparse: bool = False) -> int:
    """Rows per block: the block fits in the second-level cache, and blocks divide the rows evenly."""
    width = atoms if sparse else features + 2 * atoms
    most = max(64, min(512, int(2**20 / (itemsize * (width + 8)))))
    blocks = max(1, -(-rows // most))
    return -(-max(1, -(-rows // blocks)) // 8) * 8


def scratch(features: int, atoms: int, slots: int, lanes: int, dtype: Any) -> Scratch:
    return Scratch(
        np.ones((features + 1, lanes), dtype), np.empty((atoms, lanes), dtype), np.empty(lanes, dtype),
        np.empty(lanes, dtype), np.empty(lanes, dtype), np.empty(lanes, np.int32), np.empty(lanes),
        np.empty(lanes, np.bool_), np.empty((slots, lanes)), np.empty(slots, np.int64), np.empty(slots),
    )  # fmt: skip


@inline
def _draw_mobile(work, key, row):
    """Inverse-CDF draw of a mobile label for each row of the block; leaves its log scale in `top`, its sum in `total`.

    Atoms go two by two: half the traffic on the running values.
    """
    values, top, total, choice, aim = work.logits, work.top, work.total, work.choice, work.aim
    atoms, lanes = values.shape
    odd = atoms % 2
    for r in range(lanes):
        top[r] = values[0, r] if odd else -np.inf
        total[r] = 0
        choice[r] = 0
    for k in range(odd, atoms, 2):
        for r in range(lanes):
            top[r] = max(top[r], max(values[k, r], values[k + 1, r]))
    if odd:
        for r in range(lanes):
            total[r] = lane_exp(values[0, r] - top[r])
            values[0, r] = total[r]
    for k in range(odd, atoms, 2):
        for r in range(lanes):
            one = total[r] + lane_exp(values[k, r] - top[r])
            two = one + lane_exp(values[k + 1, r] - top[r])
            values[k, r] = one
            values[k + 1, r] = two
            total[r] = two
    for r in range(lanes):
        aim[r] = uniform(key, row + r) * total[r]
    if odd:
        for r in range(lanes):
            choice[r] = np.int32(values[0, r] < aim[r])
    for k in range(odd, atoms, 2):
        for r in range(lanes):
            choice[r] += np.int32(values[k, r] < aim[r]) + np.int32(values[k + 1, r] < aim[r])
    for r in range(lanes):
        choice[r] = min(choice[r], np.int32(atoms - 1))


@inline
def _find_needs(work, labels, start, begin, size, usable, shared, log_bound):
    """Mark the rows from `begin` on that the bound does not settle; `escape` holds their uniforms."""
    count = 0
    top, total, escape, needs = work.top, work.total, work.escape, work.needs
    for r in range(begin, size):
        z = labels[start + r]
        weight = lane_exp(min(log_bound - np.float64(top[r]), 80.0))
        open_ = escape[r] * (np.float64(total[r]) + weight) >= np.float64(total[r])
        needs[r] = (open_ or z >= shared) and not (usable <= z < shared)
        count += needs[r]
    return count


@jit
def _log_tail_bound(families, tail, members, law, prior):
    """Log of an upper bound on all the tail's weights together; roundings are covered by the slack."""
    top = -np.inf
    for pass_ in range(2):
        total = 0.0
        atoms = 0
        for slot in range(members.size):
            if members[slot] > 0:
                atoms += 1
                if members[slot] > law.discount:
                    value = math.log(members[slot] - law.discount) + bound(families, tail, slot)
                    if pass_ == 0:
                        top = max(top, value)
                    else:
                        total += math.exp(value - top)
        births = law.birth + law.extra * atoms
        if births > 0:
            value = math.log(births) + bound(families, tail, prior)
            if pass_ == 0:
                top = max(top, value)
            else:
                total += math.exp(value - top)
        if pass_ == 0 and not (-np.inf < top < np.inf):
            return top
    return top + math.log(total) + math.log(law.scale / law.base) + 1e-6


@jit
def sweep(
    families, data, labels, first, begin, eta, usable, shared, law, tail, members, label_key, tail_key, work
):
    """One sweep over the rows begin .. n of a shard; returns n, or the row at which a free slot was missing."""
    n = labels.size
    lanes = work.features.shape[1]
    slots = members.size
    rows_in_tail = 0
    for slot in range(slots):
        rows_in_tail += members[slot]
    births_possible = law.birth > 0.0 or law.extra > 0.0
    log_bound = _log_tail_bound(families, tail, members, law, slots)
    for start in range(begin, n, lanes):
        size = min(lanes, n - start)
        logits(families, data, start, size, eta, work.features, work.logits)
        _draw_mobile(work, label_key, first + start)
        for r in range(size):
            z = labels[start + r]
            if z < usable:
                labels[start + r] = work.choice[r]
        if not births_possible and rows_in_tail == 0:
            continue
        for r in range(size):
            work.escape[r] = uniform(tail_key, first + start + r)
        count = _find_needs(work, labels, start, 0, size, usable, shared, log_bound)
        if count == 0:
            continue
        look = LOOK_AHEAD if 8 * count > size else 1
        for slot in range(slots + 1):
            work.fresh[slot] = 0
        for r in range(size):
            if not work.needs[r]:
                continue
            i = start + r
            free = -1
            for slot in range(slots):
                if members[slot] == 0:
                    free = slot
                    break
            if free < 0 and (labels[i] < shared or members[labels[i] - shared] > 1):
                return i
            changed = _move(
                families, data, labels, start, r, size, shared, law, tail, members, rows_in_tail, free, look, work
            )
            rows_in_tail += changed[1]
            if changed[0]:
                log_bound = _log_tail_bound(families, tail, members, law, slots)
                _find_needs(work, labels, start, r + 1, size, usable, shared, log_bound)
    return n


@jit
def _move(families, data, labels, start, r, size, shared, law, tail, members, rows_in_tail, free, look, work):
    """Gibbs move of one row over mobile, private and new atoms; returns (tail changed, change of rows in the tail)."""
    i = start + r
    slots = members.size
    features, columns, fresh, weights = work.features, work.columns, work.fresh, work.weights
    old = labels[i] - shared
    if old >= 0:
        members[old] -= 1
        update(families, tail, old, data, start, features, r, -1)
        fresh[old] = 0
        rows_in_tail -= 1
        if members[old] == 0:
            free = old
    atoms = 0
    log_mobile = np.float64(work.top[r]) + math.log(np.float64(work.total[r])) if work.total[r] > 0 else -np.inf
    log_common = math.log(law.scale / (law.base + law.step * rows_in_tail))
    best = log_mobile
    for slot in range(slots):
        weights[slot] = -np.inf
        if members[slot] > 0:
            atoms += 1
            if fresh[slot] <= r:
                _refresh(families, tail, slot, data, start, features, r, min(size, r + look), columns, fresh)
            weights[slot] = columns[slot, r] + math.log(members[slot] - law.discount) + log_common
            best = max(best, weights[slot])
    births = law.birth + law.extra * atoms
    weights[slots] = -np.inf
    if births > 0:
        if fresh[slots] <= r:
            _refresh(families, tail, slots, data, start, features, r, min(size, r + look), columns, fresh)
        weights[slots] = columns[slots, r] + math.log(births) + log_common
        best = max(best, weights[slots])
    mobile = math.exp(log_mobile - best)
    total = mobile
    for slot in range(slots + 1):
        weights[slot] = math.exp(weights[slot] - best)
        total += weights[slot]
    aim = work.escape[r] * total - mobile
    if aim < 0.0:
        labels[i] = work.choice[r]
        return old >= 0, -1 if old >= 0 else 0
    chosen = -1
    for slot in range(slots + 1):
        if weights[slot] > 0.0:
            chosen = slot
            aim -= weights[slot]
            if aim < 0.0:
                break
    if chosen == slots:
        chosen = free
        clear(families, tail, chosen)
    members[chosen] += 1
    update(families, tail, chosen, data, start, features, r, 1)
    fresh[chosen] = 0
    labels[i] = shared + chosen
    return True, 0 if old >= 0 else 1


@inline
def _refresh(families, tail, slot, data, start, features, begin, end, columns, fresh):
    column = columns[slot]
    for q in range(begin, end):
        column[q] = 0.0
    evaluate(families, tail, slot, data, start, features, begin, end, column)
    fresh[slot] = end


@jit
def fill_tail(families, data, labels, shared, tail, members, work):
    """Rebuild the collapsed state of the private atoms from the shard's own rows."""
    for slot in range(members.size + 1):
        clear(families, tail, slot)
    lanes = work.features.shape[1]
    if members.size == 0:
        return
    members[:] = 0
    for start in range(0, labels.size, lanes):
        size = min(lanes, labels.size - start)
        any_private = False
        for r in range(size):
            any_private |= labels[start + r] >= shared
        if not any_private:
            continue
        featurise(families, data, start, size, work.features)
        for r in range(size):
            slot = labels[start + r] - shared
            if slot >= 0:
                members[slot] += 1
                update(families, tail, slot, data, start, work.features, r, 1)


@jit
def relabel(labels, codes):
    for i in range(labels.size):
        labels[i] = codes[labels[i]]


@jit
def statistics(families, data, labels, atoms, features):
    """Counts and statistics of every atom of the shard: counting sort by chunks, then one product per atom."""
    chunk = 8192
    counts = np.zeros(atoms, np.int64)
    sums = np.zeros((atoms, features))
    ends = np.empty(atoms + 1, np.int64)
    order = np.empty(min(chunk, labels.size), np.int64)
    for start in range(0, labels.size, chunk):
        size = min(chunk, labels.size - start)
        ends[:] = 0
        for r in range(size):
            ends[labels[start + r] + 1] += 1
        for k in range(atoms):
            counts[k] += ends[k + 1]
            ends[k + 1] += ends[k]
        for r in range(size):
            k = labels[start + r]
            order[ends[k]] = start + r
            ends[k] += 1
        begin = 0
        for k in range(atoms):
            if ends[k] > begin:
                accumulate(families, data, order[begin : ends[k]], sums[k])
            begin = ends[k]
    return counts, sums


@jit
def predictive(families, tail, slots, data, start, size, features, out):
    """out[k, r]: log predictive of the block's rows under each of the packed atoms (for prediction and scores)."""
    featurise(families, data, start, size, features)
    for k in range(slots):
        column = out[k]
        for r in range(size):
            column[r] = 0.0
        evaluate(families, tail, k, data, start, features, 0, size, column)
