"""Every kernel of groups gives the labels of every other: the same random numbers, and all else but rounding."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy import sparse

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import MEMBERS, resolve
from unbounded.models.groups.estimator import CHOICES
from unbounded.models.groups.kernels import KERNELS
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.samplers import HIERARCHICAL
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.round import rounds
from unbounded.setup import Setup, build_sampler

rng = np.random.default_rng(4)
SIZES = np.array([9, 4, 0, 12, 1, 10])
N, N_WORDS = int(SIZES.sum()), 7
GROUP = np.repeat(np.arange(len(SIZES)), SIZES)
TOPIC = rng.integers(0, 3, N)
PLANE = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])[TOPIC] + rng.normal(size=(N, 2))
HOLED = np.where(rng.random((N, 2)) < 0.1, np.nan, PLANE)
WORDS = ((2 * TOPIC + rng.integers(0, 4, N)) % N_WORDS).astype(np.int32)
TABLE = sparse.csr_matrix((np.ones(N), (GROUP, WORDS)), shape=(len(SIZES), N_WORDS))
CONTENTS = {
    "gaussian": (PLANE, resolve("gaussian").bind(describe(PLANE))),
    "gaussian-holes": (HOLED, resolve("gaussian").bind(describe(HOLED))),
    Tokens.name: (WORDS, Tokens().bind(describe(TABLE))),
}
RULES = [Ghosts(), Ghosts(2), Ghosts(80), OneOpen(3), AsPublished("cold"), AsPublished("hot")]
OTHERS = [
    (device, content, form)
    for device in KERNELS
    for content in CONTENTS
    for form in ("direct", "franchise")
    if device != "cpu" and form in KERNELS[device]
]


def chain(device, content, form, rule=RULES[0], sampler="hybrid", n_rounds=8):
    """Labels and tables after every round, from many atoms: some are born, shared, frozen, and die."""
    X, likelihood = CONTENTS[content]
    shards = HIERARCHICAL[sampler].shards(3)
    setup = Setup(HierarchicalMeasure(), likelihood, SIZES, shards, 5, n_rounds=n_rounds, sweeps=2, device=device)
    model = build_sampler(HIERARCHICAL, sampler, setup, rule, form=form)
    engine = build("serial", model.recipe(X))
    states = islice(rounds(model, engine, model.begin(engine, np.arange(N) % 9)), n_rounds)
    return [(model.assignments(state, engine).tolist(), state.table.tables.tolist()) for state in states]


def test_every_likelihood_that_only_groups_have_comes_to_the_test():
    assert {member.name for member in CHOICES.likelihoods if member not in MEMBERS} <= set(CONTENTS)


@pytest.mark.parametrize(("device", "content", "form"), OTHERS)
def test_kernels_give_the_same_labels_and_tables(device, content, form):
    said = chain("cpu", content, form)
    assert len({tuple(labels) for labels, _ in said}) > 1
    assert chain(device, content, form) == said


@pytest.mark.parametrize(("device", "content", "form"), [case for case in OTHERS if case[1] != "gaussian-holes"])
@pytest.mark.parametrize("rule", RULES[1:], ids=str)
def test_kernels_agree_under_every_rule(device, content, form, rule):
    assert chain(device, content, form, rule) == chain("cpu", content, form, rule)


@pytest.mark.parametrize("device", [device for device in KERNELS if device != "cpu"])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("sampler", ["collapsed", "asynchronous"])
def test_kernels_agree_in_every_sampler(device, content, sampler):
    assert chain(device, content, "direct", sampler=sampler) == chain("cpu", content, "direct", sampler=sampler)
