"""Files that are whole or not there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Written to a temporary name, flushed to disk and renamed: the file is the old one or the new one, never half."""
    temporary = _temporary(path)  # mutant: temporary
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary(path: Path) -> Path:
    """No other process or thread of this machine writes there."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")


def tidy(folder: Path) -> None:
    """Remove what writers that were killed have left behind; nobody else must be writing there."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)
