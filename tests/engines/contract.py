"""What every engine keeps, whatever it is made of: compared with the serial engine, with toys for shards."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import toys

from unbounded.contracts import Message
from unbounded.engines.local import Serial

P = 5
X = np.random.default_rng(0).normal(size=23)


def messages(n):
    rng = np.random.default_rng(1)
    return [Message({"a": rng.normal(size=X.size)}, list(rng.normal(size=P))) for _ in range(n)]


def said(gathered):
    return gathered.shared["sum"].tobytes(), [part["own"].tobytes() for part in gathered.private]


def lives_through_sums(engine, folder, deaths):
    """Workers that die as they add up, for themselves or with others: those of the tree who add so many shards."""
    serial, marker = Serial(toys.Rows(X, P)), folder / "deadly"
    try:
        for deadly, message in zip(deaths, messages(len(deaths)), strict=True):
            marker.touch()
            gathered = engine.run(toys.advance_fragile, Message((marker, deadly, message.shared), message.own))
            assert not marker.exists(), "nobody died"
            same = serial.run(toys.advance, message)
            assert gathered.shared["sum"].value.tobytes() == same.shared["sum"].tobytes()
            assert [part["own"].tobytes() for part in gathered.private] == [
                part["own"].tobytes() for part in same.private
            ]
    finally:
        serial.close()


def index_and(shard, own):
    return shard.index, own


def conforms(build):
    """build: an engine from a recipe."""
    engine, serial = build(toys.Rows(X, P)), Serial(toys.Rows(X, P))
    try:
        _orders(engine, serial)
        _checkpoints(engine, serial)
        _errors(engine)
        _spreads(engine)
    finally:
        engine.close()
        serial.close()


def _orders(engine, serial):
    """The tree sum and private parts in shard order, to the bit; what is mapped, in shard order, too."""
    for message in messages(4):
        assert said(engine.run(toys.advance, message)) == said(serial.run(toys.advance, message))
    assert [index for index, _ in engine.map(index_and, "abcde")] == list(range(P))
    assert engine.map(index_and, "abcde") == serial.map(index_and, "abcde")
    assert len(engine.map(toys.pid)) == P


def _checkpoints(engine, serial):
    """What is saved can be loaded, here and on another engine; a shard goes on from there as if nothing had been."""
    parts = [{name: value.copy() for name, value in part.items()} for part in engine.save()]
    later = [said(engine.run(toys.advance, message)) for message in messages(3)]
    for other in (engine, serial):
        other.load(parts)
        assert [said(other.run(toys.advance, message)) for message in messages(3)] == later


def _errors(engine):
    """An exception of a step is the caller's, with its class; the engine goes on."""
    with pytest.raises(KeyError, match="three"):
        engine.run(toys.fail, Message("plain", [None] * P))
    assert len(engine.map(toys.pid)) == P


def _spreads(engine):
    """Every part of something is done, once."""
    done, lock = [], threading.Lock()

    def part(i, n):
        with lock:
            done.append((i, n))

    engine.parallel(part)
    (n,) = {n for _, n in done}
    assert sorted(done) == [(i, n) for i in range(n)]
