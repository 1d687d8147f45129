"""Engines whose workers may die. Nothing is lost: a new worker makes the block's shards by the recipe, loads what the
last recovery point says of them, does again what was asked since, and goes on. Since a step is a function of its shard
and its message, the chain stays the same to the bit.

How workers are started and reached is the crew's affair: each engine has its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from unbounded.arrays import Arrays
from unbounded.contracts import Gathered, Message, Recipe, Step, restore, state_of
from unbounded.engines.local import Helpers, one_blas_thread
from unbounded.engines.worker import (
    Build,
    Failure,
    Map,
    Order,
    Run,
    blocks,
    gather,
    name_of,
    parts_of,
    settled,
    shards_of,
)

MOST_ORDERS, MOST_BYTES, MOST_SECONDS = 64, 2**28, 10.0  # to be repeated when a worker dies
DEATHS = 5  # of a worker without an answer in between


class EngineError(RuntimeError):
    """Workers cannot be started, or keep dying."""


class Lost(NamedTuple):
    """Instead of an answer: the worker is gone."""

    reason: str


class Packet(Protocol):
    """An order with all own parts, serialised once; it can be sent to any worker, more than once."""

    @property
    def size(self) -> int: ...


class Crew(Protocol):
    """Workers and the way to them."""

    def start(self, w: int) -> None:
        """A new worker w in the place of the old one, if there was one. It has no shards yet."""

    def pack(self, order: Order, own: Sequence[Any]) -> Packet:
        """own: by worker."""

    def send(self, w: int, packet: Packet) -> None:
        """Never waits, and never complains of a dead worker."""

    def receive(self) -> tuple[int, Any]:
        """Wait for the next news of any worker: (w, its answer, a Failure, or Lost)."""

    def close(self) -> None: ...


class _Entry(NamedTuple):
    """An order with its name."""

    name: str
    packet: Packet


class Remote:
    """An engine over a crew."""

    def __init__(self, crew: Crew, recipe: Recipe, n_workers: int):
        self._limits = one_blas_thread()  # in the driver, too: the global step must not depend on the engine
        self.spread = Helpers(n_workers)
        self._crew, self._n_shards = crew, recipe.n_shards
        self._blocks = blocks(recipe.n_shards, n_workers)
        self._deaths = [0] * n_workers
        self._build = self._packed(Build(recipe), self._blocks)
        self._log: list[_Entry] = []
        self._seconds, self._patience = 0.0, MOST_SECONDS
        self._point: Sequence[Arrays] | None = None
        try:
            for w in range(n_workers):
                crew.start(w)
            self._ask(self._build)
        except BaseException:
            self.close()
            raise

    def run(self, step: Step, message: Message) -> Gathered:
        return gather(self._n_shards, self._do(Run(step, message.shared), message.own))

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        return [value for answer in self._do(Map(function), own) for value in answer]

    def save(self) -> list[Arrays]:
        began = time.monotonic()
        parts = [part for answer in self._ask(self._entry(Map(state_of), None)) for part in answer]
        self._patience = max(MOST_SECONDS, 20.0 * (time.monotonic() - began))
        self._set_point(parts)
        return parts

    def load(self, parts: Sequence[Arrays]) -> None:
        self._ask(self._entry(Map(restore), parts))
        self._set_point(parts)

    def close(self) -> None:
        self._crew.close()
        self.spread.close()
        self._limits.restore_original_limits()

    def _do(self, order: Order, own: Sequence[Any] | None) -> list[Any]:
        """Ask, and remember it; where too much would have to be repeated, take a recovery point."""
        entry, began = self._entry(order, own), time.monotonic()
        answers = self._ask(entry)
        self._log.append(entry)
        self._seconds += time.monotonic() - began
        size = sum(entry.packet.size for entry in self._log)
        if len(self._log) >= MOST_ORDERS or size >= MOST_BYTES or self._seconds >= self._patience:
            self.save()
        return answers

    def _entry(self, order: Order, own: Sequence[Any] | None) -> _Entry:
        return self._packed(order, parts_of(own, self._blocks))

    def _packed(self, order: Order, own: Sequence[Any]) -> _Entry:
        return _Entry(name_of(order), self._crew.pack(order, own))

    def _set_point(self, parts: Sequence[Arrays]) -> None:
        self._point, self._seconds = parts, 0.0
        self._log.clear()  # mutant: log clear

    def _past(self) -> list[_Entry]:
        """What makes a new worker what the lost one was."""
        point = [] if self._point is None else [self._entry(Map(restore), self._point)]
        return [self._build, *point, *self._log]  # mutant: past

    def _ask(self, entry: _Entry) -> list[Any]:
        """All workers' answers, in their order. A worker gets an order only when it has answered the one before."""
        todo = {w: deque([entry]) for w in range(len(self._blocks))}
        answers: dict[int, Any] = {}
        for w in todo:
            self._crew.send(w, entry.packet)
        while todo:
            w, answer = self._crew.receive()
            if isinstance(answer, Lost):
                self._count_death(w, entry.name, answer.reason)
                self._crew.start(w)
                todo[w] = deque([*self._past(), entry] if entry is not self._build else [entry])
            elif isinstance(answer, Failure) or len(todo[w]) == 1:
                answers[w] = answer
                self._deaths[w] = 0
                del todo[w]
            else:
                todo[w].popleft()
            if w in todo:
                self._crew.send(w, todo[w][0].packet)
        return settled(entry.name, [answers[w] for w in range(len(self._blocks))], self._blocks)

    def _count_death(self, w: int, name: str, reason: str) -> None:
        self._deaths[w] += 1
        if self._deaths[w] >= DEATHS:
            raise EngineError(
                f"worker {w} with {shards_of(self._blocks[w])} died {DEATHS} times in a row during {name} ({reason})."
            )
