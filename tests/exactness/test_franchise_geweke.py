"""Joint tests of grouped rows with sampled concentrations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from enumeration import judge
from franchise_geweke import Joint, check, count_tables, franchise
from franchise_problems import problem
from franchise_truth import cells, code_of
from scipy import special

from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.models.groups.model import FORMS

SHORT = [Joint("direct", "learned", Ghosts(), 3), Joint("franchise", "bernoulli", Ghosts(), 2)]
LONG = [
    Joint(form, kind, rule, n_shards, sweeps, replicates=60, rounds=200)
    for form in FORMS
    for kind in ("bernoulli", "gaussian", "words", "learned")
    for rule, n_shards, sweeps in ((Ghosts(0), 1, 1), (Ghosts(), 3, 2), (Ghosts(1), 2, 1), (OneOpen(), 3, 1))
]
LONG = [replace(joint, seed=1 + i) for i, joint in enumerate(LONG)]  # one seed would give all of them the same gammas


@pytest.mark.parametrize("joint", [*SHORT, *(pytest.param(joint, marks=pytest.mark.long) for joint in LONG)], ids=str)
def test_prior_and_successive_conditional_agree(joint):
    verdict = check(joint)
    print(joint, verdict)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_the_published_rule_fails(form):
    verdict = check(Joint(form, "words", AsPublished("cold"), 3))
    print(form, verdict)
    assert not verdict.passed
    assert verdict.largest > 8, str(verdict)


def test_the_textbook_franchise_has_the_prior_of_the_enumeration():
    """Two descriptions of the prior that share nothing: customers one after another, and all seatings with weights."""
    tiny, rng = problem("bernoulli", "fixed"), np.random.default_rng(0)
    index, where = cells(tiny, "franchise")
    truth = np.bincount(where, special.softmax(special.logsumexp(tiny._log_prior, axis=1)))
    seen = np.zeros((40, len(index)))
    for batch in seen:
        for _ in range(300):
            seats, labels = franchise(np.array(tiny.sizes), 1.0, 1.5, rng)
            n_tables = count_tables(np.array(tiny.sizes), seats)
            batch[index[code_of(tiny, "franchise", seats, labels, n_tables)]] += 1.0 / 300
    frequent = truth * seen.shape[0] * 300 > 100
    verdict = judge([str(b) for b in np.flatnonzero(frequent)], seen[:, frequent], truth[frequent])
    assert verdict.passed, str(verdict)
