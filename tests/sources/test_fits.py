"""A source is fitted as the same rows in memory are, to the bit, on any engine; and what is said of rows is written."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import unbounded as ub
from unbounded.likelihoods import Gaussian

rng = np.random.default_rng(3)
BLOBS = rng.normal(size=(900, 3)) + 6.0 * rng.integers(0, 3, (900, 1))
HOLES = np.where(rng.random(BLOBS.shape) < 0.05, np.nan, BLOBS)
KINDS = rng.integers(0, 2, 400)
COUNTS = sparse.csr_matrix(rng.poisson(np.where(KINDS[:, None] == np.arange(12) % 2, 2.0, 0.1)).astype(float))
EMPTY = sparse.vstack([COUNTS[:30], sparse.csr_matrix((2, 12)), COUNTS[30:]], format="csr")  # documents without words
GLYPHS = rng.integers(0, 2, (300, 2)) @ np.array([[3.0, 3, 0, 0], [0, 0, 3, 3]]) + 0.4 * rng.normal(size=(300, 4))
GROUPS = np.sort(rng.integers(0, 25, 900))
BRIEF = {"n_chains": 1, "n_warmup": 3, "n_draws": 5, "n_snapshots": 2, "n_shards": 3, "random_state": 2}


def pieces(folder, X, n=4):
    """The rows in files whose edges are not those of the shards."""
    folder.mkdir(exist_ok=True)
    edges = np.linspace(0, X.shape[0], n + 1).astype(int)
    for p, (start, stop) in enumerate(pairwise(edges)):
        if sparse.issparse(X):
            sparse.save_npz(folder / f"x{p}.npz", X[start:stop])
        else:
            np.save(folder / f"x{p}.npy", X[start:stop])
    return ub.open_source(folder)


mixture = partial(ub.DirichletProcessMixture, **BRIEF)
topics = partial(ub.HierarchicalDirichletProcess, **BRIEF, init=4)
CASES = {
    "holes": (partial(mixture, "gaussian"), HOLES, ()),
    "single": (partial(mixture, "diagonal_gaussian", dtype="float32"), HOLES.astype(np.float32), ()),
    "counts": (partial(ub.PitmanYorMixture, "multinomial", **BRIEF), COUNTS, ()),
    "features": (partial(ub.BetaBernoulliFeatures, **BRIEF, init="one"), GLYPHS, ()),
    "documents": (topics, EMPTY, ()),
    "dense documents": (topics, COUNTS.toarray(), ()),
    "groups": (partial(ub.HierarchicalDirichletProcess, Gaussian(), **BRIEF), HOLES, (GROUPS,)),
}


def of_rows(model):
    return model.assignments_ if hasattr(model, "assignments_") else model.labels_


def same_chain(a, b):
    assert a.posterior_.identical(b.posterior_)
    np.testing.assert_array_equal(of_rows(a), of_rows(b))
    for one, other in zip(a._snapshots, b._snapshots, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("case", CASES)
def test_the_chain_of_a_source_is_that_of_its_rows(tmp_path, case):
    make, X, groups = CASES[case]
    source = pieces(tmp_path / "pieces", X)
    model = make(engine="serial").fit(X, *groups)
    same_chain(model, make(engine="serial", checkpoint=tmp_path / "run").fit(source, *groups))
    same_chain(model, make(engine="processes", n_workers=2).fit(source, *groups))
    written(tmp_path / "run", model)


def written(run, model):
    folder = run / ("Z" if hasattr(model, "assignments_") else "labels")
    shards = json.loads((folder / "shards.json").read_text())
    parts = [np.load(folder / shard["file"]) for shard in shards]
    assert len(parts) == model.n_shards
    assert {path.name for path in folder.iterdir()} == {shard["file"] for shard in shards} | {"shards.json"}
    assert [shard["first"] for shard in shards] == np.cumsum([0, *map(len, parts)])[:-1].tolist()
    assert [shard["rows"] for shard in shards] == list(map(len, parts))
    np.testing.assert_array_equal(np.concatenate(parts), of_rows(model))


def test_words_of_a_large_source_start_on_the_workers(tmp_path, monkeypatch):
    """Where the pilot is not all there is, the others join it; the same for documents and for rows in groups."""
    monkeypatch.setattr("unbounded.models.groups.words.start.PILOT_TOKENS", 1000)
    monkeypatch.setattr("unbounded.models.groups.words.start.PILOT_ROUNDS", (5, 3))
    make = partial(ub.HierarchicalDirichletProcess, **BRIEF, engine="serial")
    same_chain(make().fit(EMPTY), make(engine="processes", n_workers=2).fit(pieces(tmp_path / "a", EMPTY)))
    monkeypatch.setattr("unbounded.models.mixtures.start.PILOT_ROWS", 300)
    make = partial(make, Gaussian(), n_shards=26)  # one of which has no group
    same_chain(make().fit(HOLES, GROUPS), make().fit(pieces(tmp_path / "b", HOLES), GROUPS))


def test_predictions_for_a_source_are_those_for_its_rows(tmp_path):
    for case, methods in {
        "single": ("predict", "predict_proba", "score_samples"),
        "counts": ("predict", "score_samples"),
        "features": ("transform", "score_samples"),
        "documents": ("transform", "score_samples"),
    }.items():
        make, X, groups = CASES[case]
        source, model = pieces(tmp_path / case, X), make(engine="serial").fit(X, *groups)
        for method in methods:
            np.testing.assert_array_equal(getattr(model, method)(source), getattr(model, method)(X))
        assert model.score(source) == model.score(X)


def test_rows_are_held_out_as_a_source_too(tmp_path):
    source, few = pieces(tmp_path / "a", HOLES), pieces(tmp_path / "b", HOLES[:50])
    make = partial(mixture, "diagonal_gaussian", engine="serial")
    same_chain(make().fit(HOLES, holdout=HOLES[:50]), make().fit(source, holdout=few))
    documents, few = pieces(tmp_path / "c", COUNTS), pieces(tmp_path / "d", COUNTS[:50])
    make = partial(topics, engine="serial")
    same_chain(make().fit(COUNTS, holdout=COUNTS[:50]), make().fit(documents, holdout=few))


INFINITE = BLOBS.copy()
INFINITE[7, 1] = np.inf


@pytest.mark.parametrize(
    ("fit", "X", "words"),
    [
        (lambda s: mixture().fit(s), INFINITE, "infinite values"),
        (lambda s: mixture().fit(s), 1e120 * BLOBS, "rescale"),
        (lambda s: mixture().fit(s), BLOBS[:1], "minimum of 2"),
        (lambda s: mixture("gaussian").fit(s), COUNTS, "sparse"),
        (lambda s: ub.BetaBernoulliFeatures().fit(s), COUNTS, "sparse"),
        (lambda s: ub.BetaBernoulliFeatures().fit(s, holdout=BLOBS > 3), BLOBS, "cannot be held out"),
        (lambda s: ub.HierarchicalDirichletProcess().fit(s), -COUNTS, "not 0, 1, 2"),
        (lambda s: ub.HierarchicalDirichletProcess().fit(s), 0.5 * COUNTS, "not 0, 1, 2"),
        (lambda s: ub.HierarchicalDirichletProcess().fit(s, GROUPS[::-1]), BLOBS, "sorted by group"),
        (lambda s: mixture("diagonal_gaussian").fit(BLOBS[:50, :2]).predict(s), BLOBS, "expecting 2 features"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_sentence(tmp_path, fit, X, words):
    with pytest.raises(ValueError, match=words) as error:
        fit(pieces(tmp_path, X, 1 if X.shape[0] == 1 else 4))
    assert str(error.value).count(". ") == 0
