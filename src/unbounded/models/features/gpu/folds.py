"""Changes of whole 0/1 columns: they are copied from others, flipped, folded into others or unfolded from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.gpu.device import serial_if_interpreted
from unbounded.gpu.draws import key_at, uniform
from unbounded.models.features.gpu.bits import PackedRows, bit


class ColumnSources(NamedTuple):
    """Where the columns of the next Z come from."""

    size: Any  # C
    sources: Any  # [P, C] the old column; -1: zeros, ALWAYS (patterns.py): ones
    flipped: Any  # mask of those that are flipped


class Fold(NamedTuple):
    """A fold, or its reverse (column_moves.py)."""

    sizes: Any  # number of columns, which one is folded (-1: unfold), number of chosen and always-on columns, PATTERN
    chosen: Any  # columns that it is folded into or unfolded from
    coins: Any  # chance of an entry of the new column, for each way in which a row may use the chosen ones
    key: Any
    offsets: Any  # [P] number of a row less its position here


@triton.jit
def _copied(columns, old, p):
    z = old * 0
    size = tl.load(columns.size)
    for c in range(size):
        source = tl.load(columns.sources + p * size + c)
        entry = tl.where(source >= 0, bit(old, tl.maximum(source, 0)), (source == -2).to(tl.int64))
        z |= entry << tl.cast(c, tl.int64)
    return z


@triton.jit
def _arrange(rows, columns, ROWS: tl.constexpr):
    b = tl.program_id(0)
    p = tl.load(rows.blocks + 3 * b)
    at = tl.load(rows.blocks + 3 * b + 1) + tl.arange(0, ROWS)
    ok = at < tl.load(rows.blocks + 3 * b + 2)
    z = _copied(columns, tl.load(rows.bits + at, mask=ok, other=0), p)
    tl.store(rows.next_bits + at, z ^ tl.load(columns.flipped), mask=ok)


@triton.jit
def _coin(z, fold):
    """Which coin decides for each row."""
    n = tl.load(fold.sizes + 2)
    pattern, used = z * 0, z * 0
    for i in range(n):
        own = bit(z, tl.load(fold.chosen + i))
        pattern |= own << tl.cast(i, tl.int64)
        used += own
    return tl.where(n <= tl.load(fold.sizes + 4), pattern, (used > 0).to(tl.int64) + (used == n).to(tl.int64))


@triton.jit
def _fold(rows, columns, fold, codes, ROWS: tl.constexpr):
    b = tl.program_id(0)
    p = tl.load(rows.blocks + 3 * b)
    at = tl.load(rows.blocks + 3 * b + 1) + tl.arange(0, ROWS)
    ok = at < tl.load(rows.blocks + 3 * b + 2)
    z = _copied(columns, tl.load(rows.bits + at, mask=ok, other=0), p)
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
    tl.store(rows.next_bits + at, z, mask=ok)
    tl.store(codes + at, p * 32 + 2 * coin + moved, mask=ok)


@serial_if_interpreted
def arrange(rows: PackedRows, columns: ColumnSources, n_rows: int) -> None:
    """Copy and flip columns; n_rows: of a block."""
    if len(rows.blocks):
        _arrange[(len(rows.blocks),)](rows, columns, n_rows, num_warps=4)


@serial_if_interpreted
def fold(rows: PackedRows, columns: ColumnSources, how: Fold, n_shards: int, n_rows: int) -> Any:
    """[P, 16, 2]: for each shard and coin, how many rows do not use the column that is folded or unfolded, and how many
    do."""
    codes = torch.zeros(rows.n, dtype=torch.int64, device=rows.bits.device)
    if len(rows.blocks):
        _fold[(len(rows.blocks),)](rows, columns, how, codes, n_rows, num_warps=4)
    return torch.bincount(codes, minlength=32 * n_shards).view(n_shards, 16, 2)
