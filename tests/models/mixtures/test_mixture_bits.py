"""The chain is a function of (data, model, seed, P, L): engines and workers change nothing, not one bit."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from scipy import sparse

from unbounded import DirichletProcessMixture, Product
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import resolve
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.measure import DirichletProcess, PitmanYor
from unbounded.models.mixtures.model import RowRecipe
from unbounded.round import rounds
from unbounded.setup import Setup

N, P, ROUNDS = 150, 4, 16
rng = np.random.default_rng(11)
LABEL = rng.integers(0, 3, N)
PLANE = np.array([[0.0, 0.0], [5.0, 1.0], [1.0, 6.0]])[LABEL] + rng.normal(size=(N, 2))
BITS = (rng.random((N, 4)) < np.array([[0.9, 0.8, 0.2, 0.5], [0.1, 0.3, 0.9, 0.5], [0.5] * 4])[LABEL]).astype(float)
CODES = ((LABEL[:, None] + rng.integers(0, 2, (N, 1))) % 3).astype(float)
WORDS = sparse.csr_matrix(
    rng.multinomial(12, np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7], [0.25] * 4])[LABEL])
)
MIXED = np.column_stack([PLANE[:, 0], BITS[:, 0], PLANE[:, 1], CODES[:, 0]])


def holed(X):
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


CASES = {
    "gaussian": ("gaussian", PLANE),
    "gaussian-holes": ("gaussian", holed(PLANE)),
    "bernoulli": ("bernoulli", BITS),
    "product-holes": (Product(("gaussian", [0, 2]), ("categorical", [3]), ("bernoulli", [1])), holed(MIXED)),
    "csr": ("multinomial", WORDS.astype(float)),
}
RULES = {"ghosts": Ghosts(), "one_open": OneOpen(), "published-warm": AsPublished("warm")}
MEASURES = {"dp": DirichletProcess(), "py": PitmanYor()}
WAYS = [("serial", None), ("threads", 1), ("threads", 2), ("threads", 4)]


def chain(case, rule, measure, engine="serial", workers=None, seed=5):
    """Everything a chain says: scalars and labels of every round."""
    likelihood, X = CASES[case]
    bound = resolve(likelihood).bind(describe(X))
    model = HybridMixture(Setup(MEASURES[measure], bound, N, P, seed, n_rounds=ROUNDS, sweeps=2), rule=RULES[rule])
    where = build(engine, RowRecipe(X, bound, P), workers)
    try:
        state = model.begin(where, np.arange(N) % 5)
        states = islice(rounds(model, where, state), ROUNDS)
        return [(model.scalars(s), model.assignments(s, where).tobytes()) for s in states]
    finally:
        where.close()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", CASES)
def test_engines_and_workers_change_no_bit(case, rule, measure):
    first, *others = (chain(case, rule, measure, *way) for way in WAYS)
    assert len({labels for _, labels in first}) > 1, "the chain must move, or the test says nothing"
    for other in others:
        assert other == first


@pytest.mark.parametrize("case", CASES)
def test_seeds_change_the_chain(case):
    assert chain(case, "ghosts", "py", seed=5) != chain(case, "ghosts", "py", seed=6)


def fitted(**options):
    """From the default start, through the estimator."""
    settings = {"n_shards": P, "n_warmup": 3, "n_draws": 6, "n_chains": 2, "random_state": 1} | options
    model = DirichletProcessMixture(CASES["gaussian-holes"][0], **settings).fit(CASES["gaussian-holes"][1])
    return model.posterior_.to_dict(), model.labels_.tobytes(), model.predict_proba(PLANE).tobytes()


def test_a_whole_fit_changes_no_bit_either():
    first = fitted(engine="serial")
    assert all(fitted(engine="threads", n_workers=workers) == first for workers in (1, 2, 4))
    assert fitted(random_state=2) != first


SCRIPT = """
import hashlib
from unbounded import DirichletProcessMixture
from unbounded.datasets import gaussian_mixture
X = gaussian_mixture(600, 16, 4, seed=2).X
model = DirichletProcessMixture(n_shards=2, n_chains=1, n_warmup=0, n_draws=5, random_state=3, n_workers=1).fit(X)
trace = repr(model.posterior_.to_dict()["data_vars"]).encode()
print(hashlib.sha256(trace + model.labels_.tobytes() + model.predict_proba(X).tobytes()).hexdigest())
"""


def test_threads_of_the_linear_algebra_change_no_bit():
    """Sixteen columns go through matrix products; whatever BLAS is allowed to use, sums keep their order."""

    def digest(threads):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, str(threads))
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    one = digest(1)
    assert len(one) == 64
    assert digest(4) == one


def test_holes_are_imputed_only_where_a_likelihood_imputes():
    """In a mixed table, holes of the Gaussian columns become numbers; other holes stay, to be skipped."""
    likelihood, X = CASES["product-holes"]
    bound = likelihood.bind(describe(X))
    data = np.concatenate([RowRecipe(X, bound, P)(p).data for p in range(P)])
    gaussian, others = [0, 2], [1, 3]
    assert np.isnan(X[:, gaussian]).any()
    assert not np.isnan(data[:, gaussian]).any()
    assert np.isnan(X[:, others]).any()
    np.testing.assert_array_equal(data[:, others], X[:, others])
    seen = ~np.isnan(X)
    np.testing.assert_array_equal(data[seen], X[seen])
