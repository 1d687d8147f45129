"""Compiled functions on disk, each in a file whose name says what it contains.

Numba's own cache looks at the file of a function alone, and keeps one index for all its signatures. But a kernel
contains code of likelihoods and of other files, and most changes of a file change no compiled code. Here the name of a
file is a digest of everything that was compiled into it (`contents`): what changed gets another name, so old code never
runs, and nothing else is ever compiled again. There is no index that could be stale. Processes that need the same
function at the same time take turns: one compiles, the others find what it left.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from unbounded.compiled import pipeline
from unbounded.compiled.contents import code_of, contents

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SETTINGS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE")  # of the environment, which change code
_KEEP_DAYS = 30  # files that nobody has used for so long are deleted


class Cache:
    """The cache of one compiled function, as Numba's dispatchers use it: results by signature."""

    def __init__(self, compiled: Dispatcher) -> None:
        self._compiled, self._function = compiled, compiled.py_func

    @cached_property
    def _folder(self) -> Path | None:
        """One folder for all copies of the package in the cache that the user named; else where Numba would put it;
        where neither the package nor the home can be written, a folder of the user's."""
        try:
            if numba.config.CACHE_DIR:
                return _shared_folder(Path(numba.config.CACHE_DIR))
            return Path(CompileResultCacheImpl(self._function).locator.get_cache_path())
        except (RuntimeError, OSError):  # OSError: NUMBA_CACHE_DIR names a folder that cannot be made
            return _temporary_folder()

    @property
    def cache_path(self) -> str | None:
        return None if self._folder is None else str(self._folder)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other process compiles the function; where files cannot be locked, do not wait."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                if self._folder is not None and fcntl is not None:
                    file = held.enter_context((self._folder / f"{self._stem}.lock").open("a"))
                    fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The result of an earlier compilation, or None; a file that cannot be read is as good as none."""
        context.refresh()
        path = self._path(signature, context.codegen())
        try:
            result = CompileResult._rebuild(context, *pickle.loads(path.read_bytes())) if path else None
        except (OSError, EOFError, ValueError, TypeError, AttributeError, ImportError, pickle.UnpicklingError):
            return None
        with contextlib.suppress(OSError):
            os.utime(path or "")  # so that it is kept
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a result; where the disk refuses, the fit goes on without."""
        path = self._path(signature, result.codegen)
        if path is None or result.library.has_dynamic_globals:
            return
        part = path.with_suffix(f".{uuid.uuid4().hex[:16]}")
        with contextlib.suppress(OSError):
            part.write_bytes(dumps(result._reduce()))
            part.replace(path)
            self._forget_unused(path.parent)

    def flush(self) -> None:
        """Numba calls this for files that are out of date; there are none."""

    @property
    def _stem(self) -> str:
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        return "".join(c if c.isalnum() or c in "._" else "-" for c in name)

    def _path(self, signature: Any, codegen: Any) -> Path | None:
        if self._folder is None:
            return None
        how = _compiler(type(self._compiled)), codegen.magic_tuple()
        key = (how, [str(kind) for kind in signature], contents(self._compiled, signature))
        return self._folder / f"{self._stem}-{hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()}.nbc"

    def _forget_unused(self, folder: Path) -> None:
        for path in folder.glob(f"{self._stem}-*"):
            if path.stat().st_mtime < time.time() - _KEEP_DAYS * 86400:
                path.unlink(missing_ok=True)


def _compiler(kind: type[Dispatcher]) -> tuple[Any, ...]:
    """Everything that the compiled code depends on, apart from the function and its options."""
    versions = sys.version_info[:2], numba.__version__, llvmlite.__version__, np.__version__
    settings = [f"{name} {getattr(numba.config, name)}" for name in _SETTINGS]
    return versions, settings, code_of(pipeline), code_of(sys.modules[kind.__module__])


@cache
def _shared_folder(chosen: Path) -> Path:
    """Names of files say what they contain, so all copies of the package can share them."""
    folder = chosen / "unbounded"
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()  # or an OSError: it cannot be written
    return folder


@cache
def _temporary_folder() -> Path | None:
    """A folder that no other user can have put code into, or None, and then one warning."""
    user = os.getuid() if hasattr(os, "getuid") else None  # Windows has a temporary folder for each user
    folder: Path | str = "a temporary folder"
    with contextlib.suppress(OSError):  # also where there is none
        folder = Path(tempfile.gettempdir()) / ("unbounded" if user is None else f"unbounded-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
        if stat.S_ISDIR(state.st_mode) and (user is None or (state.st_uid == user and not state.st_mode & 0o077)):
            return folder
    warnings.warn(
        "compiled code cannot be kept, so every new process compiles it again: neither the package nor the home nor "
        f"{folder} can be written by this user alone. Set NUMBA_CACHE_DIR to a folder that can.",
        stacklevel=2,
    )
    return None
