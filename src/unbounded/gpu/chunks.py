"""Sums over sets of rows in a fixed order: a program adds up a chunk of rows, and chunks are added one after another.

No sum depends on which program was faster. A structure of sets has `n_sets` and `chunks` [n_sets + 1], where the chunks
of each set begin.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _gather(parts, sets, out, width, WIDTH: tl.constexpr):
    """Add the chunks of a set, several at a time."""
    SOME: tl.constexpr = 16
    m = tl.program_id(0)
    js = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float64)
    end = tl.load(sets.chunks + m + 1)
    for first in range(tl.load(sets.chunks + m), end, SOME):
        cs = first + tl.arange(0, SOME)
        there = (cs < end)[:, None] & (js < width)[None, :]
        total += tl.sum(tl.load(parts + cs[:, None] * width + js[None, :], mask=there, other=0.0), 0)
    tl.store(out + m.to(tl.int64) * width + js, total, mask=js < width)


def gathered(parts: Any, sets: Any) -> Any:
    """[M, F]: sums over the chunks of every set; parts: [chunks, F] those of each chunk."""
    out = torch.empty((sets.n_sets, parts.shape[1]), dtype=torch.float64, device=parts.device)
    if sets.n_sets:
        wide = min(64, triton.next_power_of_2(parts.shape[1]))
        _gather[(sets.n_sets, triton.cdiv(parts.shape[1], wide))](parts, sets, out, parts.shape[1], wide)
    return out
