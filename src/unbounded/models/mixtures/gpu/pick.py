"""Draws an atom for every row from the row's scores, in one pass and without a matrix of rows and atoms.

Within a tile of atoms the draw is by inversion, as on the CPU; each further tile then takes over with a probability
that is its share of the total weight so far.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.gpu.device import serial_if_interpreted
from unbounded.gpu.draws import key_at, stream, uniform
from unbounded.models.mixtures.gpu.forms import Scored, Shape, leading, linear_tile, load_rows, quadratic_tile

OPEN, PRIVATE = 1, 2  # marks of rows: open ones, and those in atoms that shards do not share


class PickRows(NamedTuple):
    """Rows on the device."""

    cells: Any  # [n, width]
    labels: Any  # [n]
    log_new: Any  # [n] log density under a new atom
    marks: Any  # [n]
    n: int
    width: int
    first: int  # number of the first row


class Leaving(NamedTuple):
    """Which rows leave the usable atoms: those that create new ones, and open ones.

    A row is open with chance rate + boost times its odds of a birth.
    """

    keys: Any  # of labels, of births, of opening
    lone: Any  # whether each private atom has one row only
    shared: int  # number of shared atoms, whose codes come first
    log_birth: float  # log weight of a new atom
    rate: float
    boost: float


@triton.jit
def _drawn(scores, u, last):
    """(largest score, sum of weights, drawn atom) of each row of a tile."""
    top = tl.max(scores, 1)
    weights = tl.exp(scores - top[:, None])
    sums = tl.cumsum(weights, 1)
    total = tl.max(sums, 1)
    below = sums < (u.to(total.dtype) * total)[:, None]
    return top, total, tl.minimum(tl.sum(below.to(tl.int32), 1), last)


@triton.jit
def _draw(rows, numbers, ok, atoms, key, room, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    """(log of the usable atoms' weight, drawn atom) of a block of rows."""
    TILE: tl.constexpr = SHAPE[2]
    counter = rows.first + numbers.to(tl.int64)
    top = tl.full((BLOCK,), float("-inf"), tl.float64 if SHAPE[3] else tl.float32)
    total = tl.zeros((BLOCK,), tl.float64 if SHAPE[3] else tl.float32)
    choice = tl.zeros((BLOCK,), tl.int32)
    if SHAPE[1] > 0:
        x = load_rows(rows.cells, numbers, ok, 0, rows.width, SHAPE[0], SHAPE[3])
        high = leading(x, SHAPE[3])
        low = x - high
    for t in range(0, tl.cdiv(atoms.usable, TILE)):
        if SHAPE[1] > 0:
            scores = quadratic_tile(high, low, atoms, t, room, SHAPE, BLOCK)
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


@triton.jit
def _pick_block(block, rows, atoms, leaving, turn, room, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    numbers = block * BLOCK + tl.arange(0, BLOCK)
    ok = numbers < rows.n
    counter = rows.first + numbers.to(tl.int64)
    log_usable, choice = _draw(rows, numbers, ok, atoms, key_at(leaving.keys, 3 * turn), room, SHAPE, BLOCK)
    z = tl.load(rows.labels + numbers, mask=ok, other=0)
    log_new = tl.load(rows.log_new + numbers, mask=ok, other=0.0)
    odds = tl.exp(tl.minimum(log_new + leaving.log_birth - log_usable, 80.0))  # of a birth
    if atoms.usable == 0:
        odds = tl.full((BLOCK,), 5.0e34, tl.float64)
    born = uniform(key_at(leaving.keys, 3 * turn + 1), counter) * (1.0 + odds) >= 1.0
    slot = z - leaving.shared
    lone = tl.load(leaving.lone + slot, mask=ok & (slot >= 0), other=0) != 0
    free = (z < atoms.usable) | lone  # mutant: device free rows
    z = tl.where(free & ~born, choice, z)
    z = tl.where(free & born & (slot < 0), -1, z)
    rate = leaving.rate + leaving.boost * odds
    is_open = uniform(key_at(leaving.keys, 3 * turn + 2), counter) < rate
    beyond = (z < 0) | (z >= leaving.shared)
    tl.store(rows.labels + numbers, z, mask=ok)
    tl.store(rows.marks + numbers, is_open.to(tl.int8) + 2 * beyond.to(tl.int8), mask=ok)


@triton.jit(do_not_specialize=["turn"])
def _pick(rows, atoms, leaving, turn, room, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    own = room + pid * SHAPE[2] * BLOCK
    for block in range(pid, tl.cdiv(rows.n, BLOCK), tl.num_programs(0)):
        _pick_block(block, rows, atoms, leaving, turn, own, SHAPE, BLOCK)


class KernelLayout(NamedTuple):
    """How a kernel is laid out on the device."""

    block: int
    warps: int
    stages: int


def layout_of(shape: Shape) -> KernelLayout:
    """The layout that was fastest on an H200."""
    if shape.group == 0:
        return KernelLayout(64, 4, 2)
    if shape.columns > 64:
        return KernelLayout(32 if shape.double else 64, 4, 1)
    if shape.double:
        return KernelLayout(64, 4, 2)
    return KernelLayout(256, 8, 2) if shape.columns < 64 else KernelLayout(256, 16, 1)


@cache
def _programs(device: Any) -> int:
    """How many programs keep the whole device busy; each of them processes many blocks of rows."""
    return 4 * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


@serial_if_interpreted
def pick(rows: PickRows, atoms: Scored, leaving: Leaving, turn: int, shape: Shape) -> None:
    """Redraw labels in place, -1 for a birth, and mark the rows that the host has to look at."""
    if not rows.n:
        return
    block, warps, stages = layout_of(shape)
    programs = min(_programs(rows.cells.device), triton.cdiv(rows.n, block))
    room = torch.empty(programs * shape.tile * block, dtype=atoms.bias.dtype, device=rows.cells.device)
    _pick[(programs,)](rows, atoms, leaving, turn, room, shape, block, num_warps=warps, num_stages=stages)


def marked(labels: Any, marks: Any) -> tuple[Any, Any, Any]:
    """(numbers, labels, marks) of marked rows, on the host, in order."""
    rows = torch.nonzero(marks).ravel()
    found = torch.stack([rows, labels[rows].long(), marks[rows].long()]).cpu().numpy()
    return found[0], found[1].astype("int32"), found[2]
