"""A source: pieces joined into one table of rows, of which only the requested part is in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from unbounded.arrays import MOST_COLUMNS, Array, block_rows
from unbounded.disk import LONGEST, parsed
from unbounded.sources import files
from unbounded.sources.files import SourceError, reading
from unbounded.sources.formats import FORMATS, Reader

MANIFEST = "pieces.json"
UNFINISHED = "unfinished.json"  # in a folder that `unbounded shard` has not finished


class Piece(NamedTuple):
    """A file (or a Zarr array) with some of the rows; size and checksum show whether it has changed."""

    path: str
    n_rows: int
    n_bytes: int
    checksum: int


class Source:
    """Rows in pieces. It pickles as a list of paths; a worker that gets it opens the pieces of its own rows.

    Code that slices an array (`X.shape`, `X[start:stop]`, `X[rows]`) takes a source unchanged. Pieces are checked when
    they are opened, and one at a time is held, until its last row is read.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> np.save("rows.npy", np.arange(12.0).reshape(6, 2))
    >>> source = ub.open_source("rows.npy")
    >>> source[1:3].tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    >>> source[[5, 0]].tolist()
    [[10.0, 11.0], [0.0, 1.0]]
    """

    def __init__(self, format: str, n_columns: int, dtype: str, pieces: Sequence[Piece]) -> None:
        self.format, self.pieces = format, tuple(pieces)
        self.dtype, self.sparse = np.dtype(dtype), FORMATS[format].sparse
        self._edges = np.cumsum([0, *(piece.n_rows for piece in self.pieces)])
        self.shape = (int(self._edges[-1]), n_columns)
        self._block = block_rows(n_columns, self.sparse)
        self._lock = Lock()
        self._open_piece: tuple[int, Reader | None] = (-1, None)

    def __reduce__(self) -> Any:
        return Source, (self.format, self.shape[1], str(self.dtype), self.pieces)

    @property
    def n_rows(self) -> int:
        """How many rows there are.

        Examples
        --------
        >>> source.n_rows
        6
        """
        return self.shape[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Source of {self.shape} {self.dtype} in {len(self.pieces)} {self.format} pieces>"

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise SourceError("a source is not an array in memory; take its rows, source[start:stop], or all, source[:].")

    # ---- rows

    def rows(self, start: int, stop: int) -> Array | sparse.csr_matrix:
        """Rows start .. stop, in C order or CSR, in memory that may be written to; a map of the file where possible.

        Examples
        --------
        >>> source.rows(0, 1).tolist()
        [[0.0, 1.0]]
        """
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        return self._joined(self._parts(start, stop), max(0, stop - start))

    def take(self, indices: ArrayLike) -> Array | sparse.csr_matrix:
        """The rows with these numbers, in ascending order, gathered window by window.

        Examples
        --------
        >>> source.take([0, 2]).tolist()
        [[0.0, 1.0], [4.0, 5.0]]
        """
        chosen = np.asarray(indices, np.int64)
        if len(chosen) and (chosen[0] < 0 or chosen[-1] >= self.n_rows or (np.diff(chosen) < 0).any()):
            raise SourceError(f"row numbers must ascend within 0 .. {self.n_rows - 1}.")
        return self._joined(self._gathered(chosen), len(chosen))

    def blocks(
        self, start: int = 0, stop: int | None = None, size: int | None = None
    ) -> Iterator[tuple[int, Array | sparse.csr_matrix]]:
        """(first, rows) of the whole source or a part of it, once, a block at a time.

        Examples
        --------
        >>> [(first, len(rows)) for first, rows in source.blocks()]
        [(0, 6)]
        """
        stop, size = self.n_rows if stop is None else stop, size or self._block
        for first in range(start, stop, size):
            yield first, self.rows(first, min(first + size, stop))

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            start, stop, step = which.indices(self.n_rows)
            return self.rows(start, stop) if step == 1 else self[np.arange(start, stop, step)]
        if isinstance(which, tuple):
            raise SourceError("a source gives whole rows; take columns of those: source[start:stop][:, columns].")
        if isinstance(which, int | np.integer):
            return self[np.array([which])][0]
        indices = np.asarray(which)
        if indices.dtype == bool:
            if indices.shape != (self.n_rows,):
                raise SourceError(f"a mask of rows must have shape ({self.n_rows},), got {indices.shape}.")
            indices = np.flatnonzero(indices)
        if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
            raise SourceError(f"rows are chosen by a list of integers, got {indices.dtype} of shape {indices.shape}.")
        indices = np.where(indices < 0, indices + self.n_rows, indices).astype(np.int64)
        order = np.argsort(indices, kind="stable")
        if (np.diff(order) == 1).all():
            return self.take(indices)
        return self.take(indices[order])[np.argsort(order)]  # mutant: rows in order

    def _parts(self, start: int, stop: int) -> Iterator[Any]:
        first = int(np.searchsorted(self._edges, start, "right")) - 1
        for p in range(first, len(self.pieces)):
            low, high = int(self._edges[p]), int(self._edges[p + 1])
            if low >= stop:
                return
            if max(start, low) < min(stop, high):
                yield self._read(p, max(start, low) - low, min(stop, high) - low)

    def _gathered(self, indices: Array) -> Iterator[Any]:
        at = 0
        while at < len(indices):
            first = int(indices[at])
            p = int(np.searchsorted(self._edges, first, "right")) - 1
            end = int(np.searchsorted(indices, min(first + self._block, self._edges[p + 1])))
            low = int(self._edges[p])
            yield self._read(p, first - low, int(indices[end - 1]) + 1 - low)[indices[at:end] - first]
            at = end

    def _joined(self, parts: Iterable[Any], n_rows: int) -> Any:
        if self.sparse:
            some = list(parts) or [sparse.csr_matrix((0, self.shape[1]), dtype=self.dtype)]
            return some[0] if len(some) == 1 else sparse.vstack(some, format="csr")
        out, at = np.empty((n_rows, self.shape[1]), self.dtype), 0
        for part in parts:
            if len(part) == n_rows:
                return part
            out[at : at + len(part)] = part
            at += len(part)
        return out

    # ---- pieces

    def _read(self, p: int, start: int, stop: int) -> Any:
        piece = self.pieces[p]
        with self._lock, reading(piece.path):
            number, reader = self._open_piece
            if number != p or reader is None:
                self._open_piece = (-1, None)
                reader = self._opened(piece)
            self._open_piece = (p, reader) if stop < piece.n_rows else (-1, None)
            return reader.rows(start, stop)

    def _opened(self, piece: Piece) -> Reader:
        reader = FORMATS[self.format](piece.path)
        _check_like(reader, self.shape[1], self.dtype)
        if reader.n_bytes != piece.n_bytes:
            raise SourceError(
                f"{piece.path} was truncated or changed: it has {reader.n_bytes} bytes, it had {piece.n_bytes}."
            )
        # mutant: piece changed
        if reader.checksum != piece.checksum:
            raise SourceError(f"{piece.path} was changed: its content is not what it was; restore it.")
        if reader.n_rows != piece.n_rows:
            raise SourceError(
                f"{piece.path} has {reader.n_rows} rows, and {piece.n_rows} by {MANIFEST}; write the pieces again, or "
                f"delete {MANIFEST}."
            )
        return reader

    def fingerprint(self) -> str:
        """A short digest that identifies the data without reading all of them: sizes, types and checksums of pieces,
        which cover some places of each file. No paths and no dates: a copy of the files is the same data.

        Examples
        --------
        >>> source.fingerprint() == ub.open_source("rows.npy").fingerprint()
        True
        """
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.shape, str(self.dtype), self.format)).encode())
        for piece in self.pieces:
            digest.update(repr(tuple(piece[1:])).encode())  # mutant: pieces digest
        return digest.hexdigest()

    def checksums(self) -> list[str]:
        """A checksum of all of each piece: run directories keep them, so that a piece that has changed can be named.

        Examples
        --------
        >>> len(source.checksums())
        1
        """
        found = []
        for piece in self.pieces:
            with reading(piece.path):
                found.append(f"{self._opened(piece).whole_checksum():08x}")  # mutant: whole pieces
        return found

    def manifest(self) -> str:
        """What `pieces.json` says: enough to open the folder without looking at its pieces.

        Examples
        --------
        >>> "rows.npy" in source.manifest()
        True
        """
        pieces = [
            {"name": Path(piece.path).name, "rows": piece.n_rows, "bytes": piece.n_bytes, "crc": piece.checksum}
            for piece in self.pieces
        ]
        about = {"format": self.format, "rows": self.n_rows, "columns": self.shape[1], "dtype": str(self.dtype)}
        return json.dumps(about | {"pieces": pieces}, indent=1) + "\n"


def open(where: str | Path | Sequence[str | Path]) -> Source:
    """A source from a file (.npy, CSR .npz, .parquet, .csv, .zarr), a folder of such pieces, a glob or a list of paths.

    Paths are local or URLs that fsspec knows. Pieces of a folder or a glob are in natural order (2 before 10).

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> np.save("rows.npy", np.arange(12.0).reshape(6, 2))
    >>> ub.open_source("rows.npy").shape
    (6, 2)
    """
    listed = where if isinstance(where, list | tuple) else [where]
    if not all(isinstance(path, str | Path) for path in listed):
        raise SourceError(f"a source is opened from a path, a glob or a list of paths, got {where!r}.")
    if isinstance(where, list | tuple):
        paths = [files.absolute(path) for path in where]
        if not paths:
            raise SourceError("a source needs at least one piece, the list is empty.")
        return scan(paths)
    path = files.absolute(where)
    with reading(path):
        if files.is_folder(path) and not _is_zarr(path):
            return _open_folder(path)
        if not files.exists(path) and set(path) & set("*?["):
            paths = files.matching(path)
            if not paths:
                raise SourceError(f"no file matches {path}.")
            return scan(paths)
    return scan([path])


def scan(paths: Sequence[str]) -> Source:
    """A source from the headers of its pieces, which must be alike."""
    formats = {_format_of(path): path for path in paths}
    if len(formats) > 1:
        raise SourceError(f"pieces have different formats, such as {' and '.join(formats.values())}; use one.")
    (format,) = formats
    pieces, first = [], None
    for path in paths:
        with reading(path):
            reader = FORMATS[format](path)
            first = first or reader
            _check_like(reader, first.n_columns, first.dtype)
            pieces.append(Piece(path, reader.n_rows, reader.n_bytes, reader.checksum))
    assert first is not None
    source = Source(format, first.n_columns, str(first.dtype), pieces)
    if 0 in source.shape:
        raise SourceError(f"{paths[0]}{' and the other pieces' if len(paths) > 1 else ''}: no rows or no columns.")
    return source


def _open_folder(folder: str) -> Source:
    inside = {path.rsplit("/", 1)[-1]: path for path in (path.replace("\\", "/") for path in files.listing(folder))}
    if MANIFEST in inside:
        return _from_manifest(folder, inside[MANIFEST])
    if UNFINISHED in inside:
        raise SourceError(f"{folder} is not finished; run the same `unbounded shard` again, it goes on from there.")
    pieces = [path for name, path in inside.items() if name[0] not in "._" and _suffix(name) in FORMATS]
    if not pieces:
        raise SourceError(f"{folder} holds no pieces; they end in {', '.join('.' + name for name in FORMATS)}.")
    return scan(pieces)


def _from_manifest(folder: str, path: str) -> Source:
    """The source that a manifest describes; its pieces are not opened before they are needed."""
    try:
        if files.size(path) > LONGEST:
            raise ValueError("it is too long")
        about = parsed(files.read_all(path))
        pieces = [_piece_of(folder, each) for each in about["pieces"]]
        source = Source(about["format"], _size(about["columns"]), str(np.dtype(about["dtype"])), pieces)
        known = source.format in FORMATS and source.dtype in (np.float32, np.float64)
        if not known or not 1 <= source.shape[1] <= MOST_COLUMNS or source.n_rows != _size(about["rows"]):
            raise ValueError("its pieces do not add up")
        if len({piece.path for piece in pieces}) < len(pieces):
            raise ValueError("it has a piece twice")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise SourceError(f"{path} is damaged; delete it to open the pieces without it.") from error
    for piece in pieces:
        if piece.n_rows == 0:  # it would never be opened
            with reading(piece.path):
                source._opened(piece)
    return source


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is not a size")
    return value


def _piece_of(folder: str, each: Any) -> Piece:
    """A piece as a manifest describes it: a file in its folder, and nowhere else."""
    name, sizes = each["name"], [_size(each[key]) for key in ("rows", "bytes", "crc")]
    plain = isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\\0")  # mutant: plain name
    if not plain or not name.isprintable():
        raise ValueError("a piece is not a file of the folder")
    return Piece(f"{folder}/{name}", *sizes)


def _check_like(reader: Reader, n_columns: int, dtype: np.dtype[Any]) -> None:
    if reader.n_columns != n_columns:
        raise SourceError(f"{reader.path} has {reader.n_columns} columns, the other pieces have {n_columns}.")
    if reader.dtype != dtype:
        raise SourceError(f"{reader.path} holds {reader.dtype} values, the other pieces {dtype}; convert one of them.")


def _suffix(path: str) -> str:
    return path.rsplit("/", 1)[-1].rpartition(".")[2].lower()


def _is_zarr(path: str) -> bool:
    return _suffix(path) == "zarr" or any(files.exists(f"{path}/{mark}") for mark in ("zarr.json", ".zarray"))


def _format_of(path: str) -> str:
    suffix = _suffix(path)
    if suffix in FORMATS:
        return suffix
    with reading(path):
        if _is_zarr(path):
            return "zarr"
        if not files.exists(path):
            raise SourceError(f"{path} does not exist.")
    raise SourceError(f"{path} has an unknown ending; use one of {', '.join('.' + name for name in FORMATS)}.")
