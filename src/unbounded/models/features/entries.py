"""Draws of entries of Z, from their law and the likelihood."""

from __future__ import annotations

import math
from typing import NamedTuple

from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import implements, inline, jit
from unbounded.compiled.lanes import lane_exp
from unbounded.models.features.laws import LARGEST, entry_ceiling, entry_ratio
from unbounded.models.features.operations import log_change

NEGLIGIBLE = 45.0  # nats


class Quadratic(NamedTuple):
    """The log likelihood pull z - curve z^2 / 2 of an entry z that is zero now."""

    pull: float
    curve: float


class Entry(NamedTuple):
    """An entry that is to be redrawn."""

    r: int
    column: int
    value: int
    others: float  # the column's count in other rows; -1: the column is mobile
    weight: float


@implements(log_change, Quadratic)
def _quadratic_shift(spec, tail, r, column, step):
    return step * (spec.pull - 0.5 * spec.curve * step)


@jit
def draw_entry(law, spec, tail, entry, u, ladder):
    """Draw an entry from p(z) L(z), truncated where the remaining mass is negligible.

    In a mobile column the log likelihood is concave in z, so that its last step bounds all that follow.
    """
    best = ladder[0] = 0.0
    before = log_change(spec, tail, entry.r, entry.column, -float(entry.value))
    value = 0
    while value < LARGEST:
        ratio = entry_ratio(law, entry.others, entry.weight, value)
        if ratio <= 0.0:
            break
        after = log_change(spec, tail, entry.r, entry.column, float(value + 1 - entry.value))
        step = after - before
        before = after
        value += 1
        ladder[value] = ladder[value - 1] + math.log(ratio) + step
        best = max(best, ladder[value])
        if ladder[value] < best - NEGLIGIBLE:
            growth = step if entry.others < 0.0 else max(step, 0.0)
            if entry_ceiling(law, entry.others, entry.weight, value) * math.exp(min(growth, 50.0)) < 0.98:
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


@jit
def binary_column(column, pull, weight, curve, key, row, busy):
    """Entries are 0 or 1, and the weight is the log odds."""
    one, none = column.dtype.type(1), column.dtype.type(0)
    offset = column.dtype.type(weight - 0.5 * curve)
    most = column.dtype.type(80.0)
    if busy[busy.size - 1]:
        for r in range(column.size):
            e = lane_exp(min(-(pull[r] + offset), most))
            new = one if uniform(key, row + r) * (one + e) < one else none
            column[r] = column[r] if busy[r] else new
        return
    for r in range(column.size):
        e = lane_exp(min(-(pull[r] + offset), most))
        column[r] = one if uniform(key, row + r) * (one + e) < one else none


@jit
def draw_pair(first, second, pull, other, curve, key, row, busy):
    """Draw two columns of 0/1 entries jointly; pull, other: log odds of each entry while the other one is 0; curve: by
    how much the log odds of both together are below the sum of these.

    Joint updates are needed because two entries that cancel cannot be changed separately.
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
def count_column(law, column, pull, weight, curve, key, row, work):
    """Draw a column of counts, one entry after another."""
    for r in range(column.size):
        if not work.busy[r]:
            quadratic = Quadratic(float(pull[r]), curve)
            entry = Entry(r, 0, 0, -1.0, weight)
            column[r] = draw_entry(law, quadratic, 0, entry, uniform(key, row + r), work.ladder)
