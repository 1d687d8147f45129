"""Counter-based random numbers on the device: those of `compiled/draws.py`, to the bit."""

from __future__ import annotations

import triton
import triton.language as tl

GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)


@triton.jit
def mix(word):
    """The 64-bit finaliser of SplitMix64."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return word ^ (word >> 31)


@triton.jit
def key_at(keys, i):
    """The i-th key of an array of signed integers with the same bits."""
    return tl.load(keys + i).to(tl.uint64, bitcast=True)


@triton.jit
def uniform(key, counter):
    """The uniform number in (0, 1) that belongs to (key, counter)."""
    word = mix(key + counter.to(tl.uint64) * GOLDEN)
    return ((word >> 12).to(tl.float64) + 0.5) * (1.0 / 4503599627370496.0)


@triton.jit
def stream(key, counter):
    """The key of a stream of its own for (key, counter)."""
    return mix(key + tl.cast(counter, tl.uint64) * GOLDEN + 1)
