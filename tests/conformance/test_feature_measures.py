"""What every measure of features must satisfy, found by discovery: its parts say the same of one random measure.

The rate of columns with a given count is `exp(log_atom)` times the factors of entries; everything else (the number of
atoms, ghosts, weights, laws of entries, draws of Z and of hyper-parameters) follows from it and is checked against it.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from feature_examples import MEASURE_EXAMPLES
from stable_beta import StableBeta

from unbounded.compiled.jit import jit
from unbounded.models.features.laws import entry_ceiling, entry_ratio, is_binary, new_count, new_ratio
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.measures import MEASURES
from unbounded.randomness import key

HYPER = FeatureHyper(1.7, 5.0)
N = 6


@pytest.fixture(params=MEASURE_EXAMPLES, ids=lambda member: member.__name__)
def example(request):
    return MEASURE_EXAMPLES[request.param]


def test_every_measure_has_an_example():
    assert set(MEASURES) == set(MEASURE_EXAMPLES) - {StableBeta}


def entries(measure, top):
    """Factors of the entries 0 .. top."""
    return np.exp([measure.log_entries(np.array([[z]])) for z in range(top + 1)])


def close(frequency, probability, draws):
    """Within five standard errors, each cell that matters."""
    error = np.sqrt(np.maximum(probability * (1 - probability), 1e-12) / draws)
    assert (np.abs(frequency - probability) <= 5 * error + 1e-9).all()


def predictive(measure, n, amount, top):
    """Of the next row's entry of an atom with such an amount in n rows: a ratio of rates."""
    rates = np.exp(measure.log_atom(HYPER.c, n + 1.0, amount + np.arange(top + 1.0)))
    return rates * entries(measure, top) / np.exp(measure.log_atom(HYPER.c, float(n), np.array([float(amount)])))[0]


def test_rates_of_all_columns_add_up_to_the_number_of_atoms(example):
    measure, top = example.measure, min(example.largest, 40)
    ways = entries(measure, top)
    total = 0.0
    for column in product(range(top + 1), repeat=2):
        if any(column):
            rate = np.exp(measure.log_atom(HYPER.c, 2.0, np.array([float(sum(column))])))[0]
            total += rate * ways[column[0]] * ways[column[1]]
    assert total == pytest.approx(measure.expected(HYPER.c, 2.0), rel=1e-4)
    assert measure.expected_atoms(HYPER, 2) == pytest.approx(HYPER.alpha * total, rel=1e-4)


def test_rows_can_be_added_one_by_one(example):
    """The rate of a column is the sum over what one more row may have."""
    for amount in (1.0, 3.0):
        assert predictive(example.measure, N, amount, example.largest).sum() == pytest.approx(1.0, abs=1e-4)


def test_log_prob_is_a_poisson_process(example):
    measure, counts = example.measure, np.array([1.0, 2.0, 2.0])
    expected = measure.log_atom(HYPER.c, N, counts).sum() + 3 * np.log(HYPER.alpha) - measure.expected_atoms(HYPER, N)
    assert measure.log_prob(HYPER, counts, N) == pytest.approx(expected)


def test_ghosts_are_further_rows(example):
    """One ghost: its entries of an atom, and atoms that it alone holds."""
    measure, top, draws = example.measure, example.largest, 20_000
    rng = np.random.default_rng(1)
    own, _ = measure.ghosts(HYPER, np.full(draws, 2.0), N, 1, rng)
    seen = np.bincount(np.minimum(own.astype(int), top), minlength=top + 1) / draws
    close(seen, predictive(measure, N, 2.0, top), draws)
    extra = [measure.ghosts(HYPER, np.empty(0), N, 1, rng)[1] for _ in range(draws)]
    number, held = np.array([len(some) for some in extra]), np.concatenate(extra).astype(int)
    rates = np.exp(measure.log_atom(HYPER.c, N + 1.0, np.arange(1.0, top + 1))) * entries(measure, top)[1:]
    rate = measure.expected(HYPER.c, N + 1.0) - measure.expected(HYPER.c, N)
    assert abs(number.mean() - HYPER.alpha * rate) < 5 * np.sqrt(HYPER.alpha * rate / draws)
    assert (held > 0).all()
    close(np.bincount(np.minimum(held, top), minlength=top + 1)[1:] / len(held), rates / rate, len(held))


def test_no_ghosts_hold_nothing(example):
    own, extra = example.measure.ghosts(HYPER, np.array([1.0, 4.0]), N, 0, np.random.default_rng(0))
    assert not np.any(own)
    assert len(extra) == 0


def test_weights_average_to_the_predictive(example):
    measure, top, draws = example.measure, example.largest, 4_000
    weights = measure.log_weights(HYPER, np.full(draws, 3.0), float(N), np.random.default_rng(2))
    table = np.array([example.entry(w).pmf(np.arange(top + 1)) for w in weights])
    error = table.std(0) / np.sqrt(draws)
    assert (np.abs(table.mean(0) - predictive(measure, N, 3.0, top)) < 5 * error + 1e-9).all()


def test_a_law_says_how_many_atoms_a_row_adds_and_with_which_entries(example):
    measure, top, draws = example.measure, example.largest, 20_000
    law = measure.law(HYPER, float(N))
    rate = measure.expected(HYPER.c, float(N)) - measure.expected(HYPER.c, N - 1.0)
    assert law.rate == pytest.approx(HYPER.alpha * rate)
    assert measure.law(HYPER, float(N), open_=False).rate == 0.0
    shares = np.exp(measure.log_atom(HYPER.c, float(N), np.arange(1.0, top + 1))) * entries(measure, top)[1:] / rate
    assert law.first == pytest.approx(shares[0])
    new = np.array([new_count(law, u) for u in np.random.default_rng(3).random(draws)])
    close(np.bincount(np.minimum(new, top), minlength=top + 1)[1:] / draws, shares, draws)


def test_entries_of_private_atoms_follow_the_predictive(example):
    """Where a weight is drawn first, given the entry itself: a chain of the two."""
    measure, top, draws = example.measure, example.largest, 6_000
    law, others, rng = measure.law(HYPER, float(N)), 2.0, np.random.default_rng(4)
    z, seen = 0, np.zeros(top + 1)
    for step in range(draws):
        weight = law.draw_weight(others, z, key(0, "test", step))
        logs = np.array([law.log_entry(others, weight, v) for v in range(top + 1)])
        p = np.exp(logs - logs.max())
        z = int(rng.choice(top + 1, p=p / p.sum()))
        seen[z] += 1.0 / draws
    probability = predictive(measure, N - 1, others, top)
    close(seen, probability / probability.sum(), draws / 4)  # neighbours of a chain are alike


@jit
def ask(law, others, weight, z):
    ratio, ceiling = entry_ratio(law, others, weight, z), entry_ceiling(law, others, weight, z)
    return ratio, ceiling, new_ratio(law, z + 1), is_binary(law)


def test_compiled_ratios_are_those_of_the_law(example):
    law, top = example.measure.law(HYPER, float(N)), min(example.largest, 12)
    for others, weight in ((-1.0, -0.7), (2.0, -0.7)):
        logs = [law.log_entry(others, weight, z) for z in range(top + 1)]
        answers = [ask(law, others, weight, z) for z in range(top)]
        np.testing.assert_allclose(np.log([ratio for ratio, *_ in answers]), np.diff(logs), rtol=1e-12, atol=1e-12)
        for z in range(top):
            assert answers[z][1] >= max(ratio for ratio, *_ in answers[z:]) - 1e-12
    assert answers[0][3] == example.measure.binary


def test_simulated_matrices_have_the_right_columns(example):
    measure, draws = example.measure, 2_000
    rng = np.random.default_rng(5)
    drawn = [measure.simulate(HYPER, N, rng) for _ in range(draws)]
    assert all((Z.sum(axis=0) > 0).all() and len(Z) == N for Z in drawn)
    ones = N * np.exp(measure.log_atom(HYPER.c, float(N), np.array([1.0])))[0] * entries(measure, 1)[1]
    last = measure.expected(HYPER.c, float(N)) - measure.expected(HYPER.c, N - 1.0)
    means = {
        "atoms": (np.array([Z.shape[1] for Z in drawn]), measure.expected_atoms(HYPER, N)),
        "ones": (np.array([(Z.sum(axis=0) == 1).sum() for Z in drawn]), HYPER.alpha * ones),
        "first": (np.array([(Z[1:].sum(axis=0) == 0).sum() for Z in drawn]), HYPER.alpha * last),
        "last": (np.array([(Z[:-1].sum(axis=0) == 0).sum() for Z in drawn]), HYPER.alpha * last),
    }
    for name, (seen, mean) in means.items():  # numbers of columns are Poisson
        assert abs(seen.mean() - mean) < 5 * np.sqrt(mean / draws), name
        assert seen.var() == pytest.approx(mean, rel=0.3, abs=0.05), name


def test_hyper_parameters_keep_their_prior(example):
    """Hyper-parameters from the prior, Z given them, then an update given Z."""
    measure, draws = example.measure, 1_500
    rng, seen = np.random.default_rng(6), []
    for _ in range(draws):
        hyper = measure.draw_prior(rng)
        counts = measure.simulate(hyper, N, rng).sum(axis=0).astype(float)
        seen.append(measure.update(hyper, counts, N, rng))
    priors = measure.mass, measure.concentration
    for values, prior in zip(np.array(seen).T, priors, strict=True):
        assert abs(values.mean() - prior.mean) < 5 * values.std() / np.sqrt(draws)
        assert values.var() == pytest.approx(prior.shape / prior.rate**2, rel=0.25)


def test_scalars_are_what_is_sampled(example):
    measure = example.measure
    assert measure.scalars(HYPER) == {"alpha": HYPER.alpha, "c": HYPER.c}
    fixed = type(measure)(2.0, 3.0)
    assert fixed.scalars(fixed.start()) == {}
    assert fixed.start() == fixed.draw_prior(np.random.default_rng(0)) == FeatureHyper(2.0, 3.0)
    assert fixed.update(fixed.start(), np.ones(2), N, np.random.default_rng(0)) == fixed.start()
    assert fixed.log_prior(fixed.start()) == 0.0
