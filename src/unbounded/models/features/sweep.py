"""The local step of features on the CPU: all sweeps over a shard's rows, compiled.

The columns of a shard's Z: first those that all shards share (mobile ones, then those that are held), then one slot for
each of the shard's private atoms. Rows go through in blocks that stay in cache, all sweeps of a block one after
another. A block of rows is Z in lanes, `z[column, row]`.

While the shard has no private atom and no row of the block proposes one (births are drawn ahead), a sweep is the
vectorised update of the mobile columns and nothing else. Otherwise rows are visited one by one, over the private
columns and new ones. Whether a row waits for its visit with its mobile columns as well is up to the likelihood: it may
depend on the row's private entries, which do not move before the visit, so that every step is a Gibbs step.

A *law* is what the measure says of an entry (laws.py), a *family* what the likelihood says of the data (operations.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unbounded.compiled.draws import stream, uniform
from unbounded.compiled.jit import inline, jit
from unbounded.models.features.entries import Entry, draw_entry
from unbounded.models.features.laws import draw_births, new_count, tail_weight
from unbounded.models.features.operations import (
    Rows,
    Turn,
    Work,
    apply,
    arrive,
    collect,
    depart,
    entry_number,
    mobile_waits,
    open_slot,
    prepare,
    seek,
    shift,
    sweep_mobile,
    visit_mobile,
)


@jit
def sweep(law, finite, private, part, begin, keys, work, sums):
    """All sweeps over the rows begin .. n of a shard, block by block, with the statistics of the blocks that are done.

    Returns n, or the first row of the block for which there were too few free slots.
    """
    columns, n = part.Z.shape
    lanes = work.lanes.size
    sweeps = work.born.size // lanes
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
        collect(finite.family, private.tail, rows, keys.split, sums)
    return n


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


@jit
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


@jit
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
    count = singles = 0
    for slot in range(members.size):
        others = members[slot] - z[shared + slot, r]
        if others > 0.5:
            work.slots[count] = slot
            count += 1
        elif z[shared + slot, r] > 0:
            work.singles[singles] = slot
            singles += 1
    for j in range(count - 1, 0, -1):  # a fresh random order at every visit: storage order would be biased
        i = int(uniform(own, 3 * j) * (j + 1))
        work.slots[i], work.slots[j] = work.slots[j], work.slots[i]  # mutant: visit work.slots[i]
    for j in range(count):
        slot = work.slots[j]
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


@jit
def _replace_singles(law, family, private, rows, r, singles, turn, work):
    """Propose new atoms in place of those that only this row uses; accept by the row's likelihood ratio."""
    key, born = stream(stream(turn.visits, rows.first + r), 0), turn.born[r]
    ratio = 0.0
    for j in range(singles):
        slot = work.singles[j]
        old = int(rows.z[rows.shared + slot, r])
        work.counts[j] = old
        ratio += shift(family, private.tail, r, rows.shared + slot, -float(old))
        _set(family, private, rows, r, slot, 0)
    slot = 0
    for j in range(born):
        while private.members[slot] > 0 or _among(work.singles, singles, slot):
            slot += 1
        work.fresh[j] = slot
        open_slot(family, private.tail, slot, stream(key, 2 * j))
        new = new_count(law, uniform(stream(key, 2 * j + 1), 0))
        ratio += shift(family, private.tail, r, rows.shared + slot, float(new))
        _set(family, private, rows, r, slot, new)
    if math.log(uniform(key, 0)) < ratio:  # mutant: replace singles condition
        return
    for j in range(born):
        _set(family, private, rows, r, work.fresh[j], 0)
    for j in range(singles):
        _set(family, private, rows, r, work.singles[j], work.counts[j])


@inline
def _among(values, count, value):
    found = False
    for j in range(count):
        found |= values[j] == value
    return found


# ---- memory


def workspace(columns: int, slots: int, sweeps: int, lanes: int, largest: int, dtype: Any) -> Work:
    """largest: the largest entry that may come."""
    return Work(
        z=np.empty(columns * lanes, dtype),
        pull=np.empty(columns * lanes, dtype),
        lanes=np.empty(lanes, dtype),
        other=np.empty(lanes, dtype),
        born=np.zeros(sweeps * lanes, np.int16),
        busy=np.zeros(lanes + 1, np.bool_),
        ladder=np.empty(largest + 1),
        slots=np.empty(slots, np.int64),
        fresh=np.empty(slots, np.int64),
        counts=np.empty(slots, np.int64),
        singles=np.empty(slots, np.int64),
    )


def lanes_for(rows: int, width: int) -> int:
    """Rows per block: `width` numbers a row stay in the second-level cache, and blocks divide the rows evenly."""
    most = max(32, min(1024, int(2**16 / max(width, 1))))
    blocks = max(1, -(-rows // most))
    return max(1, -(-rows // blocks))


@jit
def count(Z, begin, out):
    """Sums of the columns of Z from `begin` on."""
    for k in range(begin, Z.shape[0]):
        total = 0
        for i in range(Z.shape[1]):
            total += Z[k, i]
        out[k - begin] = total
