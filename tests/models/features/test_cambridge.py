"""The paper's main data, superposed 6 x 6 images: chains find the four true features, whatever the number of shards."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from unbounded import AsPublished, Ghosts
from unbounded.columns import describe
from unbounded.datasets import cambridge, cambridge_features
from unbounded.engines import build
from unbounded.models.features import start as feature_start
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli
from unbounded.models.features.state import FeatureRecipe
from unbounded.round import rounds
from unbounded.setup import Setup

FOLDER = Path(os.environ.get("UNBOUNDED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
WARM = AsPublished("warm")
WAYS = [(Ghosts(), 1), (Ghosts(), 8), (Ghosts(), 64), (WARM, 8)]


def check(X, init, rule, n_shards, noise, n_rounds, seed=0, turned=False):
    """After a third of the chain it has the true features and no other that matters; loadings and noise are right.

    turned: where the background is not even, a feature and its negative (used where it is not) say the same. So they do
    beside a feature that nearly all rows have, which the paper's rules, without moves of whole columns, do not lose.
    """
    likelihood = LinearGaussian().bind(describe(X))
    engine = build("serial", FeatureRecipe(X, likelihood, n_shards, binary=True))
    model = HybridFeatures(
        Setup(BetaBernoulli(), likelihood, len(X), n_shards, seed, n_rounds=n_rounds, sweeps=5), rule=rule
    )
    begun = feature_start.begin(model, engine, X, init)
    truth = cambridge_features()
    loadings, deviations = [], []
    for state in islice(rounds(model, engine, begun), n_rounds // 3, n_rounds):
        everything = model.statistics(state, np.concatenate([state.occupied, state.always]))
        A = likelihood.expected(state.scales, everything)[: len(state.occupied)]
        share = everything.members[: len(A)] / len(X)
        large = np.flatnonzero((share > 0.03) & (rule.exact | (share < 0.97)))
        assert len(large) == 4, everything.members
        similar = np.abs(A[large] @ truth.T) if turned else A[large] @ truth.T
        assert len(set(similar.argmax(0))) == 4
        chosen = A[large][similar.argmax(0)]
        loadings.append(chosen * np.sign(np.sum(chosen * truth, axis=1, keepdims=True)))
        deviations.append(np.sqrt(state.scales.noise))
    engine.close()
    for found, true in zip(np.mean(loadings, axis=0), truth, strict=True):
        correlation = np.corrcoef(found, true)[0, 1]
        assert correlation > 0.99
    assert np.mean(deviations) == pytest.approx(noise, rel=0.02)


@pytest.mark.parametrize(("rule", "n_shards"), WAYS, ids=str)
def test_ten_thousand_rows_from_the_default_start(rule, n_shards):
    check(cambridge(10_000, noise=0.5, seed=0).X, "grown", rule, n_shards, 0.5, n_rounds=60)


@pytest.mark.parametrize(("rule", "n_shards"), WAYS, ids=str)
def test_a_thousand_rows_from_one_feature(rule, n_shards):
    """As in the paper. The noise of 1,000 x 36 numbers is known to 0.4%, so 2% is five standard errors."""
    check(cambridge(1_000, noise=0.5, seed=0).X, "one", rule, n_shards, 0.5, n_rounds=300, turned=not rule.exact)


def test_centred_data_have_an_intercept():
    X = cambridge(10_000, noise=0.5, seed=1).X
    X -= X.mean(axis=0)
    check(X, "grown", Ghosts(), 8, 0.5, n_rounds=60, turned=True)


@pytest.mark.data
@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no evaluation data (set UNBOUNDED_DATA; looked for {FOLDER.name})")
@pytest.mark.parametrize(("rule", "n_shards"), WAYS, ids=str)
def test_the_authors_file(rule, n_shards):
    X = np.load(FOLDER / "cambridge" / "cambridge_10k.npy")
    check(X, "grown", rule, n_shards, 0.25, n_rounds=60)
