"""Sweeps over rows whose 0/1 entries are the bits of one integer, and sums over such rows.

The rows of many shards lie one after another, stored column by column; a block of rows never crosses from one shard to
the next. During a sweep, the registers of one thread hold the pull on each entry of a row: its log odds given the data
and the row's other entries, but for a constant. Sums over rows are sums of integers, which are exact in any order:
values are split into digits of eleven bits, and tensor cores multiply these by zeros and ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.gpu.chunks import gathered
from unbounded.gpu.device import serial_if_interpreted
from unbounded.gpu.draws import key_at, stream, uniform

MOST_COLUMNS = 62
LEAST = 16  # the narrowest matrix that tensor cores take
ROWS, WARPS = 128, 4  # rows in a block of a sweep: one for each thread
CHUNK, TILE = 1024, 64  # rows that one program adds up, and columns of data that it adds up at a time
SLACK = 0.01  # nats: how far off the device may be when it refuses a birth
DIGIT = tl.constexpr(2048.0)


def padded(size: int) -> int:
    """The width of arrays that hold this many columns."""
    return max(LEAST, triton.next_power_of_2(size))


class PackedRows(NamedTuple):
    """The rows of some shards with their entries as bits; blocks of rows are (shard, first row, end)."""

    cells: Any  # [D, n]
    bits: Any  # [n] of the current Z
    next_bits: Any  # [n] of the Z that a kernel makes
    blocks: Any  # [blocks, 3]
    n: int
    width: int


class MobileColumns(NamedTuple):
    """The C columns that shards share, of which the first are mobile; K: the padded number of mobile ones."""

    sizes: Any  # the numbers of mobile columns, of shared columns, and of sweeps
    sources: Any  # [P, C] which old column each of them was, -1: none
    order: Any  # in which mobile columns are updated
    scaled: Any  # [D, K] loadings over the variance of the noise
    gram: Any  # [C, K] products of these with loadings, zero for a column with itself
    odds: Any  # [K] log odds of an entry that has no pull
    loadings: Any  # [C, D]


class Births(NamedTuple):
    """What it takes to tell which rows propose new atoms that could be accepted."""

    keys: Any  # [sweeps, 3] of entries, of visits, of births
    offsets: Any  # [P] number of a row less its position here
    none: Any  # [P] chance that a row proposes no atom
    single: Any  # [P] chance that it proposes at most one
    numbers: Any  # chance that a new entry is 1, variance of the noise, the same with a new atom, SLACK
    away: Any  # [P] shards that the host sweeps in any case
    proposed: Any  # [P] where a shard is marked that the host has to sweep because of a birth


@triton.jit
def bit(z, c):
    return (z >> tl.cast(c, tl.int64)) & 1


@triton.jit
def _with_bit(z, c, new):
    place = tl.cast(c, tl.int64)
    return (z & ~(tl.full((1,), 1, tl.int64) << place)) | (new.to(tl.int64) << place)


@triton.jit
def _of_column(pull, ks, k):
    return tl.sum(tl.where((ks == k)[:, None], pull, 0.0), 0)


@triton.jit
def _explained(pull, columns, z, ks, KINDS: tl.constexpr, K: tl.constexpr):
    """The pull on every column, less what the row's entries already explain."""
    for c in range(tl.load(columns.sizes + 1)):
        g = tl.load(columns.gram + c * K + ks)
        pull -= g[:, None] * bit(z, c).to(KINDS)[None, :]
    return pull


@triton.jit
def _pair(pull, columns, z, j, k, u, K: tl.constexpr):
    """Draw the entries of two columns together."""
    ks = tl.arange(0, K)
    gj, gk = tl.load(columns.gram + j * K + ks), tl.load(columns.gram + k * K + ks)
    cross = tl.load(columns.gram + j * K + k)
    zj, zk = bit(z, j).to(pull.dtype), bit(z, k).to(pull.dtype)
    a = tl.load(columns.odds + j) + _of_column(pull, ks, j) + cross * zk
    b = tl.load(columns.odds + k) + _of_column(pull, ks, k) + cross * zj
    both = a + b - cross  # mutant: device pair
    top = tl.maximum(tl.maximum(a, b), tl.maximum(both, 0.0))
    w = tl.exp(0.0 - top)
    wa = w + tl.exp(a - top)
    wb = wa + tl.exp(b - top)
    aim = u * (wb + tl.exp(both - top)).to(tl.float64)
    first = ((aim >= w.to(tl.float64)) & (aim < wa.to(tl.float64))) | (aim >= wb.to(tl.float64))
    second = aim >= wa.to(tl.float64)
    change = gj[:, None] * (first.to(pull.dtype) - zj)[None, :] + gk[:, None] * (second.to(pull.dtype) - zk)[None, :]
    pull -= change
    return pull, _with_bit(_with_bit(z, j, first), k, second)


@triton.jit
def _mark_births(rows, columns, births, z, at, ok, p, s):
    """Mark the shard if one of its rows proposes an atom that could be accepted."""
    number = at + tl.load(births.offsets + p)
    u = uniform(key_at(births.keys, 3 * s + 2), number)
    proposes = ok & (u >= tl.load(births.none + p))
    if tl.max(proposes.to(tl.int32), 0) > 0:
        square = tl.zeros_like(u)
        for d in range(rows.width):
            x = tl.load(rows.cells + tl.cast(d, tl.int64) * rows.n + at, mask=ok, other=0.0).to(tl.float64)
            for c in range(tl.load(columns.sizes + 1)):
                x -= tl.load(columns.loadings + c * rows.width + d) * bit(z, c).to(tl.float64)
            square += x * x
        own = stream(stream(key_at(births.keys, 3 * s + 1), number), 0)
        none = number * 0
        noise, more = tl.load(births.numbers + 1), tl.load(births.numbers + 2)
        log_ratio = 0.5 * (square * (1.0 / noise - 1.0 / more) - rows.width * tl.log(more / noise))
        plain = (u < tl.load(births.single + p)) & (uniform(stream(own, 1), none) < tl.load(births.numbers))
        refused = plain & (tl.log(uniform(own, none)) >= log_ratio + tl.load(births.numbers + 3))
        if tl.max((proposes & ~refused).to(tl.int32), 0) > 0:  # mutant: device births heard
            tl.store(births.proposed + p, 1)


@triton.jit
def _sweep_block(rows, columns, births, b, KINDS: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    p = tl.load(rows.blocks + 3 * b)
    at = tl.load(rows.blocks + 3 * b + 1) + tl.arange(0, ROWS)
    ok = at < tl.load(rows.blocks + 3 * b + 2)
    ks = tl.arange(0, K)
    mobile, shared, sweeps = tl.load(columns.sizes), tl.load(columns.sizes + 1), tl.load(columns.sizes + 2)
    old = tl.load(rows.bits + at, mask=ok, other=0)
    z = old * 0
    for c in range(shared):
        source = tl.load(columns.sources + p * shared + c)
        z |= tl.where(source >= 0, bit(old, tl.maximum(source, 0)), 0) << tl.cast(c, tl.int64)
    whole = tl.zeros((K, ROWS), KINDS)
    for d in range(rows.width):
        x = tl.load(rows.cells + tl.cast(d, tl.int64) * rows.n + at, mask=ok, other=0.0).to(KINDS)
        whole += tl.load(columns.scaled + d * K + ks)[:, None] * x[None, :]
    number = at + tl.load(births.offsets + p)
    for s in range(sweeps):
        own = key_at(births.keys, 3 * s)
        pull = _explained(whole, columns, z, ks, KINDS, K)
        for q in range(mobile // 2):
            j, k = tl.load(columns.order + 2 * q), tl.load(columns.order + 2 * q + 1)
            u = uniform(stream(own, j), number)
            pull, z = _pair(pull, columns, z, j, k, u, K)
        if mobile % 2 == 1:
            k = tl.load(columns.order + mobile - 1)
            odds = tl.load(columns.odds + k) + _of_column(pull, ks, k)
            e = tl.exp(tl.minimum(-odds, 80.0)).to(tl.float64)
            z = _with_bit(z, k, uniform(stream(own, k), number) * (1.0 + e) < 1.0)
        _mark_births(rows, columns, births, z, at, ok, p, s)
    tl.store(rows.next_bits + at, z, mask=ok)


@triton.jit
def _sweep(rows, columns, births, K: tl.constexpr, ROWS: tl.constexpr, DOUBLE: tl.constexpr):
    KINDS: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    b = tl.program_id(0)
    if tl.load(births.away + tl.load(rows.blocks + 3 * b)) == 0:
        _sweep_block(rows, columns, births, b, KINDS, K, ROWS)


@serial_if_interpreted
def sweep(rows: PackedRows, columns: MobileColumns, births: Births) -> None:
    """All sweeps over the rows of all shards but those that the host sweeps in any case."""
    double = columns.scaled.dtype == torch.float64
    if len(rows.blocks):
        _sweep[(len(rows.blocks),)](rows, columns, births, columns.scaled.shape[1], ROWS, double, num_warps=WARPS)


# ---- sums over rows


class Chunks(NamedTuple):
    """Rows that one program adds up; the chunks of a shard follow one another."""

    bounds: Any  # [chunks, 3] (shard, first row, end)
    chunks: Any  # [P + 1] where those of a shard begin
    n_sets: int


@triton.jit
def _digits(x):
    """The next digit of values between -1024 and 1024, and the rest as values between -1024 and 1024."""
    digit = tl.floor(x + 0.5)
    return digit.to(tl.float16), (x - digit) * DIGIT


@triton.jit
def _add(rows, chunks, units, out, D: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr):
    pid, tile = tl.program_id(0), tl.program_id(1)
    begin, end = tl.load(chunks.bounds + 3 * pid + 1), tl.load(chunks.bounds + 3 * pid + 2)
    cs, ds = tl.arange(0, C), tile * D + tl.arange(0, D)
    p = tl.load(chunks.bounds + 3 * pid)
    unit = tl.load(units + p * rows.width + ds, mask=ds < rows.width, other=1.0)
    a, b, c = tl.zeros((D, C), tl.float32), tl.zeros((D, C), tl.float32), tl.zeros((D, C), tl.float32)
    d, e = tl.zeros((D, C), tl.float32), tl.zeros((D, C), tl.float32)
    products = tl.zeros((C, C), tl.float32)
    for start in range(begin, end, ROWS):
        at = start + tl.arange(0, ROWS)
        z = tl.load(rows.next_bits + at, mask=at < end, other=0)
        z = ((z[None, :] >> cs[:, None].to(tl.int64)) & 1).to(tl.float16)
        there = (ds < rows.width)[:, None] & (at < end)[None, :]
        x = tl.load(rows.cells + ds[:, None].to(tl.int64) * rows.n + at[None, :], mask=there, other=0.0)
        x = x * (1.0 / unit)[:, None]
        transposed = tl.trans(z)
        digit, x = _digits(x)
        a = tl.dot(digit, transposed, a)
        digit, x = _digits(x)
        b = tl.dot(digit, transposed, b)
        digit, x = _digits(x)
        c = tl.dot(digit, transposed, c)
        digit, x = _digits(x)
        d = tl.dot(digit, transposed, d)
        digit, x = _digits(x)
        e = tl.dot(digit, transposed, e)
        if tile == 0:
            products = tl.dot(z, transposed, products)
    total = e.to(tl.float64) / DIGIT + d.to(tl.float64)
    total = (total / DIGIT + c.to(tl.float64)) / DIGIT + b.to(tl.float64)
    total = (total / DIGIT + a.to(tl.float64)) * unit[:, None]  # mutant: device digits
    place = out + pid.to(tl.int64) * (rows.width * C + C * C)
    tl.store(place + ds[:, None] * C + cs[None, :], total, mask=(ds < rows.width)[:, None])
    if tile == 0:
        tl.store(place + rows.width * C + cs[:, None] * C + cs[None, :], products.to(tl.float64))


@serial_if_interpreted
def sums(rows: PackedRows, chunks: Chunks, units: Any, n_columns: int) -> Any:
    """[P, (D + C) C], with C = `padded(n_columns)`: by shard, sums of the data over the rows that use each column, and
    after them how many rows use each pair of columns.

    units: [P, D]; values are at most 1024 units.
    """
    wide = padded(n_columns)
    parts = torch.empty((len(chunks.bounds), (rows.width + wide) * wide), dtype=torch.float64, device=units.device)
    tile = min(TILE, padded(rows.width))
    grid = (len(chunks.bounds), triton.cdiv(rows.width, tile))
    if len(chunks.bounds):
        _add[grid](rows, chunks, units, parts, tile, wide, 128, num_warps=4)
    return gathered(parts, chunks)
