"""Rivals that are not exact, and what should be right of them all the same; collapsed Gibbs of features and groups.

Enumeration sees the bias of the approximate ones. Gossip with one shard is collapsed Gibbs, exact; the finite feature
model has a posterior of its own, which can be enumerated too and tends to that of the process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import feature_problems
import feature_truth
import franchise_problems
import franchise_truth
import numpy as np
import pytest
from enumeration import Run, check
from feature_truth import SOME, FeatureRun, Posterior, Problem
from franchise_truth import GroupedRun
from problems import problem
from scipy.special import betaln, gammaln, softmax
from sklearn.metrics import adjusted_rand_score

from unbounded import (
    BetaBernoulliFeatures,
    DirichletProcessMixture,
    GammaPoissonFeatures,
    HierarchicalDirichletProcess,
    PitmanYorMixture,
    Tokens,
)
from unbounded.chain.export import FLAG
from unbounded.columns import describe
from unbounded.engines import build
from unbounded.instantiation import Ghosts
from unbounded.likelihoods import DiagonalGaussian
from unbounded.models.features.samplers import FEATURES
from unbounded.models.labelled import gossip as asynchronous
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.models.mixtures.rivals.subcluster import log_merge_ratio, log_split_ratio
from unbounded.models.mixtures.samplers import DIRICHLET
from unbounded.report.text import text
from unbounded.round import rounds
from unbounded.setup import Setup, build_sampler

ANY = Ghosts()  # what estimators pass on; rivals have no rule


def gossip(*options: Any) -> Run:
    return Run(ANY, *options, sampler="asynchronous")


def gossip_groups(*options: Any) -> GroupedRun:
    return GroupedRun("direct", ANY, *options, sampler="asynchronous")


def judged(case: str, law: str, run: Any) -> Any:
    """The verdict on a run of labels, groups or features."""
    if isinstance(run, FeatureRun):
        return feature_truth.check(feature_problems.problem(case, law, 3), run)
    if isinstance(run, GroupedRun):
        return franchise_truth.check(franchise_problems.problem(case, law), run)
    return check(problem(case, law), run)


# ---- what is exact

COLLAPSED = FeatureRun(ANY, sampler="collapsed")
EXACT = [
    ("bernoulli", "dp", gossip()),
    ("gaussian-1", "dp", gossip()),
    ("words", "fixed", gossip_groups()),
    ("gaussian-3", "bb-2", COLLAPSED),
    ("words", "fixed", GroupedRun("direct", ANY, sampler="collapsed")),
]
MORE = [
    ("bernoulli", "py", gossip(1, 2)),
    ("gaussian-1", "dp", gossip(1, 3)),
    ("bernoulli", "py-negative", gossip()),
    ("bernoulli", "py-sampled", gossip()),
    ("gaussian-hole", "dp", gossip()),
    ("mixed-holes", "py", gossip()),
    ("multinomial-csr", "dp", gossip()),
    ("words-eta", "sampled", gossip_groups(1, 2)),
    ("bernoulli", "sampled", gossip_groups()),
    ("hole", "fixed", gossip_groups(1, 2)),
    ("poisson", "bb-1", COLLAPSED),
    ("gaussian-holes", "bb-2", COLLAPSED),
    ("sharp", "bb-1", FeatureRun(ANY, sampler="collapsed", options=(("jumps", SOME),))),
    ("words-eta", "sampled", GroupedRun("direct", ANY, sampler="collapsed")),
    ("bernoulli", "fixed", GroupedRun("franchise", ANY, sampler="collapsed")),
    ("gaussian", "fixed", GroupedRun("franchise", ANY, 1, 3, sampler="collapsed")),
]


@pytest.mark.parametrize(("case", "law", "run"), EXACT, ids=str)
def test_chains_agree_with_enumeration(case, law, run):
    verdict = judged(case, law, run)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize(("case", "law", "run"), MORE, ids=str)
def test_more_chains_agree_with_enumeration(case, law, run):
    verdict = judged(case, law, run)
    assert verdict.passed, str(verdict)


# ---- what is not

BIASED = [
    ("bernoulli", "dp", replace(gossip(3), rounds=40)),
    ("words", "fixed", gossip_groups(2)),
    ("bernoulli", "dp", Run(ANY, 2, sampler="subcluster", rounds=40)),
    ("gaussian-3", "bb-2", FeatureRun(ANY, 3, sampler="always_hot")),
    ("gaussian-3", "bb-2", FeatureRun(ANY, 2, sampler="uncollapsed", options=(("size", 2),))),
]
MORE_BIASED = [
    ("sharp", "dp", gossip(3)),
    ("bernoulli", "dp", gossip(2, 3)),
    ("bernoulli", "fixed", gossip_groups(2)),
    ("sharp", "dp", Run(ANY, sampler="subcluster")),
    ("bernoulli", "dp", Run(ANY, sampler="subcluster", options=(("wait", 1),))),
    ("gaussian-1", "dp", Run(ANY, 3, sampler="subcluster")),
]


@pytest.mark.parametrize(("case", "law", "run"), BIASED, ids=str)
def test_approximations_fail_by_far(case, law, run):
    verdict = judged(case, law, run)
    print(case, law, run, verdict)
    assert verdict.largest > 8, str(verdict)
    assert not verdict.passed


@pytest.mark.long
@pytest.mark.parametrize(("case", "law", "run"), MORE_BIASED, ids=str)
def test_more_approximations_fail_by_far(case, law, run):
    verdict = judged(case, law, run)
    print(case, law, run, verdict)
    assert verdict.largest > 8, str(verdict)
    assert not verdict.passed


# ---- the finite feature model


@dataclass(frozen=True)
class FiniteProblem(Problem):
    """The same states under `size` columns with weights Beta(alpha c / size, c)."""

    size: int = 20

    @cached_property
    def posterior(self) -> Posterior:
        whole = Problem(self.name, self.law, self.likelihood).posterior
        log_p = self._log_prior(whole.states) + self.likelihood.log_marginal(whole.states.Z)
        return whole._replace(probabilities=softmax(log_p))

    def _log_prior(self, states: Any) -> Any:
        """Log of the number of ways to give the columns of a state their places, times their probability."""
        a, m = self.law.alpha * self.law.c / self.size, states.patterns.sum(1)
        log_p = betaln(a + m, self.law.c + self.n - m) - betaln(a, self.law.c)
        empty = len(m) - 1
        times = np.stack([np.bincount(index, minlength=empty + 1)[:empty] for index in states.index])
        used = times.sum(1)
        ways = gammaln(self.size + 1) - gammaln(np.maximum(self.size - used, 0) + 1) - gammaln(times + 1).sum(1)
        log_prior = ways + times @ log_p[:-1] + (self.size - used) * log_p[-1]
        return np.where(used <= self.size, log_prior, -np.inf)


def finite(size: int, case: str = "gaussian-3", law: str = "bb-2") -> FiniteProblem:
    whole = feature_problems.problem(case, law, 3)
    return FiniteProblem(f"{whole.name}-{size}", whole.law, whole.likelihood, size)


def uncollapsed(size: int, n_shards: int) -> FeatureRun:
    return FeatureRun(ANY, n_shards, sampler="uncollapsed", options=(("size", size),))


def n_features(tiny: Problem) -> float:
    used = (tiny.states.index < len(tiny.states.patterns) - 1).sum(axis=1)
    return float(tiny.probabilities @ used)


@pytest.mark.parametrize(("size", "n_shards"), [(3, 2), (20, 3)])
def test_finite_features_agree_with_their_own_enumeration(size, n_shards):
    verdict = feature_truth.check(finite(size), uncollapsed(size, n_shards))
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 10])
@pytest.mark.parametrize(
    ("case", "law"), [("poisson", "bb-1"), ("gaussian-holes", "bb-2"), ("gaussian-intercept", "bb-1")]
)
def test_finite_features_of_other_likelihoods(case, law, size):
    verdict = feature_truth.check(finite(size, case, law), uncollapsed(size, 2))
    assert verdict.passed, str(verdict)


def test_finite_features_tend_to_the_process():
    """The error of E[K] falls as 1 / size, and chains with many atoms are right, as far as they can tell."""
    whole = feature_problems.problem("gaussian-3", "bb-2", 3)
    sizes = np.array([2, 5, 20, 80, 320])
    error = np.array([abs(n_features(finite(size)) - n_features(whole)) for size in sizes])
    assert (np.diff(error) < 0).all()
    assert error[-2] / error[-1] == pytest.approx(4.0, rel=0.05)
    verdict = feature_truth.check(whole, uncollapsed(320, 2))
    assert verdict.passed, str(verdict)


# ---- gossip


def test_everybody_tells_one_other():
    now = [asynchronous.Version(np.array([q + 1]), np.ones((1, 2))) for q in range(4)]
    nothing = [asynchronous.Version(np.zeros(0, int), np.zeros((0, 2)))] * 4
    rng, told = np.random.default_rng(0), np.zeros((4, 4))
    for _ in range(300):
        heard = asynchronous.gossip([nothing] * 4, now, rng)
        new = np.array([[heard[p][q] is now[q] for q in range(4)] for p in range(4)])
        assert new.diagonal().all()
        assert (new.sum(0) == 2).all()
        told += new
    assert (told > 70).all()  # of 100 expected
    assert [asynchronous.of_others([now] * 4, p).counts.tolist() for p in range(4)] == [[9], [8], [7], [6]]


# ---- sub-clusters


def test_merges_are_splits_reversed_up_to_the_halves():
    """Ratios by hand: the seating of the Chinese restaurant, and rows that toss coins of a beta weight one by one."""
    alpha, counts = 0.8, np.array([[3.0, 2.0]])
    measure = DirichletProcess(alpha)
    data = np.array([[-1.2, -0.4]]), np.array([-2.9])
    seats = np.log(alpha) + np.log(2) + np.log(1) - np.log([1, 2, 3, 4]).sum()
    assert log_split_ratio(measure, measure.start(), counts, *data) == pytest.approx(seats - 1.6 + 2.9)
    tosses, seen = 0.0, [0, 0]
    for half in (0, 1, 0, 0, 1):
        tosses += np.log((seen[half] + alpha / 2) / (sum(seen) + alpha))
        seen[half] += 1
    assert log_merge_ratio(measure, measure.start(), counts, *data) == pytest.approx(tosses - seats + 1.6 - 2.9)


def test_random_splits_are_merges_reversed():
    """Without a split of halves, coins alone part two far groups of a few rows; statistics stay those of the labels."""
    X = np.array([[-9.0, 0.0], [-9.1, 0.2], [9.0, 0.1], [9.2, 0.0]])
    bound = DiagonalGaussian(mean=0.0, kappa=0.1, shape=3.0, scale=1.0).bind(describe(X))
    setup = Setup(DirichletProcess(1.0), bound, 4, 2, 7)
    parted = []
    for random in (True, False):
        model = build_sampler(DIRICHLET, "subcluster", setup, ANY, wait=1, random=random)
        engine = build("serial", model.recipe(X))
        state = replace(model.begin(engine, np.zeros(4, int)), age=np.ones(1, int))
        for r in range(40):
            state = replace(state, round=r)
            state = model._split_at_random(state, engine) if random else state
            labels = model.assignments(state, engine)
            counts = np.bincount(labels)
            np.testing.assert_array_equal(state.table.counts, counts)
            state = replace(state, age=np.ones(len(counts), int))
        parted.append(labels[0] != labels[2])
        engine.close()
    assert parted == [True, False]


# ---- bits and resuming

N, P = 60, 3
rng = np.random.default_rng(8)
LABEL = rng.integers(0, 3, N)
PLANE = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0]])[LABEL] + rng.normal(size=(N, 2))
WORDS = rng.poisson(np.array([[2.0] * 4 + [0.1] * 4, [0.1] * 4 + [2.0] * 4])[rng.integers(0, 2, N)])
ESTIMATORS = {
    "mixture": (DirichletProcessMixture, PLANE),
    "topics": (HierarchicalDirichletProcess, WORDS),
    "features": (BetaBernoulliFeatures, PLANE),
}
RIVALS = [
    ("mixture", "asynchronous"), ("mixture", "subcluster"), ("topics", "asynchronous"), ("features", "uncollapsed"),
    ("features", "always_hot"),
]  # fmt: skip


def estimator(model: str, sampler: str, **options: Any) -> Any:
    kind, _ = ESTIMATORS[model]
    settings = {
        "n_shards": P, "n_chains": 1, "n_warmup": 2, "n_draws": 6, "n_snapshots": 2, "sweeps_per_round": 2,
        "random_state": 3, "keep_assignments": True, "init": "one", "engine": "serial",
    }  # fmt: skip
    return kind(sampler=sampler, **settings | options)


def said(fitted: Any) -> tuple[Any, ...]:
    snapshots = [{name: value.tobytes() for name, value in snap.items()} for snap in fitted._snapshots]
    return fitted.posterior_.to_dict(), snapshots


@pytest.mark.parametrize(("model", "sampler"), RIVALS)
def test_threads_change_no_bit_and_runs_resume(model, sampler, tmp_path, monkeypatch):
    X = ESTIMATORS[model][1]
    first = estimator(model, sampler).fit(X)
    assert said(estimator(model, sampler, engine="threads", n_workers=2).fit(X)) == said(first)
    interrupt(monkeypatch, type(built(model, sampler)), 5)
    with pytest.raises(RuntimeError, match="power"):
        estimator(model, sampler, checkpoint=tmp_path).fit(X)
    assert said(estimator(model, sampler, checkpoint=tmp_path, engine="threads").fit(X)) == said(first)


@pytest.mark.parametrize(
    ("model", "sampler"), [RIVALS[0], *(pytest.param(*rival, marks=pytest.mark.long) for rival in RIVALS[1:])]
)
def test_processes_change_no_bit(model, sampler):
    X = ESTIMATORS[model][1]
    fits = [estimator(model, sampler, engine=engine, n_workers=2).fit(X) for engine in ("serial", "processes")]
    assert said(fits[0]) == said(fits[1])


def built(model: str, sampler: str) -> Any:
    """The sampler's model, for its class."""
    kind, X = ESTIMATORS[model][:2]
    extent, likelihood = (np.ones(P, int), Tokens().bind(describe(X))) if model == "topics" else (N, None)
    setup = Setup(kind()._measure(), likelihood, extent, P, 0, n_rounds=10)
    return build_sampler(kind._choices.samplers, sampler, setup, ANY)


def interrupt(monkeypatch: Any, kind: Any, when: int) -> None:
    """A crash as the when-th round ends; every round before it is stored."""
    from unbounded.chain.run import run

    gather, count = kind.gather, [0]

    def watched(self: Any, *args: Any) -> Any:
        count[0] += 1
        if count[0] == when:
            raise RuntimeError("the power is gone")
        return gather(self, *args)

    monkeypatch.setattr(kind, "gather", watched)
    monkeypatch.setitem(run.__kwdefaults__, "checkpoint_seconds", 0.0)


# ---- estimators


@pytest.mark.parametrize(("model", "sampler"), RIVALS)
def test_inexact_draws_are_flagged(model, sampler):
    X = ESTIMATORS[model][1]
    fitted = estimator(model, sampler, init="grown").fit(X)
    assert not fitted.exact_
    assert text(fitted).startswith(FLAG)
    with pytest.warns(UserWarning, match="NOT EXACT"):
        fitted.summary()
    assert np.isfinite(fitted.score_samples(X[:5])).all()


@pytest.mark.parametrize(("model", "sampler"), [("mixture", "asynchronous"), ("topics", "asynchronous")])
def test_one_shard_is_exact(model, sampler):
    assert estimator(model, sampler, n_shards=1).fit(ESTIMATORS[model][1]).exact_


def test_clusters_are_found():
    """From one cluster, by splits; and gossip keeps those that the start has found."""
    for sampler, init, n_warmup in (("subcluster", "one", 120), ("asynchronous", "grown", 20)):
        options = {"init": init, "n_warmup": n_warmup, "concentration": 1.0, "n_draws": 20, "n_snapshots": 20}
        fitted = estimator("mixture", sampler, **options).fit(PLANE)
        assert adjusted_rand_score(LABEL, fitted.labels_) > 0.9


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="form='direct' only"):
        estimator("topics", "asynchronous", form="franchise").fit(WORDS)
    with pytest.raises(ValueError, match="beta-Bernoulli measure only"):
        GammaPoissonFeatures(sampler="uncollapsed").fit(PLANE)
    with pytest.raises(ValueError, match="size must be an integer of at least 1"):
        estimator("features", "uncollapsed", sampler_options={"size": 0}).fit(PLANE)
    with pytest.raises(ValueError, match="wait must be an integer of at least 0"):
        estimator("mixture", "subcluster", sampler_options={"wait": -1}).fit(PLANE)
    with pytest.raises(ValueError, match="has no option 'size'"):
        estimator("mixture", "subcluster", sampler_options={"size": 3}).fit(PLANE)
    with pytest.raises(ValueError, match="sampler must be one of"):
        PitmanYorMixture(sampler="subcluster").fit(PLANE)
    assert "subcluster" in DIRICHLET


def test_a_start_with_too_many_features_keeps_the_most_used():
    tiny = feature_problems.problem("gaussian-3", "bb-2", 3)
    model = build_sampler(
        FEATURES,
        "uncollapsed",
        Setup(tiny.law.measure, tiny.bound, tiny.n, 1, 0, n_rounds=10, sweeps=1, dtype="float64"),
        ANY,
        size=2,
    )
    engine = build("serial", model.recipe(tiny.X.copy()))
    state = model.begin(engine, np.array([[1, 1, 0], [0, 1, 1], [0, 1, 1]]))
    np.testing.assert_array_equal(model.assignments(state, engine), [[1, 0], [1, 1], [1, 1]])
    assert all(model.scalars(s)["n_features"] <= 2 for s in islice(rounds(model, engine, state), 20))
    engine.close()
