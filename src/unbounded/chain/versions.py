"""What a fit ran on, for the record."""

from __future__ import annotations

import platform
from importlib import metadata

from unbounded.version import __version__


def versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in ("numpy", "scipy", "numba")}
    return {"unbounded": __version__, "python": platform.python_version()} | packages
