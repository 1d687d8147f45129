"""Every measure of groups keeps the contract: its top weights, tables and jumps agree with its own law of tables."""

from __future__ import annotations

import numpy as np
import pytest
from finite_groups import FiniteGroups
from scipy import integrate

from unbounded.instantiation import MEMBERS
from unbounded.models.groups.measure import TopTables, birth_mass, log_left
from unbounded.models.groups.measures import MEASURES
from unbounded.models.groups.shard import ContentHyper, GroupHyper

SIZES = np.array([3, 0, 5])
TABLES = np.array([4.0, 1.0, 3.0])


@pytest.fixture(params=[*MEASURES, FiniteGroups], ids=lambda kind: kind.__name__)
def measure(request):
    """With everything that it samples by default."""
    return request.param()


@pytest.fixture(params=range(3))
def hyper(request, measure):
    return measure.draw_prior(np.random.default_rng(request.param))


def test_tables_are_the_rows_of_the_top_process(measure, hyper):
    merged = np.array([5.0, 3.0])
    gain = measure.log_prob(hyper, merged, SIZES) - measure.log_prob(hyper, TABLES, SIZES)
    assert measure.top.log_merge(measure.top_hyper(hyper), TABLES[0], TABLES[1], 3) == pytest.approx(gain)
    own, extra = measure.ghosts(hyper, TABLES, SIZES, 7, np.random.default_rng(0))
    assert own.sum() + extra.sum() == 7
    assert measure.default_ghosts(SIZES) >= 1


def test_groups_without_rows_say_nothing(measure, hyper):
    assert measure.log_prob(hyper, TABLES, SIZES) == measure.log_prob(hyper, TABLES, SIZES[SIZES > 0])


def test_top_weights_have_their_expectation(measure, hyper):
    rng, whole = np.random.default_rng(1), measure.masses(hyper, np.ones(1))[0]
    expected = measure.expected_masses(hyper, TABLES)
    assert expected.sum() == pytest.approx(whole)
    shares = np.exp([measure.sticks(hyper, TABLES, rng)[0] for _ in range(2000)])
    np.testing.assert_allclose(shares.sum(1), 1.0)
    error = shares.std(0) / np.sqrt(len(shares))
    assert (np.abs(shares.mean(0) - expected / whole) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("seated", [False, True])
@pytest.mark.parametrize("rule", MEMBERS)
def test_a_round_deals_the_whole_weight(measure, hyper, rule, seated):
    rng = np.random.default_rng(2)
    plan = MEMBERS[rule].plan(1, 80, 20, 3, rng)
    owner = np.full(2, int(np.flatnonzero(plan.open)[0]))  # private atoms are on a shard that is open
    weights = measure.weights(hyper, plan, TopTables(TABLES, np.array([2.0, 1.0]), owner), seated, rng)
    assert len(weights.sticks) == 3
    assert [len(sticks) for sticks in weights.sticks] == [1 if seated else 1 + 2 * (p == owner[0]) for p in range(3)]
    assert len(weights.masses) == len(TABLES)
    tails = {float(sticks[-1]) for sticks in weights.sticks} if plan.published else None
    logs = np.concatenate([sticks[:-1] if plan.published else sticks for sticks in weights.sticks])
    left = np.exp(logs).sum() + (np.exp(max(tails)) if tails else 0.0)
    whole = measure.masses(hyper, np.ones(1))[0]
    assert weights.masses.sum() + whole * left == pytest.approx(whole)
    assert len(weights.urns) == 3
    law = measure.law(hyper, weights.masses, weights.urns[0])
    assert law.masses is weights.masses


def test_cuts_of_top_weights_undo_merges(measure, hyper):
    """Summed over how the weight may be shared out, a cut gains what the merge of the tables loses: on average over
    the weights of an atom with these tables and of all others."""
    s, rng = np.linspace(0.0, 1.0, 20_001)[1:-1], np.random.default_rng(5)
    likelihood, gains = s**3 * (1.0 - s) ** 2, []
    for whole, rest in np.exp([measure.sticks(hyper, np.array([5.0]), rng)[0] for _ in range(1000)]):
        density = np.exp(measure.log_cut(hyper, s, whole, rest, 1)) * likelihood
        gains.append(integrate.trapezoid(density, s))
    merge = measure.top.log_merge(measure.top_hyper(hyper), np.float64(3.0), np.float64(2.0), 2)
    error = np.std(gains) / np.sqrt(len(gains)) / np.mean(gains)
    assert np.log(np.mean(gains)) == pytest.approx(-merge, abs=1e-3 + 5.0 * error)


def test_births_of_a_tail_add_up(measure, hyper):
    """A tail without atoms is born anew, one after another, until nothing is left or it is not worth a look."""
    urn = measure.sticks(hyper, np.empty(0), np.random.default_rng(6))[1]
    left, n_atoms = 0.0, 0
    assert birth_mass(urn, 0) == urn.birth
    while left > np.log(1e-3):
        left += log_left(urn, n_atoms, np.uint64(7), n_atoms)
        n_atoms += 1
    assert n_atoms > 0
    assert (left == -np.inf) == (birth_mass(urn, n_atoms) <= 0.0)


def test_labels_of_the_prior(measure, hyper):
    """As many as there are rows; where all that is unknown weighs nothing in a group, its rows are of one atom."""
    rng = np.random.default_rng(3)
    assert measure.simulate(hyper, SIZES, rng).shape == (8,)
    unknown = measure.unknown(hyper, 2, 1e-12)
    assert measure.masses(unknown, np.ones(1))[0] == pytest.approx(1e-12)
    labels = measure.simulate(unknown, SIZES, rng)
    assert len(set(labels[:3])) == len(set(labels[3:])) == 1


def test_hyper_parameters(measure):
    """Updates leave prior times `log_prob` as it is: against draws of the prior, weighted."""
    rng, now = np.random.default_rng(4), measure.start()
    prior = [measure.draw_prior(rng) for _ in range(8000)]
    logs = np.array([measure.log_prob(h, TABLES, SIZES) for h in prior])
    weights = np.exp(logs - logs.max())
    seen = []
    for _ in range(4000):
        now = measure.update(now, TABLES, SIZES, rng)
        assert np.isfinite(measure.log_prior(now))
        seen.append(list(measure.scalars(now).values()))
    values = np.array([list(measure.scalars(h).values()) for h in prior])
    expected = weights @ values / weights.sum()
    error = np.sqrt(8.0 * np.var(seen, axis=0) / len(seen) + values.var(0) * (weights**2).sum() / weights.sum() ** 2)
    assert (np.abs(np.mean(seen, axis=0) - expected) < 5 * error + 1e-12).all()
    assert type(now) is measure.hyper_type
    whole = GroupHyper(now, ContentHyper(0.3, np.array([0.5, 1.5])))
    again = GroupHyper.of(measure, whole.array())
    assert again.measure == now
    np.testing.assert_equal(again.content, whole.content)
