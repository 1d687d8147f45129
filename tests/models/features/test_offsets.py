"""Where the zero of the data is, how large they are and how precise: none of it changes what is found."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.linalg import hadamard

from unbounded import BetaBernoulliFeatures, GammaPoissonFeatures, LinearGaussian
from unbounded.columns import describe
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.linear_gaussian import Scales
from unbounded.models.features.measures import BetaBernoulli, BetaNegativeBinomial, GammaPoisson
from unbounded.models.features.operations import Mobile
from unbounded.models.features.point_estimate import FeatureDraw, point_estimate
from unbounded.report.text import text
from unbounded.setup import Setup

RNG = np.random.default_rng(5)
PARTS = 3.0 * np.repeat(np.eye(3), 2, axis=1)
USED = (RNG.random((300, 3)) < 0.4).astype(int)
NOISE = RNG.normal(size=(300, 6))
X = USED @ PARTS + 0.3 * NOISE
OWN = np.array([5.0, -40.0, 300.0, 0.0, 12.0, -7.0])  # another one in every column


def features(rows, kind=BetaBernoulliFeatures, **options):
    brief = {"n_chains": 1, "n_warmup": 30, "n_draws": 20, "n_snapshots": 6, "n_workers": 1, "random_state": 3}
    return kind(**brief, **options).fit(rows)


def found(fit):
    """Loadings of features that matter, each as it has most in common with a true one, and the noise."""
    large = fit.components_[[share > 0.05 for share in fit.assignments_.mean(0)]]
    near = np.minimum(*(np.abs(sign * large[:, None] - PARTS).max(axis=2) for sign in (1, -1)))
    assert len(large) == 3, fit.assignments_.mean(0)
    assert sorted(near.argmin(axis=1)) == [0, 1, 2]
    return near.min(axis=1).max(), float(fit.posterior_["sigma_x"].mean())


@pytest.mark.parametrize(
    ("offset", "kind", "options"),
    [
        (20.0, BetaBernoulliFeatures, {}),
        (OWN, BetaBernoulliFeatures, {}),
        (1e4, GammaPoissonFeatures, {}),
        (1e6, BetaBernoulliFeatures, {"dtype": "float32"}),
    ],
    ids=["same", "own", "counts", "float32"],
)
def test_what_was_added_to_the_data_does_not_matter(offset, kind, options):
    """The standard error of a loading is 0.04 and that of the noise 2%: five of them."""
    fit = features(X + offset, kind, **options)
    apart, noise = found(fit)
    assert apart < 0.2
    assert noise == pytest.approx(0.3, rel=0.1)
    assert fit.posterior_["above_1%"].mean() < 4.5
    rebuilt = fit.inverse_transform(fit.transform(X[:50] + offset)) - offset
    assert np.abs(rebuilt - USED[:50] @ PARTS).mean() < 0.15


@pytest.mark.parametrize("kind", [BetaBernoulliFeatures, GammaPoissonFeatures])
@pytest.mark.parametrize(("noise", "offset"), [(1e-4, 1e8), (1e-5, 1e6), (0.0, 1e6)])
def test_small_noise_far_from_zero(noise, offset, kind):
    """Sums of rows as they are would have fewer digits than the noise needs."""
    fit = features(USED @ PARTS + noise * NOISE + offset, kind)
    apart, sampled = found(fit)
    assert apart < 1e-3
    assert sampled == pytest.approx(noise, rel=0.15, abs=1e-5 if noise == 0.0 else 0.0)


def test_an_offset_of_a_trillion():
    """Thousands of steps between numbers are left of the noise."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".* so far from zero")
        apart, noise = found(features(X + 1e12))
    assert apart < 0.2
    assert noise == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    ("rows", "counts"),
    [(X + 1e16, True), ((X + 1e7).astype(np.float32), False)],
    ids=["double", "single"],
)
def test_few_digits_are_said(rows, counts):
    with pytest.warns(UserWarning, match="so far from zero that few digits are left") as caught:
        columns = describe(rows)
    assert ("counts as constant" in str(caught[0].message)) == counts == columns.constant[0]


@pytest.mark.parametrize("size", [1e90, 1e-150, 1e-300])
def test_values_that_have_no_products_are_refused(size):
    with pytest.raises(ValueError, match=r"the largest value is \de.*: multiply the data by a number that brings them"):
        features(X * size)


@pytest.mark.parametrize("size", [1e34, 1e-34])
def test_values_that_have_products_are_not(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        fit = features(X * size)
    assert fit.posterior_["sigma_x"].mean() / size == pytest.approx(0.3, rel=0.1)


def test_rows_without_features_may_be_zero():
    likelihood = LinearGaussian(intercept=False)
    fit = features(X, likelihood=likelihood)
    assert (fit.intercept_ == 0.0).all()
    assert found(fit)[0] < 0.2


@pytest.mark.parametrize("noise", [1e-3, 1e-4, 0.0])
def test_the_noise_has_no_floor(noise):
    """Without any, what is left is the prior's say."""
    fit = features(USED @ PARTS + noise * NOISE)
    assert fit.posterior_["sigma_x"].values[0, -1] == pytest.approx(noise, rel=0.15, abs=1e-5 if noise == 0.0 else 0.0)
    line = next(line for line in text(fit).splitlines() if line.startswith("noise"))
    assert f"{fit.posterior_['sigma_x'].values.mean():.3g}" in line


def test_the_summary_says_how_many_features_many_rows_have():
    """Tiny features of single rows are real draws, and not what anybody asks for."""
    rows = X.copy()
    rows[:2] += [[9.0, -9.0, 9.0, 0.0, 0.0, 5.0], [-8.0, 0.0, 7.0, 9.0, -9.0, 0.0]]
    fit = features(rows)
    said = text(fit).splitlines()
    assert fit.posterior_["n_features"].mean() > 4.5
    assert "features (estimate)  5, of which 5 above 0.1% and 3 above 1% of the rows" in said
    assert "above 1% (posterior) mean 3.00, 90% interval 3 to 3" in said


def test_a_column_without_variation_is_said():
    brief = {"n_warmup": 2, "n_draws": 4, "init": "one"}
    with pytest.warns(UserWarning, match=r"columns without any variation \(2\)"):
        BetaBernoulliFeatures(n_chains=1, n_workers=1, **brief).fit(np.insert(X[:40], 2, 7.0, axis=1))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="columns without")
        BetaBernoulliFeatures(n_chains=1, n_workers=1, **brief).fit(X[:40])


def test_draws_are_turned_as_the_reference_is():
    """Counts, too: what a feature adds to a row is the same either way."""
    Z, (one, two) = np.array([[0, 1], [1, 0], [2, 1], [0, 0]]), np.array([[1.0, 2.0], [3.0, -1.0]])
    first = FeatureDraw(Z, np.array([one, two]), 1.0, np.zeros((1, 2)))
    other = FeatureDraw(np.column_stack([Z[:, 1], 2 - Z[:, 0]]), np.array([two, -one]), 0.0, 2.0 * one[None])
    estimate = point_estimate([first, other])
    assert [own.tolist() for own in estimate.matches] in ([[0, 1], [1, 0]], [[1, 0], [0, 1]])
    np.testing.assert_allclose(estimate.assignments @ estimate.components, Z @ [one, two], atol=1e-6)
    np.testing.assert_allclose(other.flipped(estimate.tops[1]).always, 0.0, atol=1e-12)
    assert sum(tops.tolist().count(0) for tops in estimate.tops) == 3


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_tiny_features_of_other_rows_are_no_match(sign):
    """Flipped, each would be in all other rows, and the estimate would say that half of the rows have it."""

    def draw(row, loadings):
        return FeatureDraw(
            np.column_stack([USED, np.arange(300) == row]), np.vstack([PARTS, loadings]), 0.0, np.zeros((1, 6))
        )

    draws = [draw(row, (1.0 if row % 2 else sign) * PARTS.sum(0)) for row in range(8)]
    estimate = point_estimate(draws)
    np.testing.assert_allclose(sorted(estimate.assignments.mean(0)), sorted(USED.mean(0)), rtol=1e-6)
    assert not np.any(estimate.tops)


@pytest.mark.parametrize("case", ["plain", "noise", "terms that cancel"])
def test_single_precision_falls_back_where_it_would_lose(case):
    """Rounds are in single precision where that is good enough for what entries are drawn from, and nowhere else."""
    few, size = (1e-3, 30.0) if case == "terms that cancel" else (1.0, 1.0)
    bound = LinearGaussian(intercept=False).bind(describe(few * X))
    A = size * np.concatenate([PARTS, -PARTS])  # what one feature adds another one takes away
    scales = Scales(1e-10 if case == "noise" else 0.1, 1.0)
    kind = bound.spec(scales, A, len(A), "float32").scaled.dtype
    assert kind == (np.float32 if case == "plain" else np.float64)


@pytest.mark.parametrize("holes", [False, True])
def test_single_precision_knows_of_holes(holes):
    """Features that are perpendicular to each other say little of each other; what they draw for a hole may be far."""
    X = 1e-3 * np.random.default_rng(5).normal(size=(50, 8))
    X[np.arange(8), np.arange(8)] = np.nan if holes else 0.0
    A = 100.0 * hadamard(8)
    bound = LinearGaussian(intercept=False).bind(describe(X))
    assert bound.spec(Scales(1.0, 1.0), A, 8, "float32").scaled.dtype == (np.float64 if holes else np.float32)


@pytest.mark.parametrize("measure", [BetaBernoulli(), GammaPoisson(), BetaNegativeBinomial()], ids=str)
def test_counts_are_never_in_single_precision(measure):
    """What float32 loses grows with the entries, and these have no bound."""
    bound = LinearGaussian(intercept=False).bind(describe(X))
    model = HybridFeatures(Setup(measure, bound, len(X), 1, 0, dtype="float32"))
    spec = model.finite(Mobile(np.arange(3), np.zeros(3)), Scales(0.1, 1.0), PARTS[:3]).spec
    assert spec.scaled.dtype == (np.float32 if measure.binary else np.float64)


def test_a_far_row_is_said():
    """Its distance would be the noise of all rows, and their features would be lost in it."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(300, 3))
    likelihood = LinearGaussian()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        likelihood.bind(describe(rows))
        likelihood.bind(describe(rng.standard_t(3, size=(300, 3))))
    rows[7, 1] = 1e4
    with pytest.warns(UserWarning, match=r"a few rows are far away .* column 1 up to \d+ times .* leave such rows out"):
        likelihood.bind(describe(rows))
