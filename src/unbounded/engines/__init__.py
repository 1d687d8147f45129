"""Where shards live. A new engine is one file and one line in MEMBERS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unbounded.contracts import Engine
from unbounded.engines.local import Serial, Threads

MEMBERS: dict[str, Any] = {"serial": Serial, "threads": Threads}


def check(name: str, n_workers: int | None = None) -> None:
    if name not in MEMBERS:
        raise ValueError(f"engine must be one of {sorted(MEMBERS)}, got {name!r}.")
    if n_workers is not None and n_workers < 1:
        raise ValueError(f"n_workers must be at least 1, got {n_workers}.")


def build(name: str, shards: Sequence[Any], n_workers: int | None = None) -> Engine:
    check(name, n_workers)
    engine: Engine = MEMBERS[name](shards, n_workers)
    return engine
