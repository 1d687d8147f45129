"""The round, for every model: jumps of whole atoms, if it has any, global step, local sweeps on all shards, gather."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from unbounded.contracts import Engine, Model, StateT
from unbounded.family import Notify, ignore_progress

# In the order in which a run meets them; `local` is the sweeps on all shards and the sum of what they report.
PHASES = ("start", "jump", "global", "local", "gather", "score", "record", "checkpoint")


class Clock:
    """Seconds spent in each phase over all sessions of a chain, and the number of its rounds.

    They never enter a trace or a checkpoint, which are the same on every machine.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None, rounds: int = 0):
        self.seconds = dict.fromkeys(PHASES, 0.0) | dict(seconds or {})
        self.rounds = rounds

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began


def rounds(model: Model[StateT], engine: Engine, state: StateT, clock: Clock | None = None) -> Iterator[StateT]:
    """The chain as a generator of states; the n-th one depends on (data, model, seed, P, L) and n only."""
    clock = clock or Clock()
    while True:
        with clock.phase("jump"):
            state = model.jump(state, engine)
        with clock.phase("global"):
            message = model.global_step(state, engine.parallel)
        with clock.phase("local"):
            gathered = engine.run(model.local_step, message)
        with clock.phase("gather"):
            state = model.gather(state, message, gathered)
        clock.rounds += 1
        yield state


def advanced(
    model: Model[StateT],
    engine: Engine,
    state: StateT,
    n_rounds: int,
    notify: Notify = ignore_progress,
    before: int = 0,
    total: int = 0,
) -> StateT:
    """The state some rounds later. notify: called after each; `before` of `total` rounds were done by earlier calls."""
    for done, after in enumerate(islice(rounds(model, engine, state), n_rounds), 1):
        state = after
        notify(before + done, total)
    return state
