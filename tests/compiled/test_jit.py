"""What all compiled code shares."""

from __future__ import annotations

import math
import pickle
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from unbounded.compiled.contents import contents
from unbounded.compiled.draws import LOW_BITS, binomial, log_gamma, low_bits, poisson, stream, uniform
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


class _Pair(NamedTuple):
    table: Any
    row: Any


@jit
def _product(pair, i):
    row = pair.table[i]
    total = 0.0
    for j in range(row.size):
        total += row[j] * pair.row[j]
    return total


@jit
def _fresh(n):
    return np.ones(n)


@jit
def _products(table, row):
    pair = _Pair(table, row)
    out = _fresh(len(table))
    for i in range(len(table)):
        out[i] += _product(pair, i)
    return out, pair.table[0]


def test_references_are_counted_where_arrays_are_made_or_returned():
    """Functions that only look at arrays count no references; those around them must still get them right."""
    table, row = np.arange(12.0).reshape(3, 4), np.ones(4)
    before = sys.getrefcount(table), sys.getrefcount(row)
    for _ in range(50):
        out, first = _products(table, row)
    np.testing.assert_array_equal(out, table.sum(1) + 1)
    np.testing.assert_array_equal(first, table[0])
    assert (sys.getrefcount(table), sys.getrefcount(row)) == (before[0] + 1, before[1])  # `first` holds the table
    del first
    assert (sys.getrefcount(table), sys.getrefcount(row)) == before


@jit
def _refuse(x):
    if x < 0:
        raise ValueError("negative")
    return x


@jit
def _refuse_inside(x):
    return _refuse(x) + 1


def test_errors_of_parts_arrive():
    assert _refuse_inside(1) == 2
    with pytest.raises(ValueError, match="negative"):
        _refuse_inside(-1)


def test_a_compiled_function_pickles():
    assert pickle.loads(pickle.dumps(_refuse))(3) == 3


def test_unknown_constants_are_refused():
    """Better no code than code of which nobody can tell whether it is old."""
    unknown = object()

    def function():
        return unknown

    with pytest.raises(TypeError, match="no digest can tell"):
        contents(function, ())


@jit
def _gammas(shape, out):
    for i in range(out.size):
        out[i] = math.exp(log_gamma(shape, stream(KEY, i)))


@pytest.mark.parametrize("shape", [0.3, 1.0, 7.0])
def test_gamma_draws_have_the_law(shape):
    """A proposal that is always accepted is off by 2% in the distribution function: 20,000 draws see 1.2%."""
    draws = np.empty(20_000)
    _gammas(shape, draws)
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-4


@jit
def _binomials(n, p, out):
    for i in range(out.size):
        out[i] = binomial(n, p, stream(KEY, i))


@jit
def _poissons(mean, out):
    for i in range(out.size):
        out[i] = poisson(mean, stream(KEY, i))


def check_counts(draws, law):
    """Against the probabilities of intervals in which at least a hundredth of the draws are expected."""
    edges = np.unique(law.ppf(np.linspace(0.0, 1.0, 41)[1:-1]))
    edges = np.array([-np.inf, *edges[law.cdf(edges) < 0.99], np.inf])
    expected = np.diff(law.cdf(edges))
    seen = np.diff([np.sum(draws <= edge) for edge in edges])
    assert stats.chisquare(seen, expected / expected.sum() * len(draws)).pvalue > 1e-4, (seen, expected)


@pytest.mark.parametrize(("n", "p"), [(7, 0.3), (40, 0.5), (200, 0.9), (1000, 0.07)])
def test_binomial_draws_have_the_law(n, p):
    """Above 32, numbers are halved until they are small."""
    draws = np.empty(20_000, np.int64)
    _binomials(n, p, draws)
    check_counts(draws, stats.binom(n, p))


@pytest.mark.parametrize("mean", [0.7, 12.0, 20.0, 300.0])
def test_poisson_draws_have_the_law(mean):
    """Above 16, means are cut down."""
    draws = np.empty(20_000, np.int64)
    _poissons(mean, draws)
    check_counts(draws, stats.poisson(mean))
