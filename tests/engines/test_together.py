"""Steps that take several shards give what steps on one shard give, whoever takes how many."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from unbounded import engines
from unbounded.contracts import BatchStep, Message, Summary
from unbounded.engines.local import at_a_time

P = 12


class Shard:
    def __init__(self, p):
        self.p = p

    def arrays(self):
        return {}

    def restore(self, arrays):
        pass


@dataclass(frozen=True)
class Shards:
    n_shards: int = P

    def __call__(self, p):
        return Shard(p)


def one(shard, shared, own):
    if own < 0:
        raise ValueError("no")
    return Summary({"sum": np.array([shared / (1.0 + shard.p + own)])}, {"p": np.array(shard.p)})


def ahead(pairs, shared):
    """All that there are are taken before the first answer."""
    for shard, own in list(pairs):
        yield one(shard, shared, own)


@pytest.mark.parametrize("engine", ["serial", "threads"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_together_is_one_by_one(engine, workers):
    message = Message(0.7, list(range(P)))
    here = engines.build(engine, Shards(), workers)
    try:
        alone, together = here.run(one, message), here.run(BatchStep(ahead), message)
        called = here.run(BatchStep(ahead).__call__, message)
    finally:
        here.close()
    assert called.shared["sum"] == together.shared["sum"]
    assert alone.shared["sum"] == together.shared["sum"]
    assert [int(part["p"]) for part in together.private] == list(range(P))


def test_an_error_names_the_shards_that_were_taken():
    here = engines.build("serial", Shards(3), 1)
    with pytest.raises(ValueError, match="no") as caught:
        here.run(BatchStep(ahead), Message(1.0, [1, -1, 1]))
    assert "in shard 1" in caught.value.__notes__
    here.close()


@pytest.mark.parametrize("workers", range(1, 20))
@pytest.mark.parametrize("shards", [1, 7, 8, 32, 64, 100, 256])
def test_nobody_is_left_without_work(shards, workers):
    workers = min(workers, shards)
    few = at_a_time(shards, workers, 4)
    turns = math.ceil(math.ceil(shards / few) / workers) * few  # shards of the worker that has most
    best = math.ceil(shards / workers)
    assert 1 <= few <= 4
    assert turns == best or turns <= 1.25 * best + 1
