"""ArviZ, imported even where there is no home: as it is imported it writes to the user's cache folder, or fails."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from types import ModuleType

_CACHE = "XDG_CACHE_HOME"


def arviz() -> ModuleType:
    """The module; where its cache folder cannot be written, a temporary one takes its place during the import."""
    try:
        return import_module("arviz")
    except OSError:
        before = os.environ.get(_CACHE)
        with tempfile.TemporaryDirectory(prefix="unbounded-") as folder:
            os.environ[_CACHE] = folder
            try:
                return import_module("arviz")
            finally:
                del os.environ[_CACHE]
                os.environ.update({} if before is None else {_CACHE: before})
