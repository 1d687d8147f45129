"""Mixtures with a likelihood of one's own: exact where nothing can be integrated by hand, and usable."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.utils.estimator_checks import parametrize_with_checks

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "exactness"))

from enumeration import canonical, judge, partitions

from unbounded import Gamma, OwnLikelihood, OwnMixture, PitmanYor
from unbounded.models.mixtures.own import OwnState, begin, chain, sweep
from unbounded.randomness import generator


class StudentAtoms(OwnLikelihood):
    """Student's t with 3 degrees of freedom around a location with a logistic prior: conjugate to nothing."""

    def draw(self, n, rng):
        return rng.logistic(0.0, 1.0, (n, 1))

    def log_prior(self, parameters):
        return stats.logistic.logpdf(parameters[:, 0])

    def log_density(self, X, parameters):
        z = X[:, :1] - parameters[:, 0]
        return -2.0 * np.log1p(z**2 / 3.0) - 1.0009  # the constant of three degrees of freedom, to four places


ROWS = np.array([[-2.0], [-1.2], [1.5], [2.4]])


def truth(measure: PitmanYor) -> tuple[np.ndarray, np.ndarray]:
    """All partitions of the rows and their probabilities, marginal likelihoods by quadrature."""
    grid = np.linspace(-60.0, 60.0, 24_001)[:, None]
    atoms = StudentAtoms()
    log_prior, logs = atoms.log_prior(grid), atoms.log_density(ROWS, grid)
    states = partitions(len(ROWS))
    log_p = []
    for labels in states:
        sizes = np.bincount(labels).astype(float)
        blocks = [np.log(np.exp(log_prior + logs[labels == k].sum(0)).sum() * 0.005) for k in range(len(sizes))]
        log_p.append(measure.log_prob(measure.start(), sizes, len(labels)) + sum(blocks))
    p = np.exp(np.array(log_p) - max(log_p))
    return states, p / p.sum()


@pytest.mark.parametrize(("alpha", "sigma", "auxiliary"), [(1.0, 0.0, 1), (0.6, 0.3, 3)])
def test_chains_agree_with_enumeration(alpha, sigma, auxiliary):
    measure, atoms = PitmanYor(alpha, sigma), StudentAtoms()
    states, p = truth(measure)
    place = {canonical(labels): s for s, labels in enumerate(states)}
    seen = np.zeros((16, len(states)))
    for c, frequencies in enumerate(seen):
        start = begin(ROWS, np.arange(4) % (1 + c % 4), atoms, measure, generator(c, "start"))
        for state in islice(chain(ROWS, start, atoms, measure, auxiliary, c), 10, 90):
            frequencies[place[canonical(state.labels)]] += 1.0 / 80
    verdict = judge([str(labels) for labels in states], seen, p)
    assert verdict.passed, str(verdict)


def test_prior_and_successive_conditional_agree():
    """Geweke's test: rows drawn anew given labels and parameters in every round, concentration sampled."""
    measure, atoms = PitmanYor(Gamma(2.0, 2.0), 0.0), StudentAtoms()
    said = []
    for c in range(16):
        rng = generator(c, "geweke")
        hyper = measure.draw_prior(rng)
        labels = measure.simulate(hyper, 4, rng)
        labels = np.unique(labels, return_inverse=True)[1]
        state = OwnState(labels, atoms.draw(labels.max() + 1, rng), hyper)
        rows = []
        for r in range(50):
            X = state.parameters[state.labels] + rng.standard_t(3, (4, 1))
            state = next(chain(X, state, atoms, measure, 2, 1000 * c + r))
            rows.append([len(state.parameters), state.hyper.alpha, abs(state.parameters[0, 0]) > 1.0])
        said.append(np.mean(rows, axis=0))
    alpha = np.random.default_rng(0).gamma(2.0, 0.5, 200_000)
    clusters = sum(alpha / (alpha + i) for i in range(4))
    expected = np.array([clusters.mean(), 1.0, 2.0 * stats.logistic.sf(1.0)])
    verdict = judge(["clusters", "alpha", "far"], np.array(said), expected)
    assert verdict.passed, str(verdict)


def test_a_sweep_keeps_what_it_says():
    rng = np.random.default_rng(0)
    atoms, X = StudentAtoms(), rng.normal(size=(30, 1))
    measure = PitmanYor(5.0, 0.2)
    state = begin(X, np.arange(30) % 3, atoms, measure, rng)
    for _ in range(20):
        labels, parameters = sweep(X, state, atoms, measure, 2, rng)
        assert set(labels) == set(range(len(parameters)))
        state = OwnState(labels, parameters, state.hyper)


def test_clusters_are_found_and_outliers_do_not_make_new_ones():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.standard_t(3, (40, 1)) - 8.0, rng.standard_t(3, (40, 1)) + 8.0])
    model = OwnMixture(Wide(), concentration=0.5, n_warmup=30, n_draws=30, random_state=0).fit(X)
    assert model.n_clusters_ == 2
    assert len(set(model.labels_[:40])) == 1
    assert model.posterior_["n_clusters"].shape == (1, 30)
    assert model.score(X) > model.score(X + 5.0)
    again = OwnMixture(Wide(), concentration=0.5, n_warmup=30, n_draws=30, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, again.labels_)


class Wide(StudentAtoms):
    def draw(self, n, rng):
        return rng.normal(0.0, 8.0, (n, 1))

    def log_prior(self, parameters):
        return -0.5 * (parameters[:, 0] / 8.0) ** 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"auxiliary": 0}, "auxiliary must be an integer of at least 1"),
        ({"init": "grown"}, "init must be 'one', 'prior' or labels"),
        ({"init": [0, 1]}, "X has 4 rows"),
        ({"likelihood": "gaussian"}, "likelihood must be an OwnLikelihood"),
    ],
)
def test_wrong_options_are_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        OwnMixture(**{"likelihood": StudentAtoms(), "n_warmup": 1, "n_draws": 1} | options).fit(ROWS)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        OwnMixture(StudentAtoms()).fit([[np.nan]])


class Spheres(OwnLikelihood):
    """Round Gaussians in the plane and elsewhere: a centre for each of at most twelve columns."""

    def __repr__(self):
        return "Spheres()"  # names of tests are the same in all processes

    def draw(self, n, rng):
        return rng.normal(0.0, 2.0, (n, 12))

    def log_prior(self, parameters):
        return -0.125 * (parameters**2).sum(1)

    def log_density(self, X, parameters):
        gaps = X[:, None] - parameters[None, :, : X.shape[1]]
        return -(gaps**2).sum(2) / 0.5 - 0.5 * X.shape[1] * np.log(0.5 * np.pi)

    def move(self, X, parameters, rng):
        precision = 4.0 * len(X) + 0.25
        centre = np.zeros(12)
        centre[: X.shape[1]] = 4.0 * X.sum(0) / precision
        moved = centre + rng.normal(size=12) / np.sqrt(precision)
        moved[X.shape[1] :] = rng.normal(0.0, 2.0, 12 - X.shape[1])
        return moved


@parametrize_with_checks([OwnMixture(Spheres(), n_warmup=10, n_draws=10)])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


def test_any_source_of_random_numbers_will_do():
    def labels(state):
        return OwnMixture(StudentAtoms(), n_warmup=2, n_draws=5, random_state=state).fit(ROWS).posterior_

    assert labels(np.random.default_rng(3)).equals(labels(np.random.default_rng(3)))
    assert labels(np.random.RandomState(3)).equals(labels(np.random.RandomState(3)))
