"""One atom for every row, drawn by its scores, in one pass and without a matrix of rows and atoms.

Within a tile of atoms the draw inverts the distribution function, as on the CPU; from one tile to the next, the later
one takes over by its share of the weight so far.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.gpu.draws import key_at, stream, uniform
from unbounded.gpu.forms import Scored, Shape, linear_tile, load_rows, quadratic_tile

BLOCK = 64
OPEN, APART = 1, 2  # marks of rows: it is open; it is in no atom that all share


class PickRows(NamedTuple):
    """Rows on the device: cells [n, width], labels, log density under a new atom, marks; and the first row's number."""

    cells: Any
    labels: Any
    log_new: Any
    marks: Any
    n: int
    width: int
    first: int


class Apart(NamedTuple):
    """What becomes of rows beyond the usable atoms.

    keys: of labels, of births, of opening. lone: whether each private atom has one row. shared: codes of shared atoms
    end there. log_birth: log weight of a new atom. rate, boost: a row is open with chance rate + boost times its odds
    of a birth.
    """

    keys: Any
    lone: Any
    shared: int
    log_birth: float
    rate: float
    boost: float


@triton.jit
def _drawn(scores, u, last):
    """(largest score, sum of weights, drawn column) of each row of a tile."""
    top = tl.max(scores, 1)
    weights = tl.exp(scores - top[:, None])
    sums = tl.cumsum(weights, 1)
    total = tl.max(sums, 1)
    below = sums < (u.to(total.dtype) * total)[:, None]
    return top, total, tl.minimum(tl.sum(below.to(tl.int32), 1), last)


@triton.jit
def _draw(rows, numbers, ok, atoms, key, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    """(log of the usable atoms' weight, drawn atom) of a block of rows."""
    TILE: tl.constexpr = SHAPE[2]
    counter = rows.first + numbers.to(tl.int64)
    top = tl.full((BLOCK,), float("-inf"), tl.float64 if SHAPE[3] else tl.float32)
    total = tl.zeros((BLOCK,), tl.float64 if SHAPE[3] else tl.float32)
    choice = tl.zeros((BLOCK,), tl.int32)
    if SHAPE[1] > 0:
        x = load_rows(rows.cells, numbers, ok, 0, rows.width, SHAPE[0], SHAPE[3])
    for t in range(0, tl.cdiv(atoms.usable, TILE)):
        if SHAPE[1] > 0:
            scores = quadratic_tile(x, atoms, t, SHAPE, BLOCK)
        else:
            scores = linear_tile(rows.cells, numbers, ok, rows.width, atoms, t, SHAPE, BLOCK)
        own = key if t == 0 else stream(key, 2 * t)
        here, sum_here, at = _drawn(scores, uniform(own, counter), tl.minimum(TILE, atoms.usable - t * TILE) - 1)
        highest = tl.maximum(top, here)
        sum_here = sum_here * tl.exp(here - highest)
        total = tl.where(total > 0, total * tl.exp(top - highest), 0.0) + sum_here
        takes = uniform(stream(key, 2 * t + 1), counter) * total < sum_here
        choice = tl.where((t == 0) | takes, t * TILE + at, choice)
        top = highest
    return top.to(tl.float64) + tl.log(total.to(tl.float64)), choice


@triton.jit(do_not_specialize=["turn"])
def _pick(rows, atoms, apart, turn, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    numbers = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = numbers < rows.n
    counter = rows.first + numbers.to(tl.int64)
    log_usable, choice = _draw(rows, numbers, ok, atoms, key_at(apart.keys, 3 * turn), SHAPE, BLOCK)
    z = tl.load(rows.labels + numbers, mask=ok, other=0)
    log_new = tl.load(rows.log_new + numbers, mask=ok, other=0.0)
    odds = tl.exp(tl.minimum(log_new + apart.log_birth - log_usable, 80.0))  # of a birth
    if atoms.usable == 0:
        odds = tl.full((BLOCK,), 5.0e34, tl.float64)
    born = uniform(key_at(apart.keys, 3 * turn + 1), counter) * (1.0 + odds) >= 1.0
    slot = z - apart.shared
    lone = tl.load(apart.lone + slot, mask=ok & (slot >= 0), other=0) != 0
    free = (z < atoms.usable) | lone  # mutant: device free rows
    z = tl.where(free & ~born, choice, z)
    z = tl.where(free & born & (slot < 0), -1, z)
    rate = apart.rate + apart.boost * odds
    is_open = uniform(key_at(apart.keys, 3 * turn + 2), counter) < rate  # mutant: device open rows
    beyond = (z < 0) | (z >= apart.shared)
    tl.store(rows.labels + numbers, z, mask=ok)
    tl.store(rows.marks + numbers, is_open.to(tl.int8) + 2 * beyond.to(tl.int8), mask=ok)


def pick(rows: PickRows, atoms: Scored, apart: Apart, turn: int, shape: Shape) -> None:
    """Redraw labels in place: -1 is a birth. Rows that are marked are for the host to look at."""
    if rows.n:
        warps = 4 if shape.columns <= 32 else 8
        _pick[(triton.cdiv(rows.n, BLOCK),)](rows, atoms, apart, turn, shape, BLOCK, num_warps=warps)


def marked(labels: Any, marks: Any) -> tuple[Any, Any, Any]:
    """(numbers, labels, marks) of marked rows, on the host, in order."""
    rows = torch.nonzero(marks).ravel()
    found = torch.stack([rows, labels[rows].long(), marks[rows].long()]).cpu().numpy()
    return found[0], found[1].astype("int32"), found[2]
