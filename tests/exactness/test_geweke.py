"""Joint tests with sampled hyper-parameters: the prior against the sampler by turns with fresh data."""

from __future__ import annotations

from dataclasses import replace

import pytest
from geweke import Joint, check

from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.models.mixtures import merges
from unbounded.models.mixtures.jump import Jumps

OFTEN = Jumps(every=1, joined=0.3, merges=3, coin=0.3)
SHORT = [
    Joint("dp", "bernoulli", Ghosts(), 3),
    Joint("py", "bernoulli", Ghosts(2), 2),
    Joint("dp", "gaussian", Ghosts(), 2),
    Joint("py", "gaussian", Ghosts(), 3),
    Joint("py", "gaussian", Ghosts(), 2, rounds=60, jumps=replace(OFTEN, pairs=0)),
]
LONG = [
    Joint(measure, kind, rule, n_shards, sweeps, replicates=60, rounds=400, seed=1)
    for measure in ("dp", "py")
    for kind in ("bernoulli", "gaussian")
    for rule, n_shards, sweeps in ((Ghosts(0), 1, 1), (Ghosts(), 3, 2), (Ghosts(1), 6, 1), (OneOpen(), 3, 1))
]
LONG += [replace(joint, jumps=OFTEN) for joint in LONG if joint.rule == Ghosts()]


@pytest.mark.parametrize("joint", [*SHORT, *(pytest.param(joint, marks=pytest.mark.long) for joint in LONG)], ids=str)
def test_prior_and_successive_conditional_agree(joint, monkeypatch):
    monkeypatch.setattr(merges, "SEEDS", (0, 1, 2))  # of rows so few, more would never be seeds
    verdict = check(joint)
    assert verdict.passed, str(verdict)


def test_the_published_rule_fails():
    verdict = check(Joint("dp", "bernoulli", AsPublished("cold"), 3, rounds=40), n_draws=5000)
    assert not verdict.passed
    assert verdict.largest > 8, str(verdict)
