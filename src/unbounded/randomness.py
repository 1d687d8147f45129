"""Every random number is a pure function of (seed, purpose, round, shard or row, ...).

There is no generator state to carry: a chain can be cut, moved and resumed anywhere. Python code asks for a fresh
`generator`; compiled code takes a 64-bit `key` and hashes it with the row number (compiled/draws.py).
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from unbounded.arrays import Array


def _digest(size: int, seed: int, purpose: str, words: tuple[int, ...]) -> bytes:
    packed = struct.pack(f"<{len(words) + 1}q", seed, *words)
    return hashlib.blake2b(packed, digest_size=size, key=purpose.encode()).digest()


@lru_cache(256)
def key(seed: int, purpose: str, *words: int) -> np.uint64:
    """A 64-bit key for counter-based streams of compiled code; cached, since all shards of a process ask for it."""
    return np.uint64(int.from_bytes(_digest(8, seed, purpose, words), "little"))


class _Key(ISeedSequence):
    """Gives Philox this key. With `key=`, NumPy would also ask the system for entropy, which takes twice the time."""

    def __init__(self, key: Any):
        self._key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return self._key


def generator(seed: int, purpose: str, *words: int) -> np.random.Generator:
    """A NumPy generator (Philox, counter at zero) that belongs to this purpose alone."""
    philox_key = np.frombuffer(_digest(16, seed, purpose, words), dtype=np.uint64)
    given: Any = _Key(philox_key)
    return np.random.Generator(np.random.Philox(given))


class RoundSeed(NamedTuple):
    """The randomness of one round, by purpose."""

    seed: int
    round: int

    def rng(self, purpose: str) -> np.random.Generator:
        return generator(self.seed, purpose, self.round)

    def key(self, purpose: str, *words: int) -> np.uint64:
        return key(self.seed, purpose, self.round, *words)


def uniforms(key: np.uint64, counters: Array) -> Array:
    """The uniform numbers in (0, 1) that belong to (key, counter): those of compiled code, to the bit."""
    word = key + counters.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    return ((word >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


def stream(key: np.uint64, counter: int) -> np.uint64:
    """The key that belongs to (key, counter): that of compiled code, to the bit."""
    word = (int(key) + counter * 0x9E3779B97F4A7C15 + 1) % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return np.uint64(word ^ (word >> 31))


def log_gamma_draws(shape: Any, rng: np.random.Generator) -> Any:
    """Logs of Gamma(shape, 1) draws; small shapes do not underflow: G(a) = G(a+1) U^(1/a)."""
    shape = np.asarray(shape, dtype=float)
    boost = np.log(rng.random(shape.shape)) / shape
    return np.log(rng.standard_gamma(shape + 1.0)) + boost
