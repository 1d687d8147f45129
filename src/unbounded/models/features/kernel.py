"""The kernel of features on the CPU: all sweeps over a shard's rows, compiled, and what the shard reports.

The columns of a shard's Z: first those that all shards share (mobile ones, then those that are held), then one slot for
each of the shard's private atoms, then free slots for new ones, of which there are more when they run out. Rows go
through in blocks that stay in cache, all sweeps of a block one after another. A block of rows is Z in lanes,
`z[column, row]`.

While the shard has no private atom and no row of the block proposes one (births are drawn ahead), a sweep is the
vectorised update of the mobile columns and nothing else. Otherwise rows are visited one by one, over the private
columns and new ones. Whether a row waits for its visit with its mobile columns as well is up to the likelihood: it may
depend on the row's private entries, which do not move before the visit, so that every step is a Gibbs step.

A *law* is what the measure says of an entry (laws.py), a *family* what the likelihood says of the data (operations.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import stream, uniform
from unbounded.compiled.jit import inline, jit
from unbounded.contracts import Summary
from unbounded.models.features.entries import Entry, draw_entry
from unbounded.models.features.laws import LARGEST, draw_births, new_count, tail_weight
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.measure import FeatureMeasure
from unbounded.models.features.operations import (
    Private,
    Rows,
    ShardRows,
    Sums,
    Turn,
    Work,
    apply,
    arrive,
    collect,
    depart,
    entry_number,
    fill,
    mobile_waits,
    open_slot,
    prepare,
    seek,
    shift,
    sweep_mobile,
    visit_mobile,
)
from unbounded.models.features.state import FeatureShard, FeatureTask
from unbounded.setup import Setup

FREE_SLOTS, MORE_SLOTS = 4, 16
_CHUNK = 4096

FeatureSetup = Setup[FeatureMeasure, FeatureBound, int]


class Prepared(NamedTuple):
    """A shard's private atoms, the statistics of the rows that are done, and scratch memory."""

    private: Private
    sums: Sums
    work: Work


@dataclass(frozen=True)
class CompiledFeatures:
    setup: FeatureSetup
    lanes: int | None = None  # rows per block; None: what the cache holds

    def prepare(self, shard: FeatureShard, part: FeatureTask) -> Prepared:
        """Arrange the shard's columns, redraw its missing values, and build the state of its private atoms."""
        arrange(self.setup.likelihood, shard, part, FREE_SLOTS if part.part.open else 0)
        return self.begin(shard, part)

    def begin(self, shard: FeatureShard, part: FeatureTask) -> Prepared:
        """Before the first row, with columns as they are."""
        n, d = shard.data.shape
        return self._room(shard, part, self.lanes or lanes_for(n, d + 2 * len(shard.Z)))

    def _room(self, shard: FeatureShard, part: FeatureTask, lanes: int) -> Prepared:
        """Memory for all columns of the shard's Z."""
        likelihood, finite = self.setup.likelihood, part.finite
        columns, d = len(shard.Z), shard.data.shape[1]
        slots = columns - finite.shared
        tail = likelihood.tail(part.round.scales, slots, lanes, finite.family, part.part.loadings)
        dtype = likelihood.precision(finite.family)
        z, pull = np.empty(columns * lanes, dtype), np.empty(columns * lanes, dtype)
        room = np.empty(max(columns * lanes, 2 * lanes, columns * columns, columns * d), dtype)
        born, busy = np.zeros(self.setup.sweeps * lanes, np.int16), np.zeros(lanes + 1, np.bool_)
        ladder = np.empty(2 if self.setup.measure.binary else LARGEST + 1)
        work = Work(z, pull, room, born, busy, ladder, np.empty((4, slots), np.int64))
        products = np.zeros((columns, columns if likelihood.gram else 0))
        sums = Sums(products, np.zeros((columns, d)), np.zeros(d))
        return Prepared(Private(tail, np.zeros(slots, np.int64)), sums, work)

    def sweep(self, shard: FeatureShard, part: FeatureTask, tail: Prepared) -> Prepared:
        """All L sweeps over the shard's rows; where slots run out, there are more from that block on."""
        row, n, used = 0, shard.Z.shape[1], len(part.part.sources)
        finite, law, keys = part.finite, part.law, part.round.keys
        data = shard.data.view()
        data.flags.writeable = False  # always, so that the sweep is compiled once
        while True:
            rows = ShardRows(data, shard.Z, used, shard.first)
            row = sweep(law, finite, tail.private, rows, row, keys, tail.work, tail.sums)
            if row == n:
                return tail
            if self.setup.likelihood.keeps_loadings:
                part = part._replace(part=part.part._replace(loadings=tail.private.tail.loadings))
            used, done = len(shard.Z), tail.sums
            more = np.zeros((len(tail.private.members) + MORE_SLOTS, n), shard.Z.dtype)
            shard.Z = np.concatenate([shard.Z, more])
            tail = self._room(shard, part, tail.work.busy.size - 1)
            for new, old in zip(tail.sums, done, strict=True):
                new[tuple(slice(0, size) for size in old.shape)] = old

    def statistics(self, shard: FeatureShard, part: FeatureTask, tail: Prepared) -> Summary:
        """What the shard reports of its Z, from which free slots are gone."""
        n_shared, members, sums = len(part.round.loadings), tail.private.members, tail.sums
        if not members.all():
            kept: Any = slice(0, n_shared)
            if members.any():
                kept = np.concatenate([np.arange(n_shared), n_shared + np.flatnonzero(members)])
            shard.Z = shard.Z[kept]
            sums = of_columns(sums, kept)
        return summary(self.setup, shard, shard.Z, n_shared, sums)

    def predictive(self, atoms: FeatureTask, X: FeatureShard) -> Array:
        """[n, K]: entries of new rows after sweeps over these atoms, all of them mobile, from those that X has."""
        self.sweep(X, atoms, self.prepare(X, atoms))
        return X.Z[: len(atoms.finite.mobile.order)].T.copy()

    def of_candidate(self, shard: FeatureShard, Z: Array) -> Summary:
        return candidate_summary(self.setup, shard, Z)


def arrange(likelihood: FeatureBound, shard: FeatureShard, part: FeatureTask, free: int) -> None:
    """The columns of Z for this round, with free slots, and missing values drawn anew given them."""
    shard.Z = shard.columns(part.part.sources, len(part.part.sources) + free)
    if len(shard.holes):
        loadings = part.loadings
        columns = shard.Z[: len(loadings)]
        likelihood.impute(
            shard.data, shard.holes, columns, loadings, part.round.scales, part.round.keys.impute, shard.first
        )
        shard.changed()


def summary(setup: FeatureSetup, shard: FeatureShard, Z: Array, n_shared: int, sums: Sums) -> Summary:
    """What a shard reports of a Z with these statistics."""
    measure, gram, products = setup.measure, setup.likelihood.gram, sums.products
    members = np.diagonal(products).astype(np.int64) if gram and measure.binary else Z.sum(axis=1, dtype=np.int64)
    centred = sums.sums - members[:, None] * shard.centre
    there = (members[:n_shared] > 0).astype(np.int64)
    s, own = slice(0, n_shared), slice(n_shared, len(Z))
    entries = 0.0 if measure.binary else measure.log_entries(Z)
    shared = {
        "members": members[s], "products": products[np.triu_indices(n_shared)] if gram else products[s],
        "sums": centred[s],
        "rest": sums.rest, "square": np.array(shard.square), "entries": np.array(entries),
        "shards": there, "owner": there * shard.index,
    }  # fmt: skip
    private = {
        "members": members[own], "cross": products[s, own] if gram else products[s],
        "products": products[own, own] if gram else products[own], "sums": centred[own],
    }  # fmt: skip
    return Summary(shared, private)


def of_columns(sums: Sums, kept: Any) -> Sums:
    """The statistics of some columns."""
    products = sums.products[kept]
    products = products[:, kept] if products.shape[1] else products
    return Sums(products, sums.sums[kept], sums.rest)


def candidate_summary(setup: FeatureSetup, shard: FeatureShard, Z: Array) -> Summary:
    """What a shard would report of another Z, all columns shared, where loadings are integrated out."""
    products, sums = np.zeros((len(Z), len(Z))), np.zeros((len(Z), shard.data.shape[1]))
    for start in range(0, len(shard.data), _CHUNK):
        part = Z[:, start : start + _CHUNK].astype(float)
        products += part @ part.T
        sums += part @ shard.data[start : start + _CHUNK]
    return summary(setup, shard, Z, len(Z), Sums(products, sums, np.zeros(shard.data.shape[1])))


@cache
def lanes_for(rows: int, width: int) -> int:
    """Rows per block: `width` numbers a row stay in the second-level cache, and blocks divide the rows evenly."""
    most = max(32, min(1024, int(2**16 / max(width, 1))))
    blocks = max(1, -(-rows // most))
    return max(1, -(-rows // blocks))


# ---- compiled


@jit
def sweep(law, finite, private, part, begin, keys, work, sums):
    """All sweeps over the rows begin .. n of a shard, block by block, with the statistics of the blocks that are done.

    Returns n, or the first row of the block for which there were too few free slots.
    """
    columns, n = part.Z.shape
    lanes = work.busy.size - 1
    sweeps = work.born.size // lanes
    if part.used > finite.shared:
        _count(part.Z[finite.shared : part.used], private.members)
        fill(finite.family, private.tail, part, finite.shared, work)
    for start in range(begin, n, lanes):
        size = min(lanes, n - start)
        births = draw_births(law, sweeps, size, keys.birth, part.first + start, work.born)
        if births > private.members.size - _alive(private.members):
            return start
        z = work.z[: columns * size].reshape(columns, size)
        _load(part.Z, start, z)
        rows = Rows(part.data, start, z, finite.shared, part.first + start)
        prepare(finite.family, private.tail, rows, finite.mobile.order.size, work)
        for s in range(sweeps):
            own = stream(keys.entry, s)  # mutant: sweep own
            _find_busy(finite.family, rows, work.busy)
            sweep_mobile(finite.family, law, private.tail, rows, finite.mobile, own, work)
            if births > 0 or _alive(private.members) > 0:
                turn = Turn(own, stream(keys.tail, s), work.born[s * size : (s + 1) * size])
                _visit_rows(law, finite.family, private, rows, finite.mobile, turn, work)
        _store(z, finite.mobile.order.size, finite.shared, part.Z, start)
        collect(finite.family, private.tail, rows, keys.split, sums, work)
    return n


@inline
def _count(Z, out):
    """Sums of columns."""
    for k in range(Z.shape[0]):
        total = 0
        for i in range(Z.shape[1]):
            total += Z[k, i]
        out[k] = total


@inline
def _alive(members):
    alive = 0
    for slot in range(members.size):
        alive += members[slot] > 0
    return alive


@inline
def _load(Z, start, z):
    for k in range(z.shape[0]):
        for r in range(z.shape[1]):
            z[k, r] = Z[k, start + r]


@inline
def _store(z, usable, shared, Z, start):
    """Put the columns back that may have changed."""
    for k in range(z.shape[0]):
        if k < usable or k >= shared:
            for r in range(z.shape[1]):
                Z[k, start + r] = np.int32(z[k, r])


@inline
def _find_busy(family, rows, busy):
    """Mark the rows with private entries, where their mobile columns have to wait."""
    z = rows.z
    busy[:] = False
    if mobile_waits(family):
        for k in range(rows.shared, z.shape[0]):
            for r in range(z.shape[1]):
                busy[r] |= z[k, r] > 0
                busy[busy.size - 1] |= busy[r]


# ---- visits


@inline
def _visit_rows(law, family, private, rows, mobile, turn, work):
    """Visit the rows of a block whose private entries may change."""
    size = rows.z.shape[1]
    r = 0
    while r < size:
        if _alive(private.members) > 0:
            r = seek(family, law, private, rows, r, turn, work)
        else:
            while r < size and turn.born[r] == 0:
                r += 1
        if r == size:
            break
        _visit(law, family, private, rows, r, mobile, turn, work)
        r += 1


@inline
def _visit(law, family, private, rows, r, mobile, turn, work):
    """Gibbs over the private columns of a row, then a Metropolis step that replaces those only it uses."""
    members, z, shared = private.members, rows.z, rows.shared
    any_private = False
    for slot in range(members.size):
        any_private |= z[shared + slot, r] > 0
    arrive(family, private, rows, r)
    if any_private and mobile_waits(family):
        visit_mobile(family, law, private.tail, rows, r, mobile, turn.entry, work)
    own = stream(turn.visits, rows.first + r)
    order = work.slots[0]
    count = singles = 0
    for slot in range(members.size):
        others = members[slot] - z[shared + slot, r]
        if others > 0.5:
            order[count] = slot
            count += 1
        elif z[shared + slot, r] > 0:
            work.slots[1, singles] = slot
            singles += 1
    for j in range(count - 1, 0, -1):  # a fresh random order at every visit: storage order would be biased
        i = int(uniform(own, 3 * j) * (j + 1))
        order[i], order[j] = order[j], order[i]  # mutant: visit order[i]
    for j in range(count):
        slot = order[j]
        old = int(z[shared + slot, r])
        others = float(members[slot] - old)  # mutant: visit others
        weight = tail_weight(law, others, old, stream(own, 3 * slot + 1))
        entry = Entry(r, shared + slot, old, others, weight)
        new = draw_entry(law, family, private.tail, entry, uniform(own, entry_number(slot)), work.ladder)
        _set(family, private, rows, r, slot, new)
    if singles > 0 or turn.born[r] > 0:  # mutant: visit condition
        _replace_singles(law, family, private, rows, r, singles, turn, work)
    depart(family, private.tail, rows, r)


@inline
def _set(family, private, rows, r, slot, new):
    old = int(rows.z[rows.shared + slot, r])
    if new != old:
        apply(family, private.tail, r, rows.shared + slot, float(new - old))
        rows.z[rows.shared + slot, r] = new
        private.members[slot] += new - old


@inline
def _replace_singles(law, family, private, rows, r, singles, turn, work):
    """Propose new atoms in place of those that only this row uses; accept by the row's likelihood ratio."""
    key, born = stream(stream(turn.visits, rows.first + r), 0), turn.born[r]
    owned, entries, fresh = work.slots[1], work.slots[2], work.slots[3]
    ratio = 0.0
    for j in range(singles):
        slot = owned[j]
        old = int(rows.z[rows.shared + slot, r])
        entries[j] = old
        ratio += shift(family, private.tail, r, rows.shared + slot, -float(old))
        _set(family, private, rows, r, slot, 0)
    slot = 0
    for j in range(born):
        while private.members[slot] > 0 or _among(owned, singles, slot):
            slot += 1
        fresh[j] = slot
        open_slot(family, private.tail, slot, stream(key, 2 * j))
        new = new_count(law, uniform(stream(key, 2 * j + 1), 0))
        ratio += shift(family, private.tail, r, rows.shared + slot, float(new))
        _set(family, private, rows, r, slot, new)
    if math.log(uniform(key, 0)) < ratio:  # mutant: replace singles condition
        return
    for j in range(born):
        _set(family, private, rows, r, fresh[j], 0)
    for j in range(singles):
        _set(family, private, rows, r, owned[j], entries[j])


@inline
def _among(values, count, value):
    found = False
    for j in range(count):
        found |= values[j] == value
    return found
