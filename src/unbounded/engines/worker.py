"""What a worker does, wherever it runs: it makes the shards of its block, and carries out orders on them.

It knows no model, and not how orders reach it: processes, Ray and MPI all use this worker.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from unbounded.arrays import Arrays
from unbounded.contracts import BatchStep, Recipe, Step
from unbounded.engines.local import Node, Sum, one_blas_thread, summaries
from unbounded.engines.routes import Route, plan_routes


class Build(NamedTuple):
    """Make the shards of a block; the worker's own part is its route."""

    recipe: Recipe


class Run(NamedTuple):
    """A step; own parts by shard. The answer is Reduced, with nodes of the tree that leave at once."""

    step: Step | BatchStep
    shared: Any


class Again(NamedTuple):
    """Report the last step once more: a worker was lost while results were added up."""


class Add(NamedTuple):
    """Add a node that another worker has sent; own: its value. The answer is Reduced, with nodes that leave now."""

    node: Node


class Map(NamedTuple):
    """A function of each shard, and of its own part where there is one."""

    function: Callable[..., Any]


Order = Build | Run | Again | Add | Map


class Reduced(NamedTuple):
    """What a block reports of a step: the private parts, and the sum of all shards where it is complete."""

    private: list[Arrays]
    total: Arrays | None


class Answer(NamedTuple):
    """What the driver gets, and nodes of the tree for other workers (or references to them)."""

    value: Any
    nodes: Mapping[Node, Any]


class Failure(NamedTuple):
    """The answer to an order that raised an exception."""

    error: Exception


class Worker:
    """Holds a block of shards."""

    def __init__(self) -> None:
        self._limits = one_blas_thread()
        self.route = Route(range(0), {}, 0)
        self._shards: list[Any] = []
        self._sum = Sum(0)
        self._nodes: dict[Node, Arrays] = {}  # of the last step, before any nodes of other workers were added
        self._private: list[Arrays] = []

    def handle(self, order: Order, own: Any) -> Answer:
        """The answer to an order; own: the parts of the shards of this block."""
        match order:
            case Build():
                self.route, self._sum = own, Sum(order.recipe.n_shards)
                self._shards = [_in_shard(p, order.recipe, p) for p in self.route.block]
                return Answer(None, {})
            case Map():
                rest = [()] * len(self._shards) if own is None else [(part,) for part in own]
                return Answer([_in_shard(p, order.function, shard, *rest[i]) for i, (p, shard) in self._numbered()], {})
            case Run():
                self._step(order, own)
                return self._answer(self._private)
            case Again():
                self._sum.nodes = dict(self._nodes)
                return self._answer(self._private)
            case Add():
                self._sum.add(order.node, own)
                return self._answer([])

    def _numbered(self) -> Iterator[tuple[int, tuple[int, Any]]]:
        return enumerate(zip(self.route.block, self._shards, strict=True))

    def _step(self, order: Run, own: Sequence[Any]) -> None:
        self._sum, self._nodes, self._private = Sum(self._sum.n_shards), {}, []
        shards = zip(self.route.block, self._shards, own, strict=True)
        for p, summary in summaries(order.step, order.shared, shards):
            self._private.extend(self._sum.add_report(p, summary))
        self._nodes = dict(self._sum.nodes)

    def _answer(self, private: list[Arrays]) -> Answer:
        nodes = self._sum.nodes
        leaving = {node: nodes.pop(node) for node in list(nodes) if node in self.route.leaving}
        return Answer(Reduced(private, nodes.get((0, self._sum.n_shards))), leaving)


def adopt_environment(environment: Mapping[str, str]) -> None:
    """Take over the driver's environment, in a process that may have been started in another one."""
    os.environ.update(environment)
    if "numba" in sys.modules:
        sys.modules["numba"].config.reload_config()


def assign_blocks(n_shards: int, n_workers: int) -> list[Route]:
    """Contiguous shards for each worker, as equal in number as can be, and where their sums go."""
    edges = [w * n_shards // n_workers for w in range(n_workers + 1)]
    return plan_routes(n_shards, [range(*edge) for edge in pairwise(edges)])


def parts_of(own: Sequence[Any] | None, routes: Sequence[Route]) -> list[Any]:
    """The shards' own parts, by worker."""
    return [None if own is None else list(own[route.block.start : route.block.stop]) for route in routes]


def checked(name: str, answers: Sequence[Any], routes: Sequence[Route]) -> list[Answer]:
    """All workers' answers, in their order; where one has failed, its exception is raised."""
    for w, (answer, route) in enumerate(zip(answers, routes, strict=True)):
        if isinstance(answer, Failure):
            answer.error.add_note(f"during {name} on worker {w}, which holds {shards_of(route.block)}")
            raise answer.error
    return list(answers)


def name_of(order: Order) -> str:
    """What an order is called in messages."""
    if not isinstance(order, Run | Map):
        return "the recipe" if isinstance(order, Build) else "the sum over workers"
    function: Any = order[0].steps if isinstance(order[0], BatchStep) else order[0]
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__name__))


def shards_of(block: range) -> str:
    return f"shard {block.start}" if len(block) == 1 else f"shards {block.start} to {block.stop - 1}"


def failure(error: Exception) -> Failure:
    """The exception, in a form that pickles, with the place where it was raised."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        notes = getattr(error, "__notes__", [])
        error = RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
        error.__notes__ = notes
    error.add_note("raised on a worker:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip())
    return Failure(error)


def _in_shard(p: int, function: Callable[..., Any], *args: Any) -> Any:
    """The result of a call; if it fails, the exception names the shard."""
    try:
        return function(*args)
    except Exception as error:
        error.add_note(f"in shard {p}")
        raise
