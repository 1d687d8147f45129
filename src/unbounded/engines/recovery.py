"""Engines whose workers may die. Nothing is lost: a new worker makes the block's shards by the recipe, loads their
arrays of the last recovery point, repeats the orders since, and goes on. Since a step is a function of its shard
and its message, the chain stays the same to the bit.

Workers add up the results of a step (routes.py). The driver says which worker a node is for, and never opens it.
Workers keep their own nodes until the next step: where one of them is lost meanwhile, all add up again.

A crew starts workers and reaches them: each engine has its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from unbounded.arrays import Arrays
from unbounded.contracts import BatchStep, Gathered, Message, Recipe, Step
from unbounded.disk import spill_to_disk
from unbounded.engines.local import Helpers, one_blas_thread, restore, state_of
from unbounded.engines.routes import Route
from unbounded.engines.worker import (
    Again,
    Answer,
    Build,
    Failure,
    Map,
    Order,
    Run,
    assign_blocks,
    checked,
    name_of,
    parts_of,
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

    def pack(self, order: Order, own: Sequence[Any], leaving: Sequence[int]) -> Packet:
        """own, leaving: by worker, its own part and the number of nodes that will come with its answer."""

    def send(self, w: int, packet: Packet) -> None:
        """Never waits, and raises nothing where the worker is dead."""

    def forward(self, w: int, node: Any, leaving: int) -> None:
        """Send a node that came with another worker's answer, which this worker has to add; leaving: the number of
        nodes that will come with its own."""

    def receive(self) -> tuple[int, Any]:
        """Wait for the next answer of any worker: (w, an Answer, a Failure, or Lost)."""

    def close(self) -> None: ...


class _Entry(NamedTuple):
    """An order with its name."""

    name: str
    packet: Packet


class _Sums:
    """Passes nodes of the tree from worker to worker. A worker gets the next one only when it has added the last."""

    def __init__(self, crew: Crew, routes: Sequence[Route]):
        self._crew, self._routes = crew, routes
        self._expected = [route.expected for route in routes]
        self._waiting: list[deque[Any]] = [deque() for _ in routes]
        self._busy: set[int] = set()
        self._total: Arrays | None = None

    def add_up(self, answers: Sequence[Answer]) -> Arrays | None:
        """The total, from all workers' answers to a step; None where a worker was lost. Then nothing is under way."""
        for w, answer in enumerate(answers):
            self._forward(w, answer)
        lost = False
        while self._busy:
            w, answer = self._crew.receive()
            self._busy.discard(w)
            if isinstance(answer, Answer) and not lost:
                self._forward(w, answer)
            elif isinstance(answer, Failure):
                raise answer.error
            else:
                lost = lost or isinstance(answer, Lost)
        return None if lost else self._total

    def _forward(self, w: int, answer: Answer) -> None:
        if answer.value.total is not None:
            self._total = answer.value.total
        for node, ticket in answer.nodes.items():
            self._waiting[self._routes[w].leaving[node]].append(ticket)
        for v in {w, *(self._routes[w].leaving[node] for node in answer.nodes)}:
            if self._waiting[v] and v not in self._busy:
                self._busy.add(v)
                self._expected[v] -= 1
                last = self._expected[v] == 0
                self._crew.forward(v, self._waiting[v].popleft(), self._routes[v].late if last else 0)


class Remote:
    """An engine over a crew."""

    def __init__(self, crew: Crew, recipe: Recipe, n_workers: int):
        self._limits = one_blas_thread()  # in the driver, too: the global step must not depend on the engine
        self.parallel = Helpers(n_workers)
        self._crew = crew
        self._routes = assign_blocks(recipe.n_shards, n_workers)
        self._deaths = [0] * n_workers
        self._build = self._packed(Build(recipe), self._routes)
        self._again = self._entry(Again(), None)
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

    @staticmethod
    def check(n_workers: int | None) -> None:
        """A crew finds out when it starts workers."""

    def run(self, step: Step | BatchStep, message: Message) -> Gathered:
        with self._logged(Run(step, message.shared), message.own) as answers:
            private = [part for answer in answers for part in answer.value.private]
            return Gathered(self._total(answers), private)

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        with self._logged(Map(function), own) as answers:
            return [value for answer in answers for value in answer.value]

    def save(self) -> list[Arrays]:
        began = time.monotonic()
        answers = self._ask(self._entry(Map(state_of), None))
        self._patience = max(MOST_SECONDS, 20.0 * (time.monotonic() - began))
        return self._set_point([part for answer in answers for part in answer.value])

    def load(self, parts: Sequence[Arrays]) -> None:
        self._ask(self._entry(Map(restore), parts))
        self._set_point(parts)

    def close(self) -> None:
        self._crew.close()
        self.parallel.close()
        self._limits.restore_original_limits()

    @contextmanager
    def _logged(self, order: Order, own: Sequence[Any] | None) -> Iterator[list[Answer]]:
        """The answers to an order, which is logged; where the log has grown long, a recovery point follows."""
        entry, began = self._entry(order, own), time.monotonic()
        answers = self._ask(entry)
        self._log.append(entry)
        yield answers
        self._seconds += time.monotonic() - began
        size = sum(entry.packet.size for entry in self._log)
        if len(self._log) >= MOST_ORDERS or size >= MOST_BYTES or self._seconds >= self._patience:
            self.save()

    def _total(self, answers: list[Answer]) -> Arrays:
        """The sum over all shards."""
        for _ in range(DEATHS):
            total = _Sums(self._crew, self._routes).add_up(answers)
            if total is not None:
                return total
            answers = self._ask(self._again)
        raise EngineError(f"workers were lost {DEATHS} times in a row while they added up the results of a step.")

    def _entry(self, order: Order, own: Sequence[Any] | None) -> _Entry:
        return self._packed(order, parts_of(own, self._routes))

    def _packed(self, order: Order, own: Sequence[Any]) -> _Entry:
        added = isinstance(order, Run | Again)
        leaving = [route.early if added else 0 for route in self._routes]
        return _Entry(name_of(order), self._crew.pack(order, own, leaving))

    def _set_point(self, parts: Sequence[Arrays]) -> list[Arrays]:
        """Set the recovery point. It is read only when a worker dies, so large parts of it do not stay in memory."""
        point: list[Arrays] = [{name: spill_to_disk(value) for name, value in part.items()} for part in parts]
        self._point, self._seconds = point, 0.0
        self._log.clear()  # mutant: log clear
        return point

    def _past(self) -> list[_Entry]:
        """The orders that bring a new worker to where the lost one was."""
        point = [] if self._point is None else [self._entry(Map(restore), self._point)]
        return [self._build, *point, *self._log]  # mutant: past

    def _ask(self, entry: _Entry) -> list[Answer]:
        """The answers of all workers, in order. A worker gets an order only when it has answered the one before."""
        todo = {w: deque([entry]) for w in range(len(self._routes))}
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
        return checked(entry.name, [answers[w] for w in range(len(self._routes))], self._routes)

    def _count_death(self, w: int, name: str, reason: str) -> None:
        self._deaths[w] += 1
        if self._deaths[w] >= DEATHS:
            here = shards_of(self._routes[w].block)
            raise EngineError(f"worker {w} with {here} died {DEATHS} times in a row during {name} ({reason}).")
