"""An engine to copy: workers that live in this process, but are reached by pickles only, as if they were far away.

Copy it to src/unbounded/engines/, replace `_travel` and `_workers` by whatever carries orders and starts workers, list
it in MEMBERS of engines/__init__.py and give it an example in tests/engines/test_conformance.py. An engine imports
contracts and what engines share, and no model. Where workers may die, write a crew for `recovery.Remote` instead.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from unbounded.arrays import Arrays
from unbounded.contracts import BatchStep, Gathered, Message, Recipe, Step
from unbounded.engines.local import Helpers, one_blas_thread, restore, state_of
from unbounded.engines.worker import (
    Add,
    Answer,
    Build,
    Map,
    Order,
    Run,
    Worker,
    assign_blocks,
    checked,
    failure,
    name_of,
    parts_of,
)


class Skeleton:
    """Blocks of shards on workers. The number of workers may change nothing but the time."""

    options: ClassVar[tuple[str, ...]] = ()  # of its own, beside the recipe and n_workers

    def __init__(self, recipe: Recipe, n_workers: int | None = None):
        self._limits = one_blas_thread()  # in the driver, too: its global step must have the same bits everywhere
        self._routes = assign_blocks(recipe.n_shards, min(recipe.n_shards, n_workers or 2))
        self._workers = [Worker() for _ in self._routes]
        self.parallel = Helpers(len(self._routes))
        self._ask(Build(recipe), self._routes)  # every worker makes its own shards: data stay where they are

    @staticmethod
    def check(n_workers: int | None) -> None:
        """Raise an exception where the engine cannot run: this one runs everywhere."""

    def run(self, step: Step | BatchStep, message: Message) -> Gathered:
        answers = self._ask(Run(step, message.shared), self._own(message.own))
        private = [part for answer in answers for part in answer.value.private]
        return Gathered(self._total(answers), private)

    def _total(self, answers: Sequence[Answer]) -> Arrays:
        """Workers add up what shards report, along the tree: nodes go to whoever adds them, until worker 0 has all."""
        total, on_the_way = answers[0].value.total, list(enumerate(answers))
        while on_the_way:
            sender, answer = on_the_way.pop()
            for node, value in answer.nodes.items():
                to = self._routes[sender].leaving[node]
                (added,) = checked("the sum", [_answer(self._workers[to], Add(node), value)], [self._routes[to]])
                total = added.value.total or total
                on_the_way.append((to, added))
        return total

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        return [value for answer in self._ask(Map(function), self._own(own)) for value in answer.value]

    def save(self) -> list[Arrays]:
        return self.map(state_of)

    def load(self, parts: Sequence[Arrays]) -> None:
        self.map(restore, parts)

    def close(self) -> None:
        self.parallel.close()
        self._limits.restore_original_limits()

    def _own(self, own: Sequence[Any] | None) -> list[Any]:
        return parts_of(own, self._routes)

    def _ask(self, order: Order, own: Sequence[Any]) -> list[Answer]:
        """All workers' answers, in their order; the exception of one that failed is raised here, with where it was."""
        answers = [_answer(worker, order, part) for worker, part in zip(self._workers, own, strict=True)]
        return checked(name_of(order), answers, self._routes)


def _answer(worker: Worker, order: Order, own: Any) -> Any:
    """What happens on the worker's side."""
    try:
        return _travel(worker.handle(*_travel((order, own))))
    except Exception as error:
        return failure(error)


def _travel(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))
