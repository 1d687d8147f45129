"""Where a chain of grouped rows starts (docs/topics.md, "The start"). It never affects exactness, only the wait.

Words begin with topics that grew on some documents (words/start.py), other rows as a mixture that ignores the groups.
The second of the default chains comes from the other side: from fewer topics than there are, of rows from a single one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbounded.contracts import Engine, Tell, silent
from unbounded.models.groups.model import Groups, GroupsState
from unbounded.models.groups.words.likelihood import WordContent
from unbounded.models.groups.words.start import grown
from unbounded.models.mixtures import start
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.measure import DirichletProcess
from unbounded.randomness import generator
from unbounded.setup import Setup

NAMES = ("grown", "few", "one")


def begin(model: Groups, engine: Engine, X: Any, init: Any, tell: Tell = silent) -> GroupsState:
    """The first state of a chain: from a name, a number of random atoms, or given labels."""
    check(init, model.n_rows)
    if not isinstance(init, str | int | np.integer):
        return model.begin(engine, np.asarray(init))
    words = isinstance(model.content, WordContent)
    if init == "one" or (init == "few" and not words):
        return model.begin(engine, np.zeros(model.n_rows, np.int64))
    if isinstance(init, str):
        return grown(model, engine, X, init == "few", tell) if words else ungrouped(model, engine, X, tell)
    return model.begin(engine, generator(model.seed, "start").integers(int(init), size=model.n_rows))


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


def ungrouped(model: Groups, engine: Engine, X: Any, tell: Tell = silent) -> GroupsState:
    plain = HybridMixture(
        Setup(DirichletProcess(), model.likelihood, model.n_rows, model.n_shards, model.seed), jumps=None
    )
    rng = generator(model.seed, "start")
    labels, state = start.pilot(plain, X, rng, tell)
    if len(labels) < model.n_rows:
        labels = plain.assignments(start.extend(plain, engine, state, rng), engine)
    return model.begin(engine, labels)
