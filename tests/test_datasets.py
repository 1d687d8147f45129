"""Generators and loaders."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp

from unbounded import holdout
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


def test_what_is_held_out_is_not_fitted():
    X = np.arange(40.0).reshape(20, 2)
    fitted, held = holdout.split(X, 0.25, 3)
    assert (len(fitted), len(held)) == (15, 5)
    assert sorted([*fitted[:, 0], *held[:, 0]]) == X[:, 0].tolist()


def test_tiny_atoms_are_not_above_a_share():
    assert above(np.array([0.0005, 0.001, 0.005, 0.5])) == {"above_0.1%": 2.0, "above_1%": 1.0}
