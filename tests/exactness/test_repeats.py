"""Documents that repeat themselves against brute force: who repeats whom, topics of fresh words, hyper-parameters."""

from __future__ import annotations

import numpy as np
import pytest
import repeats_geweke
from franchise_problems import MEASURES, counts_of
from franchise_truth import GroupedRun
from repeats_truth import LIKELIHOODS, Repeating, check, problem
from scipy import special

from unbounded.columns import describe
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.models.mixtures.jump import Jumps

OFTEN = (("jumps", Jumps(every=1, share=1.0, passes=2, joined=0.4, merges=4, coin=0.4)),)
RUNS = [
    ("fixed", "fixed", GroupedRun("direct", Ghosts(2), 2, chains=24, rounds=60, engine="threads")),
    ("sampled", "sampled", GroupedRun("direct", Ghosts(0), chains=20, rounds=50)),
]
LONG = [
    ("fixed", "fixed", GroupedRun("direct", Ghosts(2), 2, chains=60, rounds=250)),
    ("fixed", "sampled", GroupedRun("direct", OneOpen(2), 2, 2, dtype="float32")),
    ("sampled", "sampled", GroupedRun("direct", Ghosts(), 2, chains=60, rounds=250)),
    ("sampled", "fixed", GroupedRun("direct", Ghosts(0), chains=60, rounds=250)),
    ("fixed", "fixed", GroupedRun("direct", Ghosts(0), sampler="collapsed", seed=1)),
    ("sampled", "fixed", GroupedRun("direct", Ghosts(), 2, chains=60, rounds=250, options=OFTEN)),
]


def agrees(words: str, measure: str, run: GroupedRun) -> None:
    verdict = check(problem(words, measure), run)
    print(words, measure, run, verdict)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(("words", "measure", "run"), RUNS, ids=str)
def test_chains_agree_with_enumeration(words, measure, run):
    agrees(words, measure, run)


@pytest.mark.long
@pytest.mark.parametrize(("words", "measure", "run"), LONG, ids=str)
def test_longer_chains_agree_with_enumeration(words, measure, run):
    agrees(words, measure, run)


@pytest.mark.long
@pytest.mark.parametrize(("rule", "n_shards"), [(Ghosts(), 2), (Ghosts(0), 1)], ids=str)
def test_chains_and_fresh_data_agree_with_the_prior(rule, n_shards):
    verdict = repeats_geweke.check(repeats_geweke.Joint(rule, n_shards))
    print(rule, n_shards, verdict)
    assert verdict.passed, str(verdict)


def test_jumps_of_fresh_words_are_exact():
    """Tables are cut, or tokens, in turn, before every round."""
    agrees("fixed", "fixed", GroupedRun("direct", Ghosts(), 2, chains=24, rounds=60, options=OFTEN))


def test_the_truth_is_a_distribution_over_words():
    """Summed over all words that a document of two might have, the probabilities of everything are one."""
    total = 0.0
    for word in range(3):
        for other in range(3):
            X = np.sort([word, other]).astype(np.int32)
            likelihood = LIKELIHOODS["fixed"].bind(describe(counts_of(X, (2,))))
            tiny = Repeating("two", X, (2,), likelihood, MEASURES["fixed"])
            urns = special.logsumexp(tiny._log_urns, axis=1)
            total += np.exp(urns + [special.logsumexp(logs) for logs in tiny._log_p]).sum()
    assert total == pytest.approx(1.0, abs=1e-9)
