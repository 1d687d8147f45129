"""Whole 0/1 columns changed at once: taken from elsewhere, flipped, folded into others or unfolded from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.gpu.device import serial_if_interpreted
from unbounded.gpu.draws import key_at, uniform
from unbounded.models.features.gpu.bits import PoolRows, bit


class Taken(NamedTuple):
    """The old place of every column, by shard [P, C]; -1 where there is none, ALWAYS (patterns.py) where all have it.

    sizes: how many; flipped: the bits of those that change.
    """

    sizes: Any
    sources: Any
    flipped: Any


class Fold(NamedTuple):
    """sizes: the columns, the one that is folded (-1: one is unfolded), those that it is folded into, always-on ones,
    and up to how many of them have a coin for each pattern.

    coins: chance of a new column by how a row has those that it is unfolded from; offsets: what makes places numbers.
    """

    sizes: Any
    chosen: Any
    coins: Any
    key: Any
    offsets: Any


@triton.jit
def _take(rows, taken, old, p):
    z = old * 0
    size = tl.load(taken.sizes)
    for c in range(size):
        source = tl.load(taken.sources + p * size + c)
        entry = tl.where(source >= 0, bit(old, tl.maximum(source, 0)), (source == -2).to(tl.int64))
        z |= entry << tl.cast(c, tl.int64)
    return z


@triton.jit
def _arrange(rows, taken, ROWS: tl.constexpr):
    b = tl.program_id(0)
    p = tl.load(rows.blocks + 3 * b)
    at = tl.load(rows.blocks + 3 * b + 1) + tl.arange(0, ROWS)
    ok = at < tl.load(rows.blocks + 3 * b + 2)
    z = _take(rows, taken, tl.load(rows.bits + at, mask=ok, other=0), p)
    tl.store(rows.moved + at, z ^ tl.load(taken.flipped), mask=ok)


@triton.jit
def _coin(z, fold):
    """The number of the coin that decides for a row."""
    n = tl.load(fold.sizes + 2)
    pattern, used = z * 0, z * 0
    for i in range(n):
        own = bit(z, tl.load(fold.chosen + i))
        pattern |= own << tl.cast(i, tl.int64)
        used += own
    return tl.where(n <= tl.load(fold.sizes + 4), pattern, (used > 0).to(tl.int64) + (used == n).to(tl.int64))


@triton.jit
def _fold(rows, taken, fold, codes, ROWS: tl.constexpr):
    b = tl.program_id(0)
    p = tl.load(rows.blocks + 3 * b)
    at = tl.load(rows.blocks + 3 * b + 1) + tl.arange(0, ROWS)
    ok = at < tl.load(rows.blocks + 3 * b + 2)
    z = _take(rows, taken, tl.load(rows.bits + at, mask=ok, other=0), p)
    size, folded, always = tl.load(fold.sizes), tl.load(fold.sizes + 1), tl.load(fold.sizes + 3)
    one = tl.full((1,), 1, tl.int64)
    coin = _coin(z, fold)
    chance = tl.load(fold.coins + coin)
    drawn = uniform(key_at(fold.key, 0), at + tl.load(fold.offsets + p)) < chance
    place = tl.maximum(folded, 0)
    moved = tl.where(folded >= 0, bit(z, place), drawn.to(tl.int64))
    for i in range(tl.load(fold.sizes + 2)):
        z ^= moved << tl.load(fold.chosen + i)
    coin = tl.where(folded >= 0, _coin(z, fold), coin)  # mutant: device coins
    without = (z & ((one << place) - 1)) | ((z >> (place + 1)) << place)
    z = tl.where(folded >= 0, without, z | (moved << size))
    size = tl.where(folded >= 0, size - 1, size + 1)
    z |= ((one << always) - 1) << size
    tl.store(rows.moved + at, z, mask=ok)
    tl.store(codes + at, p * 32 + 2 * coin + moved, mask=ok)


@serial_if_interpreted
def arrange(rows: PoolRows, taken: Taken, n_rows: int) -> None:
    """Put the columns of all rows into their new places; n_rows: of a block."""
    if len(rows.blocks):
        _arrange[(len(rows.blocks),)](rows, taken, n_rows, num_warps=4)


@serial_if_interpreted
def fold(rows: PoolRows, taken: Taken, how: Fold, n_shards: int, n_rows: int) -> Any:
    """[P, 16, 2]: by shard and coin, how many rows lack and how many have the column that is folded or unfolded."""
    codes = torch.zeros(rows.n, dtype=torch.int64, device=rows.bits.device)
    if len(rows.blocks):
        _fold[(len(rows.blocks),)](rows, taken, how, codes, n_rows, num_warps=4)
    return torch.bincount(codes, minlength=32 * n_shards).view(n_shards, 16, 2)
