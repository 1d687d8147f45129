"""The same rows in every kind of source, for the tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse

import unbounded as ub
from unbounded import sources

rng = np.random.default_rng(5)
DENSE = rng.normal(size=(1000, 7)).astype(np.float32).astype(np.float64) * rng.gamma(1.0, 9.0, 7)
DENSE[rng.random(DENSE.shape) < 0.05] = np.nan
SPARSE = sparse.random(900, 40, 0.1, "csr", rng=rng)
SPARSE.data = rng.poisson(3.0, SPARSE.nnz) + 0.25 * (rng.random(SPARSE.nnz) < 0.3)
CUTS = [0, 130, 130, 131, 640]  # one piece is empty, one has a single row


def cut(X):
    return [X[a:b] for a, b in zip(CUTS, [*CUTS[1:], X.shape[0]], strict=True)]


def one_npy(folder):
    np.save(folder / "x.npy", DENSE)
    return folder / "x.npy", DENSE


def single_npy(folder):
    np.save(folder / "x.npy", DENSE.astype(np.float32))
    return str(folder / "x.npy"), DENSE.astype(np.float32)


def whole_numbers(folder):
    np.save(folder / "x.npy", np.arange(60, dtype=np.int16).reshape(20, 3))
    return folder / "x.npy", np.arange(60.0).reshape(20, 3)


def column_major(folder):
    np.save(folder / "x.npy", np.asfortranarray(DENSE))
    return folder / "x.npy", DENSE


def foreign_bytes(folder):
    np.save(folder / "x.npy", DENSE.astype(">f8"))
    return folder / "x.npy", DENSE


def npy_folder(folder):
    for p, part in enumerate(cut(DENSE), 8):  # piece 9 comes before piece 10
        np.save(folder / f"x{p}.npy", part)
    (folder / "README.md").write_text("not a piece")
    return folder, DENSE


def npy_glob(folder):
    npy_folder(folder)
    return f"{folder}/x*.npy", DENSE


def npy_list(folder):
    for name, part in zip("edcba", cut(DENSE), strict=True):
        np.save(folder / f"{name}.npy", part)
    return [folder / f"{name}.npy" for name in "edcba"], DENSE


def npz_folder(folder):
    for p, part in enumerate(cut(SPARSE)):
        sparse.save_npz(folder / f"x{p}.npz", part)
    return folder, SPARSE


def one_npz(folder):
    sparse.save_npz(folder / "x.npz", SPARSE)
    return folder / "x.npz", SPARSE


def _parquet(path, X, **options):
    pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).to_parquet(path, **options)


def one_parquet(folder):
    _parquet(folder / "x.parquet", DENSE, row_group_size=170)
    return folder / "x.parquet", DENSE


def parquet_folder(folder):
    for p, part in enumerate(cut(DENSE.astype(np.float32))):
        _parquet(folder / f"x{p}.parquet", part, row_group_size=50)
    (folder / "_SUCCESS").touch()
    return folder, DENSE.astype(np.float32)


def indexed_parquet(folder):
    """A pandas index is not a column; whole numbers with holes and truth values are numbers."""
    frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [True, False, True]}, index=[5, 6, 9])
    frame.to_parquet(folder / "x.parquet")
    return folder / "x.parquet", np.array([[1.0, 1.0], [np.nan, 0.0], [3.0, 1.0]])


def zarr2(folder):
    return _zarr(folder / "x.zarr", 2), DENSE


def zarr3(folder):
    return _zarr(folder / "plain", 3), DENSE


def _zarr(path, version):
    import zarr

    array = zarr.create_array(path, shape=DENSE.shape, chunks=(150, 4), dtype="f8", zarr_format=version)
    array[:] = DENSE
    return path


def csv(folder):
    pd.DataFrame(DENSE).to_csv(folder / "x.csv", index=False, header=False)
    return folder / "x.csv", DENSE


def named_csv(folder):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 2.5]})
    frame.to_csv(folder / "x.csv", index=False)
    return folder / "x.csv", frame.to_numpy()


def manifest(folder):
    np.save(folder / "x.npy", DENSE)
    sources.shard(ub.open_source(folder / "x.npy"), folder / "pieces", 6)
    return folder / "pieces", DENSE


def sparse_manifest(folder):
    sparse.save_npz(folder / "x.npz", SPARSE)
    sources.shard(ub.open_source(folder / "x.npz"), folder / "pieces", 6)
    return folder / "pieces", SPARSE


def memory(folder):
    import fsspec

    files = fsspec.filesystem("memory")
    for p, part in enumerate(cut(DENSE)):
        with files.open(f"/{folder.name}/x{p}.npy", "wb") as file:
            np.save(file, part)
    return f"memory://{folder.name}", DENSE


def memory_of(make):
    """Another kind, copied to fsspec's memory."""

    def copied(folder):
        import fsspec

        where, X = make(folder)
        root = f"/{folder.name}-{make.__name__}"
        fsspec.filesystem("memory").put(str(where), f"{root}/{where.name}", recursive=where.is_dir())
        return f"memory:/{root}/{where.name}", X

    copied.__name__ = f"memory_{make.__name__}"
    return copied


KINDS = [
    one_npy, single_npy, whole_numbers, column_major, foreign_bytes, npy_folder, npy_glob, npy_list, npz_folder,
    one_npz, one_parquet, parquet_folder, indexed_parquet, zarr2, zarr3, csv, named_csv, manifest, sparse_manifest,
    memory, *(memory_of(make) for make in (one_npz, one_parquet, zarr3, csv, manifest)),
]  # fmt: skip
