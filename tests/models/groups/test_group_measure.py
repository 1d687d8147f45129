"""The hierarchical measure: its prior of labels, and the algebra of tables that everything else asks it for."""

from __future__ import annotations

import numpy as np
import pytest

from unbounded.models.groups.measure import HierarchicalHyper, HierarchicalMeasure
from unbounded.priors import Gamma

SIZES = np.array([3, 0, 5])


def test_labels_of_the_prior_meet_as_they_should():
    """Two rows of a group share a table with 1 / (1 + gamma); two tables share a dish with 1 / (1 + alpha)."""
    measure, hyper, rng = HierarchicalMeasure(), HierarchicalHyper(1.5, 0.7), np.random.default_rng(1)
    draws = np.array([measure.simulate(hyper, SIZES, rng) for _ in range(4000)])
    assert draws.shape == (4000, 8)
    dish, seat = 1.0 / 2.5, 1.0 / 1.7
    within, across = (draws[:, 0] == draws[:, 1]).mean(), (draws[:, 0] == draws[:, 4]).mean()
    assert within == pytest.approx(seat + (1.0 - seat) * dish, abs=0.035)
    assert across == pytest.approx(dish, abs=0.035)


def test_the_probability_of_tables_is_what_concentrations_are_moved_by():
    """Slice and auxiliary moves leave prior times `log_prob` invariant: means against a grid."""
    measure = HierarchicalMeasure(Gamma(2.0, 1.0), Gamma(2.0, 2.0))
    counts, rng = np.array([3.0, 1.0, 1.0]), np.random.default_rng(2)
    grid = np.exp(np.linspace(-7.0, 4.0, 160))
    logs = np.array([
        [measure.log_prob(h, counts, SIZES) + measure.log_prior(h) for g in grid for h in [HierarchicalHyper(a, g)]]
        for a in grid
    ])  # fmt: skip
    weights = np.exp(logs - logs.max()) * np.outer(grid, grid)
    weights /= weights.sum()
    hyper, seen = measure.start(), []
    for _ in range(6000):
        hyper = measure.update(hyper, counts, SIZES, rng)
        seen.append(hyper)
    expected = [weights.sum(1) @ grid, weights.sum(0) @ grid]
    assert np.mean(seen, axis=0) == pytest.approx(expected, rel=0.08)


def test_masses_add_up_to_gamma():
    masses = HierarchicalMeasure().expected_masses(HierarchicalHyper(1.0, 2.5), np.array([4, 1, 3]))
    assert masses.sum() == pytest.approx(2.5)
    assert masses[-1] == pytest.approx(2.5 / 9.0)
