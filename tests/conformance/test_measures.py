"""Every measure of mixtures keeps the contract: its partition algebra agrees with its own law of partitions."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from finite_dirichlet import FiniteDirichlet
from scipy import stats

from unbounded.models.mixtures.measures import MEASURES
from unbounded.priors import Beta, Gamma, InverseGamma, slice_within

N = 5


def partitions(n):
    rows = [[0]]
    for _ in range(1, n):
        rows = [labels + [k] for labels in rows for k in range(max(labels) + 2)]
    return rows


def sizes(labels):
    return np.bincount(labels).astype(float)


@pytest.fixture(params=(*MEASURES, FiniteDirichlet), ids=lambda kind: kind.__name__)
def measure(request):
    """With everything that it samples by default."""
    return request.param()


@pytest.fixture(params=range(4))
def hyper(request, measure):
    return measure.draw_prior(np.random.default_rng(request.param))


def test_probabilities_sum_to_one(measure, hyper):
    assert np.exp([measure.log_prob(hyper, sizes(z), N) for z in partitions(N)]).sum() == pytest.approx(1.0)


def test_the_next_row(measure, hyper):
    """Joining an atom or making one is a ratio of probabilities of partitions."""
    for labels in partitions(N - 1):
        counts = sizes(labels)
        log_p = measure.log_predictive(hyper, counts)
        now = measure.log_prob(hyper, counts, N - 1)
        grown = [counts + (np.arange(len(counts)) == k) for k in range(len(counts))] + [np.append(counts, 1.0)]
        for value, more in zip(log_p, grown, strict=True):
            assert np.exp(value) == pytest.approx(np.exp(measure.log_prob(hyper, more, N) - now))


def test_merges(measure, hyper):
    for labels in partitions(N):
        counts = sizes(labels)
        if len(counts) > 1:
            merged = np.append(counts[2:], counts[0] + counts[1])
            gain = measure.log_prob(hyper, merged, N) - measure.log_prob(hyper, counts, N)
            assert measure.log_merge(hyper, counts[0], counts[1], len(counts)) == pytest.approx(gain)


def test_ghosts_are_further_rows(measure, hyper):
    """The first ghost joins atoms as the next row does; two that no atom holds are one atom or two."""
    rng, counts, draws = np.random.default_rng(1), np.array([3.0, 1.0]), 4000
    alone = np.zeros(3)
    pairs = {(1, 1): 0, (2,): 0}
    for _ in range(draws):
        ghosts, extra = measure.ghosts(hyper, counts, 4, 1, rng)
        assert ghosts.sum() + extra.sum() == 1
        alone[:2] += ghosts
        alone[2] += len(extra)
        extra = tuple(sorted(measure.ghosts(hyper, counts, 4, 2, rng)[1].tolist()))
        if extra in pairs:
            pairs[extra] += 1
    first = np.exp(measure.log_predictive(hyper, counts))
    second = np.exp(measure.log_predictive(hyper, np.append(counts, 1.0)))
    for seen, share in [
        *zip(alone, first, strict=True), (pairs[2,], first[2] * second[2]), (pairs[1, 1], first[2] * second[3])
    ]:  # fmt: skip
        assert abs(seen - draws * share) < 5 * np.sqrt(draws * share * (1 - share) + 1)


def test_labels_from_the_prior(measure):
    """As many atoms, and as even, as those of rows that are seated one after another."""
    rng, hyper, n = np.random.default_rng(2), measure.start(), 120

    def seated():
        counts = np.ones(1)
        for _ in range(n - 1):
            k = rng.choice(len(counts) + 1, p=np.exp(measure.log_predictive(hyper, counts)))
            counts = np.append(counts, 1.0) if k == len(counts) else counts + (np.arange(len(counts)) == k)
        return counts

    ours = [np.bincount(measure.simulate(hyper, n, rng)) for _ in range(400)]
    theirs = [seated() for _ in range(400)]
    for number in (len, lambda sizes: np.sum((sizes / n) ** 2), lambda sizes: np.mean(sizes == 1)):
        a, b = ([float(number(sizes)) for sizes in found] for found in (ours, theirs))
        assert abs(np.mean(a) - np.mean(b)) < 4.5 * np.hypot(np.std(a), np.std(b)) / np.sqrt(400)


def test_weights_and_tails(measure, hyper):
    rng = np.random.default_rng(3)
    assert np.isfinite(measure.log_weights(hyper, np.array([1.0, 5.0]), rng)).all()
    assert not measure.closed_tail(hyper).makes_atoms
    laws = measure.tails(hyper, 1, np.array([1, 0]), np.array([True, False]), rng)
    assert [law.makes_atoms for law in laws] == [True, False]
    log_weights, law = measure.published(hyper, np.array([2.0, 1.0]), 0.0, rng)
    assert np.exp(log_weights).sum() + law.scale == pytest.approx(1.0)


def test_hyper_parameters(measure):
    """Updates stay where the prior is, by turns with labels they leave it as it is, and arrays bring them back."""
    rng, hyper = np.random.default_rng(4), measure.start()

    def turns():
        now = measure.draw_prior(rng)
        while True:
            labels = np.array([0])
            for _ in range(N - 1):
                p = np.exp(measure.log_predictive(now, sizes(labels)))
                labels = np.append(labels, rng.choice(len(p), p=p / p.sum()))
            now = measure.update(now, sizes(labels), N, rng)
            assert np.isfinite(measure.log_prior(now))
            yield now

    seen = np.array(list(islice(turns(), 3000)), float)
    prior = np.array([measure.draw_prior(rng) for _ in range(3000)], float)
    error = np.sqrt(6.0 * (seen.var(0) + prior.var(0)) / 3000)  # autocorrelation included
    assert (np.abs(seen.mean(0) - prior.mean(0)) <= 5 * error).all()
    assert measure.restore(np.array(hyper)) == hyper
    assert set(measure.scalars(hyper)) <= set(hyper._fields)


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (Gamma(0.7, 0.8), stats.gamma(0.7, scale=1.25)),
        (Beta(0.6, 0.9), stats.beta(0.6, 0.9)),
        (InverseGamma(0.7, 0.4), stats.invgamma(0.7, scale=0.4)),
    ],
    ids=["gamma", "beta", "inverse gamma"],
)
def test_priors_are_what_they_are_called(prior, law):
    """Densities with all their constants, which log joints have, and draws; any positive number will do."""
    at = np.linspace(0.1, 0.9, 5)
    np.testing.assert_allclose([prior.log_density(float(x)) for x in at], law.logpdf(at), rtol=1e-12)
    rng = np.random.default_rng(7)
    assert stats.kstest([prior.draw(rng) for _ in range(1000)], law.cdf).pvalue > 1e-6


def test_variances_given_squares():
    """Prior times likelihood of numbers around zero, but for a constant."""
    prior, numbers = InverseGamma(3.5, 2.5), np.array([0.3, -1.2, 0.7])
    posterior = prior.given(len(numbers), float(numbers @ numbers))
    both = [prior.log_density(v) + stats.norm(0.0, v**0.5).logpdf(numbers).sum() for v in (0.2, 1.0, 3.0)]
    constant = np.array(both) - [posterior.log_density(v) for v in (0.2, 1.0, 3.0)]
    np.testing.assert_allclose(constant, constant[0], rtol=1e-12)


def test_slices_keep_the_density():
    """Hyper-parameters of all models move by them: draws of a density are draws of it after a move, too."""
    rng, density = np.random.default_rng(6), Beta(2.0, 3.0)
    moved = [slice_within(density.log_density, density.draw(rng), 0.0, 1.0, rng) for _ in range(3000)]
    assert stats.kstest(moved, stats.beta(2.0, 3.0).cdf).pvalue > 1e-6
