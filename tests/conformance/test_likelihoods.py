"""Every likelihood keeps the contract: compiled code, reference code, draws and textbooks agree with each other."""

from __future__ import annotations

import numpy as np
import pytest
from examples import EXAMPLES, MORE, Case, case, holed
from scipy import sparse, stats
from scipy.special import logsumexp

from unbounded.columns import describe
from unbounded.compiled.jit import jit
from unbounded.likelihoods import MEMBERS, DiagonalGaussian, Gaussian, Product
from unbounded.likelihoods.gaussian import BoundGaussian
from unbounded.likelihoods.operations import Block, clear, evaluate, logits, screen, update, write_terms
from unbounded.models.labelled import labels as labelled
from unbounded.models.labelled.predictive import log_predictive, with_new
from unbounded.rows import rows_of

NAMES = [member.name for member in MEMBERS] + list(MORE)
SKIPS_HOLES = [name for name in NAMES if "multinomial" not in name]
ALL = NAMES + [f"{name}-holes" for name in SKIPS_HOLES]
LANES = 48


@pytest.fixture(params=ALL)
def subject(request) -> Case:
    name = request.param
    if name.removesuffix("-holes") not in EXAMPLES | MORE:
        pytest.fail(f"the likelihood {name!r} has no example in tests/conformance/examples.py")
    return case(name)


def test_discovery_covers_every_member():
    """A likelihood that is listed but has no example must not slip through."""
    assert {member.name for member in MEMBERS} == set(EXAMPLES)


@jit
def _probe(spec, tail, data, size, terms, joins, leaves, out):
    """Slot 0 takes rows in and lets some go; slot 1 stays empty. out: predictive and bound after each step."""
    block = Block(data, 0, size, terms)
    write_terms(spec, block)
    clear(spec, tail, 0)
    clear(spec, tail, 1)
    for r in joins:
        update(spec, tail, 0, block, r, 1)
    evaluate(spec, tail, 0, block, 0, size, out[0])
    screen(spec, tail, 0, block, 0, size, out[1])
    for r in leaves:
        update(spec, tail, 0, block, r, -1)
    evaluate(spec, tail, 0, block, 0, size, out[2])
    screen(spec, tail, 0, block, 0, size, out[3])
    evaluate(spec, tail, 1, block, 0, size, out[4])
    screen(spec, tail, 1, block, 0, size, out[5])


@jit
def _logits(finite, spec, data, size, terms, out, top):
    logits(finite, spec, Block(data, 0, size, terms), out, top)


def probe(subject: Case, X, joins, leaves):
    bound, n = subject.bound, X.shape[0]
    out = np.zeros((6, LANES))
    terms = np.ones((1 if bound.columns.sparse else bound.n_terms + 1, LANES))
    tail = bound.tail(2, LANES)
    _probe(bound.spec(), tail, rows_of(X, 0, n), n, terms, np.asarray(joins, int), np.asarray(leaves, int), out)
    return out[:, :n], terms[:-1, :n]


def compiled_statistics(bound, X, labels, n_atoms):
    labels = np.asarray(labels, np.int32)
    return labelled.statistics(bound.spec(), rows_of(X, 0, X.shape[0]), labels, n_atoms, bound.n_terms)


def thirds(subject: Case):
    """Labels of three atoms with their counts and statistics by the reference."""
    labels = np.arange(subject.X.shape[0]) % 3
    terms = subject.bound.terms(subject.rows)
    sums = np.stack([terms[labels == k].sum(0) for k in range(3)])
    return labels, np.bincount(labels).astype(float), sums


def everything_at(bound, counts, statistics, X):
    """Log predictive density of rows, log_base and all."""
    return log_predictive(bound, counts, statistics, X) + bound.log_base(X)


# ---- compiled code against reference code


def test_statistics_are_sums_of_features(subject):
    labels, counts, sums = thirds(subject)
    found_counts, found = compiled_statistics(subject.bound, subject.rows, labels, 3)
    np.testing.assert_array_equal(found_counts, counts)
    np.testing.assert_allclose(found, sums, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in ALL if name != "multinomial-csr"])
def test_block_features_are_features(name):
    """Sparse rows alone have no block of terms."""
    subject = case(name)
    _, terms = probe(subject, subject.rows, [0], [])
    np.testing.assert_allclose(terms.T, subject.bound.terms(subject.rows), rtol=1e-12, atol=1e-12)


def test_compiled_predictive_is_the_ratio_of_marginals(subject):
    """For three atoms and for an empty one: the new atom of every birth."""
    _, counts, sums = thirds(subject)
    counts, sums = with_new(counts, sums)
    found = log_predictive(subject.bound, counts, sums, subject.rows)
    expected = subject.bound.log_predictive(counts, sums, subject.rows)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_rows_that_come_and_go_leave_no_trace(subject):
    """In one order in, in another out: the prior again; and with some left, the predictive given exactly those."""
    rng = np.random.default_rng(0)
    n = subject.X.shape[0]
    joins, leaves = rng.permutation(n), rng.permutation(n)
    empty = np.zeros(1), np.zeros((1, subject.bound.n_terms))
    prior = subject.bound.log_predictive(*empty, subject.rows)[0]
    out, _ = probe(subject, subject.rows, joins, leaves)
    np.testing.assert_allclose(out[2], prior, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(out[4], prior, rtol=1e-10, atol=1e-10)

    stay = leaves[-5:]
    out, _ = probe(subject, subject.rows, joins, leaves[:-5])
    whole, some = subject.statistics(joins), subject.statistics(stay)
    expected = subject.bound.log_predictive(np.array([n, 5.0]), np.stack([whole, some]), subject.rows)
    np.testing.assert_allclose(out[[0, 2]], expected, rtol=1e-7, atol=1e-7)


def test_screen_is_an_upper_bound(subject):
    """On rows of the data and on wild ones, for full, small and empty slots; the kernel allows for 1e-6 of rounding."""
    rng = np.random.default_rng(1)
    n = subject.X.shape[0]
    bound = subject.bound
    prior = bound.draw(np.zeros(n), np.zeros((n, bound.n_terms)), rng)
    wild = bound.simulate(prior, np.arange(n), rng)
    for X in (subject.rows, sparse.csr_matrix(wild) if bound.columns.sparse else wild):
        for size in (1, 3, n):
            out, _ = probe(subject, X, rng.permutation(n)[:size], rng.permutation(n)[:0])
            assert (out[1] >= out[0] - 1e-6).all()
            assert (out[5] >= out[4] - 1e-6).all()
        out, _ = probe(subject, X, np.arange(n), np.arange(3, n))
        assert (out[3] >= out[2] - 1e-6).all()


def test_logits_are_log_weight_plus_log_likelihood(subject):
    """The vectorised path: all rows and mobile atoms at once, whatever the number of terms."""
    _, counts, sums = thirds(subject)
    parameters = subject.bound.draw(counts, sums, np.random.default_rng(2))
    check_logits(subject.bound, parameters, np.log([0.5, 0.3, 0.2]), subject.rows)


def float32_losses(bound, parameters, X):
    """By row: what log odds of atoms that are not hopeless lose where terms and parameters are in single precision."""
    bias, eta = bound.natural(parameters)
    terms = bound.terms(X)
    exact = bias + terms @ eta.T
    single = bias.astype(np.float32) + terms.astype(np.float32) @ eta.astype(np.float32).T
    off, near = single - exact, exact > exact.max(1, keepdims=True) - 30.0
    return np.where(near, off, -np.inf).max(1) - np.where(near, off, np.inf).min(1)


def test_single_precision_loses_no_more_than_is_said(subject):
    _, counts, sums = thirds(subject)
    parameters = subject.bound.draw(counts, sums, np.random.default_rng(3))
    assert float32_losses(subject.bound, parameters, subject.rows).max() <= subject.bound.float32_error(parameters)


@pytest.mark.parametrize("likelihood", [Gaussian, DiagonalGaussian])
@pytest.mark.parametrize("narrow", [1.0, 1e-2, 1e-4])
def test_single_precision_loses_no_more_than_is_said_of_narrow_columns(likelihood, narrow):
    """A direction in which all rows are near each other; clusters in one place or apart, and a few rows far off."""
    rng = np.random.default_rng(4)
    for size, apart in ((2, 0.0), (2, 3.0), (8, 0.0), (8, 3.0)):
        labels, turn = np.arange(2000) % 4, np.linalg.qr(rng.normal(size=(size, size)))[0]
        rows = rng.normal(size=(2000, size)) + apart * rng.normal(size=(4, size))[labels]
        rows[:3] *= 30.0
        X = rows * np.append(narrow, np.ones(size - 1)) @ turn
        bound = likelihood().bind(describe(X))
        terms, counts = bound.terms(X), np.bincount(labels).astype(float)
        sums = np.stack([terms[labels == k].sum(0) for k in range(4)])
        parameters = bound.draw(counts, sums, rng)
        assert float32_losses(bound, parameters, X).max() <= bound.float32_error(parameters)


def check_logits(bound, parameters, log_weights, X):
    bias, eta = bound.natural(parameters)
    expected = (log_weights + bias)[:, None] + eta @ bound.terms(X).T
    n, atoms = X.shape[0], len(bias)
    terms = np.ones((1 if bound.columns.sparse else bound.n_terms + 1, LANES))
    out, top = np.empty((atoms, LANES)), np.empty(LANES)
    finite = labelled.finite_part(bound, "float64", parameters, log_weights)
    _logits(finite, bound.spec(), rows_of(X, 0, n), n, terms, out, top)
    out, top = out[:, :n], top[:n]
    matters = expected > expected.max(0) - 39.0
    np.testing.assert_allclose(out[matters], expected[matters], rtol=1e-8, atol=1e-8)
    assert (out[~matters] < np.broadcast_to(top, out.shape)[~matters] - 36.0).all()
    np.testing.assert_allclose(top, expected.max(0), rtol=1e-8, atol=1e-8)
    return matters.mean()


def test_logits_of_many_columns_may_skip_only_what_cannot_matter():
    """Wide Gaussians bound atoms by their first columns: far apart, near, and all in one place."""
    rng = np.random.default_rng(9)
    d, atoms = 36, 10
    shares = []
    for first, last in [(30.0, 30.0), (0.0, 30.0), (0.0, 0.0)]:
        spread = np.where(np.arange(d) < d // 4, first, last)
        centres = rng.normal(size=(atoms, d)) * spread / np.sqrt(d)
        X = centres[np.arange(40) % atoms] + rng.normal(size=(40, d))
        bound = Gaussian(mean=0.0, dof=d + 30.0, scale=30.0).bind(describe(X))
        sums = np.stack([bound.terms(X[k::atoms]).sum(0) for k in range(atoms)])
        shares.append(check_logits(bound, bound.draw(np.full(atoms, 4.0), sums, rng), np.full(atoms, -2.3), X))
    assert shares[0] < 0.3, "some atoms must be negligible, or nothing was skipped"
    assert shares[-1] > 0.5, "and in one place most of them matter"


# ---- reference code against textbooks


def test_natural_parameters_give_the_log_density(subject):
    rng = np.random.default_rng(3)
    _, counts, sums = thirds(subject)
    parameters = subject.bound.draw(counts, sums, rng)
    bias, eta = subject.bound.natural(parameters)
    found = bias[:, None] + eta @ subject.bound.terms(subject.rows).T + subject.bound.log_base(subject.rows)
    for k in range(3):
        expected = subject.example.log_density(subject.bound, parameters, k, subject.rows)
        np.testing.assert_allclose(found[k], expected, rtol=1e-9, atol=1e-9)


def test_marginal_likelihood_is_an_average_over_prior_draws(subject):
    """A row or two, so that the average converges; within five Monte Carlo standard errors."""
    bound, draws = subject.bound, 200_000
    rows = [0, 3] if bound.n_terms < 15 else [0]
    parameters = bound.draw(np.zeros(draws), np.zeros((draws, bound.n_terms)), np.random.default_rng(4))
    bias, eta = bound.natural(parameters)
    logs = len(rows) * bias + eta @ subject.statistics(rows)
    exact = bound.log_marginal(np.array([float(len(rows))]), subject.statistics(rows)[None])[0]
    ratios = np.exp(logs - exact)  # average 1
    error = ratios.std() / np.sqrt(draws)
    assert error < 0.05
    assert abs(ratios.mean() - 1.0) < 5 * error


def test_posterior_draws_average_to_the_predictive(subject):
    """E[f(x | theta)] given the members is the predictive density of x: a test of the whole law, not of its mean."""
    bound, draws = subject.bound, 100_000
    members, news = np.arange(0, 12, 3), np.arange(1, 12)
    counts, statistics = np.array([float(len(members))]), subject.statistics(members)[None]
    parameters = bound.draw(np.repeat(counts, draws), np.repeat(statistics, draws, axis=0), np.random.default_rng(5))
    bias, eta = bound.natural(parameters)
    logs = bias[:, None] + eta @ bound.terms(subject.take(news)).T
    ratios = np.exp(logs - bound.log_predictive(counts, statistics, subject.take(news))[0])
    error = ratios.std(0) / np.sqrt(draws)
    assert (np.abs(ratios.mean(0) - 1.0) < 5 * error + 1e-12).all()
    assert np.median(error) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_posterior_draws_have_the_textbook_mean(name):
    """Conjugate updates written out in the user's units; five Monte Carlo standard errors."""
    subject, draws = case(name), 40_000
    bound, members = subject.bound, np.arange(0, 30, 3)
    expected = subject.example.posterior_mean(subject.example.likelihood, subject.X[members])
    counts, statistics = np.full(draws, 10.0), np.repeat(subject.statistics(members)[None], draws, axis=0)
    parameters = in_user_units(bound, bound.draw(counts, statistics, np.random.default_rng(6)))
    assert expected
    for key, value in expected.items():
        error = parameters[key].std(0) / np.sqrt(draws)
        assert (np.abs(parameters[key].mean(0) - value) < 5 * error).all(), key


def in_user_units(bound, parameters):
    """Parameters of Gaussians live on standardised columns; those of all others are what they are."""
    if isinstance(bound, BoundGaussian):
        precision = parameters["factor"] @ np.swapaxes(parameters["factor"], 1, 2)
        scaled = precision * np.outer(bound.inverse_scale, bound.inverse_scale)
        return {"mean": parameters["mean"] / bound.inverse_scale + bound.shift, "precision": scaled}
    if "variance" in parameters:
        mean = parameters["mean"] / bound.inverse_scale + bound.shift
        return {"mean": mean, "variance": parameters["variance"] / bound.inverse_scale**2}
    if "0/mean" in parameters:
        out = {}
        for i, part in enumerate(bound.parts):
            own = {name[2:]: v for name, v in parameters.items() if name.startswith(f"{i}/")}
            out |= {f"{i}/{name}": value for name, value in in_user_units(part, own).items()}
        return out
    return parameters


def test_simulated_rows_have_the_mean_and_variance_of_their_atom(subject):
    """Within five standard errors, each column of each atom."""
    n = 20_000
    rng = np.random.default_rng(7)
    _, counts, sums = thirds(subject)
    parameters = subject.bound.draw(counts, sums, rng)
    X = subject.bound.simulate(parameters, np.repeat(np.arange(3), n), rng).reshape(3, n, -1)
    mean, variance = subject.example.moments(subject.bound, parameters)
    squares = (X - mean[:, None]) ** 2
    assert (np.abs(X.mean(1) - mean) <= 5 * X.std(1) / np.sqrt(n) + 1e-9).all()
    assert (np.abs(squares.mean(1) - variance) <= 5 * squares.std(1) / np.sqrt(n) + 1e-9).all()


# ---- holes


@pytest.mark.parametrize("name", SKIPS_HOLES)
def test_ready_for_holes_changes_nothing_on_whole_rows(name):
    subject = case(name)
    _, counts, sums = thirds(subject)
    counts, sums = with_new(counts, sums)
    able, more = subject.bound.with_holes(counts, sums)
    before = everything_at(subject.bound, counts, sums, subject.X)
    np.testing.assert_allclose(everything_at(able, counts, more, subject.X), before, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["multinomial", "multinomial-csr"])
def test_multinomial_says_that_it_has_no_room_for_holes(name):
    subject = case(name)
    with pytest.raises(ValueError, match="missing values"):
        subject.bound.with_holes(np.ones(1), np.ones((1, 5)))
    with pytest.raises(ValueError, match="missing values"):
        subject.example.likelihood.bind(describe(holed(case("multinomial").X)))


@pytest.mark.parametrize("bound_to", ["", "-holes"])
@pytest.mark.parametrize("name", SKIPS_HOLES)
def test_a_hole_is_summed_out(name, bound_to):
    """The predictive density of a row with a hole is the sum (integral) over everything that could be there."""
    subject = case(name + bound_to)
    _, counts, sums = thirds(subject)
    bound, counts, sums = subject.bound, *with_new(counts, sums)
    if not bound_to:
        bound, sums = bound.with_holes(counts, sums)
    values, weights = subject.example.grid
    X = np.repeat(subject.example.X[:1], len(values), axis=0)
    X[:, 0] = values
    total = logsumexp(everything_at(bound, counts, sums, X) + np.log(weights), axis=1)
    holed_row = subject.example.X[:1].copy()
    holed_row[0, 0] = np.nan
    found = everything_at(bound, counts, sums, holed_row)[:, 0]
    np.testing.assert_allclose(found, total, atol=2e-4)


@pytest.mark.parametrize("name", [f"{name}-holes" for name in SKIPS_HOLES])
def test_a_row_of_holes_says_nothing(name):
    """Every atom explains it equally well."""
    subject = case(name)
    _, counts, sums = thirds(subject)
    empty = np.full((1, subject.X.shape[1]), np.nan)
    np.testing.assert_allclose(everything_at(subject.bound, *with_new(counts, sums), empty), 0.0, atol=1e-12)


def test_gaussian_holes_against_the_student_t():
    """Rows with holes: the multivariate t of the observed columns, from scipy."""
    subject = case("gaussian-wide-holes")
    prior, X = subject.example.likelihood, subject.rows
    n, d = X.shape
    posterior = subject.example.posterior_mean(prior, X)
    kappa, freedom = prior.kappa + n, prior.dof + n - d + 1
    shape = np.linalg.inv(posterior["precision"]) * (prior.dof + n) * (kappa + 1) / (kappa * freedom)
    found = everything_at(subject.bound, np.array([float(n)]), subject.statistics(np.arange(n))[None], subject.X)[0]
    for x, value in zip(subject.X, found, strict=True):
        seen = np.flatnonzero(~np.isnan(x))
        law = stats.multivariate_t(posterior["mean"][seen], shape[np.ix_(seen, seen)], freedom)
        assert value == pytest.approx(law.logpdf(x[seen]), abs=1e-9)


# ---- units


MOVED = {
    "gaussian": lambda prior, a, b: Gaussian(
        mean=a + b * np.asarray(prior.mean), kappa=prior.kappa, dof=prior.dof, scale=np.outer(b, b) * prior.scale
    ),
    "diagonal_gaussian": lambda prior, a, b: DiagonalGaussian(
        mean=a + b * np.asarray(prior.mean), kappa=prior.kappa, shape=prior.shape, scale=b**2 * prior.scale
    ),
}


def affine(name):
    """A shift and a scale for each column; only real-valued columns have units."""
    if name == "product":
        return np.array([-1e4, 0.0, 3e5, 0.0]), np.array([1e-3, 1.0, 250.0, 1.0])
    return np.array([-1e4, 3e5]), np.array([1e-3, 250.0])


@pytest.mark.parametrize("suffix", ["", "-holes"])
@pytest.mark.parametrize("name", ["gaussian", "diagonal_gaussian", "product"])
def test_units_do_not_matter(name, suffix):
    """Shift and scale rows and prior alike: same marginals and predictives, up to the Jacobian."""
    subject = case(name + suffix)
    a, b = affine(name)
    prior = subject.example.likelihood
    if name == "product":
        (gaussian, columns), *others = prior.parts
        moved = Product((MOVED["gaussian"](gaussian, a[[0, 2]], b[[0, 2]]), columns), *others)
    else:
        moved = MOVED[name](prior, a, b)
    X = a + b * subject.X
    other = Case(subject.example, X, moved.bind(describe(X)))
    jacobian = -(~np.isnan(X) * np.log(b)).sum(1)

    labels, counts, sums = thirds(subject)
    _, _, other_sums = thirds(other)
    whole = [
        np.bincount(labels, log) for log in (subject.bound.log_base(subject.rows), other.bound.log_base(other.rows))
    ]
    before = subject.bound.log_marginal(counts, sums) + whole[0]
    after = other.bound.log_marginal(counts, other_sums) + whole[1]
    lost = np.bincount(labels, -(~np.isnan(subject.rows) * np.log(b)).sum(1))
    np.testing.assert_allclose(after, before + lost, rtol=1e-7, atol=1e-6)
    np.testing.assert_allclose(
        everything_at(other.bound, counts, other_sums, X),
        everything_at(subject.bound, counts, sums, subject.X) + jacobian,
        rtol=1e-7,
        atol=1e-6,
    )


# ---- first guesses


def test_the_centre_is_where_draws_are(subject):
    """With many copies of the rows every draw is near the centre, and so are densities that are not negligible."""
    _, counts, sums = thirds(subject)
    counts, sums = 1e7 * counts, 1e7 * sums
    bound, terms = subject.bound, subject.bound.terms(subject.rows)

    def densities(parameters):
        bias, eta = bound.natural(parameters)
        return bias[:, None] + eta @ terms.T

    drawn = densities(bound.draw(counts, sums, np.random.default_rng(3)))
    found = densities(bound.centre(counts, sums))
    top = drawn.max()
    np.testing.assert_allclose(np.exp(found - top), np.exp(drawn - top), rtol=0.02, atol=1e-6)
    assert np.isfinite(densities(bound.centre(np.zeros(1), np.zeros((1, bound.n_terms))))).all()


def test_a_coarse_likelihood_has_some_of_the_terms(subject):
    coarse, which = subject.bound.coarse()
    assert len(which) == coarse.n_terms <= 3 * subject.bound.n_terms
    np.testing.assert_array_equal(coarse.terms(subject.rows), subject.bound.terms(subject.rows)[:, which])
    _, counts, sums = thirds(subject)
    assert np.isfinite(coarse.log_marginal(counts, sums[:, which])).all()


def test_densities_of_what_is_observed_given_the_parameters():
    """Of a Gaussian: the normal distribution of the columns that are there; nothing, of a row without any."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 3)) * [1.0, 5.0, 0.2] + [3.0, 0.0, 100.0]
    X[rng.random(X.shape) < 0.3] = np.nan
    X[0] = np.nan
    bound = Gaussian().bind(describe(X))
    drawn = bound.draw(np.zeros(2), np.zeros((2, bound.n_terms)), rng)
    found = bound.log_given(drawn, X) + bound.log_base(X)[:, None]
    for k in range(2):
        covariance = np.linalg.inv(drawn["precision"][k]) / np.outer(bound.inverse_scale, bound.inverse_scale)
        mean = drawn["mean"][k] / bound.inverse_scale + bound.shift
        for i, there in enumerate(~np.isnan(X)):
            law = stats.multivariate_normal(mean[there], covariance[np.ix_(there, there)]) if there.any() else None
            assert found[i, k] == pytest.approx(law.logpdf(X[i, there]) if law else 0.0, abs=1e-8)
    product = Product(("gaussian", [0, 1]), ("diagonal_gaussian", [2])).bind(describe(X))
    drawn = product.draw(np.zeros(2), np.zeros((2, product.n_terms)), rng)
    parts = [part.log_given(product._of(drawn, i), X) for i, part in enumerate(product.parts)]
    np.testing.assert_allclose(product.log_given(drawn, X), parts[0] + parts[1])
