"""The scikit-learn face: conventions, predictions that are proper, and everything that a fit promises to expose."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, special, stats
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from unbounded import Bernoulli, Beta, DirichletProcessMixture, Gamma, Gaussian, Ghosts, OneOpen, PitmanYorMixture
from unbounded.models.mixtures.model import Mixture
from unbounded.report.text import text

BRIEF = {"n_chains": 1, "n_warmup": 2, "n_draws": 4, "n_snapshots": 4, "n_workers": 1}


@parametrize_with_checks([DirichletProcessMixture(**BRIEF), PitmanYorMixture(n_shards=1, **BRIEF)])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


CENTRES = np.array([[0.0, 0.0], [20.0, 2.0], [3.0, 25.0]])
SIZES = np.array([60, 90, 50])
TRUTH = np.repeat(np.arange(3), SIZES)


def blobs(seed=0):
    """Three clusters that nobody could mistake."""
    return CENTRES[TRUTH] + np.random.default_rng(seed).normal(size=(SIZES.sum(), 2))


X = blobs()
OTHER = blobs(1)


def mixture(**options):
    settings = {"n_shards": 4, "n_chains": 1, "n_warmup": 10, "n_draws": 20, "n_workers": 1, "random_state": 3}
    return DirichletProcessMixture(**settings | options)


@pytest.fixture(scope="module")
def fitted():
    return mixture(n_chains=2, n_draws=30, n_snapshots=60, keep_assignments=True).fit(X, holdout=OTHER)


@pytest.fixture(scope="module")
def line():
    """One column with overlapping groups: uncertain clusters, heavy tails."""
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(0.0, 1.0, 40), rng.normal(2.5, 0.7, 30), rng.normal(7.0, 2.0, 20)])
    rows = values[rng.permutation(90)][:, None]
    return mixture(n_snapshots=20, keep_assignments=True, loss="vi").fit(rows), rows


# ---- conventions


def test_clone_keeps_every_parameter():
    model = PitmanYorMixture(
        Gaussian(kappa=0.3), concentration=Gamma(2.0, 1.0), discount=Beta(1.0, 2.0), instantiate=OneOpen(50), thin=3
    )
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.set_params(n_shards=5, discount=0.2).get_params()["discount"] == 0.2
    assert "discount" not in DirichletProcessMixture().get_params()


def test_in_a_pipeline(fitted):
    """Default priors follow the scale of the data, so that scaling first changes nothing that matters."""
    pipeline = make_pipeline(StandardScaler(), mixture()).fit(X)
    assert adjusted_rand_score(pipeline[-1].labels_, fitted.labels_) == 1.0
    assert adjusted_rand_score(pipeline.predict(OTHER), TRUTH) == 1.0
    jacobian = np.log(pipeline[0].scale_).sum()
    assert pipeline.score(OTHER) - jacobian == pytest.approx(fitted.score(OTHER), abs=0.1)


def test_pandas_in(fitted):
    frame = pd.DataFrame(X, columns=["width", "height"])
    model = mixture().fit(frame)
    assert list(model.feature_names_in_) == ["width", "height"]
    assert adjusted_rand_score(model.predict(pd.DataFrame(OTHER, columns=["width", "height"])), TRUTH) == 1.0
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["height", "width"]])


def test_integers_and_lists_in():
    model = mixture(n_draws=4).fit(np.rint(X).astype(int).tolist())
    assert adjusted_rand_score(model.labels_, TRUTH) == 1.0


def test_a_pickle_predicts_the_same(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(OTHER), fitted.predict_proba(OTHER))
    np.testing.assert_array_equal(again.score_samples(OTHER), fitted.score_samples(OTHER))
    assert again.posterior_.identical(fitted.posterior_)


def test_fit_leaves_the_data_alone():
    rows = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
    before = rows.copy()
    mixture(n_draws=3).fit(rows)
    np.testing.assert_array_equal(rows, before)


# ---- clusters


def test_clusters_are_found(fitted):
    assert fitted.n_clusters_ == 3
    assert adjusted_rand_score(fitted.labels_, TRUTH) == 1.0
    assert set(fitted.labels_) == {0, 1, 2}
    assert (fitted.posterior_["n_clusters"] >= 3).all()
    assert clone(fitted).fit_predict(X).tolist() == fitted.labels_.tolist()


def test_predictions_agree_with_labels(fitted):
    probabilities = fitted.predict_proba(X)
    assert probabilities.shape == (len(X), 3)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)
    assert (probabilities >= 0).all()
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(X), probabilities.argmax(1))


def test_predictions_do_not_depend_on_the_company_of_rows(fitted):
    """A row alone, many rows (several blocks), and rows in another order get the same answer."""
    many = np.tile(OTHER, (100, 1))
    whole = fitted.predict_proba(many)
    np.testing.assert_allclose(whole[: len(OTHER)], fitted.predict_proba(OTHER), rtol=1e-10)
    np.testing.assert_allclose(whole[-1], fitted.predict_proba(OTHER[-1:])[0], rtol=1e-10)
    np.testing.assert_allclose(fitted.score_samples(many[::-1])[::-1], fitted.score_samples(many), rtol=1e-10)


def test_uncertain_rows_get_uncertain_predictions(line):
    model, _ = line
    probabilities = model.predict_proba(np.linspace(-3.0, 12.0, 200)[:, None])
    assert probabilities.max(1).min() < 0.9
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)


def test_similarity_is_the_share_of_draws_that_agree(fitted, line):
    model, _ = line
    draws = model.posterior_["assignments"].values[0]
    expected = (draws[:, :, None] == draws[:, None, :]).mean(0)
    np.testing.assert_allclose(model.similarity(), expected, atol=1e-6)
    chosen = [5, 0, 17]
    np.testing.assert_allclose(model.similarity(chosen), expected[np.ix_(chosen, chosen)], atol=1e-6)
    assert fitted.similarity().shape == (len(X), len(X))


def test_assignments_of_every_draw(fitted):
    kept = fitted.posterior_["assignments"]
    assert kept.dims == ("chain", "draw", "row")
    assert kept.shape == (2, 30, len(X))
    for chain in range(2):
        for draw in range(30):
            counts = np.bincount(kept.values[chain, draw])
            row = fitted.posterior_.isel(chain=chain, draw=draw)
            assert len(counts) == int(row["n_clusters"])
            assert (counts > 0).all()
            assert counts.max() / len(X) == pytest.approx(float(row["largest"]))
            shares = counts / len(X)
            assert -(shares * np.log(shares)).sum() == pytest.approx(float(row["entropy"]))
    assert "assignments" not in mixture(n_draws=2).fit(X).posterior_


def binder(labels, draws):
    return ((labels[:, None] == labels) != (draws[:, :, None] == draws[:, None, :])).mean()


def information(labels, draws):
    """Expected variation of information, in nats."""

    def entropy(*parts):
        counts = np.unique(np.stack(parts), axis=1, return_counts=True)[1] / len(parts[0])
        return -(counts * np.log(counts)).sum()

    return np.mean([2 * entropy(labels, draw) - entropy(labels) - entropy(draw) for draw in draws])


def test_each_loss_is_better_at_its_own_game(line):
    """Binder and variation of information each beat (or tie) the other, and every draw, at what they minimise."""
    vi, rows = line
    other = mixture(n_snapshots=20, keep_assignments=True, loss="binder").fit(rows)
    draws = vi.posterior_["assignments"].values[0]
    np.testing.assert_array_equal(draws, other.posterior_["assignments"].values[0])
    assert binder(other.labels_, draws) <= min([binder(vi.labels_, draws), *(binder(d, draws) for d in draws)]) + 1e-9
    best = min([information(other.labels_, draws), *(information(d, draws) for d in draws)])
    assert information(vi.labels_, draws) <= best + 1e-9


def student(rows, x, prior):
    """Predictive density at x given rows of one column under a normal-inverse-Wishart prior, by the textbook."""
    n = len(rows)
    kappa, dof = prior.kappa + n, prior.dof + n
    mean = (prior.kappa * prior.mean + rows.sum()) / kappa
    scatter = (
        ((rows - rows.mean()) ** 2).sum() + prior.kappa * n / kappa * (rows.mean() - prior.mean) ** 2 if n else 0.0
    )
    return stats.t(dof, mean, np.sqrt((prior.scale + scatter) * (kappa + 1) / (kappa * dof))).pdf(x)


def test_predictions_are_averages_over_draws(line):
    """Density and cluster probabilities of new points, computed from the kept assignments with scipy alone."""
    _, rows = line
    prior = Gaussian(mean=2.0, kappa=0.4, dof=4.0, scale=3.0)
    model = PitmanYorMixture(
        prior, n_shards=3, n_chains=1, n_warmup=20, n_draws=12, n_snapshots=12, keep_assignments=True, random_state=2
    ).fit(rows)
    x = np.linspace(-4.0, 12.0, 33)
    density, chances = np.zeros(len(x)), np.zeros((len(x), model.n_clusters_))
    for d in range(12):
        draw = model.posterior_.isel(chain=0, draw=d)
        labels, alpha, sigma = draw["assignments"].values, float(draw["alpha"]), float(draw["sigma"])
        atoms = [rows[labels == k, 0] for k in range(labels.max() + 1)]
        joint = np.stack([(len(atom) - sigma) * student(atom, x, prior) for atom in atoms])
        fresh = (alpha + sigma * len(atoms)) * student(np.empty(0), x, prior)
        density += (joint.sum(0) + fresh) / (alpha + len(rows)) / 12
        share = np.stack(
            [np.bincount(model.labels_[labels == k], minlength=model.n_clusters_) for k in range(len(atoms))]
        )
        chances += (joint / joint.sum(0)).T @ (share / share.sum(1, keepdims=True)) / 12
    np.testing.assert_allclose(np.exp(model.score_samples(x[:, None])), density, rtol=1e-8)
    np.testing.assert_allclose(model.predict_proba(x[:, None]), chances, rtol=1e-8, atol=1e-10)


# ---- densities


def whole_line(scale=10.0, cells=40_000):
    """Points and weights for integrals over the line of densities with heavy tails: midpoints of x = scale tan(u)."""
    u = (np.arange(cells) + 0.5) / cells * np.pi - np.pi / 2
    return scale * np.tan(u), scale / np.cos(u) ** 2 * np.pi / cells


def test_density_integrates_to_one_on_a_line(line):
    model, _ = line
    points, weights = whole_line()
    assert weights @ np.exp(model.score_samples(points[:, None])) == pytest.approx(1.0, abs=1e-4)


def test_density_integrates_to_one_with_holes():
    """Training rows with holes: each column's density is proper, and the joint density sums to it."""
    rows = np.where(np.random.default_rng(8).random(X.shape) < 0.15, np.nan, X)
    model = mixture(n_draws=6).fit(rows)
    points, weights = whole_line()
    alone = np.stack([points, np.full_like(points, np.nan)], axis=1)
    assert weights @ np.exp(model.score_samples(alone)) == pytest.approx(1.0, abs=1e-4)
    beside = np.stack([np.full_like(points, 2.0), points], axis=1)
    joint = weights @ np.exp(model.score_samples(beside))
    assert joint == pytest.approx(np.exp(model.score_samples([[2.0, np.nan]])[0]), rel=1e-3)


def test_probabilities_of_all_patterns_sum_to_one():
    rng = np.random.default_rng(9)
    bits = (rng.random((80, 4)) < np.array([[0.9, 0.9, 0.1, 0.4], [0.1, 0.3, 0.9, 0.6]])[np.arange(80) % 2]).astype(
        float
    )
    model = mixture(likelihood="bernoulli").fit(bits)
    patterns = (np.arange(16)[:, None] >> np.arange(4)) % 2
    assert np.exp(model.score_samples(patterns)).sum() == pytest.approx(1.0, abs=1e-10)


def test_score_is_the_mean(fitted):
    assert fitted.score(OTHER) == pytest.approx(fitted.score_samples(OTHER).mean())
    assert fitted.score(OTHER) > fitted.score(OTHER + 8.0)


def test_held_out_scores_are_scores():
    """With one draw, the held-out trace and `score` are the same number."""
    model = mixture(n_draws=1).fit(X, holdout=OTHER)
    assert float(model.posterior_["holdout"].item()) == pytest.approx(model.score(OTHER), rel=1e-12)
    assert "holdout" not in mixture(n_draws=1).fit(X).posterior_


def test_held_out_score_is_in_the_summary(fitted):
    assert fitted.posterior_["holdout"].shape == (2, 30)
    assert "holdout" in fitted.summary().index


def test_samples_follow_the_density(line):
    """The share of samples below a point is the integral of the density up to there (five standard errors)."""
    model, _ = line
    n = 10_000
    values = model.sample(n, random_state=1)[:, 0]
    points, weights = whole_line()
    mass = weights * np.exp(model.score_samples(points[:, None]))
    for point in (-1.0, 1.0, 2.5, 4.0, 7.0, 9.0):
        below = mass[points < point].sum()
        assert abs((values < point).mean() - below) < 5 * np.sqrt(below * (1 - below) / n) + 1e-3


def test_samples_have_the_moments_of_the_clusters(fitted):
    values = fitted.sample(6000, random_state=2)
    which = fitted.predict(values)
    for k in range(3):
        mine, rows = values[which == k], X[fitted.labels_ == k]
        assert len(mine) / len(values) == pytest.approx(len(rows) / len(X), abs=0.05)
        assert np.abs(np.median(mine, axis=0) - rows.mean(0)).max() < 0.5
    np.testing.assert_array_equal(values, fitted.sample(6000, random_state=2))
    assert not np.array_equal(values, fitted.sample(6000, random_state=4))
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample(0)


# ---- holes in new rows


def test_holes_in_new_rows_when_training_had_none(fitted):
    """The observed column decides where it can; a row of holes is predicted by cluster sizes alone."""
    rows = np.array([[20.0, np.nan], [np.nan, 25.0], [np.nan, np.nan], [20.0, 2.0]])
    probabilities = fitted.predict_proba(rows)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)
    label = {k: fitted.labels_[np.flatnonzero(k == TRUTH)[0]] for k in range(3)}
    assert probabilities[0, label[1]] > 0.99
    assert probabilities[1, label[2]] > 0.99
    np.testing.assert_allclose(probabilities[2], np.bincount(fitted.labels_) / len(X), atol=0.02)
    np.testing.assert_allclose(probabilities[3], fitted.predict_proba(rows[3:])[0], rtol=1e-9)
    assert fitted.score_samples(rows)[2] == pytest.approx(0.0, abs=1e-12)


def test_training_rows_with_holes_are_clustered_all_the_same():
    rng = np.random.default_rng(8)
    rows = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    model = mixture().fit(rows)
    whole = ~np.isnan(rows).any(1)
    assert adjusted_rand_score(model.labels_[whole], TRUTH[whole]) == 1.0


# ---- chains, summaries, exactness


def test_chains_are_compared(fitted):
    table = fitted.summary()
    assert {"n_clusters", "alpha", "log_joint", "entropy", "largest"} <= set(table.index)
    assert fitted.posterior_.sizes["chain"] == 2
    moving = table.loc[["alpha", "log_joint", "holdout"]]
    assert np.isfinite(moving["r_hat"]).all()
    assert (moving["r_hat"] < 1.3).all()
    assert (moving["ess_bulk"] > 5).all()
    first, second = fitted.posterior_["alpha"].values
    assert not np.array_equal(first, second)


def test_sizes_and_uncertainty_of_the_estimate(fitted, line):
    assert fitted.cluster_sizes_.tolist() == np.bincount(fitted.labels_).tolist()
    assert fitted.n_above(0.01) == 3
    assert fitted.n_above(0.99) == 0
    assert {"above_0.1%", "above_1%"} <= set(fitted.posterior_)
    assert (fitted.posterior_["above_1%"] <= fitted.posterior_["n_clusters"]).all()
    assert "of which" in text(fitted)
    unsure, rows = line
    assert 0.0 <= fitted.uncertainty_.min() <= fitted.uncertainty_.mean() < 0.05 < unsure.uncertainty_.mean()
    assert unsure.uncertainty_.max() <= 1.0
    assert unsure.uncertainty_.shape == (len(rows),)


def test_arviz(fitted):
    posterior = fitted.to_arviz().posterior
    assert "assignments" not in posterior
    np.testing.assert_array_equal(posterior["alpha"], fitted.posterior_["alpha"])


def test_draws_warm_up_and_thinning():
    """The draws of a thinned chain are every third draw of the other one: warm-up and thinning only choose."""
    dense = mixture(n_warmup=4, n_draws=9, thin=1).fit(X).posterior_["log_joint"].values[0]
    sparse_ = mixture(n_warmup=4, n_draws=3, thin=3).fit(X).posterior_["log_joint"].values[0]
    late = mixture(n_warmup=7, n_draws=6, thin=1).fit(X).posterior_["log_joint"].values[0]
    np.testing.assert_array_equal(sparse_, dense[2::3])
    np.testing.assert_array_equal(late, dense[3:])


@pytest.mark.parametrize("rule", ["published-cold", "published-warm", "published-decreasing", "published-hot"])
def test_draws_of_the_published_rule_carry_a_flag(rule):
    model = mixture(instantiate=rule, n_warmup=30, n_draws=6).fit(X)
    assert model.exact_ is False
    assert model.posterior_.attrs["exact"] == 0
    assert text(model).startswith("NOT EXACT")
    with pytest.warns(UserWarning, match="NOT EXACT"):
        table = model.summary()
    assert not table["exact"].any()


@pytest.mark.parametrize("rule", ["ghosts", "one_open", Ghosts(30), OneOpen(100)])
def test_draws_of_exact_rules_carry_none(rule):
    model = mixture(instantiate=rule, n_draws=6).fit(X)
    assert model.exact_ is True
    assert model.posterior_.attrs["exact"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = model.summary()
    assert "exact" not in table
    assert "NOT EXACT" not in text(model)


def test_hyper_parameters_are_sampled_or_fixed():
    free = PitmanYorMixture(n_shards=2, n_chains=1, n_warmup=2, n_draws=12, random_state=0).fit(X).posterior_
    assert free["alpha"].std() > 0
    assert free["sigma"].std() > 0
    assert ((free["sigma"] > 0) & (free["sigma"] < 1)).all()
    fixed = (
        PitmanYorMixture(n_shards=2, n_chains=1, n_warmup=2, n_draws=5, concentration=-0.1, discount=0.3)
        .fit(X)
        .posterior_
    )
    assert (fixed["alpha"] == -0.1).all()
    assert (fixed["sigma"] == 0.3).all()
    dirichlet = mixture(n_draws=3, concentration=2.0).fit(X).posterior_
    assert (dirichlet["alpha"] == 2.0).all()
    assert "sigma" not in dirichlet


# ---- starts, precision, one shard


@pytest.mark.parametrize("init", ["grown", "one", "prior", np.arange(200) % 7, (TRUTH + 10).tolist()])
def test_every_start_reaches_the_clusters(init):
    """The start changes the wait, not the answer."""
    model = mixture(init=init, n_warmup=150, n_draws=20).fit(X)
    assert adjusted_rand_score(model.labels_, TRUTH) > 0.99


def test_the_default_start_needs_no_warm_up():
    model = mixture(n_warmup=0, n_draws=1).fit(X)
    assert adjusted_rand_score(model.labels_, TRUTH) > 0.99


def test_one_shard_without_ghosts_is_collapsed_gibbs():
    model = mixture(n_shards=1, instantiate=Ghosts(0)).fit(X)
    assert model.exact_
    assert adjusted_rand_score(model.labels_, TRUTH) == 1.0


@pytest.fixture
def precisions(monkeypatch):
    """The precisions in which rounds are computed."""
    used, finite = [], Mixture.finite

    def watched(self, *args):
        part = finite(self, *args)
        used.append(str((part if isinstance(part, np.ndarray) else part[0]).dtype))
        return part

    monkeypatch.setattr(Mixture, "finite", watched)
    return used


def test_single_precision_says_the_same(precisions, line):
    """Same posterior of the number of clusters and of the log joint, within five standard errors of the chain."""
    _, rows = line
    options = {"n_warmup": 50, "n_draws": 300, "thin": 2, "init": "one"}
    double = mixture(**options).fit(rows).summary()
    assert set(precisions) == {"float64"}
    precisions.clear()
    single = mixture(**options, dtype="float32", random_state=4).fit(rows).summary()
    assert precisions.count("float32") > 0.9 * len(precisions)
    for name in ("n_clusters", "log_joint", "entropy"):
        error = np.hypot(
            double["sd"][name] / np.sqrt(double["ess_bulk"][name]),
            single["sd"][name] / np.sqrt(single["ess_bulk"][name]),
        )
        assert abs(double["mean"][name] - single["mean"][name]) < 5 * error


def test_log_joint_is_the_joint_density():
    """Priors of hyper-parameters, the probability of the partition and of the rows: each from its textbook."""
    bits = (np.random.default_rng(2).random((20, 1)) < 0.5).astype(float)
    prior = {"concentration": Gamma(2.0, 1.5), "discount": Beta(1.5, 3.0)}
    model = PitmanYorMixture(Bernoulli(0.7, 1.2), **prior, **BRIEF, keep_assignments=True, random_state=1).fit(bits)
    for draw in range(BRIEF["n_draws"]):
        here = model.posterior_.isel(chain=0, draw=draw)
        alpha, sigma, labels = float(here["alpha"]), float(here["sigma"]), here["assignments"].values
        counts = np.unique(labels, return_counts=True)[1]
        new = np.log(alpha + sigma * np.arange(1, len(counts))).sum()
        seats = sum(special.gammaln(m - sigma) - special.gammaln(1.0 - sigma) for m in counts)
        partition = new + seats - special.gammaln(alpha + 20) + special.gammaln(alpha + 1.0)
        ones = [bits[labels == k].sum() for k in np.unique(labels)]
        rows = sum(special.betaln(0.7 + s, 1.2 + m - s) for s, m in zip(ones, counts, strict=True))
        rows -= len(counts) * special.betaln(0.7, 1.2)
        priors = stats.gamma(2.0, scale=1.0 / 1.5).logpdf(alpha) + stats.beta(1.5, 3.0).logpdf(sigma)
        np.testing.assert_allclose(here["log_joint"], priors + partition + rows, rtol=1e-9)


def test_single_precision_falls_back_where_it_would_lose(precisions):
    """Two columns that differ by a thousandth: the difference tells clusters apart, and float32 cannot see it."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=200) * 5.0
    gap = np.where(np.arange(200) < 100, -1e-3, 1e-3) + 1e-5 * rng.normal(size=200)
    narrow = Gaussian(dof=4.0, scale=[[25.0, 25.0 - 1e-10], [25.0 - 1e-10, 25.0]])
    rows = np.stack([common, common + gap], axis=1)
    mixture(likelihood=narrow, dtype="float32", init=np.arange(200) // 100, n_draws=5).fit(rows)
    assert precisions.count("float64") > 0.5 * len(precisions)


def test_single_precision_rows(monkeypatch):
    """float32 data are read as they are and say what the same numbers do in float64; few rows are turned into those."""
    rows = X.astype(np.float32)
    double, few = mixture().fit(rows.astype(np.float64)), mixture().fit(rows)
    np.testing.assert_array_equal(few.labels_, double.labels_)
    np.testing.assert_array_equal(few.score_samples(rows), double.score_samples(rows.astype(np.float64)))
    monkeypatch.setattr("unbounded.rows.FEW", 0)
    single = mixture().fit(rows)
    assert adjusted_rand_score(single.labels_, double.labels_) == 1.0
    np.testing.assert_allclose(single.score_samples(rows), double.score_samples(rows.astype(np.float64)), atol=0.2)


def test_sparse_counts():
    """CSR in, never made dense; the same chain as from the dense array would need the same code, so compare answers."""
    rng = np.random.default_rng(3)
    shares = np.array([[0.7, 0.1, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.1, 0.7]])
    counts = np.stack([rng.multinomial(30, shares[i % 2]) for i in range(100)])
    model = mixture(likelihood="multinomial").fit(sparse.csr_matrix(counts))
    assert adjusted_rand_score(model.labels_, np.arange(100) % 2) == 1.0
    np.testing.assert_array_equal(model.predict(sparse.csr_matrix(counts)), model.labels_)
    np.testing.assert_array_equal(model.predict(sparse.coo_matrix(counts)), model.labels_)
    assert model.sample(3).shape == (3, 5)


def test_progress_is_shown(capsys):
    mixture(n_draws=3, progress=True).fit(X, holdout=OTHER)
    shown = capsys.readouterr().err
    assert "clusters" in shown
    assert "held-out" in shown
    assert "rows/s" in shown


MEMORY = """
import resource
from unbounded import DirichletProcessMixture
from unbounded.datasets import gaussian_mixture

def fit(rows):
    settings = {"n_shards": 4, "n_chains": 1, "n_warmup": 2, "n_draws": 6, "n_snapshots": 6, "n_workers": 1}
    DirichletProcessMixture(random_state=0, **settings).fit(rows)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

fit(gaussian_mixture(20_000, 8, 20, seed=1).X)
rows = gaussian_mixture(400_000, 8, 20, seed=1).X
before = peak()
fit(rows)
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kilobytes on Linux only")
def test_memory_is_labels_and_a_constant():
    """400,000 x 8 rows, 20 clusters: labels and snapshots take 10 MB; an N x K array would take 64, N x D^2 205."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 55.0
