"""What a worker does, wherever it runs: it makes the shards of its block, and does with them what it is asked.

It knows no model, and not how orders reach it: processes, Ray and MPI all have this worker.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from unbounded.arrays import Arrays
from unbounded.contracts import Gathered, Recipe, Step
from unbounded.engines.local import Node, Sum, one_blas_thread


class Build(NamedTuple):
    """Make the shards of a block; the worker's own part is the block, a range."""

    recipe: Recipe


class Run(NamedTuple):
    """A step; own parts by shard. The answer is nodes of the tree and the private parts."""

    step: Step
    shared: Any


class Map(NamedTuple):
    """A function of each shard, and of its own part where there is one."""

    function: Callable[..., Any]


Order = Build | Run | Map


class Reduced(NamedTuple):
    """What a block says of a step."""

    nodes: dict[Node, Arrays]
    private: list[Arrays]


class Failure(NamedTuple):
    """What an order came to that raised an exception."""

    error: Exception


class Worker:
    """Holds a block of shards."""

    def __init__(self) -> None:
        self._limits = one_blas_thread()
        self._block = range(0)
        self._n_shards = 0
        self._shards: list[Any] = []

    def handle(self, order: Order, own: Any) -> Any:
        """The answer to an order; own: the parts of the shards of this block."""
        if isinstance(order, Build):
            self._block, self._n_shards = own, order.recipe.n_shards
            self._shards = [_named(p, order.recipe, p) for p in own]
            return None
        shards = list(zip(self._block, self._shards, strict=True))
        if isinstance(order, Map):
            rest = [()] * len(shards) if own is None else [(part,) for part in own]
            return [_named(p, order.function, shard, *rest[i]) for i, (p, shard) in enumerate(shards)]
        added, private = Sum(self._n_shards), []
        for (p, shard), part in zip(shards, own, strict=True):
            summary = _named(p, order.step, shard, order.shared, part)
            added.add((p, p + 1), summary.shared)
            private.append(summary.private)
        return Reduced(added.nodes, private)


def settle(environment: Mapping[str, str]) -> None:
    """Take over the driver's environment, in a process that may have been started in another one."""
    os.environ.update(environment)
    if "numba" in sys.modules:
        sys.modules["numba"].config.reload_config()


def blocks(n_shards: int, n_workers: int) -> list[range]:
    """Contiguous shards for each worker, as equal in number as can be."""
    return [range(w * n_shards // n_workers, (w + 1) * n_shards // n_workers) for w in range(n_workers)]


def parts_of(own: Sequence[Any] | None, blocks: Sequence[range]) -> list[Any]:
    """The shards' own parts, by worker."""
    return [None if own is None else list(own[block.start : block.stop]) for block in blocks]


def gather(n_shards: int, answers: Sequence[Reduced]) -> Gathered:
    """All workers' answers to a step, in their order, put together."""
    added = Sum(n_shards)
    for answer in answers:
        for node, value in answer.nodes.items():
            added.add(node, value)
    return Gathered(added.total, [part for answer in answers for part in answer.private])


def settled(name: str, answers: Sequence[Any], blocks: Sequence[range]) -> list[Any]:
    """All workers' answers, in their order; where one has failed, its exception is raised."""
    for w, (answer, block) in enumerate(zip(answers, blocks, strict=True)):
        if isinstance(answer, Failure):
            answer.error.add_note(f"during {name} on worker {w}, which holds {shards_of(block)}")
            raise answer.error
    return list(answers)


def name_of(order: Order) -> str:
    """What an order is called in messages."""
    if isinstance(order, Build):
        return "the recipe"
    function: Any = order[0]
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__name__))


def shards_of(block: range) -> str:
    return f"shard {block.start}" if len(block) == 1 else f"shards {block.start} to {block.stop - 1}"


def failure(error: Exception) -> Failure:
    """The exception, as it can travel, with the place where it was raised."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        notes = getattr(error, "__notes__", [])
        error = RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
        error.__notes__ = notes
    error.add_note("raised on a worker:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip())
    return Failure(error)


def _named(p: int, function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        error.add_note(f"in shard {p}")
        raise
