"""The whole contract, on one page: read this first.

A chain advances in rounds. The *model* takes a global step from what was gathered, the *engine* runs the model's local
step on every shard, and what the shards report is summed along a fixed tree:

    state --jump--> state --global_step--> Message --engine.run(local_step)--> Gathered --gather--> state

- A **measure** draws ghosts, weights and hyper-parameters from counts. It never sees data.
- A **likelihood** is bound to columns and then turns rows into statistics that add up, and statistics into parameters.
- A **rule** says which atoms are instantiated in a round, and which shards may create some. It never sees Z.
- A **kernel** is the compiled part of the local step on one device: it prepares a tail, sweeps, counts statistics and
  computes predictive densities. How it lays out memory is its own business; its random numbers come from given keys.
- A **model** is a measure, a likelihood and a kernel put together. The hybrid sampler has a rule as well; its rivals
  are models with other steps.
- A **recipe** makes shard p anywhere; an **engine** holds shards and runs a step on each of them. It knows no model,
  and may lose a worker between any two calls: what it is given travels, so it must pickle.

`chain/` records draws of any model on any engine. Nothing on this page assumes that Z is a vector of labels.
`family.py` has the other half: what a model's folder exports, so that users can choose it by name and see its results.

What a model asks of its own parts beyond this page is said where the model is:

| part                                    | its contract       | in                            |
|-----------------------------------------|--------------------|-------------------------------|
| likelihood of mixtures and groups       | `Bound`            | likelihoods/base.py           |
| measure of a mixture                    | `PartitionMeasure` | models/mixtures/measures.py   |
| kernel of a mixture                     | `LabelKernel`      | models/mixtures/message.py    |
| measure of groups                       | `GroupMeasure`     | models/groups/measures.py     |
| content of groups: words, or rows       | `Content`          | models/groups/shard.py        |
| kernel of groups                        | `GroupKernel`      | models/groups/shard.py        |
| measure of features                     | `FeatureMeasure`   | models/features/measure.py    |
| likelihood of features                  | `FeatureBound`     | models/features/likelihood.py |
| kernel of features                      | `FeatureKernel`    | models/features/kernels.py    |
| reader of a format of files             | `Reader`           | sources/formats.py            |
| workers of an engine that may lose some | `Crew`             | engines/recovery.py           |

tests/typing/conforms.py assigns every member of every list to its contract, and mypy checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from unbounded.arrays import Array, Arrays, Data
from unbounded.columns import Columns

# ---- shards and engines

Part = Any  # what a model sends to shards, of its own type: engines hand it on without looking inside
ModelShard = Any  # a `Shard` of the model's own type
T = TypeVar("T")


class Shard(Protocol):
    """A slice of the data with its part of Z. Between two calls of the engine, its recipe and its arrays are all there
    is to it; a checkpoint keeps the arrays."""

    def arrays(self) -> dict[str, Array]: ...

    def restore(self, arrays: Arrays) -> None: ...


class Recipe(Protocol):
    """How to make each of P shards. It pickles, and only the worker that holds a shard makes it: data stay put."""

    @property
    def n_shards(self) -> int: ...

    @property
    def edges(self) -> Array:
        """[P + 1]: shard p holds rows edges[p] .. edges[p + 1]."""

    def __call__(self, p: int) -> Shard: ...


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

    shared: Part
    own: Sequence[Part]


Step = Callable[[ModelShard, Part, Part], Summary]  # (shard, shared, own)
Pairs = Iterator[tuple[ModelShard, Part]]  # shards with their own parts


@dataclass(frozen=True)
class Summaries:
    """What consecutive shards report, as one: statistics of shared atoms are stacked along a first axis of shards."""

    shared: Arrays
    private: Sequence[Arrays]


@dataclass(frozen=True)
class BatchStep:
    """A step on many shards: steps(pairs, shared) -> a summary for each pair, in their order, or one for several.

    It takes shards from the iterator until there are none left, so that what several of them need is made once, and
    compiled code or a device can work on several at a time. How many there are is up to the engine, unless the step
    wants the whole: then one thread takes all shards of the process. Called like a plain step, it has one shard.
    """

    steps: Callable[[Pairs, Part], Iterator[Summary | Summaries]]
    whole: bool = False

    def __call__(self, shard: ModelShard, shared: Part, own: Part) -> Summary:
        (summary,) = self.steps(iter([(shard, own)]), shared)
        if isinstance(summary, Summary):
            return summary
        return Summary({name: value[0] for name, value in summary.shared.items()}, summary.private[0])


Piecewise = Callable[[int, int], object]  # (i, n): does the i-th of n pieces of something
Parallel = Callable[[Piecewise], None]


def in_this_thread(function: Piecewise) -> None:
    """The plainest Parallel: everything in one piece."""
    function(0, 1)


class Engine(Protocol):
    """Holds P shards on W workers. Neither the engine nor W may change a bit of the result.

    Steps and functions are bound methods of models or shards, module-level functions, or partials of them.
    """

    options: ClassVar[tuple[str, ...]]  # what its user may set, beside the recipe and the number of workers

    @staticmethod
    def check(n_workers: int | None) -> None:
        """Refuse what cannot run here, before anything is read or written; None: as many workers as there are."""

    @property
    def parallel(self) -> Parallel:
        """Does all pieces of something at once, on as many threads of the driver as there are workers."""

    def run(self, step: Step | BatchStep, message: Message) -> Gathered:
        """step(shard, message.shared, message.own[p]) -> Summary on every shard, then the tree sum."""

    def map(self, function: Callable[..., T], own: Sequence[Part] | None = None) -> list[T]:
        """function(shard), or function(shard, own[p]), for every shard, in shard order."""

    def save(self) -> list[Arrays]:
        """What must be kept of every shard: for a checkpoint, and for an engine whose workers may die."""

    def load(self, parts: Sequence[Arrays]) -> None:
        """Go back to what `save` returned, on this engine or another one."""

    def close(self) -> None: ...


# ---- what a model is put together from


class Plan(NamedTuple):
    """What a rule decides for a round."""

    ghosts: int
    open: Array  # [P] which shards may create atoms
    published: bool = False
    j: int | str | None = None  # as published: how many atoms are instantiated, the largest; "several": see the rule
    lone: int = -1  # the only open shard, whose rows may use frozen atoms, too; -1: there is none


class Rule(Protocol):
    """Which atoms are instantiated. It sees sizes, the round's number and randomness of its own; never Z."""

    exact: ClassVar[bool]

    def plan(self, round_: int, n_rounds: int, n_rows: int, n_shards: int, rng: np.random.Generator) -> Plan: ...

    def settled(self, n_rounds: int) -> int:
        """The first round whose draws may be kept."""


Hyper = TypeVar("Hyper", bound=tuple[Any, ...])
Extent = TypeVar("Extent", contravariant=True)  # the number of rows, or the sizes of groups


class Measure(Protocol[Hyper, Extent]):
    """Ghosts, prior and hyper-parameters; `counts` says how much of each atom there is, extent the size of the data."""

    def start(self) -> Hyper:
        """Prior means, as a place to start from."""

    def draw_prior(self, rng: np.random.Generator) -> Hyper: ...

    def log_prior(self, hyper: Hyper) -> float: ...

    def log_prob(self, hyper: Hyper, counts: Array, extent: Extent) -> float:
        """Log probability of counts, hyper-parameters given."""

    def update(self, hyper: Hyper, counts: Array, extent: Extent, rng: np.random.Generator) -> Hyper:
        """Move the sampled hyper-parameters, ghosts integrated out."""

    def ghosts(
        self, hyper: Hyper, counts: Array, extent: Extent, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """(ghosts of each atom, ghosts of each atom that only ghosts hold), from their law given the counts."""

    def simulate(self, hyper: Hyper, extent: Extent, rng: np.random.Generator) -> Array:
        """Z from the prior."""

    def scalars(self, hyper: Hyper) -> dict[str, float]:
        """The sampled hyper-parameters, for the trace."""


class Bound(Protocol):
    """A likelihood with its prior, bound to columns."""

    @property
    def columns(self) -> Columns: ...

    def check(self, X: Data) -> None:
        """Refuse rows that the likelihood cannot have produced."""


class Likelihood(Protocol):
    """What the user writes: a prior, of which whatever is left out is scaled to the columns."""

    name: ClassVar[str]

    def bind(self, columns: Columns) -> Bound: ...


ShardT = TypeVar("ShardT", contravariant=True)
PartT = TypeVar("PartT", contravariant=True)
TailT = TypeVar("TailT")
AtomsT = TypeVar("AtomsT", contravariant=True)


class Kernel(Protocol[ShardT, PartT, TailT, AtomsT]):
    """The local step on one device. A part is what a shard needs of a round: finite part, law, codes, keys."""

    def prepare(self, shard: ShardT, part: PartT) -> TailT:
        """The collapsed state of the shard's private atoms, with room for new ones."""

    def sweep(self, shard: ShardT, part: PartT, tail: TailT) -> TailT:
        """All L sweeps over the shard's rows; Z changes in place, and the tail grows where atoms are born."""

    def statistics(self, shard: ShardT, part: PartT, tail: TailT) -> Summary:
        """What the shard reports of its Z."""

    def predictive(self, atoms: AtomsT, X: Data) -> Array:
        """What atoms say of new rows: log densities, or their Z where that can only be sampled."""


# ---- models


class State(Protocol):
    """The global part of the chain's state after a round; with the shards' arrays it is all there is."""

    @property
    def round(self) -> int: ...

    def arrays(self) -> dict[str, Array]: ...


StateT = TypeVar("StateT", bound=State)


class Model(Protocol[StateT]):
    """One sampler for one model: its chain is a sequence of states."""

    @property
    def exact(self) -> bool:
        """Whether its rounds leave the posterior invariant."""

    @property
    def seed(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def n_shards(self) -> int: ...

    def settled(self) -> int:
        """The first round whose draws may be kept."""

    def reseeded(self, seed: int) -> Self:
        """The same model with other random numbers."""

    def recipe(self, X: Data) -> Recipe:
        """The shards of these rows."""

    def begin(self, engine: Engine, assignments: Array) -> StateT:
        """The state with this Z."""

    def jump(self, state: StateT, engine: Engine) -> StateT:
        """Moves of whole atoms before the round, with as many calls of the engine as they need; or none."""

    def global_step(self, state: StateT, parallel: Parallel = in_this_thread) -> Message:
        """parallel: does what can be drawn in pieces, which have random numbers of their own: bits stay the same."""

    @property
    def local_step(self) -> Step | BatchStep:
        """step(shard, shared, own) on one shard, or a step on several."""

    def gather(self, state: StateT, message: Message, gathered: Gathered) -> StateT: ...

    def scalars(self, state: StateT) -> dict[str, float]:
        """Label-invariant numbers of a draw, for the trace."""

    def assignments(self, state: StateT, engine: Engine) -> Array:
        """Of all rows: a vector of labels, or a matrix Z whose width may change from draw to draw."""

    def snapshot(self, state: StateT, engine: Engine) -> dict[str, Array]:
        """A whole draw: the assignments of all rows and what prediction needs."""

    def restore(self, arrays: Arrays) -> StateT:
        """The state whose `arrays()` these are."""
