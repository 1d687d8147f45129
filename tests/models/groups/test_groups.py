"""The scikit-learn face of the hierarchical Dirichlet process: topics that are found, proper scores, bad input."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, special
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from unbounded import Gamma, HierarchicalDirichletProcess, OneOpen, RunError, Tokens, datasets
from unbounded.models.groups.predictive import Gibbs, Newcomers, completion, gibbs
from unbounded.models.groups.reading import halves
from unbounded.randomness import key

QUICK = {"n_chains": 1, "n_warmup": 5, "n_draws": 8, "random_state": 0}


@pytest.fixture(scope="module")
def corpus():
    return datasets.topics(1_300, 60, 500, 8, 0.05, seed=3)


@pytest.fixture(scope="module")
def fitted(corpus):
    model = HierarchicalDirichletProcess(n_chains=1, n_warmup=30, n_draws=40, random_state=1)
    return model.fit(corpus.X[:1_200], holdout=corpus.X[1_200:])


# ---- scikit-learn's conventions

# Of all checks of scikit-learn for all estimators these are expected to fail (docs/api.md, "scikit-learn").
NOT_FOR_GROUPS = {
    "check_fit_score_takes_y": "asks that the second argument of fit and score be called y: here it is the groups of "
    "the rows, which are part of the data and not a target",
    "check_n_features_in_after_fitting": "calls score(X, y) with targets: score takes groups, and rows that are groups "
    "of one have no second half to be scored",
    "check_methods_sample_order_invariance": "transforms the rows in another order: the shares of a new group are "
    "sampled, with random numbers that belong to its place",
    "check_methods_subset_invariance": "transforms the rows in batches, where they have other places",
}
NOT_FOR_DOCUMENTS = {
    "check_estimator_sparse_tag": "fits sparse rows of real numbers: sparse rows are counts, which are whole numbers",
}
OF_ROWS = HierarchicalDirichletProcess("gaussian", n_chains=1, n_warmup=2, n_draws=3, n_shards=2, random_state=0)


@parametrize_with_checks(
    [OF_ROWS, clone(OF_ROWS).set_params(likelihood=None)],
    expected_failed_checks=lambda model: NOT_FOR_GROUPS | (NOT_FOR_DOCUMENTS if model.likelihood is None else {}),
    xfail_strict=True,
)
def test_conventions_of_sklearn(estimator, check):
    check(estimator)


def test_checks_that_fail_are_argued_in_the_guide():
    guide = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    of_both, _, of_documents = (
        guide.partition("| HDP |")[2].partition("| `GammaPoissonFeatures` |")[0].partition("| HDP")
    )
    assert set(re.findall(r"`(check_\w+)`", of_both)) == set(NOT_FOR_GROUPS)
    assert set(re.findall(r"`(check_\w+)`", of_documents)) == set(NOT_FOR_DOCUMENTS)


def test_it_clones_and_pickles(fitted, corpus):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(corpus.X[1_200:1_210]), fitted.transform(corpus.X[1_200:1_210]))
    assert clone(fitted).get_params() == fitted.get_params()


# ---- topics that are found


def test_topics_of_documents_are_found(fitted, corpus):
    true, found = corpus.topics, fitted.components_
    likeness = np.corrcoef(true, found)[: len(true), len(true) :]
    rows, columns = linear_sum_assignment(-likeness)
    assert (likeness[rows, columns] > 0.95).all()
    assert (fitted.topic_shares_ > 0.01).sum() == (np.bincount(corpus.labels) > 0.01 * len(corpus.labels)).sum()
    assert np.allclose(found.sum(1), 1.0)
    assert np.allclose(fitted.proportions_.sum(1), 1.0)
    assert abs(float(fitted.posterior_["gamma"].mean()) - 1.0) < 0.15
    assert abs(float(fitted.posterior_["eta"].mean()) - 0.05) < 0.01


def test_perplexity_is_close_to_that_of_the_true_topics(fitted, corpus):
    new = corpus.X[1_200:]
    seen, rest = halves(fitted._read(new, None, reset=False))
    table = np.ascontiguousarray(corpus.topics.T)
    masses, how = corpus.weights * corpus.concentration, Gibbs(60, 40, key(0, "truth"))
    _, shares = gibbs(Newcomers(table, *seen), masses, how)
    group = np.repeat(np.arange(len(rest[1])), rest[1])
    truth = np.exp(-np.log(np.einsum("ik,ik->i", table[rest[0]], shares[group])).mean())
    assert truth < fitted.perplexity(new) < 1.05 * truth
    assert abs(float(fitted.posterior_["holdout"].mean()) + np.log(truth)) < 0.07


def test_new_documents_get_the_shares_of_the_topics_that_made_them(fitted, corpus):
    likeness = np.corrcoef(corpus.topics, fitted.components_)[: len(corpus.topics), len(corpus.topics) :]
    _, columns = linear_sum_assignment(-likeness)
    labels = corpus.labels.reshape(-1, 60)[1_200:]
    true = np.stack([(labels == k).mean(1) for k in range(len(columns))], axis=1)
    found = fitted.transform(corpus.X[1_200:])[:, columns]
    assert np.abs(found - true).mean() < 0.03


def test_scores_sum_to_one_over_the_vocabulary(fitted):
    """One seen word, and every word of the vocabulary in turn as the only one that is scored."""
    words = fitted.components_.shape[1]
    seen, rest = (
        (np.zeros(words, np.int32), np.ones(words, int)),
        (np.arange(words, dtype=np.int32), np.ones(words, int)),
    )
    draw = next(iter(fitted._draws()))[0]
    first = completion(fitted._likelihood, draw, seen, rest, 2000, key(0, "sum"))
    assert abs(np.exp(first).sum() - 1.0) < 0.02


def test_groups_of_rows_share_their_clusters():
    rng = np.random.default_rng(0)
    shares = np.array([[0.8, 0.2, 0.0], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]])
    groups = np.repeat(["c", "a", "b"], 200)
    z = np.concatenate([rng.choice(3, 200, p=p) for p in shares])
    X = rng.normal(size=(600, 2)) + 6.0 * np.eye(3, 2)[z]
    order = rng.permutation(600)
    for form in ("direct", "franchise"):
        model = HierarchicalDirichletProcess(form=form, n_chains=1, n_warmup=20, n_draws=20, random_state=0)
        model.fit(pd.DataFrame(X[order], columns=["x", "y"]), groups[order])
        assert model.n_topics_ == 3
        best = np.array([np.bincount(model.labels_[z[order] == k], minlength=3).argmax() for k in range(3)])
        assert np.abs(model.proportions_[:, best] - shares[[1, 2, 0]]).max() < 0.08
        assert (model.labels_ == best[z[order]]).mean() > 0.98
        assert model.uncertainty_.shape == model.labels_.shape
        assert model.uncertainty_.mean() < 0.1
        assert model.n_above(0.01) == 3
        assert model.transform(X[:4]).shape == (4, 3)
        assert np.isfinite(model.score(X, groups))


def test_rows_with_holes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 2)) + 5.0 * rng.integers(0, 2, 90)[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    model = HierarchicalDirichletProcess(**QUICK).fit(X, np.arange(90) // 30)
    assert np.isfinite(model.score(X, np.arange(90) // 30))


def test_sparse_counts_in_groups(corpus):
    """Documents as rows of a mixture for each journal, say; dense and sparse rows give the same chain."""
    X, groups = corpus.X[:60].astype(float), np.arange(60) % 3
    options = QUICK | {"likelihood": "multinomial", "n_shards": 2}
    fits = [HierarchicalDirichletProcess(**options).fit(x, groups) for x in (X, X.toarray())]
    assert fits[0].proportions_.shape[0] == 3
    assert np.array_equal(fits[0].posterior_["n_topics"], fits[1].posterior_["n_topics"])
    assert fits[0].transform(X, groups).shape == fits[0].proportions_.shape


# ---- any number of workers, resumed runs


@pytest.mark.parametrize("form", ["direct", "franchise"])
def test_workers_do_not_change_a_bit(corpus, form):
    fits = [
        HierarchicalDirichletProcess(form=form, engine=engine, n_workers=workers, **QUICK).fit(corpus.X[:150])
        for engine, workers in (("serial", None), ("threads", 1), ("threads", 3))
    ]
    for other in fits[1:]:
        assert np.array_equal(other.labels_, fits[0].labels_)
        assert np.array_equal(other.components_, fits[0].components_)
        assert other.posterior_.identical(fits[0].posterior_)


def test_a_run_is_extended_as_if_it_never_stopped(tmp_path, corpus):
    X = corpus.X[:120]
    whole = HierarchicalDirichletProcess(checkpoint=tmp_path / "a", **QUICK).fit(X)
    part = QUICK | {"n_draws": 3}
    HierarchicalDirichletProcess(checkpoint=tmp_path / "b", **part).fit(X)
    again = HierarchicalDirichletProcess(checkpoint=tmp_path / "b", **QUICK).fit(X)
    assert again.posterior_.identical(whole.posterior_)
    with pytest.raises(RunError, match="other"):
        HierarchicalDirichletProcess(checkpoint=tmp_path / "a", form="franchise", **QUICK).fit(X)
    with pytest.raises(RunError, match="other data"):
        HierarchicalDirichletProcess(checkpoint=tmp_path / "a", **QUICK).fit(X[::-1])


# ---- documents of all kinds


def test_lists_of_words_and_words_never_seen():
    documents = [["a", "b", "a"], ["b", "c"], [], ["a", "c", "c", "b"]] * 5
    model = HierarchicalDirichletProcess(**QUICK).fit(documents)
    assert model.vocabulary_ == ["a", "b", "c"]
    assert model.n_empty_ == 5
    assert sorted(model.top_words(n_words=3)[0]) == ["a", "b", "c"]
    shares = model.transform([["a", "new"], ["new"], []])
    assert np.allclose(shares.sum(1), 1.0)
    assert np.allclose(shares[1], shares[2])  # nothing known of either


def test_unsorted_indices_and_one_document_are_fine(corpus):
    X = corpus.X[:100].tocsr()
    turned = X.copy()
    for d in range(100):
        turned.indices[X.indptr[d] : X.indptr[d + 1]] = X.indices[X.indptr[d] : X.indptr[d + 1]][::-1]
        turned.data[X.indptr[d] : X.indptr[d + 1]] = X.data[X.indptr[d] : X.indptr[d + 1]][::-1]
    turned.has_sorted_indices = False
    a, b = (HierarchicalDirichletProcess(**QUICK).fit(x) for x in (X, turned))
    assert np.array_equal(a.components_, b.components_)
    one = HierarchicalDirichletProcess(**QUICK).fit(X[:1])
    assert one.proportions_.shape == (1, one.n_topics_)


@pytest.mark.parametrize("init", ["one", "few", 5, "labels"])
def test_starts(corpus, init):
    X = corpus.X[:50]
    start = np.arange(3_000) % 4 if init == "labels" else init
    model = HierarchicalDirichletProcess(init=start, **QUICK).fit(X)
    assert model.posterior_.sizes["draw"] == 8


@pytest.mark.parametrize(
    "options",
    [
        {"instantiate": OneOpen()},
        {"instantiate": "published-cold"},
        {"dtype": "float32"},
        {"sweeps_per_round": 3},
        {"n_chains": 2},
        {"likelihood": Tokens(0.1), "concentration": 2.0, "group_concentration": Gamma(2.0, 1.0)},
        {"keep_assignments": True},
    ],
)
def test_options(corpus, options):
    model = HierarchicalDirichletProcess(**(QUICK | options)).fit(corpus.X[:60])
    assert model.exact_ == ("published" not in str(options))
    assert np.isfinite(model.posterior_["log_likelihood"]).all()


def test_the_likelihood_is_that_of_the_draws_eta(corpus):
    """Words of every topic by Polya's urn, with the pseudo-count that the draw has."""
    likelihood = Tokens(Gamma(1.0, 1.0), base="uniform")
    X = corpus.X[:40]
    model = HierarchicalDirichletProcess(likelihood, keep_assignments=True, **QUICK).fit(X)
    words = np.repeat(X.indices, X.data.astype(int))
    assert np.ptp(model.posterior_["eta"].values) > 0.0
    for draw in range(8):
        here = model.posterior_.isel(chain=0, draw=draw)
        eta, labels = float(here["eta"]), here["assignments"].values
        counts = np.zeros((labels.max() + 1, X.shape[1]))
        np.add.at(counts, (labels, words), 1.0)
        cells = special.gammaln(eta + counts) - special.gammaln(eta)
        totals = special.gammaln(eta * X.shape[1]) - special.gammaln(eta * X.shape[1] + counts.sum(1))
        np.testing.assert_allclose(here["log_likelihood"], cells.sum() + totals.sum(), rtol=1e-9)


# ---- bad input

COUNTS = sparse.csr_matrix(np.array([[1, 2, 0], [0, 1, 1.0]]))
ROWS, GROUPS = np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((COUNTS * -1,), {}, "cannot be negative"),
        ((COUNTS * 0.5,), {}, "whole numbers"),
        ((COUNTS * 0,), {}, "no words"),
        ((np.empty((0, 3)),), {}, "0 sample"),
        ((COUNTS.toarray() * np.nan,), {}, "NaN"),
        ((COUNTS,), {"likelihood": "gaussian"}, "rows and their groups"),
        ((ROWS, GROUPS), {"likelihood": "tokens"}, "rows and their groups"),
        ((ROWS, [0, 0, 1]), {}, "one id for each of the 4 rows"),
        ((ROWS, [0, 0, None, 1]), {}, "row 2 has no group"),
        ((ROWS, [0, 0, np.nan, 1]), {}, "row 2 has no group"),
        ((COUNTS, [0, 1]), {}, "sparse rows take the multinomial"),
        ((COUNTS,), {"form": "buffet"}, "form must be one of"),
        ((COUNTS,), {"init": "kmeans++"}, "init must be one of"),
        ((COUNTS,), {"init": 0}, "at least one topic"),
        ((COUNTS,), {"init": np.zeros(3, int)}, "5 integers"),
        ((COUNTS,), {"concentration": 0.0}, "must be positive"),
        ((COUNTS,), {"group_concentration": -1.0}, "must be positive"),
        ((COUNTS,), {"n_shards": 0}, "n_shards must be"),
    ],
)
def test_bad_input_gets_one_clear_sentence(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalDirichletProcess(**(QUICK | options)).fit(*arguments)


def test_bad_input_after_the_fit(fitted, corpus):
    with pytest.raises(ValueError, match="features"):
        fitted.transform(corpus.X[:3, :10])
    with pytest.raises(ValueError, match="have no groups"):
        fitted.transform(corpus.X[:3], [0, 1, 2])
    with pytest.raises(ValueError, match="vocabulary has 2 words"):
        fitted.top_words(["a", "b"])
    with pytest.raises(ValueError, match="at least two rows"):
        fitted.score(sparse.csr_matrix(np.eye(1, corpus.X.shape[1])))
    with pytest.raises(ValueError, match="concentration of Tokens"):
        Tokens(0.0)
    with pytest.raises(ValueError, match="counts here, too"):
        fitted.transform([["a"]])
    rows = HierarchicalDirichletProcess(**QUICK)
    with pytest.raises(ValueError, match="a pair"):
        rows.fit(ROWS, GROUPS, holdout=ROWS)
