"""The round, for every model: jumps of whole atoms, if it has any, global step, local sweeps on all shards, gather."""

from __future__ import annotations

from collections.abc import Iterator

from unbounded.chain.clock import Clock
from unbounded.contracts import Engine, Model, StateT


def rounds(model: Model[StateT], engine: Engine, state: StateT, clock: Clock | None = None) -> Iterator[StateT]:
    """The chain as a generator of states; the n-th one depends on (data, model, seed, P, L) and n only."""
    clock = clock or Clock()
    while True:
        with clock.phase("jump"):
            state = model.jump(state, engine)
        with clock.phase("global"):
            message = model.global_step(state, engine.spread)
        with clock.phase("local"):
            gathered = engine.run(model.local_step, message)
        with clock.phase("gather"):
            state = model.gather(state, message, gathered)
        clock.rounds += 1
        yield state
