"""Files that are whole or not there, limits for files of others, and large arrays in files without a name."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CHECKSUM = "sha256"  # an entry of JSON
LONGEST = 2**26  # bytes of JSON; a manifest of a million pieces
UNPACKED, TIMES = 2**26, 200  # bytes, and times the size of the archive: more of both is refused as malicious
TIMES_OF_TABLES = 1000  # of formats that know columns, which may be nearly constant
_TEMPORARY = re.compile(r"\..+\.\d+-\d+\.tmp")  # what `temporary` makes
LARGE = 2**16  # bytes; an array of this size or more that is kept for later does not stay in memory


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Written to a temporary name, flushed to disk and renamed: the file is the old one or the new one, never half."""
    beside = temporary(path)  # mutant: temporary
    try:
        with open(beside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def temporary(path: Path) -> Path:
    """A name that no other process or thread of this machine writes to."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")


def tidy(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder; nobody else must be writing there.

    Files of others stay: what is in folders inside, and what has a name that we would not give.
    """
    for path in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name) and path.is_file():  # mutant: names of ours
            path.unlink(missing_ok=True)


# ---- files that others may have written


def parsed(content: bytes | str) -> Any:
    """The content of JSON; a ValueError where it is no JSON, or longer or deeper than any that this library writes."""
    if len(content) > LONGEST:
        raise ValueError("it is too long")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is not JSON") from None


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """What will be written as JSON, and a digest of it, for whoever edits the file."""
    return {**content, CHECKSUM: _checksum(content)}


def is_as_written(content: Mapping[str, Any]) -> bool:
    """Whether nobody has edited it; what has no digest is from an older version."""
    return bool(content.get(CHECKSUM, _checksum(content)) == _checksum(content))


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def check_unpacked(archive: zipfile.ZipFile) -> None:
    """Before anything is unpacked: a ValueError where a small archive promises a huge content."""
    entries = archive.infolist()
    check_promise(sum(entry.compress_size for entry in entries), sum(entry.file_size for entry in entries), TIMES)


def check_promise(packed: int, unpacked: int, times: int = TIMES_OF_TABLES) -> None:
    """A ValueError where a few bytes promise to become very many."""
    if unpacked > max(UNPACKED, times * packed):  # mutant: unpacked
        raise ValueError(f"{packed:,} bytes would unpack to {unpacked:,}")


# ---- arrays that need not be in memory


class _Nameless(mmap.mmap):
    """The memory of a file that no other process can open."""


def allocate(shape: tuple[int, ...], dtype: Any) -> Array:
    """An empty array. A large one lies in a file without a name, in the system's folder for temporary files.

    The system writes it out and reads it again as it sees fit, and frees it with the array, however the process ends.
    Where that folder has no room, the array is in memory, as any other.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size >= LARGE:
        try:
            with tempfile.TemporaryFile() as file:
                os.posix_fallocate(file.fileno(), 0, size)  # else a full disk would crash the process later
                return np.frombuffer(_Nameless(file.fileno(), size), dtype).reshape(shape)
        except (OSError, AttributeError):
            pass
    return np.empty(shape, dtype)


def spill_to_disk(array: Array) -> Array:
    """The same array, a large one in such a file."""
    if array.nbytes < LARGE or _is_spilled(array):
        return array
    spilled = allocate(array.shape, array.dtype)
    spilled[...] = array
    return spilled


def _is_spilled(array: Array) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, _Nameless)
