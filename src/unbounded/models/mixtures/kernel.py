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

from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.compiled.lanes import lane_exp
from unbounded.likelihoods.operations import Block, clear, logits, refresh, screen, update

LOOK_AHEAD = 32
SLACK = 1e-6  # nats by which a bound is raised, to cover rounding


class TailLaw(NamedTuple):
    """Weights in the tail of a shard with `rows` rows in `atoms` private atoms (the moving row left out).

    An atom with m rows weighs c (m - discount), a new one c (birth + extra * atoms); c = scale / (base + step * rows).
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
    cap: Any
    margin: Any
    screened: Any
    needs: Any
    columns: Any
    fresh: Any
    weights: Any


def scratch(features: int, atoms: int, slots: int, lanes: int, dtype: Any) -> Scratch:
    def lane(kind: Any = np.float64) -> Any:
        return np.empty(lanes, kind)

    rows = np.empty((features + 1, lanes), dtype)
    rows[-1] = 1.0
    return Scratch(
        features=rows,
        logits=np.empty((atoms, lanes), dtype),
        top=lane(dtype),
        total=lane(dtype),
        aim=lane(dtype),
        choice=lane(dtype),
        escape=lane(),
        cap=lane(),
        margin=lane(),
        screened=lane(),
        needs=lane(np.bool_),
        columns=np.empty((slots, lanes)),
        fresh=np.empty(slots, np.int64),
        weights=np.empty(slots),
    )


@jit
def draw_mobile(work, key, row):
    """Inverse-CDF draw of a mobile label for each row of the block; leaves the sum of its weights in `total`.

    Atoms go four by four, which saves traffic on the running values.
    """
    values, top, total, choice, aim = work.logits, work.top, work.total, work.choice, work.aim
    atoms, lanes = values.shape
    one = values.dtype.type(1)
    none = values.dtype.type(0)
    for r in range(lanes):
        total[r] = none
    for k in range(0, atoms - 3, 4):
        for r in range(lanes):
            t = top[r]
            c0 = total[r] + lane_exp(values[k, r] - t)
            c1 = c0 + lane_exp(values[k + 1, r] - t)
            c2 = c1 + lane_exp(values[k + 2, r] - t)
            c3 = c2 + lane_exp(values[k + 3, r] - t)
            values[k, r] = c0
            values[k + 1, r] = c1
            values[k + 2, r] = c2
            values[k + 3, r] = c3
            total[r] = c3
    for k in range(atoms - atoms % 4, atoms):
        for r in range(lanes):
            total[r] += lane_exp(values[k, r] - top[r])
            values[k, r] = total[r]
    for r in range(lanes):
        aim[r] = uniform(key, row + r) * total[r]
        choice[r] = none
    # aim <= total, which is the last running sum: the last atom takes what is left.
    for k in range(0, atoms - 3, 4):
        for r in range(lanes):
            a = aim[r]
            low = (one if values[k, r] < a else none) + (one if values[k + 1, r] < a else none)
            choice[r] += low + (one if values[k + 2, r] < a else none) + (one if values[k + 3, r] < a else none)
    for k in range(atoms - atoms % 4, atoms):
        for r in range(lanes):
            choice[r] += one if values[k, r] < aim[r] else none


@jit
def _raise_cap(families, tail, slot, weight, block, begin, work):
    """Add to each row's `cap`, the bound on its tail weights, what one more atom may weigh; SLACK covers rounding."""
    top, cap, column, size = work.top, work.cap, work.screened, block.size
    log_weight = math.log(weight) + SLACK  # mutant: raise cap log weight
    for r in range(begin, size):
        column[r] = log_weight
    screen(families, tail, slot, block, begin, size, column)
    for r in range(begin, size):
        cap[r] += lane_exp(min(column[r] - np.float64(top[r]), 80.0))


@jit
def _raise_changed(families, tail, members, law, block, begin, left, joined, work):
    """After a row left and joined private atoms, make the cap right again for the rows to come."""
    largest = law.scale / law.base
    if joined >= 0:
        weight = largest * (members[joined] - law.discount)
        _raise_cap(families, tail, joined, weight, block, begin, work)
        if law.extra > 0.0:
            _raise_cap(families, tail, members.size, largest * law.extra, block, begin, work)
    if left >= 0 and left != joined and members[left] > 0:
        weight = largest * (members[left] - law.discount)
        _raise_cap(families, tail, left, weight, block, begin, work)


@jit
def _find_needs(work, labels, start, begin, size, usable, shared):
    """Mark the rows from `begin` on that the cap does not settle, and count them."""
    total, cap, escape, margin, needs = work.total, work.cap, work.escape, work.margin, work.needs
    for r in range(begin, size):
        margin[r] = escape[r] * (np.float64(total[r]) + cap[r]) - np.float64(total[r])
    count = 0
    for r in range(begin, size):
        needs[r] = (margin[r] >= 0.0) | (labels[start + r] >= usable)
        count += needs[r]
    for r in range(begin, size if count and shared > usable else begin):
        if usable <= labels[start + r] < shared:
            count -= 1
            needs[r] = False
    return count


@jit
def _screen_block(families, block, labels, usable, shared, law, tail, members, work):
    """Bound the tail's weights for every row of the block; returns how many rows need the sequential path."""
    largest = law.scale / law.base
    start, size = block.start, block.size
    for r in range(size):
        work.cap[r] = 0.0
    atoms = 0
    for slot in range(members.size):
        if members[slot] > 0:
            atoms += 1
            weight = largest * (members[slot] - law.discount)
            _raise_cap(families, tail, slot, weight, block, 0, work)
    births = law.birth + law.extra * (atoms + 1)
    if births > 0.0:
        _raise_cap(families, tail, members.size, largest * births, block, 0, work)
    return _find_needs(work, labels, start, 0, size, usable, shared)


@jit
def sweep(families, data, labels, first, begin, finite, usable, shared, law, tail, members, label_key, tail_key, work):
    """One sweep over the rows begin .. n of a shard; returns n, or the row at which a free slot was missing."""
    n = labels.size
    lanes = work.top.size
    slots = members.size
    rows_in_tail = 0
    for slot in range(slots):
        rows_in_tail += members[slot]
    births_possible = law.birth > 0.0 or law.extra > 0.0
    for start in range(begin, n, lanes):
        size = min(lanes, n - start)
        block = Block(data, start, size, work.features)
        logits(finite, families, block, work.logits, work.top)
        draw_mobile(work, label_key, first + start)
        for r in range(size):
            z = labels[start + r]
            labels[start + r] = np.int32(work.choice[r]) if z < usable else z  # mutant: sweep labels
        if not births_possible and rows_in_tail == 0:
            continue
        for r in range(size):
            work.escape[r] = uniform(tail_key, first + start + r)
        count = _screen_block(families, block, labels, usable, shared, law, tail, members, work)
        look = LOOK_AHEAD if 8 * count > size else 1
        if count > 0:
            for slot in range(slots + 1):
                work.fresh[slot] = 0
        r = 0
        while count > 0 and r < size:
            if not work.needs[r]:
                r += 1
                continue
            free = -1
            for slot in range(slots):
                if members[slot] == 0:
                    free = slot
                    break
            z = labels[start + r]
            if free < 0 and (z < shared or members[z - shared] > 1):
                return start + r
            joined = _move(families, block, labels, r, shared, law, tail, members, rows_in_tail, free, look, work)
            left = z - shared
            rows_in_tail += (joined >= 0) - (left >= 0)
            r += 1
            count -= 1
            if (joined >= 0 or left >= 0) and count < size - r:
                # mutant: sweep raise changed
                _raise_changed(families, tail, members, law, block, r, left, joined, work)
                count = _find_needs(work, labels, start, r, size, usable, shared)
    return n


@jit
def _move(families, block, labels, r, shared, law, tail, members, rows_in_tail, free, look, work):
    """Gibbs move of one row over mobile, private and new atoms; returns the slot that it joined, or -1."""
    i, size = block.start + r, block.size
    slots = members.size
    columns, fresh, weights = work.columns, work.fresh, work.weights
    old = labels[i] - shared
    if old >= 0:
        members[old] -= 1
        update(families, tail, old, block, r, -1)  # mutant: move update
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
                refresh(families, tail, slot, block, r, min(size, r + look), columns, fresh)
            # mutant: move weights
            weights[slot] = columns[slot, r] + math.log(members[slot] - law.discount) + log_common
            best = max(best, weights[slot])
    births = law.birth + law.extra * atoms
    weights[slots] = -np.inf
    if births > 0:
        if fresh[slots] <= r:
            refresh(families, tail, slots, block, r, min(size, r + look), columns, fresh)
        weights[slots] = columns[slots, r] + math.log(births) + log_common
        best = max(best, weights[slots])
    mobile = math.exp(log_mobile - best)
    total = mobile
    for slot in range(slots + 1):
        weights[slot] = math.exp(weights[slot] - best)
        total += weights[slot]
    aim = work.escape[r] * total - mobile
    if aim < 0.0:
        labels[i] = np.int32(work.choice[r])
        return -1
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
    update(families, tail, chosen, block, r, 1)
    fresh[chosen] = 0  # mutant: move fresh
    labels[i] = shared + chosen
    return chosen
