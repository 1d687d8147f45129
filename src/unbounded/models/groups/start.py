"""Where a chain of grouped rows starts (docs/topics.md, "The start"). It never affects exactness, only the wait.

Words begin with topics that grew on some documents (words/start.py), other rows as a mixture that ignores the groups.
The second of the default chains comes from the other side: from fewer topics than there are, of rows from a single one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbounded.arrays import Data
from unbounded.contracts import Engine
from unbounded.family import Init, Notify, ignore_progress
from unbounded.models.groups.model import Groups, GroupsState
from unbounded.models.groups.shard import GroupShard, cut
from unbounded.models.groups.words.start import grown
from unbounded.models.labelled.labels import smallest_type
from unbounded.models.mixtures import start
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.randomness import generator
from unbounded.setup import Setup

NAMES = ("grown", "few", "one")


def begin(model: Groups, engine: Engine, X: Data, init: Init, notify: Notify = ignore_progress) -> GroupsState:
    """The first state of a chain: from a name, a number of random atoms, or given labels."""
    check(init, model.n_rows)
    if not isinstance(init, str | int | np.integer):
        return model.begin(engine, np.asarray(init))
    by_tokens = model.content.by_tokens
    if init == "one" or (init == "few" and not by_tokens):
        engine.map(GroupShard.put, [np.zeros(1, np.int32)] * model.n_shards)
        return model.begin_from_shards(engine, 1)
    if isinstance(init, str):
        return grown(model, engine, X, init == "few", notify) if by_tokens else ungrouped(model, engine, X, notify)
    return scattered(model, engine, int(init))


def scattered(model: Groups, engine: Engine, n_atoms: int) -> GroupsState:
    """The state with random labels, of which the driver has those of one shard at a time, and all in few bytes."""
    rng, small = generator(model.seed, "start"), smallest_type(n_atoms - 1)
    sizes = [int(own[-1] - own[0]) for own in cut(model.sizes, model.n_shards)]
    labels = [rng.integers(n_atoms, size=size).astype(small) for size in sizes]
    used = np.flatnonzero(sum(np.bincount(part, minlength=n_atoms) for part in labels))
    engine.map(GroupShard.put, labels)
    codes = np.full(n_atoms, -1, np.int32)
    codes[used] = np.arange(len(used))
    engine.map(GroupShard.relabel, [codes] * model.n_shards)
    return model.begin_from_shards(engine, len(used))


def check(init: Any, n_rows: int) -> None:
    """Refuse a start that is neither a name, a number nor labels."""
    if isinstance(init, str):
        if init not in NAMES:
            raise ValueError(f"init must be one of {NAMES}, a number of topics or an array of labels, got {init!r}.")
    elif isinstance(init, int | np.integer):
        if isinstance(init, bool) or init < 1:
            raise ValueError(f"init must be at least one topic, got {init}.")
    elif np.ndim(init) == 0:
        raise ValueError(f"init must be one of {NAMES}, a number of topics or an array of labels, got {init!r}.")
    else:
        start.check(init, n_rows)


def ungrouped(model: Groups, engine: Engine, X: Any, notify: Notify = ignore_progress) -> GroupsState:
    plain = HybridMixture(
        Setup(model.measure.top, model.likelihood, model.n_rows, model.n_shards, model.seed), jumps=None
    )
    rng = generator(model.seed, "start")
    labels, state = start.pilot(plain, X, rng, notify)
    if len(labels) < model.n_rows:
        labels = plain.assignments(start.extend(plain, engine, state, rng), engine)
    return model.begin(engine, labels)
