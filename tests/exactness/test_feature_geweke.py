"""Joint tests of feature models with sampled hyper-parameters and scales."""

from __future__ import annotations

import numpy as np
import pytest
from enumeration import judge
from feature_geweke import Joint, Many, buffet, check, check_many
from feature_problems import LAWS
from feature_truth import SOME, Law, patterns

from unbounded.instantiation import AsPublished, Ghosts, OneOpen

SHORT = [
    Joint("bb", "level", Ghosts(), 3, jumps=SOME),
    Joint("gp", "gaussian", Ghosts(2), 2, holes=True),
    Joint("bnb", "intercept", Ghosts(), 1),
    Joint("bb", "poisson", Ghosts(), 2),
    Joint("gp", "poisson", OneOpen(), 3, holes=True),
]
LONG = [
    Joint(kind, rows, rule, n_shards, sweeps, holes, 60, 300, 1, SOME if n_shards > 1 else None)
    for kind in ("bb", "gp", "bnb")
    for rows in ("gaussian", "intercept", "level", "poisson")
    for rule, n_shards, sweeps, holes in (
        (Ghosts(0), 1, 1, False), (Ghosts(), 3, 2, True), (Ghosts(1), 5, 1, False), (OneOpen(), 3, 1, True)
    )
]  # fmt: skip


@pytest.mark.parametrize("joint", [*SHORT, *(pytest.param(joint, marks=pytest.mark.long) for joint in LONG)], ids=str)
def test_prior_and_successive_conditional_agree(joint):
    verdict = check(joint)
    assert verdict.passed, str(verdict)


def test_the_published_rule_fails():
    verdict = check(Joint("bb", "gaussian", AsPublished("cold"), 3, replicates=20, rounds=30), n_draws=3000)
    assert not verdict.passed
    assert verdict.largest > 8, str(verdict)


@pytest.mark.parametrize("name", ["bb-2", "gp-1", "bnb-1", "bnb-2"])
def test_the_textbook_prior_has_the_rates_of_its_columns(name):
    law, rng = LAWS[name], np.random.default_rng(0)
    v = patterns(3, 3)
    if law.kind == "bb":
        v = v[v.max(axis=1) == 1]
    asked = v[np.argsort(-law.log_rate(v))[:12]]
    seen = []
    for _ in range(4000):
        columns = buffet(law.kind, law.alpha, law.c, law.r, 3, rng).T
        seen.append([*((columns == pattern).all(axis=1).sum() for pattern in asked), len(columns)])
    truth = np.append(np.exp(law.log_rate(asked)), law.total(3))
    verdict = judge([*map(str, asked), "K"], np.array(seen, float), truth)
    assert verdict.passed, str(verdict)


MANY = [
    Many(Law("bb", 1.4, 2.0), Ghosts(20), 1, 16),
    Many(Law("bb", 1.8, 1.0), Ghosts(), 3, 7),
    Many(Law("gp", 1.8, 2.0), OneOpen(), 2, 16),
    Many(Law("bnb", 0.8, 6.0, 0.6), Ghosts(20), 2),
]


@pytest.mark.parametrize("many", MANY, ids=str)
def test_many_rows_without_data_follow_the_prior(many):
    verdict = check_many(many)
    assert verdict.passed, str(verdict)
