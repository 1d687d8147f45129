"""A step on several shards gives what steps on one shard after another give, to the bit."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from unbounded import engines
from unbounded.columns import describe
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.models.features import kernel
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli, GammaPoisson
from unbounded.models.features.poisson_factors import PoissonFactors
from unbounded.round import rounds
from unbounded.setup import Setup

N, P = 66, 6
rng = np.random.default_rng(3)
CASES = {
    "gaussian": (BetaBernoulli(4.0, 1.0), LinearGaussian(noise=0.5, loading=1.0), rng.normal(size=(N, 3)) + 2.0),
    "counts": (GammaPoisson(3.0, 1.0), LinearGaussian(noise=0.7, loading=1.0), rng.normal(size=(N, 3))),
    "poisson": (BetaBernoulli(8.0, 1.0), PoissonFactors(), rng.poisson(2.0, (N, 3)).astype(float)),
}
CASES["single"] = CASES["gaussian"]


@pytest.mark.parametrize("rule", [Ghosts(2), OneOpen(5)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_several_shards_are_one_after_another(case, rule, monkeypatch):
    """With private atoms on some shards, and free slots that run out on some, after a block of rows or more: what one
    leaves, no other finds. Sums are those of the rows as they are, also where entries are drawn in single precision."""
    stopped = []
    go_on = kernel.CompiledFeatures._with_more_slots
    monkeypatch.setattr(kernel, "FREE_SLOTS", 1)
    monkeypatch.setattr(kernel, "lanes_for", lambda rows, width: 4)
    monkeypatch.setattr(
        kernel.CompiledFeatures, "_with_more_slots", lambda *words: stopped.append(words[-1]) or go_on(*words)
    )
    measure, prior, X = CASES[case]
    likelihood = prior.bind(describe(X))
    dtype = "float32" if case == "single" else "float64"
    model = HybridFeatures(Setup(measure, likelihood, N, P, 5, sweeps=2, dtype=dtype), rule=rule, jumps=None)
    engine, recipe = engines.build("serial", model.recipe(X)), model.recipe(X)
    chain = rounds(model, engine, model.begin(engine, np.zeros((N, 0), int)))
    n_private = 0
    for state in islice(chain, 0, 12):
        saved, message = engine.save(), model.global_step(state)
        several, single = ([recipe(p) for p in range(P)] for _ in range(2))
        for shards in (several, single):
            for shard, arrays in zip(shards, saved, strict=True):
                shard.restore(arrays)
        reports = list(model.local_step.steps(iter(zip(several, message.own, strict=True)), message.shared))
        others = [model.local_step(shard, message.shared, own) for shard, own in zip(single, message.own, strict=True)]
        for shard, other, report, expected in zip(several, single, reports, others, strict=True):
            np.testing.assert_array_equal(shard.Z, other.Z)
            both = [np.concatenate([report.shared[name], report.private[name]]) for name in ("members", "sums")]
            np.testing.assert_array_equal(both[0], shard.Z.sum(1))
            if likelihood.gram:  # or else sums are what entries have been given, at random
                np.testing.assert_allclose(both[1], shard.Z @ (shard.data - shard.centre), atol=1e-9)
            for name, value in expected.shared.items():
                np.testing.assert_array_equal(report.shared[name], value)
            for name, value in expected.private.items():
                np.testing.assert_array_equal(report.private[name], value)
        n_private += sum(len(own.sources) > len(message.shared.loadings) for own in message.own)
    assert n_private > 0
    assert stopped, "slots never run out"
    assert max(stopped) > 0 or rule != Ghosts(2), "slots never run out after the first block"
