"""The kernel of features on the CPU: all sweeps over a shard's rows, compiled, and what the shard reports.

The columns of a shard's Z: first those that all shards share (mobile ones, then frozen ones), then one slot for each of
the shard's private atoms, then free slots for new ones; when they run out, more are added. Rows are processed in blocks
that stay in cache, with all sweeps over a block before the next one. A block has its part of Z in lanes: each row of
`z[column, row]` is a column.

While the shard has no private atom and no row of the block proposes one (births are drawn in advance), a sweep is a
vectorised update of the mobile columns and nothing else. Otherwise rows are also visited one by one, to update their
private entries and to propose new atoms. The likelihood decides whether a row's mobile entries are updated in its
visit, too. That may depend on the row's private entries, which do not change before the visit: every step is a Gibbs
step.

The measure gives entries their *law* (laws.py), and a *spec* is the likelihood's finite part (operations.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import stream, uniform
from unbounded.compiled.jit import inline, jit
from unbounded.contracts import Summary
from unbounded.models.features.column_moves import HostMoves
from unbounded.models.features.entries import Entry, draw_entry
from unbounded.models.features.laws import LARGEST, draw_births, new_count, tail_weight
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.operations import (
    OldColumns,
    OneShard,
    Private,
    RowBlock,
    ShardRows,
    Sums,
    SweepDraws,
    Work,
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
from unbounded.models.features.state import FeaturePart, FeatureShard, select_columns, summary

FREE_SLOTS, MORE_SLOTS = 4, 16
SOME = 4  # most shards in one compiled call


class Workspace(NamedTuple):
    """Memory that shards of one size use in turn: the state of private atoms, and scratch memory."""

    private: Private
    work: Work


class Prepared(NamedTuple):
    """A shard's rows with their statistics, and the memory that its sweep needs."""

    one: OneShard
    workspace: Workspace


Workspaces = dict[tuple[int, ...], Workspace]  # by size


@dataclass(frozen=True)
class CompiledFeatures(HostMoves):
    lanes: int | None = None  # rows per block; None: what the cache holds

    def steps(self, pairs: Iterator[tuple[FeatureShard, FeaturePart]]) -> Iterator[Summary]:
        """Several shards in one compiled call: between calls, threads wait for each other."""
        workspaces: Workspaces = {}
        some: list[tuple[FeatureShard, FeaturePart, Prepared]] = []
        for shard, part in pairs:
            tail = self.prepare(shard, part, workspaces)
            if some and not (tail.workspace is some[0][2].workspace and part.alike(some[0][1])):
                yield from self._sweep_all(some)
                some = []
            some.append((shard, part, tail))
            if len(some) == SOME:
                yield from self._sweep_all(some)
                some = []
        yield from self._sweep_all(some)

    def _sweep_all(self, some: list[tuple[FeatureShard, FeaturePart, Prepared]]) -> Iterator[Summary]:
        done = 0
        while done < len(some):
            rest = some[done:]
            count, row = self._sweep(rest[0][1], [tail.one for _, _, tail in rest], rest[0][2].workspace, 0)
            for shard, part, tail in rest[:count]:
                yield self.statistics(shard, part, tail)
            done += count
            if count < len(rest):
                yield self.statistics(*rest[count][:2], self._with_more_slots(*rest[count], row))
                done += 1

    def _sweep(self, part: FeaturePart, shards: list[OneShard], workspace: Workspace, row: int) -> tuple[int, int]:
        """(how many shards are done, the row of the next one at which slots ran out)."""
        padded = tuple(shards + (SOME - len(shards)) * shards[:1])  # so that only one number is compiled for
        stopped: tuple[int, int] = sweep_some(
            part.law, part.finite, workspace.private, padded, len(shards), row, part.round.keys, workspace.work
        )
        return stopped

    def prepare(self, shard: FeatureShard, part: FeaturePart, workspaces: Workspaces | None = None) -> Prepared:
        """Arrange the shard's columns, redraw its missing values, and make a slot for each of its private atoms.

        Where nothing is missing, the compiled sweep arranges the columns, which leaves less to Python.
        """
        free = FREE_SLOTS if part.share.open else 0
        if len(shard.holes):
            arrange(self.setup.likelihood, shard, part, free)
            return self.begin(shard, part, workspaces)
        before = shard.Z if shard.Z.flags.c_contiguous else np.ascontiguousarray(shard.Z)
        shard.Z = np.empty((len(part.share.sources) + free, before.shape[1]), before.dtype)
        return self.begin(shard, part, workspaces, before)

    def begin(
        self, shard: FeatureShard, part: FeaturePart, workspaces: Workspaces | None = None, before: Array | None = None
    ) -> Prepared:
        """Prepare the first row; `before`: the Z whose columns are still to be arranged, if there is one."""
        n, d = shard.data.shape
        columns = len(shard.Z)
        size = columns, columns - part.finite.shared, self.lanes or lanes_for(n, d + 2 * columns)
        if workspaces is None or (self.setup.likelihood.keeps_loadings and len(part.share.loadings)):
            workspace = self._workspace(part, *size)  # of its own: loadings of private atoms are part of it
        elif size in workspaces:
            workspace = workspaces[size]
        else:
            workspace = workspaces[size] = self._workspace(part, *size)
        return self._prepared(shard, part, workspace, before)

    def _prepared(self, shard: FeatureShard, part: FeaturePart, workspace: Workspace, before: Array | None) -> Prepared:
        columns, d = len(shard.Z), shard.data.shape[1]
        products = np.zeros((columns, columns if self.setup.likelihood.gram else 0))
        sums = Sums(products, np.zeros((columns, d)), np.zeros(d))
        data = shard.data.view()
        data.flags.writeable = False  # always, so that the sweep is compiled once
        old = OldColumns(shard.Z if before is None else before, part.share.sources, before is not None)
        rows = ShardRows(data, shard.Z, len(part.share.sources), shard.first, old)
        return Prepared(OneShard(rows, sums, np.empty_like(workspace.private.members)), workspace)

    def _workspace(self, part: FeaturePart, columns: int, slots: int, lanes: int) -> Workspace:
        likelihood, spec, d = self.setup.likelihood, part.finite.spec, part.round.loadings.shape[1]
        dtype = likelihood.precision(spec)
        z, pull = np.empty(columns * lanes, dtype), np.empty(columns * lanes, dtype)
        scratch = np.empty(max(columns * lanes, 2 * lanes, columns * columns, columns * d), dtype)
        born, busy = np.zeros(self.setup.sweeps * lanes, np.int16), np.zeros(lanes + 1, np.bool_)
        ladder = np.empty(2 if self.setup.measure.binary else LARGEST + 1)
        work = Work(z, pull, scratch, born, busy, ladder, np.empty((4, slots), np.int64))
        tail = likelihood.tail(part.round.scales, slots, lanes, spec, part.share.loadings)
        return Workspace(Private(tail, np.zeros(slots, np.int64)), work)

    def sweep(self, shard: FeatureShard, part: FeaturePart, tail: Prepared) -> Prepared:
        """All L sweeps over the shard's rows; where slots run out, more are added from that block on."""
        done, row = self._sweep(part, [tail.one], tail.workspace, 0)
        return tail if done else self._with_more_slots(shard, part, tail, row)

    def _with_more_slots(self, shard: FeatureShard, part: FeaturePart, tail: Prepared, row: int) -> Prepared:
        """Sweep from this row on, with more slots."""
        while True:
            private = tail.workspace.private
            if self.setup.likelihood.keeps_loadings:
                part = part._replace(share=part.share._replace(loadings=private.tail.loadings))
            used, more = len(shard.Z), len(private.members) + MORE_SLOTS
            shard.Z = np.concatenate([shard.Z, np.zeros((more, shard.Z.shape[1]), shard.Z.dtype)])
            columns = len(shard.Z)
            workspace = self._workspace(part, columns, columns - part.finite.shared, tail.workspace.work.busy.size - 1)
            one, old = self._prepared(shard, part, workspace, None).one, tail.one
            tail = Prepared(one._replace(rows=one.rows._replace(used=used)), workspace)
            for new, done in zip(tail.one.sums, old.sums, strict=True):  # mutant: shards sums
                new[tuple(slice(0, size) for size in done.shape)] = done
            complete, row = self._sweep(part, [tail.one], workspace, row)
            if complete:
                return tail

    def statistics(self, shard: FeatureShard, part: FeaturePart, tail: Prepared) -> Summary:
        """What the shard reports of its Z, after free slots are removed."""
        n_shared, members, sums = len(part.round.loadings), tail.one.members, tail.one.sums
        if not members.all():
            kept: Any = slice(0, n_shared)
            if members.any():
                kept = np.concatenate([np.arange(n_shared), n_shared + np.flatnonzero(members)])
            shard.Z = shard.Z[kept]
            sums = select_columns(sums, kept)
        return summary(self.setup, shard, shard.Z, n_shared, sums)

    def predictive(self, atoms: FeaturePart, X: FeatureShard) -> Array:
        """[n, K]: entries of the new rows X after sweeps over these atoms, all mobile, that begin at its Z."""
        self.sweep(X, atoms, self.prepare(X, atoms))
        return X.Z[: len(atoms.finite.mobile.order)].T.copy()


def arrange(likelihood: FeatureBound, shard: FeatureShard, part: FeaturePart, free: int) -> None:
    """Arrange the columns of Z for this round, with free slots, and redraw missing values given them."""
    shard.Z = shard.columns(part.share.sources, len(part.share.sources) + free)
    if len(shard.holes):
        loadings = part.loadings
        columns = shard.Z[: len(loadings)]
        likelihood.impute(
            shard.data, shard.holes, columns, loadings, part.round.scales, part.round.keys.impute, shard.first
        )
        shard.changed()


@cache
def lanes_for(rows: int, width: int) -> int:
    """Rows per block: `width` numbers a row stay in the second-level cache, and blocks divide the rows evenly."""
    most = max(32, min(1024, int(2**16 / max(width, 1))))
    blocks = max(1, -(-rows // most))
    return max(1, -(-rows // blocks))


# ---- compiled


@jit
def sweep_some(law, finite, private, shards, count, row, keys, work):
    """`sweep` over `count` shards; the first one begins at `row`.

    Returns how many shards are done and, if not all, the row of the next one at which slots ran out.
    """
    for i in range(count):
        one = shards[i]
        reset(finite.spec, private.tail)  # mutant: shards renew
        for slot in range(private.members.size):  # mutant: shards members
            private.members[slot] = 0
        row = sweep(law, finite, private, one.rows, row, keys, work, one.sums)
        for slot in range(private.members.size):
            one.members[slot] = private.members[slot]
        if row < one.rows.Z.shape[1]:
            return i, row
        row = 0  # mutant: shards row
    return count, row


@jit
def sweep(law, finite, private, part, begin, keys, work, sums):
    """All sweeps over the rows begin .. n of a shard, block by block, and statistics of the blocks that are done.

    Returns n, or the first row of the block at which slots ran out.
    """
    columns, n = part.Z.shape
    lanes = work.busy.size - 1
    sweeps = work.born.size // lanes
    if part.old.pending:
        _arrange(part.old, part.Z)
    if part.used > finite.shared:
        _count(part.Z[finite.shared : part.used], private.members)
        fill(finite.spec, private.tail, part, finite.shared, work)
    for start in range(begin, n, lanes):
        size = min(lanes, n - start)
        births = draw_births(law, sweeps, size, keys.birth, part.first + start, work.born)
        if births > private.members.size - _alive(private.members):
            return start
        z = work.z[: columns * size].reshape(columns, size)
        _load(part.Z, start, z)
        rows = RowBlock(part.data, start, z, finite.shared, part.first + start)
        prepare(finite.spec, private.tail, rows, finite.mobile.order.size, work)
        for s in range(sweeps):
            sweep_key = stream(keys.entry, s)  # mutant: sweep own
            _find_busy(finite.spec, rows, work.busy)
            sweep_mobile(finite.spec, law, private.tail, rows, finite.mobile, sweep_key, work)
            if births > 0 or _alive(private.members) > 0:
                draws = SweepDraws(sweep_key, stream(keys.tail, s), work.born[s * size : (s + 1) * size])
                _visit_rows(law, finite.spec, private, rows, finite.mobile, draws, work)
        _store(z, finite.mobile.order.size, finite.shared, part.Z, start)
        collect(finite.spec, private.tail, rows, keys.split, sums, work)
    return n


@inline
def _arrange(old, Z):
    """Copy the columns of Z for this round; new ones and free slots are empty."""
    for k in range(Z.shape[0]):
        source = old.sources[k] if k < old.sources.size else -1
        for i in range(Z.shape[1] if source < 0 else 0):
            Z[k, i] = 0
        for i in range(Z.shape[1] if source >= 0 else 0):
            Z[k, i] = old.Z[source, i]


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
    """Write back the columns that may have changed."""
    for k in range(z.shape[0]):
        if k < usable or k >= shared:
            for r in range(z.shape[1]):
                Z[k, start + r] = np.int32(z[k, r])


@inline
def _find_busy(spec, rows, busy):
    """Mark rows with private entries, where their mobile entries have to wait for the visit."""
    z = rows.z
    busy[:] = False
    if mobile_waits(spec):
        for k in range(rows.shared, z.shape[0]):
            for r in range(z.shape[1]):
                busy[r] |= z[k, r] > 0
                busy[busy.size - 1] |= busy[r]


# ---- visits


@inline
def _visit_rows(law, spec, private, rows, mobile, draws, work):
    """Visit the rows of a block whose private entries may change."""
    size = rows.z.shape[1]
    r = 0
    while r < size:
        if _alive(private.members) > 0:
            r = next_visit(spec, law, private, rows, r, draws, work)
        else:
            while r < size and draws.born[r] == 0:
                r += 1
        if r == size:
            break
        _visit(law, spec, private, rows, r, mobile, draws, work)
        r += 1


@inline
def _visit(law, spec, private, rows, r, mobile, draws, work):
    """Gibbs updates of a row's private entries, then a Metropolis step that replaces atoms only this row uses."""
    members, z, shared = private.members, rows.z, rows.shared
    any_private = False
    for slot in range(members.size):
        any_private |= z[shared + slot, r] > 0
    begin_visit(spec, private, rows, r)
    if any_private and mobile_waits(spec):
        visit_mobile(spec, law, private.tail, rows, r, mobile, draws.entry, work)
    row_key = stream(draws.visits, rows.first + r)
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
        i = int(uniform(row_key, 3 * j) * (j + 1))
        order[i], order[j] = order[j], order[i]  # mutant: visit order[i]
    for j in range(count):
        slot = order[j]
        old = int(z[shared + slot, r])
        others = float(members[slot] - old)  # mutant: visit others
        weight = tail_weight(law, others, old, stream(row_key, 3 * slot + 1))
        entry = Entry(r, shared + slot, old, others, weight)
        new = draw_entry(law, spec, private.tail, entry, uniform(row_key, entry_number(slot)), work.ladder)
        _set(spec, private, rows, r, slot, new)
    if singles > 0 or draws.born[r] > 0:  # mutant: visit condition
        _replace_singles(law, spec, private, rows, r, singles, draws, work)
    end_visit(spec, private.tail, rows, r)


@inline
def _set(spec, private, rows, r, slot, new):
    old = int(rows.z[rows.shared + slot, r])
    if new != old:
        apply(spec, private.tail, r, rows.shared + slot, float(new - old))
        rows.z[rows.shared + slot, r] = new
        private.members[slot] += new - old


@inline
def _replace_singles(law, spec, private, rows, r, singles, draws, work):
    """Propose new atoms in place of those that only this row uses; accept by the row's likelihood ratio."""
    key, born = stream(stream(draws.visits, rows.first + r), 0), draws.born[r]
    owned, entries, fresh = work.slots[1], work.slots[2], work.slots[3]
    ratio = 0.0
    for j in range(singles):
        slot = owned[j]
        old = int(rows.z[rows.shared + slot, r])
        entries[j] = old
        ratio += log_change(spec, private.tail, r, rows.shared + slot, -float(old))
        _set(spec, private, rows, r, slot, 0)
    slot = 0
    for j in range(born):
        while private.members[slot] > 0 or _among(owned, singles, slot):
            slot += 1
        fresh[j] = slot
        open_slot(spec, private.tail, slot, stream(key, 2 * j))
        new = new_count(law, uniform(stream(key, 2 * j + 1), 0))
        ratio += log_change(spec, private.tail, r, rows.shared + slot, float(new))
        _set(spec, private, rows, r, slot, new)
    if math.log(uniform(key, 0)) < ratio:  # mutant: replace singles condition
        return
    for j in range(born):
        _set(spec, private, rows, r, fresh[j], 0)
    for j in range(singles):
        _set(spec, private, rows, r, owned[j], entries[j])


@inline
def _among(values, count, value):
    found = False
    for j in range(count):
        found |= values[j] == value
    return found
