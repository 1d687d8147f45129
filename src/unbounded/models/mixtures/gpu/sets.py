"""Rows by sets: sums over the rows of every set, and passes that cut sets in two.

Rows are sorted by set; the sort is stable, so that their order is always the same. A program adds up a chunk of rows of
one set in double precision, and chunks are added in their order: no sum depends on which program was faster.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.gpu.chunks import gathered
from unbounded.gpu.device import serial_if_interpreted
from unbounded.gpu.draws import key_at, uniform
from unbounded.models.mixtures.gpu.forms import LEAST, load_rows

BLOCK, CHUNK, MOST_CHUNKS = 32, 1024, 2048


class Sets(NamedTuple):
    """Rows by set."""

    order: Any  # [n] row numbers, sorted by set
    starts: Any  # [n_sets + 1] where the rows of each set begin in this order
    chunks: Any  # [n_sets + 1] where its chunks begin among all chunks
    n_sets: int
    chunk: int  # rows in a chunk


class SetRows(NamedTuple):
    cells: Any
    width: int


def sets_of(which: Any, n_sets: int) -> Sets:
    """Sort rows by set; which: the set of each row, n_sets or more for none."""
    small = torch.uint8 if n_sets < 255 else torch.int16 if n_sets < 2**15 else torch.int32
    ordered, order = torch.sort(torch.clamp(which, max=n_sets).to(small), stable=True)
    edges = torch.arange(n_sets + 1, device=which.device, dtype=torch.int32).to(small)
    starts = torch.searchsorted(ordered, edges)
    chunk = max(CHUNK, triton.next_power_of_2(-(-len(which) // MOST_CHUNKS)))
    chunks = torch.zeros_like(starts)
    torch.cumsum((starts[1:] - starts[:-1] + chunk - 1) // chunk, 0, out=chunks[1:])
    return Sets(order, starts, chunks, n_sets, chunk)


def _most_chunks(sets: Sets) -> int:
    return len(sets.order) // sets.chunk + sets.n_sets


@triton.jit
def _bounds(sets, pid, SETS: tl.constexpr):
    """(set, first position, end) of a chunk; an empty range where there is no such chunk."""
    ms = tl.arange(0, SETS)
    ends = tl.load(sets.chunks + 1 + ms, mask=ms < sets.n_sets, other=2**62)
    m = tl.sum((ends <= pid).to(tl.int32), 0)
    there = m < sets.n_sets
    m = tl.minimum(m, sets.n_sets - 1)
    begin = tl.load(sets.starts + m) + (pid - tl.load(sets.chunks + m)) * sets.chunk
    end = tl.minimum(begin + sets.chunk, tl.load(sets.starts + m + 1))
    return m, begin, tl.where(there, end, begin)


@triton.jit
def _add_linear(rows, sets, share, out, SETS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of the values of a chunk, weighted by the rows' shares if there are any."""
    pid = tl.program_id(0)
    _, begin, end = _bounds(sets, pid, SETS)
    first = tl.program_id(1) * COLUMNS
    total = tl.zeros((COLUMNS,), tl.float64)
    for start in range(begin, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        numbers = tl.load(sets.order + at, mask=at < end, other=0)
        x = load_rows(rows.cells, numbers, at < end, first, rows.width, COLUMNS, True)
        if share is not None:
            x = x * tl.load(share + at, mask=at < end, other=0.0)[:, None]
        total += tl.sum(x, 0)
    js = first + tl.arange(0, COLUMNS)
    tl.store(out + pid.to(tl.int64) * rows.width + js, total, mask=js < rows.width)


@triton.jit
def _add_products(rows, sets, share, out, SETS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """The same for products of all pairs of columns, and after them for the columns."""
    pid = tl.program_id(0)
    _, begin, end = _bounds(sets, pid, SETS)
    products = tl.zeros((COLUMNS, COLUMNS), tl.float64)
    total = tl.zeros((COLUMNS,), tl.float64)
    for start in range(begin, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        numbers = tl.load(sets.order + at, mask=at < end, other=0)
        x = load_rows(rows.cells, numbers, at < end, 0, rows.width, COLUMNS, True)
        weighted = x
        if share is not None:
            weighted = x * tl.load(share + at, mask=at < end, other=0.0)[:, None]
        products += tl.dot(tl.trans(weighted), x, out_dtype=tl.float64)
        total += tl.sum(weighted, 0)
    js = tl.arange(0, COLUMNS)
    place = out + pid.to(tl.int64) * (COLUMNS * COLUMNS + COLUMNS)
    tl.store(place + js[:, None] * COLUMNS + js[None, :], products)
    tl.store(place + COLUMNS * COLUMNS + js, total)


@serial_if_interpreted
def sums(rows: SetRows, sets: Sets, share: Any, quadratic: bool) -> Any:
    """[M, F]: sums of values over the rows of each set; quadratic: products of all pairs of columns come first."""
    columns = max(LEAST, triton.next_power_of_2(rows.width))
    padded = triton.next_power_of_2(max(sets.n_sets, 1))
    most = _most_chunks(sets)
    if quadratic:
        parts = torch.empty((most, columns**2 + columns), dtype=torch.float64, device=rows.cells.device)
        warps = 4 if columns <= 32 else 8
        if most:
            _add_products[(most,)](rows, sets, share, parts, padded, columns, BLOCK, num_warps=warps)
        return _upper(gathered(parts, sets), columns, rows.width)
    parts = torch.empty((most, rows.width), dtype=torch.float64, device=rows.cells.device)
    columns = min(columns, 128)
    if most:
        grid = (most, triton.cdiv(rows.width, columns))
        _add_linear[grid](rows, sets, share, parts, padded, columns, BLOCK)
    return gathered(parts, sets)


def _upper(padded: Any, columns: int, width: int) -> Any:
    """Products on and above the diagonal, then the columns."""
    a, b = torch.triu_indices(width, width, device=padded.device)
    return torch.cat([padded[:, a * columns + b], padded[:, columns**2 : columns**2 + width]], 1)


# ---- sets cut in two


class CutForms(NamedTuple):
    """Log odds of the second half of each set: values . matrix . values + linear . values + constant."""

    matrix: Any  # [M, D, D], padded; None: there is nothing quadratic
    linear: Any  # [M, F]
    constant: Any
    anchors: Any  # [M, A] numbers of rows that stay
    n_anchors: int
    partners: Any  # [M] the number of the row that goes, or -1
    key: Any


class CutLabels(NamedTuple):
    """How labels and halves belong together."""

    labels: Any  # [n]
    side: Any  # by label: which half it is, -1: to be drawn
    fresh: Any  # by set: the label of its second half, -1: labels stay
    first: int  # number of the first row


class CutSums(NamedTuple):
    """The results of a cut."""

    share: Any  # [n] of every row, by its position in the order of sets
    parts: Any  # [chunks, 2] sums of shares and of log q


@triton.jit
def _odds(rows, cuts, m, numbers, ok, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    odds = tl.zeros((BLOCK,), tl.float64) + tl.load(cuts.constant + m)
    for first in range(0, rows.width, COLUMNS):
        js = first + tl.arange(0, COLUMNS)
        x = load_rows(rows.cells, numbers, ok, first, rows.width, COLUMNS, True)
        pull = tl.load(cuts.linear + m * rows.width + js, mask=js < rows.width, other=0.0)
        y = tl.zeros((BLOCK, COLUMNS), tl.float64) + pull[None, :]
        if cuts.matrix is not None:
            ks = tl.arange(0, COLUMNS)
            w = tl.load(cuts.matrix + m.to(tl.int64) * COLUMNS * COLUMNS + ks[:, None] * COLUMNS + ks[None, :])
            y += tl.dot(x, w, out_dtype=tl.float64)
        odds += tl.sum(x * y, 1)
    return odds


@triton.jit
def _cut(rows, sets, cuts, codes, out, SETS: tl.constexpr, COLUMNS: tl.constexpr, SOFT: tl.constexpr):
    pid = tl.program_id(0)
    BLOCK: tl.constexpr = 32
    m, begin, end = _bounds(sets, pid, SETS)
    fresh = tl.load(codes.fresh + m)
    total = tl.zeros((BLOCK,), tl.float64)
    log_q = tl.zeros((BLOCK,), tl.float64)
    for start in range(begin, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        ok = at < end
        numbers = tl.load(sets.order + at, mask=ok, other=0)
        odds = _odds(rows, cuts, m, numbers, ok, COLUMNS, BLOCK)
        small = tl.exp(-tl.abs(odds))
        away = tl.minimum(odds, 0.0) - tl.log(1.0 + small)
        stay = away - odds
        p = tl.where(odds > 0.0, 1.0, small) / (1.0 + small)
        if SOFT:
            share = p
            own = p * away + (1.0 - p) * tl.where(stay > -745.0, stay, 0.0)
        else:
            z = tl.load(codes.labels + numbers, mask=ok, other=0)
            side = tl.load(codes.side + z)
            drawn = uniform(key_at(cuts.key, 0), codes.first + numbers.to(tl.int64)) < p
            share = tl.where(side < 0, drawn.to(tl.float64), side.to(tl.float64))
            own = tl.where(share == 1.0, away, stay)  # mutant: device log q
        for a in range(0, cuts.n_anchors):
            anchored = codes.first + numbers == tl.load(cuts.anchors + m * cuts.n_anchors + a)
            share = tl.where(anchored, 0.0, share)
            own = tl.where(anchored, 0.0, own)
        goes = codes.first + numbers == tl.load(cuts.partners + m)
        share = tl.where(goes, 1.0, share)
        own = tl.where(goes, 0.0, own)
        if not SOFT:
            z = tl.where((share == 1.0) & (fresh >= 0), fresh, z)
            tl.store(codes.labels + numbers, z, mask=ok)
        tl.store(out.share + at, share, mask=ok)
        total += tl.where(ok, share, 0.0)
        log_q += tl.where(ok, own, 0.0)
    tl.store(out.parts + 2 * pid, tl.sum(total, 0))
    tl.store(out.parts + 2 * pid + 1, tl.sum(log_q, 0))


@serial_if_interpreted
def cut(rows: SetRows, sets: Sets, cuts: CutForms, codes: CutLabels, soft: bool) -> tuple[Any, Any, Any]:
    """(share of every row, by position in the order of sets; sums of shares and of log q of every set)."""
    device, most = rows.cells.device, _most_chunks(sets)
    share = torch.zeros(len(sets.order), dtype=torch.float64, device=device)
    parts = torch.empty((most, 2), dtype=torch.float64, device=device)
    columns = max(LEAST, triton.next_power_of_2(rows.width))
    columns = columns if cuts.matrix is not None else min(columns, 128)
    if most:
        padded = triton.next_power_of_2(max(sets.n_sets, 1))
        _cut[(most,)](rows, sets, cuts, codes, CutSums(share, parts), padded, columns, soft)
    total = gathered(parts, sets)
    return share, total[:, 0], total[:, 1]
