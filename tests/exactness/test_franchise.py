"""Grouped rows against brute force: every seating of a few rows, every dish of their tables, in both forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from enumeration import canonical
from franchise_problems import CROSSED, MEASURES, problem
from franchise_truth import Franchise, GroupedRun, check, compare, simulate
from problems import GAUSS_2, PLANE, holed
from scipy import special, stats

from unbounded.columns import describe
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.models.groups.model import FORMS
from unbounded.models.groups.words import kernel

# Every likelihood, measure, form, P, L, rule and kernel at least once. Engines give the same bits (test_group_bits.py).
SHORT = [
    ("gaussian", "fixed", GroupedRun("direct", Ghosts(0))),
    ("bernoulli", "sampled", GroupedRun("direct", Ghosts(), 2, 3)),
    ("words", "sampled", GroupedRun("direct", OneOpen(), 2)),
    ("words", "fixed", GroupedRun("direct", Ghosts(50), 2, 3, dtype="float32")),
    ("gaussian", "sampled", GroupedRun("franchise", Ghosts(), 2)),
    ("bernoulli", "fixed", GroupedRun("franchise", OneOpen(2), 2, 3)),
    ("words", "fixed", GroupedRun("franchise", Ghosts(2), 2)),
    ("hole", "fixed", GroupedRun("franchise", Ghosts(), 2)),
    ("bernoulli", "fixed", GroupedRun("direct", Ghosts(), 2, chains=24, rounds=60, device="reference")),
    ("words", "fixed", GroupedRun("direct", Ghosts(2), 2, chains=24, rounds=60, device="reference")),
    ("bernoulli", "fixed", GroupedRun("franchise", Ghosts(2), 2, chains=24, rounds=60, device="reference")),
]


def names(parameters: tuple) -> str:
    case, measure, run = parameters
    return f"{case}-{measure}-{run}"


def agrees(case: str, measure: str, run: GroupedRun) -> None:
    verdict = check(problem(case, measure), run)
    print(case, measure, run, verdict)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("parameters", SHORT, ids=names)
def test_chains_agree_with_enumeration(parameters):
    agrees(*parameters)


def test_words_with_alias_tables_agree_with_enumeration(monkeypatch):
    """Every word has a table, over the three chunks of some 36 mobile atoms."""
    monkeypatch.setattr(kernel, "FEW", 0)
    monkeypatch.setattr(kernel, "WORTH", 0)
    agrees("words", "crowded", GroupedRun("direct", Ghosts(100), 2))


@pytest.mark.parametrize(
    ("schedule", "form", "n_rounds"),
    [("cold", "direct", 60), ("cold", "franchise", 60), ("hot", "direct", 240), ("hot", "franchise", 180)],
)
def test_the_published_rule_fails_by_far(schedule, form, n_rounds):
    """The same comparison must see that J = K is not invariant here either; hot shards are wrong the other way."""
    run = GroupedRun(form, AsPublished(schedule), 2, rounds=n_rounds)
    verdict = check(problem("words", "fixed"), run)
    print(run, verdict)
    assert verdict.largest > 8, str(verdict)
    assert verdict.rms > 3, str(verdict)
    assert not verdict.passed


@pytest.mark.parametrize("form", FORMS)
def test_the_published_rule_that_instantiates_nothing_is_collapsed(form):
    verdict = check(problem("words", "fixed"), GroupedRun(form, AsPublished(j=0)))
    assert verdict.passed, str(verdict)


def test_eta_of_words_is_sampled_from_its_posterior():
    """eta is integrated out of the truth by quadrature, over the range in which the sampler keeps it."""
    tiny = problem("words-eta", "fixed")
    assert tiny.hyper_means.keys() == {"eta", "log eta"}
    agrees("words-eta", "fixed", GroupedRun("direct", Ghosts(), 2, rounds=100))


def test_the_base_of_words_is_sampled_from_its_posterior():
    tiny = problem("words-both", "fixed")
    assert tiny.hyper_means.keys() == {"eta", "log eta", "base 0", "base 0^2", "base 01"}
    agrees("words-both", "fixed", GroupedRun("direct", Ghosts(), 2, rounds=100))


# ---- the truth itself


def test_the_prior_of_seatings_sums_to_one():
    tiny = problem("bernoulli", "fixed")
    assert len(tiny.configurations) == 134
    assert special.logsumexp(tiny._log_prior) == pytest.approx(0.0, abs=1e-12)
    sampled = problem("bernoulli", "sampled")
    assert special.logsumexp(sampled._log_prior) == pytest.approx(0.0, abs=1e-9)


def test_quadrature_of_a_hole_is_exact():
    """A row of which nothing is known says nothing: the posterior of the others is that without it."""

    def labels_of(X: np.ndarray, sizes: tuple[int, ...], dropped: tuple[int, ...]) -> dict:
        tiny = Franchise("", X, sizes, GAUSS_2.bind(describe(X)), MEASURES["fixed"])
        marginal: dict = {}
        for z, p in zip(tiny.labels, tiny.probabilities, strict=True):
            kept = canonical(np.delete(z, dropped))
            marginal[kept] = marginal.get(kept, 0.0) + p
        return marginal

    whole = labels_of(holed(PLANE[:4], (2, 0), (2, 1)), (2, 2), (2,))
    assert whole == pytest.approx(labels_of(np.delete(PLANE[:4], 2, axis=0), (2, 1), ()), rel=1e-6)


def test_quadrature_of_eta_is_that_of_its_prior():
    """Without a word in common nothing is learnt: integrate the prior by itself, a quantile rule against the grid."""
    tiny = problem("words-eta", "fixed")
    eta, log_weights = tiny.nodes
    weights = special.softmax(log_weights)
    prior = tiny.likelihood.prior
    law = stats.gamma(prior.shape, scale=1.0 / prior.rate)
    assert weights @ eta[:, 0] == pytest.approx(law.mean(), rel=1e-6)
    assert weights @ np.log(eta[:, 0]) == pytest.approx(special.digamma(prior.shape) - np.log(prior.rate), rel=1e-4)
    for b in (0, len(tiny.labels) - 1):
        marginal = special.logsumexp(tiny._log_data[b]) - special.logsumexp(log_weights)
        z = tiny.labels[b]
        counts = np.eye(z.max() + 1)[z].sum(0)
        sums = np.eye(z.max() + 1)[z].T @ tiny.likelihood.terms(tiny.X)
        nodes = law.ppf((np.arange(4000) + 0.5) / 4000)
        plain = [replace(tiny.likelihood, eta=e).log_marginal(counts, sums).sum() for e in nodes]
        assert marginal == pytest.approx(special.logsumexp(plain) - np.log(4000), abs=1e-3)


# ---- the full grid


def grid(form: str) -> list[GroupedRun]:
    """P x L x T x rule, engines by turns. One ghost on two shards moves slowly: means of short chains are skewed."""
    runs = []
    for n_shards in (1, 2):
        rules = [Ghosts(1), Ghosts(), Ghosts(50), OneOpen(1), OneOpen()] + [Ghosts(0)] * (n_shards == 1)
        for rule, sweeps in product(rules, (1, 3)):
            slow = n_shards == 2 and rule.ghosts == 1
            engine = "threads" if n_shards == 2 and sweeps == 1 else "serial"
            runs.append(GroupedRun(form, rule, n_shards, sweeps, engine, chains=48, rounds=600 if slow else 120))
    return [replace(run, seed=i) for i, run in enumerate(runs)]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("case", CROSSED)
def test_full_grid(case, measure, form):
    """Each way to run on its own, and all chains together: what they have in common shows four times sharper."""
    tiny = problem(case, measure)
    tallies, failed, rms = [], [], []
    for run in grid(form):
        tallies.append(simulate(tiny, run))
        verdict = compare(tiny, form, tallies[-1], run.rounds)
        rms.append(verdict.rms)
        if not verdict.passed:
            failed.append(f"{run}: {verdict}")
    together = compare(tiny, form, tallies[0].joined(*tallies[1:]), 120)
    print(f"{case} {measure} {form}: {len(tallies)} runs, mean rms {np.mean(rms):.2f}, together {together}")
    assert not failed, "\n".join(failed)
    assert together.passed, str(together)
    assert np.mean(rms) < 1.25


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", [Ghosts(), OneOpen()], ids=str)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("case", ["hole", "words-eta", "words-learned", "words-both"])
def test_holes_and_sampled_eta(case, measure, rule, form):
    agrees(case, measure, GroupedRun(form, rule, 2, chains=60, rounds=250, seed=3))
