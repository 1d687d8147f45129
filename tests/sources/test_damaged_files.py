"""Thousands of damaged files: each one is read, or refused in a sentence that names it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from kinds import csv, manifest, npy_folder, npz_folder, one_parquet, zarr3
from scipy import sparse

import unbounded as ub
from damage import DAMAGES, Damage, check_sentence, examples
from unbounded import datasets
from unbounded.datasets import hdf5

KINDS = {"npy": npy_folder, "npz": npz_folder, "manifest": manifest, "parquet": one_parquet, "zarr": zarr3, "csv": csv}
MANY = [25, pytest.param(10_000, marks=pytest.mark.long)]


def content(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.filterwarnings("ignore")  # of parsers, about odd text
@pytest.mark.parametrize("n", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_was_damaged_before(tmp_path, kind, n):
    """Where formats have checksums, what is read is what was written; of the others, rows are as wide as they say."""
    where, X = KINDS[kind](tmp_path)
    files = [path for path in files_in(tmp_path) if kind != "manifest" or path.parent.name == "pieces"]

    @examples(n)
    @given(DAMAGES)
    def damaged(how: Damage) -> None:
        before = how.done(files)
        try:
            source = ub.open_source(where)
            rows = source[:]
            assert rows.shape == source.shape
            if kind in ("npz", "manifest"):
                np.testing.assert_array_equal(content(rows), content(X))
        except ub.SourceError as error:
            check_sentence(error, how)
        finally:
            how.path(files).write_bytes(before)

    damaged()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_is_damaged_while_it_is_open(tmp_path, kind, n):
    """A worker opens its pieces later. Checksums of such small files cover all of them, but of a Zarr array, which has
    many files, the first row and the last."""
    where, X = KINDS[kind](tmp_path)
    files, source = [path for path in files_in(tmp_path) if path.name != "README.md"], ub.open_source(where)

    @examples(n)
    @given(DAMAGES)
    def damaged(how: Damage) -> None:
        before = how.done(files)
        try:
            rows = ub.Source(source.format, source.shape[1], str(source.dtype), source.pieces)[:]
            assert rows.shape == X.shape
            if kind != "zarr":
                np.testing.assert_array_equal(content(rows), content(X))
        except ub.SourceError as error:
            check_sentence(error, how)
        finally:
            how.path(files).write_bytes(before)

    damaged()


# ---- files that are loaded as a whole

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=list("abc"))
WORDS = FRAME.assign(w=np.where(FRAME["a"] > 0, "yes", "no"), c=pd.Categorical(np.where(FRAME["b"] > 0, "x", "y")))


def arrow(path):
    import pyarrow as pa

    table = pa.Table.from_pandas(WORDS)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def h5ad(path):
    import anndata

    anndata.AnnData(FRAME.to_numpy()).write_h5ad(path)


def counts(path):
    sparse.save_npz(path, sparse.csr_matrix(np.random.default_rng(0).poisson(0.5, (20, 8))))


LOADED = {
    "csv": lambda path: WORDS.to_csv(path, index=False), "npz": counts, "feather": WORDS.to_feather, "arrow": arrow,
    "parquet": WORDS.to_parquet, "h5ad": h5ad,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "n"),
    [(kind, 4 if kind == "h5ad" else 40) for kind in LOADED]
    + [pytest.param(kind, 1000 if kind == "h5ad" else 10_000, marks=pytest.mark.long) for kind in LOADED],
)
def test_a_damaged_file_is_loaded_or_refused(tmp_path, monkeypatch, kind, n):
    """Whatever ends the process, ends the tests."""
    path = tmp_path / f"x.{kind}"
    monkeypatch.setattr(hdf5, "PATIENCE", 5.0)
    with warnings.catch_warnings():
        LOADED[kind](path)
    columns = None if kind in ("npz", "h5ad") else list(WORDS.columns)
    whole = datasets.load(path, columns)

    @examples(n)
    @given(DAMAGES)
    def damaged(how: Damage) -> None:
        before = how.done([path])
        try:
            found = datasets.load(path, columns)
            assert len(found.shape) == 2
            if kind == "npz":
                np.testing.assert_array_equal(content(found), content(whole))
        except ValueError as error:
            check_sentence(error, how, path.name)
        finally:
            path.write_bytes(before)

    damaged()


def test_words_whose_index_is_damaged(tmp_path):
    """A column of words is an array of offsets into another one: a damaged offset is one into any memory."""
    import pyarrow as pa

    path = tmp_path / "x.arrow"
    arrow(path)
    offsets = pa.array(WORDS["w"]).buffers()[1].to_pybytes()
    damaged = offsets[:8] + (2**31 - 1).to_bytes(4, "little") + offsets[12:]
    path.write_bytes(path.read_bytes().replace(offsets, damaged))
    with pytest.raises(ValueError, match=r"x\.arrow cannot be read as a table") as caught:
        datasets.load(path, ["w"])
    check_sentence(caught.value, "")


def test_hdf5_that_never_ends(tmp_path, monkeypatch):
    """The library follows some damaged structures forever, or crashes: in a process of its own."""
    path = tmp_path / "x.h5ad"
    h5ad(path)
    monkeypatch.setattr(hdf5, "PATIENCE", 0.5)
    for walk, words in (("import time; time.sleep(60)", "could not be followed"), ("import os; os.abort()", "crashes")):
        monkeypatch.setattr(hdf5, "_WALK", ["-c", walk])
        with pytest.raises(ValueError, match=rf"x\.h5ad cannot be read as AnnData: .*{words}") as caught:
            datasets.load(path)
        check_sentence(caught.value, walk)
    monkeypatch.undo()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))
    with pytest.raises(ValueError, match=r"x\.h5ad"):
        datasets.load(path)


def test_hdf5_that_unpacks_to_more(tmp_path):
    import h5py

    path = tmp_path / "x.h5ad"
    h5ad(path)
    with h5py.File(path, "a") as file:
        del file["X"]
        file.create_dataset("X", (10**9, 3), chunks=(1000, 3), dtype="f8")
    with pytest.raises(ValueError, match=r"x\.h5ad .*would unpack to 24,0"):
        datasets.load(path)
