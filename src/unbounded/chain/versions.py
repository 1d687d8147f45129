"""What a fit ran on, for the record."""

from __future__ import annotations

import platform
from importlib import metadata


def versions() -> dict[str, str]:
    from unbounded import __version__

    packages = {name: metadata.version(name) for name in ("numpy", "scipy", "numba")}
    return {"unbounded": __version__, "python": platform.python_version()} | packages
