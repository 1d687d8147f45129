"""Where shards live. A new engine is one file and one line in MEMBERS; it is imported only when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from unbounded.contracts import Engine, Recipe
from unbounded.options import check_options

MEMBERS = {
    "serial": "local.Serial",
    "threads": "local.Threads",
    "processes": "processes.Processes",
    "ray": "ray.Ray",
    "mpi": "mpi.Mpi",
}

WORKER_LOSS_NOTICE = {  # for engines that end with the first worker that dies: printed before a fit begins
    "mpi": "If a rank dies, the job ends; start it again, with any number of ranks, and it goes on from {0} "
    "(a job of `unbounded fit` with `unbounded resume {0}`)."
}


def check(name: str, n_workers: int | None = None, options: Mapping[str, Any] | None = None) -> None:
    """Refuse bad settings before anything is read or written."""
    if not isinstance(name, str) or name not in MEMBERS:
        raise ValueError(f"engine must be one of {sorted(MEMBERS)}, got {name!r}.")
    if n_workers is not None and not (isinstance(n_workers, int | np.integer) and n_workers >= 1):
        raise ValueError(f"n_workers must be an integer of at least 1, got {n_workers!r}.")
    check_options(f"engine {name!r}", _member(name).options, options)
    _member(name).check(n_workers)


def build(name: str, recipe: Recipe, n_workers: int | None = None, **options: Any) -> Engine:
    """The engine of this name with the shards of the recipe; options are its own, such as a timeout."""
    check(name, n_workers, options)
    engine: Engine = _member(name)(recipe, n_workers, **options)
    return engine


def _member(name: str) -> Any:
    module, member = MEMBERS[name].split(".")
    return getattr(import_module(f"{__name__}.{module}"), member)
