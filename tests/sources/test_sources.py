"""Every kind of source against the same rows in memory."""

from __future__ import annotations

import gc
import pickle
import shutil
import warnings

import numpy as np
import pytest
from kinds import DENSE, KINDS, SPARSE, csv, npy_folder, one_npy, parquet_folder

import unbounded as ub
from unbounded.arrays import is_csr
from unbounded.columns import describe
from unbounded.rows import fingerprint, rows_of


@pytest.fixture(params=KINDS, ids=lambda make: make.__name__)
def kind(request, tmp_path):
    where, X = request.param(tmp_path)
    return where, X


def same(rows, X):
    if is_csr(X):
        assert is_csr(rows)
        assert rows.shape == X.shape
        for mine, true in zip((rows.indptr, rows.indices, rows.data), (X.indptr, X.indices, X.data), strict=True):
            np.testing.assert_array_equal(mine, true)
        return
    assert type(rows) is np.ndarray
    assert rows.dtype == X.dtype
    np.testing.assert_array_equal(rows, X)


def test_rows_are_those_of_the_array(kind):
    where, X = kind
    source = ub.open_source(where)
    n = X.shape[0]
    assert source.shape == X.shape
    assert len(source) == source.n_rows == n
    assert source.dtype == X.dtype
    assert source.sparse == is_csr(X)
    rng = np.random.default_rng(1)
    cuts = [(0, n), (n // 3, n // 2), (n - 1, n), (n // 2, n // 2), *np.sort(rng.integers(0, n, (20, 2))).tolist()]
    for start, stop in cuts:
        same(source.rows(start, stop), X[start:stop])
        same(source[start:stop], X[start:stop])
    same(source[-2:], X[-2:])
    same(source[::3], X[::3])
    few = rng.permutation(n)[: max(2, n // 4)]
    same(source.take(np.sort(few)), X[np.sort(few)])
    same(source[few], X[few])
    same(source[np.concatenate([few, few[:1]])], X[np.concatenate([few, few[:1]])])
    same(source[few - n], X[few])
    mask = rng.random(n) < 0.3
    same(source[mask], X[mask])
    np.testing.assert_array_equal(
        source[1].toarray() if is_csr(X) else source[1], X[1].toarray() if is_csr(X) else X[1]
    )


def test_blocks_are_all_rows(kind):
    where, X = kind
    source = ub.open_source(where)
    source._block = 97
    at = 0
    for start, rows in source.blocks():
        assert start == at
        same(rows, X[start : start + 97])
        at += rows.shape[0]
    assert at == X.shape[0]


def test_compiled_code_gets_the_same_rows_and_may_write_to_them(kind):
    where, X = kind
    source = ub.open_source(where)
    for start, stop in ((0, X.shape[0]), (1, 3)):
        mine, true = rows_of(source, start, stop), rows_of(X, start, stop)
        assert type(mine) is type(true)
        for one, two in zip(mine, true, strict=True) if is_csr(X) else [(mine, true)]:
            assert one.dtype == two.dtype
            assert one.flags.writeable
            assert one.flags.c_contiguous
            assert one.flags.aligned
            np.testing.assert_array_equal(one, two)
    before = source.rows(0, 2)
    rows = before.data if is_csr(before) else before
    rows[...] = 77.0
    same(ub.open_source(where).rows(0, 2), X[:2])


def test_columns_are_described_to_the_bit(kind):
    where, X = kind
    mine, true = describe(ub.open_source(where)), describe(X)
    assert mine.sparse == true.sparse
    for name in ("mean", "sd", "low", "high", "holes", "whole"):
        assert getattr(mine, name).tobytes() == getattr(true, name).tobytes(), name


def test_a_source_pickles_small_and_is_the_same(kind):
    where, X = kind
    source = ub.open_source(where)
    source.rows(0, 1)
    wire = pickle.dumps(source)
    assert len(wire) < 600 + 250 * len(source.pieces)
    again = pickle.loads(wire)
    assert fingerprint(again) == fingerprint(source)
    same(again[:], X)


@pytest.mark.parametrize("make", [make for make in KINDS if "memory" not in make.__name__])
def test_a_copy_is_the_same_data(make, tmp_path):
    (tmp_path / "a").mkdir()
    where, _ = make(tmp_path / "a")
    print_ = fingerprint(ub.open_source(where))
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    moved = [str(w).replace("/a/", "/b/") if "/a/" in str(w) else f"{tmp_path}/b" for w in np.atleast_1d(where)]
    assert fingerprint(ub.open_source(moved if isinstance(where, list) else moved[0])) == print_


def test_other_data_have_another_fingerprint(tmp_path):
    seen = set()
    changed = DENSE.copy()
    changed[0, 0] += 1
    for n, X in enumerate((DENSE, changed, DENSE[:-1], DENSE.astype(np.float32), DENSE[::-1], DENSE[:, :-1])):
        np.save(tmp_path / f"{n}.npy", X)
        seen.add(fingerprint(ub.open_source(tmp_path / f"{n}.npy")))
    assert len(seen) == 6


def test_sparse_rows_are_described_as_dense_ones():
    one, two = describe(SPARSE), describe(SPARSE.toarray())
    for name in ("mean", "sd", "low", "high", "holes", "whole"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)


def test_a_file_is_mapped_and_not_copied(tmp_path):
    where, _ = one_npy(tmp_path)
    rows = ub.open_source(where).rows(100, 900)
    assert isinstance(rows.base, np.memmap)
    folder = tmp_path / "pieces"
    folder.mkdir()
    npy_folder(folder)
    assert isinstance(ub.open_source(folder).rows(131, 640).base, np.memmap)  # a whole piece


def test_one_piece_is_open_until_its_end(tmp_path):
    source = ub.open_source(parquet_folder(tmp_path)[0])
    source.rows(0, 50)
    assert source._open_piece[0] == 0
    source.rows(200, 300)
    assert source._open_piece[0] == 3
    source.rows(300, 640)
    assert source._open_piece == (-1, None)


def test_threads_share_a_source(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    where, X = parquet_folder(tmp_path)
    source = ub.open_source(where)
    cuts = [(a, a + 60) for a in range(0, 940, 20)]
    with ThreadPoolExecutor(4) as pool:
        for (a, b), rows in zip(cuts, pool.map(lambda cut: source.rows(*cut), cuts), strict=True):
            same(rows, X[a:b])


def test_wide_rows_come_in_small_blocks(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 200_000)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    source = ub.open_source(tmp_path / "x.npy")
    assert [rows.shape[0] for _, rows in source.blocks()] == [20, 20, 10]
    assert describe(source).mean.tobytes() == describe(X).mean.tobytes()


def test_a_file_that_is_half_read_is_closed(tmp_path):
    where, _ = csv(tmp_path)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        assert len(ub.open_source(where)[:10]) == 10
        gc.collect()
    assert not [warning for warning in seen if "x.csv" in str(warning.message)]


def test_holes_are_not_among_what_is_described():
    X = np.random.default_rng(0).normal(3.0, 2.0, (400, 3))
    X[np.random.default_rng(1).random(X.shape) < 0.4] = np.nan
    columns = describe(X)
    np.testing.assert_allclose(columns.mean, np.nanmean(X, axis=0))
    np.testing.assert_allclose(columns.sd, np.nanstd(X, axis=0))
    np.testing.assert_array_equal(columns.holes, np.isnan(X).sum(axis=0))
