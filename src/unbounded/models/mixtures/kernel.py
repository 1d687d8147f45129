"""The local step of mixtures on a CPU: compiled sweeps over blocks of rows, with rows in SIMD lanes.

A row's label moves over the shard's *mobile* atoms (instantiated: shared weight and parameters), the shard's *private*
atoms (collapsed) and a new atom; rows of frozen atoms stay (message.py says how labels are coded).

For a block of rows the mobile part is one matrix product and one vectorised draw. Whether a row leaves for the tail
needs the tail's weights, but an upper bound on them settles almost every row: with u uniform, the row stays mobile
whenever u (M + bound) < M, M being its mobile weight. Only the rest take the sequential path (docs/sampler.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import lane_exp
from unbounded.contracts import Summary
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.likelihoods.operations import Block, clear, logits, refresh, screen, update
from unbounded.models.labelled import halves
from unbounded.models.labelled import labels as labelled
from unbounded.models.labelled.halves import Cuts, Halves, Sides
from unbounded.models.labelled.labels import Atoms, LabelRows, LabelShard, finite_part
from unbounded.models.labelled.predictive import log_predictive
from unbounded.models.mixtures.message import MixturePart, SweepKeys

FREE_SLOTS = 16
LOOK_AHEAD = 32
SLACK = 1e-6  # nats by which a bound is raised, to cover rounding


class Scope(NamedTuple):
    """The codes of usable atoms end at `usable`, those of shared ones at `shared`; the law is the tail's."""

    usable: int
    shared: int
    law: Any


class Scratch(NamedTuple):
    """Everything a sweep writes besides labels: a few arrays as wide as a block of rows."""

    terms: Any
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


class Tail(NamedTuple):
    """The collapsed state and the number of rows of every slot, and scratch that is as wide as both."""

    state: Any
    members: Any
    work: Any


class TailView(NamedTuple):
    """What a move must know of the tail as a whole: its rows, its first empty slot, how many rows to look ahead."""

    rows_in_tail: int
    free: int
    look: int


def scratch(terms: int, atoms: int, slots: int, lanes: int, dtype: Any) -> Scratch:
    def lane(kind: Any = np.float64) -> Any:
        return np.empty(lanes, kind)

    rows = np.empty((terms + 1, lanes), dtype)
    rows[-1] = 1.0
    return Scratch(
        terms=rows,
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


@dataclass(frozen=True)
class CompiledLabels:
    """dtype: the precision of the finite part; rounds that would lose accuracy in float32 run in float64."""

    likelihood: Bound
    dtype: str = "float64"

    shard: ClassVar = LabelShard

    @cached_property
    def spec(self) -> tuple[Any, ...]:
        return self.likelihood.spec()

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        return finite_part(self.likelihood, self.dtype, parameters, log_weights)

    def totals(self, data: Any, labels: Array, n_atoms: int) -> Atoms:
        return labelled.statistics(self.spec, data, labels, n_atoms, self.likelihood.n_terms)

    def count(self, shard: LabelShard, n_atoms: int) -> Atoms:
        return self.totals(shard.data, shard.labels, n_atoms)

    def halve(self, shard: LabelShard, cuts: Cuts, sides: Sides) -> Halves:
        likelihood = self.likelihood
        if not likelihood.columns.sparse and len(shard.labels) * likelihood.n_terms <= halves.FEW:
            return halves.halve_few(
                lambda some: likelihood.terms(shard.data[some]), shard.labels, shard.first, cuts, sides
            )
        rows = LabelRows(shard.data, shard.labels, shard.first)
        return halves.halve(self.spec, rows, cuts, sides, likelihood.cuts_by_products)

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.likelihood, *atoms, X)

    # ---- a sweep

    def step(self, shard: LabelShard, part: MixturePart) -> Summary:
        """Tail, sweeps and statistics by one compiled call: threads wait for each other before and after each."""
        if part.elsewhere is not None:
            return self.statistics(shard, part, self.sweep(shard, part, self.prepare(shard, part)))
        keys = np.array(part.keys, np.uint64)
        rows = LabelRows(shard.data, shard.labels, shard.first)  # mutant: sweep rows
        scope = Scope(part.usable, part.n_shared, part.law)
        done, slots = 0, self._slots(part)
        while True:
            tail = self._empty(shard, part, slots)
            totals = labelled.totals_of(part.n_shared + slots, self.likelihood.n_terms, len(shard.labels))
            done = local_step(self.spec, rows, part.finite, scope, tail, keys, totals, done)
            if done == len(keys) * len(shard.labels):
                break
            slots = 2 * slots + FREE_SLOTS
        alive = part.n_shared + int(np.count_nonzero(tail.members))
        return shard.summary(part.n_shared, Atoms(totals.counts[:alive], totals.statistics[:alive]))

    def _slots(self, part: MixturePart) -> int:
        return part.n_private + (FREE_SLOTS if part.law.makes_atoms else 0)

    def prepare(self, shard: LabelShard, part: MixturePart) -> Tail:
        return self.tail(shard, part, self._slots(part))

    def sweep(self, shard: LabelShard, part: MixturePart, tail: Tail) -> Tail:
        rows = LabelRows(shard.data, shard.labels, shard.first)
        scope = Scope(part.usable, part.n_shared, part.law)
        for keys in part.keys:
            row = 0
            while (row := sweep(self.spec, rows, part.finite, scope, tail, keys, row)) < len(shard.labels):
                tail = self.tail(shard, part, 2 * len(tail.members) + FREE_SLOTS)
        return tail

    def statistics(self, shard: LabelShard, part: MixturePart, tail: Tail) -> Summary:
        """What the shard reports; from here on the codes of its private atoms are consecutive."""
        alive = tail.members > 0
        n_private = int(alive.sum())
        if not alive[:n_private].all():
            codes = np.arange(part.n_shared + len(alive), dtype=np.int32)
            codes[part.n_shared :] = part.n_shared + np.cumsum(alive) - 1
            shard.relabel(codes)
        return shard.summary(part.n_shared, self.totals(shard.data, shard.labels, part.n_shared + n_private))

    def scratch(self, n_rows: int, finite: Any, atoms: int, slots: int) -> Scratch:
        """Memory for blocks of so many rows that they stay in cache."""
        plain = isinstance(finite, np.ndarray)  # one matrix of natural parameters, and not what is faster
        dtype = (finite if plain else finite[0]).dtype
        terms = 0 if self.likelihood.columns.sparse else self.likelihood.n_terms
        lanes = labelled.lanes_for(n_rows, terms if plain else 0, atoms, dtype.itemsize)
        return scratch(terms, atoms, slots, lanes, dtype)

    def tail(self, shard: LabelShard, part: MixturePart, slots: int) -> Tail:
        """The private atoms of the shard as its labels have them, and empty ones; the last slot is a new atom."""
        if part.elsewhere is not None:
            work = self.scratch(len(shard.labels), part.finite, part.usable, slots + 1)
            counts, statistics = self._with_elsewhere(shard, part.elsewhere, slots + 1)
            state = self.likelihood.pack(counts.astype(float), statistics, len(work.top))  # mutant: tail state
            return Tail(state, counts[:-1].copy(), work)
        tail = self._empty(shard, part, slots)
        state, members, work = tail
        labelled.fill_tail(self.spec, shard.data, shard.labels, part.n_shared, state, members, work.terms)
        return tail

    def _empty(self, shard: LabelShard, part: MixturePart, slots: int) -> Tail:
        """Memory for a tail."""
        work = self.scratch(len(shard.labels), part.finite, part.usable, slots + 1)
        return Tail(self.likelihood.tail(slots + 1, len(work.top)), np.zeros(slots, np.int64), work)

    def _with_elsewhere(self, shard: LabelShard, elsewhere: Atoms, slots: int) -> Atoms:
        mine, n = self.totals(shard.data, shard.labels, slots), len(elsewhere.counts)
        mine.counts[:n] += elsewhere.counts
        mine.statistics[:n] += elsewhere.statistics
        return mine


# ---- compiled


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


@inline
def choose(weights, aim):
    """The atom at which the running sum of weights passes `aim`, the last one with any weight at most; -1 below 0."""
    chosen = -1
    for c in range(weights.size if aim >= 0.0 else 0):
        if weights[c] > 0.0:
            chosen = c
            aim -= weights[c]
            if aim < 0.0:
                break
    return chosen


@jit
def _raise_cap(specs, tail, slot, weight, block, begin):
    """Add to each row's `cap`, the bound on its tail weights, what one more atom may weigh; SLACK covers rounding."""
    work, size = tail.work, block.size
    top, cap, column = work.top, work.cap, work.screened
    log_weight = math.log(weight) + SLACK  # mutant: raise cap log weight
    for r in range(begin, size):
        column[r] = log_weight
    screen(specs, tail.state, slot, block, begin, size, column)
    for r in range(begin, size):
        cap[r] += lane_exp(min(column[r] - np.float64(top[r]), 80.0))


@jit
def _raise_changed(specs, tail, law, block, begin, left, joined):
    """Raise the bound for what the move of one row has changed; `left` and `joined` are its slots, if any."""
    members = tail.members
    largest = law.scale / law.base
    if joined >= 0:
        weight = largest * (members[joined] - law.discount)
        _raise_cap(specs, tail, joined, weight, block, begin)
        if law.extra > 0.0:
            _raise_cap(specs, tail, members.size, largest * law.extra, block, begin)
    # mutant: raise left
    if left >= 0 and left != joined and members[left] > 0:
        weight = largest * (members[left] - law.discount)
        _raise_cap(specs, tail, left, weight, block, begin)


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
def _screen_block(specs, block, labels, scope, tail):
    """Bound the tail's weights for every row of the block; returns how many rows need the sequential path."""
    law, members, work = scope.law, tail.members, tail.work
    largest = law.scale / law.base
    start, size = block.start, block.size
    for r in range(size):
        work.cap[r] = 0.0
    atoms = 0
    for slot in range(members.size):
        if members[slot] > 0:
            atoms += 1
            weight = largest * (members[slot] - law.discount)
            _raise_cap(specs, tail, slot, weight, block, 0)
    births = law.birth + max(law.extra, 0.0) * (atoms + 1)
    if births > 0.0:
        _raise_cap(specs, tail, members.size, largest * births, block, 0)
    return _find_needs(work, labels, start, 0, size, scope.usable, scope.shared)


@jit
def _first_empty(members):
    for slot in range(members.size):
        if members[slot] == 0:
            return slot
    return -1


@jit
def sweep(specs, rows, finite, scope, tail, keys, begin):
    """One sweep over the rows begin .. n of a shard; returns n, or the row at which a free slot was missing."""
    labels, first = rows.labels, rows.first
    usable, shared, law = scope.usable, scope.shared, scope.law
    members, work = tail.members, tail.work
    n = labels.size
    lanes = work.top.size
    slots = members.size
    rows_in_tail = 0
    for slot in range(slots):
        rows_in_tail += members[slot]
    births_possible = law.birth > 0.0 or law.extra > 0.0
    for start in range(begin, n, lanes):
        size = min(lanes, n - start)
        block = Block(rows.data, start, size, work.terms)
        logits(finite, specs, block, work.logits, work.top)
        draw_mobile(work, keys.label, first + start)
        for r in range(size):
            z = labels[start + r]
            labels[start + r] = np.int32(work.choice[r]) if z < usable else z  # mutant: sweep labels
        if not births_possible and rows_in_tail == 0:
            continue
        for r in range(size):
            work.escape[r] = uniform(keys.tail, first + start + r)
        count = _screen_block(specs, block, labels, scope, tail)
        look = LOOK_AHEAD if 8 * count > size else 1
        if count > 0:
            for slot in range(slots + 1):
                work.fresh[slot] = 0
        r = 0
        while count > 0 and r < size:
            if not work.needs[r]:
                r += 1
                continue
            free = _first_empty(members)
            z = labels[start + r]
            if free < 0 and (z < shared or members[z - shared] > 1):
                return start + r
            joined = _move(specs, block, labels, r, scope, tail, TailView(rows_in_tail, free, look))
            left = z - shared
            rows_in_tail += (joined >= 0) - (left >= 0)
            r += 1
            count -= 1
            if (joined >= 0 or left >= 0) and count < size - r:
                # mutant: sweep raise changed
                _raise_changed(specs, tail, law, block, r, left, joined)
                count = _find_needs(work, labels, start, r, size, usable, shared)
    return n


@jit
def local_step(specs, rows, finite, scope, tail, keys, totals, done):
    """All sweeps, of whose moves `done` are done, and statistics; returns how many are done when a slot is missing."""
    labels, shared, n = rows.labels, scope.shared, rows.labels.size
    labelled.fill_tail(specs, rows.data, labels, shared, tail.state, tail.members, tail.work.terms)
    for s in range(done // n, keys.shape[0]):
        row = sweep(specs, rows, finite, scope, tail, SweepKeys(keys[s, 0], keys[s, 1]), done - s * n)
        done = s * n + row
        if row < n:
            return done
    _close_gaps(labels, shared, tail.members, totals.ends)
    alive = 0
    for slot in range(tail.members.size):
        alive += tail.members[slot] > 0
    labelled.add_up(specs, rows.data, labels, shared + alive, totals)
    return done


@jit
def _close_gaps(labels, shared, members, codes):
    """From here on the codes of private atoms are consecutive."""
    alive, gaps = 0, False
    for slot in range(members.size):
        codes[slot] = shared + alive
        gaps |= members[slot] > 0 and slot > alive
        alive += members[slot] > 0
    for i in range(labels.size if gaps else 0):
        if labels[i] >= shared:
            labels[i] = codes[labels[i] - shared]


@jit
def _move(specs, block, labels, r, scope, tail, place):
    """Gibbs move of one row over mobile, private and new atoms; returns the slot that it joined, or -1."""
    i, size, law = block.start + r, block.size, scope.law
    state, members, work = tail.state, tail.members, tail.work
    slots = members.size
    columns, fresh, weights = work.columns, work.fresh, work.weights
    rows_in_tail, free, end = place.rows_in_tail, place.free, min(size, r + place.look)
    old = labels[i] - scope.shared
    if old >= 0:
        members[old] -= 1
        update(specs, state, old, block, r, -1)  # mutant: move update
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
                refresh(specs, state, slot, block, r, end, columns, fresh)
            # mutant: move weights
            weights[slot] = columns[slot, r] + math.log(members[slot] - law.discount) + log_common
            best = max(best, weights[slot])
    births = law.birth + law.extra * atoms
    weights[slots] = -np.inf
    if births > 0:
        if fresh[slots] <= r:
            refresh(specs, state, slots, block, r, end, columns, fresh)
        weights[slots] = columns[slots, r] + math.log(births) + log_common
        best = max(best, weights[slots])
    mobile = math.exp(log_mobile - best)
    total = mobile
    for slot in range(slots + 1):
        weights[slot] = math.exp(weights[slot] - best)
        total += weights[slot]
    chosen = choose(weights, work.escape[r] * total - mobile)
    if chosen < 0:
        labels[i] = np.int32(work.choice[r])
        return -1
    if chosen == slots:
        chosen = free
        clear(specs, state, chosen)
    members[chosen] += 1
    update(specs, state, chosen, block, r, 1)
    fresh[chosen] = 0  # mutant: move fresh
    labels[i] = scope.shared + chosen
    return chosen
