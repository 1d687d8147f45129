"""New rows of groups and likelihoods of old ones, against sums over all that can happen to one row or two."""

from __future__ import annotations

from itertools import product

import arviz as az
import numpy as np
import pytest
from scipy import sparse

from unbounded import HierarchicalDirichletProcess, Tokens
from unbounded.columns import describe
from unbounded.models.groups import simulate
from unbounded.models.groups.measure import HierarchicalHyper, HierarchicalMeasure
from unbounded.models.groups.predictive import predictives
from unbounded.models.groups.shard import ContentHyper, Draw, GroupHyper
from unbounded.models.groups.simulate import Members

ALPHA, GAMMA, ETA = 3.0, 1.5, 0.2  # many new atoms, of few words each
TABLES = np.array([2, 1])
WORDS = np.array([[3, 1, 0], [0, 0, 2]])  # of two atoms
LIKELIHOOD = Tokens(ETA, base="uniform").bind(describe(sparse.csr_matrix(np.ones((1, 3)))))
MEASURE, HYPER = HierarchicalMeasure(ALPHA, GAMMA), GroupHyper(HierarchicalHyper(ALPHA, GAMMA), ContentHyper(ETA))
DRAW = Draw(WORDS.sum(1), TABLES, sparse.csr_matrix(WORDS), HYPER, MEASURE.expected_masses(HYPER.measure, TABLES))
BRIEF = {"n_chains": 2, "n_warmup": 5, "n_draws": 12, "n_shards": 2, "random_state": 0}
DOCUMENTS = [["cat", "dog", "cat"], ["stock", "bond", "stock", "bond"], ["cat", "stock"], []] * 5
ROWS = np.repeat([-3.0, 3.0], 15)[:, None] + np.random.default_rng(0).normal(size=(30, 2))
GROUPS = np.arange(30) % 4


def new_group_of_two() -> np.ndarray:
    """[words, words]: the law of two words of a new group, tables, dishes and topics summed and integrated out."""
    known, pairs = len(TABLES), np.zeros((3, 3))
    weights = np.append(TABLES, ALPHA) / (TABLES.sum() + ALPHA)
    atoms = [*(WORDS + ETA), np.full(3, ETA), np.full(3, ETA)]  # two that are known, two new ones
    for first in range(known + 1):
        again = np.zeros(known + 2)  # dishes of a second table
        again[: known + 1] = np.append(TABLES, 0.0)
        again[first] += 1.0
        again[known if first < known else known + 1] += ALPHA
        second = GAMMA / (1.0 + GAMMA) * again / again.sum()
        second[first] += 1.0 / (1.0 + GAMMA)  # the same table
        for other, (u, v) in product(range(known + 2), product(range(3), range(3))):
            a, b = atoms[first], atoms[other]
            then = (a[v] + (u == v)) / (a.sum() + 1.0) if first == other else b[v] / b.sum()
            pairs[u, v] += weights[first] * second[other] * a[u] / a.sum() * then
    return pairs


def deviations(found: np.ndarray, truth: np.ndarray) -> float:
    """The largest, in standard errors of a mean over independent draws (the first axis)."""
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    return float(np.abs((found.mean(0) - truth) / error).max())


def test_pairs_of_words_of_new_groups():
    truth, rng, found = new_group_of_two(), np.random.default_rng(0), np.zeros((2_000, 3, 3))
    assert truth.sum() == pytest.approx(1.0)
    for pairs in found:
        words = simulate.new_rows(MEASURE, LIKELIHOOD, DRAW, Members(np.full(4, 2)), rng).reshape(4, 2)
        np.add.at(pairs, (words[:, 0], words[:, 1]), 0.25)
    assert deviations(found, truth) < 4.5
    assert np.abs(truth - np.outer(truth.sum(1), truth.sum(0))).max() > 0.05  # words of a group go together


def test_words_of_groups_that_have_rows():
    labels, sizes = np.array([0, 0, 0, 1, 1]), np.array([3, 1, 1])
    counts = np.array([[3, 0], [0, 1], [0, 1]])
    shares = (np.column_stack([counts, [0, 0, 0]]) + DRAW.masses) / (sizes[:, None] + GAMMA)
    topics = np.array([*(WORDS + ETA), np.full(3, ETA)])
    truth = shares @ (topics / topics.sum(1, keepdims=True))
    rng, found = np.random.default_rng(1), np.zeros((2_000, 3, 3))
    for words in found:
        new = simulate.new_rows(MEASURE, LIKELIHOOD, DRAW, Members(sizes, labels), rng)
        np.add.at(words, (np.repeat(np.arange(3), sizes), new), 1.0 / np.repeat(sizes, sizes))
    assert deviations(found, truth) < 4.5


@pytest.mark.parametrize("kind", ["words", "rows"])
def test_likelihoods_average_to_the_predictive_density(kind):
    """Over draws of beta, shares and topics, the density of a row is that of its group's expected shares."""
    model = HierarchicalDirichletProcess(**BRIEF)
    model = model.fit(DOCUMENTS) if kind == "words" else model.fit(ROWS, GROUPS)
    X = model._read(DOCUMENTS, None, False).rows if kind == "words" else ROWS[model._order]
    draw, labels = model._draw(3), model._snapshots[3]["labels"]
    members = Members(model._sizes, labels)
    (counts,) = (counts for _, _, counts in members.blocks(len(draw.counts)))
    shares = (np.column_stack([counts, np.zeros(len(counts))]) + draw.masses) / (
        model._sizes[:, None] + draw.hyper.measure.gamma
    )
    table, index, scale = predictives(model._likelihood, draw, X)
    truth = np.einsum("ik,ik->i", table[index], np.repeat(shares, model._sizes, axis=0)) * np.exp(scale)
    rng = np.random.default_rng(2)
    parts = (model._prior, model._likelihood, draw, members, X, rng)
    found = np.exp([simulate.log_likelihood(*parts) for _ in range(300)])
    assert deviations(found, truth) < 5.0


def test_new_documents_and_new_groups():
    words = HierarchicalDirichletProcess(**BRIEF).fit(DOCUMENTS)
    new = words.sample(40, random_state=1)
    assert new.shape == (40, 4)
    assert set(np.asarray(new.sum(1)).ravel()) <= {2.0, 3.0, 4.0}  # as documents of the fit; empty ones are left out
    assert (words.sample(40, random_state=1) != new).nnz == 0
    assert set(np.asarray(words.sample(5, size=7).sum(1)).ravel()) == {7.0}
    rows, groups = HierarchicalDirichletProcess(**BRIEF).fit(ROWS, GROUPS).sample(6, size=3)
    assert rows.shape == (18, 2)
    assert groups.tolist() == np.repeat(np.arange(6), 3).tolist()
    for size in (0, True, 2.5):
        with pytest.raises(ValueError, match=f"size must be a whole number of at least 1 or None, got {size}"):
            words.sample(3, size=size)


def test_groups_of_draws_for_arviz():
    words = HierarchicalDirichletProcess(**BRIEF).fit(DOCUMENTS)
    data = words.to_arviz(DOCUMENTS, posterior_predictive=True)
    assert data.log_likelihood["rows"].dims == ("chain", "draw", "row")
    assert data.posterior_predictive["rows"].shape == data.log_likelihood["rows"].shape
    assert data.observed_data["rows"][:3].values.tolist() == [1, 1, 2]  # cat, cat, dog of bond, cat, dog, stock
    assert data.log_likelihood["rows"].groupby("group").sum().sizes["group"] == 15  # those with words
    assert np.isfinite(az.loo(data).elpd_loo)
    rows = HierarchicalDirichletProcess(**BRIEF).fit(ROWS, GROUPS)
    data = rows.to_arviz(ROWS, groups=GROUPS, posterior_predictive=True)
    np.testing.assert_array_equal(data.observed_data["rows"], ROWS)
    np.testing.assert_array_equal(data.observed_data["group"], GROUPS)
    assert data.posterior_predictive["rows"].shape[2:] == (30, 2)
    with pytest.raises(ValueError, match="X has 29 rows, but the fit had 30; give those of the fit"):
        rows.to_arviz(ROWS[1:], groups=GROUPS[1:])
    with pytest.raises(ValueError, match="the groups are of other sizes than those of the fit"):
        rows.to_arviz(ROWS, groups=np.arange(30) % 3)
