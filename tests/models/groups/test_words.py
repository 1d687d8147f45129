"""Draws of topics: phi is Dirichlet, for common words and for rare ones; tokens join topics as they should."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from unbounded.columns import describe
from unbounded.contracts import in_this_thread
from unbounded.engines.local import Helpers
from unbounded.models.groups.measure import Law, Urn
from unbounded.models.groups.rows import GroupRows, SweepKeys, Tail
from unbounded.models.groups.shard import ContentHyper
from unbounded.models.groups.words import kernel, topics
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.randomness import key

WORDS, TOPICS = 60, 4_000


@pytest.mark.parametrize("eta", [0.02, 0.3, 0.9, 1.0, 2.5])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_phi_is_a_dirichlet_draw(eta, dtype):
    """Every word's share of a topic is a beta variable; rare and frequent words are compared with its distribution."""
    counts = np.zeros(WORDS)
    counts[[0, 31, 58]] = 1, 7, 200
    statistics = sparse.csr_matrix(np.repeat(counts[None].astype(np.int32), TOPICS, axis=0))
    bound = Tokens(eta).bind(describe(sparse.csr_matrix(np.ones((2, WORDS)))))
    phi = bound.phi(statistics, key(5, "phi"), np.dtype(dtype))
    assert phi.shape == (WORDS, TOPICS)
    assert np.allclose(phi.sum(0), 1.0, atol=1e-5)
    total = counts.sum() + WORDS * eta
    for w in (0, 31, 58, 3, 30, 59):
        shape = eta + counts[w]
        law = stats.beta(shape, total - shape)
        floor = 1e-30  # below it single precision ends
        seen, cut = phi[w][phi[w] > floor], law.cdf(floor)
        assert abs((phi[w] <= floor).mean() - cut) < 5 * np.sqrt(max(cut, 1e-3) / TOPICS)
        assert stats.kstest((law.cdf(seen) - cut) / (1.0 - cut), "uniform").pvalue > 1e-4
    pairs = stats.spearmanr(phi[3], phi[4]).statistic
    assert abs(pairs) < 5 / np.sqrt(TOPICS) + 0.02


def test_topics_are_drawn_in_any_order_of_the_table_by_any_number_of_threads():
    """In blocks of words, ghost-only topics among them; sums are those of the draws."""
    rng, n_words = np.random.default_rng(3), 700
    statistics = sparse.csr_matrix(rng.poisson(0.2, (120, n_words)).astype(np.int32))
    order, masses = np.append(rng.permutation(120)[:90], [-1, 5]), rng.gamma(1.0, size=92)
    bound = Tokens(0.1).bind(describe(sparse.csr_matrix(np.ones((2, n_words)))))
    assert len(topics.blocks(n_words, len(order))) > 4
    helpers = Helpers(2)
    one, two = (
        bound.topics(statistics, order, masses, 80, key(6, "phi"), np.dtype(float), parallel)
        for parallel in (in_this_thread, helpers)
    )
    helpers.close()
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    weighed = masses * one.phi
    np.testing.assert_allclose(one.smooth, np.stack([weighed[:, :80].sum(1), weighed.sum(1)], 1))
    np.testing.assert_allclose(one.parts.sum(1), weighed.sum(1))
    np.testing.assert_allclose(one.phi.sum(0), 1.0)
    there = statistics[order[:90]].toarray().T > 0
    assert one.phi[:, :90][there].mean() > 5 * one.phi[:, :90][~there].mean()
    assert np.median(one.phi[:, 90]) < 0.1 / n_words  # nearly all of it is on few words


@pytest.mark.parametrize("eta", [1e-6, 0.003, 0.7, 40.0, 1e3])
def test_evidence_is_the_sum_over_topics(eta):
    rng = np.random.default_rng(8)
    statistics = sparse.csr_matrix(
        (rng.poisson(0.3, (5, WORDS)) * 10 ** rng.integers(0, 7, (5, WORDS))).astype(np.int32)
    )
    counts = np.asarray(statistics.sum(1)).ravel().astype(float)
    base = rng.gamma(0.5, size=WORDS)
    columns = describe(sparse.csr_matrix(np.ones((2, WORDS))))
    hyper = ContentHyper(eta, base / base.mean())
    for bound in (Tokens(eta, "uniform").bind(columns), Tokens(eta, "learned").bind(columns).at(hyper)):
        each = bound.log_marginal(counts, statistics)
        assert bound.log_evidence(counts, statistics) == pytest.approx(each.sum(), rel=1e-12, abs=1e-9)
        dense = statistics.toarray().astype(float)
        assert topics.log_marginals(dense, bound.pseudo) == pytest.approx(each, rel=1e-9, abs=1e-7)
        i, j = np.triu_indices(5, 1)
        merged = bound.log_marginal(counts[i] + counts[j], sparse.csr_matrix(statistics[i] + statistics[j]))
        gains = topics.merge_gains(dense, bound.pseudo, i, j)
        assert gains == pytest.approx(merged - each[i] - each[j], rel=1e-8, abs=1e-5)


@pytest.mark.parametrize(("times", "pseudo"), [(5, 0.8), (300, 0.05), (300, 4.0)])
def test_tables_of_words_have_their_law(times, pseudo):
    """The sum of independent openings, also where these are found by leaps."""
    law = np.ones(1)
    for j in range(times):
        law = np.convolve(law, [j / (pseudo + j), pseudo / (pseudo + j)])
    size = 20_000
    words, counts = np.arange(size, dtype=np.int32), np.full(size, times, np.int32)
    seen = np.bincount(topics.base_tables(words, counts, np.full(size, pseudo), key(3, "tables")).astype(int))
    seen = np.append(seen, np.zeros(len(law) - len(seen)))
    enough = size * law > 20
    groups = [np.append(v[enough], v[~enough].sum()) for v in (seen, size * law)]
    assert groups[1][-1] < 200
    kept = groups[1] > 20
    distance = ((groups[0] - groups[1])[kept] ** 2 / groups[1][kept]).sum()
    assert stats.chi2.sf(distance, kept.sum() - 1) > 1e-5


ALIKE = np.full(7, 0.3)
UNLIKE = np.random.default_rng(0).gamma(0.05, size=200) + 1e-300


@pytest.mark.parametrize("weights", [np.ones(1), ALIKE, UNLIKE, np.array([0.0, 5.0, 0.0, 1e-9])], ids=len)
def test_alias_tables_hold_the_weights(weights):
    n = len(weights)
    row, table = kernel.build_aliases(np.stack([weights[::-1], weights]), n, np.array([3, 4]), 4)
    assert row.tolist() == [-1, 0]
    stay, other = table[0, :, 0], table[0, :, 1].astype(int)
    held = stay + np.bincount(other, 1.0 - stay, n)
    np.testing.assert_allclose(held / n, weights / weights.sum(), rtol=1e-9, atol=1e-15)


def test_the_number_that_an_alias_table_gives_back_is_uniform():
    _, table = kernel.build_aliases(np.array([[0.1, 0.6, 0.05, 0.25]]), 4, np.array([1]), 1)
    drawn = [kernel.draw_alias(table, 0, u) for u in np.random.default_rng(1).random(20_000)]
    entry, again = np.array([k for k, _ in drawn]), np.array([u for _, u in drawn])
    for k in range(4):
        assert stats.kstest(again[entry == k], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("least", [0, 15_000, 10**9], ids=["tables", "both", "searches"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tokens_alone_join_topics_by_their_masses(least, dtype):
    """In a document of one word only the second sum counts: gamma beta_k phi_wk, here over three chunks."""
    rng, atoms, n = np.random.default_rng(2), 40, 40_000
    phi, masses = rng.gamma(0.5, size=(3, atoms)).astype(dtype), rng.gamma(1.0, size=atoms)
    rows, labels = np.sort(rng.choice(3, n, p=[0.3, 0.2, 0.5])).astype(np.int32), np.zeros(n, np.int32)
    found = topics.Topics(phi, np.empty((3, 2)), np.empty((3, 3)))
    topics.finish(np.array([0, 3]), np.ones(atoms), masses, atoms, found, 0, 1)
    aliases = kernel.build_aliases(found.parts, 3, np.bincount(rows), least)
    assert (aliases.row >= 0).tolist() == (np.bincount(rows) >= least).tolist()
    words_of_tail = Tokens(0.1).bind(describe(sparse.csr_matrix(np.ones((2, 3))))).tail(17, 8)[0]
    tail = Tail(words_of_tail, np.zeros(16, np.int64), np.full(17, -np.inf))
    law = Law(masses, 1.0, 0.0, Urn(1.0, 1.0))
    sums = np.column_stack([found.smooth[:, 1], np.ones(len(found.phi))])
    finite = kernel.WordFinite(found, sums, aliases, atoms, atoms, law, 0.1)
    keys = SweepKeys(key(1, "label"), key(1, "stick"))
    kernel.sweep(
        GroupRows(rows, labels, np.arange(n + 1), 0), 0, finite, tail, kernel.GroupScratch.of(finite, tail), keys
    )
    for w in range(3):
        expected = masses * phi[w] * (rows == w).sum() / (masses @ phi[w])
        seen = np.bincount(labels[rows == w], minlength=atoms)
        few = expected < 5
        pairs = [np.append(x[~few], x[few].sum()) for x in (seen, expected)]
        assert stats.chisquare(*pairs, sum_check=False).pvalue > 1e-4


def random_words(atoms, seed):
    rng = np.random.default_rng(seed)
    rows, labels = rng.integers(0, 20, 900).astype(np.int32), rng.integers(0, atoms - 1, 900).astype(np.int32)
    expected = np.zeros((atoms, 20), int)
    np.add.at(expected, (labels, rows), 1)
    by_word = np.argsort(rows, kind="stable").astype(np.int32)
    return topics.count(rows, labels, by_word, 20, atoms), expected


@pytest.mark.parametrize("atoms", [3, 300], ids=["all cells", "rows by word"])
def test_words_of_topics_are_counted(atoms):
    (counts, table), expected = random_words(atoms, 4)
    found = topics.matrix([table], 20)
    assert found.has_sorted_indices
    assert found.nnz == (expected > 0).sum()
    np.testing.assert_array_equal(found.toarray(), expected)
    np.testing.assert_array_equal(counts, expected.sum(1))


@pytest.mark.parametrize("atoms", [3, 300])
def test_tables_of_words_add_up_and_are_cut(atoms):
    ((_, a), first), ((_, b), second) = random_words(atoms, 5), random_words(atoms, 6)
    total = topics.matrix([a + b], 20)
    assert total.has_canonical_format
    np.testing.assert_array_equal(total.toarray(), first + second)
    for n in (0, 1, atoms):
        parts = (a + b).cut(n)
        assert len(parts[0].ends) == n + 1
        np.testing.assert_array_equal(topics.matrix(parts, 20).toarray(), first + second)
