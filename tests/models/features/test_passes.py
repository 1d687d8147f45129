"""Compiled passes over rows say what NumPy says."""

import numpy as np
import pytest

from unbounded.columns import describe
from unbounded.models.features import column_moves, passes
from unbounded.models.features.column_moves import Launches, Odds
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli, GammaPoisson
from unbounded.setup import Setup

ROWS, COLUMNS, SIZE = passes.CHUNK + 400, 5, 4


def odds(k: int, base: int, stay: int, rng: np.random.Generator) -> Odds:
    patterns = np.indices((base,) * k).reshape(k, base**k).T.astype(float)
    slopes, pull = rng.normal(size=(k, COLUMNS)), 0.3 * rng.normal(size=(stay, k))
    return Odds(slopes, pull, patterns, rng.normal(size=base**k))


@pytest.mark.parametrize("measure", [BetaBernoulli(), GammaPoisson()], ids=["bits", "counts"])
@pytest.mark.parametrize("gone", [(), (2,), (3, 0)], ids=len)
@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_pass_of_a_jump(measure, gone, k, monkeypatch):
    monkeypatch.setattr(column_moves, "MORE", np.log(0.3))
    monkeypatch.setattr(column_moves, "LARGEST", (0, 2, 2))
    rng = np.random.default_rng(8)
    X = rng.normal(size=(2 * ROWS, COLUMNS)) + 3.0
    likelihood = LinearGaussian().bind(describe(X))
    model = HybridFeatures(Setup(measure, likelihood, 2 * ROWS, 2, 0))
    shard = model.recipe(X)(1)  # whose first row is not the first of all
    shard.Z = rng.integers(0, 2 if measure.binary else 5, (SIZE + 1, ROWS)).astype(shard.Z.dtype)
    sources = np.array([1, -1, 0, 3])  # two columns in another order, one that is nowhere, and one that is not used
    stay, base = SIZE - len(gone) + likelihood.fixed, 2 if measure.binary else column_moves.LARGEST[len(gone)] + 1
    new_base = 2 if measure.binary else column_moves.LARGEST[k] + 1
    pair = odds(len(gone), base, stay, rng), odds(k, new_base, stay, rng)
    launches = Launches(np.array(gone, np.int64), *pair, np.uint64(5))
    found = []
    for few in (0, ROWS * COLUMNS):
        monkeypatch.setattr(passes, "FEW_CELLS", few)
        found.append(column_moves.drawn_columns(model.setup, shard, launches, sources))
    compiled, plain = found
    np.testing.assert_array_equal(compiled.drawn, plain.drawn)
    for name in ("log_q", "products", "cross", "sums"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-12, atol=1e-9)


def test_entries_beyond_those_of_the_patterns():
    """The largest entry of a pattern stands for all from there on, with the chances of a geometric law."""
    rng = np.random.default_rng(9)
    data, Z, more = rng.normal(size=(3_000, COLUMNS)), np.zeros((1, 3_000), np.int32), np.log(0.3)
    columns = passes.PassRows(data, np.zeros(COLUMNS), Z, np.empty(0, np.int64), np.array([0]), 0)
    old, new = (passes.packed_odds(odds(1, 3, 0, rng)) for _ in range(2))
    log_q = []
    for entry in (2, 3, 6):
        Z[0, 7] = entry
        found = passes.draw_columns(columns, old, new, np.uint64(1), passes.EntryLimits(3, 3, more))
        log_q.append(found.log_q[0])
    assert np.diff(log_q) == pytest.approx([more, 3.0 * more])
    counts = np.bincount(found.drawn[0], minlength=8)
    above = counts[2:].sum()
    assert above > 200
    assert abs(counts[3:].sum() / above - 0.3) < 5.0 * np.sqrt(0.21 / above)
    assert abs(counts[4:].sum() / above - 0.09) < 5.0 * np.sqrt(0.09 / above)


def test_statistics():
    rng = np.random.default_rng(10)
    Z, data = rng.integers(0, 3, (4, 5_000)).astype(np.int32), rng.normal(size=(5_000, COLUMNS))
    centre = np.arange(COLUMNS) - 2.0
    products, sums = passes.statistics(Z, data, centre)
    np.testing.assert_array_equal(products, Z @ Z.T)
    np.testing.assert_allclose(sums, Z @ (data - centre), rtol=1e-12, atol=1e-9)
    for compiled, plain in zip((products, sums), passes.few_statistics(Z, data, centre), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-9)
