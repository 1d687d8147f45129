"""Densities and entries of new rows against brute force: sums over all patterns, with and without holes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.models.features import predictive as predictive
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian, Scales
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.measures import BetaBernoulli, BetaNegativeBinomial, GammaPoisson
from unbounded.models.features.poisson_factors import Background, PoissonFactors
from unbounded.models.features.predictive import Cells, Draw
from unbounded.models.features.state import FeatureRecipe
from unbounded.setup import Setup

D, N_ROWS, COPIES, R = 3, 50, 4000, 0.7
rng = np.random.default_rng(1)
REAL = rng.normal(size=(20, D)) * 2
COUNTS = rng.poisson(3.0, size=(20, D)).astype(float)
LOADINGS = np.array([[1.0, -0.5, 0.3], [0.4, 1.2, -0.8]])
BASE = np.array([0.2, -0.1, 0.3])
THETA = np.abs(LOADINGS) * 2 + 0.1
NOTHING = np.nan
ROWS = {"linear_gaussian": np.array([[1.2, 0.4, -0.3]]), "poisson_factors": np.array([[3.0, 1.0, 0.0]])}
MEASURES = {"bernoulli": BetaBernoulli(), "poisson": GammaPoisson(), "negative": BetaNegativeBinomial(failures=R)}
WEIGHTS = {"bernoulli": np.array([0.3, -0.8]), "poisson": np.log([0.6, 0.2]), "negative": np.log([0.4, 0.2])}


def draw(measure, likelihood, **other):
    if likelihood == "linear_gaussian":
        bound, scales = LinearGaussian().bind(describe(REAL)), Scales(0.5, 1.5)
        loadings = np.vstack([LOADINGS, BASE - bound.centre])
    else:
        bound, loadings, scales = PoissonFactors().bind(describe(COUNTS)), THETA, Background(np.array([0.5, 0.2, 0.4]))
    parts = {"hyper": FeatureHyper(2.0, 1.0), "n_rows": N_ROWS, "seed": 0} | other
    return Draw(MEASURES[measure], bound, weights=WEIGHTS[measure], loadings=loadings, scales=scales, **parts)


def entry_probability(measure, weight, z):
    if measure == "bernoulli":
        return expit(weight) if z else 1 - expit(weight)
    law = stats.poisson(np.exp(weight)) if measure == "poisson" else stats.nbinom(R, 1 - np.exp(weight))
    return law.pmf(z)


def brute_force(known, measure, x, noise=None):
    """(p(x), posterior mean of the entries) by a sum over all patterns up to a large entry."""
    most, there = (1 if measure == "bernoulli" else 25), ~np.isnan(x)
    entries = np.arange(most + 1)
    one, two = ([entry_probability(measure, weight, z) for z in entries] for weight in known.weights)
    Z = np.array(list(product(entries, repeat=2)))
    if isinstance(known.scales, Scales):
        cells = stats.norm.pdf(x, Z @ known.loadings[:2] + BASE, np.sqrt(noise or known.scales.noise))
    else:
        cells = stats.poisson.pmf(np.nan_to_num(x), Z @ known.loadings + known.scales.background)
    p = np.outer(one, two).ravel() * cells[:, there].prod(1)
    return p.sum(), p @ Z / p.sum()


def with_holes(likelihood, holes):
    x = ROWS[likelihood].copy()
    x[0, holes] = NOTHING
    return x


every_case = pytest.mark.parametrize("measure", MEASURES)
every_likelihood = pytest.mark.parametrize("likelihood", ROWS)
every_hole = pytest.mark.parametrize("holes", [[], [1], [0, 1, 2]], ids=["whole", "hole", "nothing"])


@every_likelihood
@every_hole
def test_all_patterns_are_summed(likelihood, holes):
    known, x = draw("bernoulli", likelihood), with_holes(likelihood, holes)
    density, mean = brute_force(known, "bernoulli", x[0])
    assert known.summed
    np.testing.assert_allclose(np.exp(predictive._log_known(known, x, 0)), density, rtol=1e-10)
    entries = predictive.explain(known, x)
    np.testing.assert_allclose(entries.Z[0], mean, rtol=1e-10)
    expected = known.base + mean @ known.loadings[:2]
    np.testing.assert_allclose(entries.holes, expected[np.isnan(x[0])], rtol=1e-10)


@every_case
@every_likelihood
@every_hole
def test_annealed_answers_agree_with_brute_force(measure, likelihood, holes, monkeypatch):
    """Copies of a row are independent runs: densities are unbiased, entries close to their posterior mean."""
    monkeypatch.setattr(predictive, "MOST_SUMMED", -1)
    known, x = draw(measure, likelihood), with_holes(likelihood, holes)
    density, mean = brute_force(known, measure, x[0])
    copies = np.repeat(x, COPIES, axis=0)
    estimates = np.exp(predictive._log_known(known, copies, 0))
    assert abs(estimates.mean() - density) < 5 * estimates.std() / np.sqrt(COPIES) + 1e-9 * density
    assert estimates.std() < 0.5 * density
    entries = predictive.explain(known, copies).Z
    error = entries.std(0) / np.sqrt(COPIES)
    assert (np.abs(entries.mean(0) - mean) < 5 * error + 0.02 * mean).all()


def test_atoms_of_the_row_itself(monkeypatch):
    """Their number is Poisson and their loadings are integrated out: more variance, by a brute-force sum."""
    known = draw("bernoulli", "linear_gaussian", n_rows=1)
    rate = 2.0 * 1.0 / (1.0 + 1.0)
    assert known.new_law.rate == pytest.approx(rate)
    x = np.array([[3.0, -2.5, 1.0]])
    truth = sum(stats.poisson(rate).pmf(s) * brute_force(known, "bernoulli", x[0], 0.5 + 1.5 * s)[0] for s in range(30))
    seeds = [draw("bernoulli", "linear_gaussian", n_rows=1, seed=seed) for seed in range(400)]
    estimates = np.exp([predictive.log_density(one, x)[0] for one in seeds])
    assert abs(estimates.mean() - truth) < 5 * estimates.std() / np.sqrt(len(seeds))
    assert truth > 2 * brute_force(known, "bernoulli", x[0])[0]


@every_case
@every_likelihood
def test_new_rows_have_the_right_mean_and_entries(measure, likelihood):
    known = draw(measure, likelihood, n_rows=10**9)
    rows = predictive.simulate(known, 20_000, np.random.default_rng(3))
    most = 2 if measure == "bernoulli" else 60
    entries = [sum(z * entry_probability(measure, w, z) for z in range(most)) for w in known.weights]
    expected = known.base + np.array(entries) @ known.loadings[:2]
    assert (np.abs(rows.mean(0) - expected) < 5 * rows.std(0) / np.sqrt(len(rows))).all()


def test_new_rows_have_atoms_of_their_own():
    """With few training rows, a new row brings new atoms: their loadings add to the variance."""
    many, few = draw("bernoulli", "linear_gaussian", n_rows=10**9), draw("bernoulli", "linear_gaussian", n_rows=1)
    plain, fresh = (predictive.simulate(known, 20_000, np.random.default_rng(3)).var(0) for known in (many, few))
    np.testing.assert_allclose(fresh - plain, 1.0 * 1.5, rtol=0.15)


@pytest.mark.parametrize("likelihood", [LinearGaussian(intercept=True), PoissonFactors()], ids=lambda value: value.name)
def test_held_out_cells_by_hand(likelihood):
    """Shard by shard, the same as from the whole matrix of expectations."""
    X = REAL if likelihood.name == "linear_gaussian" else COUNTS
    bound = likelihood.bind(describe(X))
    model = HybridFeatures(Setup(BetaBernoulli(), bound, 20, 3, 4))
    engine = build("serial", FeatureRecipe(X, bound, 3, binary=True))
    state = model.begin(engine, (rng.random((20, 4)) < 0.5).astype(int))
    for _ in range(5):
        message = model.global_step(state)
        state = model.gather(state, message, engine.run(model.local_step, message))
    rows, columns = np.nonzero(rng.random(X.shape) < 0.4)
    score = predictive.held_out(model, state, engine, Cells(rows, columns, X[rows, columns]))
    chosen = model.statistics(state, np.concatenate([state.occupied, state.always]))
    generator = predictive.generator(model.seed, "holdout", state.round)
    loadings, scales = bound.draw(state.scales, chosen, generator)
    mean = bound.mean(model.assignments(state, engine), loadings, scales)
    np.testing.assert_allclose(score, bound.log_cells(X, mean, scales)[rows, columns].mean(), rtol=1e-10)
    engine.close()
