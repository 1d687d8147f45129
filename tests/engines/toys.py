"""What workers do in these tests: small shards that say what happened to them, and steps that go wrong."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

import numpy as np

from unbounded.contracts import Summary


class Shard:
    """Some rows, and a number for each."""

    def __init__(self, index, rows):
        self.index, self.rows, self.values = index, rows, np.zeros(len(rows))

    def arrays(self):
        return {"values": self.values}

    def restore(self, arrays):
        self.values[:] = arrays["values"]


@dataclass(frozen=True)
class Rows:
    X: np.ndarray
    n_shards: int

    def __call__(self, p):
        return Shard(p, np.array_split(self.X, self.n_shards)[p])


def advance(shard, shared, own):
    """Not commutative, so that an order that is lost or done twice shows."""
    shard.values = (0.7 * shard.values + shared["a"][: len(shard.values)]) * own + shard.rows
    return Summary({"sum": shard.values.sum(keepdims=True)}, {"own": shard.values[:1]})


def pid(shard):
    return os.getpid()


def writable(shard, shared, own):
    flags = shard.rows.flags.writeable, shared.flags.writeable, own.flags.writeable
    aligned = shard.rows.flags.aligned and shared.flags.aligned and own.flags.aligned
    shared += 1.0  # which nobody else may see
    return Summary({"sum": shared.copy()}, {"ok": all(flags) and aligned})


class Strange(Exception):
    def __init__(self, a, b):  # cannot be unpickled
        super().__init__(f"{a} and {b}")


def fail(shard, shared, own):
    if shard.index == 3:
        raise Strange(1, 2) if shared == "strange" else KeyError("three")
    return Summary({"sum": np.zeros(1)}, {})


def die(shard, shared, own):
    if shard.index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return Summary({"sum": np.zeros(1)}, {})


class Fragile:
    """A sum that kills whoever adds up so many shards, as long as there is a file of this name."""

    def __init__(self, path, value, shards, deadly):
        self.path, self.value, self.shards, self.deadly = path, value, shards, deadly

    def __add__(self, other):
        shards = self.shards + other.shards
        if shards == self.deadly and _taken(self.path):
            os.kill(os.getpid(), signal.SIGKILL)
        return Fragile(self.path, self.value + other.value, shards, self.deadly)


def _taken(path):
    """Whether the file was there. Several workers may try at once; one of them takes it."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def advance_fragile(shard, shared, own):
    path, deadly, message = shared
    summary = advance(shard, message, own)
    return Summary({"sum": Fragile(path, summary.shared["sum"], 1, deadly)}, summary.private)


def sleep(shard):
    time.sleep(60)
