"""Engines on one machine that share memory with the driver: serial, and threads (kernels release the GIL)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import scipy.linalg  # noqa: F401  (loads the BLAS that compiled code calls, so that the limit below reaches it)
from threadpoolctl import threadpool_limits

from unbounded.contracts import Arrays, Gathered, Message, Step, Summary


def tree_sum(parts: Sequence[Arrays]) -> Arrays:
    """Sum along one fixed binary tree over shard index, so that rounding never depends on who worked when."""
    level = list(parts)
    while len(level) > 1:
        pairs = [
            {name: value + level[i + 1][name] for name, value in level[i].items()} for i in range(0, len(level) - 1, 2)
        ]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]


def gather(summaries: Sequence[Summary]) -> Gathered:
    return Gathered(tree_sum([s.shared for s in summaries]), [s.private for s in summaries])


class Serial:
    """One shard after another, in the calling thread: for debugging."""

    def __init__(self, shards: Sequence[Any], n_workers: int | None = None):
        self.shards = list(shards)
        # BLAS inside kernels stays on one thread: shards are the parallelism, and bits must not depend on it.
        self._limits = threadpool_limits(1, user_api="blas")

    def map(self, function: Callable[[Any], Any]) -> list[Any]:
        return [function(shard) for shard in self.shards]

    def run(self, step: Step, message: Message) -> Gathered:
        own = iter(message.own)
        return gather(self.map(lambda shard: step(shard, message.shared, next(own))))

    def close(self) -> None:
        self._limits.restore_original_limits()


class Threads:
    """Shards on a pool of threads; no copies."""

    def __init__(self, shards: Sequence[Any], n_workers: int | None = None):
        self.shards = list(shards)
        workers = min(len(self.shards), n_workers or available_cores())
        self._limits = threadpool_limits(1, user_api="blas")
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="unbounded")

    def map(self, function: Callable[[Any], Any]) -> list[Any]:
        return list(self._pool.map(function, self.shards))

    def run(self, step: Step, message: Message) -> Gathered:
        def work(p: int) -> Any:
            return step(self.shards[p], message.shared, message.own[p])

        return gather(list(self._pool.map(work, range(len(self.shards)))))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._limits.restore_original_limits()


def available_cores() -> int:
    """Cores that this process may use, which in containers can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
