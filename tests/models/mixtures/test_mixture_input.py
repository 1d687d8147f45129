"""Whatever is wrong with the input is said in one clear sentence, before anything runs; what merely looks odd works."""

from __future__ import annotations

import os
import tempfile
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from unbounded import (
    Bernoulli,
    Beta,
    Categorical,
    DiagonalGaussian,
    DirichletProcessMixture,
    Gamma,
    Gaussian,
    Ghosts,
    Jumps,
    Multinomial,
    OneOpen,
    PitmanYorMixture,
    Poisson,
    Product,
    RunError,
)
from unbounded.columns import describe

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 8.0])
BITS = (X > 4).astype(float)
COUNTS = rng.poisson(3.0, size=(40, 3)).astype(float)
BRIEF = {"n_shards": 2, "n_chains": 1, "n_warmup": 2, "n_draws": 3, "n_workers": 1, "random_state": 0}


def dp(likelihood="gaussian", **options):
    return DirichletProcessMixture(likelihood, **BRIEF | options)


def py(**options):
    return PitmanYorMixture(**BRIEF | options)


def changed(rows, value, where=(3, 1)):
    out = rows.copy()
    out[where] = value
    return out


def said(call, *args, error=(ValueError, TypeError), **kwargs):
    """The message of the error, without a trace of compilers. A fit that is refused writes nothing."""
    model = getattr(call, "__self__", None)
    with tempfile.TemporaryDirectory() as folder:
        if call.__name__ == "fit" and model.checkpoint is None:
            call = clone(model).set_params(checkpoint=f"{folder}/new/run").fit
        with pytest.raises(error) as caught:
            call(*args, **kwargs)
        assert not os.listdir(folder)
    message = str(caught.value)
    assert "numba" not in message.lower()
    assert "Traceback" not in message
    return message


def sentence(message):
    assert len(message.splitlines()) == 1
    assert message.strip().endswith(".")
    return message


# ---- rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.empty((0, 2)), ["0 sample"]),
        (np.empty((5, 0)), ["0 feature"]),
        (np.ones((1, 2)), ["1 sample", "minimum of 2"]),
        (np.ones(7), ["1D array"]),
        (np.ones((3, 2, 2)), ["dim 3"]),
        (np.array([["a", "b"], ["c", "d"], ["e", "f"]]), ["holds words"]),
        (pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": ["red", "blue", "red"]}), ["holds words"]),
        (pd.DataFrame({"x": [1.0, 2.0, 3.0], 1: [1.0, 2.0, 3.0]}), ["several types (int, str)", "astype(str)"]),
        (changed(X, np.inf), ["infinity"]),
        (changed(X, -np.inf), ["infinity"]),
        (X + 1j, ["Complex"]),
        (sparse.csr_matrix(X), ["X is sparse", "toarray"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_rows_that_cannot_be_clustered(rows, words):
    """These words are scikit-learn's; its users know them."""
    message = said(dp().fit, rows)
    assert all(word in message for word in words)


def test_a_column_without_any_value():
    rows = X.copy()
    rows[:, 1] = np.nan
    message = sentence(said(dp().fit, rows))
    assert "column 1" in message
    assert "no observed value" in message


@pytest.mark.parametrize("value", [1e101, 1e150, -1e200, 1e308])
@pytest.mark.parametrize("likelihood", ["gaussian", "diagonal_gaussian"])
def test_values_that_would_overflow(likelihood, value):
    message = sentence(said(dp(likelihood).fit, changed(X, value)))
    assert "overflow" in message
    assert "rescale" in message


def test_too_few_rows_for_the_shards():
    message = sentence(said(dp(n_shards=9).fit, X[:8]))
    assert "n_shards=9" in message
    assert "8 rows" in message


# ---- counts, bits and codes


@pytest.mark.parametrize(
    ("likelihood", "rows", "words"),
    [
        ("poisson", changed(COUNTS, -1.0), ["Poisson", "column 1", "counts"]),
        ("poisson", changed(COUNTS, 0.5), ["Poisson", "column 1", "counts"]),
        ("multinomial", changed(COUNTS, -1.0), ["Multinomial", "column 1", "counts"]),
        ("multinomial", changed(COUNTS, 2.5), ["Multinomial", "column 1", "counts"]),
        ("multinomial", changed(COUNTS, np.nan), ["Multinomial", "missing values"]),
        ("multinomial", sparse.csr_matrix(changed(COUNTS, -1.0)), ["Multinomial", "column 1", "counts"]),
        ("multinomial", sparse.csr_matrix(changed(COUNTS, 2.5)), ["Multinomial", "column 1", "counts"]),
        ("multinomial", sparse.csr_matrix(changed(COUNTS, np.nan)), ["Multinomial", "missing values"]),
        ("bernoulli", changed(BITS, 2.0), ["Bernoulli", "column 1", "0, 1"]),
        ("bernoulli", changed(BITS, 0.5), ["Bernoulli", "column 1", "0, 1"]),
        ("bernoulli", changed(BITS, -1.0), ["Bernoulli", "column 1", "0, 1"]),
        ("categorical", changed(COUNTS, -1.0), ["Categorical", "column 1", "codes"]),
        ("categorical", changed(COUNTS, 1.5), ["Categorical", "column 1", "codes"]),
        (Categorical(levels=2), COUNTS, ["Categorical", "levels"]),
        (Product(("gaussian", [0, 1]), ("poisson", [2])), changed(COUNTS, -1.0, (0, 2)), ["Poisson", "column 2"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value if isinstance(value, str) else "",
)
def test_values_that_the_likelihood_cannot_produce(likelihood, rows, words):
    message = sentence(said(dp(likelihood).fit, rows))
    assert all(word in message for word in words)


def test_a_billion_levels():
    """A code of a billion would ask for a billion features."""
    message = sentence(said(dp("categorical").fit, changed(COUNTS, 1e9)))
    assert "Categorical" in message
    assert "column 1" in message


# ---- settings


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (dp(concentration=0.0), ["concentration", "0.0"]),
        (dp(concentration=-1.0), ["concentration", "-1.0"]),
        (dp(concentration=np.nan), ["concentration"]),
        (dp(concentration=np.inf), ["concentration"]),
        (dp(concentration="high"), ["concentration", "high"]),
        (py(concentration=-0.3, discount=0.3), ["concentration", "above minus the discount"]),
        (py(concentration=-0.5, discount=0.3), ["concentration", "above minus the discount"]),
        (py(concentration=-1.5), ["concentration"]),
        (py(discount=1.0), ["discount", "[0, 1)"]),
        (py(discount=-0.1), ["discount", "[0, 1)"]),
        (py(discount=np.nan), ["discount", "[0, 1)"]),
        (py(discount="low"), ["discount", "low"]),
        (dp(n_shards=41), ["n_shards=41", "40 rows"]),
        (dp(n_shards=0), ["n_shards", "at least 1"]),
        (dp(n_shards=2.5), ["n_shards", "integer"]),
        (dp(n_draws=0), ["n_draws", "at least 1"]),
        (dp(n_warmup=-1), ["n_warmup", "at least 0"]),
        (dp(thin=0), ["thin", "at least 1"]),
        (dp(n_chains=0), ["n_chains", "at least 1"]),
        (dp(n_snapshots=0), ["n_snapshots", "at least 1"]),
        (dp(sweeps_per_round=0), ["sweeps_per_round", "at least 1"]),
        (dp(n_workers=0), ["n_workers", "at least 1"]),
        (dp("gausian"), ["likelihood", "gausian", "gaussian"]),
        (dp(3), ["likelihood", "3"]),
        (dp(Gaussian), ["likelihood", "Gaussian()"]),
        (dp(instantiate=Ghosts), ["instantiate", "Ghosts()"]),
        (dp(concentration=Gamma), ["concentration", "Gamma"]),
        (dp(engine="gpu"), ["engine", "gpu", "threads"]),
        (dp(init="random"), ["init", "random", "grown"]),
        (dp(init="kmeans++"), ["init", "'grown' now"]),
        (dp(init=np.zeros(39, int)), ["init", "40"]),
        (dp(init=np.zeros((40, 1), int)), ["init", "40"]),
        (dp(init=np.full(40, 0.5)), ["init", "integers"]),
        (dp(init=None), ["init"]),
        (dp(instantiate="ghost"), ["instantiate", "ghost", "one_open"]),
        (dp(instantiate=7), ["instantiate", "7"]),
        (dp(instantiate=Ghosts(0)), ["ghosts", "2 shards"]),
        (dp(instantiate=OneOpen(0)), ["ghosts", "2 shards"]),
        (dp(instantiate=Ghosts(-1), n_shards=1), ["ghosts", "-1"]),
        (dp(instantiate="published-warm", n_warmup=0, n_draws=80), ["n_warmup", "10", "discarded"]),
        (dp(instantiate="published-decreasing", n_warmup=40, n_draws=40), ["n_warmup", "50", "discarded"]),
        (dp(loss="l2"), ["loss", "l2", "binder"]),
        (dp(dtype="float16"), ["dtype", "float16"]),
        (dp(sampler="dice"), ["sampler", "dice", "hybrid", "slice"]),
        (py(sampler="uncollapsed"), ["sampler", "uncollapsed", "hybrid"]),
        (dp(sampler="slice", sampler_options={"empty": 2}), ["slice", "empty"]),
        (dp(sampler="slice", instantiate="one_open"), ["instantiate", "slice"]),
        (dp(sampler="slice", sweeps_per_round=2), ["sweeps_per_round=1", "slice"]),
        (dp(sampler="uncollapsed", sampler_options={"empty": 0}), ["empty", "0"]),
        (dp(sampler="algorithm8", n_shards=1, sampler_options={"auxiliary": 1.5}), ["auxiliary", "1.5"]),
        (dp(sampler="partially_collapsed", n_shards=1, sampler_options={"repaired": 1}), ["repaired", "1"]),
        (dp(sampler="collapsed"), ["collapsed", "one shard", "n_shards", "2"]),
        (
            dp(sampler="algorithm8", n_shards=1, dtype="float32"),
            ["algorithm8", "float64", "leave dtype out"],
        ),
        (dp(sampler="auxiliary", dtype="float32"), ["auxiliary", "float64", "float32"]),
        (dp(device="reference", dtype="float32"), ["device='reference'", "float64", "float32"]),
        (dp(sampler="slice", device="reference"), ["slice", "device='cpu' only"]),
        (dp(sampler="slice", jumps=Jumps()), ["jumps", "hybrid"]),
        (dp(sampler="slice", jumps=True), ["jumps=True", "'slice' has none", "leave jumps out"]),
        (dp(instantiate="published-cold", jumps=True), ["jumps=True", "exact rule"]),
        (dp(jumps="many"), ["jumps", "many"]),
        (py(sampler="auxiliary", concentration=-0.1, discount=0.5), ["concentration", "positive", "-0.1"]),
        (dp(random_state="seed"), ["seed"]),
        (dp(random_state=2**70), ["random_state"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_that_make_no_sense(model, words):
    message = said(model.fit, X)
    assert all(word in message for word in words), message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("likelihood", "rows", "words"),
    [
        (Gaussian(kappa=0.0), X, ["kappa", "positive"]),
        (Gaussian(kappa=np.inf), X, ["kappa"]),
        (Gaussian(dof=1.0), X, ["dof", "1"]),
        (Gaussian(scale=np.eye(3)), X, ["scale", "2 x 2"]),
        (Gaussian(scale=[[1.0, 2.0], [2.0, 1.0]]), X, ["scale", "positive definite"]),
        (Gaussian(scale=[[1.0, 0.5], [0.2, 1.0]]), X, ["scale", "symmetric"]),
        (Gaussian(scale=-1.0), X, ["scale", "positive definite"]),
        (Gaussian(scale=np.nan), X, ["scale"]),
        (Gaussian(scale=[1.0, 2.0, 3.0]), X, ["scale", "2 numbers"]),
        (Gaussian(mean=[1.0, 2.0, 3.0]), X, ["mean", "2 numbers"]),
        (Gaussian(mean=np.nan), X, ["mean", "finite"]),
        (DiagonalGaussian(shape=0.0), X, ["shape", "positive"]),
        (DiagonalGaussian(scale=[1.0, -1.0]), X, ["scale", "positive"]),
        (Bernoulli(yes=0.0), BITS, ["yes", "positive"]),
        (Bernoulli(no=[1.0, 2.0, 3.0]), BITS, ["no", "2 numbers"]),
        (Categorical(concentration=0.0), COUNTS, ["concentration", "positive"]),
        (Categorical(levels=[3, 3]), COUNTS, ["levels", "3 numbers"]),
        (Multinomial(concentration=-1.0), COUNTS, ["concentration", "positive"]),
        (Multinomial(centre=[1.0, 0.0, 1.0]), COUNTS, ["centre", "positive"]),
        (Poisson(mean=0.0), COUNTS, ["mean", "positive"]),
        (Poisson(shape=-1.0), COUNTS, ["shape", "positive"]),
        (Product(("gaussian", [0])), X, ["Product", "every one of the 2 columns"]),
        (Product(("gaussian", [0, 1]), ("poisson", [1])), X, ["Product", "exactly one part"]),
        (Product(("gaussian", [0, 5])), X, ["Product"]),
        (Product(("gausian", [0, 1])), X, ["gausian"]),
        (Product(), X, ["Product"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_priors_that_make_no_sense(likelihood, rows, words):
    message = sentence(said(dp(likelihood).fit, rows))
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    "prior", [(Gamma, 0.0, 1.0), (Gamma, 1.0, -1.0), (Gamma, np.nan, 1.0), (Beta, 0.0, 1.0), (Beta, 1.0, np.nan)]
)
def test_hyper_priors_that_make_no_sense(prior):
    kind, *numbers = prior
    assert "positive" in sentence(said(kind, *numbers))


def test_nothing_runs_before_the_checks(monkeypatch):
    """A typo in the last option must not cost the time of the first rounds."""
    from unbounded.models.mixtures import start

    def never(*args):
        raise AssertionError("the chain has begun")

    monkeypatch.setattr(start, "begin", never)
    for wrong in ({"loss": "l2"}, {"dtype": "half"}, {"engine": "gpu"}, {"instantiate": "ghost"}, {"n_workers": 0}):
        said(dp(**wrong).fit, X)
    said(dp().fit, X, holdout=np.ones((3, 5)))


def test_a_fit_that_cannot_start_leaves_nothing(monkeypatch):
    """Whatever fails before there is a first state, such as workers that find no place."""
    from unbounded.models.mixtures import start

    def fail(*args):
        raise RunError("no place for workers.")

    monkeypatch.setattr(start, "begin", fail)
    said(dp(n_chains=2).fit, X, error=RunError)


# ---- new rows


@pytest.fixture(scope="module")
def fitted():
    return dp().fit(X)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "score"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.ones((3, 3)), ["3 features", "expecting 2"]),
        (np.ones((3, 1)), ["1 features", "expecting 2"]),
        (np.empty((0, 2)), ["0 sample"]),
        (np.array([[1.0, np.inf]]), ["infinity"]),
        (np.array([[1.0, 1e150]]), ["overflow"]),
        (np.ones(2), ["1D array"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_new_rows_that_do_not_fit(fitted, method, rows, words):
    message = said(getattr(fitted, method), rows)
    assert all(word in message for word in words)


def test_the_same_for_held_out_rows():
    assert "expecting 2" in said(dp().fit, X, holdout=np.ones((3, 3)))
    assert "Bernoulli" in said(dp("bernoulli").fit, BITS, holdout=BITS + 1.0)


@pytest.mark.parametrize("method", ["predict", "score_samples", "sample", "similarity", "summary", "to_arviz"])
def test_results_before_a_fit(method):
    arguments = (X,) if method in ("predict", "score_samples") else ()
    assert "not fitted" in said(getattr(dp(), method), *arguments)


def test_new_values_that_the_likelihood_cannot_produce():
    bits = dp("bernoulli").fit(BITS)
    assert "Bernoulli" in sentence(said(bits.predict, BITS + 1.0))
    assert bits.predict([[np.nan, 1.0]]).shape == (1,)
    sparse_counts = dp("multinomial").fit(sparse.csr_matrix(COUNTS))
    assert "Multinomial" in sentence(said(sparse_counts.predict, sparse.csr_matrix(-COUNTS)))


def test_a_code_that_fit_never_saw():
    """At predict there is no level for it; with explicit levels there is."""
    likelihood = Product(("gaussian", [0, 1]), ("categorical", [3]), ("bernoulli", [2]))
    rows = np.column_stack([X, BITS[:, 0], np.arange(40) % 3])
    model = dp(likelihood).fit(rows)
    message = sentence(said(model.predict, changed(rows, 3.0, (0, 3))))
    assert "column 3" in message
    assert "never saw" in message
    wider = Product(("gaussian", [0, 1]), (Categorical(levels=[5]), [3]), ("bernoulli", [2]))
    assert dp(wider).fit(rows).predict(changed(rows, 3.0, (0, 3))).shape == (40,)


def test_similarity_of_rows_that_are_not_there(fitted):
    assert "40" in said(fitted.similarity, [0, 40], error=(ValueError, IndexError))


# ---- run directories


def test_an_unwritable_run_directory(tmp_path):
    (tmp_path / "file").write_text("")
    message = sentence(said(dp(checkpoint=tmp_path / "file" / "run").fit, X, error=RunError))
    assert "cannot write to the run directory" in message


# ---- odd but fine


def works(model, rows):
    """Fits without a warning, and everything that comes out is finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(rows)
        assert np.isfinite(model.score_samples(rows)).all()
        assert np.isfinite(model.posterior_["log_joint"]).all()
        np.testing.assert_allclose(model.predict_proba(rows).sum(1), 1.0, rtol=1e-9)
        assert np.isfinite(model.sample(5, random_state=0)).all()
    return model


def test_a_constant_column():
    model = works(dp(), np.column_stack([X, np.full(40, 3.0)]))
    assert model.n_clusters_ == 2
    works(dp(), np.column_stack([X[:, 0], np.full(40, 1e6)]))


def test_all_columns_constant():
    model = works(dp(), np.full((30, 2), 5.0))
    assert model.n_clusters_ == 1


def test_duplicate_rows():
    model = works(dp(), np.repeat(X[[0, 30]], 30, axis=0))
    assert model.n_clusters_ == 2


def test_columns_that_repeat_each_other():
    model = works(dp(), np.column_stack([X, X[:, 0], X.sum(1)]))
    assert model.n_clusters_ == 2


def test_more_columns_than_rows():
    works(dp(), rng.normal(size=(12, 30)))


def test_one_column():
    model = works(dp(), X[:, :1])
    assert model.n_clusters_ == 2


@pytest.mark.parametrize("shards", [1, 2])
def test_two_rows(shards):
    works(dp(n_shards=shards), X[:2])


def test_one_row_per_shard():
    model = works(dp(n_shards=40), X)
    assert model.n_clusters_ == 2


@pytest.mark.parametrize("scale", [1e-290, 1e-150, 1e-30, 1e-6, 1e6, 1e30, 1e90])
def test_units_far_from_one(scale):
    """Millionths or trillions: the default priors follow, clusters and scores (less the units) stay."""
    model = works(dp(), X * scale)
    assert model.n_clusters_ == 2
    assert model.score(X * scale) + 2 * np.log(scale) == pytest.approx(dp().fit(X).score(X), abs=1e-3)


def test_values_below_the_smallest_number_are_a_constant_column():
    works(dp(), np.column_stack([X[:, 0], X[:, 1] * 1e-310]))


def test_a_large_offset():
    """A mean of a million standard deviations: quadratic features of raw values would lose every digit."""
    model = works(dp(), X + 1e7)
    assert model.n_clusters_ == 2
    assert model.score(X + 1e7) == pytest.approx(dp().fit(X).score(X), abs=1e-3)


def test_outliers():
    rows = np.concatenate([X, [[1e6, -1e6], [1e4, 1e4]]])
    works(dp(n_draws=10), rows)


def test_rows_without_any_value():
    rows = X.copy()
    rows[[0, 7]] = np.nan
    works(dp(), rows)


def test_counts_without_any_count():
    counts = sparse.csr_matrix(changed(COUNTS, 0.0, slice(0, 3)))
    works(dp("multinomial"), counts)


def test_sparse_input_with_duplicates_and_any_order():
    """COO with repeated cells, unsorted CSR: same numbers, same chain; and the caller's matrix stays as it was."""
    dense = sparse.csr_matrix(COUNTS)
    coo = sparse.coo_matrix(
        (np.ones(int(COUNTS.sum())), (np.repeat(*np.divmod(np.arange(120), 3)[:1], COUNTS.ravel().astype(int)),
         np.repeat(np.arange(120) % 3, COUNTS.ravel().astype(int)))), shape=COUNTS.shape
    )  # fmt: skip
    twisted = sparse.csr_matrix((dense.data[::-1].copy(), dense.indices[::-1].copy(), dense.indptr), shape=dense.shape)
    straight = twisted.copy()
    straight.sort_indices()
    expected = dp("multinomial").fit(dense).posterior_
    assert dp("multinomial").fit(coo).posterior_.identical(expected)
    before = twisted.indices.copy()
    assert dp("multinomial").fit(twisted).posterior_.identical(dp("multinomial").fit(straight).posterior_)
    np.testing.assert_array_equal(twisted.indices, before)


def test_integers_booleans_and_single_precision():
    assert works(dp(), np.rint(X).astype(np.int32)).n_clusters_ == 2
    works(dp("bernoulli"), X > 4)
    assert works(dp(), X.astype(np.float32)).n_clusters_ == 2


def test_fortran_order_and_strides():
    expected = dp().fit(X).posterior_
    assert dp().fit(np.asfortranarray(X)).posterior_.identical(expected)
    assert dp().fit(np.repeat(X, 2, axis=0)[::2]).posterior_.identical(expected)


def test_labels_of_any_kind_to_start_from():
    works(dp(init=np.where(np.arange(40) < 20, -7, 10**12)), X)
    works(dp(init=(np.arange(40) < 20).astype(np.uint8)), X)


@pytest.mark.parametrize("likelihood", ["gaussian", "diagonal_gaussian"])
@pytest.mark.parametrize("far", [1e2, 4e2, 1e4, 1e6])
def test_one_far_row_hides_no_clusters(likelihood, far):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 200)
    X = np.array([[-5.0, -5.0], [-5.0, 5.0], [5.0, -5.0], [5.0, 5.0]])[truth] + rng.normal(size=(200, 2))
    X[7] = far
    labels = DirichletProcessMixture(likelihood, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(X).labels_
    assert np.sum(labels == labels[7]) == 1
    assert adjusted_rand_score(np.delete(truth, 7), np.delete(labels, 7)) > 0.95


CORNERS = 15.0 * np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])


def corners(n, far, rng):
    """(n rows in four clusters, and a few that are far away; their clusters)."""
    truth = np.arange(n + far) % 4
    truth[n:] = 4
    return np.concatenate([CORNERS[truth[:n]], np.full((far, 2), 1e4)]) + rng.normal(size=(n + far, 2)), truth


@pytest.mark.parametrize("likelihood", ["gaussian", "diagonal_gaussian"])
@pytest.mark.parametrize(("n", "far"), [(24, 1), (32, 1), (36, 1), (39, 1), (50, 2), (100, 3), (400, 12)])
def test_few_far_rows_hide_no_clusters(likelihood, n, far):
    """Few among few rows, and more than a few hundredths of the rows on one side."""
    X, truth = corners(n, far, np.random.default_rng(n))
    model = DirichletProcessMixture(likelihood, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) > 0.95


def test_rows_that_are_a_cluster_are_not_far():
    """A tenth of the rows, or heavy tails, are in the prior, whose bits are those of mean and standard deviation."""
    rng = np.random.default_rng(3)
    cluster = rng.normal(size=(200, 2)) + 20.0 * (np.arange(200) % 10 == 0)[:, None]
    for X in (cluster, cluster[:20], cluster[:30], rng.standard_t(3, size=(200, 2)), rng.exponential(size=(30, 2))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            columns = describe(X)
        np.testing.assert_array_equal(columns.centre, columns.mean)
        np.testing.assert_allclose(columns.sd, X.std(0), rtol=1e-12)


def test_a_standard_deviation_that_few_rows_decide_is_warned_of():
    X, _ = corners(90, 10, np.random.default_rng(4))
    with pytest.warns(UserWarning, match="of column 0 is .* times as large as the width of its middle half"):
        describe(X)


@pytest.mark.parametrize("offset", [1e8, 1e9])
@pytest.mark.parametrize("likelihood", ["gaussian", "diagonal_gaussian"])
def test_narrow_columns_far_from_zero(likelihood, offset):
    """Standard deviations of a hundred steps between numbers, in clusters: columns are not constant."""
    X, truth = corners(200, 0, np.random.default_rng(5))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".* so far from zero")
        model = DirichletProcessMixture(likelihood, n_chains=1, n_warmup=20, n_draws=20, random_state=0)
        model.fit(1e-5 * X + offset)
    assert adjusted_rand_score(truth, model.labels_) > 0.95


def test_a_narrow_column_has_the_mean_of_its_digits():
    """A mean that was added up has not; and the largest number of equal rows is still one constant."""
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.integers(0, 8, 100_000) * 2.0**-20 + 1e7 / 3.0, np.full(100_000, 0.1)])
    columns = describe(X)
    assert columns.sd[0] == pytest.approx((X[:, 0] - X[0, 0]).std(), rel=1e-9)
    assert columns.constant.tolist() == [False, True]
    assert columns.spread()[1] == 1.0


def test_a_row_out_of_sight_is_warned_of():
    X = np.random.default_rng(2).normal(size=(100, 2))
    X[3, 1] = 1e9
    with pytest.warns(UserWarning, match="column 1 has values more than 1,000,000 times as far out as most"):
        DirichletProcessMixture(n_chains=1, n_warmup=1, n_draws=1, init="one", random_state=0).fit(X)
