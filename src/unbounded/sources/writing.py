"""Cutting a source into pieces: block by block, each piece whole or not there, the manifest last.

An unfinished folder holds `unfinished.json`, which says what is being written: the same command resumes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from unbounded.arrays import Array, block_rows
from unbounded.disk import tidy, write_whole
from unbounded.sources.files import SourceError
from unbounded.sources.source import MANIFEST, UNFINISHED, Source, scan

WRITABLE = ("npy", "npz")


def shard(
    source: Source, out: str | Path, n_shards: int = 64, format: str | None = None, float32: bool = False
) -> Source:
    """Write the rows as pieces into a new folder and open it.

    Pieces of .npy have equally many rows and are streamed; those of .npz about equally many stored values, one of them
    in memory at a time.

    Parameters
    ----------
    source : Source
        The rows.
    out : path
        The folder, which is new or empty.
    n_shards : int, default 64
        How many pieces.
    format : {"npy", "npz"} or None, default None
        None: npz for sparse rows, else npy.
    float32 : bool, default False
        Whether values are written in single precision.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> from unbounded.sources import shard
    >>> np.save("rows.npy", np.arange(12.0).reshape(6, 2))
    >>> shard(ub.open_source("rows.npy"), "pieces", 3)
    <Source of (6, 2) float64 in 3 npy pieces>
    """
    format = format or ("npz" if source.sparse else "npy")
    if format not in WRITABLE:
        raise SourceError(f"pieces are written as {' or '.join(WRITABLE)}, not as {format!r}.")
    if not 1 <= n_shards <= source.n_rows:
        raise SourceError(f"the number of pieces must be between 1 and the {source.n_rows} rows, got {n_shards}.")
    dtype = np.dtype(np.float32) if float32 else source.dtype
    folder = Path(out).absolute()
    plan = {"data": source.fingerprint(), "pieces": n_shards, "format": format, "dtype": str(dtype)}
    _prepare(folder, json.dumps(plan, indent=1) + "\n")
    edges = np.arange(n_shards + 1) * source.n_rows // n_shards if format == "npy" else _balanced(source, n_shards)
    write = _write_npy if format == "npy" else _write_npz
    paths = [folder / f"piece-{p:05d}.{format}" for p in range(n_shards)]
    for p, path in enumerate(paths):
        if not path.exists():
            write_piece = partial(write, source=source, start=int(edges[p]), stop=int(edges[p + 1]), dtype=dtype)
            try:
                _atomically(path, write_piece)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"{p} of {n_shards} pieces are in {folder}; the same command goes on from there."
                ) from None
    pieces = scan([str(path) for path in paths])
    _atomically(folder / MANIFEST, lambda file: file.write(pieces.manifest().encode()))
    (folder / UNFINISHED).unlink()
    return pieces


def _prepare(folder: Path, plan: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"could not make the folder {folder}: {error.strerror or error}.") from error
    mark = folder / UNFINISHED
    if mark.exists() and not (folder / MANIFEST).exists():
        if mark.read_text() != plan:
            raise SourceError(
                f"{folder} holds unfinished pieces of other data or settings; delete it or choose another."
            )
        tidy(folder)
    elif any(folder.iterdir()):
        raise SourceError(f"{folder} is not empty; choose another folder.")
    else:
        _atomically(mark, lambda file: file.write(plan.encode()))


def _balanced(source: Source, n_pieces: int) -> Array:
    """Edges between rows with about equally many stored values on each side; a row itself counts for one."""
    stored = [
        np.count_nonzero(rows, axis=1) if isinstance(rows, np.ndarray) else np.diff(rows.indptr)
        for _, rows in source.blocks()
    ]
    weight = np.cumsum(np.concatenate(stored) + 1)  # mutant: stored values
    number = np.arange(n_pieces + 1)
    edges = np.searchsorted(weight, number * weight[-1] / n_pieces, "right")
    edges = np.maximum.accumulate(edges - number) + number  # at least one row in each ...
    return np.minimum(edges, source.n_rows - n_pieces + number)  # ... also in the last ones


def _write_npy(file: IO[bytes], source: Source, start: int, stop: int, dtype: np.dtype[Any]) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": (stop - start, source.shape[1])}
    np.lib.format.write_array_header_1_0(file, header)
    for _, rows in source.blocks(start, stop, block_rows(source.shape[1])):
        file.write(
            np.ascontiguousarray(_narrowed(rows if isinstance(rows, np.ndarray) else rows.toarray(), dtype)).data
        )


def _write_npz(file: IO[bytes], source: Source, start: int, stop: int, dtype: np.dtype[Any]) -> None:
    parts = [sparse.csr_matrix(_narrowed(rows, dtype)) for _, rows in source.blocks(start, stop)]
    sparse.save_npz(file, sparse.vstack(parts, format="csr"))


def _narrowed(rows: Any, dtype: np.dtype[Any]) -> Any:
    try:
        with np.errstate(over="raise"):
            return rows.astype(dtype, copy=False)
    except FloatingPointError:
        raise SourceError("some values are too large for single precision; leave out --float32.") from None


def _atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file that is whole or not there."""
    try:
        write_whole(path, write)
    except OSError as error:
        raise SourceError(
            f"could not write {path}: {error.strerror or error}; make room or fix the permissions, then run it again."
        ) from error
