"""Chains against brute force: every cell of the posterior over all partitions of a few rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from enumeration import Run, Tally, canonical, check, compare, judge, log_eppf, partitions, simulate
from problems import CASES, CROSSED, FIXED, OTHERS, problem
from scipy import stats

from unbounded.engines import build
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.models.mixtures.model import RowRecipe
from unbounded.round import rounds
from unbounded.setup import Setup

# Every likelihood, measure, P, L, T, rule and precision at least once, and most pairs of them. What threads and
# processes give is compared bit for bit with the chain of the serial engine, below: sharper than any statistics.
SHORT = [
    ("gaussian-1", "dp", 5, Run(Ghosts(0))),
    ("gaussian-1", "py-negative", 5, Run(Ghosts(), 3, 3)),
    ("gaussian-1", "py", 5, Run(Ghosts(50), 5, dtype="float32")),
    ("gaussian-2", "py", 5, Run(Ghosts(1), 2)),
    ("gaussian-2", "dp", 4, Run(OneOpen(), 2, 3)),
    ("gaussian-2", "py-negative", 6, Run(Ghosts(), 3)),
    ("gaussian-6", "dp", 5, Run(OneOpen(), 3)),
    ("gaussian-hole", "py", 5, Run(Ghosts(), 2)),
    ("bernoulli", "py", 5, Run(Ghosts(), 5)),
    ("bernoulli", "dp", 6, Run(Ghosts(60, spread=30.0), 3)),
    ("bernoulli", "py-negative", 5, Run(OneOpen(1), 3, 3)),
    ("bernoulli", "py-sampled", 5, Run(Ghosts(), 2)),
    ("bernoulli", "dp-sampled", 4, Run(OneOpen(4), 2)),
    ("bernoulli-holes", "py", 5, Run(Ghosts(5), 2, 3)),
    ("sharp", "py", 5, Run(Ghosts())),
    ("sharp", "dp", 5, Run(Ghosts(0), 1, 2)),
    ("sharp", "dp", 5, Run(Ghosts(), 3)),
    ("mixed-holes", "py", 5, Run(Ghosts(), 2)),
    ("mixed", "dp", 4, Run(OneOpen(4), 4)),
    ("sharp", "py", 5, Run(Ghosts(), 2, chains=24, rounds=60, device="reference")),
    ("gaussian-hole", "dp", 4, Run(Ghosts(2), 2, 2, chains=24, rounds=40, device="reference")),
    ("multinomial-csr", "py-negative", 4, Run(OneOpen(), 2, chains=24, rounds=60, device="reference")),
]


def names(parameters: tuple) -> str:
    case, measure, n, run = parameters
    return f"{case}-{measure}-n{n}-{run}"


@pytest.mark.parametrize("parameters", SHORT, ids=names)
def test_chains_agree_with_enumeration(parameters):
    case, measure, n, run = parameters
    verdict = check(problem(case, measure, n), run)
    assert verdict.passed, str(verdict)


PUBLISHED = [
    ("sharp", "dp", Run(AsPublished("cold"))),
    ("bernoulli", "dp", Run(AsPublished("cold"), 3, rounds=50)),
    ("bernoulli", "dp", Run(AsPublished("hot"), 3)),
    ("sharp", "dp", Run(AsPublished("cold", "several"))),
]


@pytest.mark.parametrize(("case", "measure", "run"), PUBLISHED, ids=str)
def test_the_published_rule_fails_by_far(case, measure, run):
    """The same comparison must see that J = K is not invariant: with one shard too, given data that say something."""
    verdict = check(problem(case, measure), run)
    print(case, measure, run, verdict)
    assert verdict.largest > 8, str(verdict)
    assert verdict.rms > 4, str(verdict)
    assert not verdict.passed


def test_the_published_rule_that_instantiates_nothing_is_collapsed():
    """J = 0 on one shard is exact: what the paper's conditionals are right about when J does not depend on Z."""
    verdict = check(problem("bernoulli", "py"), Run(AsPublished(j=0)))
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(("rule", "stationary"), [(AsPublished("cold"), 4 / 7), (Ghosts(), 1 / 2)], ids=str)
def test_the_counter_example_by_hand(rule, stationary):
    """DP(1), two rows without data on two shards: P(together) is 1/2, but 4/7 for the published kernel.

    Published: together stays together with probability 2/3; apart comes together with probability (2/3)(2/3).
    """
    tally = simulate(problem("flat", "dp", 2), Run(rule, 2, chains=50, rounds=160))
    together = tally.frequencies[:, :1]
    assert judge(["together"], together, np.array([stationary])).passed
    if stationary != 1 / 2:
        assert judge(["together"], together, np.array([1 / 2])).largest > 8


def test_engines_give_the_same_chain_bit_for_bit():
    tiny = problem("mixed-holes", "py")
    chains = []
    for engine_name, workers in (("serial", None), ("threads", 1), ("threads", 3), ("processes", 2)):
        engine = build(engine_name, RowRecipe(tiny.X, tiny.likelihood, 3), workers)
        model = HybridMixture(Setup(tiny.measure, tiny.likelihood, tiny.n, 3, 5, sweeps=2))
        states = islice(rounds(model, engine, model.begin(engine, np.arange(tiny.n))), 400)
        chains.append([(tuple(model.assignments(s, engine)), s.table.statistics.tobytes()) for s in states])
        engine.close()
    assert all(chain == chains[0] for chain in chains)


# ---- the comparison itself


def test_partitions_and_their_prior():
    for n, bell in zip(range(1, 7), (1, 2, 5, 15, 52, 203), strict=True):
        cells = partitions(n)
        assert len(cells) == len(np.unique(cells, axis=0)) == bell
        for hyper in (PartitionHyper(1.0, 0.0), PartitionHyper(0.6, 0.4), PartitionHyper(-0.2, 0.4)):
            log_p = np.array([log_eppf(z, *hyper) for z in cells])
            assert np.exp(log_p).sum() == pytest.approx(1.0)
            counts = [np.bincount(z).astype(float) for z in cells]
            assert log_p == pytest.approx([PitmanYor(*hyper).log_prob(hyper, m, n) for m in counts])


def test_quadrature_of_a_hole_is_exact():
    """A row of which nothing is known says nothing: the posterior of the others is that without it."""
    empty = problem("gaussian-empty-row", "dp")
    fewer = replace(empty, X=np.delete(empty.X, 2, axis=0))
    marginal = dict.fromkeys(map(tuple, fewer.partitions.tolist()), 0.0)
    for z, p in zip(empty.partitions, empty.probabilities, strict=True):
        marginal[canonical(np.delete(z, 2))] += p
    assert list(marginal.values()) == pytest.approx(fewer.probabilities, rel=1e-6)


def perfect(tiny, rng, n_rounds, tilt=0.0):
    """What independent draws from the posterior would give; tilt: too often all rows together."""
    p = tiny.probabilities.copy()
    p[0] *= 1.0 + tilt
    return Tally(rng.multinomial(n_rounds, p / p.sum(), size=40) / n_rounds)


def test_the_verdict_has_its_level_and_power():
    tiny = problem("flat", "dp")
    rng = np.random.default_rng(0)
    right = [compare(tiny, perfect(tiny, rng, 125), 125) for _ in range(200)]
    assert all(v.passed for v in right)
    assert np.mean([v.rms**2 for v in right]) == pytest.approx(39 / 37, abs=0.05)
    wrong = [compare(tiny, perfect(tiny, rng, 125, tilt=0.4), 125) for _ in range(50)]
    assert not any(v.passed for v in wrong)


def test_a_chain_that_does_not_move_is_no_evidence():
    tiny = problem("flat", "dp")
    stuck = Tally(np.random.default_rng(0).multinomial(1, tiny.probabilities, size=40).astype(float))
    assert not compare(tiny, stuck, 125).passed


def test_limits_are_those_of_student():
    """The family-wise limit grows with the number of questions and shrinks with the number of chains."""
    rng = np.random.default_rng(0)
    few, many = (judge(["q"] * 40, rng.normal(size=(c, 40)), np.zeros(40)).limit for c in (10, 100))
    assert stats.norm.isf(1e-5 / 80) < many < few


# ---- the full grid


def grid(n: int) -> list[Run]:
    """P x L x T x rule."""
    runs = []
    for n_shards in (1, 2, 3, n):
        for ghosts in (0, 1, n, 10 * n) if n_shards == 1 else (1, n, 10 * n):
            for rule in (Ghosts(ghosts), OneOpen(ghosts)):
                # One ghost and one open shard of many move slowly, and means of short chains are skewed.
                slow = isinstance(rule, OneOpen) and ghosts == 1 and n_shards > 2
                runs += [Run(rule, n_shards, sweeps, chains=32, rounds=600 if slow else 150) for sweeps in (1, 3)]
    return [replace(run, seed=i) for i, run in enumerate(runs)]


@pytest.mark.long
@pytest.mark.parametrize("measure", FIXED)
@pytest.mark.parametrize("case", CROSSED)
def test_full_grid(case, measure):
    """Each way to run on its own, and all chains together: what they have in common shows seven times sharper."""
    tiny = problem(case, measure)
    tallies, failed, rms = [], [], []
    for run in grid(tiny.n):
        tallies.append(simulate(tiny, run))
        verdict = compare(tiny, tallies[-1], run.rounds)
        rms.append(verdict.rms)
        if not verdict.passed:
            failed.append(f"{run}: {verdict}")
    together = compare(tiny, tallies[0].joined(*tallies[1:]), run.rounds)
    print(f"{case} {measure}: {len(tallies)} runs, mean rms {np.mean(rms):.2f}, together {together}")
    assert not failed, "\n".join(failed)
    assert together.passed, str(together)
    assert np.mean(rms) < 1.25


@pytest.mark.long
@pytest.mark.parametrize("run", [Run(Ghosts(), 2, 3, seed=1), Run(OneOpen(), 3, seed=2)], ids=str)
@pytest.mark.parametrize("measure", FIXED)
@pytest.mark.parametrize("case", OTHERS)
def test_other_likelihoods(case, measure, run):
    verdict = check(problem(case, measure), run)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize(
    "run", [Run(Ghosts(0), seed=3), Run(Ghosts(), 3, seed=4), Run(OneOpen(), 2, 3, seed=5)], ids=str
)
@pytest.mark.parametrize("measure", ["dp-sampled", "py-sampled"])
@pytest.mark.parametrize("case", CROSSED)
def test_sampled_hyper_parameters(case, measure, run):
    verdict = check(problem(case, measure), run)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("measure", FIXED)
@pytest.mark.parametrize("case", [case for case in CASES if "hole" not in case])
def test_single_precision(case, measure):
    verdict = check(problem(case, measure), Run(Ghosts(), 2, dtype="float32", seed=6))
    assert verdict.passed, str(verdict)
