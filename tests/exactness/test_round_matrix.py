"""The theorem of docs/theory.md by arithmetic: transition matrices of rounds; and the library's rounds are these."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from enumeration import Run, canonical
from problems import MEASURES, problem
from round_matrix import Model, Rule, matrix, stationary
from scipy import stats

from unbounded.engines import build
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.models.mixtures.samplers import DIRICHLET
from unbounded.round import rounds

LAWS = {
    name: (float(MEASURES[name].concentration), float(MEASURES[name].discount)) for name in ("dp", "py", "py-negative")
}
DATA = np.random.default_rng(0).uniform(0.2, 1.8, (2, 4))  # likelihoods of four rows under two values of a parameter
QUADRATURE = 1e-6  # its error, far above what 40 nodes leave


def model(law: str = "dp", n: int = 4, flat: bool = False) -> Model:
    if flat:
        return Model(*LAWS[law], np.ones((1, n)), np.ones(1))
    return Model(*LAWS[law], DATA[:, :n], np.array([0.4, 0.6]))


def lone(law: Model, shards: tuple[int, ...], **options: int) -> np.ndarray:
    """The open shard is drawn, whatever the labels are."""
    return np.mean([matrix(law, Rule(shards, lone=p, **options)) for p in sorted(set(shards))], axis=0)


def moved(law: Model, transitions: np.ndarray) -> float:
    """By how much a round changes the posterior."""
    return float(np.abs(law.posterior @ transitions - law.posterior).max())


def connects(transitions: np.ndarray) -> bool:
    """Whether the chain gets from every state to every other."""
    steps = transitions > 1e-12
    return bool((np.linalg.matrix_power((steps | np.eye(len(steps), dtype=bool)).astype(float), len(steps)) > 0).all())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shards", [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 2)], ids=str)
def test_a_round_with_a_ghost_keeps_the_posterior_and_goes_everywhere(law, shards):
    transitions = matrix(model(law), Rule(shards))
    assert moved(model(law), transitions) < QUADRATURE
    assert connects(transitions)


def test_two_ghosts_two_weights():
    assert moved(model("dp"), matrix(model("dp"), Rule((0, 0, 1, 1), 2, nodes=20))) < QUADRATURE
    assert moved(model("py", 3), matrix(model("py", 3), Rule((0, 1, 1), 2, nodes=16))) < 10 * QUADRATURE


@pytest.mark.parametrize("law", LAWS)
def test_without_ghosts_one_shard_is_enough_and_two_are_stuck(law):
    """What is frozen stays so for ever; the posterior is kept all the same, and nobody finds it."""
    one, two = (matrix(model(law), Rule(shards, 0)) for shards in ((0, 0, 0, 0), (0, 0, 1, 1)))
    assert max(moved(model(law), one), moved(model(law), two)) < QUADRATURE
    assert connects(one)
    assert not connects(two)
    assert two[0, 0] == pytest.approx(1.0)  # all rows together, on two shards


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ghosts", [0, 1])
def test_one_open_shard_keeps_the_posterior(law, ghosts):
    """Drawn afresh each round, it needs no ghosts to go everywhere; one that is always the same does."""
    three = model(law, 3)
    assert moved(three, lone(three, (0, 1, 1), ghosts=ghosts, nodes=16)) < 100 * QUADRATURE
    assert connects(lone(three, (0, 1, 1), ghosts=ghosts, nodes=16))
    assert not connects(matrix(three, Rule((0, 1, 1), ghosts, lone=0, nodes=16)))


def distance(law: Model, transitions: np.ndarray) -> float:
    """Total variation between the law that a chain settles in and the posterior."""
    return float(np.abs(stationary(transitions) - law.posterior).sum() / 2)


def test_the_published_rule_by_arithmetic():
    """4/7 for two rows; with data it is wrong on one shard, too, and with fewer atoms instantiated, but for none."""
    two = model("dp", 2, flat=True)
    np.testing.assert_allclose(lone(two, (0, 1), several=0), [[2 / 3, 1 / 3], [4 / 9, 5 / 9]], atol=1e-4)
    three, four = model("dp", 3), model("dp", 4)
    assert distance(model("dp", 3, flat=True), lone(model("dp", 3, flat=True), (0, 0, 0), several=0, nodes=24)) < 1e-4
    assert distance(three, lone(three, (0, 0, 0), several=0, nodes=12)) > 0.004
    assert distance(three, lone(three, (0, 0, 1), several=0, nodes=12)) > 0.1
    assert distance(four, lone(four, (0, 0, 0, 0), several=1, nodes=12)) > 0.02
    assert distance(four, lone(four, (0, 0, 0, 0), several=2, nodes=12)) > 0.05
    assert distance(four, lone(four, (0, 0, 0, 0), several=4, nodes=12)) < 1e-9


SAME = [
    ("dp", Ghosts(1), {"ghosts": 1}),
    ("py-negative", Ghosts(1), {"ghosts": 1}),
    ("py", OneOpen(1), {"ghosts": 1, "nodes": 12}),
    ("dp", AsPublished("cold"), {"several": 0, "nodes": 16}),
    ("py", AsPublished("cold", "several"), {"several": 1, "nodes": 12}),
]


@pytest.mark.parametrize(("name", "rule", "options"), SAME, ids=str)
def test_rounds_of_the_library_are_these(name, rule, options):
    """Not only its stationary law: how often it goes from each partition to each other one."""
    n, n_rounds, shards = 3, 1500, (0, 1, 1)  # cut as the library cuts three rows in two
    law = model(name, n, flat=True)
    expected = matrix(law, Rule(shards, **options)) if isinstance(rule, Ghosts) else lone(law, shards, **options)
    tiny = problem("flat", name, n)
    chain = Run(rule, 2, rounds=n_rounds).model(DIRICHLET, tiny.measure, tiny.likelihood, n, 5)
    engine = build("serial", chain.recipe(tiny.X))
    now, seen = 0, np.zeros_like(expected)
    for state in islice(rounds(chain, engine, chain.begin(engine, np.zeros(n, int))), n_rounds):
        after = law.states.index(canonical(chain.assignments(state, engine)))
        seen[now, after] += 1
        now = after
    engine.close()
    mean = seen.sum(axis=1, keepdims=True) * expected
    asked = mean > 5
    error = (((seen - mean) ** 2)[asked] / mean[asked]).sum()
    assert stats.chi2.sf(error, asked.sum()) > 1e-5  # rows add up, so that the degrees of freedom are fewer
    assert seen[expected < 1e-12].sum() == 0


def test_small_errors_of_a_round_are_small_errors_of_its_law():
    """The bound of the page, on kernels that are off by a little at random."""
    law = model("dp")
    transitions, rng = matrix(law, Rule((0, 0, 1, 1))), np.random.default_rng(1)
    for size in (1e-3, 1e-2):
        other = transitions * np.exp(size * rng.standard_normal(transitions.shape))
        other /= other.sum(axis=1, keepdims=True)
        each = np.abs(other - transitions).sum(axis=1).max() / 2
        t, power = 8, np.linalg.matrix_power(transitions, 8)
        beta = np.abs(power[:, None] - power).sum(axis=2).max() / 2
        assert 0 < distance(law, other) <= t * each / (1 - beta)
