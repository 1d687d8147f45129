"""Every content of groups keeps the contract: statistics, tables, hyper-parameters and predictions agree with what its
likelihood says of rows.

A new content needs an entry in EXAMPLES.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from unbounded.columns import describe
from unbounded.contracts import in_this_thread
from unbounded.instantiation import Roles
from unbounded.likelihoods import resolve
from unbounded.models.groups.contents import CONTENTS, content_of
from unbounded.models.groups.kernels import KERNELS
from unbounded.models.groups.model import FORMS
from unbounded.models.groups.rows import RowContent
from unbounded.models.groups.shard import ContentHyper, DishTable, Draw, GroupHyper, GroupRecipe
from unbounded.models.groups.words.likelihood import Tokens, WordContent
from unbounded.priors import Gamma
from unbounded.randomness import RoundSeed

rng = np.random.default_rng(6)
SIZES = np.array([7, 0, 9, 4, 1, 9])
N, K, N_WORDS = int(SIZES.sum()), 4, 6
LABELS = np.append(np.arange(K), rng.integers(0, K, N - K)).astype(np.int32)
TABLES = np.append(np.arange(9), rng.integers(0, 9, N - 9)).astype(np.int32)  # of every row
PLANE = rng.normal(size=(N, 3)) + 3.0 * LABELS[:, None]
HOLED = np.where(rng.random((N, 3)) < 0.1, np.nan, PLANE)
BITS = (rng.random((N, 3)) < 0.4).astype(float)
BAGS = sparse.csr_matrix(rng.poisson(1.0, (N, N_WORDS)).astype(float))
WORDS = rng.integers(0, N_WORDS, N).astype(np.int32)
DOCUMENTS = describe(sparse.csr_matrix((np.ones(N), (np.repeat(np.arange(6), SIZES), WORDS)), (6, N_WORDS)))
EXAMPLES = {
    RowContent: {
        "gaussian": (PLANE, resolve("gaussian").bind(describe(PLANE))),
        "gaussian-holes": (HOLED, resolve("gaussian").bind(describe(HOLED))),
        "bernoulli": (BITS, resolve("bernoulli").bind(describe(BITS))),
        "multinomial": (BAGS, resolve("multinomial").bind(describe(BAGS))),
    },
    WordContent: {
        "words": (WORDS, Tokens().bind(DOCUMENTS)),
        "words-uniform": (WORDS, Tokens(base="uniform").bind(DOCUMENTS)),
        "words-fixed": (WORDS, Tokens(0.2, base="uniform").bind(DOCUMENTS)),
    },
}
CASES = [(kind, name) for kind, examples in EXAMPLES.items() for name in examples]


@pytest.fixture(params=CASES, ids=lambda case: case[1])
def example(request):
    """(content, rows, shards with labels): rows are as shards have them, holes that are drawn filled in."""
    kind, name = request.param
    X, likelihood = EXAMPLES[kind][name]
    content, recipe = content_of(likelihood), GroupRecipe(X, SIZES, likelihood, 2)
    shards = [recipe(p) for p in range(2)]
    for shard in shards:
        shard.put(LABELS[shard.first :][: len(shard.labels)])
    rows = np.concatenate([shard.data for shard in shards]) if likelihood.imputed.size else X
    return content, rows, shards


@pytest.fixture
def content(example):
    return example[0]


@pytest.fixture
def terms(example):
    """[n, F]: of all rows."""
    content, rows, _ = example
    return np.asarray(content.likelihood.terms(rows))


@pytest.fixture
def hyper(content):
    return content.start()


def dense(statistics):
    return statistics.toarray() if sparse.issparse(statistics) else np.asarray(statistics)


def atoms(content, shards):
    """(counts, statistics) of the atoms of all shards, as the table of a state has them."""
    one, other = (content.count(shard, K) for shard in shards)
    return one.counts + other.counts, content.stacked([one.statistics + other.statistics])


def by_atom(labels, size):
    return (labels[None, :] == np.arange(size)[:, None]).astype(float)


def test_every_content_has_an_example():
    assert set(EXAMPLES) == set(CONTENTS)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_likelihood_finds_its_content(kind, name):
    content = content_of(EXAMPLES[kind][name][1], "float32")
    assert type(content) is kind
    assert content.dtype == "float32"


@pytest.mark.parametrize("form", FORMS)
def test_every_device_has_its_kernel(content, form):
    assert all(content.kernel(form) in kernels for kernels in KERNELS.values())
    assert content.jump_interval(form, N) >= 1


def test_statistics_add_up_over_shards(example, terms):
    content, _, shards = example
    counts, statistics = atoms(content, shards)
    assert counts.tolist() == np.bincount(LABELS).tolist()
    np.testing.assert_allclose(dense(statistics), by_atom(LABELS, K) @ terms)
    again = content.stacked([content.from_dense(dense(statistics))])
    np.testing.assert_array_equal(dense(again), dense(statistics))


@pytest.mark.parametrize("size", [0, 1, K])
def test_statistics_are_cut_and_put_together(example, size):
    content, _, shards = example
    whole = content.count(shards[0], K).statistics
    parts = content.cut(whole, size)
    assert [dense(content.stacked([part])).shape[0] for part in parts] == [size, K - size]
    np.testing.assert_array_equal(dense(content.stacked(list(parts))), dense(content.stacked([whole])))


def test_tables_are_rows_that_add_up_to_their_atoms(example, terms):
    content, _, shards = example
    total = 0.0
    for shard in shards:
        own = slice(shard.first, shard.first + len(shard.labels))
        rows = content.table_rows(shard, TABLES[own], 9)
        table = sparse.csr_matrix(
            (rows.values, rows.indices, rows.indptr), (9, content.of_tables(content.start()).n_terms)
        )
        total = total + table.toarray()
    members = by_atom(TABLES, 9)
    np.testing.assert_allclose(total, content.sums(members.sum(1), _like(content, members @ terms)), atol=1e-12)
    counts, statistics = atoms(content, shards)
    found, back = content.parts(content.sums(counts, statistics))
    assert found.tolist() == counts.tolist()
    np.testing.assert_allclose(dense(back), dense(statistics))


def _like(content, statistics):
    """Dense statistics as a table of the content's own kind."""
    return content.stacked([content.from_dense(statistics)])


def test_moves_of_tables_see_the_likelihood_of_their_rows(example, hyper):
    content, _, shards = example
    (counts, statistics), likelihood, own = atoms(content, shards), content.at(hyper), content.of_tables(hyper)
    counts, sums, n_tables = counts.astype(float), content.sums(counts, statistics), np.arange(1.0, K + 1.0)
    i, j = np.triu_indices(K, 1)
    merged = likelihood.log_marginal(counts[i] + counts[j], statistics[i] + statistics[j])
    alone = likelihood.log_marginal(counts, statistics)
    gains = merged - alone[i] - alone[j]
    np.testing.assert_allclose(own.merge_gains(n_tables, sums, i, j), gains, rtol=1e-6, atol=1e-8)
    marginals = [own.log_marginal(n_tables[at], sums[at]) for at in (i, j)]
    np.testing.assert_allclose(
        own.log_marginal(n_tables[i] + n_tables[j], sums[i] + sums[j]) - sum(marginals), gains, rtol=1e-6, atol=1e-6
    )
    bias, eta = likelihood.natural(likelihood.centre(counts, statistics))
    none, slopes = own.natural(own.centre(n_tables, sums))
    assert not none.any()
    np.testing.assert_allclose(sums @ slopes.T, dense(statistics) @ eta.T + counts[:, None] * bias, rtol=1e-9)
    coarse, which = own.coarse()
    assert coarse.n_terms == len(which) <= own.n_terms


def test_hyper_parameters_move_within_their_likelihood(example, hyper):
    content, _, shards = example
    counts, statistics = atoms(content, shards)
    now, rng, seen = hyper, np.random.default_rng(0), set()
    for _ in range(20):
        now = content.update(now, counts, statistics, rng)
        assert isinstance(now, ContentHyper)
        assert now.base.shape == hyper.base.shape
        assert np.isfinite(content.at(now).log_evidence(counts.astype(float), statistics))
        assert all(np.isfinite(value) for value in content.scalars(now).values())
        seen.add(now.eta)
    assert len(seen) == (20 if isinstance(getattr(content.likelihood, "prior", None), Gamma) else 1)


@pytest.mark.parametrize("lone", [False, True])
def test_a_round_instantiates_the_atoms_that_rows_may_use(example, hyper, lone):
    content, _, shards = example
    counts, statistics = atoms(content, shards)
    table = DishTable(counts, counts, statistics, np.full(K, -1))
    roles = Roles(np.array([2, 0]), np.array([3]), np.array([1]), 2, lone)
    drawn = content.instantiate(hyper, table, roles, np.ones(5), RoundSeed(4, 1), in_this_thread)
    bias, eta = content.likelihood.natural(content.parameters(drawn.usable))
    assert len(bias) == len(eta) == roles.n_mobile + lone
    assert np.isfinite(eta).all()
    if content.likelihood.imputed.size:
        assert {len(value) for value in drawn.parameters.values()} == {K + roles.n_extra}
    else:
        assert drawn.parameters is None


def test_predictions(example, terms, hyper):
    content, rows, shards = example
    counts, statistics = atoms(content, shards)
    draw = Draw(counts, counts, statistics, GroupHyper((), hyper), np.ones(K + 1))
    likelihood, counts = content.at(hyper), counts.astype(float)
    with_new = np.append(counts, 0.0), np.vstack([dense(statistics), np.zeros(terms.shape[1])])
    expected = likelihood.log_predictive(*with_new, rows) + likelihood.log_base(rows)
    table, index, scale = content.predictives(draw, rows)
    np.testing.assert_allclose(np.log(table[index]).T + scale, expected, rtol=1e-6, atol=1e-6)
    parameters = likelihood.draw(counts, statistics, np.random.default_rng(1))
    logs = content.log_densities(draw, parameters, rows)
    bias, eta = likelihood.natural(parameters)
    np.testing.assert_allclose(logs[:, :-1].T, bias[:, None] + eta @ terms.T + likelihood.log_base(rows), rtol=1e-9)
    np.testing.assert_allclose(logs[:, -1], expected[-1], rtol=1e-6, atol=1e-6)
