"""Documents that repeat themselves: new documents against sums over all that can happen, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import special

import unbounded as ub
from unbounded.datasets import topics
from unbounded.models.groups.measure import HierarchicalHyper, HierarchicalMeasure
from unbounded.models.groups.predictive import Gibbs, Newcomers, fold_in_given
from unbounded.models.groups.shard import NO_BASE, ContentHyper, GroupHyper
from unbounded.models.groups.words.repeats import Repeats, drawn
from unbounded.models.groups.words.reseat import log_completed
from unbounded.randomness import key

PHI = np.array([[0.6, 0.1, 0.2], [0.3, 0.2, 0.4], [0.1, 0.7, 0.4]])  # [words, topics], the last one for what is new
MASSES, AFTER = np.array([0.7, 0.5, 0.3]), 0.8
DOCUMENT = np.array([1, 0, 1])


def test_values_of_fresh_words_are_spread_in_the_order_of_all_words():
    words, offsets = np.array([2, 0, 2, 1, 1, 0, 1]), np.array([0, 3, 7])
    repeats = Repeats.of(words, offsets, 4)
    repeats.sources[[2, 5]] = [1, 4]  # the second 2 of the first document, and the second 1 of the other
    fresh, ends = repeats.fresh()
    assert fresh.tolist() == [0, 2, 0, 1, 1]
    assert ends.tolist() == [0, 2, 5]
    np.testing.assert_array_equal(repeats.spread(fresh), words)
    assert repeats.spread(np.arange(5)).tolist() == [1, 0, 1, 3, 3, 2, 4]


def test_shares_of_a_new_document_are_sums_over_who_repeats_whom_and_all_topics():
    weights, shares = [], []
    for same, labels in product((False, True), product(range(3), repeat=3)):
        fresh = [0, 1] if same else [0, 1, 2]  # the last word may repeat the first
        if same and labels[2] != 0:
            continue  # it has no topic of its own
        weight, counts = (1.0 if same else AFTER), MASSES.copy()
        for i in fresh:
            k = labels[i]
            weight *= PHI[DOCUMENT[i], k] * counts[k] / counts.sum()
            counts[k] += 1.0
        weights.append(weight)
        shares.append(counts / counts.sum())
    truth = np.array(weights) @ np.array(shares) / np.sum(weights)
    sizes = np.full(400, 3)
    new = Newcomers(PHI, np.tile(DOCUMENT, 400), sizes)
    _, found = fold_in_given(new, MASSES, AFTER, Gibbs(60, 50, key(3, "test")))
    error = found.std(0, ddof=1) / np.sqrt(len(sizes))
    assert np.all(np.abs(found.mean(0) - truth) < 4.5 * error), (found.mean(0), truth, error)
    assert np.all(error < 0.004)


def test_completion_sums_to_one_and_knows_what_was_said():
    shares = np.array([0.5, 0.3, 0.2])
    logs = np.log(PHI @ shares)
    rest = (np.tile(np.arange(3), 2), np.repeat([0, 1], 3))
    found = np.exp(log_completed(np.tile(logs, 2), rest, (DOCUMENT, np.array([3, 0])), AFTER)).reshape(2, 3)
    np.testing.assert_allclose(found.sum(1), 1.0)
    np.testing.assert_allclose(found[0], (np.array([1, 2, 0]) + AFTER * PHI @ shares) / (3 + AFTER))
    np.testing.assert_allclose(found[1], PHI @ shares)


def test_new_documents_have_as_many_fresh_words_as_an_urn():
    sizes = np.full(2_000, 20)
    fresh, which = drawn(sizes, 4.0, np.random.default_rng(0))
    expected = 4.0 * (special.digamma(24.0) - special.digamma(4.0))
    assert abs(fresh.mean() - expected) < 4.5 * fresh.std() / np.sqrt(len(sizes))
    assert which.max() + 1 == fresh.sum()
    firsts = np.cumsum(fresh) - fresh
    assert np.all(which.reshape(-1, 20)[:, 0] == firsts)
    assert np.all(which.reshape(-1, 20).max(1) == firsts + fresh - 1)


@pytest.mark.parametrize("base", [NO_BASE, np.array([0.5, 1.5])], ids=["uniform", "learned"])
def test_hyper_parameters_are_written_and_read(base):
    hyper = GroupHyper(HierarchicalHyper(1.0, 2.0), ContentHyper(0.3, base, 40.0))
    again = GroupHyper.of(HierarchicalMeasure(), hyper.array())
    assert (again.measure, again.content.eta, again.content.after) == (hyper.measure, 0.3, 40.0)
    np.testing.assert_array_equal(again.content.base, base)


def test_a_run_is_resumed_and_reported(tmp_path):
    X = topics(20, 15, 12, 2, seed=1).X
    options = {"init": 3, "n_warmup": 4, "n_chains": 1, "random_state": 0}
    likelihood = ub.Tokens(repeats_after=ub.Gamma(1.0, 0.1))
    whole = ub.HierarchicalDirichletProcess(likelihood, n_draws=8, **options).fit(X)
    ub.HierarchicalDirichletProcess(likelihood, n_draws=4, checkpoint=tmp_path, **options).fit(X)
    longer = ub.HierarchicalDirichletProcess(likelihood, n_draws=8, checkpoint=tmp_path, **options).fit(X)
    np.testing.assert_array_equal(longer.posterior_["repeats_after"], whole.posterior_["repeats_after"])
    np.testing.assert_array_equal(longer.labels_, whole.labels_)
    assert "repeats_after" in longer.report().read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def fitted():
    X = topics(40, 30, 40, 3, seed=0).X
    likelihood = ub.Tokens(repeats_after=ub.Gamma(1.0, 0.01))
    options = {"init": 5, "n_warmup": 10, "n_draws": 10, "n_chains": 1, "random_state": 0}
    return ub.HierarchicalDirichletProcess(likelihood, **options).fit(X[:35], holdout=X[35:]), X


def test_a_fit_samples_how_soon_documents_repeat_themselves(fitted):
    model, X = fitted
    after = model.posterior_["repeats_after"].to_numpy().ravel()
    assert len(np.unique(after)) == 10
    assert np.isfinite(model.posterior_["holdout"]).all()
    assert model.labels_.shape == (X[:35].sum(),)
    np.testing.assert_allclose(model.transform(X[35:]).sum(1), 1.0)
    assert 1 < model.perplexity(X[35:]) < 20  # of 40 words
    assert model.sample(4, random_state=1, size=12).sum(1).ravel().tolist()[0] == [12.0] * 4


def test_what_is_refused(fitted):
    model, X = fitted
    with pytest.raises(ValueError, match="takes neither X nor predictions"):
        model.to_arviz(X[:35])
    for options, words in (
        ({"form": "franchise"}, "form='direct' only"),
        ({"sampler": "asynchronous"}, "takes no documents that repeat themselves"),
        ({"device": "reference"}, "has no kernel of repeating words"),
    ):
        with pytest.raises(ValueError, match=words):
            ub.HierarchicalDirichletProcess(ub.Tokens(repeats_after=3.0), init=2, n_draws=2, **options).fit(X)
    with pytest.raises(ValueError, match="repeats_after of Tokens must be positive"):
        ub.Tokens(repeats_after=0.0)
