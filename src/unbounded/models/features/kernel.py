"""The local step for features: every row has a count (0/1, or 0, 1, 2, ...) of every atom.

The columns of a shard's Z: first those that all shards share (0 .. usable-1 may move, the rest up to shared-1 are
held), then one slot for each of the shard's private atoms. Rows go through in blocks that stay in cache, all sweeps of
a block one after another. A block of rows is Z in lanes, `z[column, row]`.

While the shard has no private atom and no row of the block proposes one (births are drawn ahead), a sweep is the
vectorised update of the mobile columns and nothing else. Otherwise rows are visited one by one, over the private
columns and new ones. Whether a row waits for its visit with its mobile columns as well is up to the likelihood: it may
depend on the row's private entries, which do not move before the visit, so that every step is a Gibbs step.

A *law* is what the measure says of an entry, a *family* what the likelihood says of the data (docs/features.md).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unbounded.compiled.draws import log_beta, stream, uniform
from unbounded.compiled.jit import implements, inline, jit
from unbounded.compiled.lanes import lane_exp

LARGEST = 32767  # an entry of Z never gets larger; the mass beyond is far below rounding
NEGLIGIBLE = 45.0  # nats


class BernoulliLaw(NamedTuple):
    """Beta-Bernoulli: entries are 0 or 1; a mobile column's weight is the log odds of its probability."""

    c: float
    n: float  # rows and ghosts
    rate: float  # of new atoms for a row
    first: float  # probability that the entry of a new atom is 1


class PoissonLaw(NamedTuple):
    """Gamma-Poisson: a mobile column's weight is the log of its mean."""

    c: float
    n: float
    rate: float
    first: float


class NegativeBinomialLaw(NamedTuple):
    """Beta-negative-binomial: a mobile column's weight is the log of its probability."""

    c: float
    n: float
    rate: float
    first: float
    r: float


class Work(NamedTuple):
    """What a block writes besides Z."""

    z: Any  # flat: columns x rows, floats
    pull: Any  # flat: columns x rows
    lanes: Any  # a row of lanes
    other: Any  # another one
    born: Any  # [sweeps x rows] proposed births
    busy: Any  # [rows] whether the row's mobile columns wait for its visit; last: whether any row's do
    ladder: Any
    slots: Any  # private columns in the order of a visit
    fresh: Any  # slots of the proposed atoms
    counts: Any  # their entries
    singles: Any  # slots that only the visited row uses


class Quadratic(NamedTuple):
    """A log likelihood pull z - curve z^2 / 2 of one entry."""

    pull: float
    curve: float


# ---- what a law says: chosen while compiling by its type


def entry_ratio(law: Any, members: float, weight: float, z: int) -> Any:
    """p(z + 1) / p(z) of an entry; members < 0: of a mobile column, else of a private one with so many others."""


def entry_ceiling(law: Any, members: float, weight: float, z: int) -> Any:
    """No entry_ratio at z or beyond is larger."""


def tail_weight(law: Any, members: float, z: int, key: Any) -> Any:
    """A weight for an entry of a private column, where it cannot be integrated out in closed form."""


def new_ratio(law: Any, z: int) -> Any:
    """P(z + 1) / P(z) for the entry of a new atom; P(1) is law.first."""


@implements(entry_ratio, BernoulliLaw)
def _bernoulli_ratio(law, members, weight, z):
    if z > 0:
        return 0.0
    # mutant: bernoulli ratio result
    return math.exp(min(weight, 700.0)) if members < 0.0 else members / (law.n - 1.0 - members + law.c)


@implements(entry_ceiling, BernoulliLaw)
def _bernoulli_ceiling(law, members, weight, z):
    return entry_ratio(law, members, weight, z)


@implements(tail_weight, BernoulliLaw)
def _bernoulli_tail(law, members, z, key):
    return 0.0


@implements(new_ratio, BernoulliLaw)
def _bernoulli_new(law, z):
    return 0.0


@implements(entry_ratio, PoissonLaw)
def _poisson_ratio(law, members, weight, z):
    return math.exp(weight) / (z + 1.0) if members < 0.0 else (members + z) / ((z + 1.0) * (law.c + law.n))


@implements(entry_ceiling, PoissonLaw)
def _poisson_ceiling(law, members, weight, z):
    return entry_ratio(law, members, weight, z)


@implements(tail_weight, PoissonLaw)
def _poisson_tail(law, members, z, key):
    return 0.0


@implements(new_ratio, PoissonLaw)
def _poisson_new(law, z):
    return z / ((z + 1.0) * (law.c + law.n))


@implements(entry_ratio, NegativeBinomialLaw)
def _negative_ratio(law, members, weight, z):
    return math.exp(weight) * (law.r + z) / (z + 1.0)


@implements(entry_ceiling, NegativeBinomialLaw)
def _negative_ceiling(law, members, weight, z):
    return math.exp(weight) * max(1.0, (law.r + z) / (z + 1.0))


@implements(tail_weight, NegativeBinomialLaw)
def _negative_tail(law, members, z, key):
    """The probability is drawn given the whole column, this entry included: its tails are too heavy to sum up."""
    return log_beta(members + z, law.c + law.n * law.r, key)


@implements(new_ratio, NegativeBinomialLaw)
def _negative_new(law, z):
    return (law.r + z) * z / ((z + 1.0) * (z + law.c + law.n * law.r))


def is_binary(law: Any) -> Any:
    """Whether entries are 0 or 1."""


@implements(is_binary, BernoulliLaw)
def _bernoulli_is_binary(law):
    return True


@implements(is_binary, PoissonLaw)
def _poisson_is_binary(law):
    return False


@implements(is_binary, NegativeBinomialLaw)
def _negative_is_binary(law):
    return False


# ---- what a family says


def prepare(family: Any, tail: Any, data: Any, start: int, z: Any, usable: int, work: Any) -> None:
    """Before the sweeps over a block: what the mobile update needs of its rows."""


def sweep_mobile(
    family: Any, law: Any, tail: Any, z: Any, usable: int, order: Any, weights: Any, key: Any, first: int, work: Any
) -> None:
    """Update the mobile columns, in the given order, of the rows of a block that are not `work.busy`."""


def mobile_waits(family: Any) -> Any:
    """Whether the mobile columns of a row with private entries are updated in its visit."""


def seek(
    family: Any, law: Any, tail: Any, data: Any, start: int, z: Any, r: int, shared: int, members: Any, key: Any,
    row: int, work: Any, born: Any,
) -> Any:  # fmt: skip
    """The first row from r on whose visit may change something; r is always right."""


def arrive(family: Any, tail: Any, data: Any, start: int, z: Any, r: int, shared: int, members: Any) -> None:
    """Take row r of the block out of what its private atoms know of the data."""


def visit_mobile(
    family: Any, law: Any, tail: Any, z: Any, r: int, usable: int, order: Any, weights: Any, key: Any, row: int,
    work: Any,
) -> None:  # fmt: skip
    """Update the mobile columns of the visited row, whose private entries matter to them."""


def shift(family: Any, tail: Any, z: Any, r: int, shared: int, column: int, step: float) -> Any:
    """Log likelihood of the visited row after its entry in a column changed by `step`, minus that of now."""


def apply(family: Any, tail: Any, z: Any, r: int, shared: int, column: int, step: float) -> None:
    """Make that change to what the family keeps of the visited row."""


def open_slot(family: Any, tail: Any, slot: int, key: Any) -> None:
    """Make a slot a new atom without members."""


def depart(family: Any, tail: Any, z: Any, r: int, shared: int) -> None:
    """Put the visited row back."""


def collect(
    family: Any, tail: Any, data: Any, start: int, z: Any, first: int, key: Any, products: Any, sums: Any, rest: Any
) -> None:
    """Add the block to the statistics."""


@implements(shift, Quadratic)
def _quadratic_shift(family, tail, z, r, shared, column, step):
    return step * (family.pull - 0.5 * family.curve * step)


@jit
def draw_entry(law, family, tail, z, r, shared, column, old, members, weight, concave, u, ladder):
    """Draw an entry from p(z) L(z), the support cut where what is left does not matter.

    concave: steps of the log likelihood never grow, so that the last one bounds all that follow.
    """
    best = ladder[0] = 0.0
    before = shift(family, tail, z, r, shared, column, -float(old))
    value = 0
    while value < LARGEST:
        ratio = entry_ratio(law, members, weight, value)
        if ratio <= 0.0:
            break
        after = shift(family, tail, z, r, shared, column, float(value + 1 - old))
        step = after - before
        before = after
        value += 1
        ladder[value] = ladder[value - 1] + math.log(ratio) + step
        best = max(best, ladder[value])
        if ladder[value] < best - NEGLIGIBLE:
            growth = step if concave else max(step, 0.0)
            if entry_ceiling(law, members, weight, value) * math.exp(min(growth, 50.0)) < 0.98:
                break
    total = 0.0
    for v in range(value + 1):
        ladder[v] = math.exp(ladder[v] - best)
        total += ladder[v]
    aim = u * total
    for v in range(value):
        aim -= ladder[v]
        if aim < 0.0:
            return v
    return value


# ---- the mobile columns of a block, given the linear and quadratic terms of each entry


def draw_column(law: Any, column: Any, pull: Any, weight: float, curve: float, key: Any, row: int, work: Any) -> None:
    """Draw the entries `column[r]` of a mobile column from their weight and log likelihood pull z - curve z^2 / 2."""


@implements(draw_column, BernoulliLaw)
def _bernoulli_column(law, column, pull, weight, curve, key, row, work):
    one, none = column.dtype.type(1), column.dtype.type(0)
    offset = column.dtype.type(weight - 0.5 * curve)
    most = column.dtype.type(80.0)
    if work.busy[work.busy.size - 1]:
        for r in range(column.size):
            e = lane_exp(min(-(pull[r] + offset), most))
            new = one if uniform(key, row + r) * (one + e) < one else none
            column[r] = column[r] if work.busy[r] else new
        return
    for r in range(column.size):
        e = lane_exp(min(-(pull[r] + offset), most))
        column[r] = one if uniform(key, row + r) * (one + e) < one else none


@jit
def draw_pair(first, second, pull, other, curve, key, row, busy):
    """Draw two columns of 0/1 entries together, of which `curve` is what both at once lose.

    pull, other: log odds of each while the other is out. Alone, an entry that another one cancels could never go.
    """
    one, none = first.dtype.type(1), first.dtype.type(0)
    cross = first.dtype.type(curve)
    some = busy[busy.size - 1]
    for r in range(first.size):
        a, b = pull[r], other[r]
        both = a + b - cross  # mutant: draw pair both
        top = max(max(a, b), max(both, none))
        w = lane_exp(none - top)
        wa = w + lane_exp(a - top)
        wb = wa + lane_exp(b - top)
        aim = uniform(key, row + r) * (wb + lane_exp(both - top))
        new = one if ((aim >= w) & (aim < wa)) | (aim >= wb) else none
        new_other = one if aim >= wa else none
        keep = some & busy[r]
        first[r] = first[r] if keep else new
        second[r] = second[r] if keep else new_other


@inline
def _count_column(law, column, pull, weight, curve, key, row, work):
    for r in range(column.size):
        if not work.busy[r]:
            quadratic = Quadratic(float(pull[r]), curve)
            u = uniform(key, row + r)
            column[r] = draw_entry(law, quadratic, 0, column, r, 0, 0, 0, -1.0, weight, True, u, work.ladder)


@implements(draw_column, PoissonLaw)
def _poisson_column(law, column, pull, weight, curve, key, row, work):
    _count_column(law, column, pull, weight, curve, key, row, work)


@implements(draw_column, NegativeBinomialLaw)
def _negative_column(law, column, pull, weight, curve, key, row, work):
    _count_column(law, column, pull, weight, curve, key, row, work)


# ---- births


@jit
def _births(law, u):
    """How many new atoms a row proposes: Poisson(rate) by its distribution function."""
    p = math.exp(-law.rate)
    count = 0
    aim = u - p
    while aim >= 0.0 and count < 64:
        count += 1
        p *= law.rate / count
        aim -= p
    return count


@jit
def new_count(law, u):
    p = law.first
    aim = u - p
    value = 1
    while aim >= 0.0 and value < LARGEST:
        p *= new_ratio(law, value)
        if p <= 0.0:
            break
        value += 1
        aim -= p
    return value


@jit
def _draw_births(law, sweeps, size, key, row, born):
    """Births of every sweep over the block, drawn ahead; returns their number."""
    total = 0
    if law.rate <= 0.0:
        born[: sweeps * size] = 0
        return total
    quiet = math.exp(-law.rate)
    for sweep in range(sweeps):
        own = stream(key, sweep)
        loud = 0
        for r in range(size):
            loud += uniform(own, row + r) >= quiet
        for r in range(size):
            born[sweep * size + r] = 0
        for r in range(size if loud else 0):
            count = _births(law, uniform(own, row + r))
            born[sweep * size + r] = count
            total += count
    return total


# ---- visits


@jit
def _visit(law, family, tail, data, start, z, r, row, usable, shared, members, order, weights, born, keys, work):
    """Gibbs over the private columns of a row, then a Metropolis step that replaces those only it uses."""
    entry_key, tail_key = keys
    private = False
    for slot in range(members.size):
        private |= z[shared + slot, r] > 0
    arrive(family, tail, data, start, z, r, shared, members)
    if private and mobile_waits(family):
        visit_mobile(family, law, tail, z, r, usable, order, weights, entry_key, row, work)
    own = stream(tail_key, row)
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
        new = draw_entry(
            law, family, tail, z, r, shared, shared + slot, old, others, weight, False, uniform(own, on_line(slot)),
            work.ladder,
        )  # fmt: skip
        _set(family, tail, z, r, shared, members, slot, new)
    if singles > 0 or born > 0:  # mutant: visit condition
        _replace_singles(law, family, tail, z, r, shared, members, singles, born, stream(own, 0), work)
    depart(family, tail, z, r, shared)


@inline
def on_line(slot):
    """Which of a visit's random numbers draws the entry of a private column."""
    return 3 * slot + 2


@inline
def _set(family, tail, z, r, shared, members, slot, new):
    old = int(z[shared + slot, r])
    if new != old:
        apply(family, tail, z, r, shared, shared + slot, float(new - old))
        z[shared + slot, r] = new
        members[slot] += new - old


@jit
def _replace_singles(law, family, tail, z, r, shared, members, singles, born, key, work):
    """Propose `born` new atoms in place of the row's own ones; accept by the row's likelihood ratio."""
    ratio = 0.0
    for j in range(singles):
        slot = work.singles[j]
        old = int(z[shared + slot, r])
        work.counts[j] = old
        ratio += shift(family, tail, z, r, shared, shared + slot, -float(old))
        _set(family, tail, z, r, shared, members, slot, 0)
    slot = 0
    for j in range(born):
        while members[slot] > 0 or _among(work.singles, singles, slot):
            slot += 1
        work.fresh[j] = slot
        open_slot(family, tail, slot, stream(key, 2 * j))
        new = new_count(law, uniform(stream(key, 2 * j + 1), 0))
        ratio += shift(family, tail, z, r, shared, shared + slot, float(new))
        _set(family, tail, z, r, shared, members, slot, new)
    if math.log(uniform(key, 0)) < ratio:  # mutant: replace singles condition
        return
    for j in range(born):
        _set(family, tail, z, r, shared, members, work.fresh[j], 0)
    for j in range(singles):
        _set(family, tail, z, r, shared, members, work.singles[j], work.counts[j])


@inline
def _among(values, count, value):
    found = False
    for j in range(count):
        found |= values[j] == value
    return found


# ---- the local step


@jit
def sweep(
    law, family, tail, data, Z, first, begin, usable, shared, members, order, weights, sweeps, lanes, keys, work,
    products, sums, rest,
):  # fmt: skip
    """All sweeps over the rows begin .. n, block by block, with the statistics of the blocks that are done.

    Returns n, or the first row of the block for which there were too few free slots.
    """
    entry_key, tail_key, birth_key, split_key = keys
    columns, n = Z.shape
    for start in range(begin, n, lanes):
        size = min(lanes, n - start)
        births = _draw_births(law, sweeps, size, birth_key, first + start, work.born)
        free = alive = 0
        for slot in range(members.size):
            free += members[slot] == 0
            alive += members[slot] > 0
        if births > free:
            return start
        z = work.z[: columns * size].reshape(columns, size)
        for k in range(columns):
            for r in range(size):
                z[k, r] = Z[k, start + r]
        prepare(family, tail, data, start, z, usable, work)
        for s in range(sweeps):
            own = stream(entry_key, s)  # mutant: sweep own
            _find_busy(family, z, shared, work.busy)
            sweep_mobile(family, law, tail, z, usable, order, weights, own, first + start, work)
            if alive == 0 and births == 0:
                continue
            visits = stream(tail_key, s)
            born = work.born[s * size : (s + 1) * size]
            r = 0
            while r < size:
                if alive > 0:
                    r = seek(
                        family, law, tail, data, start, z, r, shared, members, visits, first + start, work, born
                    )  # fmt: skip
                else:
                    while r < size and born[r] == 0:
                        r += 1
                if r == size:
                    break
                _visit(
                    law, family, tail, data, start, z, r, first + start + r, usable, shared, members, order, weights,
                    born[r], (own, visits), work,
                )  # fmt: skip
                r += 1
                alive = 0
                for slot in range(members.size):
                    alive += members[slot] > 0
        for k in range(columns):
            if k < usable or k >= shared:
                for r in range(size):
                    Z[k, start + r] = np.int32(z[k, r])
        collect(family, tail, data, start, z, first, split_key, products, sums, rest)
    return n


@inline
def _find_busy(family, z, shared, busy):
    """Mark the rows with private entries, where their mobile columns have to wait."""
    busy[:] = False
    if mobile_waits(family):
        for k in range(shared, z.shape[0]):
            for r in range(z.shape[1]):
                busy[r] |= z[k, r] > 0
                busy[busy.size - 1] |= busy[r]


def workspace(columns: int, slots: int, sweeps: int, lanes: int, dtype: Any) -> Work:
    return Work(
        z=np.empty(columns * lanes, dtype),
        pull=np.empty(columns * lanes, dtype),
        lanes=np.empty(lanes, dtype),
        other=np.empty(lanes, dtype),
        born=np.zeros(sweeps * lanes, np.int16),
        busy=np.zeros(lanes + 1, np.bool_),
        ladder=np.empty(LARGEST + 1),
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
