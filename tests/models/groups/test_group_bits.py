"""Grouped rows: the chain is a function of (data, model, seed, P, L), however it was run or stopped."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy import sparse

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.likelihoods import resolve
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.priors import Gamma
from unbounded.round import rounds
from unbounded.setup import Setup

P, ROUNDS, VOCABULARY = 4, 14, 12
rng = np.random.default_rng(8)
SIZES = np.array([30, 7, 0, 22, 1, 41, 18, 25])  # one group has no rows
N = int(SIZES.sum())
TOPIC = rng.integers(0, 3, N)
PLANE = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])[TOPIC] + rng.normal(size=(N, 2))
PLANE[rng.random(PLANE.shape) < 0.05] = np.nan
WORDS = (4 * TOPIC + rng.integers(0, 5, N)).astype(np.int32) % VOCABULARY
GROUP = np.repeat(np.arange(len(SIZES)), SIZES)
COUNTS = sparse.csr_matrix((np.ones(N), (GROUP, WORDS)), shape=(len(SIZES), VOCABULARY))
ROWS = {
    "gaussian": (PLANE, resolve("gaussian").bind(describe(PLANE))),
    "words": (WORDS, Tokens().bind(describe(COUNTS))),
    "repeats": (WORDS, Tokens(repeats_after=Gamma(1.0, 0.1)).bind(describe(COUNTS))),
}
RULES = {"ghosts": Ghosts(), "few": Ghosts(2), "one_open": OneOpen(3)}
WAYS = [("threads", 1), ("threads", 2), ("threads", 4)]
CASES = [("gaussian", "direct"), ("words", "direct"), ("words", "franchise"), ("gaussian", "franchise")]
CASES += [("repeats", "direct")]
every_case = pytest.mark.parametrize(("rows", "form"), CASES)
every_rule = pytest.mark.parametrize("rule", RULES)


class Chain:
    """A model on an engine, started from many atoms of which some are shared and some are not."""

    def __init__(self, rows, form, rule, engine="serial", workers=None, seed=5):
        X, likelihood = ROWS[rows]
        self.model = HybridGroups(
            Setup(HierarchicalMeasure(), likelihood, SIZES, P, seed, n_rounds=ROUNDS, sweeps=2),
            rule=RULES[rule],
            form=form,
            jumps=None,  # they have checks of their own
        )
        self.engine = build(engine, self.model.recipe(X), workers)

    def begin(self):
        return self.model.begin(self.engine, np.arange(N) % 5 + 5 * (GROUP == 3))

    def run(self, start, n_rounds):
        """Everything that the rounds say, and the state after the last."""
        said = []
        for state in islice(rounds(self.model, self.engine, start), n_rounds):
            seen = [{name: a.tobytes() for name, a in part.items()} for part in (state.arrays(), *self.parts())]
            said.append((seen, self.model.scalars(state), self.model.assignments(state, self.engine).tobytes()))
        return said, state

    def parts(self):
        return [{name: a.copy() for name, a in part.items()} for part in self.engine.save()]


def whole(*args, **options):
    chain = Chain(*args, **options)
    try:
        return chain.run(chain.begin(), ROUNDS)[0]
    finally:
        chain.engine.close()


@every_rule
@every_case
def test_engines_and_workers_change_no_bit(rows, form, rule):
    first = whole(rows, form, rule)
    assert len({labels for _, _, labels in first}) > 1, "the chain must move, or the test says nothing"
    assert len({scalars["n_tables"] for _, scalars, _ in first}) > 1
    for engine, workers in WAYS:
        assert whole(rows, form, rule, engine, workers) == first


@every_rule
@every_case
def test_interrupted_and_resumed_at_a_random_round(rows, form, rule):
    """What `arrays` say of the state and of the shards is all there is: another process could go on from it."""
    when = int(np.random.default_rng([*rows.encode(), *form.encode(), *rule.encode()]).integers(1, ROUNDS))
    before = Chain(rows, form, rule)
    said, state = before.run(before.begin(), when)
    kept, parts = {name: array.copy() for name, array in state.arrays().items()}, before.parts()
    after = Chain(rows, form, rule, "threads", 2)
    after.engine.load(parts)
    rest, _ = after.run(after.model.restore(kept), ROUNDS - when)
    after.engine.close()
    assert said + rest == whole(rows, form, rule)


@every_case
def test_seeds_change_the_chain(rows, form):
    assert whole(rows, form, "ghosts", seed=5) != whole(rows, form, "ghosts", seed=6)
