"""Bytes of pieces, on the local disk or, when the path is a URL such as s3://..., through fsspec."""

from __future__ import annotations

import glob as local_glob
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

_SAMPLES, _SAMPLE = 16, 4096  # places of a file that its checksum covers, and their size in bytes
_PART = 2**20  # bytes of a file that are in memory while all of it is read


class SourceError(ValueError):
    """Something is wrong with a source of rows; the message says what, where, and what to do. Names of files may hold
    anything: what cannot be printed is escaped."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Whatever goes wrong with a piece becomes one sentence that names it; file formats raise all kinds of errors."""
    try:
        yield
    except SourceError:
        raise
    except MemoryError as error:
        raise SourceError(f"{path} needs more memory than there is: {said(error)}.") from error
    except ImportError as error:
        how = f'pip install "unbounded[sources]", {error.name} is missing' if error.name else str(error)
        raise SourceError(f"{path} cannot be read yet: {how}.") from error
    except FileNotFoundError as error:
        raise SourceError(f"{path} does not exist or has disappeared; restore it.") from error
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
        raise SourceError(f"{path} cannot be read, it may be damaged or truncated: {said(error)}.") from error


def said(error: BaseException) -> str:
    """What an error says, as a part of a sentence of ours: its first line, without its full stop."""
    return printable((str(error).strip() or type(error).__name__).splitlines()[0].rstrip("."))


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def absolute(path: Any) -> str:
    """A path that means the same to workers in other folders; URLs do already."""
    path = os.fspath(path).removeprefix("file://")
    return str(path).rstrip("/") if not is_local(path) else os.path.abspath(path)


def is_local(path: str) -> bool:
    return "://" not in path


def _remote(path: str) -> tuple[Any, str]:
    import fsspec

    try:
        filesystem, name = fsspec.core.url_to_fs(path)
    except ValueError as error:
        raise SourceError(f"{path} cannot be reached: {error}.") from error
    return filesystem, name


def open_binary(path: str) -> IO[bytes]:
    if is_local(path):
        return open(path, "rb")
    filesystem, name = _remote(path)
    file: IO[bytes] = filesystem.open(name, "rb")
    return file


def read_all(path: str) -> bytes:
    with open_binary(path) as file:
        return file.read()


def size(path: str) -> int:
    if is_local(path):
        return os.path.getsize(path)
    filesystem, name = _remote(path)
    return int(filesystem.size(name))


def checksum(path: str, n_bytes: int) -> int:
    """CRC of evenly spaced places of a file, both ends among them: it tells files apart without reading them whole."""
    starts = np.unique(np.linspace(0, max(0, n_bytes - _SAMPLE), _SAMPLES).astype(np.int64)).tolist()
    if is_local(path):
        with open(path, "rb") as file:
            samples = [(file.seek(start), file.read(_SAMPLE))[1] for start in starts]
    else:
        filesystem, name = _remote(path)
        stops = [min(start + _SAMPLE, n_bytes) for start in starts]
        samples = filesystem.cat_ranges([name] * len(starts), starts, stops)
    return zlib.crc32(b"".join(samples))


def whole_checksum(path: str) -> int:
    """CRC of all of a file."""
    found = 0
    with open_binary(path) as file:
        while part := file.read(_PART):
            found = zlib.crc32(part, found)
    return found


def exists(path: str) -> bool:
    if is_local(path):
        return os.path.exists(path)
    filesystem, name = _remote(path)
    return bool(filesystem.exists(name))


def is_folder(path: str) -> bool:
    if is_local(path):
        return os.path.isdir(path)
    filesystem, name = _remote(path)
    return bool(filesystem.isdir(name))


def listing(folder: str) -> list[str]:
    """Paths in a folder, in natural order: piece-2 before piece-10."""
    if is_local(folder):
        return sorted((os.path.join(folder, name) for name in os.listdir(folder)), key=_natural)
    filesystem, name = _remote(folder)
    return sorted((filesystem.unstrip_protocol(inner) for inner in filesystem.ls(name, detail=False)), key=_natural)


def matching(pattern: str) -> list[str]:
    """Paths that match a glob, in the same order."""
    if is_local(pattern):
        return sorted(local_glob.glob(pattern, recursive=True), key=_natural)
    filesystem, name = _remote(pattern)
    return sorted((filesystem.unstrip_protocol(inner) for inner in filesystem.glob(name)), key=_natural)


def _natural(path: str) -> list[Any]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", path)]
