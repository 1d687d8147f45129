"""The contracts on one page: read this first.

A chain advances in rounds. In a round, the *sampler* takes a global step from the gathered summary, the *engine* runs
the *kernel*'s local step on every shard, and the summaries of the shards are summed along a fixed tree:

    state --model.global_step--> Message --engine.run(model.local_step)--> Gathered --model.gather--> state

- A **measure** (`measures/`) draws ghosts, weights and hyper-parameters from counts. It never sees data.
- A **likelihood** (`likelihoods/base.Bound`) turns rows into statistics that add up, and draws parameters from them.
- A **kernel** (`kernels/`) is the local step: `local_step(shard, shared, own) -> Summary`. It knows no engine.
- A **recipe** makes shard p anywhere; an **engine** (`engines/`) holds shards and runs a step on each of them. It
  knows no model, and may lose a worker between any two calls: what it is given travels, so it must pickle.
- A **model** (`samplers/`) is a measure, a likelihood and an instantiation rule put together: the global step. A
  **sampler** makes one; the samplers that the paper compares with are models with other steps.
- A **chain** (`chain/`) records draws of any model on any engine: traces, snapshots, checkpoints.

Nothing below assumes that Z is a vector of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from unbounded.arrays import Array, Arrays


class Shard(Protocol):
    """A slice of the data with its part of Z. Its state is what a checkpoint must keep."""

    def arrays(self) -> dict[str, Array]: ...

    def restore(self, arrays: Arrays) -> None: ...


def state_of(shard: Shard) -> Arrays:
    """What must be kept of a shard; with the recipe it is all there is, between any two calls of the engine."""
    return shard.arrays()


def restore(shard: Shard, arrays: Arrays) -> None:
    shard.restore(arrays)


class Recipe(Protocol):
    """How to make each of P shards. It pickles, and only the worker that holds a shard makes it: data stay put."""

    @property
    def n_shards(self) -> int: ...

    def __call__(self, p: int) -> Any: ...


@dataclass(frozen=True)
class Summary:
    """What a shard reports: statistics of shared atoms, which add up, and its private atoms, which do not."""

    shared: Arrays
    private: Arrays


@dataclass(frozen=True)
class Gathered:
    """All shards' reports: the sum over the fixed tree, and the private parts in shard order."""

    shared: Arrays
    private: Sequence[Arrays]


@dataclass(frozen=True)
class Message:
    """What the global step sends: one part for everybody, one for each shard."""

    shared: Any
    own: Sequence[Any]


Step = Callable[[Any, Any, Any], Any]
Part = Callable[[int, int], Any]  # (i, n): do the i-th of n parts of something
Spread = Callable[[Part], None]


def alone(function: Part) -> None:
    """The plainest Spread."""
    function(0, 1)


class Engine(Protocol):
    """Holds P shards on W workers. Neither the engine nor W may change a bit of the result.

    Steps and functions are bound methods of models or shards, module-level functions, or partials of them.
    """

    @property
    def spread(self) -> Spread:
        """All parts of something at once, by as many threads of the driver as there are workers."""

    def run(self, step: Step, message: Message) -> Gathered:
        """step(shard, message.shared, message.own[p]) -> Summary on every shard, then the tree sum."""

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        """function(shard), or function(shard, own[p]), for every shard, in shard order."""

    def save(self) -> list[Arrays]:
        """What must be kept of every shard: for a checkpoint, and for an engine whose workers may die."""

    def load(self, parts: Sequence[Arrays]) -> None:
        """Go back to what `save` said, on this engine or another one."""

    def close(self) -> None: ...


class State(Protocol):
    """The global part of the chain's state after a round; with the shards' arrays it is all there is."""

    @property
    def round(self) -> int: ...

    def arrays(self) -> dict[str, Array]: ...


class Model(Protocol):
    @property
    def exact(self) -> bool: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def n_shards(self) -> int: ...

    def recipe(self, X: Any) -> Recipe:
        """The shards of these rows."""

    def jump(self, state: Any, engine: Engine) -> Any:
        """Moves of whole atoms before the round, which take exchanges of their own with the shards; or none."""

    def global_step(self, state: Any, spread: Spread = alone) -> Message:
        """spread: for what can be drawn in pieces, each with randomness of its own, so that it does not matter how."""

    def local_step(self, shard: Any, shared: Any, own: Any) -> Summary: ...

    def gather(self, state: Any, message: Message, gathered: Gathered) -> Any: ...

    def scalars(self, state: Any) -> dict[str, float]:
        """Label-invariant numbers of a draw, for the trace."""

    def assignments(self, state: Any, engine: Engine) -> Array:
        """Of all rows: a vector of labels, or a matrix Z whose width may change from draw to draw."""

    def snapshot(self, state: Any, engine: Engine) -> dict[str, Array]:
        """A whole draw: the assignments of all rows and what prediction needs."""

    def restore(self, arrays: Arrays) -> Any:
        """The state whose `arrays()` these are."""
