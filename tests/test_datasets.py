"""Generators and loaders."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp

from unbounded import datasets, holdout
from unbounded.datasets import gaussian_mixture, load
from unbounded.shares import above
from unbounded.sources import Source


def test_the_generator_is_a_function_of_its_seed():
    one, two, other = gaussian_mixture(50, 3, 4, seed=1), gaussian_mixture(50, 3, 4, seed=1), gaussian_mixture(50, 3, 4)
    np.testing.assert_array_equal(one.X, two.X)
    assert not np.array_equal(one.X, other.X)
    assert one.X.shape == (50, 3)
    assert set(one.labels) <= set(range(4))


def test_the_density_is_that_of_the_mixture():
    made = gaussian_mixture(40, 3, 4, seed=2)
    laws = [stats.multivariate_normal(m, f @ f.T) for m, f in zip(made.means, made.factors, strict=True)]
    logs = [np.log(w) + law.logpdf(made.X) for w, law in zip(made.weights, laws, strict=True)]
    np.testing.assert_allclose(made.log_density(made.X), logsumexp(logs, axis=0), rtol=1e-9)


def test_rows_come_from_their_cluster():
    """Whitened by their own cluster, rows are standard normal (five standard errors)."""
    made = gaussian_mixture(20_000, 2, 5, seed=3)
    for k in range(5):
        rows = made.X[made.labels == k]
        white = np.linalg.solve(made.factors[k], (rows - made.means[k]).T)
        assert np.abs(white.mean(1)).max() < 5 / np.sqrt(len(rows))
        assert np.abs((white**2).mean(1) - 1.0).max() < 5 * np.sqrt(2 / len(rows))
    shares = np.bincount(made.labels) / len(made.labels)
    assert (np.abs(shares - made.weights) < 5 * np.sqrt(made.weights / len(made.labels))).all()


X = np.array([[1.5, -2.0], [3.0, np.nan], [0.0, 4.25]])


def test_every_format_reads_back(tmp_path):
    np.save(tmp_path / "x.npy", X)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(load(tmp_path / "x.npy")[:], X)
    for name in ("x.csv", "x.parquet"):
        np.testing.assert_array_equal(np.asarray(load(tmp_path / name)), X)
    assert list(load(tmp_path / "x.csv").columns) == ["a", "b"]
    counts = sparse.csr_matrix(np.array([[0, 2, 0], [1, 0, 3]]))
    sparse.save_npz(tmp_path / "x.npz", counts)
    back = load(str(tmp_path / "x.npz"))
    assert back.format == "csr"
    np.testing.assert_array_equal(back.todense(), counts.todense())


def test_arrays_are_mapped_not_read(tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert isinstance(load(tmp_path / "x.npy"), Source)


def test_a_csv_without_a_header_loses_no_row(tmp_path):
    """A first line of numbers is a row, not the names of columns."""
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    np.testing.assert_array_equal(np.asarray(load(tmp_path / "x.csv")), X)


def test_pickles_are_not_read(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x\.npy"):
        load(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("none.npy", None, "does not exist"),
        ("x.json", b"[]", "unknown ending"),
        ("x.npy", b"abc", "cannot be read"),
        ("x.npz", b"abc", "not a CSR matrix"),
        ("x.csv", b"", "cannot be read"),
        ("x.csv", b"a,b\n1,x\n", "'b' is not numeric"),
        ("x.parquet", b"abc", "cannot be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, word):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=word) as error:
        load(tmp_path / name)
    assert name in str(error.value)


@pytest.mark.parametrize("missing", ["data", "indices", "indptr", "shape"])
def test_an_archive_that_is_no_sparse_matrix(tmp_path, missing):
    counts = sparse.csr_matrix(np.eye(3))
    parts = {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr, "shape": counts.shape}
    del parts[missing]
    np.savez(tmp_path / "x.npz", **parts)
    with pytest.raises(ValueError, match="not a CSR matrix"):
        load(tmp_path / "x.npz")


def test_a_column_major_matrix_is_not_taken_for_a_row_major_one(tmp_path):
    """scipy saves CSC under the same names; a square one, read as CSR, would silently be transposed."""
    sparse.save_npz(tmp_path / "x.npz", sparse.csc_matrix(np.triu(np.ones((3, 3)))))
    with pytest.raises(ValueError, match=r"CSR .*format is csc"):
        load(tmp_path / "x.npz")


def test_arrow_files_and_streams_are_read(tmp_path):
    import pyarrow as pa
    import pyarrow.feather

    table = pa.Table.from_pandas(pd.DataFrame(X, columns=["a", "b"]))
    pyarrow.feather.write_feather(table, tmp_path / "x.feather")
    for name, start in (("file.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with pa.OSFile(str(tmp_path / name), "wb") as sink, start(sink, table.schema) as writer:
            writer.write_table(table)
    for name in ("x.feather", "file.arrow", "stream.arrow"):
        np.testing.assert_array_equal(load(tmp_path / name), X)
    np.testing.assert_array_equal(load(table), X)
    (tmp_path / "torn.arrow").write_bytes((tmp_path / "file.arrow").read_bytes()[:50])
    with pytest.raises(ValueError, match=r"torn\.arrow cannot be read as a table"):
        load(tmp_path / "torn.arrow")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_anndata_gives_counts_layers_and_components(tmp_path):
    import anndata

    counts = sparse.csc_matrix(np.array([[0, 2, 0], [1, 0, 3]], np.float32))
    cells = anndata.AnnData(counts, layers={"raw": 2 * counts}, obsm={"X_pca": X[:2]})
    cells.write_h5ad(tmp_path / "cells.h5ad")
    for where, truth in (("", counts), ("#X", counts), ("#raw", 2 * counts)):
        found = load(f"{tmp_path / 'cells.h5ad'}{where}")
        assert found.format == "csr"
        np.testing.assert_array_equal(found.todense(), truth.todense())
    np.testing.assert_array_equal(load(f"{tmp_path / 'cells.h5ad'}#X_pca"), X[:2])
    np.testing.assert_array_equal(load(cells).todense(), counts.todense())
    with pytest.raises(ValueError, match=r"has no 'X_umap'; it has X, X_pca, raw\."):
        load(f"{tmp_path / 'cells.h5ad'}#X_umap")
    (tmp_path / "torn.h5ad").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"torn\.h5ad cannot be read as AnnData"):
        load(tmp_path / "torn.h5ad")


@pytest.mark.parametrize("name", datasets.NAMES)
def test_sets_have_names(name, tmp_path, monkeypatch):
    """Names work wherever one is; a file of that name comes first."""
    rows = load(name, words=True)
    assert rows.shape[0] >= 100
    assert rows.shape[1] >= 4
    assert datasets.located(name) == name
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    assert datasets.located(name) == str(tmp_path / name)


def test_bunches_are_as_those_of_scikit_learn():
    """Rows and targets fit together, descriptions say what is made up, and seeds decide."""
    for name in ("penguins", "cells", "news", "glyphs"):
        bunch = getattr(datasets, f"load_{name}")()
        assert bunch.data.shape[0] == len(bunch.target)
        assert ("Made up" in bunch.DESCR) == (name != "penguins")
    assert datasets.load_penguins().data.isna().sum().tolist() == [2, 2, 2, 2, 0, 11]
    news = datasets.load_news(30, seed=1)
    assert sorted(w for item in news.documents for w in item) == sorted(
        np.repeat(news.feature_names, np.asarray(news.data.sum(0)).ravel()).tolist()
    )
    assert not np.array_equal(datasets.load_cells(50).data, datasets.load_cells(50, seed=1).data)


def test_a_name_that_is_none_is_said_to_be():
    with pytest.raises(ValueError, match=r"irises does not exist \(and it is none of the names penguins, "):
        load("irises")


def test_what_is_held_out_is_not_fitted():
    X = np.arange(40.0).reshape(20, 2)
    fitted, held = holdout.split(X, 0.25, 3)
    assert (len(fitted), len(held)) == (15, 5)
    assert sorted([*fitted[:, 0], *held[:, 0]]) == X[:, 0].tolist()


def test_tiny_atoms_are_not_above_a_share():
    assert above(np.array([0.0005, 0.001, 0.005, 0.5])) == {"above_0.1%": 2.0, "above_1%": 1.0}
