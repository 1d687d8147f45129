"""Documents that repeat themselves against brute force: who repeats whom, topics of fresh words, hyper-parameters."""

from __future__ import annotations

import numpy as np
import pytest
from franchise_problems import MEASURES, counts_of
from franchise_truth import GroupedRun, compare
from repeats_truth import Repeating, simulate
from scipy import special

from unbounded.columns import describe
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.priors import Gamma

WORDS, SIZES = np.array([0, 0, 0, 0, 2], np.int32), (2, 3)
LIKELIHOODS = {
    "fixed": Tokens(0.4, "uniform", 1.5),
    "sampled": Tokens(Gamma(2.0, 2.5), "learned", Gamma(2.0, 1.0)),
}


def problem(words: str, measure: str) -> Repeating:
    likelihood = LIKELIHOODS[words].bind(describe(counts_of(WORDS, SIZES)))
    return Repeating(f"{words}-{measure}", WORDS, SIZES, likelihood, MEASURES[measure])


RUNS = [
    ("fixed", "fixed", GroupedRun("direct", Ghosts(2), 2, engine="threads")),
    ("fixed", "fixed", GroupedRun("direct", Ghosts(0), chains=24)),
    ("sampled", "sampled", GroupedRun("direct", Ghosts(), 2, rounds=150)),
    ("fixed", "sampled", GroupedRun("direct", OneOpen(2), 2, 2, chains=24, dtype="float32")),
]


@pytest.mark.parametrize(("words", "measure", "run"), RUNS, ids=str)
def test_chains_agree_with_enumeration(words, measure, run):
    tiny = problem(words, measure)
    verdict = compare(tiny, run.form, simulate(tiny, run), run.rounds)
    print(words, measure, run, verdict)
    assert verdict.passed, str(verdict)


def test_the_truth_is_a_distribution_over_words():
    """Summed over all words that two documents might have, the probabilities of all ways and configurations are one."""
    total = 0.0
    for word in range(3):
        for other in range(3):
            X = np.sort([word, other]).astype(np.int32)
            likelihood = LIKELIHOODS["fixed"].bind(describe(counts_of(X, (2,))))
            tiny = Repeating("two", X, (2,), likelihood, MEASURES["fixed"])
            urns = special.logsumexp(tiny._log_urns, axis=1)
            total += np.exp(urns + [special.logsumexp(logs) for logs in tiny._log_p]).sum()
    assert total == pytest.approx(1.0, abs=1e-9)
