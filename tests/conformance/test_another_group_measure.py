"""A measure of groups that is not the library's needs nothing of it but the protocol: rounds are exact, fits run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from finite_groups import FiniteGroups

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "exactness"))

from enumeration import log_eppf
from franchise_problems import problem
from franchise_truth import Franchise, GroupedRun, check
from scipy import special

from unbounded import HierarchicalDirichletProcess
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.models.groups import jump
from unbounded.models.groups.measures import GroupMeasure
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.words import cuts
from unbounded.models.mixtures.jump import Jumps


class FiniteFranchise(Franchise):
    """Every table picks one of H dishes, whose shares are integrated out."""

    @cached_property
    def configurations(self):
        return [(seats, labels) for seats, labels in super().configurations if labels.max() < self.measure.n_components]

    def _log_seating(self, seats, labels, a, gamma, h):
        dishes = labels[np.unique(self._tables(seats), return_index=True)[1]]
        value = 0.0
        for i, z in enumerate(dishes):
            before = dishes[:i]
            m, known = np.count_nonzero(before == z), len(np.unique(before))
            value = value + np.log(m + a / h if m else (h - known) * a / h) - np.log(i + a)
        return value + sum(log_eppf(seats[b:e], gamma, 0.0) for b, e in pairwise(np.cumsum([0, *self.sizes])))

    @cached_property
    def _log_prior(self):
        hyper = self.measure.start()
        return np.array([[self._log_seating(seats, labels, *hyper)] for seats, labels in self.configurations])


def finite(case, measure):
    tiny = problem(case, "fixed")
    return FiniteFranchise(f"{case}-finite", tiny.X, tiny.sizes, tiny.likelihood, measure)


OFTEN = (("jumps", Jumps(every=1, share=1.0, passes=2, joined=0.4, merges=2, coin=0.4)),)
FEW, MORE = FiniteGroups(2, 3.0, 2.0), FiniteGroups(3, 2.0, 1.5)


def test_the_prior_sums_to_one():
    assert special.logsumexp(finite("bernoulli", MORE)._log_prior) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("case", "measure", "run"),
    [
        ("bernoulli", MORE, GroupedRun("direct", Ghosts(2), 2)),
        ("bernoulli", FEW, GroupedRun("direct", Ghosts(0))),
        ("bernoulli", MORE, GroupedRun("franchise", Ghosts(2), 2, chains=16, rounds=60, options=OFTEN)),
        ("bernoulli", FEW, GroupedRun("franchise", OneOpen(2), 2)),
        ("words", MORE, GroupedRun("direct", Ghosts(2), 2)),
        ("bernoulli", MORE, GroupedRun("direct", Ghosts(2), 2, chains=16, rounds=60, device="reference")),
        ("bernoulli", MORE, GroupedRun("franchise", Ghosts(2), 2, chains=16, rounds=60, device="reference")),
    ],
    ids=str,
)
def test_rounds_agree_with_enumeration(case, measure, run):
    verdict = check(finite(case, measure), run)
    assert verdict.passed, verdict


def test_cuts_of_tokens_agree_with_enumeration(monkeypatch):
    """Atoms are cut and joined one after another, since what a cut gains depends on how many there are."""
    monkeypatch.setattr(jump, "tokens_due", lambda model, turn: True)
    verdict = check(
        finite("words", FiniteGroups(4, 4.0, 1.5)), GroupedRun("direct", Ghosts(), options=OFTEN, rounds=60)
    )
    assert verdict.passed, verdict


def test_cuts_of_tokens_are_judged_one_after_another():
    """By how many topics there are by then; of two that are joined, by how many there are afterwards."""
    asked, beta = [], np.full(4, 0.2)
    sets = cuts.TokenSets([(0,), (1,), (2, 3)], np.zeros(3, int), np.array([0.2, 0.2, 0.4]))

    def log_prior(share, whole, rest, n_topics):
        asked.append((whole, n_topics))
        return 0.0

    taken = cuts._accepted(sets, np.full(3, 0.5), beta, np.array([1.0, -1.0, -1.0]), log_prior, np.full(3, -0.5))
    assert taken.tolist() == [True, False, True]
    assert asked == [(0.2, 4), (0.2, 5), (0.4, 4)]


@dataclass(eq=False, repr=False, kw_only=True)
class FiniteTopics(HierarchicalDirichletProcess):
    n_components: int = 3

    def _measure(self) -> GroupMeasure:
        return FiniteGroups(self.n_components)


RNG = np.random.default_rng(8)
GROUPS = np.repeat(np.arange(6), 10)
X = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0], [0.0, -9.0]])[RNG.integers(4, size=60)] + RNG.normal(size=(60, 2))
BRIEF = {"n_warmup": 10, "n_draws": 10, "n_shards": 2, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return FiniteTopics("gaussian", **BRIEF).fit(X, GROUPS)


def test_no_draw_has_more_atoms_than_there_are(fitted):
    assert fitted.posterior_["n_topics"].max() <= 3  # though the rows are of four kinds


def test_predictions(fitted):
    assert fitted.transform(X, GROUPS).shape == (6, fitted.n_topics_)
    assert fitted.score_samples(X, GROUPS).mean() > fitted.score_samples(X + 50.0, GROUPS).mean()
    rows = fitted.sample(20, random_state=0)
    assert np.isfinite(rows[0] if isinstance(rows, tuple) else rows).all()


def test_a_run_resumes(fitted, tmp_path, monkeypatch):
    brief = BRIEF | {"checkpoint": tmp_path, "checkpoint_seconds": 0.0, "engine": "serial"}
    whole = HybridGroups.global_step

    def fails(model, state, parallel):
        if state.round == 14:
            raise RuntimeError("the power is gone")
        return whole(model, state, parallel)

    with monkeypatch.context() as patch:
        patch.setattr(HybridGroups, "global_step", fails)
        with pytest.raises(RuntimeError, match="power"):
            FiniteTopics("gaussian", **brief).fit(X, GROUPS)
    assert FiniteTopics("gaussian", **brief).fit(X, GROUPS).posterior_.equals(fitted.posterior_)
