"""What all compiled code shares."""

from __future__ import annotations

import math
import pickle

import numpy as np

from unbounded.compiled.draws import LOW_BITS, low_bits, uniform
from unbounded.compiled.jit import jit
from unbounded.compiled.lanes import lane_sin

KEY = np.uint64(7)


@jit
def _sines(turns, out):
    for i in range(turns.size):
        out[i] = lane_sin(turns[i])


@jit
def _bits(n):
    high, low = np.empty(n), np.empty(n)
    for i in range(n):
        high[i], low[i] = uniform(KEY, i), low_bits(KEY, i)
    return high, low


def test_sines():
    turns = np.linspace(-0.5, 0.5, 10_001)
    out = np.empty_like(turns)
    _sines(turns, out)
    np.testing.assert_allclose(out, np.sin(2.0 * math.pi * turns), atol=1e-13)


def test_low_bits_are_uniform_and_independent_of_the_high_ones():
    high, low = _bits(200_000)
    assert low.min() == 0
    assert low.max() == LOW_BITS - 1
    assert abs(low.mean() - (LOW_BITS - 1) / 2) < 5 * LOW_BITS / math.sqrt(12 * len(low))
    assert abs(np.corrcoef(high, low)[0, 1]) < 5 / math.sqrt(len(low))


def test_a_cache_that_names_what_is_no_more_is_stale(monkeypatch):
    """After an upgrade, old indices of the cache may name classes that are gone."""
    file = _sines._cache._cache_file

    def gone(data):
        raise AttributeError("Can't get attribute 'Gone'")

    monkeypatch.setattr(pickle, "loads", gone)
    assert file._load_index() == {}
