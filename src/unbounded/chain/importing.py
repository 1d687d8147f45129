"""ArviZ, imported wherever one is: it writes to the user's cache folder meanwhile, and fails where it cannot."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from types import ModuleType

_CACHE = "XDG_CACHE_HOME"


def arviz() -> ModuleType:
    """The module; where there is no home to write to, a temporary folder stands in for its cache meanwhile."""
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
