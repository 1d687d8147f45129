"""Feature models: bad input gets one clear sentence before anything runs; what merely looks odd works."""

from __future__ import annotations

import os
import signal
import tempfile
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from unbounded import (
    BetaBernoulliFeatures,
    BetaNegativeBinomialFeatures,
    Gamma,
    GammaPoissonFeatures,
    Gaussian,
    Ghosts,
    InverseGamma,
    Jumps,
    LinearGaussian,
    PoissonFactors,
    RunError,
)
from unbounded.models.features.model import Features

N = 30
rng = np.random.default_rng(0)
Z = (rng.random((N, 2)) < 0.5).astype(int)
X = Z @ np.array([[3.0, 3.0, 0.0], [0.0, 2.0, 4.0]]) + 0.3 * rng.normal(size=(N, 3))
COUNTS = rng.poisson(0.5 + 3.0 * Z @ np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])).astype(float)
BRIEF = {"n_shards": 2, "n_chains": 1, "n_warmup": 2, "n_draws": 3, "n_workers": 1, "random_state": 0, "init": "one"}


def bb(likelihood="linear_gaussian", **options):
    return BetaBernoulliFeatures(likelihood, **BRIEF | options)


def gp(likelihood="linear_gaussian", **options):
    return GammaPoissonFeatures(likelihood, **BRIEF | options)


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
        (np.empty((0, 3)), ["0 sample"]),
        (np.empty((5, 0)), ["0 feature"]),
        (np.ones((1, 3)), ["1 sample", "minimum of 2"]),
        (np.ones(7), ["1D array"]),
        (np.array([["a", "b"], ["c", "d"]]), ["holds words"]),
        (pd.DataFrame({"x": [1.0, 2.0], "y": ["red", "blue"]}), ["holds words"]),
        (changed(X, np.inf), ["infinity"]),
        (sparse.csr_matrix(X), ["X is sparse", "toarray"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_rows_without_features(rows, words):
    message = said(bb().fit, rows)
    assert all(word in message for word in words)


def test_a_column_without_any_value():
    for call in (lambda: bb().fit(changed(X, np.nan, (slice(None), 1))), lambda: bb().fit(X, holdout=COLUMN)):
        message = sentence(said(call))
        assert "column 1" in message
        assert "no observed value" in message


COLUMN = np.arange(3) == np.ones((N, 1))


@pytest.mark.parametrize("value", [-1.0, 0.5])
def test_values_that_are_no_counts(value):
    message = sentence(said(bb("poisson_factors").fit, changed(COUNTS, value)))
    assert "Poisson" in message
    assert "column 1" in message
    model = gp("poisson_factors").fit(COUNTS)
    assert "Poisson" in sentence(said(model.transform, changed(COUNTS, value)))
    assert "Poisson" in sentence(said(bb("poisson_factors").fit, changed(COUNTS, value), holdout=HIDDEN))


HIDDEN = np.zeros(X.shape, bool)
HIDDEN[3, 1] = HIDDEN[7, 0] = True


def test_values_that_would_overflow():
    assert "overflow" in sentence(said(bb().fit, changed(X, 1e150)))


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.zeros((N, 2), bool), ["holdout", "(30, 3)", "(30, 2)"]),
        (HIDDEN.astype(int), ["holdout", "boolean", "int64"]),
        (~HIDDEN & HIDDEN, ["holdout", "no observed cell"]),
        (X[:5], ["holdout", "boolean"]),
    ],
    ids=["shape", "integers", "empty", "rows"],
)
def test_masks_that_hide_nothing(mask, words):
    message = sentence(said(bb().fit, X, holdout=mask))
    assert all(word in message for word in words), message


# ---- settings


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (bb(mass=0.0), ["mass", "0.0"]),
        (bb(mass="high"), ["mass", "high"]),
        (bb(concentration=-1.0), ["concentration", "-1.0"]),
        (bb(concentration=np.inf), ["concentration"]),
        (BetaNegativeBinomialFeatures(failures=0.0, **BRIEF), ["failures", "0.0"]),
        (BetaNegativeBinomialFeatures(failures=Gamma(), **BRIEF), ["failures"]),
        (bb(n_shards=31), ["n_shards=31", "30 rows"]),
        (bb(n_draws=0), ["n_draws", "at least 1"]),
        (bb("gaussian"), ["likelihood", "gaussian", "linear_gaussian"]),
        (bb(Gaussian()), ["likelihood", "linear_gaussian", "Gaussian"]),
        (bb(3), ["likelihood", "3"]),
        (bb(engine="gpu"), ["engine", "gpu"]),
        (bb(instantiate="ghost"), ["instantiate", "ghost"]),
        (bb(instantiate=Ghosts(0)), ["ghosts", "2 shards"]),
        (bb(dtype="float16"), ["dtype", "float16"]),
        (bb(instantiate="published-warm", n_warmup=0, n_draws=80), ["n_warmup", "10", "discarded"]),
        (bb(init="kmeans++"), ["init", "kmeans++", "grown"]),
        (bb(init=np.ones((29, 2), int)), ["init", "30"]),
        (bb(init=np.ones(30, int)), ["init", "30"]),
        (bb(init=np.full((30, 2), 0.5)), ["init"]),
        (bb(init=np.full((30, 2), -1)), ["init"]),
        (bb(init=np.full((30, 2), 2)), ["init", "0 and 1"]),
        (gp(init=np.full((30, 2), -1)), ["init"]),
        (bb(init=None), ["init"]),
        (bb(jumps=Jumps()), ["jumps", "True, False or None"]),
        (bb(instantiate="published-cold", jumps=True), ["jumps=True", "exact rule"]),
        (bb(sampler="collapsed"), ["collapsed", "one shard", "n_shards", "2"]),
        (bb(device="reference", dtype="float32"), ["device='reference'", "float64"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_that_make_no_sense(model, words):
    message = sentence(said(model.fit, X))
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LinearGaussian(noise=0.0), ["noise", "positive"]),
        (lambda: LinearGaussian(loading=-1.0), ["loading", "positive"]),
        (lambda: LinearGaussian(intercept=-1.0), ["intercept", "positive"]),
        (lambda: PoissonFactors(shape=0.0), ["shape", "positive"]),
        (lambda: InverseGamma(0.0, 1.0), ["positive"]),
    ],
)
def test_priors_that_make_no_sense(make, words):
    message = sentence(said(make))
    assert all(word in message for word in words), message


def test_nothing_runs_before_the_checks(monkeypatch):
    from unbounded.models.features import start as feature_start

    def never(*args):
        raise AssertionError("the chain has begun")

    monkeypatch.setattr(feature_start, "begin", never)
    for wrong in ({"dtype": "half"}, {"engine": "gpu"}, {"instantiate": "ghost"}, {"n_workers": 0}):
        said(bb(**wrong).fit, X)
    said(bb().fit, X, holdout=HIDDEN[:3])


# ---- new rows


@pytest.fixture(scope="module")
def fitted():
    return bb().fit(X)


@pytest.mark.parametrize("method", ["transform", "impute", "score_samples", "score"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.ones((3, 4)), ["4 features", "expecting 3"]),
        (np.empty((0, 3)), ["0 sample"]),
        (np.array([[1.0, np.inf, 0.0]]), ["infinity"]),
        (np.array([[1.0, 1e150, 0.0]]), ["overflow"]),
        (np.ones(3), ["1D array"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_new_rows_that_do_not_fit(fitted, method, rows, words):
    message = said(getattr(fitted, method), rows)
    assert all(word in message for word in words)


def test_entries_that_do_not_fit(fitted):
    message = sentence(said(fitted.inverse_transform, np.ones((2, fitted.n_atoms_ + 1))))
    assert "components" in message


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "impute", "score_samples", "sample", "summary"])
def test_results_before_a_fit(method):
    arguments = () if method in ("sample", "summary") else (X,)
    assert "not fitted" in said(getattr(bb(), method), *arguments)


# ---- run directories


def test_an_unwritable_run_directory(tmp_path):
    (tmp_path / "file").write_text("")
    message = sentence(said(bb(checkpoint=tmp_path / "file" / "run").fit, X, error=RunError))
    assert "cannot write to the run directory" in message


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A run that was stopped half-way."""
    gather = Features.gather

    def watched(self, state, *args):
        new = gather(self, state, *args)
        if new.round == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return new

    with monkeypatch.context() as patch:
        patch.setattr(Features, "gather", watched)
        assert bb(checkpoint=tmp_path / "run", keep_assignments=True).fit(X).interrupted_
    return tmp_path / "run"


def again(run, rows=X, **options):
    return bb(checkpoint=run, keep_assignments=True, **options).fit(rows)


def test_damaged_and_foreign_checkpoints(begun, tmp_path):
    path = begun / "chain-0" / "checkpoint.ub"
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + b"xx")
    assert "damaged" in sentence(said(again, begun, error=RunError))
    path.write_bytes(b"nonsense")
    assert "does not begin as files of a run do" in sentence(said(again, begun, error=RunError))
    bb(checkpoint=tmp_path / "other", keep_assignments=True, random_state=1).fit(X)
    path.write_bytes((tmp_path / "other" / "chain-0" / "checkpoint.ub").read_bytes())
    assert "another run" in sentence(said(again, begun, error=RunError))
    path.write_bytes(whole)
    assert not again(begun).interrupted_


def test_a_run_with_other_settings(begun):
    for other, word in (({"mass": 2.0}, "measure"), ({"likelihood": LinearGaussian(noise=1.0)}, "likelihood")):
        assert f"other {word}" in sentence(said(again, begun, error=RunError, **other))
    assert "other data" in sentence(said(again, begun, X + 1.0, error=RunError))


def test_a_draw_that_is_gone(begun):
    (begun / "chain-0" / "assignments" / "000000.ub").unlink()
    assert "000000.ub is damaged or missing" in sentence(said(again, begun, error=RunError))


# ---- odd but fine


def works(model, rows):
    """Fits without a warning, and everything that comes out is finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="columns without any variation|a few rows are far")  # test_offsets.py
        model.fit(rows)
        assert np.isfinite(model.posterior_["log_joint"]).all()
        assert np.isfinite(model.score_samples(rows)).all()
        assert np.isfinite(model.transform(rows)).all()
        assert np.isfinite(model.impute(rows)).all()
        assert np.isfinite(model.sample(5, random_state=0)).all()
    return model


ODD = {
    "a constant column": np.column_stack([X, np.full(N, 3.0)]),
    "constant rows": np.full((N, 2), 5.0),
    "duplicate rows": np.repeat(X[[0, 9]], 15, axis=0),
    "more columns than rows": rng.normal(size=(8, 40)),
    "one column": X[:, :1],
    "two rows": X[:2],
    "a row without values": changed(X, np.nan, (4, slice(None))),
    "large units": X * 1e30,
    "small units": X * 1e-30,
    "outliers": changed(X, 1e4, (0, 0)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_rows(name):
    works(bb(), ODD[name])


@pytest.mark.parametrize("rows", [COUNTS, np.zeros((N, 2)), changed(COUNTS, np.nan, (4, slice(None)))])
def test_odd_counts(rows):
    works(bb("poisson_factors"), rows)


def test_an_intercept_with_centred_data():
    works(bb(), X - X.mean(0))
    works(bb(LinearGaussian(intercept=2e6)), X + 1e6)


def test_one_row_per_shard():
    works(bb(n_shards=N), X)


def test_integers_and_booleans():
    works(bb(), np.rint(X).astype(np.int32))
    works(bb("poisson_factors"), COUNTS > 0)


def test_fortran_order_and_strides():
    expected = bb().fit(X).posterior_
    assert bb().fit(np.asfortranarray(X)).posterior_.identical(expected)
    assert bb().fit(np.repeat(X, 2, axis=0)[::2]).posterior_.identical(expected)


def test_entries_of_any_kind_to_start_from():
    """Booleans, empty columns, no column at all."""
    for init in (Z > 0, np.column_stack([Z, np.zeros(N, int)]), np.zeros((N, 0), int)):
        works(bb(init=init), X)
    works(gp(init=3 * Z), X)
