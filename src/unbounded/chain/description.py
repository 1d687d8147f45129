"""What a run is, in plain words: run.json, as this version writes it and as older ones did.

A run directory goes on only with what it was begun with: everything that a chain is a function of. Engine and workers
are not among it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbounded.arrays import Data
from unbounded.chain.store import RunError, RunStore
from unbounded.family import DOUBLE, Choices, Sampler
from unbounded.options import BEFORE
from unbounded.sources import source_of


def described(thing: object) -> dict[str, Any]:
    """A JSON-able description of a (nested) dataclass, by the name that it has on disk."""
    name = getattr(thing, "described_as", type(thing).__name__)
    known = asdict(thing) if is_dataclass(thing) and not isinstance(thing, type) else {}
    values = {k: np.asarray(v).tolist() if isinstance(v, np.ndarray) else repr(v) for k, v in known.items()}
    return {"name": name} | values


def _before(thing: object) -> dict[str, str]:
    """What runs had that were begun before there were these options."""
    later = [one for one in fields(thing) if BEFORE in one.metadata] if is_dataclass(thing) else []
    return {one.name: repr(one.metadata[BEFORE]) for one in later}


def plain(value: Any) -> Any:
    return described(value) if is_dataclass(value) else value


def as_written_now(
    store: RunStore, parts: Mapping[str, object], choices: Choices, sampler: Sampler, has_jumps: bool, init: Any
) -> dict[str, Any]:
    """What the run directory says, in the words of this version; parts: what was asked for, by name.

    Options of the parts that came later are filled in as they were before. Older versions wrote down what was asked for
    where it had no effect: shards of a sampler that has one, a precision that it does not have, jumps where there are
    none. And a start that is no more matters no more once all chains have a state: it stands for `init`.
    """
    saved = {"device": "cpu"} | store.config()
    saved |= {name: _before(part) | saved[name] for name, part in parts.items() if isinstance(saved.get(name), dict)}
    if sampler.one_shard:
        saved["n_shards"] = 1
    if sampler.dtypes == DOUBLE:
        saved["dtype"] = DOUBLE[0]
    if not has_jumps or saved.get("jumps") is False:
        saved.pop("jumps", None)
    n_chains = saved.get("n_chains")
    if saved.get("init") in choices.former_starts and n_chains == sum(map(store.has_chain, store.chains())):
        saved["init"] = init
    return saved


def check_same(path: Path, saved: Mapping[str, Any], asked: Mapping[str, Any], free: Collection[str]) -> None:
    """Refuse to go on with another run; `free` are settings that may change."""
    # mutant: other settings
    differs = [name for name in {**asked, **saved} if saved.get(name) != asked.get(name) and name not in free]
    if differs:
        raise RunError(f"{path} holds a run with other {', '.join(differs)}; use the same or another directory.")


def check_pieces(X: Data, saved: dict[str, Any], asked: Mapping[str, Any], path: Path) -> None:
    """Name a piece that has changed since the run began; runs of older versions recorded no pieces."""
    source, now = source_of(X), asked.get("pieces", [])
    before = saved.setdefault("pieces", now) if now else []
    if len(before) != len(now):  # other data altogether
        return
    for piece, one, other in zip(source.pieces if source and now else (), before, now, strict=True):
        # mutant: piece of a run
        if one != other:
            raise RunError(
                f"{piece.path} is not what it was when the run in {path} began; restore it or use another directory."
            )
