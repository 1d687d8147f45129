"""Engines on one machine that share memory with the driver: serial, and threads (kernels release the GIL).

And what every engine has: one BLAS thread, helpers for the driver, and the fixed binary tree over shard index along
which summaries are added, so that rounding never depends on who worked when, nor on how many workers there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, ClassVar

import scipy.linalg  # noqa: F401  (loads the BLAS that compiled code calls, so that the limit below reaches it)
from threadpoolctl import threadpool_limits

from unbounded.arrays import Arrays
from unbounded.contracts import Gathered, Message, Part, Recipe, Step, restore, state_of

Node = tuple[int, int]  # of the fixed tree, by its shards


def one_blas_thread() -> Any:
    """BLAS stays on one thread while an engine lives: shards are the parallelism, and bits must not depend on it."""
    return threadpool_limits(1, user_api="blas")


class Helpers:
    """Spread over the calling thread and n - 1 others."""

    def __init__(self, n: int):
        self._n = min(n, available_cores())
        self._pool = ThreadPoolExecutor(max(self._n - 1, 1), thread_name_prefix="unbounded-helper")

    def __call__(self, function: Part) -> None:
        others = [self._pool.submit(function, i, self._n) for i in range(1, self._n)]
        function(0, self._n)
        for other in others:
            other.result()

    def close(self) -> None:
        self._pool.shutdown()


class Serial:
    """One shard after another, in the calling thread: for debugging."""

    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, recipe: Recipe, n_workers: int | None = None):
        self._limits, self.spread = one_blas_thread(), Helpers(1)
        self._shards = [recipe(p) for p in range(recipe.n_shards)]
        self._each: Callable[..., Iterable[Any]] = map

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        return list(self._each(function, self._shards, *([] if own is None else [own])))

    def run(self, step: Step, message: Message) -> Gathered:
        added, private = Sum(len(self._shards)), []
        for p, summary in enumerate(self._each(step, self._shards, repeat(message.shared), message.own)):
            added.add((p, p + 1), summary.shared)
            private.append(summary.private)
        return Gathered(added.total, private)

    def save(self) -> list[Arrays]:
        return self.map(state_of)

    def load(self, parts: Sequence[Arrays]) -> None:
        self.map(restore, parts)

    def close(self) -> None:
        self.spread.close()
        self._limits.restore_original_limits()


class Threads(Serial):
    """Shards on a pool of threads; no copies."""

    def __init__(self, recipe: Recipe, n_workers: int | None = None):
        super().__init__(recipe)
        n_workers = min(recipe.n_shards, n_workers or available_cores())
        self._pool, self.spread = ThreadPoolExecutor(n_workers, thread_name_prefix="unbounded"), Helpers(n_workers)
        self._each = self._pool.map

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        super().close()


def available_cores() -> int:
    """Cores that this process may use, which in containers can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Sum:
    """Nodes of the tree of P shards, siblings added: never more than a few at a time where shards come in order.

    A node is named by the shards (start, stop) under it. Its children are the first half, whose size is a power of two,
    and the rest. Whoever holds some nodes adds those that are siblings, as soon as both are there, and passes on what
    is left.
    """

    def __init__(self, n_shards: int):
        self.n_shards = n_shards
        self.nodes: dict[Node, Arrays] = {}

    def add(self, node: Node, value: Arrays) -> None:
        """A shard p is the node (p, p + 1)."""
        start, stop = node
        size = 1 << (stop - start - 1).bit_length()
        while size < self.n_shards:
            left = start - start % (2 * size)  # mutant: tree left
            middle = left + size
            if middle < self.n_shards:  # else the parent has no other child
                sibling = (left, middle) if start == middle else (middle, min(middle + size, self.n_shards))
                if sibling not in self.nodes:
                    break
                other = self.nodes.pop(sibling)
                value = _plus(other, value) if start == middle else _plus(value, other)
            start, size = left, 2 * size
        self.nodes[start, min(start + size, self.n_shards)] = value

    @property
    def total(self) -> Arrays:
        """Of all shards, which must be there."""
        (whole,) = self.nodes.values()
        return whole


def _plus(a: Arrays, b: Arrays) -> Arrays:
    return {name: value + b[name] for name, value in a.items()}
