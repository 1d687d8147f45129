"""Some 0/1 columns are replaced by new ones, drawn jointly for each row from the log odds of all patterns of entries.

Log odds are linear in a row's data and in its other entries. The probabilities of the new entries and of those that
they replace are known exactly; everything is in double precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from unbounded.gpu.device import serial_if_interpreted
from unbounded.gpu.draws import key_at, uniform
from unbounded.models.features.gpu.bits import PackedRows, bit

ALWAYS = -2  # the source of a column of ones


class Odds(NamedTuple):
    """Log odds of the patterns of K columns. The first column is the highest digit of a pattern's number."""

    slopes: Any  # [D, K] of the data
    pull: Any  # [C, K] of other columns
    patterns: Any  # [J, K]
    cost: Any  # [J]


class Replacement(NamedTuple):
    """Which columns are kept, and which are removed."""

    sizes: Any  # numbers of kept columns, always-on ones among them, removed and new columns, patterns of either
    stay: Any  # [P, kept] the old column, -1: zeros
    gone: Any  # [P, removed]
    key: Any  # of the new entries
    offsets: Any  # [P] number of a row less its position here


@triton.jit
def _linear(rows, at, ok, law, z, n_others, K: tl.constexpr, ROWS: tl.constexpr):
    """[K, rows]: the log odds of each column by itself."""
    ks = tl.arange(0, K)
    total = tl.zeros((K, ROWS), tl.float64)
    for d in range(rows.width):
        x = tl.load(rows.cells + tl.cast(d, tl.int64) * rows.n + at, mask=ok, other=0.0).to(tl.float64)
        total += tl.load(law.slopes + d * K + ks)[:, None] * x[None, :]
    for c in range(n_others):
        total -= tl.load(law.pull + c * K + ks)[:, None] * bit(z, c).to(tl.float64)[None, :]
    return total


@triton.jit
def _logit(law, linear, j, K: tl.constexpr):
    pattern = tl.load(law.patterns + j * K + tl.arange(0, K))
    return tl.load(law.cost + j) + tl.sum(pattern[:, None] * linear, 0)


@triton.jit
def _log_total(law, linear, n_patterns, K: tl.constexpr, ROWS: tl.constexpr):
    top = tl.full((ROWS,), -1.0e300, tl.float64)
    total = tl.zeros((ROWS,), tl.float64)
    for j in range(n_patterns):
        logit = _logit(law, linear, j, K)
        highest = tl.maximum(top, logit)
        total = total * tl.exp(top - highest) + tl.exp(logit - highest)
        top = highest
    return top + tl.log(total)


@triton.jit
def _before(change, p, old, law, linear, K: tl.constexpr, ROWS: tl.constexpr):
    """Log probability of the removed entries."""
    n_gone, n_patterns = tl.load(change.sizes + 2), tl.load(change.sizes + 4)
    now = old * 0
    for i in range(n_gone):
        source = tl.load(change.gone + p * n_gone + i)
        now = 2 * now + tl.where(source >= 0, bit(old, tl.maximum(source, 0)), 0)
    chosen = tl.zeros((ROWS,), tl.float64)
    for j in range(n_patterns):
        chosen = tl.where(now == j, _logit(law, linear, j, K), chosen)
    return chosen - _log_total(law, linear, n_patterns, K, ROWS)


@triton.jit
def _after(change, p, at, law, linear, K: tl.constexpr, ROWS: tl.constexpr):
    """(the drawn pattern, its log probability)."""
    n_patterns = tl.load(change.sizes + 5)
    log_total = _log_total(law, linear, n_patterns, K, ROWS)
    u = uniform(key_at(change.key, 0), at + tl.load(change.offsets + p))
    below = tl.zeros((ROWS,), tl.float64)
    log_drawn = tl.zeros((ROWS,), tl.float64)
    drawn = tl.full((ROWS,), -1, tl.int64)
    for j in range(n_patterns):
        log_chance = _logit(law, linear, j, K) - log_total
        below += tl.exp(log_chance)
        takes = (drawn < 0) & ((below >= u) | (j == n_patterns - 1))  # mutant: device pattern
        log_drawn = tl.where(takes, log_chance, log_drawn)
        drawn = tl.where(takes, tl.cast(j, tl.int64), drawn)
    return drawn, log_drawn


@triton.jit
def _draw(rows, change, old_law, new_law, out, OLD: tl.constexpr, NEW: tl.constexpr, ROWS: tl.constexpr):
    b = tl.program_id(0)
    p = tl.load(rows.blocks + 3 * b)
    at = tl.load(rows.blocks + 3 * b + 1) + tl.arange(0, ROWS)
    ok = at < tl.load(rows.blocks + 3 * b + 2)
    n_stay, n_always, n_new = tl.load(change.sizes), tl.load(change.sizes + 1), tl.load(change.sizes + 3)
    one = tl.full((1,), 1, tl.int64)
    old = tl.load(rows.bits + at, mask=ok, other=0)
    z = old * 0
    for c in range(n_stay):
        source = tl.load(change.stay + p * n_stay + c)
        entry = tl.where(source >= 0, bit(old, tl.maximum(source, 0)), (source == -2).to(tl.int64))
        z |= entry << tl.cast(c, tl.int64)
    linear = _linear(rows, at, ok, old_law, z, n_stay, OLD, ROWS)
    log_old = _before(change, p, old, old_law, linear, OLD, ROWS)
    drawn, log_new = _after(change, p, at, new_law, _linear(rows, at, ok, new_law, z, n_stay, NEW, ROWS), NEW, ROWS)
    free = n_stay - n_always
    new = (z & ((one << free) - 1)) | (((one << n_always) - 1) << (free + n_new))
    for i in range(n_new):
        new |= ((drawn >> (n_new - 1 - i)) & 1) << (free + i)
    tl.store(rows.next_bits + at, new, mask=ok)
    tl.store(out + 2 * b, tl.sum(tl.where(ok, log_old, 0.0), 0))
    tl.store(out + 2 * b + 1, tl.sum(tl.where(ok, log_new, 0.0), 0))


@serial_if_interpreted
def draw(rows: PackedRows, change: Replacement, old: Odds, new: Odds, n_rows: int) -> Any:
    """[blocks, 2]: log probabilities of the removed and of the new entries, summed over rows; n_rows: of a block.

    The columns of the next Z are those that are kept, then new ones, then always-on ones.
    """
    out = torch.empty((len(rows.blocks), 2), dtype=torch.float64, device=rows.bits.device)
    if len(rows.blocks):
        _draw[(len(rows.blocks),)](
            rows, change, old, new, out, old.slopes.shape[1], new.slopes.shape[1], n_rows, num_warps=4
        )
    return out
