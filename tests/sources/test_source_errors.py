"""Sources that are wrong, or go wrong under way: one sentence that names the piece."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from kinds import DENSE, SPARSE, cut, manifest, npy_folder, npz_folder, one_parquet, parquet_folder, zarr3
from scipy import sparse

import unbounded as ub
from unbounded.columns import describe


def refused(call, *words):
    with pytest.raises(ub.SourceError) as caught:
        call()
    (line,) = str(caught.value).splitlines()
    assert line.endswith(".")
    for word in words:
        assert word in line, line
    return line


def save(path, X):
    np.save(path, X)
    return path


# ---- when it is opened


@pytest.mark.parametrize(
    "change",
    [{"name": "../out.npy"}, {"name": "/etc/passwd"}, {"name": ".."}, {"rows": -1}, {"bytes": 2**60}, {"rows": 1e999},
     {"name": "a\nb.npy"}, {"name": "\x1b[31m.npy"}, {"name": "piece-00001.npy"}, {"rows": True}, {"rows": "166"}],
    ids=ascii,
)  # fmt: skip
def test_a_manifest_that_means_harm(tmp_path, change):
    where, _ = manifest(tmp_path)
    path = where / "pieces.json"
    about = json.loads(path.read_text())
    about["pieces"][0] |= change
    path.write_text(json.dumps(about))
    refused(lambda: ub.open_source(where), "pieces.json is damaged")


@pytest.mark.parametrize(
    "change",
    [{"columns": 0}, {"columns": 10**15}, {"columns": 7.0}, {"dtype": "object"}, {"format": "exe"}, {"pieces": 3}],
    ids=str,
)
def test_a_manifest_that_says_nonsense(tmp_path, change):
    where, _ = manifest(tmp_path)
    path = where / "pieces.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(lambda: ub.open_source(where), "pieces.json is damaged")


@pytest.mark.parametrize("rows", [0, 160, 170])
def test_a_manifest_that_hides_rows(tmp_path, rows):
    """The total fits: without a look at the piece, its last rows would be missing."""
    where, _ = manifest(tmp_path)
    path = where / "pieces.json"
    about = json.loads(path.read_text())
    about["rows"] += rows - about["pieces"][1]["rows"]
    about["pieces"][1]["rows"] = rows
    path.write_text(json.dumps(about))
    refused(lambda: ub.open_source(where)[:], "piece-00001.npy has 167 rows", f"{rows} by pieces.json")


def test_names_that_cannot_be_printed(tmp_path):
    name = tmp_path / "a\x1b[31m\nb.npy"
    name.write_bytes(b"no rows")
    assert r"a\x1b[31m\nb.npy" in refused(lambda: ub.open_source(name))


def test_a_manifest_without_an_end(tmp_path):
    where, _ = manifest(tmp_path)
    (where / "pieces.json").write_text("[" * 100_000)
    refused(lambda: ub.open_source(where), "pieces.json is damaged")


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_sparse_rows_that_point_elsewhere(tmp_path, part):
    """In a file, and in memory."""
    X = sparse.random(20, 9, 0.3, "csr", random_state=0)
    X.data[:] = 2
    getattr(X, part)[5] = 10_000
    sparse.save_npz(tmp_path / "x.npz", X)
    refused(lambda: ub.open_source(tmp_path / "x.npz")[:], "x.npz")
    with pytest.raises(ValueError, match="is not a CSR matrix"):
        ub.datasets.load(tmp_path / "x.npz")
    for estimator in (ub.HierarchicalDirichletProcess(), ub.DirichletProcessMixture("multinomial")):
        with pytest.raises(ValueError, match="the sparse matrix is damaged"):
            estimator.fit(X)


def test_a_small_archive_with_a_huge_content(tmp_path, monkeypatch):
    """Noticed before it is unpacked; the limit is a smaller one here."""
    monkeypatch.setattr("unbounded.disk.UNPACKED", 2**20)
    same = np.zeros(2**20, np.int32)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_matrix((same.astype(float), same, [0, len(same)]), (1, 4)))
    refused(lambda: ub.open_source(tmp_path / "x.npz")[:], "x.npz", "would unpack to")
    with pytest.raises(ValueError, match="would unpack to"):
        ub.datasets.load(tmp_path / "x.npz")


def test_a_small_file_that_promises_much(tmp_path):
    import zarr

    zarr.create_array(tmp_path / "long.zarr", shape=(10**12, 3), chunks=(1000, 3), dtype="f8")
    zarr.create_array(tmp_path / "chunk.zarr", shape=(1000, 3), chunks=(10**9, 3), dtype="f8")
    pd.DataFrame({"a": np.zeros(10**7)}).to_parquet(tmp_path / "x.parquet")
    for name in ("long.zarr", "chunk.zarr", "x.parquet"):
        refused(lambda name=name: ub.open_source(tmp_path / name), name, "would unpack to")
    with pytest.raises(ValueError, match=r"x\.parquet .*would unpack to 80,0"):
        ub.datasets.load(tmp_path / "x.parquet")
    pd.DataFrame({"a": np.zeros(10**7)}).to_feather(tmp_path / "x.feather", compression="zstd", chunksize=10**7)
    with pytest.raises(ValueError, match=r"x\.feather .*would unpack to 80,0"):
        ub.datasets.load(tmp_path / "x.feather")


def test_too_many_columns(tmp_path):
    wide = sparse.csr_matrix((np.ones(1), [5], [0, 1, 1]), (2, 10**12))
    sparse.save_npz(tmp_path / "x.npz", wide)
    refused(lambda: ub.open_source(tmp_path / "x.npz"), "x.npz has 1,000,000,000,000 columns")
    with pytest.raises(ValueError, match=r"x\.npz .*1,000,000,000,000 columns"):
        ub.datasets.load(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="the sparse matrix has 1,000,000,000,000 columns"):
        ub.HierarchicalDirichletProcess().fit(wide)


def test_rows_after_the_last_one(tmp_path):
    """Of a header whose number of rows is damaged, or a second array."""
    with (tmp_path / "x.npy").open("wb") as file:
        np.save(file, DENSE)
        np.save(file, DENSE)
    refused(lambda: ub.open_source(tmp_path / "x.npy"), "x.npy has", "its header promises")


def test_more_memory_than_there_is(tmp_path, monkeypatch):
    where = one_parquet(tmp_path)[0]
    counts = tmp_path / "x.npz"
    sparse.save_npz(counts, SPARSE)

    def no_memory(*_, **__):
        raise MemoryError("Unable to allocate 3.47 EiB")

    monkeypatch.setattr("pyarrow.parquet.read_metadata", no_memory)
    monkeypatch.setattr("unbounded.sources.formats.csr_shape", no_memory)
    for load, path in ((ub.datasets.load, where), (ub.datasets.load, counts), (ub.open_source, counts)):
        with pytest.raises(ValueError, match=f"{path.name} needs more memory than there is: Unable to allocate 3.47"):
            load(path)


@pytest.mark.parametrize("many", [3e9, 1e18])
def test_documents_that_are_too_long(tmp_path, many):
    """Every word of a document is a row: wherever documents are read."""
    few = sparse.csr_matrix(np.random.default_rng(0).poisson(0.5, (20, 8)).astype(float))
    X = few.copy()
    X.data[0] = many
    sparse.save_npz(tmp_path / "x.npz", X)
    model = ub.HierarchicalDirichletProcess(n_warmup=1, n_draws=1, n_chains=1, random_state=0).fit(few)
    source = ub.open_source(tmp_path / "x.npz")
    for read in (
        lambda: ub.HierarchicalDirichletProcess().fit(X), lambda: ub.HierarchicalDirichletProcess().fit(source),
        lambda: model.transform(X), lambda: model.transform(source), lambda: model.score(X),
        lambda: ub.HierarchicalDirichletProcess().fit(few, holdout=X),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"document 0 has [0-9,]+ words; there may be 268,435,456 at most\.$"):
            read()


def test_too_many_documents(monkeypatch):
    monkeypatch.setattr("unbounded.models.groups.reading._MOST_IN_MEMORY", 10)
    with pytest.raises(ValueError, match=r"the documents have 40 words; there may be 10 at most in memory; fit"):
        ub.HierarchicalDirichletProcess().fit(np.ones((5, 8)))


def test_nothing_there(tmp_path):
    refused(lambda: ub.open_source(tmp_path / "no.npy"), "no.npy", "does not exist")
    refused(lambda: ub.open_source(tmp_path / "no"), "does not exist")
    refused(lambda: ub.open_source(tmp_path / "no.zarr"), "no.zarr")
    refused(lambda: ub.open_source(f"{tmp_path}/*.npy"), "no file matches")
    refused(lambda: ub.open_source([]), "at least one piece")
    refused(lambda: ub.open_source(tmp_path), str(tmp_path), "holds no pieces")
    refused(lambda: ub.open_source("memory://nowhere/x.npy"), "does not exist")


def test_an_unknown_ending(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    refused(lambda: ub.open_source(tmp_path / "x.json"), "x.json", "unknown ending", ".npy")


def test_an_unknown_protocol():
    refused(lambda: ub.open_source("nosuch://bucket/x.npy"), "nosuch://bucket/x.npy", "not known")


@pytest.mark.parametrize("where", [5, None, [5], DENSE])
def test_something_else_than_a_path(where):
    with pytest.raises(ub.SourceError, match="a path, a glob or a list of paths"):
        ub.open_source(where)


def test_a_file_that_may_not_be_read(tmp_path):
    path = save(tmp_path / "x.npy", DENSE)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("everything may be read here")
    refused(lambda: ub.open_source(path), "x.npy cannot be read: Permission denied")


def test_an_extra_that_is_not_installed(tmp_path, monkeypatch):
    where, _ = one_parquet(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    refused(lambda: ub.open_source(where), "x.parquet", 'pip install "unbounded[sources]"')


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.csv"])
@pytest.mark.parametrize("content", [b"", b"abc"])
def test_files_that_are_something_else(tmp_path, name, content):
    if (name, content) == ("x.csv", b"abc"):
        content = b"a\nb\n"
    (tmp_path / name).write_bytes(content)
    refused(lambda: ub.open_source(tmp_path / name)[:], name)


@pytest.mark.parametrize(
    ("X", "word"),
    [
        (np.array([["a", "b"]]), "type <U1"),
        (np.zeros((2, 2), complex), "type complex128"),
        (np.zeros(5), "shape (5,)"),
        (np.zeros((2, 3, 4)), "shape (2, 3, 4)"),
        (np.zeros((0, 3)), "no rows"),
        (np.zeros((3, 0)), "no columns"),
        (np.zeros(3, [("a", "f8")]), "shape (3,)"),
    ],
)
def test_arrays_that_are_no_rows_of_numbers(tmp_path, X, word):
    path = save(tmp_path / "x.npy", X)
    refused(lambda: ub.open_source(path), "x.npy", word)


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, None]], dtype=object), allow_pickle=True)
    refused(lambda: ub.open_source(tmp_path / "x.npy"), "x.npy", "object")


def test_words_in_a_table(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]})
    frame.to_parquet(tmp_path / "x.parquet")
    refused(lambda: ub.open_source(tmp_path / "x.parquet"), "'b' is not numeric")
    frame.to_csv(tmp_path / "x.csv", index=False)
    refused(lambda: ub.open_source(tmp_path / "x.csv")[:], "'b' is not numeric")


def test_column_major_sparse_rows(tmp_path):
    sparse.save_npz(tmp_path / "x.npz", SPARSE.tocsc())
    refused(lambda: ub.open_source(tmp_path / "x.npz"), "x.npz", "csc")


@pytest.mark.parametrize("format", ["csr", b"csr"])
def test_the_layout_of_sparse_rows_is_text_or_bytes(tmp_path, format):
    X = sparse.csr_matrix(np.eye(3))
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(tmp_path / "x.npz", format=format, **parts)
    np.testing.assert_array_equal(ub.open_source(tmp_path / "x.npz")[:].toarray(), np.eye(3))
    np.savez(tmp_path / "x.npz", format="coo", **parts)
    refused(lambda: ub.open_source(tmp_path / "x.npz"), "its format is coo")


def test_a_packing_that_nobody_knows(tmp_path):
    """Of an entry of the archive, as a flipped bit leaves it: zipfile has a NotImplementedError for it."""
    path = tmp_path / "x.npz"
    sparse.save_npz(path, SPARSE)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")  # an entry of the directory; its method comes ten bytes later
    content[at + 10] = 77
    path.write_bytes(content)
    refused(lambda: ub.open_source(path)[:], "x.npz")
    with pytest.raises(ValueError, match=r"x\.npz is not a CSR matrix .*compression"):
        ub.datasets.load(path)


def test_pointers_that_begin_elsewhere():
    X = sparse.csr_matrix(np.ones((5, 4)))
    X.indptr[0] = 3
    with pytest.raises(ValueError, match=r"the sparse matrix is damaged: .*[^.]\.$"):
        ub.HierarchicalDirichletProcess().fit(X)


def test_sparse_rows_with_columns_out_of_range(tmp_path):
    """Compiled code does not look at bounds."""
    parts = {"data": np.ones(2), "indices": np.array([0, 9]), "indptr": np.array([0, 1, 2]), "shape": (2, 3)}
    np.savez(tmp_path / "x.npz", format=b"csr", **parts)
    refused(lambda: ub.open_source(tmp_path / "x.npz")[:], "x.npz")


def test_pieces_of_different_kinds(tmp_path):
    save(tmp_path / "a.npy", DENSE)
    sparse.save_npz(tmp_path / "b.npz", SPARSE)
    refused(lambda: ub.open_source(tmp_path), "different formats", "a.npy", "b.npz")
    refused(lambda: ub.open_source([tmp_path / "a.npy", tmp_path / "b.npz"]), "different formats")


def test_pieces_with_different_columns(tmp_path):
    npy_folder(tmp_path)
    save(tmp_path / "x11.npy", DENSE[:, :5])
    refused(lambda: ub.open_source(tmp_path), "x11.npy has 5 columns, the other pieces have 7")


def test_pieces_with_different_types(tmp_path):
    npy_folder(tmp_path)
    save(tmp_path / "x11.npy", DENSE.astype(np.float32))
    refused(lambda: ub.open_source(tmp_path), "x11.npy holds float32 values, the other pieces float64")


def test_a_truncated_piece_is_seen_at_once(tmp_path):
    npy_folder(tmp_path)
    path = tmp_path / "x12.npy"
    path.write_bytes(path.read_bytes()[:-8])
    refused(lambda: ub.open_source(tmp_path), "x12.npy is truncated")


# ---- under way: the driver has opened it, a worker reads


@pytest.mark.parametrize(
    ("make", "name", "start"),
    [(npy_folder, "x12.npy", 640), (npz_folder, "x4.npz", 640), (parquet_folder, "x4.parquet", 640),
     (manifest, "pieces/piece-00005.npy", 900)],
)  # fmt: skip
class TestAPieceThatIsNoLongerTheSame:
    def test_vanished(self, tmp_path, make, name, start):
        source = ub.open_source(make(tmp_path)[0])
        (tmp_path / name).unlink()
        assert source[: start // 2].shape[0] == start // 2
        refused(lambda: pickle.loads(pickle.dumps(source))[start:], name, "disappeared")

    def test_truncated(self, tmp_path, make, name, start):
        source = ub.open_source(make(tmp_path)[0])
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        refused(lambda: source[start:], name, "truncated")

    def test_replaced(self, tmp_path, make, name, start):
        source = ub.open_source(make(tmp_path)[0])
        path = tmp_path / name
        content = bytearray(path.read_bytes())
        content[-40] ^= 1
        path.write_bytes(content)
        refused(lambda: source[start:], name)

    def test_other_columns(self, tmp_path, make, name, start):
        source = ub.open_source(make(tmp_path)[0])
        path = tmp_path / name
        if path.suffix == ".npy":
            np.save(path, DENSE[start:, :4])
        elif path.suffix == ".npz":
            sparse.save_npz(path, SPARSE[start:, :4])
        else:
            pd.DataFrame(DENSE[start:, :4].astype(np.float32), columns=list("abcd")).to_parquet(path)
        refused(lambda: source[start:], name, "has 4 columns")


def test_a_chunk_that_vanishes(tmp_path):
    where, _ = zarr3(tmp_path)
    source = ub.open_source(where)
    (where / "c" / "2" / "0").unlink()
    refused(lambda: source[:10], "plain", "truncated or changed")


def test_checksums_see_every_row_of_an_array(tmp_path):
    """A fingerprint looks at the first row and the last."""
    import zarr

    where, _ = zarr3(tmp_path)
    before = ub.open_source(where).checksums()
    zarr.open_array(where)[500, 3] = 1.0
    assert ub.open_source(where).checksums() != before


def test_a_damaged_manifest(tmp_path):
    where, X = manifest(tmp_path)
    path = where / "pieces.json"
    about = json.loads(path.read_text())
    for wrong in (
        "",
        "[]",
        "{}",
        json.dumps(about | {"format": "xls"}),
        json.dumps(about | {"pieces": [{}]}),
        json.dumps(about | {"rows": 3}),
    ):
        path.write_text(wrong)
        refused(lambda: ub.open_source(where), "pieces.json is damaged")
    path.unlink()
    np.testing.assert_array_equal(ub.open_source(where)[:], X)


# ---- rows


def test_rows_out_of_range(tmp_path):
    source = ub.open_source(npy_folder(tmp_path)[0])
    refused(lambda: source[np.array([3, 1000])], "0 .. 999")
    refused(lambda: source[np.array([-1001])], "0 .. 999")
    refused(lambda: source[np.zeros(3, bool)], "mask of rows must have shape (1000,)")
    refused(lambda: source.take([2, 1]), "ascend")
    refused(lambda: source[:, 2], "whole rows")
    refused(lambda: source[[0.5]], "list of integers")
    assert source[2000:].shape == source[np.array([], int)].shape == (0, 7)


def test_a_source_is_not_loaded_by_accident(tmp_path):
    source = ub.open_source(npy_folder(tmp_path)[0])
    refused(lambda: np.asarray(source), "not an array in memory")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of files that other tests left open
@pytest.mark.filterwarnings("error")
def test_values_that_are_not_finite_show_in_the_columns(tmp_path):
    X = DENSE.copy()
    X[3, 0], X[5, 1], X[6, 1], X[:, 2] = np.inf, -np.inf, np.inf, np.nan
    for p, part in enumerate(cut(X)):
        save(tmp_path / f"{p}.npy", part)
    columns = describe(ub.open_source(tmp_path))
    assert np.isposinf(columns.high[[0, 1]]).all()
    assert np.isneginf(columns.low[1])
    assert columns.holes[2] == 1000
    strange = SPARSE.copy()
    strange.data[:2] = np.inf, np.nan
    sparse.save_npz(tmp_path / "s.npz", strange)
    columns = describe(ub.open_source(tmp_path / "s.npz"))
    assert np.isposinf(columns.high[strange.indices[0]])
    assert columns.holes[strange.indices[1]] == 1
