"""A short fit of every model, to be compared with itself on other engines. Ranks of MPI import it: no pytest here."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from unbounded import (
    BetaBernoulliFeatures,
    BetaNegativeBinomialFeatures,
    DirichletProcessMixture,
    GammaPoissonFeatures,
    HierarchicalDirichletProcess,
    PitmanYorMixture,
)

SETTINGS = {
    "n_shards": 5,
    "n_chains": 1,
    "n_warmup": 4,
    "n_draws": 8,
    "keep_assignments": True,
    "random_state": 3,
    "n_snapshots": 3,
}
GROUPS = np.repeat(np.arange(12), 10)


def holed(X, share=0.05):
    X = X.copy()
    X[np.random.default_rng(9).random(X.shape) < share] = np.nan
    return X


def clusters():
    rng = np.random.default_rng(0)
    return holed(np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0]])[rng.integers(0, 3, 120)] + rng.normal(size=(120, 2)))


def images():
    rng = np.random.default_rng(1)
    return holed(rng.integers(0, 2, (80, 3)) @ rng.normal(0.0, 2.0, (3, 4)) + rng.normal(0.0, 0.3, (80, 4)))


def documents():
    return sparse.csr_matrix(np.random.default_rng(2).poisson(0.4, (40, 12)))


def fit_mixture(**way):
    return DirichletProcessMixture(init="one", **SETTINGS | way).fit(clusters())


def fit_features(**way):
    hidden = np.random.default_rng(4).random((80, 4)) < 0.05
    return BetaBernoulliFeatures(init="one", **SETTINGS | way).fit(images(), holdout=hidden & ~np.isnan(images()))


def fit_words(**way):
    return HierarchicalDirichletProcess(init=4, **SETTINGS | way).fit(documents())


def fit_groups(**way):
    return HierarchicalDirichletProcess(form="franchise", init=4, **SETTINGS | way).fit(clusters(), GROUPS)


def fit_pitman_yor(**way):
    return PitmanYorMixture(likelihood="poisson", **SETTINGS | way).fit(documents().toarray()[:, :3].astype(float))


def fit_gamma_poisson(**way):
    return GammaPoissonFeatures(**SETTINGS | way).fit(images())


def fit_negative_binomial(**way):
    return BetaNegativeBinomialFeatures(**SETTINGS | way).fit(images())


FITS = {"mixture": fit_mixture, "features": fit_features, "words": fit_words, "groups": fit_groups}
ALL_FITS = FITS | {"pitman-yor": fit_pitman_yor, "gamma-poisson": fit_gamma_poisson, "bnb": fit_negative_binomial}


def everything(fitted):
    """All that a fit says, bit for bit."""
    snapshots = [{name: value.tobytes() for name, value in snap.items()} for snap in fitted._snapshots]
    return {name: value.to_numpy().tobytes() for name, value in fitted.posterior_.items()}, snapshots
