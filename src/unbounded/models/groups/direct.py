"""The local step for grouped rows: every row sits at a table of its group, every table has one atom, its dish.

Two exact forms of the same chain (docs/topics.md). *Direct assignment*, here, integrates the seating out: a row has a
label only, and `draw_tables` recovers the numbers of tables. The *franchise* (franchise.py) keeps seats. Labels and
dishes are coded as in `labels`: 0 .. usable-1 mobile, up to shared-1 held, shared + slot private.

Rows of a group are contiguous: group g is rows offsets[g] .. offsets[g + 1]. Likelihoods of a block of rows under the
mobile atoms are computed at once; the draws go row by row, since each changes the weights of its group.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import lane_exp
from unbounded.likelihoods.operations import Block, clear, logits, refresh, update

LOOK_AHEAD = 16


class Masses(NamedTuple):
    """What a shard knows of the top process: gamma beta_k of shared atoms; its own tail has concentration `share`."""

    shared: Any  # [n_shared]
    log_gamma: float
    alpha: float
    share: float  # alpha / P under ghosts


class Scratch(NamedTuple):
    features: Any
    logits: Any
    top: Any
    plain: Any  # [lanes, atoms]: likelihoods of the rows, each row relative to its best mobile atom
    columns: Any  # [slots + 1, lanes]: log predictives under private atoms and (last) a new one
    fresh: Any
    weights: Any
    counts: Any  # rows of the current group by code
    single: Any  # features of one row


def scratch(features: int, atoms: int, shared: int, slots: int, lanes: int, dtype: Any) -> Scratch:
    rows, single = np.empty((features + 1, lanes), dtype), np.empty((features + 1, 1))
    rows[-1] = single[-1] = 1.0
    return Scratch(
        features=rows,
        logits=np.empty((atoms, lanes), dtype),
        top=np.empty(lanes, dtype),
        plain=np.empty((lanes, atoms), dtype),
        columns=np.empty((slots + 1, lanes)),
        fresh=np.zeros(slots + 1, np.int64),
        weights=np.empty(slots + 1),
        counts=np.zeros(shared + slots, np.int64),
        single=single,
    )


@jit
def likelihoods(finite, families, data, start, size, work):
    """Likelihoods of a block under mobile atoms, and no valid column of a private one."""
    logits(finite, families, Block(data, start, size, work.features), work.logits, work.top)
    atoms = work.logits.shape[0]
    for k in range(atoms):
        for r in range(size):
            work.plain[r, k] = lane_exp(work.logits[k, r] - work.top[r])
    for slot in range(work.fresh.size):
        work.fresh[slot] = 0


@inline
def free_slot(members):
    for slot in range(members.size):
        if members[slot] == 0:
            return slot
    return -1


@inline
def group_of(offsets, row):
    """The group of a row; groups without rows are never it."""
    return np.searchsorted(offsets, row, side="right") - 1


@inline
def log_sum(a, b):
    high = max(a, b)
    return high if high == -np.inf else high + math.log(math.exp(a - high) + math.exp(b - high))


# ---- direct assignment


@jit
def assign(
    families, data, labels, offsets, first, begin, finite, usable, shared, masses, tail, members, sticks, label_key,
    stick_key, work,
):  # fmt: skip
    """One sweep over the rows begin .. n of a shard; returns n, or the row at which a free slot was missing.

    sticks: log beta of private atoms and, last, of what is left of the shard's tail.
    """
    n = labels.size
    lanes = work.top.size
    stop = 0
    for start in range(begin, n, lanes):
        size = min(lanes, n - start)
        likelihoods(finite, families, data, start, size, work)
        for r in range(size):
            i = start + r
            if i >= stop:
                g = group_of(offsets, i)
                work.counts[:] = 0
                stop = offsets[g + 1]
                for q in range(offsets[g], stop):
                    work.counts[labels[q]] += 1
            z = labels[i]
            if usable <= z < shared:  # mutant: assign condition
                continue
            free = free_slot(members)
            if free < 0 and (z < shared or members[z - shared] > 1):
                return i
            _move(
                families, data, labels, start, r, size, usable, shared, masses, tail, members, sticks, free,
                uniform(label_key, first + i), uniform(stick_key, first + i), work,
            )  # fmt: skip
    return n


@jit
def _move(
    families, data, labels, start, r, size, usable, shared, masses, tail, members, sticks, free, u, v, work
):  # fmt: skip
    """Gibbs move of one row over mobile, private and new atoms, its group's counts and beta given."""
    i = start + r
    slots = members.size
    counts, weights, columns, fresh = work.counts, work.weights, work.columns, work.fresh
    z = labels[i]
    counts[z] -= 1  # mutant: move counts
    if z >= shared:
        old = z - shared
        members[old] -= 1
        update(families, tail, old, Block(data, start, size, work.features), r, -1)
        fresh[old] = 0
        if members[old] == 0:
            sticks[slots] = log_sum(sticks[slots], sticks[old])  # mutant: move sticks
            free = old
    best = np.float64(work.top[r]) if usable > 0 else -np.inf
    for slot in range(slots + 1):
        weights[slot] = -np.inf
        if slot == slots or members[slot] > 0:
            if slot == slots and sticks[slots] == -np.inf:
                continue
            if fresh[slot] <= r:
                end = size if slot == slots else min(size, r + LOOK_AHEAD)
                refresh(families, tail, slot, Block(data, start, size, work.features), r, end, columns, fresh)
            log_beta = masses.log_gamma + sticks[slot]
            if slot == slots:
                log_beta += math.log(masses.alpha / masses.share)  # mutant: move log beta
            elif counts[shared + slot] > 0:
                log_beta = math.log(counts[shared + slot] + math.exp(log_beta))
            weights[slot] = columns[slot, r] + log_beta
            best = max(best, weights[slot])
    scale = math.exp(np.float64(work.top[r]) - best) if usable > 0 else 0.0
    mobile = 0.0
    for k in range(usable):
        mobile += (counts[k] + masses.shared[k]) * work.plain[r, k]
    total = mobile * scale
    for slot in range(slots + 1):
        weights[slot] = math.exp(weights[slot] - best)
        total += weights[slot]
    aim = u * total
    chosen = -1
    if aim < mobile * scale:
        aim /= scale
        for k in range(usable):
            weight = (counts[k] + masses.shared[k]) * work.plain[r, k]
            if weight > 0.0:
                chosen = k
                aim -= weight
                if aim < 0.0:
                    break
        labels[i] = chosen
        counts[chosen] += 1
        return
    aim -= mobile * scale
    for slot in range(slots + 1):
        if weights[slot] > 0.0:
            chosen = slot
            aim -= weights[slot]
            if aim < 0.0:
                break
    if chosen == slots:
        chosen = free
        clear(families, tail, chosen)
        break_stick(sticks, chosen, masses.share, v)
    members[chosen] += 1
    update(families, tail, chosen, Block(data, start, size, work.features), r, 1)
    fresh[chosen] = 0
    labels[i] = shared + chosen
    counts[shared + chosen] += 1


@inline
def break_stick(sticks, slot, share, v):
    """A new atom takes Beta(1, share) of what is left of the tail."""
    left = math.log(v) / share
    rest = sticks[sticks.size - 1]
    sticks[slot] = rest + math.log(-math.expm1(left))
    sticks[sticks.size - 1] = rest + left  # mutant: break stick sticks


@jit
def draw_tables(labels, offsets, masses, first, key):
    """Numbers of tables of each code, given labels and gamma beta: the j-th row of an atom in a group opens one with
    probability gamma beta / (gamma beta + j)."""
    tables = np.zeros(masses.size, np.int64)
    counts = np.zeros(masses.size, np.int64)
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            k = np.uint64(labels[np.uint64(i)])
            j = counts[k]
            counts[k] += 1
            # mutant: draw tables tables
            tables[k] += (j == 0) | (uniform(key, first + i) * (masses[k] + j) < masses[k])
        for i in range(offsets[g], offsets[g + 1]):
            counts[np.uint64(labels[np.uint64(i)])] = 0
    return tables


# ---- new groups


@jit
def sit_down(table, index, offsets, masses, labels, sweeps, keep, key, shares, first, total_rows):
    """Gibbs sweeps over the labels of new rows, everything but them fixed: row i has likelihoods table[index[i]].

    masses: gamma beta. Rows join one after another in the first sweep. shares[g] is the mean over the last `keep`
    sweeps of (n_gk + masses_k) / (n_g + gamma). The rows are first, first + 1, ... of total_rows, all of which have
    random numbers of their own.
    """
    atoms = masses.size
    counts = np.zeros(atoms)
    running = np.empty(atoms)
    gamma = masses.sum()
    for g in range(offsets.size - 1):
        counts[:] = masses
        rows = offsets[g + 1] - offsets[g]
        for sweep in range(sweeps):
            for i in range(offsets[g], offsets[g + 1]):
                if sweep > 0:
                    counts[labels[i]] -= 1.0
                row = table[index[i]]
                total = 0.0
                for k in range(atoms):
                    total += counts[k] * row[k]
                    running[k] = total
                aim = uniform(key, sweep * total_rows + first + i) * total
                k = np.searchsorted(running, aim, side="right")
                labels[i] = min(k, atoms - 1)
                counts[labels[i]] += 1.0
            if sweep >= sweeps - keep:
                for k in range(atoms):
                    shares[g, k] += counts[k] / (keep * (rows + gamma))
