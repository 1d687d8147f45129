"""Moves of whole topics: exact by themselves and in the round, in both forms, the same on every engine; they travel."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest
from franchise_geweke import Joint
from franchise_geweke import check as check_joint
from franchise_problems import problem
from franchise_truth import GroupedRun, check

from unbounded import HierarchicalDirichletProcess, datasets
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.engines.local import Serial, restore, state_of
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.likelihoods import Gaussian
from unbounded.models.groups import jump
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.model import FORMS, HybridGroups
from unbounded.models.groups.words import cuts
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.mixtures.jump import Jumps
from unbounded.round import rounds
from unbounded.setup import Setup

OFTEN = Jumps(every=1, share=1.0, passes=2, joined=0.4, merges=4, coin=0.4)
SHORT = [
    ("words", "fixed", GroupedRun("direct", Ghosts(), 3, chains=16, rounds=50, alone=True)),
    ("bernoulli", "sampled", GroupedRun("franchise", Ghosts(), 2, chains=16, rounds=40)),
]
SHORT = [(case, measure, replace(run, options=(("jumps", replace(OFTEN, merges=2)),))) for case, measure, run in SHORT]


def names(parameters):
    case, measure, run = parameters
    return f"{case}-{measure}-{run}"


@pytest.mark.parametrize("parameters", SHORT, ids=names)
def test_jumps_agree_with_enumeration(parameters):
    case, measure, run = parameters
    verdict = check(problem(case, measure), run)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("n_shards", [1, 2, 3])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", ["bernoulli", "gaussian", "hole", "words"])
def test_jumps_alone_agree_with_enumeration_at_length(case, form, n_shards):
    """The franchise keeps who sits with whom, so that alone it needs many starts."""
    chains, n_rounds = (60, 200) if form == "direct" else (600, 20)
    for more in ({}, {"share": 0.4, "pool": 3}):
        options = (("jumps", replace(OFTEN, **more)),)
        run = GroupedRun(form, Ghosts(), n_shards, chains=chains, rounds=n_rounds, options=options, alone=True)
        verdict = check(problem(case, "fixed"), run)
        print(case, form, n_shards, more, verdict)
        assert not set(verdict.failures) - ({"slow"} if form == "franchise" or case == "hole" else set()), str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("n_shards", [1, 2, 3])
@pytest.mark.parametrize(("case", "alone"), [("words", True), ("words", False), ("words-both", False)])
def test_jumps_of_tokens_agree_with_enumeration_at_length(monkeypatch, case, alone, n_shards):
    monkeypatch.setattr(jump, "tokens_due", lambda model, turn: True)
    monkeypatch.setattr(cuts, "WIDE", 2.0)  # so that beta's cut matters more
    run = GroupedRun("direct", Ghosts(), n_shards, chains=60, rounds=200, options=(("jumps", OFTEN),), alone=alone)
    verdict = check(problem(case, "fixed"), run)
    print(case, alone, n_shards, verdict)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("measure", ["fixed", "sampled"])
@pytest.mark.parametrize("case", ["bernoulli", "gaussian", "hole", "words", "words-eta", "words-both"])
def test_rounds_with_jumps_agree_with_enumeration_at_length(case, measure, form):
    for seed, (rule, n_shards) in enumerate(product((Ghosts(), OneOpen(), Ghosts(2)), (1, 2))):
        run = GroupedRun(form, rule, n_shards, chains=48, rounds=120, seed=seed, options=(("jumps", OFTEN),))
        verdict = check(problem(case, measure), run)
        print(case, measure, run, verdict)
        assert verdict.passed, f"{run} {verdict}"


JOINT = [Joint(form, kind, Ghosts(), 2, jumps=OFTEN) for form in FORMS for kind in ("words", "learned", "gaussian")]


@pytest.mark.long
@pytest.mark.parametrize("joint", JOINT, ids=str)
def test_prior_and_successive_conditional_agree(joint):
    verdict = check_joint(replace(joint, replicates=60, rounds=200, seed=7))
    print(joint, verdict)
    assert verdict.passed, str(verdict)


# ---- larger data


def documents(form, n_documents=250, n_shards=3, jumps=Jumps(every=1, share=1.0)):  # noqa: B008
    data = datasets.topics(n_documents, 40, 120, 6, seed=1)
    likelihood = Tokens(0.05).bind(describe(data.X))
    setup = Setup(HierarchicalMeasure(1.0, 1.0), likelihood, np.full(n_documents, 40), n_shards, 5)
    return data.words, data.labels, HybridGroups(setup, form, jumps=jumps)


def grouped_rows(form, n=600, n_shards=3):
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(6, 0.3), 20)
    labels = np.concatenate([rng.choice(6, n // 20, p=p) for p in shares])
    X = 4.0 * rng.normal(size=(6, 3))[labels] + rng.normal(size=(n, 3))
    setup = Setup(HierarchicalMeasure(), Gaussian().bind(describe(X)), np.full(20, n // 20), n_shards, 5)
    return X, labels, HybridGroups(setup, form, jumps=Jumps(every=1, share=1.0))


def chain(rows, labels, model, n_rounds, engine="serial", workers=None):
    held = build(engine, model.recipe(rows), workers)
    states = []
    for state in islice(rounds(model, held, model.begin(held, labels)), n_rounds):
        states.append((model.assignments(state, held), state.table.counts, state.table.tables))
    held.close()
    return states


def matched(labels, truth, least):
    """True topics with a topic of their own: it has most of their rows, and they have most of its."""
    table = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(table, (labels, truth), 1)
    own, pure = table.max(0) > least * table.sum(0), table.max(1) > least * table.sum(1)
    return int((own & pure[table.argmax(0)]).sum())


@pytest.mark.parametrize("start", ["one", "many"])
def test_chains_of_words_find_the_topics_from_any_start(start):
    words, truth, model = documents("direct")
    labels = np.zeros_like(truth) if start == "one" else np.random.default_rng(0).integers(30, size=len(truth))
    assert matched(chain(words, labels, model, 40)[-1][0], truth, 0.5) >= 5  # of 6, some of which are small
    assert matched(chain(words, labels, replace(model, jumps=None), 40)[-1][0], truth, 0.5) < 5


def test_chains_of_rows_find_the_atoms_from_one():
    X, truth, model = grouped_rows("direct")
    assert matched(chain(X, np.zeros_like(truth), model, 50)[-1][0], truth, 0.8) >= 4
    assert matched(chain(X, np.zeros_like(truth), replace(model, jumps=None), 50)[-1][0], truth, 0.8) < 4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [documents, grouped_rows])
def test_states_after_jumps_are_those_of_the_labels(make, form):
    rows, truth, model = make(form)
    engine = build("serial", model.recipe(rows))
    state = next(islice(rounds(replace(model, jumps=None), engine, model.begin(engine, truth // 2)), 2, None))
    jumped = model.jump(state, engine)
    labels = model.assignments(jumped, engine)
    counts, (_, tables, statistics, owner) = np.bincount(labels), jumped.table
    assert len(counts) == len(jumped.occupied) >= 3
    assert (counts == jumped.table.counts).all()
    found = model.count(engine, tables, jumped.hyper, jumped.round).table
    assert (found.counts == counts).all()
    assert (found.owner == owner).all()
    np.testing.assert_allclose(abs(found.statistics - statistics).max(), 0.0, atol=1e-8)
    groups = len(np.unique(np.repeat(np.arange(len(model.sizes)), model.sizes) * 1000 + labels))
    assert groups <= tables.sum() <= len(labels)
    if form == "franchise":
        dishes = engine.map(dishes_of)
        assert (np.bincount(np.concatenate(dishes), minlength=len(counts)) == tables).all()
    assert all("at" not in arrays for arrays in engine.save())


def dishes_of(shard):
    """Of every table; what is on the table is what its rows have."""
    place = np.repeat(shard.offsets[:-1], np.diff(shard.offsets)) + shard.seats
    assert (shard.dishes[place] == shard.labels).all()
    return shard.dishes[np.unique(place)]


class Forgetful(Serial):
    """After every call all shards are made anew, from what must be kept of them."""

    def __init__(self, recipe):
        super().__init__(recipe)
        self._recipe = recipe

    def _anew(self, answer):
        parts = [state_of(shard) for shard in self._shards]
        self._shards = [self._recipe(p) for p in range(len(parts))]
        for shard, part in zip(self._shards, parts, strict=True):
            restore(shard, part)
        return answer

    def map(self, function, own=None):
        return self._anew(super().map(function, own))

    def run(self, step, message):
        return self._anew(super().run(step, message))


@pytest.mark.parametrize("form", FORMS)
def test_shards_keep_all_that_jumps_need(form):
    words, truth, model = documents(form, 60)
    held = Forgetful(model.recipe(words))
    states = [
        model.assignments(state, held)
        for state in islice(rounds(model, held, model.begin(held, truth // 3)), 4)
    ]  # fmt: skip
    for one, other in zip(states, chain(words, truth // 3, model, 4), strict=True):
        assert np.array_equal(one, other[0])


@pytest.mark.parametrize("form", FORMS)
def test_engines_jump_alike(form):
    words, truth, model = documents(form, 60)
    runs = [chain(words, truth // 3, model, 6, *engine) for engine in (("serial",), ("threads", 3), ("processes", 2))]
    assert len(runs[0][-1][1]) > 2
    for other in runs[1:]:
        for one, two in zip(runs[0], other, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_jumps_that_would_be_dropped_are_refused():
    X = datasets.topics(20, 10, 20, 3).X
    for others in ({"sampler": "collapsed"}, {"instantiate": "published-cold"}):
        with pytest.raises(ValueError, match="has none with this rule and likelihood"):
            HierarchicalDirichletProcess(jumps=Jumps(), **others).fit(X)
    with pytest.raises(ValueError, match="jumps must be True, False, Jumps"):
        HierarchicalDirichletProcess(jumps="often").fit(X)
