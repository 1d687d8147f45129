"""Cuts and merges of clusters: exact by themselves and in the round, the same on every engine, and they travel."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from enumeration import Run
from enumeration import check as check_round
from jumps import Moves, check
from problems import problem

from unbounded import DirichletProcessMixture
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.likelihoods import Gaussian
from unbounded.models.labelled import halves
from unbounded.models.mixtures import merges
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.round import rounds
from unbounded.setup import Setup

ALONE = [
    ("gaussian-1", "py", 4, Moves("cut", 3, share=0.4, strict=True, chains=60, rounds=80)),
    ("bernoulli", "py-negative", 4, Moves("cut", 4, pool=3, rounds=60)),
    ("gaussian-1", "py", 4, Moves("near", 3, share=0.6, chains=24, rounds=100)),
    ("gaussian-1", "py", 4, Moves("coin", 1, rounds=100)),
    ("gaussian-1", "py", 4, Moves("seeds", 3, rounds=100)),
    ("multinomial-csr", "dp", 4, Moves("all", 2, rounds=40)),
    ("mixed-holes", "py", 4, Moves("both", 2, strict=True, rounds=40)),
    ("poisson-holes", "dp", 4, Moves("both", 1, device="reference", chains=24, rounds=40)),
]
LONG = (
    "gaussian-1", "gaussian-2", "gaussian-6", "diagonal-holes", "bernoulli", "categorical-holes", "poisson",
    "multinomial-csr", "mixed-holes",
)  # fmt: skip
EVERY = Jumps(every=1, joined=0.3, coin=0.3, merges=3)
ROUNDS = [
    ("gaussian-hole", "py", 4, Run(Ghosts(), 2, rounds=40, options=(("jumps", replace(EVERY, pairs=0)),))),
    ("bernoulli", "py-sampled", 4, Run(OneOpen(), 3, rounds=40, options=(("jumps", EVERY),))),
]


def names(parameters):
    case, measure, n, moves = parameters
    how = (
        f"{moves.kind}-P{moves.n_shards}-share{moves.share}-pool{moves.pool}"
        if isinstance(moves, Moves)
        else moves.rule
    )
    return f"{case}-{measure}-n{n}-{how}"


@pytest.mark.parametrize("parameters", ALONE, ids=names)
def test_moves_alone_agree_with_enumeration(parameters):
    case, measure, n, moves = parameters
    verdict = check(problem(case, measure, n), moves)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("parameters", ROUNDS, ids=names)
def test_rounds_with_moves_agree_with_enumeration(parameters, monkeypatch):
    monkeypatch.setattr(merges, "SEEDS", (0, 1, 2))
    case, measure, n, run = parameters
    verdict = check_round(problem(case, measure, n), run)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("n_shards", [1, 2, 3, 5])
@pytest.mark.parametrize("measure", ["dp", "py", "py-negative"])
@pytest.mark.parametrize("case", LONG)
def test_moves_agree_with_enumeration_at_length(case, measure, n_shards):
    for kind in ("cut", "near", "coin", "seeds", "all"):
        for more in ({}, {"share": 0.4, "pool": 3, "strict": True}):
            verdict = check(problem(case, measure), Moves(kind, n_shards, rounds=400, **more))
            print(case, measure, kind, n_shards, more, verdict)
            assert not set(verdict.failures) - {"slow"}, f"{kind} {more} {verdict}"


# ---- larger data


def blobs(n, d, k, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    return 3.0 * rng.normal(size=(k, d))[labels] + rng.normal(size=(n, d)), labels


OFTEN = Jumps(every=1, joined=0.2)


def chain(X, labels, n_rounds, engine="serial", workers=None, device="cpu", dtype="float64", jumps=OFTEN):
    likelihood = Gaussian().bind(describe(X))
    setup = Setup(DirichletProcess(), likelihood, len(X), 3, 5, dtype=dtype, device=device)
    model = HybridMixture(setup, jumps=jumps)
    held = build(engine, model.recipe(X), workers)
    states = []
    for state in islice(rounds(model, held, model.begin(held, labels)), n_rounds):
        states.append((model.assignments(state, held), state.table.counts, state.table.statistics))
    held.close()
    return states


@pytest.mark.parametrize("start", ["one", "pairs", "thirds"])
def test_chains_find_the_clusters_from_any_start(start):
    X, truth = blobs(1500, 8, 8, 1)
    labels = {
        "one": np.zeros_like(truth),
        "pairs": truth // 2,
        "thirds": 3 * truth + np.random.default_rng(2).integers(3, size=len(X)),
    }
    last = chain(X, labels[start], 40)[-1][0]
    table = np.zeros((last.max() + 1, 8))
    np.add.at(table, (last, truth), 1)
    assert (table.max(axis=0) > 0.95 * np.bincount(truth)).all()
    assert (table.max(axis=1) > 0.95 * table.sum(axis=1))[table.sum(axis=1) > 15].all()
    assert (table.sum(axis=1) > 15).sum() == 8


@pytest.mark.parametrize("seed", [2, 3])
def test_halves_that_overlap_are_found_in_a_cluster_that_is_small_beside_all_data(seed):
    """A pool of 96 rows has 50 of the two, and the prior is as wide as the ring around them."""
    rng = np.random.default_rng(seed)
    angles = np.pi / 4 * np.repeat(np.arange(8), 200)
    middle = np.column_stack([np.zeros(2000), np.where(np.arange(2000) < 1200, 0.0, 3.2)])
    centres = np.concatenate([16.0 * np.column_stack([np.cos(angles), np.sin(angles)]), middle])
    X = centres + rng.normal(size=centres.shape)
    labels = np.append(np.repeat(np.arange(8), 200), np.full(2000, 8))
    *_, (last, counts, _) = chain(X, labels, 40, jumps=Jumps(every=1, pool=96, pairs=0))
    assert (counts > 100).sum() == 10
    upper = np.bincount(last[2800:]).argmax()
    assert (last[1600:2800] == upper).mean() < 0.2 < 0.8 < (last[2800:] == upper).mean()


def test_statistics_after_moves_are_those_of_the_labels():
    X, truth = blobs(600, 9, 6, 3)
    likelihood = Gaussian().bind(describe(X))
    model = HybridMixture(Setup(DirichletProcess(), likelihood, len(X), 3, 5), jumps=None)
    engine = build("serial", model.recipe(X))
    state = model.begin(engine, truth // 2)
    jumped = HybridMixture(model.setup, jumps=Jumps(every=1, share=1.0)).jump(state, engine)
    labels = model.assignments(jumped, engine)
    assert labels.max() + 1 == len(jumped.table.counts) > 3
    assert (np.bincount(labels) == jumped.table.counts).all()
    terms = likelihood.terms(X)
    sums = np.stack([terms[labels == k].sum(0) for k in range(labels.max() + 1)])
    np.testing.assert_allclose(jumped.table.statistics, sums, rtol=1e-9, atol=1e-7)
    homes = np.searchsorted(np.array([200, 400]), np.arange(600), side="right")
    for k, owner in enumerate(jumped.table.owner):
        shards = np.unique(homes[labels == k])
        assert owner == (shards[0] if len(shards) == 1 else -1)


def test_engines_cut_alike():
    X, truth = blobs(400, 3, 6, 4)
    runs = [chain(X, truth // 3, 12, *engine) for engine in (("serial",), ("threads", 3), ("processes", 2))]
    for other in runs[1:]:
        for one, two in zip(runs[0], other, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("d", [3, 9])
def test_the_reference_kernel_and_passes_over_few_rows_cut_alike(d, monkeypatch):
    X, truth = blobs(90, d, 4, 5)
    few, slow = (chain(X, truth // 2, 5, device=device) for device in ("cpu", "reference"))
    monkeypatch.setattr(halves, "FEW", 0)
    fast = chain(X, truth // 2, 5)
    for one, two, three in zip(fast, slow, few, strict=True):
        assert np.array_equal(one[0], two[0])
        assert np.array_equal(one[0], three[0])


def test_published_chains_have_no_such_moves():
    from unbounded.instantiation import AsPublished

    X, truth = blobs(300, 3, 4, 6)
    model = HybridMixture(Setup(DirichletProcess(), Gaussian().bind(describe(X)), len(X), 2, 5), AsPublished("cold"))
    engine = build("serial", model.recipe(X))
    state = model.begin(engine, truth // 2)
    assert model.jump(state, engine) is state


def test_jumps_that_would_be_dropped_are_refused():
    X, _ = blobs(60, 2, 2, 7)
    for others in ({"sampler": "collapsed"}, {"instantiate": "published-cold"}):
        with pytest.raises(ValueError, match="has none with this rule and likelihood"):
            DirichletProcessMixture(jumps=Jumps(), **others).fit(X)
    with pytest.raises(ValueError, match="jumps must be True, False, Jumps"):
        DirichletProcessMixture(jumps="often").fit(X)
    with pytest.raises(ValueError, match="joined must be between 0 and 1"):
        Jumps(joined=1.5)
