"""Where shards live. A new engine is one file and one line in MEMBERS; it is imported only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from unbounded.contracts import Engine, Recipe

MEMBERS = {
    "serial": "local.Serial",
    "threads": "local.Threads",
    "processes": "processes.Processes",
    "ray": "ray.Ray",
}


def check(name: str, n_workers: int | None = None) -> None:
    if name not in MEMBERS:
        raise ValueError(f"engine must be one of {sorted(MEMBERS)}, got {name!r}.")
    if n_workers is not None and n_workers < 1:
        raise ValueError(f"n_workers must be at least 1, got {n_workers}.")


def build(name: str, recipe: Recipe, n_workers: int | None = None, **options: Any) -> Engine:
    """The engine of this name with the shards of the recipe; options are its own, such as a timeout."""
    check(name, n_workers)
    module, member = MEMBERS[name].split(".")
    engine: Engine = getattr(import_module(f"{__name__}.{module}"), member)(recipe, n_workers, **options)
    return engine
