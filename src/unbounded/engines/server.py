"""Imported by the server that worker processes are forks of: all that takes time and is the same for every worker."""

from __future__ import annotations

import scipy.sparse
import scipy.special  # noqa: F401
from numba.core.registry import cpu_target

import unbounded.engines.processes  # noqa: F401

cpu_target.target_context.refresh()  # what Numba does before it loads its first compiled function
