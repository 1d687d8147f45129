"""`unbounded shard`: any data in, equal pieces out, and nothing half written."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
from kinds import DENSE, KINDS, manifest, memory, one_npy, one_npz
from scipy import sparse
from typer.testing import CliRunner

import unbounded as ub
from unbounded import disk, sources
from unbounded.arrays import is_csr
from unbounded.cli.commands import app
from unbounded.sources import writing


def run(*words):
    return CliRunner().invoke(app, ["shard", *(str(word) for word in words)])


def error(*words, code=2):
    result = run(*words)
    assert result.exit_code == code, result.output
    (line,) = result.stderr.strip().splitlines()
    return line


@pytest.mark.parametrize("make", [make for make in KINDS if "list" not in make.__name__])
def test_round_trip(make, tmp_path):
    (tmp_path / "data").mkdir()
    where, X = make(tmp_path / "data")
    result = run(where, "--shards", 3, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert f"{X.shape[0]} rows of {X.shape[1]} columns" in " ".join(result.stdout.split())
    source = ub.open_source(tmp_path / "out")
    ending = "npz" if is_csr(X) else "npy"
    assert sorted(os.listdir(tmp_path / "out")) == [*(f"piece-0000{p}.{ending}" for p in range(3)), "pieces.json"]
    assert source.dtype == X.dtype
    rows = source[:]
    np.testing.assert_array_equal(rows.toarray() if is_csr(X) else rows, X.toarray() if is_csr(X) else X)


def test_pieces_are_the_shards_of_a_fit(tmp_path):
    from unbounded.rows import boundaries

    source = ub.open_source(manifest(tmp_path)[0])
    np.testing.assert_array_equal(source._edges, boundaries(1000, 6))


def test_the_manifest_says_what_a_scan_would_find(tmp_path):
    where, _ = manifest(tmp_path)
    trusted = ub.open_source(where)
    about = json.loads((where / "pieces.json").read_text())
    assert (about["rows"], about["columns"], about["dtype"], about["format"]) == (1000, 7, "float64", "npy")
    assert set(about["pieces"][0]) == {"name", "rows", "bytes", "crc"}
    (where / "pieces.json").unlink()
    scanned = ub.open_source(where)
    assert trusted.pieces == scanned.pieces
    assert trusted.fingerprint() == scanned.fingerprint()


def test_a_manifest_is_trusted(tmp_path):
    """Opening looks at no piece."""
    where, _ = manifest(tmp_path)
    for path in where.glob("*.npy"):
        path.unlink()
    assert ub.open_source(where).shape == (1000, 7)


def test_single_precision(tmp_path):
    where, X = one_npy(tmp_path)
    assert run(where, "--shards", 2, "--out", tmp_path / "out", "--float32").exit_code == 0
    np.testing.assert_array_equal(ub.open_source(tmp_path / "out")[:], X.astype(np.float32))
    np.save(where, np.full((4, 2), 1e60))
    assert "too large for single precision" in error(where, "--shards", 2, "--out", tmp_path / "other", "--float32")


def test_sparse_to_dense_and_back(tmp_path):
    where, X = one_npz(tmp_path)
    assert run(where, "--shards", 4, "--out", tmp_path / "dense", "--format", "npy").exit_code == 0
    np.testing.assert_array_equal(ub.open_source(tmp_path / "dense")[:], X.toarray())
    assert run(tmp_path / "dense", "--shards", 5, "--out", tmp_path / "back", "--format", "npz").exit_code == 0
    back = ub.open_source(tmp_path / "back")
    assert back.sparse
    np.testing.assert_array_equal(back[:].toarray(), X.toarray())


def test_sparse_pieces_are_balanced_by_stored_values(tmp_path):
    lengths = np.r_[np.full(50, 100), np.full(950, 2)]
    indptr = np.r_[0, np.cumsum(lengths)]
    X = sparse.csr_matrix((np.ones(indptr[-1]), np.concatenate([np.arange(k) for k in lengths]), indptr), (1000, 100))
    sparse.save_npz(tmp_path / "x.npz", X)
    source = sources.shard(ub.open_source(tmp_path / "x.npz"), tmp_path / "out", 5)
    work = [source[a:b].nnz + b - a for a, b in zip(source._edges[:-1], source._edges[1:], strict=True)]
    assert max(work) - min(work) <= 200  # two of the longest rows


@pytest.mark.parametrize("lengths", [[100, 0, 0, 0], [0, 0, 0, 100], [0, 0, 0, 0], [0, 100, 0, 0]])
def test_every_sparse_piece_has_a_row(tmp_path, lengths):
    indptr = np.r_[0, np.cumsum(lengths)]
    X = sparse.csr_matrix((np.ones(indptr[-1]), np.concatenate([np.arange(k) for k in lengths]), indptr), (4, 100))
    sparse.save_npz(tmp_path / "x.npz", X)
    for pieces in (1, 2, 3, 4):
        source = sources.shard(ub.open_source(tmp_path / "x.npz"), tmp_path / str(pieces), pieces)
        assert min(piece.n_rows for piece in source.pieces) >= 1
        np.testing.assert_array_equal(source[:].toarray(), X.toarray())


# ---- refusals


def test_refusals(tmp_path):
    where, _ = one_npy(tmp_path)
    assert "is not empty" in error(where, "--shards", 2, "--out", tmp_path)
    assert "between 1 and the 1000 rows, got 1001" in error(where, "--shards", 1001, "--out", tmp_path / "o")
    assert "got 0" in error(where, "--shards", 0, "--out", tmp_path / "o")
    assert "npy or npz" in error(where, "--out", tmp_path / "o", "--format", "csv")
    assert "does not exist" in error(tmp_path / "no.npy", "--out", tmp_path / "o")
    assert "could not make the folder" in error(where, "--out", where)
    assert not (tmp_path / "o").exists()


def test_a_finished_folder_is_not_written_to_again(tmp_path):
    where, _ = one_npy(tmp_path)
    assert run(where, "--shards", 2, "--out", tmp_path / "out").exit_code == 0
    assert "is not empty" in error(where, "--shards", 2, "--out", tmp_path / "out")


# ---- interruptions


def stopping(monkeypatch, exception, after=3):
    """Let the writing of a piece end in an exception after some blocks were written."""
    write, n = writing._write_npy, [0]

    def broken(file, **own):
        n[0] += 1
        if n[0] > after:
            file.write(b"half of a piece")
            raise exception
        write(file, **own)

    monkeypatch.setattr(writing, "_write_npy", broken)


def test_interrupted_and_run_again(tmp_path, monkeypatch):
    where, X = one_npy(tmp_path)
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stopping(patch, KeyboardInterrupt())
        line = error(where, "--shards", 6, "--out", out, code=130)
    assert "3 of 6 pieces" in line
    assert "goes on from there" in line
    assert sorted(os.listdir(out)) == [*(f"piece-0000{p}.npy" for p in range(3)), "unfinished.json"]
    with pytest.raises(ub.SourceError, match="not finished"):
        ub.open_source(out)
    assert "other data or settings" in error(where, "--shards", 7, "--out", out)
    (out / ".piece-00003.npy.1-1.tmp").write_bytes(b"left behind by kill -9")
    dates = [(out / f"piece-0000{p}.npy").stat().st_mtime_ns for p in range(3)]
    assert run(where, "--shards", 6, "--out", out).exit_code == 0
    assert dates == [(out / f"piece-0000{p}.npy").stat().st_mtime_ns for p in range(3)]
    assert sorted(os.listdir(out)) == [*(f"piece-0000{p}.npy" for p in range(6)), "pieces.json"]
    np.testing.assert_array_equal(ub.open_source(out)[:], X)


def test_the_disk_is_full(tmp_path, monkeypatch):
    where, X = one_npy(tmp_path)
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stopping(patch, OSError(errno.ENOSPC, "No space left on device"))
        line = error(where, "--shards", 6, "--out", out)
    assert "piece-00003.npy: No space left on device; make room" in line
    assert not list(out.glob(".*"))
    assert run(where, "--shards", 6, "--out", out).exit_code == 0
    np.testing.assert_array_equal(ub.open_source(out)[:], X)


def test_the_disk_really_is_full(tmp_path, monkeypatch):
    """/dev/full answers every write as a full disk does."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    where, _ = one_npy(tmp_path)
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(writing, "_prepare", lambda *_: None)
    monkeypatch.setattr(disk, "temporary", lambda path: path.with_suffix(".tmp"))
    (tmp_path / "out" / "piece-00000.tmp").symlink_to("/dev/full")
    assert "No space left on device" in error(where, "--shards", 1, "--out", tmp_path / "out")


def test_data_that_break_under_way(tmp_path):
    """A bad piece of the data is named; mended, the same command goes on."""
    for p in range(4):
        np.save(tmp_path / f"{p}.npy", DENSE[p * 250 : (p + 1) * 250])
    pattern = f"{tmp_path}/*.npy"
    source = ub.open_source(pattern)
    (tmp_path / "2.npy").unlink()
    with pytest.raises(ub.SourceError, match=r"2\.npy does not exist or has disappeared"):
        sources.shard(source, tmp_path / "out", 8)
    np.save(tmp_path / "2.npy", DENSE[500:750])
    np.testing.assert_array_equal(sources.shard(ub.open_source(pattern), tmp_path / "out", 8)[:], DENSE)


@pytest.mark.parametrize("make", [manifest, memory])
def test_the_command_line_opens_pieces(tmp_path, make):
    from unbounded.datasets import load

    where, X = make(tmp_path)
    np.testing.assert_array_equal(load(where)[:], X)


def test_held_out_rows_of_pieces_are_refused(tmp_path):
    """They would be all rows, in memory."""
    where, _ = manifest(tmp_path)
    words = ["fit", "dp", str(where), "--out", str(tmp_path / "run"), "--holdout", "0.1"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "--holdout would read all pieces into memory" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_picture_of_pieces(tmp_path):
    from unbounded.models.mixtures.plots import clusters

    where, X = manifest(tmp_path)
    clusters(ub.open_source(where), np.arange(len(X)) % 3, max_rows=100)
