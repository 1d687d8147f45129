"""Run on ranks: one scene with toys for shards, by its name."""

from __future__ import annotations

import os
import sys
from functools import partial

import numpy as np
import pytest
import toys
from contract import P, X, conforms

from unbounded import engines
from unbounded.contracts import Message, Summary


class Own:
    """Something of the script's own, to be sent back."""

    def __init__(self, shard):
        self.index = shard.index


def rows(shard, shared, own):
    """A step of the script's own, with arrays that travel within a pickle and beside it."""
    flags = [array.flags for array in (shard.rows, shared, own)]
    shared += 1.0
    return Summary({"sum": shared[:3] + own[:3]}, {"ok": all(flag.writeable and flag.aligned for flag in flags)})


def ranks_and_blocks():
    engine = engines.build("mpi", toys.Rows(X, P))
    other = engines.build("mpi", toys.Rows(X, 1))
    assert len(set(engine.map(toys.pid))) == min(P, int(sys.argv[2]))
    assert len(set(other.map(toys.pid))) == 1
    other.close()
    assert [(type(value), value.index) for value in engine.map(Own)] == [(Own, p) for p in range(P)]
    for size in (3, 200_000):
        seen = engine.run(rows, Message(np.zeros(size), [np.ones(size)] * P))
        assert all(part["ok"] for part in seen.private)
    engine.close()
    conforms(partial(engines.build, "mpi"))


def fails():
    """An exception on another rank is an exception here, and the engine goes on; one of the script is its end."""
    engine = engines.build("mpi", toys.Rows(X, P))
    for kind, error in (("plain", KeyError), ("strange", RuntimeError)):
        with pytest.raises(error) as raised:
            engine.run(toys.fail, Message(kind, [None] * P))
        notes = "\n".join(raised.value.__notes__)
        assert "in shard 3" in notes, notes
        assert "during fail on worker 1, which holds shards 2 to 4" in notes, notes
    with pytest.raises(AttributeError, match="local object"):
        engine.map(lambda shard: shard)
    assert len(set(engine.map(toys.pid))) == 2
    raise ZeroDivisionError("of the script")


def leaves():
    engines.build("mpi", toys.Rows(X, P))
    sys.exit(7)


def die(shard):
    if shard.index == 3:
        os._exit(5)


def dies():
    engines.build("mpi", toys.Rows(X, P)).map(die)


def interrupted_here(shard):
    if shard.index == 0:
        raise KeyboardInterrupt
    toys.sleep(shard)


def interrupted():
    engines.build("mpi", toys.Rows(X, P)).map(interrupted_here)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done")
