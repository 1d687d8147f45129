"""Engines on one machine that share memory with the driver: serial, and threads (kernels release the GIL).

And what every engine has: one BLAS thread, threads that help the driver, and the fixed tree along which shards are
added. Rounding must not depend on who worked when, nor on how many workers there are: so there is one binary tree over
shard index, whichever worker holds the shards.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, ClassVar

import numpy as np
import scipy.linalg  # noqa: F401  (loads the BLAS that compiled code calls, so that the limit below reaches it)
from threadpoolctl import threadpool_limits

from unbounded.arrays import Array, Arrays
from unbounded.contracts import BatchStep, Gathered, Message, Pairs, Piecewise, Recipe, Shard, Step, Summaries, Summary

Node = tuple[int, int]  # by the shards (start, stop) under it

BATCH = 4  # shards that a thread takes at a time, where a step takes several


def state_of(shard: Shard) -> Arrays:
    """What must be kept of a shard; a module-level function, so that it pickles."""
    return shard.arrays()


def restore(shard: Shard, arrays: Arrays) -> None:
    shard.restore(arrays)


def one_blas_thread() -> Any:
    """BLAS stays on one thread while an engine lives: shards are the parallelism, and bits must not depend on it."""
    return threadpool_limits(1, user_api="blas")


class Helpers:
    """A `Parallel`: the calling thread and n - 1 others do a piece each."""

    def __init__(self, n: int):
        self._n = min(n, available_cores())
        self._pool = ThreadPoolExecutor(max(self._n - 1, 1), thread_name_prefix="unbounded-helper")

    def __call__(self, function: Piecewise) -> None:
        others = [self._pool.submit(function, i, self._n) for i in range(1, self._n)]
        function(0, self._n)
        for other in others:
            other.result()

    def close(self) -> None:
        self._pool.shutdown()


class Sum:
    """Nodes of the tree of P shards, siblings added: never more than a few at a time where shards come in order.

    The children of a node are its first half, whose size is a power of two, and the rest. Siblings are added as
    soon as both are there. Several threads may add at once, each what it has completed.
    """

    def __init__(self, n_shards: int):
        self.n_shards = n_shards
        self.nodes: dict[Node, Arrays] = {}
        self._lock = threading.Lock()

    def add(self, node: Node, value: Arrays) -> None:
        """A shard p is the node (p, p + 1)."""
        while (other := self._sibling(node, value)) is not None:
            sibling, there = other
            value = _plus(there, value) if sibling < node else _plus(value, there)
            node = min(sibling, node)[0], max(sibling, node)[1]

    def add_report(self, p: int, summary: Summary | Summaries) -> Sequence[Arrays]:
        """Add what shards from p on report; returns their private parts."""
        if isinstance(summary, Summary):
            self.add((p, p + 1), summary.shared)
            return [summary.private]
        self._add_all(p, summary.shared)
        return summary.private

    def _add_all(self, start: int, values: Arrays) -> None:
        """Shards from `start` on, which come first in every array: the same sums, a level of the tree at a time."""
        count, size = len(next(iter(values.values()))), 1
        while count:
            last = start + (count - 1) * size
            ends = last + size >= self.n_shards
            if start == 0 and count == 1 and ends:
                return self.add((0, self.n_shards), _parts(values, 0))
            if start // size % 2 == 1:  # the left one of the pair is elsewhere
                self.add((start, min(start + size, self.n_shards)), _parts(values, 0))
                start, count, values = start + size, count - 1, _parts(values, slice(1, None))
            elif count % 2 == 1 and not ends:  # the right one is
                self.add((last, last + size), _parts(values, -1))
                count, values = count - 1, _parts(values, slice(0, -1))
            else:
                values = {name: _paired(value) for name, value in values.items()}
                count, size = -(-count // 2), 2 * size

    def _sibling(self, node: Node, value: Arrays) -> tuple[Node, Arrays] | None:
        """The sibling and its value, which are removed; None where it is not there yet, and this node waits for it."""
        sibling = sibling_of(node, self.n_shards)
        with self._lock:
            if sibling in self.nodes:
                return sibling, self.nodes.pop(sibling)
            self.nodes[node] = value
            return None

    @property
    def total(self) -> Arrays:
        """The sum of all shards, all of which must have been added."""
        return self.nodes[0, self.n_shards]


def sibling_of(node: Node, n_shards: int) -> Node:
    """The other child of the node's parent; of the root, a node that never comes."""
    start, stop = node
    size = 1 << (stop - start - 1).bit_length()
    while size < n_shards:
        left = start - start % (2 * size)  # mutant: tree left
        middle = left + size
        if middle < n_shards:  # else the parent has no other child, and the node is its own parent
            return (left, middle) if start == middle else (middle, min(middle + size, n_shards))
        start, size = left, 2 * size
    return (n_shards, n_shards)


def _parts(values: Arrays, which: Any) -> Arrays:
    return {name: value[which] for name, value in values.items()}


def _paired(value: Array) -> Array:
    """Sums of neighbours, two by two; an odd one at the end stays as it is."""
    half = len(value) // 2
    paired: Array = value[0 : 2 * half : 2] + value[1 : 2 * half : 2]
    return paired if len(value) == 2 * half else np.concatenate([paired, value[2 * half :]])


def _plus(a: Arrays, b: Arrays) -> Arrays:
    return {name: value + b[name] for name, value in a.items()}


def summaries(
    step: Step | BatchStep, shared: Any, shards: Iterable[tuple[int, Any, Any]]
) -> Iterator[tuple[int, Summary | Summaries]]:
    """(p, report of shard p), or one report for it and the shards that follow.

    shards: (p, shard, its own part), taken one by one as the step asks for them.
    """
    if not isinstance(step, BatchStep):
        for p, shard, own in shards:
            try:
                one = step(shard, shared, own)
            except Exception as error:
                error.add_note(f"in shard {p}")
                raise
            yield p, one
        return
    pending: deque[int] = deque()  # shards that the step has taken and not reported

    def pairs() -> Pairs:
        for p, shard, own in shards:
            pending.append(p)
            yield shard, own

    found = step.steps(pairs(), shared)
    while True:
        try:
            summary = next(found)
        except StopIteration:
            return
        except Exception as error:
            for p in pending:
                error.add_note(f"in shard {p}")
            raise
        numbers = [pending.popleft() for _ in range(len(summary.private) if isinstance(summary, Summaries) else 1)]
        yield numbers[0], summary


class Serial:
    """One shard after another, in the calling thread: for debugging."""

    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, recipe: Recipe, n_workers: int | None = None):
        self._limits, self.parallel = one_blas_thread(), Helpers(1)
        self._shards = [recipe(p) for p in range(recipe.n_shards)]

    @staticmethod
    def check(n_workers: int | None) -> None:
        """There is nothing to refuse."""

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        found: list[Any] = [None] * len(self._shards)

        def work(numbers: range) -> None:
            for p in numbers:
                found[p] = function(self._shards[p]) if own is None else function(self._shards[p], own[p])

        self._share(work, 1)
        return found

    def run(self, step: Step | BatchStep, message: Message) -> Gathered:
        added = Sum(len(self._shards))
        private: list[Arrays] = [{}] * len(self._shards)

        def work(numbers: range) -> None:
            pairs = ((p, self._shards[p], message.own[p]) for p in numbers)
            for p, summary in summaries(step, message.shared, pairs):
                own = added.add_report(p, summary)
                private[p : p + len(own)] = own

        if isinstance(step, BatchStep) and step.whole:
            work(range(len(self._shards)))
        else:
            self._share(work, BATCH if isinstance(step, BatchStep) else 1)
        return Gathered(added.total, private)

    def _share(self, work: Callable[[range], None], most: int) -> None:
        """Run something on all shards, by their numbers: a worker takes so many at a time, at most."""
        work(range(len(self._shards)))

    def save(self) -> list[Arrays]:
        return self.map(state_of)

    def load(self, parts: Sequence[Arrays]) -> None:
        self.map(restore, parts)

    def close(self) -> None:
        self.parallel.close()
        self._limits.restore_original_limits()


class Threads(Serial):
    """Shards on a pool of threads, of which the caller is one; no copies. Whoever is free takes the next shard."""

    def __init__(self, recipe: Recipe, n_workers: int | None = None):
        super().__init__(recipe)
        cores = n_workers or available_cores()
        self._n, self.parallel = min(recipe.n_shards, cores), Helpers(cores)
        self._pool = ThreadPoolExecutor(max(self._n - 1, 1), thread_name_prefix="unbounded")

    def _share(self, work: Callable[[range], None], most: int) -> None:
        """One task for each other thread, not for each shard: handing out a task takes longer than taking a number."""
        few = at_a_time(len(self._shards), self._n, most)
        # `next` of such an iterator is one step of the interpreter: no two threads are given the same shards.
        starts = iter(range(0, len(self._shards), few))

        def take() -> None:
            for start in starts:
                work(range(start, min(start + few, len(self._shards))))

        tasks = [self._pool.submit(take) for _ in range(self._n - 1)]
        try:
            take()
            for task in tasks:
                task.result()
        except BaseException:
            for _ in starts:  # use them up, so that no thread begins another shard
                pass
            wait(tasks)
            raise

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        super().close()


def at_a_time(n_shards: int, n_workers: int, most: int) -> int:
    """How many shards a worker takes: as many as it may, unless that would leave some without work in the end."""
    for few in range(most, 1, -1):
        if n_shards % (few * n_workers) == 0 or n_shards >= BATCH * few * n_workers:
            return few
    return 1


def available_cores() -> int:
    """Cores that this process may use: in containers, these can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
