"""The scikit-learn face of feature models: conventions, features that are found, and predictions that are proper."""

from __future__ import annotations

import pickle
import re
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from unbounded import (
    BetaBernoulliFeatures,
    BetaNegativeBinomialFeatures,
    Gamma,
    GammaPoissonFeatures,
    InverseGamma,
    LinearGaussian,
    OneOpen,
)
from unbounded.models.features.point_estimate import FeatureDraw, point_estimate
from unbounded.report.text import text

BRIEF = {"n_chains": 1, "n_warmup": 2, "n_draws": 4, "n_snapshots": 4, "n_workers": 1}


def _check_name(check):
    options = ", ".join(f"{name}={value}" for name, value in getattr(check, "keywords", {}).items())
    return getattr(check, "func", check).__name__ + (f"({options})" if options else "")


@pytest.fixture
def short_pilots(monkeypatch):
    """The default start, in a tenth of its rounds: conventions do not care how far it gets."""
    monkeypatch.setattr("unbounded.models.features.start.PILOTS", {True: (1, 5), False: (3, 20)})


@pytest.mark.usefixtures("short_pilots")
@parametrize_with_checks([BetaBernoulliFeatures(**BRIEF)])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


# Kernels are compiled anew for float32 rows and for read-only models: in quick tests once, for the model above.
COMPILES = ("check_estimators_dtypes", "check_estimators_pickle(readonly_memmap=True)")
# Of all checks of scikit-learn these two are expected to fail (docs/api.md, "scikit-learn").
NOT_FOR_GAMMA = {
    "check_methods_sample_order_invariance": "transforms the rows in another order: entries of new rows are sampled, "
    "with random numbers that belong to a row's place",
    "check_methods_subset_invariance": "transforms the rows in batches, where they have other places",
}
COUNTING = [GammaPoissonFeatures(n_shards=1, **BRIEF), BetaNegativeBinomialFeatures(n_shards=1, **BRIEF)]


def _marks(model, name):
    reason = NOT_FOR_GAMMA.get(name) if isinstance(model, GammaPoissonFeatures) else None
    failing = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
    return [*failing, *([pytest.mark.long] if name in COMPILES else [])]


@pytest.mark.usefixtures("short_pilots")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(*pair, marks=_marks(model, _check_name(pair[1])))
        for model in COUNTING
        for pair in estimator_checks_generator(model)
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else _check_name(value),
)
def test_scikit_learn_agrees_with_counts(estimator, check):
    check(estimator)


def test_checks_that_fail_are_argued_in_the_guide():
    guide = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    argued = guide.partition("| `GammaPoissonFeatures` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(check_\w+)`", argued)) == set(NOT_FOR_GAMMA)


# ---- four pictures of 6 x 6 pixels, present or not, in noise

SIDE, N, NOISE = 6, 300, 0.4
PICTURES = np.zeros((4, SIDE, SIDE))
PICTURES[0, 0, :3] = PICTURES[0, 1, 1] = PICTURES[0, 2, :3] = 1.0
PICTURES[1, :3, 4] = PICTURES[1, 1, 3:] = 1.0
PICTURES[2, 3:, 0] = PICTURES[2, 5, :3] = 1.0
PICTURES[3, [3, 4, 5], [3, 4, 5]] = PICTURES[3, [3, 5], [5, 3]] = 1.0
PICTURES = 1.5 * PICTURES.reshape(4, -1)


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    Z = (rng.random((n, 4)) < [0.6, 0.5, 0.4, 0.3]).astype(int)
    return Z @ PICTURES + NOISE * rng.normal(size=(n, SIDE**2)), Z


X, TRUTH = rows()
OTHER, OTHER_TRUTH = rows(1, 80)
HIDDEN = np.random.default_rng(2).random(X.shape) < 0.1


def features(model=BetaBernoulliFeatures, **options):
    """From the truth, so that tests of what comes out need no long chains."""
    settings = {
        "n_shards": 4,
        "n_chains": 1,
        "n_warmup": 5,
        "n_draws": 12,
        "n_workers": 1,
        "random_state": 3,
        "init": TRUTH,
    }
    return model(**settings | options)


@pytest.fixture(scope="module")
def fitted():
    return features(n_chains=2, keep_assignments=True).fit(X, holdout=HIDDEN)


def order(model):
    """The component that shows each picture."""
    likeness = np.corrcoef(np.concatenate([PICTURES, model.components_]))[:4, 4:]
    picture, component = linear_sum_assignment(-likeness)
    assert (picture == np.arange(4)).all()
    return component, likeness[picture, component]


# ---- conventions


def test_clone_keeps_every_parameter():
    model = BetaNegativeBinomialFeatures(
        LinearGaussian(noise=0.5), mass=Gamma(2.0, 1.0), concentration=0.7, failures=2.0, instantiate=OneOpen(50)
    )
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert "failures" not in GammaPoissonFeatures().get_params()
    assert "loss" not in BetaBernoulliFeatures().get_params()


def test_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(with_std=False), features())
    Z = pipeline.fit_transform(X)
    assert Z.shape == (N, pipeline[-1].n_atoms_)
    np.testing.assert_array_equal(pipeline.transform(X), Z)
    assert np.isfinite(pipeline.score(OTHER))


def test_pandas_in_and_out():
    names = [f"pixel{j}" for j in range(SIDE**2)]
    frame = pd.DataFrame(X, columns=names)
    model = features(n_draws=4).fit(frame)
    assert list(model.feature_names_in_) == names
    out = model.set_output(transform="pandas").transform(frame[:5])
    assert list(out.columns) == [f"betabernoullifeatures{k}" for k in range(model.n_atoms_)]
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[names[::-1]])


def test_a_pickle_answers_the_same(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(OTHER), fitted.transform(OTHER))
    np.testing.assert_array_equal(again.score_samples(OTHER), fitted.score_samples(OTHER))
    assert again.posterior_.identical(fitted.posterior_)


def test_fit_leaves_the_data_alone():
    holed = np.where(HIDDEN, np.nan, X)
    before = holed.copy()
    features(n_draws=2).fit(holed, holdout=~HIDDEN & (np.arange(N)[:, None] % 50 == 0))
    np.testing.assert_array_equal(holed, before)


# ---- features


def test_features_are_found(fitted):
    """Loadings, noise and the entries of (nearly) every row."""
    component, likeness = order(fitted)
    assert likeness.min() > 0.99
    np.testing.assert_allclose(fitted.components_[component], PICTURES, atol=0.25)
    assert fitted.posterior_["sigma_x"].mean() == pytest.approx(NOISE, rel=0.05)
    assert (np.rint(fitted.assignments_[:, component]) == TRUTH).mean() > 0.99
    assert fitted.n_atoms_ == len(fitted.components_)
    assert (fitted.posterior_["n_features"] >= 4).all()
    assert fitted.assignments_.dtype == np.float32
    uses = fitted.assignments_.mean(0)
    assert (uses[:-1] >= uses[1:]).all()


def test_the_default_start_finds_them():
    model = features(init="grown", n_warmup=60).fit(X)
    assert order(model)[1].min() > 0.98


def test_transform_finds_the_entries_of_new_rows(fitted):
    component, _ = order(fitted)
    Z = fitted.transform(OTHER)
    assert Z.shape == (80, fitted.n_atoms_)
    assert ((Z >= 0) & (Z < 1 + 1e-9)).all()
    assert (np.rint(Z[:, component]) == OTHER_TRUTH).mean() > 0.99
    expected = fitted.inverse_transform(Z)
    assert np.sqrt(np.mean((expected - OTHER_TRUTH @ PICTURES) ** 2)) < 0.15


def test_transform_does_not_depend_on_the_company_of_rows(fitted):
    """As long as patterns are summed; sampled entries belong to a row's place."""
    np.testing.assert_allclose(fitted.transform(OTHER[::-1])[::-1], fitted.transform(OTHER), atol=1e-9)
    np.testing.assert_allclose(fitted.transform(OTHER[:1]), fitted.transform(OTHER)[:1], atol=1e-9)


def test_missing_entries_are_imputed(fitted):
    """Far better than column means, nearly as well as the truth."""
    holed = np.where(HIDDEN, np.nan, X)
    filled = fitted.impute(holed)
    np.testing.assert_array_equal(filled[~HIDDEN], X[~HIDDEN])
    error = np.sqrt(np.mean((filled - X)[HIDDEN] ** 2))
    best = np.sqrt(np.mean((TRUTH @ PICTURES - X)[HIDDEN] ** 2))
    plain = np.sqrt(np.mean((np.nanmean(holed, axis=0) - X)[HIDDEN] ** 2))
    assert error < 1.1 * best < 0.8 * plain


def test_a_row_without_values_is_predicted_by_the_prior(fitted):
    nothing = np.full((1, SIDE**2), np.nan)
    component, _ = order(fitted)
    np.testing.assert_allclose(fitted.transform(nothing)[0, component], TRUTH.mean(0), atol=0.1)
    np.testing.assert_allclose(fitted.score_samples(nothing), 0.0, atol=1e-9)
    np.testing.assert_allclose(fitted.impute(nothing)[0], np.where(HIDDEN, np.nan, X).mean(0, where=~HIDDEN), atol=0.3)


@pytest.mark.parametrize("model", [GammaPoissonFeatures, BetaNegativeBinomialFeatures])
def test_counts_of_features_are_found(model):
    rng = np.random.default_rng(4)
    Z = rng.poisson(0.8, (N, 4))
    noisy = Z @ PICTURES + NOISE * rng.normal(size=(N, SIDE**2))
    fit = features(model, init=Z).fit(noisy)
    component, likeness = order(fit)
    assert likeness.min() > 0.99
    assert (np.rint(fit.transform(noisy)[:, component]) == Z).mean() > 0.95
    assert np.isfinite(fit.score(noisy[:20]))
    assert fit.sample(10).shape == (10, SIDE**2)


def test_parts_of_counts_are_found():
    rng = np.random.default_rng(6)
    counts = rng.poisson(0.2 + 4.0 * TRUTH @ PICTURES).astype(float)
    fit = features(likelihood="poisson_factors").fit(counts, holdout=HIDDEN)
    component, likeness = order(fit)
    assert likeness.min() > 0.98
    assert (np.rint(fit.transform(counts)[:, component]) == TRUTH).mean() > 0.99
    best = stats.poisson(0.2 + 4.0 * TRUTH @ PICTURES).logpmf(counts)[HIDDEN].mean()
    assert fit.posterior_["holdout"].mean() == pytest.approx(best, abs=0.05)
    np.testing.assert_allclose(fit.intercept_, 0.2, atol=0.2)
    values = fit.sample(10)
    assert (values == np.rint(values)).all()


def test_an_intercept_is_a_feature_that_all_rows_have():
    model = features().fit(X + 10.0)
    assert order(model)[1].min() > 0.98
    np.testing.assert_allclose(model.intercept_, 10.0, atol=0.4)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X[:9] + 10.0)), (TRUTH @ PICTURES)[:9] + 10, atol=0.5
    )
    assert len(model.components_) == model.n_atoms_ == model.assignments_.shape[1]


# ---- densities


def test_densities_are_sums_over_patterns_averaged_over_draws(fitted):
    """With the weights that each draw has: brute force with scipy alone; new atoms add variance."""
    density, centre = np.zeros(5), fitted._likelihood.centre
    for s in range(len(fitted._snapshots)):
        draw = fitted._draw(s)
        rate = draw.hyper.alpha * draw.hyper.c / (draw.hyper.c + N)
        for chance, added in ((np.exp(-rate), 0.0), (-np.expm1(-rate), draw.scales.loading)):
            sd = np.sqrt(draw.scales.noise + added)
            for z in product((0, 1), repeat=draw.size):
                signs = np.where(z, 1.0, -1.0) * draw.weights
                prior = np.prod(1.0 / (1.0 + np.exp(-signs)))
                cells = stats.norm(np.array([*z, 1]) @ draw.loadings + centre, sd).logpdf(OTHER[:5])
                density += chance * prior * np.exp(cells.sum(1)) / len(fitted._snapshots)
    np.testing.assert_allclose(fitted.score_samples(OTHER[:5]), np.log(density), atol=1e-3)


def test_score_is_the_mean_and_prefers_rows_like_those_seen(fitted):
    assert fitted.score(OTHER) == pytest.approx(fitted.score_samples(OTHER).mean())
    assert fitted.score(OTHER) > fitted.score(-OTHER)


def test_held_out_cells(fitted):
    """Recorded with every draw, close to what the truth would score, and none of it used in training."""
    assert fitted.posterior_["holdout"].shape == (2, 12)
    best = stats.norm(TRUTH @ PICTURES, NOISE).logpdf(X)[HIDDEN].mean()
    assert fitted.posterior_["holdout"].mean() == pytest.approx(best, abs=0.03)
    other = np.where(HIDDEN, 100.0, X)
    again = features(n_chains=2, keep_assignments=True).fit(other, holdout=HIDDEN)
    assert again.posterior_.drop_vars("holdout").identical(fitted.posterior_.drop_vars("holdout"))
    assert "holdout" not in features(n_draws=1).fit(X).posterior_


def test_samples_have_the_moments_of_the_rows(fitted):
    values = fitted.sample(3000, random_state=2)
    np.testing.assert_allclose(values.mean(0), X.mean(0), atol=0.2)
    np.testing.assert_allclose(values.std(0), X.std(0), atol=0.2)
    np.testing.assert_array_equal(values, fitted.sample(3000, random_state=2))
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample(0)


# ---- draws


def test_assignments_of_every_draw(fitted):
    kept = fitted.posterior_["assignments"]
    assert kept.dims == ("chain", "draw", "row", "feature")
    assert kept.shape == (2, 12, N, int(fitted.posterior_["n_features"].max()))
    used = kept.sum("row").values
    np.testing.assert_array_equal((used > 0).sum(-1), fitted.posterior_["n_features"])
    np.testing.assert_allclose(used.sum(-1) / N, fitted.posterior_["per_row"])
    assert "assignments" not in features(n_draws=2).fit(X).posterior_


def test_summary_arviz_and_words(fitted):
    table = fitted.summary()
    assert {"n_features", "alpha", "c", "sigma_x", "sigma_a", "log_joint", "per_row", "holdout"} <= set(table.index)
    assert "assignments" not in fitted.to_arviz().posterior
    said = text(fitted)
    assert f"features (estimate)  {fitted.n_atoms_}" in said
    assert "clusters" not in said


def test_hyper_parameters_are_sampled_or_fixed():
    free = features().fit(X).posterior_
    assert free["alpha"].std() > 0
    assert free["c"].std() > 0
    settings = {
        "mass": 1.5,
        "concentration": Gamma(2.0, 2.0),
        "likelihood": LinearGaussian(noise=0.4, loading=InverseGamma()),
    }
    fixed = features(**settings).fit(X).posterior_
    assert "alpha" not in fixed
    assert "sigma_x" not in fixed
    assert fixed["c"].std() > 0
    assert fixed["sigma_a"].std() > 0


@pytest.mark.parametrize("rule", ["published-cold", "published-hot"])
def test_draws_of_the_published_rule_carry_a_flag(rule):
    model = features(instantiate=rule, n_draws=4).fit(X)
    assert model.exact_ is False
    assert text(model).startswith("NOT EXACT")
    with pytest.warns(UserWarning, match="NOT EXACT"):
        assert not model.summary()["exact"].any()


def test_draws_of_exact_rules_carry_none():
    model = features(instantiate="one_open", n_draws=4).fit(X)
    assert model.exact_ is True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "exact" not in model.summary()


def test_single_precision(fitted):
    model = features(dtype="float32").fit(X)
    assert order(model)[1].min() > 0.99
    assert order(features(n_draws=4).fit(X.astype(np.float32)))[1].min() > 0.98


def test_progress_is_shown(capsys):
    features(n_draws=3, progress=True).fit(X, holdout=HIDDEN)
    shown = capsys.readouterr().err
    assert "features" in shown
    assert "held-out" in shown


# ---- the point estimate alone


def test_matching_sees_through_order_and_noise():
    rng = np.random.default_rng(7)

    def draw(order, extra, log_joint):
        Z = np.concatenate([TRUTH[:, order], (rng.random((N, extra)) < 0.01)], axis=1)
        loadings = np.concatenate([PICTURES[order], rng.normal(size=(extra, SIDE**2))])
        return FeatureDraw(Z, loadings + 0.05 * rng.normal(size=loadings.shape), log_joint)

    draws = [draw(rng.permutation(4), extra, -float(extra)) for extra in (0, 1, 0, 2, 0, 1, 0)]
    estimate = point_estimate(draws)
    np.testing.assert_allclose(estimate.components, PICTURES, atol=0.1)
    np.testing.assert_array_equal(estimate.assignments, TRUTH)
    for own, one in zip(estimate.matches, draws, strict=True):
        assert sorted(own[own >= 0]) == [0, 1, 2, 3]
        assert len(own) == len(one.loadings)


def test_matching_without_any_feature():
    draws = [FeatureDraw(np.zeros((5, 0)), np.zeros((0, 3)), 0.0), FeatureDraw(np.ones((5, 1)), np.ones((1, 3)), 1.0)]
    estimate = point_estimate([draws[0], draws[1], draws[0]])
    assert estimate.components.shape == (0, 3)
    assert estimate.assignments.shape == (5, 0)
    assert [own.tolist() for own in estimate.matches] == [[], [-1], []]


def test_log_joint_is_the_joint_density():
    """Priors of hyper-parameters, the probability of Z and of the rows: each from its textbook."""
    rng = np.random.default_rng(6)
    X = rng.integers(0, 2, (12, 2)) @ rng.normal(0.0, 2.0, (2, 2)) + 0.5 * rng.normal(size=(12, 2))
    likelihood = LinearGaussian(noise=0.6, loading=1.3, intercept=False)
    prior = {"mass": Gamma(2.0, 1.5), "concentration": Gamma(1.5, 1.0)}
    brief = {"n_chains": 1, "n_warmup": 4, "n_draws": 6, "n_workers": 1, "n_shards": 2, "random_state": 1}
    model = BetaBernoulliFeatures(likelihood, **prior, **brief, keep_assignments=True).fit(X)
    for draw in range(6):
        here = model.posterior_.isel(chain=0, draw=draw)
        alpha, c, Z = float(here["alpha"]), float(here["c"]), here["assignments"].values.astype(float)
        members = Z.sum(0)[Z.sum(0) > 0]
        rate = (c / (c + np.arange(12))).sum()
        columns = np.log(alpha * c) + special.betaln(members, 12 - members + c)
        rows = stats.multivariate_normal(np.zeros(12), 1.3**2 * Z @ Z.T + 0.6**2 * np.eye(12)).logpdf(X.T).sum()
        priors = stats.gamma(2.0, scale=1.0 / 1.5).logpdf(alpha) + stats.gamma(1.5).logpdf(c)
        np.testing.assert_allclose(here["log_joint"], priors + columns.sum() - alpha * rate + rows, rtol=1e-9)
