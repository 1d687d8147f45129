"""What every likelihood of features must satisfy, found by discovery."""

from __future__ import annotations

import numpy as np
import pytest
from feature_examples import LIKELIHOOD_EXAMPLES, Z

from unbounded.engines.local import Serial
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.likelihoods import LIKELIHOODS
from unbounded.models.features.measures import BetaBernoulli
from unbounded.randomness import key
from unbounded.setup import Setup


@pytest.fixture(params=LIKELIHOOD_EXAMPLES)
def example(request):
    return LIKELIHOOD_EXAMPLES[request.param]


def test_every_likelihood_has_an_example():
    assert {member.name for member in LIKELIHOODS} == {name.partition("-")[0] for name in LIKELIHOOD_EXAMPLES}


def within(seen, expected, errors=5.0):
    """Means of independent draws, within standard errors."""
    assert (np.abs(seen.mean(0) - expected) <= errors * seen.std(0) / np.sqrt(len(seen)) + 1e-9).all()


def test_statistics_add_up_over_shards(example):
    """One shard or three: the same table, by way of the kernel."""
    tables = []
    for n_shards in (1, 3):
        model = HybridFeatures(Setup(BetaBernoulli(), example.bound, len(Z), n_shards, 7))
        engine = Serial(model.recipe(example.X))
        tables.append(model.begin(engine, Z, scales=example.scales).table)
    for name in ("members", "products", "sums", "rest", "square"):
        np.testing.assert_allclose(getattr(tables[0], name), getattr(tables[1], name), rtol=1e-12, atol=1e-12)
    whole = example.statistics(example.bound, example.X, Z)
    np.testing.assert_allclose(tables[0].members, whole.members)
    if example.bound.gram:
        np.testing.assert_allclose(tables[0].products, whole.products, atol=1e-12)
        np.testing.assert_allclose(tables[0].sums, whole.sums, atol=1e-9)
        assert tables[0].square == pytest.approx(whole.square)
    else:
        np.testing.assert_allclose(tables[0].sums.sum(0) + tables[0].rest, whole.sums.sum(0) + whole.rest)


def test_draws_average_to_the_expected_loadings(example):
    bound, rng = example.bound, np.random.default_rng(1)
    statistics = example.statistics(bound, example.X, Z)
    draws = np.array([bound.draw(example.scales, statistics, rng)[0] for _ in range(3_000)])
    within(draws, bound.expected(example.scales, statistics))


def prior_draw(example, size, rng):
    """Loadings of `size` atoms and of the always-on ones, which are counted from the centre."""
    loadings = example.bound.draw_prior(example.scales, size, rng)
    always = rng.normal(*example.always, (example.bound.fixed, loadings.shape[1])) - example.bound.centre
    return np.concatenate([loadings, always])


def test_log_joint_is_an_average_over_prior_draws(example):
    """Two rows and one atom, so that the average converges."""
    bound, rng = example.bound, np.random.default_rng(2)
    statistics = example.statistics(bound, example.X[:2], Z[:2, :1])
    draws = (prior_draw(example, 1, rng) for _ in range(40_000))
    logs = np.array([example.log_given(bound, statistics, A, example.scales) for A in draws])
    ratios = np.exp(logs - bound.log_joint(example.scales, statistics) + example.log_scales(bound))
    within(ratios[:, None], 1.0)
    assert ratios.std() / np.sqrt(len(ratios)) < 0.1


def test_posterior_draws_average_to_the_predictive(example):
    """E[f(x | A)] given four rows is the ratio of two joint densities: a test of the whole law of draws."""
    bound, rng = example.bound, np.random.default_rng(3)
    known, new, both = (
        example.statistics(bound, example.X[rows], Z[rows]) for rows in (slice(0, 4), slice(4, 5), slice(0, 5))
    )
    draws = (bound.draw(example.scales, known, rng)[0] for _ in range(8_000))
    logs = np.array([example.log_given(bound, new, A, example.scales) for A in draws])
    exact = bound.log_joint(example.scales, both) - bound.log_joint(example.scales, known)
    within(np.exp(logs - exact)[:, None], 1.0)


def test_simulated_rows_have_the_mean_and_variance_of_their_cells(example):
    bound, rng = example.bound, np.random.default_rng(4)
    rows = np.repeat(Z[:1], 20_000, axis=0)
    X = bound.simulate(rows, example.scales, rng, example.loadings)
    mean = bound.mean(Z[:1], example.loadings, example.scales)
    within(X, mean[0])
    within((X - mean) ** 2, example.variance(mean, example.scales)[0])
    fresh = bound.simulate(Z, example.scales, rng)
    assert fresh.shape == example.X.shape
    bound.check(fresh)


def test_gains_are_differences_of_log_densities(example):
    bound, base = example.bound, example.bound.mean(np.zeros((1, 2)), example.loadings, example.scales)[0]
    added = Z @ example.loadings[:2]
    origin, slope, cost = bound.gains(example.scales, base, added)
    cells = bound.log_cells(example.X, base + added, example.scales) - bound.log_cells(
        example.X, np.broadcast_to(base, example.X.shape), example.scales
    )
    np.testing.assert_allclose((example.X - origin) * slope - cost, cells, rtol=1e-9, atol=1e-9)


def test_tempered_likelihoods_are_powers(example):
    """Up to what does not depend on Z."""
    bound, power = example.bound, 0.3
    scales, loadings, factor = bound.tempered(example.scales, example.loadings, power)
    plain, hot = [], []
    for entries in (Z, np.zeros_like(Z)):
        mean = bound.mean(entries, example.loadings, example.scales)
        plain.append(bound.log_cells(example.X, mean, example.scales))
        hot.append(bound.log_cells(factor * example.X, bound.mean(entries, loadings, scales), scales))
    np.testing.assert_allclose(hot[0] - hot[1], power * (plain[0] - plain[1]), rtol=1e-8, atol=1e-8)


def test_atoms_of_a_row_alone_have_prior_loadings(example):
    """Integrated out or drawn: the same density of the row, on average."""
    bound, rng, entries = example.bound, np.random.default_rng(5), np.array([1.0, 2.0])
    x, base = example.X[:1], example.bound.mean(np.zeros((1, 2)), example.loadings, example.scales)
    none = np.zeros((1, 2))
    seen, expected = [], []
    for _ in range(6_000):
        scales = bound.with_new(example.scales, entries, rng)
        mean = bound.mean(none, example.loadings, scales)
        seen.append(np.exp(bound.log_cells(x, mean, scales).sum()))
        explained = entries @ bound.draw_prior(example.scales, 2, rng)
        expected.append(np.exp(bound.log_cells(x, base + explained, example.scales).sum()))
    error = np.hypot(np.std(seen), np.std(expected)) / np.sqrt(len(seen))
    assert abs(np.mean(seen) - np.mean(expected)) < 5 * error


def test_holes_are_drawn_from_their_law(example):
    bound, n = example.bound, 8_000
    data = np.repeat(example.X[:1], n, axis=0)
    holes = np.column_stack([np.arange(n), np.full(n, 1)])
    entries = np.concatenate([np.repeat(Z[:1].T, n, axis=1), np.ones((bound.fixed, n), int)]).astype(np.uint8)
    bound.impute(data, holes, entries, example.loadings, example.scales, key(0, "test"), 5)
    mean = bound.mean(Z[:1], example.loadings, example.scales)
    within(data[:, [1]], mean[0, 1])
    within((data[:, [1]] - mean[0, 1]) ** 2, example.variance(mean, example.scales)[0, 1])
    assert (data[:, [0, 2]] == example.X[0, [0, 2]]).all()


def test_scales_go_to_disk_and_back(example):
    bound = example.bound
    for scales in (bound.start(), bound.draw_scales(np.random.default_rng(0)), example.scales):
        again = bound.unpack(bound.pack(scales))
        np.testing.assert_array_equal(bound.pack(again), bound.pack(scales))
        assert all(np.isfinite(value) for value in bound.scalars(again).values())
